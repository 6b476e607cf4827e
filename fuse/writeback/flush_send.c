/* One FLUSH: the snapshot, reading its bytes when they go inline, the message and its answer.
 *
 * A send that carries dirty bytes takes its snapshot when it begins (inline) or when its ROUND comes (chained).  The
 * send is in flush.sends until its answer.  An abandoned send is not there, and only waits for its last callback.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "fuse/writeback/flush_priv.h"

enum { FLUSH_INLINE = 1, FLUSH_REPLAY = 2, READ_AT_ONCE = KR_BLOCK_SIZE };

static void on_answer(void *context, int err, const void *reply, struct kr_buf *data);

static struct kr_flush_send *new_send(struct kr_file *file)
{
	struct kr_flush_send *send = kr_xcalloc(1, sizeof(*send));

	send->file = kr_file_get(file);
	kr_extent_map_init(&send->extents);
	kr_list_append(&file->flush->sends, &send->link);
	return send;
}

/* No reference is left: no call, no job, no stream. */
static void free_send(struct kr_flush_send *send)
{
	struct kr_file *file = send->file;

	kr_list_remove(&send->link);
	kr_chain_abort(send->chain);
	kr_flush_release_map(file, &send->extents);
	if (send->buf)
		kr_buf_put(send->buf);
	free(send->ranges);
	free(send);
	kr_flush_settle(file);
	kr_file_put(file);
}

static void hold(void *journal, const struct kr_extent *piece)
{
	kr_journal_hold(journal, piece);
}

int kr_flush_snapshot(struct kr_flush_send *send)
{
	struct kr_file *file = send->file;

	KR_SCOPED_LOCK(&file->lock);
	if (kr_extent_map_copy(&file->dirty, &send->extents) < 0)
		return -ENOMEM;
	kr_extent_map_for_each(&send->extents, hold, file->mount->journal);
	send->seq = kr_extent_map_max_seq(&send->extents);
	send->mtime = file->mtime;
	send->clear_suid = file->clear_suid;
	return 0;
}

/* --- the message ------------------------------------------------------------------------------ */

static void submit(struct kr_flush_send *send, uint64_t bytes, unsigned flags)
{
	struct kr_flush_request request = {
		.file = send->file->fid,
		.seq = send->seq,
		.bytes = bytes,
		.flags = (send->inlined ? FLUSH_INLINE : 0) | (send->replay ? FLUSH_REPLAY : 0),
		.replay_round = send->replay ? send->replay->round : 0,
		.replay_order = send->replay ? send->replay->order : 0,
		.mtime = send->mtime,
		.clear_suid = send->clear_suid,
	};
	struct kr_slice slice = {0};

	if (send->inlined) {
		request.checksum = kr_checksum(send->buf->data, send->buf->length);
		request.extents = (struct kr_ranges){send->ranges, send->range_count};
		slice = (struct kr_slice){.buf = send->buf, .length = send->buf->length};
	}
	send->call = kr_rpc_call(send->file->mount->rpc, KR_MSG_FLUSH, &request, send->inlined ? &slice : NULL,
		send->inlined ? 1 : 0, flags, on_answer, send);
	if (send->buf) { /* the call has its own reference */
		kr_buf_put(send->buf);
		send->buf = NULL;
	}
	free(send->ranges);
	send->ranges = NULL;
}

struct gather {
	struct kr_flush_send *send;
	struct kr_journal *journal;
};

/* Adjacent extents become one range. */
static void gather_piece(void *context, const struct kr_extent *piece)
{
	struct gather *gather = context;
	struct kr_flush_send *send = gather->send;
	struct kr_range *last = send->range_count ? &send->ranges[send->range_count - 1] : NULL;

	if (send->read_err)
		return;
	if (last && last->offset + last->length == piece->offset)
		last->length += piece->length;
	else
		send->ranges[send->range_count++] = (struct kr_range){piece->offset, piece->length};
	send->read_err = kr_journal_read_verified(
		gather->journal, piece->position, send->buf->data + send->buf->length, piece->length);
	if (send->read_err)
		kr_log_error("bytes %" PRIu64 " to %" PRIu64 " of file %" PRIu64 ": %s", piece->offset,
			piece->offset + piece->length, send->file->base.ino, kr_fail_reason());
	send->buf->length += piece->length;
}

/* Any thread: reads all extents into one buffer. */
static void read_bytes(struct kr_flush_send *send, const struct kr_extent_map *extents)
{
	struct gather gather = {send, send->file->mount->journal};

	send->buf = kr_buf_new(extents->bytes);
	send->ranges = calloc(extents->count, sizeof(*send->ranges));
	if (!send->buf || !send->ranges)
		send->read_err = -ENOMEM;
	else
		kr_extent_map_for_each(extents, gather_piece, &gather);
}

/* What begins with a journal that cannot be read ends here. */
static void answer(struct kr_flush_send *send, int err, const struct kr_flush_reply *reply);

static void bytes_read(struct kr_flush_send *send)
{
	send->reading = false;
	if (send->abandoned)
		free_send(send);
	else if (send->read_err)
		answer(send, send->read_err == -EBADMSG ? -EIO : send->read_err, NULL);
	else
		submit(send, send->extents.bytes, KR_RPC_HARD);
}

static void read_in_pool(uv_work_t *work)
{
	struct kr_flush_send *send = work->data;

	read_bytes(send, &send->extents);
}

static void after_read(uv_work_t *work, int status)
{
	struct kr_flush_send *send = work->data;

	if (status)
		send->read_err = -ECANCELED;
	bytes_read(send);
}

int kr_flush_send_dirty(struct kr_file *file)
{
	struct kr_flush_send *send;
	uint64_t bytes, count;

	pthread_mutex_lock(&file->lock);
	bytes = file->dirty.bytes;
	count = file->dirty.count;
	pthread_mutex_unlock(&file->lock);
	send = new_send(file);
	send->number = ++file->flush->begun;
	send->inlined = bytes <= KR_INLINE_MAX && count <= KR_FLUSH_RANGES_MAX;
	if (!send->inlined) {
		KR_SCOPED_LOCK(&file->lock);
		send->seq = kr_extent_map_max_seq(&file->dirty);
		send->mtime = file->mtime;
		send->clear_suid = file->clear_suid;
	} else if (kr_flush_snapshot(send) < 0) {
		free_send(send);
		return -ENOMEM;
	}
	/* A writer may have come between: then it is inline no longer. */
	if (send->inlined && (send->extents.bytes > KR_INLINE_MAX || send->extents.count > KR_FLUSH_RANGES_MAX)) {
		send->inlined = false;
		bytes = send->extents.bytes;
		kr_flush_release_map(file, &send->extents);
	}
	if (!send->inlined) {
		submit(send, bytes, KR_RPC_HARD);
		return 0;
	}
	send->reading = true;
	send->work.data = send;
	if (send->extents.bytes <= READ_AT_ONCE ||
		uv_queue_work(file->mount->loop, &send->work, read_in_pool, after_read) < 0) {
		read_bytes(send, &send->extents);
		bytes_read(send);
	}
	return 0;
}

int kr_flush_send_replay(struct kr_file *file, struct kr_applied *applied, unsigned flags)
{
	struct kr_flush_send *send = new_send(file);

	send->replay = applied;
	send->restores = applied->lost;
	send->seq = applied->up_to;
	send->mtime = applied->mtime;
	send->clear_suid = applied->clear_suid;
	send->inlined = applied->extents.bytes <= KR_FLUSH_REPLAY_INLINE;
	if (send->inlined)
		read_bytes(send, &applied->extents);
	if (send->read_err) {
		int err = send->read_err;

		free_send(send);
		return err;
	}
	submit(send, applied->extents.bytes, flags);
	return 0;
}

void kr_flush_send_abandon(struct kr_flush_send *send)
{
	send->abandoned = true;
	kr_list_remove(&send->link);
	kr_chain_abort(send->chain);
	send->chain = NULL;
	if (send->replay == NULL) {
		send->file->flush->plan.in_flight = false;
		send->file->flush->failed = send->number;
	}
	if (send->call) /* its callback, at once or later, frees it */
		kr_rpc_cancel(send->file->mount->rpc, send->call);
	else if (!send->reading)
		free_send(send);
}

/* --- what is sent behind it ------------------------------------------------------------------- */

uint64_t kr_flush_under_way(const struct kr_file *file, uint64_t seq)
{
	const struct kr_flush_send *send;

	if (!kr_session_facts(file->mount->session)->behind)
		return 0;
	KR_LIST_FOR_EACH(send, &file->flush->sends, link)
		if (!send->replay && send->call && send->seq >= seq)
			return send->number;
	return 0;
}

bool kr_flush_was_taken(const struct kr_file *file, uint64_t under_way)
{
	return file->flush->taken >= under_way && file->flush->failed < under_way;
}

/* --- the answer ------------------------------------------------------------------------------- */

static void dirty_applied(struct kr_flush_send *send, const struct kr_flush_reply *reply)
{
	struct kr_file *file = send->file;
	struct kr_applied *applied = kr_flush_add_applied(file, &send->extents, send->seq, reply->round);

	applied->mtime = send->mtime;
	applied->clear_suid = send->clear_suid;
	kr_file_flushed(file, send->seq, reply, &applied->extents);
	pthread_mutex_lock(&file->lock);
	/* When nothing is left, everything ever written is there, also what was truncated away. */
	file->flushed_seq = kr_extent_map_empty(&file->dirty) ? KR_MAX(file->written_seq, send->seq) : send->seq;
	file->flush->noticed = file->flush->backlog_noticed = false;
	if (!(file->holder.held & KR_LEASE_WRITE))
		file->flush->unseen++;
	if (!kr_extent_map_empty(&file->dirty))
		kr_flush_dirtied(file);
	pthread_mutex_unlock(&file->lock);
	if (reply->stable)
		kr_flush_stable(file, reply->round);
}

static void replay_applied(struct kr_flush_send *send, const struct kr_flush_reply *reply)
{
	struct kr_applied *applied = send->replay;
	struct kr_file *file = send->file;

	kr_journal_note_applied(file->mount->journal, file->journal_file, applied, reply->round,
		kr_session_facts(file->mount->session)->boot_id);
	applied->before_claims = false;
	file->flush->applied_ns = kr_clock_ns();
	kr_unjudged_gone_in(file);
	kr_file_refresh(file);
	if (reply->stable)
		kr_flush_stable(file, reply->round);
}

/* The server did not take lost bytes of a failed sync in their turn.  An ordinary flush brings them, and reports a
 * refusal, too.  A late node's bytes may be from before it was away: then the node asks first. */
static void not_restored(struct kr_flush_send *send, int err)
{
	if (err == -ENOTCONN || err == -EINTR || err == -ECANCELED)
		return; /* its session has ended: kr_flusher_session_lost */
	kr_flush_forgo_order(send->file);
	kr_flush_hold_unclaimed(send->file, -EIO);
}

static void refused(struct kr_flush_send *send, int err, int before)
{
	struct kr_file *file = send->file;

	if (err == -ESTALE || send->damaged || send->read_err == -EBADMSG) {
		kr_flush_orphan(file, err);
	} else if (send->restores) {
		not_restored(send, err);
		return;
	} else if (send->replay) { /* its turn is over: others' rounds that come after it go in */
		struct kr_flush_send *other, *next;

		KR_LIST_FOR_EACH_SAFE(other, next, &file->flush->sends, link)
			if (other != send)
				kr_flush_send_abandon(other);
		file->flush->keeps_replays = true;
		kr_unjudged_begin(file, err);
		return;
	} else {
		kr_file_flush_failed(file, err);
	}
	if (err != before) /* once, not at each retry */
		kr_log_warn("file %" PRIu64 ": its bytes are not at the server and stay in the journal: %s",
			file->base.ino, strerror(-err));
}

/* An older round is still to be replayed, and after it this round has to go in again.  An APPLIED of this round would
 * say that there is no older round. */
static bool comes_too_early(const struct kr_flush_send *send)
{
	const struct kr_link *before = send->replay->link.prev;

	return before != &send->file->flush->applied.head &&
		!kr_flush_is_current_boot(send->file, KR_LIST_ENTRY(before, struct kr_applied, link));
}

/* A failed sync may have lost the bytes of which this answer tells, or other bytes for which its APPLIED record would
 * count as well. */
static bool is_overtaken(const struct kr_flush_send *send, const struct kr_flush_reply *reply)
{
	const struct kr_flush *flush = send->file->flush;

	if (send->replay && !send->restores)
		return !reply->stable && (reply->round <= flush->lost_round || comes_too_early(send));
	if (flush->unstable && reply->round > flush->unstable_after)
		return true; /* what it comes after will be dirty, and so would it */
	if (send->replay)
		return !reply->stable && reply->round <= flush->lost_round;
	return reply->round <= flush->lost_round || kr_flush_has_lost(send->file);
}

static void answer(struct kr_flush_send *send, int err, const struct kr_flush_reply *reply)
{
	struct kr_file *file = kr_file_get(send->file);
	int before = file->flush->plan.refused;
	bool told;

	if (err == 0 && !send->replay && !send->inlined && send->round != reply->round) {
		kr_log_error("the server applied round %" PRIu64 " of a file, of which nothing was sent to it",
			reply->round);
		err = -EAGAIN;
	}
	if (err == 0 && is_overtaken(send, reply))
		err = -ECONNRESET; /* as if it had not been heard: it is sent again */
	if (!send->replay)
		*(err ? &file->flush->failed : &file->flush->taken) = send->number;
	if (send->replay)
		told = err != 0 && err != -EAGAIN && err != -ECONNRESET && err != -ENOTCONN && err != -EINTR &&
			err != -ECANCELED;
	else
		told = kr_flush_plan_answered(&file->flush->plan, err, kr_clock_ns());
	if (err == 0 && send->replay)
		replay_applied(send, reply);
	else if (err == 0)
		dirty_applied(send, reply);
	else if (told)
		refused(send, err, before);
	else if (send->restores)
		not_restored(send, err);
	else if (send->replay && (err == -EAGAIN || err == -ECONNRESET))
		file->flush->keeps_replays =
			true; /* no more is taken before RECLAIM; those on their way may be in, and are heard first */
	else if (err == -EAGAIN)
		kr_file_flush_untaken(file);
	free_send(send);
	if (!kr_flusher_of(file)->stopped) {
		kr_flush_step(file);
		kr_file_step(file);
	}
	kr_file_put(file);
}

static void on_answer(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct kr_flush_send *send = context;

	(void)data;
	send->call = 0;
	if (send->abandoned)
		free_send(send);
	else
		answer(send, err, reply);
}

/* One FLUSH: the snapshot, reading its bytes when they go inline, the message and its answer.
 *
 * A send takes its snapshot when it begins (inline) or when its ROUND comes (chained).  It is flush.send until its
 * answer.  An abandoned send is not, and only waits for its last callback.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "fuse/base/counters.h"
#include "fuse/writeback/flush_priv.h"

enum { READ_AT_ONCE = KR_BLOCK_SIZE };

static void on_answer(void *context, int err, const void *reply, struct kr_buf *data);

static struct kr_flush_send *new_send(struct kr_file *file)
{
	struct kr_flush_send *send = kr_xcalloc(1, sizeof(*send));

	send->file = kr_file_get(file);
	kr_extent_map_init(&send->extents);
	file->flush->send = send;
	return send;
}

/* No reference is left: no call, no job, no stream. */
static void free_send(struct kr_flush_send *send)
{
	struct kr_file *file = send->file;

	if (file->flush->send == send)
		file->flush->send = NULL;
	kr_chain_abort(send->chain);
	kr_journal_release_map(file->mount->journal, &send->extents);
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

/* It brings all writes up to there, also those that were sent before and have been overwritten or cut off since: the
 * server may wait for them.  [lock] held. */
static uint64_t covered_seq(const struct kr_file *file)
{
	return KR_MAX(kr_extent_map_max_seq(&file->dirty), file->flush->resend);
}

/* [lock] held. */
static void describe(struct kr_flush_send *send)
{
	const struct kr_file *file = send->file;

	send->seq = covered_seq(file);
	send->mtime = file->mtime;
	send->clear_suid = file->clear_suid;
	send->resends = kr_extent_map_seq_until(&file->dirty, file->flush->resend) != 0;
}

int kr_flush_snapshot(struct kr_flush_send *send)
{
	struct kr_file *file = send->file;

	KR_SCOPED_LOCK(&file->lock);
	if (kr_extent_map_copy(&file->dirty, &send->extents) < 0)
		return -ENOMEM;
	kr_extent_map_for_each(&send->extents, hold, file->mount->journal);
	describe(send);
	return 0;
}

/* --- the message ------------------------------------------------------------------------------ */

static void submit(struct kr_flush_send *send, uint64_t bytes)
{
	struct kr_flush_request request = {
		.file = send->file->fid,
		.seq = send->seq,
		.bytes = bytes,
		.flags = (send->inlined ? KR_FLUSH_INLINE : 0) | (send->resends ? KR_FLUSH_RESEND : 0),
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
		send->inlined ? 1 : 0, KR_RPC_HARD, on_answer, send);
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
static void read_bytes(struct kr_flush_send *send)
{
	struct gather gather = {send, send->file->mount->journal};

	send->buf = kr_buf_new(send->extents.bytes);
	send->ranges = calloc(send->extents.count, sizeof(*send->ranges));
	if (!send->buf || !send->ranges)
		send->read_err = -ENOMEM;
	else
		kr_extent_map_for_each(&send->extents, gather_piece, &gather);
}

/* Ends SEND, also if the node could not read the bytes in its journal. */
static void answer(struct kr_flush_send *send, int err, const struct kr_flush_reply *reply);

static void bytes_read(struct kr_flush_send *send)
{
	send->reading = false;
	if (send->abandoned)
		free_send(send);
	else if (send->read_err)
		answer(send, send->read_err == -EBADMSG ? -EIO : send->read_err, NULL);
	else
		submit(send, send->extents.bytes);
}

static void read_in_pool(uv_work_t *work)
{
	read_bytes(work->data);
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
		describe(send);
	} else if (kr_flush_snapshot(send) < 0) {
		free_send(send);
		return -ENOMEM;
	}
	/* A writer may have come between: then it is inline no longer. */
	if (send->inlined && (send->extents.bytes > KR_INLINE_MAX || send->extents.count > KR_FLUSH_RANGES_MAX)) {
		send->inlined = false;
		bytes = send->extents.bytes;
		kr_journal_release_map(file->mount->journal, &send->extents);
	}
	if (!send->inlined) {
		submit(send, bytes);
		return 0;
	}
	send->reading = true;
	send->work.data = send;
	if (send->extents.bytes <= READ_AT_ONCE ||
		uv_queue_work(file->mount->loop, &send->work, read_in_pool, after_read) < 0) {
		read_bytes(send);
		bytes_read(send);
	}
	return 0;
}

/* The server may have applied it, or will. */
static void note_sent(struct kr_flush_send *send)
{
	struct kr_flush *flush = send->file->flush;

	if (send->inlined || send->round)
		flush->resend = KR_MAX(flush->resend, send->seq);
}

void kr_flush_send_abandon(struct kr_file *file)
{
	struct kr_flush_send *send = file->flush->send;

	if (!send)
		return;
	send->abandoned = true;
	file->flush->send = NULL;
	kr_chain_abort(send->chain);
	send->chain = NULL;
	file->flush->plan.in_flight = false;
	file->flush->failed = send->number;
	if (send->call) { /* its callback, at once or later, frees it */
		note_sent(send);
		kr_rpc_cancel(file->mount->rpc, send->call);
	} else if (!send->reading) {
		free_send(send);
	}
}

/* The server may hold the file for bytes that this node will not send any more: a FLUSH without bytes ends that. */
void kr_flush_waive(struct kr_file *file)
{
	struct kr_flush *flush = file->flush;
	struct kr_flush_request request = {.file = file->fid, .flags = KR_FLUSH_INLINE | KR_FLUSH_RESEND};
	bool sent_later;

	pthread_mutex_lock(&file->lock);
	sent_later = !kr_extent_map_empty(&file->dirty) && (!flush->orphaned || flush->unjudged);
	request.seq = covered_seq(file);
	request.mtime = file->mtime;
	pthread_mutex_unlock(&file->lock);
	request.checksum = kr_checksum(NULL, 0);
	if (flush->resend && !sent_later)
		kr_rpc_call(
			file->mount->rpc, KR_MSG_FLUSH, &request, NULL, 0, KR_RPC_HARD | KR_RPC_OF_SESSION, NULL, NULL);
}

/* --- what is sent behind it ------------------------------------------------------------------- */

uint64_t kr_flush_under_way(const struct kr_file *file, uint64_t seq)
{
	const struct kr_flush_send *send = file->flush->send;

	if (!send || !send->call || send->seq < seq)
		return 0;
	return send->number;
}

bool kr_flush_was_taken(const struct kr_file *file, uint64_t under_way)
{
	return file->flush->taken >= under_way && file->flush->failed < under_way;
}

/* --- the answer ------------------------------------------------------------------------------- */

static void dirty_applied(struct kr_flush_send *send, const struct kr_flush_reply *reply)
{
	struct kr_file *file = send->file;

	kr_count(file->mount->counters, KR_COUNT_FLUSHES, 1);
	kr_count(file->mount->counters, KR_COUNT_FLUSHED_BYTES, send->extents.bytes);
	kr_file_flushed(file, send->seq, reply, &send->extents);
	kr_flush_add_applied(send, reply->round);
	pthread_mutex_lock(&file->lock);
	/* When nothing is left, everything ever written is there, also what was truncated away. */
	file->flushed_seq = kr_extent_map_empty(&file->dirty) ? KR_MAX(file->written_seq, send->seq) : send->seq;
	file->flush->noticed = file->flush->backlog_noticed = false;
	if (!(file->holder.held & KR_LEASE_WRITE))
		file->flush->unseen++;
	if (!kr_extent_map_empty(&file->dirty))
		kr_flush_dirtied(file);
	pthread_mutex_unlock(&file->lock);
}

/* On a full disk there can be thousands of such files, and the log has other things to say. */
static void say_refused(struct kr_file *file, int err)
{
	struct kr_flusher *flusher = file->mount->flusher;
	const uint64_t now = kr_clock_ns();
	struct kr_file_label label;

	if (now - flusher->refused_said_ns >= 60 * KR_NS_PER_S) {
		flusher->refused_said_ns = now;
		flusher->refused_said = 0;
	}
	if (flusher->refused_said > KR_FLUSH_REFUSED_LINES)
		return;
	if (flusher->refused_said++ < KR_FLUSH_REFUSED_LINES)
		kr_log_warn("%s: its bytes are not at the server and stay in the journal: %s",
			kr_file_label(file, &label), strerror(-err));
	else
		kr_log_warn("more files are refused; the log does not name them for a minute ('kairan status' counts "
			    "them, 'kairan flush' names them)");
}

static void refused(struct kr_flush_send *send, int err, int before)
{
	struct kr_file *file = send->file;

	kr_count(file->mount->counters, KR_COUNT_FLUSH_ERRORS, 1);
	if (err == -ESTALE || send->damaged || send->read_err == -EBADMSG) {
		kr_flush_orphan(file, err);
		file->flush->stale = err == -ESTALE && !send->damaged;
		if (err != -ESTALE)
			kr_flush_waive(file);
	} else {
		kr_file_flush_failed(file, err);
	}
	if (err != before) /* once, not at each retry */
		say_refused(file, err);
}

static void answer(struct kr_flush_send *send, int err, const struct kr_flush_reply *reply)
{
	struct kr_file *file = kr_file_get(send->file);
	struct kr_flush *flush = file->flush;
	int before = flush->plan.refused;
	bool told;

	if (err != -EAGAIN && !send->read_err)
		note_sent(send);
	if (err == 0 && !send->inlined && send->round != reply->round) {
		kr_log_error("the server applied round %" PRIu64 " of a file, of which nothing was sent to it",
			reply->round);
		err = -EAGAIN;
	}
	if (err == 0 && kr_flush_is_unstable(flush))
		err = -ECONNRESET; /* as if the answer were lost: see flush_redirty.c */
	*(err ? &flush->failed : &flush->taken) = send->number;
	told = kr_flush_plan_answered(&flush->plan, err, kr_clock_ns());
	if (err == 0)
		dirty_applied(send, reply);
	else if (told)
		refused(send, err, before);
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

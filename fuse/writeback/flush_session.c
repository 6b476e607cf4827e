/* The flusher when a session ends and another begins: what is settled by RECLAIM, what is replayed, what is asked
 * again. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "fuse/writeback/flush_priv.h"

bool kr_flush_is_current_boot(const struct kr_file *file, const struct kr_applied *applied)
{
	return !applied->lost && memcmp(applied->boot_id, kr_session_facts(file->mount->session)->boot_id, 16) == 0;
}

bool kr_flush_has_replays(struct kr_file *file, const uint8_t boot_id[16])
{
	struct kr_applied *applied;

	KR_LIST_FOR_EACH(applied, &file->flush->applied, link)
		if (applied->lost || memcmp(applied->boot_id, boot_id, 16) != 0)
			return true;
	return false;
}

bool kr_flush_awaits_replays(struct kr_file *file)
{
	return kr_flush_has_replays(file, kr_session_facts(file->mount->session)->boot_id);
}

bool kr_flush_is_unapplied(struct kr_file *file)
{
	return file->flush->unstable || kr_flush_awaits_replays(file);
}

/* What is unjudged may be the dirty bytes alone. */
static bool may_replay(const struct kr_flush *flush)
{
	return !flush->orphaned || (flush->uncovered && !flush->keeps_replays);
}

bool kr_flush_bound(struct kr_file *file)
{
	if (!kr_list_empty(&file->flush->sends) && kr_unjudged_refused(file))
		return true;
	if (may_replay(file->flush) && !kr_unjudged_in_silence(file) && kr_flush_awaits_replays(file))
		return true;
	return kr_unjudged_awaited(file);
}

struct seqs {
	uint64_t first, last;
};

static void note_seq(void *context, const struct kr_extent *piece)
{
	struct seqs *seqs = context;

	seqs->first = seqs->first ? KR_MIN(seqs->first, piece->seq) : piece->seq;
	seqs->last = KR_MAX(seqs->last, piece->seq);
}

void kr_flush_claims(struct kr_file *file, const uint8_t boot_id[16], struct kr_claims *ret_claims)
{
	struct seqs dirty = {0}, replays = {0};
	struct kr_applied *applied;

	*ret_claims = (struct kr_claims){0};
	KR_LIST_FOR_EACH(applied, &file->flush->applied, link) {
		if (!applied->lost && memcmp(applied->boot_id, boot_id, 16) == 0)
			continue;
		kr_extent_map_for_each(&applied->extents, note_seq, &replays);
		ret_claims->oldest = ret_claims->oldest ? KR_MIN(ret_claims->oldest, applied->round) : applied->round;
		ret_claims->newest = KR_MAX(ret_claims->newest, applied->round);
	}
	ret_claims->replay_first = replays.first;
	ret_claims->replay_last = replays.last;
	pthread_mutex_lock(&file->lock);
	kr_extent_map_for_each(&file->dirty, note_seq, &dirty);
	pthread_mutex_unlock(&file->lock);
	ret_claims->first = dirty.first;
	ret_claims->last = dirty.last;
}

/* What a round brought may have been cut off when it was asked for its bytes: in another boot there is nothing of it to
 * be claimed or sent again. */
static void drop_empty(struct kr_file *file)
{
	struct kr_applied *applied, *next;

	KR_LIST_FOR_EACH_SAFE(applied, next, &file->flush->applied, link)
		if (kr_extent_map_empty(&applied->extents) && !kr_flush_is_current_boot(file, applied))
			kr_journal_drop_applied(file->mount->journal, applied);
}

/* Replays begin anew at the new session, but those of the present boot: nobody waits for them there. Streams and
 * snapshots of rounds are void; a FLUSH stays asked, but not over what a failed sync has lost: that has to be dirty
 * before RECLAIM asks what may still go in.  Nor before what is to be replayed: if that is not taken in its turn it
 * would be covered, and the server, which knows the later bytes, would take it for applied. */
static void lose_sends(struct kr_file *file, enum kr_flush_reason reason)
{
	struct kr_flush_send *send, *next;
	bool replays;

	(void)reason;
	kr_flush_forgo_order(file);
	replays = kr_flush_awaits_replays(file);
	KR_LIST_FOR_EACH_SAFE(send, next, &file->flush->sends, link) {
		if (send->replay || replays || file->flush->unstable)
			kr_flush_send_abandon(send);
		else if (!send->inlined)
			kr_flush_forget_round(send);
	}
	drop_empty(file);
	kr_flush_settle_unstable(file);
	kr_flush_settle(file);
}

void kr_flusher_session_lost(struct kr_flusher *flusher)
{
	flusher->recovering = true;
	flusher->lost = true;
	kr_flush_for_each(flusher, lose_sends, KR_FLUSH_AGE);
	kr_chains_session_lost(flusher->mount->chains);
}

struct known {
	struct kr_file *file;
	struct kr_extent_map *extents;
	uint64_t seq;
};

static void take_known(void *context, const struct kr_extent *piece)
{
	struct known *known = context;

	if (piece->seq <= known->seq && kr_extent_map_insert(known->extents, piece, NULL, NULL) == 0)
		kr_journal_hold(known->file->mount->journal, piece);
}

/* The server has everything up to SEQ, only its answer was lost. */
static void settle_known(struct kr_file *file, uint64_t seq, uint64_t round, const struct kr_attr *attr)
{
	struct kr_flush_reply reply = {.round = round, .attr = *attr};
	struct kr_extent_map extents;
	struct known known = {file, &extents, seq};
	struct kr_applied *applied;
	struct kr_time mtime;
	bool clear_suid;

	kr_extent_map_init(&extents);
	pthread_mutex_lock(&file->lock);
	kr_extent_map_for_each(&file->dirty, take_known, &known);
	mtime = file->mtime;
	clear_suid = file->clear_suid;
	pthread_mutex_unlock(&file->lock);
	if (kr_extent_map_empty(&extents))
		return;
	applied = kr_flush_add_applied(file, &extents, seq, round);
	applied->mtime = mtime;
	applied->clear_suid = clear_suid;
	applied->before_claims = kr_flusher_of(file)->recovering;
	kr_file_flushed(file, seq, &reply, &applied->extents);
	KR_SCOPED_LOCK(&file->lock);
	file->flushed_seq = kr_extent_map_empty(&file->dirty) ? KR_MAX(file->written_seq, seq) : seq;
}

/* What the server is asked about dirty bytes that are uncovered when a session begins. Only a late node asks then:
 * others would wait for the end of the grace period, which waits for them. */
static bool is_uncovered_asked(const struct kr_file *file)
{
	return !kr_flusher_of(file)->recovering || kr_session_facts(file->mount->session)->late;
}

/* Whether an answer of the server decides about unjudged bytes.  Where they may go in it comes with WRITE, so that
 * nobody writes before they have; it does not for a user who may not write the file any more: others may write then,
 * and it is asked again. */
static bool is_judged(struct kr_file *file, int err, const struct kr_reclaim_reply *reply)
{
	if (!file->flush->unjudged || (file->flush->uncovered && !is_uncovered_asked(file)))
		return false;
	if (err || reply->conflict & KR_CONFLICT_DIRTY)
		return true;
	if (file->flush->unclaimed)
		return false;
	if (kr_unjudged_in_silence(file))
		return true; /* the replays alone are */
	if (reply->kinds & KR_LEASE_WRITE)
		return true;
	KR_SCOPED_LOCK(&file->lock);
	return kr_extent_map_empty(&file->dirty);
}

/* The server could not find out whether late bytes may go in: then they must not, also not when the next flush is due.
 */
static void keep_unjudged(struct kr_file *file, int err)
{
	const struct kr_session_facts *facts = kr_session_facts(file->mount->session);
	struct kr_flush_send *send, *next;
	struct kr_claims claims;

	kr_flush_claims(file, facts->boot_id, &claims);
	if (!(facts->late && claims.last) && !claims.replay_last)
		return;
	KR_LIST_FOR_EACH_SAFE(send, next, &file->flush->sends, link)
		kr_flush_send_abandon(send);
	file->flush->keeps_replays = true;
	kr_unjudged_begin(file, err);
}

struct doubt {
	uint64_t applied, forgotten;
	bool found;
};

static void look_for_doubt(void *context, const struct kr_extent *extent)
{
	struct doubt *doubt = context;

	doubt->found |= extent->seq > doubt->applied && extent->seq <= doubt->forgotten;
}

/* Whether bytes that have survived a loss of power may be older than what the server has of them: what they were
 * applied in is known to the one instance of the server that lived then, as far as it remembers. */
static bool is_doubtful(struct kr_file *file, int err, const struct kr_reclaim_reply *reply)
{
	struct doubt doubt = {0};

	if (!file->flush->vouched)
		return false;
	if (file->flush->vouched != kr_session_facts(file->mount->session)->instance)
		return true;
	if (err)
		return false;
	doubt.applied = reply->applied_seq;
	doubt.forgotten = reply->forgotten_seq;
	KR_SCOPED_LOCK(&file->lock);
	kr_extent_map_for_each(&file->dirty, look_for_doubt, &doubt);
	return doubt.found;
}

void kr_flush_reclaimed(struct kr_file *file, int err, const struct kr_reclaim_reply *reply)
{
	struct kr_flush_send *send, *next;

	kr_file_get(file);
	if (is_doubtful(file, err, reply)) {
		kr_log_error("file %" PRIu64
			     ": the server does not know any more which bytes of before the loss of power it has; "
			     "they wait in the journal to be discarded",
			file->base.ino);
		kr_flush_orphan(file, -EIO);
		err = err ? err : -EIO;
	}
	if (err == 0)
		file->flush->vouched = 0;
	if (err == 0 || err == -ESTALE) {
		file->flush->keeps_replays &= file->flush->unclaimed;
		if (is_judged(file, err, reply)) {
			bool dirty = !kr_unjudged_in_silence(file);

			kr_unjudged_end(file);
			if (dirty && err == 0 && !(reply->conflict & KR_CONFLICT_DIRTY))
				kr_uncovered_forget(kr_flusher_of(file)->uncovered, file);
		}
	}
	KR_LIST_FOR_EACH_SAFE(send, next, &file->flush->sends, link)
		if (err == -ESTALE || (err == 0 && (reply->conflict || send->seq <= reply->applied_seq)))
			kr_flush_send_abandon(send); /* before it is sent again */
	if (err == 0 && reply->applied_seq)
		settle_known(file, reply->applied_seq, reply->applied_round, &reply->attr);
	kr_flush_settle_unstable(file); /* else it would not leave the file with what is in conflict */
	if (err == 0 && reply->conflict)
		kr_late_begin(file, reply->conflict, &reply->attr);
	else if (err == -ESTALE) /* the server knows whether that is a conflict, perhaps since an earlier session */
		kr_late_begin(file, KR_CONFLICT_ALL, NULL);
	else if (err)
		keep_unjudged(file, err);
	if (err == -ESTALE && kr_flush_busy(file) && !file->flush->late) {
		kr_log_warn("file %" PRIu64
			    " is gone at the server; its unflushed bytes wait in the journal to be discarded",
			file->base.ino);
		kr_flush_orphan(file, err);
	}
	kr_flush_settle(file);
	kr_file_put(file);
}

static bool is_on_its_way(const struct kr_file *file, const struct kr_applied *applied)
{
	const struct kr_flush_send *send;

	KR_LIST_FOR_EACH(send, &file->flush->sends, link)
		if (send->replay == applied)
			return true;
	return false;
}

/* The server took one not in its turn, and takes none before it has judged them. What was on its way has been heard. */
static void ask_for_replays(struct kr_file *file)
{
	if (kr_list_empty(&file->flush->sends))
		kr_unjudged_ask(file);
}

/* In the order of their rounds; the server takes 1024 per file at once and says EAGAIN to the rest, which are asked for
 * by RECLAIM. */
void kr_flush_replay_file(struct kr_file *file, unsigned flags)
{
	struct kr_applied *applied;

	if (!may_replay(file->flush))
		return;
	if (file->flush->keeps_replays) {
		ask_for_replays(file);
		return;
	}
	KR_LIST_FOR_EACH(applied, &file->flush->applied, link) {
		int err = 0;

		if (!kr_flush_is_current_boot(file, applied) && !is_on_its_way(file, applied))
			err = kr_flush_send_replay(file, applied, flags);
		if (err) {
			kr_log_error("file %" PRIu64 ": round %" PRIu64 " cannot be replayed from the journal: %s",
				file->base.ino, applied->round, strerror(-err));
			kr_flush_orphan(file, err);
			break;
		}
	}
}

static void replay_early(struct kr_file *file, enum kr_flush_reason reason)
{
	(void)reason;
	kr_flush_replay_file(file, KR_RPC_EARLY | KR_RPC_HARD);
}

/* The server collects the replays of all nodes and applies them when each has sent RECLAIM_DONE: so their answers come
 * after it, and must not be waited for. */
void kr_flusher_replay(struct kr_flusher *flusher)
{
	kr_flush_for_each(flusher, replay_early, KR_FLUSH_AGE);
	kr_session_replayed(flusher->mount->session);
}

static void go_on(struct kr_file *file, enum kr_flush_reason reason)
{
	(void)reason;
	kr_flush_step(file);
	if (kr_flusher_of(file)->lost)
		kr_flush_confirm(file);
}

void kr_flusher_resumed(struct kr_flusher *flusher)
{
	flusher->recovering = false;
	kr_flush_watch_calls(flusher);
	kr_flush_for_each(flusher, go_on, KR_FLUSH_AGE);
	flusher->lost = false;
}

/* --- FSYNC, when STABLE may have been forgotten ----------------------------------------------- */

struct confirmation {
	struct kr_file *file; /* a reference */
	uint64_t round;
	uint8_t boot_id[16];
};

static void on_confirmed(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct confirmation *confirmation = context;
	struct kr_file *file = confirmation->file;

	(void)reply, (void)data;
	file->flush->confirming = false;
	file->flush->applied_ns = kr_clock_ns();
	/* A file that is gone needs no replay either. */
	if ((err == 0 || err == -ESTALE) && !file->flush->orphaned &&
		memcmp(confirmation->boot_id, kr_session_facts(file->mount->session)->boot_id, 16) == 0)
		kr_flush_stable(file, confirmation->round);
	free(confirmation);
	kr_file_put(file);
}

void kr_flush_confirm(struct kr_file *file)
{
	struct kr_fsync_request request = {.file = file->fid, .flags = KR_FSYNC_DATA};
	struct confirmation *confirmation;
	struct kr_applied *applied;
	uint64_t round = 0;

	KR_LIST_FOR_EACH(applied, &file->flush->applied, link)
		if (kr_flush_is_current_boot(file, applied))
			round = KR_MAX(round, applied->round);
	if (round == 0 || file->flush->confirming)
		return;
	confirmation = kr_xcalloc(1, sizeof(*confirmation));
	confirmation->file = kr_file_get(file);
	confirmation->round = round;
	memcpy(confirmation->boot_id, kr_session_facts(file->mount->session)->boot_id, 16);
	file->flush->confirming = true;
	kr_rpc_call(file->mount->rpc, KR_MSG_FSYNC, &request, NULL, 0, KR_RPC_HARD, on_confirmed, confirmation);
}

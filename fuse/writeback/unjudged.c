/* Bytes of which the server has not said whether they may still go into their file.  The server could not say (1), or
 * other nodes' bytes have gone in since (2), or can have gone in (3). (1) The conflict of a late node cannot be written
 * down, or a late node hears only then that a failed sync has lost bytes taken from it. (2) A replay was refused in its
 * turn. (3) Dirty bytes were refused, when a lease is given back.
 *
 * The node holds them like those of a file that is gone, and every program hears of the error.  But the node sends
 * RECLAIM now and then, until the server can tell: then they go into the file or to a conflict file (late.c).  The
 * server may only want to be asked once more for replays (AGAIN).  Then the node asks at once, and programs wait.
 * Programs hear of such replays only when the server has answered otherwise than that they may go in.  Meanwhile
 * `unjudged` is set, but not `orphaned`; nothing of the file is sent, because replays come first.  Loop thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/log.h"
#include "fuse/writeback/flush_priv.h"

/* Our lease was good when we wrote, and when we had these attributes. */
struct kr_time kr_file_since(const struct kr_file *file)
{
	if (file->flush->unjudged)
		return file->flush->unjudged_since;
	return kr_time_compare(file->base.ctime, file->mtime) > 0 ? file->base.ctime : file->mtime;
}

static void take_since(struct kr_file *file)
{
	KR_SCOPED_LOCK(&file->lock);
	file->flush->unjudged_since = kr_file_since(file);
}

bool kr_unjudged_in_silence(const struct kr_file *file)
{
	return file->flush->unjudged && !file->flush->orphaned;
}

/* The first time at once; again when some time has passed since the server was asked, or something has gone in since
 * (kr_unjudged_gone_in): it can say AGAIN as fast as it is asked. */
void kr_unjudged_ask(struct kr_file *file)
{
	if (file->flush->orphaned || file->flush->unjudged)
		return;
	take_since(file);
	file->flush->unjudged = true;
}

void kr_unjudged_gone_in(struct kr_file *file)
{
	if (!file->flush->unjudged)
		file->flush->judge_ns = 0;
}

void kr_unjudged_begin(struct kr_file *file, int err)
{
	struct kr_flush *flush = file->flush;

	if (flush->orphaned)
		return;
	if (flush->unjudged_err != err) /* once, not at each retry */
		kr_log_error(
			"file %" PRIu64
			": %s; its unflushed bytes wait in the journal until the server can take them, and tell whether "
			"others have changed it meanwhile",
			file->base.ino, strerror(-err));
	flush->unjudged_err = err;
	take_since(file);
	flush->unjudged = true;
	flush->judge_ns = kr_clock_ns() + KR_LATE_RETRY_MS * KR_NS_PER_MS;
	kr_flush_orphan(file, err);
}

struct refused {
	uint64_t up_to;
	bool found;
};

static void look_for_refused(void *context, const struct kr_extent *extent)
{
	struct refused *refused = context;

	refused->found |= extent->seq <= refused->up_to;
}

/* Whatever has been written since: holder->refused says whether it is worth trying again, not whether it is there.
 * What is gone, or damaged, is not sent again at all: whatever it is, it is not uncovered. [lock] held. */
static bool has_refused(const struct kr_file *file)
{
	struct refused refused = {.up_to = file->lease.refused_seq};

	if (!refused.up_to || (file->flush->orphaned && !file->flush->unjudged))
		return false;
	kr_extent_map_for_each(&file->dirty, look_for_refused, &refused);
	return refused.found;
}

bool kr_unjudged_refused(struct kr_file *file)
{
	KR_SCOPED_LOCK(&file->lock);
	return has_refused(file);
}

/* What is written while it is waited for does not make it wait anew. */
bool kr_unjudged_awaited(struct kr_file *file)
{
	struct kr_time since;
	uint64_t up_to = 0;

	pthread_mutex_lock(&file->lock);
	if (kr_lease_state_giving_up(&file->holder) && has_refused(file))
		up_to = file->lease.refused_seq;
	pthread_mutex_unlock(&file->lock);
	if (!up_to)
		return false;
	since = file->flush->unjudged ? file->flush->unjudged_since : kr_file_now(file->mount);
	return kr_uncovered_awaited(kr_flusher_of(file)->uncovered, file, since, up_to);
}

/* Why they were refused, also when the server has let them in since, and nobody has tried to send them again. */
static int refusal(const struct kr_flush *flush)
{
	if (flush->plan.refused)
		return flush->plan.refused;
	return flush->unjudged_err ? flush->unjudged_err : -EIO;
}

/* Our lease was good until we claimed what we had; what we have learned of the file since is what others have made of
 * it. */
void kr_unjudged_unclaimed(struct kr_file *file, int err)
{
	struct kr_flush *flush = file->flush;

	bool known = flush->unjudged;

	if (err)
		kr_unjudged_begin(file, err);
	else
		kr_unjudged_ask(file);
	if (!known && flush->claimed_since.sec) /* else this file has claimed nothing */
		flush->unjudged_since = flush->claimed_since;
	if (!known)
		flush->judge_ns = 0;
	flush->unclaimed = true;
}

/* Nobody else could write before now. */
void kr_flush_uncovered(struct kr_file *file)
{
	struct kr_flush *flush = file->flush;
	bool known = flush->unjudged; /* what others have changed since an earlier moment counts */

	if (flush->uncovered || !kr_unjudged_refused(file))
		return;
	flush->uncovered = true;
	kr_unjudged_begin(file, refusal(flush));
	if (!known)
		flush->unjudged_since = kr_file_now(file->mount);
}

void kr_unjudged_recovered(struct kr_file *file, const struct kr_uncovered *uncovered)
{
	struct kr_flush *flush = file->flush;
	struct kr_file_label label;

	kr_log_warn(
		"%s: the server has refused its unflushed bytes; they wait in the journal until it can tell whether others have changed it since",
		kr_file_label(file, &label));
	kr_uncovered_recovered(kr_flusher_of(file)->uncovered, file, uncovered);
	flush->uncovered = flush->unjudged = true;
	flush->unjudged_since = uncovered->since;
	flush->unjudged_err = -EIO; /* whatever it was */
	kr_flush_orphan(file, -EIO);
}

/* Whoever wanted it flushed meanwhile has heard of the error, and does not ask again. */
void kr_unjudged_end(struct kr_file *file)
{
	struct kr_flush *flush = file->flush;
	bool silent = kr_unjudged_in_silence(file);

	flush->unjudged = flush->unclaimed = false;
	if (silent)
		return;
	flush->orphaned = flush->uncovered = false;
	flush->plan = (struct kr_flush_plan){0};
	KR_SCOPED_LOCK(&file->lock);
	kr_flush_plan_want(&flush->plan, kr_extent_map_max_seq(&file->dirty), false);
}

/* Between sessions the file has been asked for with all others. */
static bool is_current(const struct kr_file *file)
{
	return file->flush->unjudged && file->flush->judge_generation == kr_files_generation(file->mount->files) &&
		!kr_flusher_of(file)->recovering;
}

static void take_leases(struct kr_file *file, const struct kr_reclaim_reply *reply)
{
	KR_SCOPED_LOCK(&file->lock);
	kr_lease_state_gained(&file->holder, reply->kinds);
	file->base = reply->attr;
	file->changes++;
	file->changed_ns = kr_clock_ns();
}

/* Not that the session ended, or that the server has too much to do. */
static bool is_verdict(int err)
{
	return err != -EAGAIN && err != -ENOTCONN && err != -EINTR && err != -ECANCELED;
}

static void judged(void *context, int err, const void *message, struct kr_buf *data)
{
	struct kr_file *file = context;
	const struct kr_reclaim_reply *reply = message;

	(void)data;
	file->flush->judging = false;
	file->flush->judge_ns = kr_clock_ns() + KR_LATE_RETRY_MS * KR_NS_PER_MS;
	if (is_current(file) && (err == 0 || err == -ESTALE)) {
		if (err == 0)
			take_leases(file, reply);
		kr_flush_reclaimed(file, err, reply);
		if (!kr_flusher_of(file)->stopped)
			kr_flush_step(file);
	} else if (is_current(file) && is_verdict(err)) {
		kr_unjudged_begin(file, err);
	}
	kr_file_step(file);
	kr_file_put(file);
}

/* Dirty bytes wait for the replays.  A lease that is to be given back waits for the dirty bytes, and the server's
 * answer perhaps for the lease. */
static bool holds_others_up(struct kr_file *file)
{
	KR_SCOPED_LOCK(&file->lock);
	return kr_lease_state_giving_up(&file->holder) && !kr_extent_map_empty(&file->dirty);
}

void kr_unjudged_step(struct kr_file *file)
{
	struct kr_flush *flush = file->flush;
	struct kr_reclaim_request request = {.file = file->fid,
		.opens = file->open.count,
		.kinds = (uint8_t)(KR_LEASE_WRITE | (flush->uncovered ? KR_RECLAIM_UNCOVERED : 0)),
		.since = flush->unjudged_since};
	struct kr_claims claims;

	if (kr_unjudged_in_silence(file) && holds_others_up(file))
		kr_unjudged_begin(file, -EIO);
	/* What is opened or closed meanwhile would be counted twice. */
	if (!flush->unjudged || flush->judging || kr_clock_ns() < flush->judge_ns || file->open.opening ||
		file->open.closing || !kr_list_empty(&flush->sends))
		return;
	kr_flush_claims(file, kr_session_facts(file->mount->session)->boot_id, &claims);
	request.first = claims.first;
	request.last = claims.last;
	request.replay_first = claims.replay_first;
	request.replay_last = claims.replay_last;
	request.oldest = claims.oldest;
	request.newest = claims.newest;
	flush->judging = true;
	flush->unclaimed = false;
	flush->judge_generation = kr_files_generation(file->mount->files);
	kr_rpc_call(file->mount->rpc, KR_MSG_RECLAIM, &request, NULL, 0, KR_RPC_HARD, judged, kr_file_get(file));
}

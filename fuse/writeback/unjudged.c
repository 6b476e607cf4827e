/* Bytes of which the server has not said whether they may still go into their file.  The server could not say: the
 * conflict of a late node cannot be written down, for instance.  Or they are uncovered: the server refused them, and a
 * lease was given back meanwhile, so other nodes can have changed the file since.
 *
 * The node holds them like those of a file that is gone, and every program hears of the error.  But the node sends
 * RECLAIM now and then, until the server can tell: then they go into the file or to a conflict file (late.c).  Loop
 * thread.
 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "common/base/log.h"
#include "fuse/writeback/flush_priv.h"

/* Our lease was good when we wrote, and when we had these attributes.  A time that a program has set says nothing. */
struct kr_time kr_file_since(const struct kr_file *file)
{
	struct kr_time ctime = file->base.ctime, mtime = file->mtime;

	if (file->flush->unjudged || file->flush->power_lost)
		return file->flush->unjudged_since;
	if (kr_time_compare(mtime, ctime) > 0 && kr_time_compare(mtime, kr_file_now(file->mount)) <= 0)
		return mtime;
	return ctime;
}

void kr_unjudged_begin(struct kr_file *file, int err)
{
	struct kr_flush *flush = file->flush;

	if (flush->orphaned)
		return;
	if (flush->unjudged_err != err) /* once, not at each retry */
		kr_log_error("file %" PRIu64
			     ": %s; its unflushed bytes wait in the journal until the server can take them, and tell "
			     "whether others have changed it meanwhile",
			file->base.ino, strerror(-err));
	flush->unjudged_err = err;
	pthread_mutex_lock(&file->lock);
	flush->unjudged_since = kr_file_since(file);
	pthread_mutex_unlock(&file->lock);
	flush->unjudged = true;
	flush->judge_ns = kr_clock_ns() + KR_LATE_RETRY_MS * KR_NS_PER_MS;
	kr_flush_orphan(file, err);
}

/* Whether FILE has refused bytes, whatever programs have written since.  (holder->refused says whether a retry is
 * worthwhile.)  The node never sends damaged bytes again, nor those of a file that is gone: none of these count.
 * [lock] held. */
static bool has_refused(const struct kr_file *file)
{
	if (file->flush->orphaned && !file->flush->unjudged)
		return false;
	return kr_extent_map_seq_until(&file->dirty, file->lease.refused_seq) != 0;
}

static bool is_refused(struct kr_file *file)
{
	KR_SCOPED_LOCK(&file->lock);
	return has_refused(file);
}

/* Whether the journal's directory must first say that the bytes are uncovered.  Writes that come during that wait do
 * not prolong it. */
static bool awaits_line(struct kr_file *file)
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

bool kr_unjudged_keeps_leases(struct kr_file *file)
{
	return (file->flush->send && is_refused(file)) || awaits_line(file);
}

/* Why the server refused the bytes.  The reason stays if the server would let them in since, and the node has not sent
 * them again. */
static int refusal(const struct kr_flush *flush)
{
	if (flush->plan.refused)
		return flush->plan.refused;
	return flush->unjudged_err ? flush->unjudged_err : -EIO;
}

/* No other node could write the file before now. */
void kr_unjudged_uncovered(struct kr_file *file)
{
	struct kr_flush *flush = file->flush;
	bool known = flush->unjudged || flush->power_lost; /* changes of other nodes count from an earlier moment on */

	if (flush->uncovered || !is_refused(file))
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
		"%s: the server has refused its unflushed bytes; they wait in the journal until it can tell whether "
		"others have changed it since",
		kr_file_label(file, &label));
	kr_uncovered_recovered(kr_flusher_of(file)->uncovered, file, uncovered);
	flush->uncovered = flush->unjudged = true;
	if (!flush->power_lost || kr_time_compare(uncovered->since, flush->unjudged_since) < 0)
		flush->unjudged_since = uncovered->since;
	flush->unjudged_err = -EIO; /* whatever it was */
	kr_flush_orphan(file, -EIO);
}

/* --- the answer ------------------------------------------------------------------------------- */

/* If the bytes may go in, the answer grants WRITE, so that no other node writes before.  The server grants no WRITE to
 * a user who may no longer write the file: other nodes may write then, and this node asks again.  At the beginning of a
 * session only a late node asks about uncovered bytes: for others the server would wait until the grace period ends,
 * and the grace period would wait for this answer. */
static bool is_judged(struct kr_file *file, int err, const struct kr_reclaim_reply *reply)
{
	const struct kr_flush *flush = file->flush;

	if (!flush->unjudged || (err && err != -ESTALE))
		return false;
	if (flush->uncovered && kr_flusher_of(file)->recovering && !kr_session_facts(file->mount->session)->late)
		return false;
	if (err || reply->conflict || (reply->kinds & KR_LEASE_WRITE))
		return true;
	KR_SCOPED_LOCK(&file->lock);
	return kr_extent_map_empty(&file->dirty);
}

/* Programs that asked for a flush meanwhile have got the error.  So the node itself asks for the flush now. */
void kr_unjudged_heard(struct kr_file *file, int err, const struct kr_reclaim_reply *reply)
{
	struct kr_flush *flush = file->flush;

	if (!is_judged(file, err, reply))
		return;
	flush->unjudged = flush->orphaned = flush->uncovered = false;
	flush->plan = (struct kr_flush_plan){0};
	if (!err && !reply->conflict)
		kr_uncovered_forget(kr_flusher_of(file)->uncovered, file);
	KR_SCOPED_LOCK(&file->lock);
	kr_flush_plan_want(&flush->plan, kr_extent_map_max_seq(&file->dirty), false);
}

/* --- asking ----------------------------------------------------------------------------------- */

/* A RECLAIM of a former session does not count: the node has sent RECLAIM for all files since. */
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

/* Other errors than the end of the session and an overloaded server. */
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

void kr_unjudged_step(struct kr_file *file)
{
	struct kr_flush *flush = file->flush;
	struct kr_reclaim_request request = {.file = file->fid,
		.opens = file->open.count,
		.kinds = (uint8_t)(KR_LEASE_WRITE | (flush->uncovered ? KR_RECLAIM_UNCOVERED : 0)),
		.since = flush->unjudged_since};
	struct kr_claims claims;

	/* The server would count an OPEN or CLOSE that is on its way twice. */
	if (!flush->unjudged || flush->judging || kr_clock_ns() < flush->judge_ns || file->open.opening ||
		file->open.closing || flush->send)
		return;
	claims = kr_flush_claims(file);
	request.first = claims.first;
	request.last = claims.last;
	request.resend = claims.resend;
	flush->judging = true;
	flush->judge_generation = kr_files_generation(file->mount->files);
	kr_rpc_call(file->mount->rpc, KR_MSG_RECLAIM, &request, NULL, 0, KR_RPC_HARD, judged, kr_file_get(file));
}

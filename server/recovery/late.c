/* See late.h. */
#include "server/recovery/late.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/fault.h"
#include "common/base/fail.h"
#include "common/base/log.h"
#include "server/recovery/conflict_log.h"
#include "server/flush/commit.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/recovery/recovery.h"
#include "server/leases/file_table.h"
#include "server/session/session.h"

static bool is_late(const struct kr_request *request)
{
	return request->session->recovery.lapse.kind != KR_LAPSE_NONE;
}

/* Whether the node has bytes that are not durable. */
static bool has_bytes(const struct kr_request *request)
{
	return request->msg.reclaim_request.last > request->reply.reclaim_reply.durable_seq;
}

/* The lowest number of these. */
static uint64_t first_of(const struct kr_request *request)
{
	return KR_MAX(request->msg.reclaim_request.first, request->reply.reclaim_reply.durable_seq + 1);
}

/* Whether the bytes were refused, and a lease was given back while the node had them: as the node says, or as is known
 * here, since *RET_EPOCH (0: not known). */
static bool is_uncovered(const struct kr_request *request, uint64_t *ret_epoch)
{
	const struct kr_reclaim_request *msg = &request->msg.reclaim_request;
	const struct kr_sfile *file = kr_sfile_find(request->server, &msg->file);
	const struct kr_attachment *attachment = file ? kr_attachment_find(file, request->session) : NULL;

	*ret_epoch = attachment ? attachment->cover.lost : 0;
	return *ret_epoch || (msg->kinds & KR_RECLAIM_UNCOVERED);
}

bool kr_late_has_bytes(const struct kr_request *request)
{
	uint64_t epoch;

	return has_bytes(request) && (is_late(request) || is_uncovered(request, &epoch));
}

bool kr_late_was_away(const struct kr_request *request)
{
	uint64_t epoch;

	is_uncovered(request, &epoch);
	return is_late(request) && !epoch; /* it was back when the server refused them */
}

bool kr_late_must_wait(const struct kr_request *request)
{
	return request->server->sessions->grace.active && (is_late(request) || kr_late_has_bytes(request));
}

bool kr_late_contested(const struct kr_request *request, const struct kr_sfile *file)
{
	const struct kr_attachment *other;
	const struct kr_late_claim *claim;

	/* A node that has reclaimed all can wait: no other node waits for it but for what it has leases of. */
	if (!request->session->recovery.reclaiming)
		return false;
	KR_LIST_FOR_EACH(claim, &file->late, link) {
		if (memcmp(claim->session->node_id, request->session->node_id, 16) != 0)
			return true;
	}
	KR_LIST_FOR_EACH(other, &file->attachments, of_file) {
		if (other->session != request->session && other->session->recovery.reclaiming &&
			(kr_lease_table_held(&file->leases, other->session->node) & KR_LEASE_WRITE))
			return true;
	}
	return false;
}

void kr_late_claim_begin(struct kr_late_claim *claim, const struct kr_request *request, struct kr_sfile *file)
{
	claim->session = request->session;
	kr_list_append(&file->late, &claim->link);
}

void kr_late_claim_end(struct kr_late_claim *claim)
{
	if (claim->session)
		kr_list_remove(&claim->link);
	claim->session = NULL;
}

/* --- the judgement ---------------------------------------------------------------------------- */

/* A former FLUSH may have applied bytes of this journal, which this instance does not remember.  Then others may have
 * written over them before the lapse. */
static bool is_forgotten(const struct kr_request *request)
{
	return request->msg.reclaim_request.resend && !request->reply.reclaim_reply.durable_seq;
}

/* A moment before TIME, as the node has said it: clocks differ by less than 1 s, and files' times tick. */
static struct kr_time safely(struct kr_time time)
{
	time.sec -= time.sec > INT64_MIN;
	return time;
}

/* Of a journal that may be a copy, or lack what power took: a former instance may have applied these bytes, and others
 * covered them.  `since` is of the oldest of them.  Bytes that programs wrote after our start were unflushed then,
 * and this instance knows what has become of them. */
static bool is_of_before(const struct kr_request *request)
{
	const struct kr_time since = request->msg.reclaim_request.since, started = request->server->recovery->started;

	return kr_time_compare(safely(since), started) <= 0 || !kr_commit_remembers_all(request->server->data) ||
		kr_setbacks_doubt(&request->server->recovery->setbacks, started, since);
}

/* Since when others' changes count. *RET_EXACT: the file has not left the table since. */
static struct kr_lapse lapse_of(const struct kr_request *request, bool *ret_exact)
{
	uint64_t epoch;
	bool uncovered = is_uncovered(request, &epoch);

	*ret_exact = epoch != 0;
	if (*ret_exact)
		return (struct kr_lapse){.kind = KR_LAPSE_KNOWN, .epoch = epoch};
	if (uncovered || (request->session->recovery.old_journal ? is_of_before(request) : is_forgotten(request)))
		return (struct kr_lapse){.kind = KR_LAPSE_UNKNOWN};
	return request->session->recovery.lapse;
}

/* It is behind still: what was changed after SINCE, which has been, can have an earlier time.  (The node's notion of
 * our clock errs by less than 1 s.) */
static bool clock_was_set_back(struct kr_time since)
{
	return since.sec > kr_clock_real_s() + 1;
}

/* Whether the times tell that others may have changed the file, which has CTIME (rows 6 and 7).  Others could from
 * `since` on, when the node gave a lease back, or had flushed.  But a lost node has had a good lease then: it serves
 * for three quarters of the lease time (fence.h), and others get the file after all of it.  That is a quarter of a
 * second later at least, and five seconds by default. */
static bool is_changed_since(const struct kr_request *request, struct kr_time ctime)
{
	const struct kr_time since = request->msg.reclaim_request.since;
	uint64_t epoch;
	const bool at_once = is_uncovered(request, &epoch) || request->session->recovery.old_journal;

	return kr_time_compare(ctime, at_once ? safely(since) : since) > 0 || clock_was_set_back(since) ||
		kr_setbacks_doubt(&request->server->recovery->setbacks, ctime, since);
}

/* Whether the file's latest changes are the node's own, and this instance knows which of its bytes they are.  If it
 * remembers all, but nothing of these, then rounds were broken off: their bytes come again. */
static bool is_own(const struct kr_request *request, const struct kr_sfile *file)
{
	return file->changed_epoch == file->own_epoch && memcmp(file->own_node, request->session->node_id, 16) == 0 &&
		(!is_forgotten(request) || kr_commit_remembers_all(request->server->data));
}

/* A journal that may be a copy, or lack what power took, ends before bytes that its node has flushed.  Its own would go
 * over these, which close or another node may count on. */
static bool is_overtaken(const struct kr_request *request, const struct kr_sfile *file)
{
	return request->session->recovery.old_journal &&
		request->msg.reclaim_request.last < kr_commit_reached_seq(file, request->session->node_id);
}

/* The other nodes have given their leases up, so the server has applied what they wrote.  The rows are those of the
 * table in late.h. */
static bool touched(const struct kr_request *request, const struct kr_sfile *file, const struct kr_attr *attr)
{
	bool exact;
	const struct kr_lapse lapse = lapse_of(request, &exact);
	struct kr_time ctime = attr->ctime;
	uint64_t changed = file->changed_epoch;

	if (is_own(request, file)) {
		changed = file->own_base;
		ctime = file->own_ctime;
	}
	/* Rows 1 and 2. */
	if (file->changing > 0 || is_overtaken(request, file))
		return true;
	/* Row 3: the node was killed before its bytes were in the file.  (Times tick.) */
	if (!changed && attr->size == 0 &&
		kr_conflicts_is_new(
			&file->server->recovery->conflicts, request->session->node_id, &file->fid, attr->ctime))
		return false;
	if (lapse.kind == KR_LAPSE_KNOWN && changed > lapse.epoch) /* row 4 */
		return true;
	/* Row 5. */
	if (lapse.kind == KR_LAPSE_KNOWN && (exact || file->server->files->forgotten_epoch <= lapse.epoch))
		return false;
	return is_changed_since(request, ctime); /* rows 6 and 7 */
}

bool kr_late_is_declared(const struct kr_request *request)
{
	const struct kr_reclaim_request *msg = &request->msg.reclaim_request;

	return kr_conflicts_find(&request->server->recovery->conflicts, request->session->node_id, &msg->file,
		       first_of(request), msg->last) != NULL;
}

bool kr_late_conflict(
	const struct kr_request *request, const struct kr_sfile *file, const struct kr_attr *attr, bool contested)
{
	if (!has_bytes(request))
		return false;
	if (kr_late_is_declared(request) || (!attr && request->server->sessions->grace.active))
		return true;
	/* A file whose last name was removed is gone for a node that was away. */
	return kr_late_has_bytes(request) &&
		(contested || !attr || (attr->nlink == 0 && kr_late_was_away(request)) || touched(request, file, attr));
}

/* --- its declaration -------------------------------------------------------------------------- */

struct declaration {
	struct kr_job job;
	struct kr_request *request;
	struct kr_conflict *conflict;
	void (*done)(struct kr_request *request);
	int err;
};

static void run_declaration(struct kr_job *job)
{
	struct declaration *declaration = KR_CONTAINER_OF(job, struct declaration, job);

	declaration->err = KR_FAULT("conflict.declare");
	if (!declaration->err)
		declaration->err = kr_conflicts_log(&job->server->recovery->conflicts, declaration->conflict);
	if (declaration->err)
		kr_log_error("%s", kr_fail_reason());
}

static void declared(struct kr_job *job)
{
	struct declaration *declaration = KR_CONTAINER_OF(job, struct declaration, job);
	struct kr_request *request = declaration->request;
	void (*done)(struct kr_request *) = declaration->done;

	(void)KR_FAULT("conflict.declared");
	if (declaration->err) { /* a node that is told so, and forgotten, might flush at the next server */
		request->err = -EIO;
		request->session->recovery.unjudged = true;
		kr_conflict_free(declaration->conflict);
	} else {
		kr_conflicts_put(&job->server->recovery->conflicts, declaration->conflict);
	}
	free(declaration);
	done(request);
}

void kr_late_declare(
	struct kr_request *request, const struct kr_sfile *file, uint64_t ino, void (*done)(struct kr_request *request))
{
	const uint64_t first = first_of(request), last = request->msg.reclaim_request.last;
	const struct kr_session *session = request->session;
	struct kr_conflicts *conflicts = &request->server->recovery->conflicts;
	const struct kr_conflict *old = kr_conflicts_present(conflicts, session->node_id, &file->fid, first);
	struct declaration *declaration;

	if (old && first >= old->first && last <= old->last) {
		done(request);
		return;
	}
	if (request->err)
		kr_log_warn("node %s comes back late with unflushed bytes of a file that others have removed since: "
			    "they go to a conflict file (the node's log names it)",
			session->name);
	else
		kr_log_warn("node %s comes back late with unflushed bytes of file %llu, which others have changed "
			    "since: they go to a conflict file",
			session->name, (unsigned long long)ino);
	declaration = kr_xcalloc(1, sizeof(*declaration));
	declaration->request = request;
	declaration->done = done;
	if (old) {
		declaration->conflict = kr_conflict_copy(old);
		declaration->conflict->first = KR_MIN(first, old->first);
		declaration->conflict->last = KR_MAX(last, old->last);
	} else {
		declaration->conflict = kr_conflict_new(session->node_id,
			session->trust.key ? &session->trust.key->owner : NULL, session->name, &file->fid, first, last);
	}
	kr_job_start(request->server, &declaration->job, run_declaration, declared);
}

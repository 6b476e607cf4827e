/* See truncate_barrier.h. */
#include "server/flush/truncate_barrier.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/util.h"
#include "server/flush/data_state.h"
#include "server/export/export.h"

struct barrier_wait {
	struct kr_request *request;
	struct kr_sfile *file;
	void (*fn)(struct kr_request *request);
	size_t unanswered;    /* QUERYs, and one more while they are sent */
	uint64_t sync_errors; /* kr_data.counters.sync_errors at that time */
	int err;
};

static void sync_file(
	struct kr_request *request, struct kr_sfile *file, kr_stable_fn done, void (*fn)(struct kr_request *request))
{
	struct barrier_wait *wait = kr_xcalloc(1, sizeof(*wait));

	*wait = (struct barrier_wait){.request = request, .file = file, .fn = fn};
	kr_stable_wait(file, request->session->node_id, false, done, wait);
}

static void go_on(struct barrier_wait *wait, int err)
{
	struct kr_request *request = wait->request;
	void (*fn)(struct kr_request *) = wait->fn;

	free(wait);
	request->err = err;
	fn(request);
}

/* --- before ----------------------------------------------------------------------------------- */

static void answered(struct barrier_wait *wait)
{
	if (--wait->unanswered > 0)
		return;
	if (wait->request->session->dead) {
		wait->err = -ESTALE;
		wait->request->duplicate.remembered = false; /* not made: a repetition shall not get this answer */
	}
	go_on(wait, wait->err);
}

/* If the session has ended, its successor has the bytes, or the next instance awaits the node.  Else the bytes will be
 * late, and judged. */
static void query_answered(struct kr_session *session, void *context, int err, const void *message)
{
	struct barrier_wait *wait = context;
	const struct kr_query_reply *reply = message;
	struct kr_data *data = kr_data_of(wait->file);
	const struct kr_fid *fid = &wait->file->fid;
	bool comes = session->server->stopping || kr_session_find_node_id(session->server, session->node_id);

	if (!err && !reply->dirty && data->counters.sync_errors == wait->sync_errors)
		kr_applied_clean(&data->applied, fid, session->node_id);
	if (comes && kr_applied_owes(&data->applied, fid, session->node_id))
		wait->err = -EIO;
	answered(wait);
}

/* Whether SESSION's node may send lost bytes again after the change.  Not those that the server refused: it judges
 * them if the node gave a lease back with them (late.h).  If the node makes the change itself, it knows of them: the
 * change may make room. */
static bool may_send_again(
	const struct kr_session *session, const struct kr_sfile *file, const struct kr_request *request)
{
	const struct kr_attachment *attachment = kr_attachment_find(file, session);
	const struct kr_cover none = {0}, *cover = attachment ? &attachment->cover : &none;

	if (cover->lost || (cover->refused && session == request->session))
		return false;
	return kr_applied_owes(&kr_data_of(file)->applied, &file->fid, session->node_id);
}

/* Asks each node that got UNSTABLE whether it has sent the lost rounds again.  A node that still reclaims gets
 * UNSTABLE then, and may wait for this request to end. */
static void query_debtors(struct barrier_wait *wait)
{
	struct kr_query_request msg = {.file = wait->file->fid};
	struct kr_session *session;

	wait->unanswered = 1;
	wait->sync_errors = kr_data_of(wait->file)->counters.sync_errors;
	KR_LIST_FOR_EACH(session, &wait->request->server->sessions->living, link) {
		if (!kr_data_of(wait->file)->applied.owing || wait->request->session->dead)
			break; /* usually; or the change will not be made */
		if (!may_send_again(session, wait->file, wait->request))
			continue;
		if (session->recovery.reclaiming)
			wait->err = -EIO;
		else if (kr_callback_send(session, KR_MSG_QUERY, &msg, query_answered, wait))
			wait->unanswered++;
	}
	answered(wait);
}

static void synced_before(void *context, int err)
{
	if (err)
		go_on(context, err);
	else
		query_debtors(context);
}

void kr_truncate_barrier_begin(
	struct kr_request *request, struct kr_sfile *file, void (*fn)(struct kr_request *request))
{
	const struct kr_stable *stable = &file->data->stable;
	struct barrier_wait *wait;

	request->cancel = NULL;
	request->effect.committed = true;
	request->effect.syncs_truncation =
		stable->applied > stable->good || stable->cut_owed || kr_stable_others(file, request->session->node_id);
	if (request->effect.syncs_truncation) {
		sync_file(request, file, synced_before, fn);
	} else {
		wait = kr_xcalloc(1, sizeof(*wait));
		*wait = (struct barrier_wait){.request = request, .file = file, .fn = fn};
		query_debtors(wait);
	}
}

/* --- the change and after --------------------------------------------------------------------- */

void kr_truncate_barrier_made(struct kr_request *request)
{
	request->effect.syncs_truncation = true;
}

void kr_truncate_barrier_to(struct kr_request *request, const struct kr_fid *fid, uint64_t size)
{
	struct kr_attr attr;

	if (kr_export_getattr(request->server->export, fid, &attr))
		attr.size = UINT64_MAX;
	if (attr.size != size)
		kr_truncate_barrier_made(request);
	request->effect.shorter = attr.size > size;
}

static void synced_after(void *context, int err)
{
	struct barrier_wait *wait = context;

	wait->file->data->stable.cut_owed = err != 0;
	go_on(wait, err);
}

void kr_truncate_barrier_end(struct kr_request *request, struct kr_sfile *file, void (*fn)(struct kr_request *request))
{
	if (request->effect.syncs_truncation)
		sync_file(request, file, synced_after, fn);
	else
		fn(request);
}

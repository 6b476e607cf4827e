/* OPEN and CLOSE: see open.h. */
#include "server/names/open.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "server/flush/commit.h"
#include "server/flush/truncate_barrier.h"
#include "server/names/recall_permission.h"
#include "common/base/fault.h"
#include "server/export/export.h"
#include "server/leases/leases.h"
#include "server/leases/invalidation.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/session/session.h"
#include "server/names/shrink_notice.h"
#include "server/session/trust.h"
#include "server/names/names.h"

enum {
	TINY_FILE = 4096, /* takes the server's link no longer than the messages by which others would give it */
	COPIES = 2,       /* the server sends as many at least */
};

/* --- ends of opens ---------------------------------------------------------------------------- */

struct release {
	struct kr_job job;
	struct kr_sfile *file;
	uint32_t count;
	bool last; /* of a file without a name, which this removes */
	bool gone;
};

static void run_release(struct kr_job *job)
{
	struct release *release = KR_CONTAINER_OF(job, struct release, job);

	struct kr_attr attr;
	int err;

	kr_export_release(job->server->export, &release->file->fid, release->count);
	if (!release->last)
		return;
	err = kr_export_getattr(job->server->export, &release->file->fid, &attr);
	release->gone = err == -ESTALE || (!err && attr.nlink == 0);
}

static void released(struct kr_job *job)
{
	struct release *release = KR_CONTAINER_OF(job, struct release, job);
	struct kr_sfile *file = release->file;

	/* A link made during the removal of its last name is another name. */
	if (file->orphan && file->opens == 0 && release->gone) {
		file->gone = true;
		kr_commit_gone(file);
		kr_leases_gone(file);
	}
	free(release);
	kr_sfile_put(file);
}

void kr_opens_release(struct kr_sfile *file, uint64_t count)
{
	struct release *release;

	assert(file->opens >= count);
	file->opens -= count;
	if (count == 0)
		return;
	release = kr_xcalloc(1, sizeof(*release));
	release->file = kr_sfile_ref(file);
	release->count = (uint32_t)count;
	release->job.is_brief = true;
	release->last = file->orphan && file->opens == 0;
	kr_job_start(file->server, &release->job, run_release, released);
}

static uint8_t rights_of(uint32_t flags)
{
	switch (flags & KR_OPEN_ACCESS) {
	case KR_OPEN_READ:
		return KR_OPEN_RIGHT_READ;
	case KR_OPEN_WRITE:
		return KR_OPEN_RIGHT_WRITE;
	default:
		return KR_OPEN_RIGHT_ALL;
	}
}

uint8_t kr_opens_opened(struct kr_request *request, struct kr_sfile *file, uint32_t flags, uint8_t want)
{
	struct kr_session *session = request->session;

	file->opens++;
	if (session->dead) {
		kr_opens_release(file, 1);
		return 0;
	}
	kr_attachment_get(file, session)->opens++;
	if (kr_trust_confined(session)) {
		kr_open_rights_add(&session->trust.open_rights, &file->fid, rights_of(flags));
		want = kr_open_rights_leases(want, rights_of(flags));
	}
	return kr_leases_try(file, session, want);
}

/* --- OPEN ------------------------------------------------------------------------------------- */

struct open_state {
	struct kr_operation operation; /* first; of O_TRUNC; else the wait for other nodes' bytes to be committed */
	struct kr_request *request;
	struct kr_sfile *file;
	uint64_t changes;
	bool from_others;     /* the node shall get the bytes of a small file from other nodes */
	struct kr_buf *small; /* the bytes of a small file, sent with the answer */
};

static void free_open(void *state)
{
	struct open_state *open = state;

	kr_operation_end(&open->operation);
	kr_buf_put(open->small);
	kr_sfile_put(open->file);
	free(open);
}

static bool truncates(const struct kr_request *request)
{
	return request->msg.open_request.flags & KR_OPEN_TRUNC;
}

static bool same_state(const struct kr_attr *a, const struct kr_attr *b)
{
	return kr_time_compare(a->ctime, b->ctime) == 0 && a->size == b->size;
}

/* This only saves a request: it may fail.  It fails when a local program changes the file meanwhile. */
static void read_small(struct kr_request *request, struct open_state *open)
{
	const struct kr_open_request *msg = &request->msg.open_request;
	const struct kr_attr *attr = &request->reply.open_reply.attr;
	uint64_t size = attr->size;
	struct kr_attr after;
	struct kr_buf *buf;

	if (!(msg->want & KR_LEASE_READ) || msg->flags & KR_OPEN_CACHED || size == 0 || size > KR_SMALL_FILE)
		return;
	if (open->from_others && size > TINY_FILE)
		return;
	buf = kr_buf_new(size);
	if (!buf)
		return;
	if (kr_export_pread(request->server->export, &msg->file, 0, buf->data, size, &buf->length) == 0 &&
		buf->length == size && kr_export_getattr(request->server->export, &msg->file, &after) == 0 &&
		same_state(attr, &after))
		open->small = buf;
	else
		kr_buf_put(buf);
}

static void run_open(struct kr_request *request)
{
	const struct kr_open_request *msg = &request->msg.open_request;

	if (truncates(request))
		kr_truncate_barrier_to(request, &msg->file, 0);
	request->err = kr_export_open(
		request->server->export, &msg->cred, &msg->file, msg->flags, &request->reply.open_reply.attr);
	(void)KR_FAULT("open.opened");
	if (!request->err)
		read_small(request, request->state);
}

static void reply_open(struct kr_request *request, uint8_t granted)
{
	struct open_state *open = request->state;
	struct kr_open_reply *reply = &request->reply.open_reply;
	struct kr_sfile *file = kr_sfile_ref(open->file);
	struct kr_session *session = kr_session_get(request->session);
	struct kr_slice slice = {.buf = open->small};

	reply->granted = granted;
	if (open->small && (granted & KR_LEASE_READ)) {
		slice.length = open->small->length;
		reply->has_data = 1;
		reply->checksum = kr_checksum(open->small->data, open->small->length);
		kr_attachment_note_copy(kr_attachment_get(file, session));
	}
	kr_request_reply(request, 0, reply, &slice, slice.length ? 1 : 0);
	if (granted)
		kr_leases_announced(file, session);
	kr_session_put(session);
	kr_sfile_put(file);
}

static void opened(struct kr_request *request)
{
	struct open_state *open = request->state;
	struct kr_sfile *file = open->file;
	uint8_t want = request->msg.open_request.want;

	/* Attributes under a lease must be exact: if the file has changed meanwhile, the node gets no lease. */
	if (file->changing || file->changes != open->changes)
		want = 0;
	kr_sfile_version(file, open->changes, &request->reply.open_reply.attr);
	/* The last name went while the request was in the pool.  No other message tells the node, which would keep the
	 * file open for later programs. */
	if (file->orphan || file->gone)
		request->reply.open_reply.attr.nlink = 0;
	reply_open(request, kr_opens_opened(request, file, request->msg.open_request.flags, want));
}

static void open_done(struct kr_request *request)
{
	if (request->err)
		kr_request_reply_job(request);
	else
		opened(request);
}

/* The file is open at the export.  If the truncation may not last, the open fails. */
static void cut_heard_of(struct kr_request *request)
{
	struct kr_sfile *file = ((struct open_state *)request->state)->file;

	if (request->err) {
		file->opens++;
		kr_opens_release(file, 1);
	}
	open_done(request);
}

static void cut_synced(struct kr_request *request)
{
	struct open_state *open = request->state;

	kr_shrink_notice_send(request, open->file, &open->operation, cut_heard_of);
}

static void cut_done(struct kr_request *request)
{
	struct open_state *open = request->state;

	kr_sfile_truncated(open->file);
	kr_sfile_changed(open->file);
	open->changes++; /* our own end of change */
	if (request->err)
		kr_request_reply_job(request);
	else
		kr_truncate_barrier_end(request, open->file, cut_synced);
}

/* Many nodes that open the same small files at once would fill the server's link with copies of them.  So a node to
 * which the way is congested pulls such a file from the latest node that got it (pipelines.c). */
static bool comes_from_others(const struct open_state *open)
{
	const struct kr_session *session = open->request->session;

	return kr_sfile_copy_holder(open->file, session, COPIES) && session->conn && kr_conn_congested(session->conn);
}

static void open_granted(struct kr_operation *operation)
{
	struct open_state *open = KR_CONTAINER_OF(operation, struct open_state, operation);
	struct kr_request *request = open->request;

	request->effect.committed = true;
	request->cancel = NULL;
	open->changes = open->file->changes;
	if (truncates(request)) {
		kr_sfile_changing(open->file);
		open->changes = open->file->changes;
	} else {
		kr_operation_end(&open->operation);
		open->from_others = comes_from_others(open);
	}
	kr_request_run(request, run_open, truncates(request) ? cut_done : open_done);
}

static void open_after_others(struct kr_request *request)
{
	struct open_state *open = request->state;
	bool cuts = truncates(request);

	static_assert(offsetof(struct open_state, operation) == 0, "for kr_operation_cancel");
	request->cancel = kr_operation_cancel;
	kr_operation_start(&open->operation, open->file, request->session->node, cuts ? KR_LEASE_ALL : 0,
		cuts ? KR_COMMITTED_ALL : KR_COMMITTED_OTHERS, open_granted);
}

static void handle_open(struct kr_request *request)
{
	struct open_state *open;

	if (!kr_attachment_room(kr_sfile_find(request->server, &request->msg.open_request.file), request->session)) {
		kr_request_reply(request, -ENFILE, NULL, NULL, 0);
		return;
	}
	open = kr_xcalloc(1, sizeof(*open));
	open->request = request;
	open->file = kr_sfile_get(request->server, &request->msg.open_request.file);
	request->state = open;
	request->free_state = free_open;
	if (truncates(request))
		kr_recall_permission_check(
			request, open->file, KR_LEASE_ALL, &request->msg.open_request.cred, false, open_after_others);
	else
		open_after_others(request);
}

/* --- CLOSE ------------------------------------------------------------------------------------ */

static void handle_close(struct kr_request *request)
{
	const struct kr_close_request *msg = &request->msg.close_request;
	struct kr_sfile *file = kr_sfile_find(request->server, &msg->file);
	struct kr_attachment *attachment = file ? kr_attachment_find(file, request->session) : NULL;
	uint32_t count = msg->count;

	if (!attachment || attachment->opens < count) {
		kr_request_reply(request, -EBADF, NULL, NULL, 0);
		return;
	}
	kr_sfile_ref(file);
	attachment->opens -= count;
	kr_request_reply(request, 0, NULL, NULL, 0);
	kr_opens_release(file, count);
	kr_attachment_settle(attachment);
	kr_sfile_put(file);
}

static void open_changes(struct kr_request *request)
{
	if (request->msg.open_request.flags & KR_OPEN_TRUNC)
		kr_invalidation_change(request, &request->msg.open_request.file);
}

/* Whether the caller may open the file for reading is true for as long as ACCESS's answer is. */
static uint16_t grant_open(struct kr_request *request, int err, const void *reply)
{
	const struct kr_open_request *msg = &request->msg.open_request;

	(void)reply;
	return err || msg->flags & (KR_OPEN_ACCESS | KR_OPEN_TRUNC) ? 0 : kr_invalidation_grant(request, &msg->file);
}

void kr_opens_register(struct kr_server *server)
{
	server->files->hooks.release = kr_opens_release;
	kr_server_on(server, KR_MSG_OPEN, handle_open, KR_HANDLER_KEEP_REPLY);
	kr_server_on(server, KR_MSG_CLOSE, handle_close, KR_HANDLER_KEEP_REPLY);
	kr_invalidation_on(server, KR_MSG_OPEN, open_changes, grant_open);
}

/* SETATTR, with the leases that it needs. */
#include "server/leases/attrs.h"

#include <assert.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "server/flush/truncate_barrier.h"
#include "server/flush/data.h"
#include "server/names/recall_permission.h"
#include "server/export/export.h"
#include "server/leases/file_table.h"
#include "server/leases/leases.h"
#include "server/leases/invalidation.h"
#include "server/names/names.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/session/session.h"
#include "server/names/shrink_notice.h"
#include "server/leases/watch.h"

/* --- SETATTR ---------------------------------------------------------------------------------- */

struct setattr {
	struct kr_operation operation; /* first */
	struct kr_sfile *file;
	struct kr_request *request;
	bool through_handle;
};

static void free_setattr(void *state)
{
	struct setattr *setattr = state;

	kr_operation_end(&setattr->operation);
	kr_sfile_put(setattr->file);
	free(setattr);
}

static void run_setattr(struct kr_request *request)
{
	const struct kr_setattr_request *msg = &request->msg.setattr_request;
	const struct setattr *setattr = request->state;
	const uint32_t mtime = KR_SET_MTIME | KR_SET_MTIME_NOW;
	struct kr_setattr set = {.valid = msg->valid,
		.through_handle = setattr->through_handle,
		.mode = msg->mode,
		.uid = msg->uid,
		.gid = msg->gid,
		.size = msg->size,
		.atime = msg->atime,
		.mtime = msg->mtime};

	if (set.valid & KR_SET_SIZE)
		kr_truncate_barrier_to(request, &msg->file, set.size);
	kr_watch_own_before(request->server->export, &msg->file, &request->effect.own);
	request->err = kr_export_setattr(
		request->server->export, &msg->cred, &msg->file, &set, &request->reply.setattr_reply.attr);
	kr_watch_own_after(request->server->export, &msg->file, &request->effect.own);
	if (msg->valid & mtime)
		request->effect.own.before.mtime = request->effect.own.after.mtime;
	request->effect.no_xattrs = !request->err && kr_export_bare(request->server->export, &msg->file);
}

static void reply_setattr(struct kr_request *request, const struct kr_attr *attr)
{
	if (attr)
		request->reply.setattr_reply.attr = *attr;
	kr_request_reply_job(request);
}

/* If other nodes write, the server asks them again: what they have not flushed belongs to the answer. */
static void finish_setattr(struct kr_request *request)
{
	struct setattr *setattr = request->state;

	if (request->err)
		kr_request_reply_job(request);
	else
		kr_attrs_get(request, &setattr->file->fid, true, reply_setattr);
}

static void send_shrink_notice(struct kr_request *request)
{
	struct setattr *setattr = request->state;

	kr_shrink_notice_send(request, setattr->file, &setattr->operation, finish_setattr);
}

static void setattr_done(struct kr_request *request)
{
	struct setattr *setattr = request->state;

	/* Before any other node writes. */
	if (!request->err && request->msg.setattr_request.valid & (KR_SET_MTIME | KR_SET_MTIME_NOW))
		kr_data_mtime_set(setattr->file, request->reply.setattr_reply.attr.mtime);
	if (request->msg.setattr_request.valid & KR_SET_SIZE) {
		kr_sfile_truncated(setattr->file);
		kr_sfile_changed(setattr->file);
	}
	kr_watch_own(setattr->file, &request->effect.own);
	if (request->err)
		kr_request_reply_job(request);
	else if (request->msg.setattr_request.valid & KR_SET_SIZE)
		kr_truncate_barrier_end(request, setattr->file, send_shrink_notice);
	else
		finish_setattr(request);
}

static void setattr_granted(struct kr_operation *operation)
{
	struct setattr *setattr = KR_CONTAINER_OF(operation, struct setattr, operation);
	struct kr_request *request = setattr->request;

	request->effect.committed = true;
	request->cancel = NULL;
	kr_watch_own_begin(request->server, &request->effect.own);
	if (request->msg.setattr_request.valid & KR_SET_SIZE)
		kr_sfile_changing(setattr->file);
	kr_request_run(request, run_setattr, setattr_done);
}

/* A new size excludes all other nodes.  A new mtime must come after all writes that have returned, so other nodes
 * flush first.  New set-id bits recall WRITE: when nodes get it back they learn that their next write must clear the
 * bits.  Any change waits for other nodes' uncommitted bytes, whose nodes would undo it. */
static uint8_t setattr_kinds(const struct kr_setattr_request *msg)
{
	if (msg->valid & KR_SET_SIZE)
		return KR_LEASE_ALL;
	if (msg->valid & KR_SET_MODE && msg->mode & (S_ISUID | S_ISGID))
		return KR_LEASE_READ;
	return msg->valid & (KR_SET_MTIME | KR_SET_MTIME_NOW) ? KR_LEASE_READ : 0;
}

static void setattr_among_others(struct kr_request *request)
{
	struct setattr *setattr = request->state;
	const uint32_t valid = request->msg.setattr_request.valid;

	static_assert(offsetof(struct setattr, operation) == 0, "for kr_operation_cancel");
	request->cancel = kr_operation_cancel;
	kr_operation_start(&setattr->operation, setattr->file, request->session->node,
		setattr_kinds(&request->msg.setattr_request),
		valid & KR_SET_SIZE ? KR_COMMITTED_ALL : KR_COMMITTED_OTHERS, setattr_granted);
}

static void handle_setattr(struct kr_request *request)
{
	const struct kr_setattr_request *msg = &request->msg.setattr_request;
	struct setattr *setattr = kr_xcalloc(1, sizeof(*setattr));
	uint8_t kinds = setattr_kinds(msg);

	setattr->request = request;
	setattr->file = kr_sfile_get(request->server, &msg->file);
	request->state = setattr;
	request->free_state = free_setattr;
	setattr->through_handle = msg->valid & KR_SET_BY_HANDLE &&
		kr_open_rights_allowed(request->session, &msg->file, KR_OPEN_RIGHT_WRITE);
	if (!kinds || setattr->through_handle)
		setattr_among_others(request);
	else
		kr_recall_permission_check(
			request, setattr->file, kinds, &msg->cred, !(msg->valid & KR_SET_SIZE), setattr_among_others);
}

/* --- attribute caches ------------------------------------------------------------------------------------ */

static uint16_t grant_setattr(struct kr_request *request, int err, const void *reply)
{
	(void)reply;
	return err ? 0 : kr_attrs_grant(request, &request->msg.setattr_request.file);
}

void kr_setattr_register(struct kr_server *server)
{
	kr_server_on(server, KR_MSG_SETATTR, handle_setattr, KR_HANDLER_KEEP_REPLY);
	kr_invalidation_on(server, KR_MSG_SETATTR, NULL, grant_setattr);
	kr_invalidation_changes(server, KR_MSG_SETATTR, KR_FID_OFFSET(setattr_request.file));
}

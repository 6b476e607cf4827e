/* READDIR, STATFS, extended attributes and ACCESS: one job each, with room for the reply. */
#include <errno.h>
#include <stdlib.h>

#include "server/export/export.h"
#include "server/names/name_sync.h"
#include "server/names/names.h"
#include "server/leases/invalidation.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/leases/watch.h"

/* Room for SIZE bytes of reply, freed with the request. */
static void make_room(struct kr_request *request, size_t size)
{
	request->state = kr_xmalloc(size ? size : 1);
	request->free_state = free;
}

/* Whether the reply has all names of the directory. */
static bool lists_all(const struct kr_request *request)
{
	return request->msg.readdir_request.cookie == 0 && request->reply.readdir_reply.end;
}

static void run_readdir(struct kr_request *request)
{
	const struct kr_readdir_request *msg = &request->msg.readdir_request;
	struct kr_readdir_reply *reply = &request->reply.readdir_reply;
	size_t size = KR_MIN(KR_MAX(msg->size, (uint32_t)KR_READDIR_MIN), (uint32_t)KR_XATTR_MAX), length = 0;
	bool end = false;

	request->err = kr_export_readdir(
		request->server->export, &msg->cred, &msg->file, msg->cookie, request->state, size, &length, &end);
	reply->end = end;
	reply->entries = (struct kr_bytes){request->state, (uint32_t)length};
	if (lists_all(request))
		kr_names_look(request, &msg->file, NULL);
}

static void readdir_done(struct kr_request *request)
{
	kr_name_sync_seen(request, kr_request_reply_job);
}

static void handle_readdir(struct kr_request *request)
{
	make_room(request, KR_XATTR_MAX);
	kr_request_run(request, run_readdir, readdir_done);
}

static void run_statfs(struct kr_request *request)
{
	struct kr_statfs_reply *reply = &request->reply.statfs_reply;
	struct kr_statfs statfs = {0};

	request->err = kr_export_statfs(request->server->export, &request->msg.statfs_request.file, &statfs);
	*reply = (struct kr_statfs_reply){.blocks = statfs.blocks,
		.bfree = statfs.bfree,
		.bavail = statfs.bavail,
		.files = statfs.files,
		.ffree = statfs.ffree,
		.bsize = statfs.bsize,
		.frsize = statfs.frsize,
		.namelen = statfs.namelen};
}

static void handle_statfs(struct kr_request *request)
{
	kr_request_run(request, run_statfs, kr_request_reply_job);
}

static void run_getxattr(struct kr_request *request)
{
	const struct kr_getxattr_request *msg = &request->msg.getxattr_request;
	struct kr_getxattr_reply *reply = &request->reply.getxattr_reply;
	size_t size = KR_MIN(msg->size, (uint32_t)KR_XATTR_MAX), length = 0;

	request->err = kr_export_getxattr(
		request->server->export, &msg->cred, &msg->file, msg->name, request->state, size, &length);
	reply->length = (uint32_t)length;
	reply->value = (struct kr_bytes){request->state, msg->size ? (uint32_t)length : 0};
}

static void handle_getxattr(struct kr_request *request)
{
	make_room(request, KR_MIN(request->msg.getxattr_request.size, (uint32_t)KR_XATTR_MAX));
	kr_request_run(request, run_getxattr, kr_request_reply_job);
}

static void run_listxattr(struct kr_request *request)
{
	const struct kr_listxattr_request *msg = &request->msg.listxattr_request;
	struct kr_listxattr_reply *reply = &request->reply.listxattr_reply;
	size_t size = KR_MIN(msg->size, (uint32_t)KR_XATTR_MAX), length = 0;

	request->err =
		kr_export_listxattr(request->server->export, &msg->cred, &msg->file, request->state, size, &length);
	reply->length = (uint32_t)length;
	reply->names = (struct kr_bytes){request->state, msg->size ? (uint32_t)length : 0};
}

static void handle_listxattr(struct kr_request *request)
{
	make_room(request, KR_MIN(request->msg.listxattr_request.size, (uint32_t)KR_XATTR_MAX));
	kr_request_run(request, run_listxattr, kr_request_reply_job);
}

static void run_setxattr(struct kr_request *request)
{
	const struct kr_setxattr_request *msg = &request->msg.setxattr_request;

	kr_watch_own_before(request->server->export, &msg->file, &request->effect.own);
	request->err = kr_export_setxattr(request->server->export, &msg->cred, &msg->file, msg->name, msg->value.bytes,
		msg->value.length, msg->flags);
	kr_watch_own_after(request->server->export, &msg->file, &request->effect.own);
}

static void setxattr_done(struct kr_request *request)
{
	if (!request->err)
		kr_watch_own_of(request->server, &request->msg.setxattr_request.file, &request->effect.own);
	kr_request_reply_job(request);
}

static void handle_setxattr(struct kr_request *request)
{
	kr_watch_own_begin(request->server, &request->effect.own);
	kr_request_run(request, run_setxattr, setxattr_done);
}

static void run_removexattr(struct kr_request *request)
{
	const struct kr_removexattr_request *msg = &request->msg.removexattr_request;

	kr_watch_own_before(request->server->export, &msg->file, &request->effect.own);
	request->err = kr_export_removexattr(request->server->export, &msg->cred, &msg->file, msg->name);
	kr_watch_own_after(request->server->export, &msg->file, &request->effect.own);
	if (request->err == -ENODATA && request->duplicate.maybe_executed)
		request->err = 0;
}

static void removexattr_done(struct kr_request *request)
{
	if (!request->err)
		kr_watch_own_of(request->server, &request->msg.removexattr_request.file, &request->effect.own);
	kr_request_reply_job(request);
}

static void handle_removexattr(struct kr_request *request)
{
	kr_watch_own_begin(request->server, &request->effect.own);
	kr_request_run(request, run_removexattr, removexattr_done);
}

static void run_access(struct kr_request *request)
{
	const struct kr_access_request *msg = &request->msg.access_request;

	request->err = kr_export_access(request->server->export, &msg->cred, &msg->file, msg->mask);
}

static void handle_access(struct kr_request *request)
{
	kr_request_run(request, run_access, kr_request_reply_job);
}

/* --- notes ------------------------------------------------------------------------------------ */

static uint16_t grant_readdir(struct kr_request *request, int err, const void *reply)
{
	uint16_t flags = err ? 0 : kr_invalidation_grant(request, &request->msg.readdir_request.file);

	(void)reply;
	return flags && lists_all(request) && !request->effect.folds ? flags | KR_FRAME_CACHEABLE_ATTR : flags;
}

static uint16_t grant_getxattr(struct kr_request *request, int err, const void *reply)
{
	(void)reply;
	if (err && err != -ENODATA && err != -EOPNOTSUPP)
		return 0;
	return kr_invalidation_grant(request, &request->msg.getxattr_request.file);
}

static uint16_t grant_listxattr(struct kr_request *request, int err, const void *reply)
{
	(void)reply;
	return err ? 0 : kr_invalidation_grant(request, &request->msg.listxattr_request.file);
}

static uint16_t grant_access(struct kr_request *request, int err, const void *reply)
{
	(void)reply;
	return err && err != -EACCES ? 0 : kr_invalidation_grant(request, &request->msg.access_request.file);
}

void kr_readdir_xattr_register(struct kr_server *server)
{
	kr_server_on(server, KR_MSG_READDIR, handle_readdir, 0);
	kr_server_on(server, KR_MSG_STATFS, handle_statfs, 0);
	kr_server_on(server, KR_MSG_GETXATTR, handle_getxattr, 0);
	kr_server_on(server, KR_MSG_LISTXATTR, handle_listxattr, 0);
	kr_server_on(server, KR_MSG_SETXATTR, handle_setxattr, KR_HANDLER_KEEP_REPLY);
	kr_server_on(server, KR_MSG_REMOVEXATTR, handle_removexattr, KR_HANDLER_KEEP_REPLY);
	kr_server_on(server, KR_MSG_ACCESS, handle_access, 0);
	kr_invalidation_on(server, KR_MSG_READDIR, NULL, grant_readdir);
	kr_invalidation_on(server, KR_MSG_GETXATTR, NULL, grant_getxattr);
	kr_invalidation_on(server, KR_MSG_LISTXATTR, NULL, grant_listxattr);
	kr_invalidation_changes(server, KR_MSG_SETXATTR, KR_FID_OFFSET(setxattr_request.file));
	kr_invalidation_changes(server, KR_MSG_REMOVEXATTR, KR_FID_OFFSET(removexattr_request.file));
	kr_invalidation_on(server, KR_MSG_ACCESS, NULL, grant_access);
}

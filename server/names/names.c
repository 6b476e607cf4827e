/* Operations on names.  Each is one job in the pool; the table of files follows its result. */
#include "server/flush/commit.h"
#include "server/names/names.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "server/leases/attrs.h"
#include "server/export/export.h"
#include "server/leases/file_table.h"
#include "server/leases/leases.h"
#include "server/names/delayed_unlink.h"
#include "server/names/name_sync.h"
#include "server/leases/invalidation.h"
#include "server/recovery/request_cache.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/session/session.h"
#include "server/leases/watch.h"

/* --- LOOKUP ----------------------------------------------------------------------------------- */

struct lookup {
	uint64_t epoch; /* when the job was started */
};

static void run_lookup(struct kr_request *request)
{
	const struct kr_lookup_request *msg = &request->msg.lookup_request;
	struct kr_lookup_reply *reply = &request->reply.lookup_reply;

	request->err = kr_export_lookup(
		request->server->export, &msg->cred, &msg->parent, msg->name, &reply->file, &reply->attr);
	request->effect.no_xattrs = !request->err && kr_export_bare(request->server->export, &reply->file);
}

static void reply_lookup(struct kr_request *request, const struct kr_attr *attr)
{
	if (attr)
		request->reply.lookup_reply.attr = *attr;
	kr_request_reply_job(request);
}

static void lookup_committed(struct kr_request *request)
{
	const struct lookup *lookup = request->state;
	const struct kr_fid *fid = &request->reply.lookup_reply.file;

	if (!request->err && kr_attrs_doubtful(request->server, fid, request->session->node, lookup->epoch))
		kr_attrs_get(request, fid, true, reply_lookup);
	else
		kr_request_reply_job(request);
}

static void lookup_done(struct kr_request *request)
{
	kr_name_sync_seen(request, lookup_committed);
}

static void handle_lookup(struct kr_request *request)
{
	struct lookup *lookup = kr_xcalloc(1, sizeof(*lookup));

	lookup->epoch = request->server->files->epoch;
	request->state = lookup;
	request->free_state = free;
	kr_request_run(request, run_lookup, lookup_done);
}

/* --- READLINK --------------------------------------------------------------------------------- */

static void run_readlink(struct kr_request *request)
{
	request->err = kr_export_readlink(request->server->export, &request->msg.readlink_request.file, request->state);
	request->reply.readlink_reply.target = request->state;
}

static void handle_readlink(struct kr_request *request)
{
	request->state = kr_xmalloc(KR_PATH_MAX + 1);
	request->free_state = free;
	kr_request_run(request, run_readlink, kr_request_reply_job);
}

void kr_names_look(struct kr_request *request, const struct kr_fid *dir, struct kr_attr *ret_attr)
{
	bool folds = true;

	if (request->err)
		return;
	(void)kr_export_look_at_dir(request->server->export, dir, ret_attr, &folds);
	request->effect.folds |= folds;
}

/* --- requests that may have been executed already ----------------------------------------------- */

bool kr_resent_is_ours(const struct kr_request *request, const struct kr_fid *fid, const struct kr_attr *attr,
	uint32_t type, uint32_t uid)
{
	int64_t now_sec = kr_clock_real_s();
	int64_t horizon_sec = request->server->lease_ms / 1000 * 2 + 1;

	if (request->duplicate.made)
		return kr_fid_hash(fid) == request->duplicate.made;
	if (kr_request_cache_made_by_other(request, fid))
		return false;
	return request->duplicate.maybe_executed && (attr->mode & 0170000) == type && attr->uid == uid &&
		attr->ctime.sec >= now_sec - horizon_sec;
}

int kr_resent_look(const struct kr_request *request, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, struct kr_fid *ret_fid, struct kr_attr *ret_attr)
{
	int err = kr_export_lookup(request->server->export, cred, parent, name, ret_fid, ret_attr);

	return err || kr_fid_hash(ret_fid) == request->duplicate.made ? err : -EEXIST;
}

/* --- MAKE, LINK ------------------------------------------------------------------------------- */

static void run_make(struct kr_request *request)
{
	const struct kr_make_request *msg = &request->msg.make_request;
	struct kr_make_reply *reply = &request->reply.make_reply;
	struct kr_make make = {.name = msg->name,
		.mode = msg->mode,
		.umask = msg->umask,
		.rdev_major = msg->rdev_major,
		.rdev_minor = msg->rdev_minor,
		.target = msg->target};
	struct kr_export *export = request->server->export;
	uint32_t type = msg->mode & S_IFMT ? msg->mode & S_IFMT : S_IFREG;

	if (request->duplicate.made) {
		request->err = kr_resent_look(request, &msg->cred, &msg->parent, msg->name, &reply->file, &reply->attr);
	} else {
		request->err = kr_export_make(export, &msg->cred, &msg->parent, &make, &reply->file, &reply->attr);
		if (request->err == -EEXIST && request->duplicate.maybe_executed &&
			kr_export_lookup(export, &msg->cred, &msg->parent, msg->name, &reply->file, &reply->attr) ==
				0 &&
			kr_resent_is_ours(request, &reply->file, &reply->attr, type, msg->cred.uid))
			request->err = 0;
	}
	request->effect.no_xattrs = !request->err && kr_export_bare(request->server->export, &reply->file);
	kr_names_look(request, &msg->parent, &reply->dir);
}

static void make_done(struct kr_request *request)
{
	kr_name_sync_changed(request);
	kr_request_reply_job(request);
}

static void start_make(struct kr_request *request)
{
	kr_request_run(request, run_make, make_done);
}

static void handle_make(struct kr_request *request)
{
	kr_name_sync_before(request, start_make);
}

static void run_link(struct kr_request *request)
{
	const struct kr_link_request *msg = &request->msg.link_request;
	struct kr_link_reply *reply = &request->reply.link_reply;
	struct kr_export *export = request->server->export;
	struct kr_fid there;

	reply->file = msg->file;
	kr_watch_own_before(export, &msg->file, &request->effect.own);
	request->err = kr_export_link(export, &msg->cred, &msg->file, &msg->parent, msg->name, &reply->attr);
	kr_watch_own_after(export, &msg->file, &request->effect.own);
	if (request->err == -EEXIST && request->duplicate.maybe_executed && !kr_request_cache_by_other(request) &&
		kr_export_lookup(export, &msg->cred, &msg->parent, msg->name, &there, &reply->attr) == 0 &&
		kr_fid_equal(&there, &msg->file))
		request->err = 0;
	kr_names_look(request, &msg->parent, &reply->dir);
}

static void reply_link(struct kr_request *request, const struct kr_attr *attr)
{
	if (attr)
		request->reply.link_reply.attr = *attr;
	kr_request_reply_job(request);
}

static void link_done(struct kr_request *request)
{
	struct kr_sfile *file = kr_sfile_find(request->server, &request->msg.link_request.file);

	kr_name_sync_changed(request);
	if (request->err) {
		kr_request_reply_job(request);
		return;
	}
	if (file)
		file->orphan = false; /* an unnamed file has a name now */
	kr_watch_own_of(request->server, &request->msg.link_request.file, &request->effect.own);
	request->effect.committed = true;
	kr_attrs_get(request, &request->msg.link_request.file, true, reply_link);
}

static void start_link(struct kr_request *request)
{
	kr_watch_own_begin(request->server, &request->effect.own);
	kr_request_run(request, run_link, link_done);
}

static void handle_link(struct kr_request *request)
{
	kr_name_sync_before(request, start_link);
}

/* --- REMOVE, RENAME --------------------------------------------------------------------------- */

static void exchanged(struct kr_request *request)
{
	const struct kr_removed *removed = request->state;

	if (removed->exchanged.length)
		kr_invalidation_also(request, &removed->exchanged, kr_request_reply_job);
	else
		kr_request_reply_job(request);
}

static void moved(struct kr_request *request)
{
	const struct kr_removed *removed = request->state;

	if (removed->moved.length)
		kr_invalidation_also(request, &removed->moved, exchanged);
	else
		exchanged(request);
}

/* The files' link counts and times have changed with the names. */
static void lost_name(struct kr_request *request)
{
	const struct kr_removed *removed = request->state;

	if (removed->valid)
		kr_invalidation_also(request, &removed->fid, moved);
	else
		moved(request);
}

static void note_own(struct kr_request *request, const struct kr_fid *fid, struct kr_own_change *change)
{
	change->epoch = request->effect.own.epoch;
	change->unheeded = request->effect.own.unheeded;
	if (fid->length)
		kr_watch_own_of(request->server, fid, change);
}

/* The file's state in the table follows the job.  The answer may have to wait for other nodes' invalidations.
 * Meanwhile other nodes may build on the effect: the next instance of the server must not execute the request again. */
static void note_removed(struct kr_request *request)
{
	struct kr_removed *removed = request->state;
	struct kr_sfile *file;
	bool orphaned = removed->orphaned && !removed->named;

	kr_name_sync_changed(request);
	kr_request_cache_end(request, request->err);
	note_own(request, &removed->fid, &removed->own);
	note_own(request, &removed->moved, &removed->moved_own);
	note_own(request, &removed->exchanged, &removed->exchanged_own);
	/* Only now: to note a change can push unused files out of the table. */
	file = removed->valid ? kr_sfile_find(request->server, &removed->fid) : NULL;
	if (removed->delayed)
		file = kr_delayed_unlink_add(request->server, &removed->fid);
	if (file)
		kr_sfile_ref(file); /* an unused file that is gone changes its place in the table with the put */
	if (file && orphaned)
		file->orphan = true;
	if (file && (removed->gone || (orphaned && file->opens == 0))) { /* closed meanwhile */
		file->gone = true;
		kr_commit_gone(file);
	}
	if (file && (file->orphan || file->gone))
		kr_leases_gone(file);
	kr_sfile_put(file);
	lost_name(request);
}

static void run_remove(struct kr_request *request)
{
	const struct kr_remove_request *msg = &request->msg.remove_request;

	request->err = kr_export_remove(request->server->export, &msg->cred, &msg->parent, msg->name, msg->directory,
		KR_DELAYED_UNLINK_SIZE_MAX, request->state);
	if (request->err == -ENOENT && request->duplicate.maybe_executed && !kr_request_cache_by_other(request))
		request->err = 0;
	kr_names_look(request, &msg->parent, &request->reply.remove_reply.dir);
}

static void run_rename(struct kr_request *request)
{
	const struct kr_rename_request *msg = &request->msg.rename_request;
	struct kr_export *export = request->server->export;
	struct kr_fid there;
	struct kr_attr attr;

	request->err = kr_export_rename(export, &msg->cred, &msg->parent, msg->name, &msg->new_parent, msg->new_name,
		msg->flags, KR_DELAYED_UNLINK_SIZE_MAX, request->state);
	if (request->err == -ENOENT && request->duplicate.maybe_executed && !kr_request_cache_by_other(request) &&
		kr_export_lookup(export, &msg->cred, &msg->new_parent, msg->new_name, &there, &attr) == 0)
		request->err = 0;
	kr_names_look(request, &msg->parent, NULL);
	kr_names_look(request, &msg->new_parent, NULL);
}

static void start_removal(struct kr_request *request)
{
	request->state = kr_xcalloc(1, sizeof(struct kr_removed));
	request->free_state = free;
	kr_watch_own_begin(request->server, &request->effect.own);
	kr_request_run(request, request->type == KR_MSG_REMOVE ? run_remove : run_rename, note_removed);
}

/* REMOVE and RENAME: both take a name from a file. */
static void handle_removal(struct kr_request *request)
{
	kr_name_sync_before(request, start_removal);
}

/* --- notes ------------------------------------------------------------------------------------ */

static uint16_t grant_lookup(struct kr_request *request, int err, const void *reply)
{
	const struct kr_lookup_reply *found = reply;

	if (err && err != -ENOENT)
		return 0;
	return kr_invalidation_grant(request, &request->msg.lookup_request.parent) |
		(err ? 0 : kr_attrs_grant(request, &found->file));
}

static uint16_t grant_readlink(struct kr_request *request, int err, const void *reply)
{
	(void)reply;
	return err ? 0 : kr_invalidation_grant(request, &request->msg.readlink_request.file);
}

static uint16_t grant_make(struct kr_request *request, int err, const void *reply)
{
	const struct kr_make_reply *made = reply;

	/* A directory that an earlier execution made need not be empty any more. */
	if (err || request->duplicate.maybe_executed || request->effect.folds)
		return 0;
	return kr_invalidation_grant(request, &request->msg.make_request.parent) | kr_attrs_grant(request, &made->file);
}

static uint16_t grant_link(struct kr_request *request, int err, const void *reply)
{
	uint16_t flags = err ? 0 : kr_attrs_grant(request, &request->msg.link_request.file);

	(void)reply;
	/* An earlier execution says nothing about the present. */
	return err || request->duplicate.maybe_executed ?
		flags :
		flags | kr_invalidation_grant(request, &request->msg.link_request.parent);
}

static uint16_t grant_remove(struct kr_request *request, int err, const void *reply)
{
	(void)reply;
	return err || request->duplicate.maybe_executed ?
		0 :
		kr_invalidation_grant(request, &request->msg.remove_request.parent);
}

/* Of a plain move: the nodes know what the old name stood for. */
static uint16_t grant_rename(struct kr_request *request, int err, const void *reply)
{
	const struct kr_rename_request *msg = &request->msg.rename_request;
	const struct kr_removed *removed = request->state;

	(void)reply;
	if (err || request->duplicate.maybe_executed || request->effect.folds || !removed->moved.length ||
		removed->exchanged.length)
		return 0;
	return kr_invalidation_grant(request, &msg->parent) & kr_invalidation_grant(request, &msg->new_parent);
}

void kr_names_register(struct kr_server *server)
{
	kr_server_on(server, KR_MSG_LOOKUP, handle_lookup, 0);
	kr_server_on(server, KR_MSG_READLINK, handle_readlink, 0);
	kr_server_on(server, KR_MSG_MAKE, handle_make, KR_HANDLER_KEEP_REPLY | KR_HANDLER_CHANGES_NAMES);
	kr_server_on(server, KR_MSG_LINK, handle_link, KR_HANDLER_KEEP_REPLY | KR_HANDLER_CHANGES_NAMES);
	kr_server_on(server, KR_MSG_REMOVE, handle_removal, KR_HANDLER_KEEP_REPLY | KR_HANDLER_CHANGES_NAMES);
	kr_server_on(server, KR_MSG_RENAME, handle_removal, KR_HANDLER_KEEP_REPLY | KR_HANDLER_CHANGES_NAMES);
	kr_invalidation_on(server, KR_MSG_LOOKUP, NULL, grant_lookup);
	kr_invalidation_on(server, KR_MSG_READLINK, NULL, grant_readlink);
	kr_invalidation_on(server, KR_MSG_MAKE, NULL, grant_make);
	kr_invalidation_changes(server, KR_MSG_MAKE, KR_FID_OFFSET(make_request.parent));
	kr_invalidation_on(server, KR_MSG_LINK, NULL, grant_link);
	kr_invalidation_changes(server, KR_MSG_LINK, KR_FID_OFFSET(link_request.file));
	kr_invalidation_changes(server, KR_MSG_LINK, KR_FID_OFFSET(link_request.parent));
	kr_invalidation_on(server, KR_MSG_REMOVE, NULL, grant_remove);
	kr_invalidation_changes(server, KR_MSG_REMOVE, KR_FID_OFFSET(remove_request.parent));
	kr_invalidation_on(server, KR_MSG_RENAME, NULL, grant_rename);
	kr_invalidation_changes(server, KR_MSG_RENAME, KR_FID_OFFSET(rename_request.parent));
	kr_invalidation_changes(server, KR_MSG_RENAME, KR_FID_OFFSET(rename_request.new_parent));
}

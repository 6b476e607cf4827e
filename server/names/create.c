/* CREATE: makes a file, or opens an existing one, in up to three steps.
 *
 * The pool resolves the name; only then the server knows the file.  An existing file waits for other nodes' uncommitted
 * bytes; to truncate it the server recalls other nodes' leases.  It may have to ask for the file's attributes from the
 * nodes that write it.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "server/leases/attrs.h"
#include "server/flush/truncate_barrier.h"
#include "server/export/export.h"
#include "server/leases/leases.h"
#include "server/names/name_sync.h"
#include "server/names/names.h"
#include "server/leases/invalidation.h"
#include "server/names/open.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/leases/file_table.h"
#include "server/session/session.h"
#include "server/names/shrink_notice.h"

struct create {
	struct kr_operation operation; /* on a file that existed */
	struct kr_request *request;
	struct kr_sfile *file;
	uint64_t epoch;
};

static void free_create(void *state)
{
	struct create *create = state;

	kr_operation_end(&create->operation);
	kr_sfile_put(create->file);
	free(create);
}

/* An earlier execution has made the file.  Its maker may open it whatever its mode is, until another user owns it. */
static int open_made(struct kr_request *request)
{
	const struct kr_create_request *msg = &request->msg.create_request;
	struct kr_create_reply *reply = &request->reply.create_reply;
	struct kr_export *export = request->server->export;
	struct kr_fid fid;
	int err = kr_resent_look(request, &msg->cred, &msg->parent, msg->name, &fid, &reply->attr);

	if (!err)
		err = kr_export_open(export, reply->attr.uid == msg->cred.uid ? NULL : &msg->cred, &fid,
			msg->flags & ~(uint32_t)KR_OPEN_TRUNC, &reply->attr);
	if (!err)
		reply->file = fid;
	return err == -ESTALE ? -ENOENT : err == -EACCES ? -EEXIST : err;
}

/* Makes the file, or opens the one that has the name. */
static int make_or_open(struct kr_request *request, bool *ret_created)
{
	const struct kr_create_request *msg = &request->msg.create_request;
	struct kr_create_reply *reply = &request->reply.create_reply;
	struct kr_create create = {.name = msg->name,
		.mode = msg->mode,
		.umask = msg->umask,
		.flags = msg->flags,
		.exclusive = msg->exclusive};
	struct kr_export *export = request->server->export;
	int err = kr_export_create(export, &msg->cred, &msg->parent, &create, ret_created, &reply->file, &reply->attr);

	if ((err == -EEXIST || err == -EACCES) &&
		request->duplicate.maybe_executed) { /* has an earlier execution made it, whose answer was lost? */
		int first = err;

		create.exclusive = false;
		create.unchecked = true;
		err = kr_export_create(
			export, &msg->cred, &msg->parent, &create, ret_created, &reply->file, &reply->attr);
		if (err == -EACCES) {
			err = first;
		} else if (!err && !*ret_created &&
			!kr_resent_is_ours(request, &reply->file, &reply->attr, S_IFREG, msg->cred.uid)) {
			kr_export_release(export, &reply->file, 1);
			err = first;
		}
		*ret_created = true;
	}
	return err;
}

static void run_create(struct kr_request *request)
{
	const struct kr_create_request *msg = &request->msg.create_request;
	struct kr_create_reply *reply = &request->reply.create_reply;
	bool made = request->duplicate.made && msg->exclusive && msg->name[0], created = made;

	request->err = made ? open_made(request) : make_or_open(request, &created);
	reply->created = created;
	request->effect.no_xattrs = !request->err && created && kr_export_bare(request->server->export, &reply->file);
	kr_names_look(request, &msg->parent, &reply->dir);
}

static void reply_create(struct kr_request *request, uint8_t granted)
{
	struct create *create = request->state;
	struct kr_sfile *file = kr_sfile_ref(create->file);
	struct kr_session *session = kr_session_get(request->session);

	request->reply.create_reply.granted = granted;
	kr_request_reply(request, 0, &request->reply, NULL, 0);
	if (granted)
		kr_leases_announced(file, session);
	kr_session_put(session);
	kr_sfile_put(file);
}

static void opened(struct kr_request *request)
{
	const struct kr_create_request *msg = &request->msg.create_request;
	struct create *create = request->state;

	reply_create(request, kr_opens_opened(request, create->file, msg->flags, msg->want));
}

/* The file is open at the export, but the node gets ERR. */
static void fail(struct kr_request *request, int err)
{
	struct kr_sfile *file = ((struct create *)request->state)->file;

	file->opens++;
	kr_opens_release(file, 1);
	kr_request_reply(request, err, NULL, NULL, 0);
}

static void looked(struct kr_request *request, const struct kr_attr *attr)
{
	if (!attr) {
		fail(request, request->err);
		return;
	}
	request->reply.create_reply.attr = *attr;
	opened(request);
}

static void look(struct kr_request *request)
{
	if (request->err)
		fail(request, request->err);
	else
		kr_attrs_get(request, &request->reply.create_reply.file, true, looked);
}

static void send_shrink_notice(struct kr_request *request)
{
	struct create *create = request->state;

	kr_shrink_notice_send(request, create->file, &create->operation, look);
}

static void run_truncate(struct kr_request *request)
{
	struct kr_create_reply *reply = &request->reply.create_reply;
	struct kr_setattr empty = {
		.valid = KR_SET_SIZE, .through_handle = true}; /* the job has checked the right with the name */

	kr_truncate_barrier_to(request, &reply->file, 0);
	request->err = kr_export_setattr(
		request->server->export, &request->msg.create_request.cred, &reply->file, &empty, &reply->attr);
}

static void truncated(struct kr_request *request)
{
	struct kr_sfile *file = ((struct create *)request->state)->file;

	kr_sfile_truncated(file);
	kr_sfile_changed(file);
	if (request->err)
		fail(request, request->err);
	else
		kr_truncate_barrier_end(request, file, send_shrink_notice);
}

static void opened_or_look(struct kr_request *request)
{
	struct create *create = request->state;

	if (kr_attrs_doubtful(request->server, &create->file->fid, request->session->node, create->epoch)) {
		look(request);
	} else {
		kr_sfile_version(create->file, create->file->changes, &request->reply.create_reply.attr);
		opened(request);
	}
}

static void existing_granted(struct kr_operation *operation)
{
	struct create *create = KR_CONTAINER_OF(operation, struct create, operation);
	struct kr_request *request = create->request;

	request->effect.committed = true;
	request->cancel = NULL;
	if (operation->waiter.kinds) {
		kr_sfile_changing(create->file);
		kr_request_run(request, run_truncate, truncated);
	} else {
		kr_operation_end(operation);
		opened_or_look(request);
	}
}

/* Nothing has happened to the file yet: the export's open ends. */
static void cancel_existing(struct kr_request *request)
{
	struct create *create = request->state;

	kr_operation_end(&create->operation);
	create->file->opens++;
	kr_opens_release(create->file, 1);
}

/* The file existed: other nodes' bytes are to be committed, and for O_TRUNC the caller's, too. */
static void open_existing(struct kr_request *request)
{
	struct create *create = request->state;
	bool cuts = request->msg.create_request.flags & KR_OPEN_TRUNC;

	if (request->session->dead) {
		/* nothing could withdraw it, and the node may wait for this to end before it gives leases back */
		request->duplicate.remembered =
			false; /* nothing was truncated: a repetition shall not get this answer */
		fail(request, -ESTALE);
		return;
	}
	request->cancel = cancel_existing;
	kr_operation_start(&create->operation, create->file, request->session->node, cuts ? KR_LEASE_ALL : 0,
		cuts ? KR_COMMITTED_ALL : KR_COMMITTED_OTHERS, existing_granted);
}

static void create_done(struct kr_request *request)
{
	const struct kr_create_request *msg = &request->msg.create_request;
	const struct kr_create_reply *reply = &request->reply.create_reply;
	struct create *create = request->state;

	kr_name_sync_changed(request);
	if (request->err) {
		kr_request_reply_job(request);
		return;
	}
	create->file = kr_sfile_get(request->server, &reply->file);
	create->file->orphan |= msg->name[0] == '\0';
	if (!reply->created && !kr_attachment_room(create->file, request->session)) {
		fail(request, -ENFILE);
		return;
	}
	if (reply->created) {
		kr_sfile_made(create->file, request->session);
		request->effect.committed = true;
		opened_or_look(request);
	} else if (msg->flags & KR_OPEN_TRUNC) {
		kr_invalidation_also(request, &reply->file, open_existing);
	} else {
		open_existing(request);
	}
}

static void start_create(struct kr_request *request)
{
	((struct create *)request->state)->epoch = request->server->files->epoch;
	kr_request_run(request, run_create, create_done);
}

static void handle_create(struct kr_request *request)
{
	struct create *create;

	if (!kr_attachment_room(NULL, request->session)) { /* create_done knows which file it is */
		kr_request_reply(request, -ENFILE, NULL, NULL, 0);
		return;
	}
	create = kr_xcalloc(1, sizeof(*create));
	create->request = request;
	request->state = create;
	request->free_state = free_create;
	kr_name_sync_before(request, start_create);
}

static uint16_t grant_create(struct kr_request *request, int err, const void *reply)
{
	const struct kr_create_request *msg = &request->msg.create_request;
	const struct kr_create_reply *made = reply;

	if (err || !msg->name[0])
		return 0;
	return kr_invalidation_grant(request, &msg->parent) | kr_attrs_grant(request, &made->file);
}

void kr_create_register(struct kr_server *server)
{
	kr_server_on(server, KR_MSG_CREATE, handle_create, KR_HANDLER_KEEP_REPLY | KR_HANDLER_CHANGES_NAMES);
	kr_invalidation_on(server, KR_MSG_CREATE, NULL, grant_create);
	kr_invalidation_changes(server, KR_MSG_CREATE, KR_FID_OFFSET(create_request.parent));
}

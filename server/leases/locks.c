/* See locks.h. */
#include "server/leases/locks.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/fault.h"
#include "common/base/lock_table.h"
#include "server/leases/file_table.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/session/session.h"

struct kr_server_locks {
	struct kr_lock_world world;
	struct kr_list files; /* kr_sfile_locks.link */
};

/* Exists while a session holds a lock of the file or waits for one. */
struct kr_sfile_locks {
	struct kr_link link;   /* kr_server_locks.files */
	struct kr_sfile *file; /* reference */
	struct kr_lock_table table;
};

/* A LOCK that waits. */
struct lock_wait {
	struct kr_lock_waiter waiter;
	struct kr_request *request;
	struct kr_sfile_locks *locks;
};

/* --- the table of a file ---------------------------------------------------------------------- */

static void on_grant(void *context, struct kr_lock_waiter *waiter)
{
	struct lock_wait *wait = KR_CONTAINER_OF(waiter, struct lock_wait, waiter);
	struct kr_session *session = wait->request->session;

	(void)context;
	session->leases.lock_waits--;
	wait->request->cancel = NULL;
	kr_request_reply(wait->request, 0, NULL, NULL, 0);
}

/* `via` is the session: its locks end with it. */
static void counted(void *context, const struct kr_lock *lock, int change)
{
	struct kr_session *session = (struct kr_session *)lock->via;

	(void)context;
	session->leases.locks = change > 0 ? session->leases.locks + 1 : session->leases.locks - 1;
}

static struct kr_sfile_locks *locks_of(struct kr_server *server, const struct kr_fid *fid)
{
	struct kr_sfile *file = kr_sfile_get(server, fid);
	struct kr_sfile_locks *locks = file->locks;

	if (locks) {
		kr_sfile_put(file);
		return locks;
	}
	locks = kr_xcalloc(1, sizeof(*locks));
	locks->file = file;
	kr_lock_table_init(&locks->table, &server->locks->world, on_grant, locks);
	locks->table.counted = counted;
	kr_list_append(&server->locks->files, &locks->link);
	file->locks = locks;
	return locks;
}

static void settle(struct kr_sfile_locks *locks)
{
	if (locks->table.count || !kr_list_empty(&locks->table.waiting))
		return;
	kr_list_remove(&locks->link);
	locks->file->locks = NULL;
	kr_lock_table_fini(&locks->table);
	kr_sfile_put(locks->file);
	free(locks);
}

/* --- handlers --------------------------------------------------------------------------------- */

static bool sound(uint8_t kind, uint64_t first, uint64_t last)
{
	return kind <= KR_LOCK_WRITE && first <= last && last <= KR_LOCK_END;
}

static bool has_open(const struct kr_request *request, const struct kr_fid *fid)
{
	const struct kr_sfile *file = kr_sfile_find(request->server, fid);
	const struct kr_attachment *attachment = file ? kr_attachment_find(file, request->session) : NULL;

	return attachment && attachment->opens > 0;
}

/* Why the session may not have this lock, or 0. */
static int check(const struct kr_request *request, const struct kr_fid *fid, const struct kr_lock *want)
{
	const struct kr_session *session = request->session;

	if (!sound(want->kind, want->first, want->last))
		return -EINVAL;
	if (want->kind == KR_LOCK_NONE)
		return 0;
	if (!has_open(request, fid))
		return -EBADF;
	return session->leases.locks >= KR_SESSION_LOCKS_MAX ||
			session->leases.lock_waits >= KR_SESSION_LOCK_WAITS_MAX ?
		-ENOLCK :
		0;
}

static void free_wait(void *state)
{
	free(state);
}

static void cancel_lock(struct kr_request *request)
{
	struct lock_wait *wait = request->state;

	kr_lock_table_withdraw(&wait->waiter);
	request->session->leases.lock_waits--;
	settle(wait->locks);
}

static void handle_lock(struct kr_request *request)
{
	const struct kr_lock_request *msg = &request->msg.lock_request;
	struct kr_lock want = {.owner = {.node = request->session->node, .flock = msg->flock != 0, .id = msg->owner},
		.first = msg->flock ? 0 : msg->first,
		.last = msg->flock ? KR_LOCK_END : msg->last,
		.kind = msg->kind,
		.pid = msg->pid,
		.via = (uintptr_t)request->session};
	int err = check(request, &msg->file, &want);
	struct kr_sfile_locks *locks;
	struct lock_wait *wait = NULL;

	if (err) {
		kr_request_reply(request, err, NULL, NULL, 0);
		return;
	}
	locks = locks_of(request->server, &msg->file);
	if (msg->wait && want.kind != KR_LOCK_NONE) {
		wait = kr_xcalloc(1, sizeof(*wait));
		*wait = (struct lock_wait){.waiter.want = want, .request = request, .locks = locks};
		request->state = wait;
		request->free_state = free_wait;
	}
	if (wait && locks->table.waits >= KR_FILE_LOCK_WAITS_MAX)
		err = kr_lock_table_set(&locks->table, &want) ? -ENOLCK : 0;
	else
		err = wait ? kr_lock_table_wait(&locks->table, &wait->waiter) : kr_lock_table_set(&locks->table, &want);
	if (err == -EINPROGRESS) {
		request->session->leases.lock_waits++;
		request->cancel = cancel_lock;
		return;
	}
	if (want.kind == KR_LOCK_NONE)
		(void)KR_FAULT("unlock.reply");
	kr_request_reply(request, err, NULL, NULL, 0);
	settle(locks);
}

static void handle_lock_test(struct kr_request *request)
{
	const struct kr_lock_test_request *msg = &request->msg.lock_test_request;
	struct kr_lock_test_reply *reply = &request->reply.lock_test_reply;
	struct kr_lock want = {.owner = {.node = request->session->node, .id = msg->owner},
		.first = msg->first,
		.last = msg->last,
		.kind = msg->kind};
	const struct kr_sfile *file = kr_sfile_find(request->server, &msg->file);
	const struct kr_lock *lock = file && file->locks ? kr_lock_table_conflict(&file->locks->table, &want) : NULL;

	if (!sound(msg->kind, msg->first, msg->last)) {
		kr_request_reply(request, -EINVAL, NULL, NULL, 0);
		return;
	}
	if (lock)
		*reply = (struct kr_lock_test_reply){.kind = lock->kind,
			.first = lock->first,
			.last = lock->last,
			.pid = lock->owner.node == want.owner.node ? lock->pid : 0};
	kr_request_reply_job(request);
}

static void handle_reclaim_lock(struct kr_request *request)
{
	const struct kr_reclaim_lock_request *msg = &request->msg.reclaim_lock_request;
	struct kr_lock want = {.owner = {.node = request->session->node, .flock = msg->flock != 0, .id = msg->owner},
		.first = msg->first,
		.last = msg->last,
		.kind = msg->kind,
		.pid = msg->pid,
		.via = (uintptr_t)request->session};
	int err = check(request, &msg->file, &want);
	struct kr_sfile_locks *locks;

	if (!err && !kr_grace_awaits(&request->server->sessions->grace, request->session->node_id, NULL))
		err = -ENOLCK;
	if (!err) {
		locks = locks_of(request->server, &msg->file);
		if (kr_lock_table_set(&locks->table, &want))
			err = -ENOLCK;
		settle(locks);
	}
	kr_request_reply(request, err, NULL, NULL, 0);
}

/* --- the rest --------------------------------------------------------------------------------- */

static void session_ended(struct kr_session *session)
{
	struct kr_sfile_locks *locks, *after;

	KR_LIST_FOR_EACH_SAFE(locks, after, &session->server->locks->files, link) {
		kr_lock_table_release_node(&locks->table, session->node);
		settle(locks);
	}
}

void kr_locks_freeze(struct kr_server *server)
{
	server->locks->world.closed = true;
}

void kr_locks_init(struct kr_server *server)
{
	server->locks = kr_xcalloc(1, sizeof(*server->locks));
	kr_lock_world_init(&server->locks->world);
	kr_list_init(&server->locks->files);
}

void kr_locks_fini(struct kr_server *server)
{
	free(server->locks);
}

void kr_locks_register(struct kr_server *server)
{
	server->sessions->hooks.locks_end = session_ended;
	kr_server_on(server, KR_MSG_LOCK, handle_lock, KR_HANDLER_KEEP_REPLY);
	kr_server_on(server, KR_MSG_LOCK_TEST, handle_lock_test, 0);
	kr_server_on(server, KR_MSG_RECLAIM_LOCK, handle_reclaim_lock, KR_HANDLER_IN_GRACE);
}

/* See locks.h.
 *
 * A lock passes to another node only when everything that the unlocking node had applied, to any file, is committed.
 * So each unlock begins a wait for these files (struct release).  The server answers a LOCK of another node when all
 * waits that began before its grant are over.
 */
#include "server/base/options.h"
#include "server/leases/locks.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/fault.h"
#include "common/base/lock_table.h"
#include "server/leases/leases.h"
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
	struct kr_list releases;   /* struct release, oldest first */
	struct kr_list unanswered; /* kr_request.wait: LOCKs granted and not answered, struct lock_wait in `state` */
	uint64_t last_release;
};

/* NODE gave a lock of the file up: waits for the files to which it had applied bytes. */
struct release {
	struct kr_link link;
	struct kr_sfile_locks *locks;
	uint32_t node;
	uint64_t number;
	size_t pending;       /* of waits, and one more while they begin */
	struct kr_list waits; /* struct release_wait */
};
struct release_wait {
	struct kr_link link;
	struct kr_operation operation;
	struct release *release;
};

/* A LOCK that waits. */
struct lock_wait {
	struct kr_lock_waiter waiter;
	struct kr_request *request;
	struct kr_sfile_locks *locks;
	uint64_t behind; /* once granted: the number of the last release before */
};

static void settle(struct kr_sfile_locks *locks);

/* --- commitment ------------------------------------------------------------------------------- */

static bool waits_for_release(const struct kr_sfile_locks *locks, const struct lock_wait *wait)
{
	const struct release *release;

	KR_LIST_FOR_EACH(release, &locks->releases, link) {
		if (release->number <= wait->behind && release->node != wait->request->session->node)
			return true;
	}
	return false;
}

static void answer_granted(struct kr_sfile_locks *locks)
{
	struct kr_request *request, *after;

	KR_LIST_FOR_EACH_SAFE(request, after, &locks->unanswered, wait) {
		if (waits_for_release(locks, request->state))
			continue;
		kr_list_remove(&request->wait);
		kr_request_reply(request, 0, NULL, NULL, 0);
	}
}

static void release_over(struct release *release)
{
	struct kr_sfile_locks *locks = release->locks;
	struct release_wait *wait;

	if (--release->pending > 0)
		return;
	while ((wait = KR_LIST_POP(&release->waits, struct release_wait, link))) {
		kr_operation_end(&wait->operation);
		free(wait);
	}
	kr_list_remove(&release->link);
	free(release);
	answer_granted(locks);
	settle(locks);
}

static void file_committed(struct kr_operation *operation)
{
	release_over(KR_CONTAINER_OF(operation, struct release_wait, operation)->release);
}

/* SESSION is about to give a lock up.  LOCKS stays until the caller settles it. */
static void begin_release(struct kr_sfile_locks *locks, const struct kr_session *session)
{
	const struct kr_attachment *attachment;
	struct release *release;

	if (kr_list_empty(&session->leases.uncommitted))
		return;
	release = kr_xcalloc(1, sizeof(*release));
	*release =
		(struct release){.locks = locks, .node = session->node, .number = ++locks->last_release, .pending = 1};
	kr_list_init(&release->waits);
	kr_list_append(&locks->releases, &release->link);
	KR_LIST_FOR_EACH(attachment, &session->leases.uncommitted, uncommitted) {
		struct release_wait *wait = kr_xcalloc(1, sizeof(*wait));

		wait->release = release;
		release->pending++;
		kr_list_append(&release->waits, &wait->link);
		kr_operation_start(&wait->operation, attachment->file, 0, 0, KR_COMMITTED_OTHERS, file_committed);
	}
	if (--release->pending == 0) {
		release->pending = 1;
		release_over(release);
	}
}

/* The lock is there.  WAIT is the request's. */
static void granted(struct lock_wait *wait)
{
	struct kr_request *request = wait->request;

	request->cancel = NULL;
	wait->behind = wait->locks->last_release;
	if (waits_for_release(wait->locks, wait))
		kr_list_append(&wait->locks->unanswered, &request->wait);
	else
		kr_request_reply(request, 0, NULL, NULL, 0);
}

/* --- the table of a file ---------------------------------------------------------------------- */

static void on_grant(void *context, struct kr_lock_waiter *waiter)
{
	struct lock_wait *wait = KR_CONTAINER_OF(waiter, struct lock_wait, waiter);

	(void)context;
	wait->request->session->leases.lock_waits--;
	granted(wait);
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
	kr_list_init(&locks->releases);
	kr_list_init(&locks->unanswered);
	kr_list_append(&server->locks->files, &locks->link);
	file->locks = locks;
	return locks;
}

static void settle(struct kr_sfile_locks *locks)
{
	if (locks->table.count || !kr_list_empty(&locks->table.waiting) || !kr_list_empty(&locks->releases) ||
		!kr_list_empty(&locks->unanswered))
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
	if (request->server->options->gateway && !request->server->options->localflock)
		return -ENOLCK; /* the other gateways would not know of it */
	return session->leases.locks >= KR_SESSION_LOCKS_MAX ||
			session->leases.lock_waits >= KR_SESSION_LOCK_WAITS_MAX ?
		-ENOLCK :
		0;
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
	struct lock_wait *wait;

	if (err) {
		kr_request_reply(request, err, NULL, NULL, 0);
		return;
	}
	locks = locks_of(request->server, &msg->file);
	wait = kr_xcalloc(1, sizeof(*wait));
	*wait = (struct lock_wait){.waiter.want = want, .request = request, .locks = locks};
	request->state = wait;
	request->free_state = free;
	if (want.kind != KR_LOCK_WRITE && kr_lock_table_held(&locks->table, &want.owner, want.first, want.last))
		begin_release(locks, request->session);
	if (!msg->wait || want.kind == KR_LOCK_NONE)
		err = kr_lock_table_set(&locks->table, &want);
	else if (locks->table.waits >= KR_FILE_LOCK_WAITS_MAX)
		err = kr_lock_table_set(&locks->table, &want) ? -ENOLCK : 0;
	else
		err = kr_lock_table_wait(&locks->table, &wait->waiter);
	if (err == -EINPROGRESS) {
		request->session->leases.lock_waits++;
		request->cancel = cancel_lock;
		return;
	}
	if (want.kind == KR_LOCK_NONE && KR_FAULT("unlock.reply")) {
		settle(locks); /* others have the lock, and the node never hears so: this server is to be killed then */
		return;
	}
	if (err || want.kind == KR_LOCK_NONE)
		kr_request_reply(request, err, NULL, NULL, 0);
	else
		granted(wait);
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

static bool holds_any(const struct kr_sfile_locks *locks, uint32_t node)
{
	const struct kr_lock *lock;

	KR_LIST_FOR_EACH(lock, &locks->table.locks, link) {
		if (lock->owner.node == node)
			return true;
	}
	return false;
}

static void session_ended(struct kr_session *session)
{
	struct kr_sfile_locks *locks, *after;

	KR_LIST_FOR_EACH_SAFE(locks, after, &session->server->locks->files, link) {
		if (holds_any(locks, session->node))
			begin_release(locks, session);
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

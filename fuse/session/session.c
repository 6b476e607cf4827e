/* The session's clock, its recovery, its beginning and end.  See session.h, session_priv.h. */
#include "fuse/session/session.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/session/fence.h"
#include "fuse/session/login.h"
#include "fuse/base/options.h"
#include "fuse/session/server_clock.h"
#include "fuse/session/session_priv.h"

enum {
	SILENCE_MS = 3000,
	RESTORES_MAX = 8192 /* of the unanswered requests that a server takes (KR_SESSION_REQUESTS_MAX) */
};

#define CLOCK_MAX_S (INT64_MAX / 2 / (int64_t)KR_NS_PER_S) /* the year 2116 */

/* --- requests outside the rpc's queue --------------------------------------------------------- */

static void free_pending(struct kr_pending *pending)
{
	kr_list_remove(&pending->link);
	free(pending);
}

bool kr_pending_end(struct kr_pending *pending)
{
	bool current = pending->epoch == pending->session->epoch;

	free_pending(pending);
	return current;
}

bool kr_session_direct(
	struct kr_session *session, uint16_t type, const void *msg, kr_rpc_fn callback, const struct kr_fid *file)
{
	struct kr_pending *pending = kr_xcalloc(1, sizeof(*pending));
	int err;

	*pending = (struct kr_pending){.session = session, .epoch = session->epoch, .sent_ns = kr_clock_ns()};
	if (file)
		pending->file = *file;
	kr_list_append(&session->pending, &pending->link);
	err = kr_rpc_direct(session->mount->rpc, type, msg, callback, pending);
	if (err == 0)
		return true;
	free_pending(pending);
	if (err != -ECONNRESET && err != -ENOTCONN)
		kr_rpc_reset(session->mount->rpc, "out of memory");
	return false;
}

/* --- leases' clock ---------------------------------------------------------------------------- */

static void renew(struct kr_session *session, uint64_t sent_ns)
{
	if (session->state == KR_SESSION_LIVE)
		atomic_store(&session->mount->fence_at_ns, kr_fence_after(sent_ns, session->facts.lease_ms));
}

void kr_session_set_clock(struct kr_session *session, struct kr_time now, uint64_t sent_ns)
{
	_Atomic int64_t *offset = &session->mount->server_clock_offset_ns;

	if (now.sec < 0 || now.sec > CLOCK_MAX_S) /* the server has no clock: the known offset stays */
		return;
	atomic_store(offset,
		kr_server_clock_offset(
			atomic_load(offset), sent_ns, kr_clock_ns(), now.sec * (int64_t)KR_NS_PER_S + now.nsec));
}

static void on_ping_reply(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct kr_pending *pending = context;
	struct kr_session *session = pending->session;
	uint64_t sent_ns = pending->sent_ns;

	(void)data;
	if (!kr_pending_end(pending) || err < 0)
		return;
	bool was_fenced = session->state == KR_SESSION_LIVE && kr_mount_fenced(session->mount);
	kr_session_set_clock(session, ((const struct kr_ping_reply *)reply)->now, sent_ns);
	renew(session, sent_ns);
	if (was_fenced && session->hooks)
		session->hooks->resumed(session->mount);
}

static void ping(struct kr_session *session)
{
	struct kr_ping_request request = {};

	kr_session_direct(session, KR_MSG_PING, &request, on_ping_reply, NULL);
}

static void on_told(void *context, int err, const void *reply, struct kr_buf *data)
{
	(void)err, (void)reply, (void)data;
	kr_pending_end(context);
}

static void send_backlog(struct kr_session *session)
{
	struct kr_backlog_request backlog = {0}, *last = &session->backlog;

	if (!session->hooks || !session->hooks->backlog)
		return;
	session->hooks->backlog(session->mount, &backlog);
	if (session->told && backlog.unflushed == last->unflushed && backlog.refused == last->refused)
		return;
	session->told = kr_session_direct(session, KR_MSG_BACKLOG, &backlog, on_told, NULL);
	*last = backlog;
}

static void on_tick(uv_timer_t *timer)
{
	struct kr_session *session = timer->data;
	uint64_t silence_ns = kr_clock_ns() - kr_rpc_heard_ns(session->mount->rpc);

	if (session->state <= KR_SESSION_GREETING)
		return;
	if (silence_ns > (uint64_t)session->facts.lease_ms * KR_NS_PER_MS / 2) {
		kr_rpc_reset(session->mount->rpc, "the server is silent");
		return;
	}
	ping(session);
	send_backlog(session);
	if (session->hooks && session->hooks->heartbeat)
		session->hooks->heartbeat(session->mount);
}

void kr_session_start_tick(struct kr_session *session)
{
	uint64_t interval = KR_MAX(session->facts.lease_ms / 5, 20u);

	uv_timer_start(&session->tick, on_tick, interval, interval);
}

/* --- recovery --------------------------------------------------------------------------------- */

void kr_session_go_live(struct kr_session *session, uint64_t sent_ns)
{
	void (*on_live)(void *context) = session->on_live;

	session->state = KR_SESSION_LIVE;
	session->facts.live = true;
	renew(session, sent_ns);
	kr_rpc_open(session->mount->rpc);
	if (session->complained)
		kr_log_info("connected to %s again", session->mount->options->source);
	session->complained = session->refused = false;
	if (session->hooks)
		session->hooks->resumed(session->mount);
	session->on_live = NULL;
	if (on_live)
		on_live(session->live_context);
}

static void on_done_reply(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct kr_pending *pending = context;
	struct kr_session *session = pending->session;
	uint64_t sent_ns = pending->sent_ns;

	(void)reply, (void)data;
	if (!kr_pending_end(pending) || session->state != KR_SESSION_FINISHING || err == -ECONNRESET)
		return;
	if (err < 0) {
		kr_rpc_reset(session->mount->rpc, "RECLAIM_DONE was refused");
		return;
	}
	session->recovered = true;
	kr_session_go_live(session, sent_ns);
}

static void reclaim_answered(struct kr_session *session)
{
	struct kr_reclaim_done_request request = {};

	if (--session->reclaims || session->state != KR_SESSION_RECLAIMING)
		return;
	session->state = KR_SESSION_FINISHING;
	if (session->hooks && session->hooks->reclaim_locks)
		session->hooks->reclaim_locks(session->mount);
	kr_session_direct(session, KR_MSG_RECLAIM_DONE, &request, on_done_reply, NULL);
}

static void on_reclaim_reply(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct kr_pending *pending = context;
	struct kr_session *session = pending->session;
	struct kr_fid file = pending->file;

	(void)data;
	if (!kr_pending_end(pending) || session->state != KR_SESSION_RECLAIMING || err == -ECONNRESET)
		return; /* without a reply nothing is decided: the next session asks for the file again */
	session->hooks->reclaimed(session->mount, &file, err, reply);
	reclaim_answered(session);
}

static void add_reclaim(void *context, const struct kr_reclaim_item *item)
{
	struct kr_session *session = context;
	struct kr_reclaim_request request = {.file = item->file,
		.opens = item->opens,
		.kinds = item->kinds,
		.first = item->claims.first,
		.last = item->claims.last,
		.resend = item->claims.resend,
		.since = item->since};

	session->reclaims += kr_session_direct(session, KR_MSG_RECLAIM, &request, on_reclaim_reply, &item->file);
}

static void start_reclaims(struct kr_session *session)
{
	session->state = KR_SESSION_RECLAIMING;
	session->reclaims = 1;
	if (session->hooks)
		session->hooks->collect(session->mount, add_reclaim, session);
	reclaim_answered(session);
}

static void restore_answered(struct kr_session *session)
{
	if (--session->restores == 0 && session->state == KR_SESSION_RESTORING)
		start_reclaims(session);
}

/* Whether the file is there, its RECLAIM will tell. */
static void on_restore_reply(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct kr_pending *pending = context;
	struct kr_session *session = pending->session;

	(void)reply, (void)data;
	if (kr_pending_end(pending) && session->state == KR_SESSION_RESTORING && err != -ECONNRESET)
		restore_answered(session);
}

static void add_restore(void *context, const struct kr_restore_request *request)
{
	struct kr_session *session = context;

	if (session->restores < RESTORES_MAX)
		session->restores +=
			kr_session_direct(session, KR_MSG_RESTORE, request, on_restore_reply, &request->file);
}

void kr_session_start_recovery(struct kr_session *session)
{
	session->state = KR_SESSION_RESTORING;
	session->recovered = false;
	session->restores = 1;
	kr_rpc_open_answers(session->mount->rpc);
	if (session->hooks && session->hooks->restore)
		session->hooks->restore(session->mount, add_restore, session);
	restore_answered(session);
}

/* --- outside ---------------------------------------------------------------------------------- */

int kr_session_new(struct kr_mount *mount, struct kr_session **ret_session)
{
	struct kr_session *session = kr_xcalloc(1, sizeof(*session));
	int err = mount->options->key || mount->options->munge ? kr_login_new(mount, &session->login) : 0;

	if (err) {
		free(session);
		return err;
	}
	session->mount = mount;
	kr_list_init(&session->pending);
	uv_timer_init(mount->loop, &session->tick);
	uv_timer_init(mount->loop, &session->deadline);
	session->tick.data = session->deadline.data = session;
	*ret_session = session;
	return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct kr_session *session = handle->data;

	if (--session->closing > 0)
		return;
	while (!kr_list_empty(&session->pending))
		free_pending(KR_LIST_ENTRY(session->pending.head.next, struct kr_pending, link));
	free(session);
}

void kr_session_free(struct kr_session *session)
{
	if (!session)
		return;
	kr_login_free(session->login);
	session->login = NULL;
	session->closing = 2;
	uv_close((uv_handle_t *)&session->tick, on_timer_closed);
	uv_close((uv_handle_t *)&session->deadline, on_timer_closed);
}

void kr_session_set_hooks(struct kr_session *session, const struct kr_session_hooks *hooks)
{
	session->hooks = hooks;
}

void kr_session_start(
	struct kr_session *session, uint64_t timeout_ms, void (*on_hello)(void *context, int err), void *context)
{
	session->on_hello = on_hello;
	session->hello_context = context;
	uv_timer_start(&session->deadline, kr_session_on_deadline, timeout_ms, 0);
	uv_timer_start(&session->tick, kr_session_on_silence, SILENCE_MS, 0);
	kr_rpc_start(session->mount->rpc, &kr_session_events, session);
}

void kr_session_begin(struct kr_session *session, void (*on_live)(void *context), void *context)
{
	session->on_live = on_live;
	session->live_context = context;
	session->begun = true;
	if (session->state == KR_SESSION_READY)
		kr_session_start_recovery(session);
}

struct goodbye {
	uv_timer_t timer;
	void (*done)(void *context);
	void *context;
	bool ended, answered, closed; /* answered: true also if GOODBYE was never sent */
};

static void goodbye_free(struct goodbye *goodbye)
{
	if (goodbye->answered && goodbye->closed)
		free(goodbye);
}

static void on_goodbye_closed(uv_handle_t *handle)
{
	struct goodbye *goodbye = handle->data;

	goodbye->closed = true;
	goodbye_free(goodbye);
}

static void goodbye_end(struct goodbye *goodbye)
{
	if (goodbye->ended)
		return;
	goodbye->ended = true;
	uv_close((uv_handle_t *)&goodbye->timer, on_goodbye_closed);
	goodbye->done(goodbye->context);
}

static void on_goodbye_timeout(uv_timer_t *timer)
{
	goodbye_end(timer->data);
}

static void on_goodbye_reply(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct goodbye *goodbye = context;

	(void)err, (void)reply, (void)data;
	goodbye->answered = true;
	goodbye_end(goodbye);
	goodbye_free(goodbye);
}

void kr_session_goodbye(struct kr_session *session, void (*done)(void *context), void *context)
{
	struct goodbye *goodbye = kr_xcalloc(1, sizeof(*goodbye));
	struct kr_goodbye_request request = {};

	*goodbye = (struct goodbye){.done = done, .context = context};
	goodbye->timer.data = goodbye;
	session->parting = true;
	uv_timer_init(session->mount->loop, &goodbye->timer);
	goodbye->answered = session->state != KR_SESSION_LIVE;
	if (!goodbye->answered)
		kr_rpc_call(session->mount->rpc, KR_MSG_GOODBYE, &request, NULL, 0, 0, on_goodbye_reply, goodbye);
	uv_timer_start(&goodbye->timer, on_goodbye_timeout, goodbye->answered ? 0 : 1000, 0);
}

const struct kr_session_facts *kr_session_facts(const struct kr_session *session)
{
	return &session->facts;
}

const char *kr_session_obstacle(const struct kr_session *session)
{
	return session->obstacle;
}

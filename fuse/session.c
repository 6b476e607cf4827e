/* See session.h.
 *
 *   DOWN --connection--> GREETING --HELLO's reply--> resumed: LIVE
 *                                                    else:    (first time: READY until kr_session_begin) RECLAIMING
 *   RECLAIMING --all RECLAIMs answered--> REPLAYING --kr_session_replayed--> FINISHING --RECLAIM_DONE--> LIVE
 *   any --connection lost--> DOWN (a recovery that was under way starts over with the next session)
 */
#include "fuse/session.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/fail.h"
#include "common/log.h"
#include "common/notes.h"
#include "common/util.h"
#include "fuse/fence.h"
#include "fuse/localdir.h"
#include "fuse/login.h"
#include "fuse/loop.h"
#include "fuse/notes.h"
#include "fuse/options.h"
#include "fuse/rpc.h"
#include "fuse/server_clock.h"

enum { LEASE_MAX_MS = 3600000 };
#define CLOCK_MAX_S (INT64_MAX / 2 / (int64_t)KR_NS_PER_S) /* the year 2116 */
enum state { DOWN, GREETING, READY, RECLAIMING, REPLAYING, FINISHING, LIVE };

struct kr_session {
	struct kr_mount *mount;
	const struct kr_session_hooks *hooks;
	struct kr_login *login;    /* NULL without a key */
	char own_host[64];         /* our address towards the server that is being connected to */
	struct kr_session_facts facts;
	enum state state;
	uint64_t epoch;            /* counts connections: late answers of an earlier one are ignored */
	uint64_t last_connected;   /* the session that was LIVE or on the way there; 0: none */
	bool begun;                /* kr_session_begin has been called */
	bool recovered;            /* the present session has been through its recovery */
	bool boot_changed;
	size_t reclaims;           /* not yet answered, plus one while they are being sent */
	uint64_t hello_sent_ns;
	uv_timer_t tick, deadline;
	bool complained, refused;  /* in this outage: of the connection, of the server's refusal */
	bool postponed;            /* the server takes this node later: it asks again */
	bool parting;              /* GOODBYE has been said: no session any more */
	void (*on_hello)(void *context, int err);
	void *hello_context;
	void (*on_live)(void *context);
	void *live_context;
	struct kr_list pending;    /* struct pending: those whose answers do not come any more are freed with the session */
	int closing;               /* timers not yet closed */
};

/* What a request's answer must match to count. */
struct pending {
	struct kr_link link;
	struct kr_session *session;
	uint64_t epoch, sent_ns;
	struct kr_fid file;
};

static struct pending *pending_new(struct kr_session *session)
{
	struct pending *pending = kr_xcalloc(1, sizeof(*pending));

	pending->session = session;
	pending->epoch = session->epoch;
	pending->sent_ns = kr_clock_ns();
	kr_list_append(&session->pending, &pending->link);
	return pending;
}

static void pending_free(struct pending *pending)
{
	kr_list_remove(&pending->link);
	free(pending);
}

static bool pending_end(struct pending *pending)
{
	bool current = pending->epoch == pending->session->epoch;

	pending_free(pending);
	return current;
}

static void report_hello(struct kr_session *session, int err)
{
	void (*on_hello)(void *context, int err) = session->on_hello;

	session->on_hello = NULL;
	uv_timer_stop(&session->deadline);
	if (on_hello)
		on_hello(session->hello_context, err);
}

/* --- leases' clock -------------------------------------------------------------------------------------------------- */

static void renew(struct kr_session *session, uint64_t sent_ns)
{
	if (session->state == LIVE)
		atomic_store(&session->mount->fence_at_ns, kr_fence_after(sent_ns, session->facts.lease_ms));
}

static void set_clock(struct kr_session *session, struct kr_time now, uint64_t sent_ns)
{
	_Atomic int64_t *offset = &session->mount->server_clock_offset_ns;

	if (now.sec < 0 || now.sec > CLOCK_MAX_S) /* no clock: the offset that was known stays */
		return;
	atomic_store(offset, kr_server_clock_offset(atomic_load(offset), sent_ns, kr_clock_ns(), now.sec * (int64_t)KR_NS_PER_S + now.nsec));
}

static void on_ping_reply(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct pending *pending = context;
	struct kr_session *session = pending->session;
	uint64_t sent_ns = pending->sent_ns;

	(void)data;
	if (!pending_end(pending) || err < 0)
		return;
	bool was_fenced = session->state == LIVE && kr_mount_fenced(session->mount);
	set_clock(session, ((const struct kr_ping_reply *)reply)->now, sent_ns);
	renew(session, sent_ns);
	if (was_fenced && session->hooks)
		session->hooks->resumed(session->mount);
}

static void ping(struct kr_session *session)
{
	struct pending *pending = pending_new(session);
	struct kr_ping_request request = {};

	if (kr_rpc_direct(session->mount->rpc, KR_MSG_PING, &request, on_ping_reply, pending) < 0)
		pending_free(pending);
}

static void on_tick(uv_timer_t *timer)
{
	struct kr_session *session = timer->data;
	uint64_t silence_ns = kr_clock_ns() - kr_rpc_heard_ns(session->mount->rpc);

	if (session->state <= GREETING)
		return;
	if (silence_ns > (uint64_t)session->facts.lease_ms * KR_NS_PER_MS / 2)
		kr_rpc_reset(session->mount->rpc, "the server is silent");
	else
		ping(session);
}

/* --- recovery ------------------------------------------------------------------------------------------------------- */

static void go_live(struct kr_session *session, uint64_t sent_ns)
{
	void (*on_live)(void *context) = session->on_live;

	session->state = LIVE;
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
	struct pending *pending = context;
	struct kr_session *session = pending->session;
	uint64_t sent_ns = pending->sent_ns;

	(void)reply, (void)data;
	if (!pending_end(pending) || session->state != FINISHING || err == -ECONNRESET)
		return;
	if (err < 0) {
		kr_rpc_reset(session->mount->rpc, "RECLAIM_DONE was refused");
		return;
	}
	session->recovered = true;
	go_live(session, sent_ns);
}

void kr_session_replayed(struct kr_session *session)
{
	struct kr_reclaim_done_request request = {};
	struct pending *pending;

	if (session->state != REPLAYING)
		return;
	session->state = FINISHING;
	pending = pending_new(session);
	if (kr_rpc_direct(session->mount->rpc, KR_MSG_RECLAIM_DONE, &request, on_done_reply, pending) < 0)
		pending_free(pending); /* the connection is ending: it all starts over */
}

static void reclaim_answered(struct kr_session *session)
{
	if (--session->reclaims || session->state != RECLAIMING)
		return;
	session->state = REPLAYING;
	if (session->hooks)
		session->hooks->replay(session->mount, session->boot_changed);
	else
		kr_session_replayed(session);
}

static void on_reclaim_reply(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct pending *pending = context;
	struct kr_session *session = pending->session;
	struct kr_fid file = pending->file;

	(void)data;
	if (!pending_end(pending) || session->state != RECLAIMING || err == -ECONNRESET)
		return; /* without an answer nothing is decided: the file is asked for again in the next session */
	session->hooks->reclaimed(session->mount, &file, err, reply, session->boot_changed);
	reclaim_answered(session);
}

static void add_reclaim(void *context, const struct kr_reclaim_item *item)
{
	struct kr_session *session = context;
	struct kr_reclaim_request request = {.file = item->file, .opens = item->opens, .kinds = item->kinds,
		.first = item->claims.first, .last = item->claims.last, .replay_first = item->claims.replay_first,
		.replay_last = item->claims.replay_last, .oldest = item->claims.oldest, .newest = item->claims.newest,
		.since = item->since};
	struct pending *pending = pending_new(session);

	pending->file = item->file;
	if (kr_rpc_direct(session->mount->rpc, KR_MSG_RECLAIM, &request, on_reclaim_reply, pending) < 0)
		pending_free(pending);
	else
		session->reclaims++;
}

static void start_recovery(struct kr_session *session)
{
	session->state = RECLAIMING;
	session->recovered = false;
	session->reclaims = 1;
	/* First, so that replays of a recovery that broke off are given up and do not go out again. */
	if (session->hooks)
		session->hooks->collect(session->mount, session->boot_changed, add_reclaim, session);
	kr_rpc_open_early(session->mount->rpc);
	reclaim_answered(session);
}

/* --- HELLO ---------------------------------------------------------------------------------------------------------- */

static void take_facts(struct kr_session *session, const struct kr_hello_reply *reply)
{
	struct kr_session_facts *facts = &session->facts;
	bool same_boot = facts->id && memcmp(facts->boot_id, reply->boot_id, sizeof(facts->boot_id)) == 0;

	/* A change stays a change until a recovery that knows of it has been completed. */
	session->boot_changed = !same_boot || (session->boot_changed && !session->recovered);
	if (!facts->id) {
		facts->root = reply->root;
		facts->root_attr = reply->root_attr;
		memcpy(facts->export_id, reply->export_id, sizeof(facts->export_id));
	}
	facts->id = reply->session;
	facts->node = reply->node;
	facts->instance = reply->instance;
	facts->late = reply->late;
	facts->lookups = reply->may & KR_FEATURE_LOOKUPS;
	facts->lease_ms = reply->lease_ms;
	facts->grace_ms = reply->grace_ms;
	memcpy(facts->boot_id, reply->boot_id, sizeof(facts->boot_id));
	memcpy(facts->ring_key, reply->ring_key, sizeof(facts->ring_key));
	facts->security = KR_SECURITY_AUTH;
	if (session->login)
		facts->security = (int)kr_login_unmask(session->login, facts->ring_key);
}

/* 0, or why this answer cannot be used. */
static int check_hello(const struct kr_session *session, const struct kr_hello_reply *reply)
{
	if (reply->proto != KR_PROTO_VERSION)
		return kr_fail(-EPROTONOSUPPORT, "the server speaks protocol %u, this program %d", reply->proto, KR_PROTO_VERSION);
	if (reply->must)
		return kr_fail(-EPROTONOSUPPORT, "the server needs features that this program lacks (0x%llx)",
			(unsigned long long)reply->must);
	if (reply->lease_ms < 100 || reply->lease_ms > LEASE_MAX_MS || !reply->session || !S_ISDIR(reply->root_attr.mode))
		return kr_fail(-EPROTO, "the server's answer to HELLO makes no sense");
	if (session->facts.id && memcmp(session->facts.export_id, reply->export_id, sizeof(reply->export_id)) != 0)
		return kr_fail(-ESTALE, "the server now serves another export");
	return 0;
}

static const char *hello_refusal(int err)
{
	switch (err) {
	case -EPROTONOSUPPORT:
		return "it speaks another version of the protocol (are both sides of one release?)";
	case -EKEYREJECTED:
		return "it does not accept this key any more";
	case -ENOKEY:
		return "it wants a key (mount with -o key=FILE, a copy of a file that kairand was started with)";
	case -EPERM:
		return "it does not know the user of this key (its log says more)";
	case -EBUSY:
		return "this local directory is in use with a key of somebody else (choose another one with -o local=DIR)";
	case -ENOENT:
		return "the export has no such subdirectory";
	case -ENOTDIR:
		return "what is to be mounted is not a directory";
	case -EUSERS:
		return "this user has too many mounts already (kairand --user-sessions N says how many there may be)";
	case -EAGAIN:
		return "it cannot take it yet (the leases of its former session have to end first, or there are too many nodes)";
	default:
		return strerror(-err);
	}
}

static void hello_failed(struct kr_session *session, int err)
{
	session->postponed = err == -EAGAIN;
	if (session->on_hello && !session->postponed) {
		report_hello(session, err);
		return;
	}
	if (!session->refused && session->postponed)
		kr_log_warn("%s: %s; trying on", session->mount->options->source, kr_fail_reason());
	else if (!session->refused)
		kr_log_error("%s: %s; trying on", session->mount->options->source, kr_fail_reason());
	session->complained = session->refused = true;
	kr_rpc_reset(session->mount->rpc, "HELLO failed");
}

static void on_hello_reply(void *context, int err, const void *message, struct kr_buf *data)
{
	struct pending *pending = context;
	struct kr_session *session = pending->session;
	const struct kr_hello_reply *reply = message;
	uint64_t sent_ns = pending->sent_ns;

	(void)data;
	if (!pending_end(pending) || err == -ECONNRESET)
		return; /* on_disconnected deals with it */
	if (err < 0)
		err = kr_fail(err, "server %s refuses this node: %s", session->mount->options->source, hello_refusal(err));
	else
		err = check_hello(session, reply);
	if (err < 0) {
		hello_failed(session, err);
		return;
	}
	bool resumed = reply->resumed && reply->session == session->facts.id && session->recovered;
	take_facts(session, reply);
	set_clock(session, reply->now, sent_ns);
	kr_rpc_set_session(session->mount->rpc, reply->session);
	if (session->hooks && session->hooks->identify)
		session->hooks->identify(session->mount);
	uint64_t interval = KR_MAX(session->facts.lease_ms / 5, 20u);
	uv_timer_start(&session->tick, on_tick, interval, interval);
	session->state = READY;
	if (resumed) {
		go_live(session, sent_ns);
	} else if (session->begun) {
		kr_log_warn("%s does not know our session any more%s: reclaiming", session->mount->options->source,
			session->facts.late ? ", and others may have had our leases" : "");
		start_recovery(session);
	}
	report_hello(session, 0);
}

/* Our own address on the way to ADDRESS: what the routing table says, without sending anything. */
static void address_towards(const struct sockaddr *address, char *host, size_t size)
{
	struct sockaddr_storage own = {0};
	socklen_t length = sizeof(own);
	KR_AUTO_FD int fd = socket(address->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	*host = '\0';
	if (fd >= 0 && connect(fd, address, sizeof(struct sockaddr_storage)) == 0 &&
	    getsockname(fd, (struct sockaddr *)&own, &length) == 0)
		kr_address_host((struct sockaddr *)&own, host, size);
}

static void say_hello(struct kr_session *session)
{
	struct kr_mount *mount = session->mount;
	struct kr_hello_request hello = {.proto_min = KR_PROTO_VERSION, .proto_max = KR_PROTO_VERSION,
		.node_name = kr_local_node_name(mount->local), .incarnation = kr_local_incarnation(mount->local),
		.session = session->facts.id, .subdir = mount->options->subdir, .may = KR_FEATURE_NOTES | KR_FEATURE_OWN_NAMES};

	memcpy(hello.node_id, kr_local_node_id(mount->local), sizeof(hello.node_id));
	hello.ring_address = session->own_host;
	if (session->hooks && session->hooks->listen)
		session->hooks->listen(mount, session->own_host, &hello.ring_port);
	struct pending *pending = pending_new(session);
	if (kr_rpc_direct(mount->rpc, KR_MSG_HELLO, &hello, on_hello_reply, pending) < 0)
		pending_free(pending);
}

static void on_login(void *context, int err)
{
	struct kr_session *session = context;

	if (session->parting)
		return;
	if (err < 0)
		hello_failed(session, session->on_hello ? kr_fail(err, "server %s: %s", session->mount->options->source, kr_fail_reason()) : err);
	else
		say_hello(session);
}

static void on_connecting(void *context, const struct sockaddr *address)
{
	struct kr_session *session = context;

	if (session->parting)
		return;
	session->epoch++;
	session->postponed = false;
	session->state = GREETING;
	address_towards(address, session->own_host, sizeof(session->own_host));
	if (session->login)
		kr_login_start(session->login, on_login, session);
	else
		say_hello(session);
}

static void on_disconnected(void *context, int err, const char *reason)
{
	struct kr_session *session = context;
	const struct kr_mount_options *options = session->mount->options;

	session->epoch++;
	session->state = DOWN;
	session->facts.live = false;
	kr_notes_clear(session->mount);
	if (session->on_hello && session->postponed)
		return; /* the deadline ends it */
	if (session->on_hello) {
		err = err ? err : -ECONNRESET;
		/* A reason about the name has its own advice. */
		kr_fail(err, "cannot reach server %s:%u: %s%s", options->server.host, options->server.port, reason,
			strchr(reason, '(') ? "" : " (is kairand running there?)");
		report_hello(session, err);
		return;
	}
	if (!session->begun || session->parting)
		return;
	if (!session->complained)
		kr_log_warn("connection to %s lost: %s; operations wait", options->source, reason);
	session->complained = true;
}

static const struct kr_rpc_events events = {.on_connecting = on_connecting, .on_disconnected = on_disconnected};

static void on_deadline(uv_timer_t *timer)
{
	struct kr_session *session = timer->data;
	const struct kr_mount_options *options = session->mount->options;

	if (session->refused)
		report_hello(session, kr_fail(-EAGAIN, "server %s refuses this node: %s", options->source, hello_refusal(-EAGAIN)));
	else
		report_hello(session, kr_fail(-ETIMEDOUT, "no answer from server %s:%u (is the address right, and is a firewall between?)",
		options->server.host, options->server.port));
}

/* --- outside -------------------------------------------------------------------------------------------------------- */

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
		pending_free(KR_LIST_ENTRY(session->pending.head.next, struct pending, link));
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

void kr_session_start(struct kr_session *session, uint64_t timeout_ms, void (*on_hello)(void *context, int err), void *context)
{
	session->on_hello = on_hello;
	session->hello_context = context;
	uv_timer_start(&session->deadline, on_deadline, timeout_ms, 0);
	kr_rpc_start(session->mount->rpc, &events, session);
}

void kr_session_begin(struct kr_session *session, void (*on_live)(void *context), void *context)
{
	session->on_live = on_live;
	session->live_context = context;
	session->begun = true;
	if (session->state == READY)
		start_recovery(session);
}

struct goodbye {
	uv_timer_t timer;
	void (*done)(void *context);
	void *context;
	bool ended, answered, closed; /* answered: or never asked */
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
	goodbye->answered = session->state != LIVE;
	if (!goodbye->answered)
		kr_rpc_call(session->mount->rpc, KR_MSG_GOODBYE, &request, NULL, 0, 0, on_goodbye_reply, goodbye);
	uv_timer_start(&goodbye->timer, on_goodbye_timeout, goodbye->answered ? 0 : 1000, 0);
}

const struct kr_session_facts *kr_session_facts(const struct kr_session *session)
{
	return &session->facts;
}

/* How a session begins: a connection, the login if there is a key, HELLO and its reply, or why there is no session.
 * See session_priv.h.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/rpc/attr_cache.h"
#include "common/base/util.h"
#include "common/rpc/proto.h"
#include "fuse/base/local_dir.h"
#include "fuse/session/login.h"
#include "fuse/base/options.h"
#include "fuse/session/session_priv.h"

enum { LEASE_MAX_MS = 3600000, SAY_AGAIN_S = 60 };

static void report_hello(struct kr_session *session, int err)
{
	void (*on_hello)(void *context, int err) = session->on_hello;

	session->on_hello = NULL;
	uv_timer_stop(&session->deadline);
	if (on_hello)
		on_hello(session->hello_context, err);
}

/* How long the mount waits for a first session, and the option that says so. */
static uint64_t patience_ms(const struct kr_session *session)
{
	const struct kr_mount_options *options = session->mount->options;

	return session->waits_for_end ? options->drain_timeout : options->connect_timeout;
}

static const char *patience_name(const struct kr_session *session)
{
	return session->waits_for_end ? "--timeout" : "connect_timeout";
}

/* There is no first session yet, for REASON.  Not every attempt gets a line in the log: a name with two addresses may
 * fail in turns. */
static void wait_on(struct kr_session *session, const char *reason)
{
	const bool same = strcmp(session->obstacle, reason) == 0;
	uint64_t now_ns = kr_clock_ns();

	snprintf(session->obstacle, sizeof(session->obstacle), "%s", reason);
	if (session->said_ns && (same || now_ns - session->said_ns < SAY_AGAIN_S * KR_NS_PER_S))
		return;
	session->said_ns = now_ns;
	kr_log_warn(
		"%s; trying again for %g s (%s)", reason, (double)patience_ms(session) / 1e3, patience_name(session));
}

/* The session that is in the way of a replay ends by itself.  The wait for its end takes from the replay's own time. */
static void wait_for_end(struct kr_session *session)
{
	const uint64_t now_ns = kr_clock_ns(), ends_ns = atomic_load(&session->mount->drain_deadline_ns);

	if (!session->mount->options->replay || session->waits_for_end)
		return;
	session->waits_for_end = true;
	uv_timer_start(&session->deadline, kr_session_on_deadline,
		ends_ns > now_ns ? (ends_ns - now_ns) / KR_NS_PER_MS : 0, 0);
}

/* The server's machine has booted during the session: it has lost all that was not on its disk. */
static void report_boot(struct kr_session *session)
{
	size_t lost = session->hooks && session->hooks->booted ?
		session->hooks->booted(session->mount, session->heard_ns, kr_clock_ns()) :
		0;

	if (lost)
		kr_log_warn(
			"the server's machine has booted anew, or another one has taken over: changes of names in %zu "
			"directories may be lost that no fsync of the directory has followed; such an fsync fails now, "
			"once",
			lost);
}

static void take_facts(struct kr_session *session, const struct kr_hello_reply *reply)
{
	struct kr_session_facts *facts = &session->facts;

	if (facts->id && memcmp(facts->boot_id, reply->boot_id, sizeof(facts->boot_id)) != 0)
		report_boot(session);
	if (!facts->id) {
		facts->root = reply->root;
		facts->root_attr = reply->root_attr;
		memcpy(facts->export_id, reply->export_id, sizeof(facts->export_id));
	}
	facts->id = reply->session;
	facts->node = reply->node;
	facts->instance = reply->instance;
	facts->late = reply->late || session->mount->power_lost;
	session->told = false;
	facts->lease_ms = reply->lease_ms;
	facts->grace_ms = reply->grace_ms;
	atomic_store(&session->mount->file_max, KR_MIN(reply->file_max, (uint64_t)INT64_MAX));
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
		return kr_proto_differs(reply->proto);
	if (reply->must)
		return kr_fail(-EPROTONOSUPPORT, "the server needs features that this program lacks (0x%llx)",
			(unsigned long long)reply->must);
	if (reply->lease_ms < 100 || reply->lease_ms > LEASE_MAX_MS || !reply->session ||
		!S_ISDIR(reply->root_attr.mode))
		return kr_fail(-EPROTO, "the server's answer to HELLO makes no sense");
	if (session->facts.id && memcmp(session->facts.export_id, reply->export_id, sizeof(reply->export_id)) != 0)
		return kr_fail(-ESTALE, "the server now serves another export");
	if (session->facts.id && reply->instance < session->facts.instance)
		return kr_fail(-ESTALE,
			"the server is an older copy: this is its start number %" PRIu64 ", and number %" PRIu64
			" was here before (a snapshot, a backup, or a standby that was cut off?)",
			reply->instance, session->facts.instance);
	return 0;
}

static const char *replay_refusal(int err)
{
	if (err == -EBUSY)
		return "the node whose journal this is, or of which this is a copy, is connected, or somebody else "
		       "replays it, or the node came with a key "
		       "of somebody else (the server's log says which)";
	if (err == -EAGAIN)
		return "the former session of the node whose journal this is has to end first (or there are too many "
		       "nodes)";
	return NULL;
}

static const char *hello_refusal(int err)
{
	switch (err) {
	case -EPROTONOSUPPORT:
		return kr_fail_reason();
	case -EKEYREJECTED:
		return "it does not accept this key any more";
	case -ENOKEY:
		return "it wants a key (mount with -o key=FILE, a copy of a file that kairand was started with)";
	case -EPERM:
		return "it does not know the user of this key (its log says more)";
	case -EBUSY:
		return "this local directory is in use with a key of somebody else (choose another one with -o "
		       "local=DIR)";
	case -ENOENT:
		return "the export has no such subdirectory";
	case -EACCES:
		return "the user of this key may not go to that subdirectory";
	case -ENOTDIR:
		return "what is to be mounted is not a directory";
	case -ENXIO:
		return "its state directory was removed or cannot be written (its log says more)";
	case -EUSERS:
		return "this user has too many mounts already (kairand --user-sessions N says how many there may be)";
	case -EAGAIN:
		return "it cannot take it yet (the leases of its former session have to end first, or there are too "
		       "many nodes)";
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
	if (session->on_hello) {
		wait_for_end(session);
		wait_on(session, kr_fail_reason());
	} else if (err == -EBUSY && session->mount->options->replay) {
		if (!session->refused)
			kr_log_error("%s: %s; what is not on the server yet stays in this journal",
				session->mount->options->source, kr_fail_reason());
		session->hooks->refused(session->mount);
	} else if (!session->refused && session->postponed)
		kr_log_warn("%s: %s; trying on", session->mount->options->source, kr_fail_reason());
	else if (!session->refused)
		kr_log_error("%s: %s; trying on", session->mount->options->source, kr_fail_reason());
	session->complained = session->refused = true;
	snprintf(session->obstacle, sizeof(session->obstacle), "%s", kr_fail_reason());
	kr_rpc_reset(session->mount->rpc, session->obstacle);
}

static void on_hello_reply(void *context, int err, const void *message, struct kr_buf *data)
{
	struct kr_pending *pending = context;
	struct kr_session *session = pending->session;
	const struct kr_hello_reply *reply = message;
	const bool replaying = session->mount->options->replay;
	uint64_t sent_ns = pending->sent_ns;

	(void)data;
	if (!kr_pending_end(pending) || err == -ECONNRESET)
		return; /* on_disconnected deals with it */
	if (err < 0)
		err = kr_fail(err, "server %s refuses this %s: %s", session->mount->options->source,
			replaying ? "replay" : "node",
			replaying && replay_refusal(err) ? replay_refusal(err) : hello_refusal(err));
	else
		err = check_hello(session, reply);
	if (err < 0) {
		hello_failed(session, err);
		return;
	}
	bool resumed = reply->resumed && reply->session == session->facts.id && session->recovered;
	take_facts(session, reply);
	kr_session_set_clock(session, reply->now, sent_ns);
	kr_rpc_set_session(session->mount->rpc, reply->session);
	if (session->hooks && session->hooks->welcomed)
		session->hooks->welcomed(session->mount);
	session->state = KR_SESSION_READY;
	kr_session_start_tick(session);
	if (resumed) {
		kr_session_go_live(session, sent_ns);
	} else if (session->begun) {
		kr_log_warn("%s does not know our session any more%s: reclaiming", session->mount->options->source,
			session->facts.late ? ", and others may have had our leases" : "");
		kr_session_start_recovery(session);
	}
	report_hello(session, 0);
}

/* The node's own address on the way to ADDRESS, from the routing table, without sending anything. */
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

static void send_hello(struct kr_session *session)
{
	struct kr_mount *mount = session->mount;
	struct kr_hello_request hello = {.proto_min = KR_PROTO_VERSION,
		.proto_max = KR_PROTO_VERSION,
		.node_name = kr_local_node_name(mount->local),
		.incarnation = kr_local_incarnation(mount->local),
		.session = session->facts.id,
		.subdir = mount->options->subdir,
		.flags = (mount->options->replay ? KR_HELLO_REPLAY : 0) | (mount->power_lost ? KR_HELLO_POWER_LOST : 0),
		.ring = mount->options->ring ? mount->options->ring : ""};

	memcpy(hello.node_id, kr_local_node_id(mount->local), sizeof(hello.node_id));
	hello.ring_address = session->own_host;
	/* No route leads there: HELLO will not arrive either. */
	if (*session->own_host && session->hooks && session->hooks->listen)
		session->hooks->listen(mount, session->own_host, &hello.ring_port);
	kr_session_direct(session, KR_MSG_HELLO, &hello, on_hello_reply, NULL);
}

static void on_login(void *context, int err)
{
	struct kr_session *session = context;

	if (session->parting)
		return;
	if (err < 0)
		hello_failed(session,
			session->on_hello ?
				kr_fail(err, "server %s: %s", session->mount->options->source, kr_fail_reason()) :
				err);
	else
		send_hello(session);
}

static void on_connecting(void *context, const struct sockaddr *address)
{
	struct kr_session *session = context;

	if (session->parting)
		return;
	session->epoch++;
	session->postponed = false;
	session->state = KR_SESSION_GREETING;
	address_towards(address, session->own_host, sizeof(session->own_host));
	if (session->login)
		kr_login_start(session->login, on_login, session);
	else
		send_hello(session);
}

/* Advice for the user.  A reason that has its own, as those about the name do, gets none. */
static const char *advice(int err, const char *reason)
{
	if (strchr(reason, '('))
		return "";
	switch (err) {
	case -ECONNREFUSED:
		return " (is kairand running there?)";
	case 0:
	case -ECONNRESET:
		return " (kairand's log there may say why)";
	case -EBADMSG:
		return " (is it kairand that listens there?)";
	default:
		return " (is the network up, and that machine?)";
	}
}

/* The first connection ended, or could not be made.  That may change, unless the peer speaks another protocol, or was a
 * job's kairand, which never starts again. */
static void first_failed(struct kr_session *session, int err, const char *reason)
{
	const struct kr_mount_options *options = session->mount->options;

	if (session->postponed)
		return; /* the log has the reason already */
	if (options->head && err == -ECONNREFUSED) {
		report_hello(
			session, kr_fail(err, "%s has just ended; mount again to begin the job anew", options->head));
		return;
	}
	/* 0: node or server closed it without an error */
	kr_fail(err < 0 ? err : -ECONNRESET, "cannot reach server %s:%u: %s%s", options->server.host,
		options->server.port, reason, advice(err, reason));
	if (err == -EBADMSG)
		report_hello(session, err);
	else
		wait_on(session, kr_fail_reason());
}

/* A job's kairand never starts again.  If it has ended, none listens there any more, or another one does. */
static bool head_has_ended(const struct kr_session *session, int err)
{
	return err == -ECONNREFUSED || (session->refused && !session->postponed);
}

/* If the head's machine is lost, or the link, there is no connection for `timeo`. */
static bool head_is_silent(const struct kr_session *session)
{
	return kr_clock_ns() - session->lost_ns > session->mount->options->timeo * KR_NS_PER_MS;
}

static void on_disconnected(void *context, int err, const char *reason)
{
	struct kr_session *session = context;
	const struct kr_mount_options *options = session->mount->options;

	session->epoch++;
	session->state = KR_SESSION_DOWN;
	if (session->facts.live)
		session->heard_ns = kr_rpc_heard_ns(session->mount->rpc);
	if (session->facts.live || !session->lost_ns)
		session->lost_ns = kr_clock_ns();
	session->facts.live = false;
	if (session->login)
		kr_login_stop(session->login);
	if (session->hooks && session->hooks->disconnected)
		session->hooks->disconnected(session->mount);
	if (session->on_hello) {
		first_failed(session, err, reason);
		return;
	}
	if (!session->begun || session->parting)
		return;
	if (options->head && (head_has_ended(session, err) || head_is_silent(session))) {
		session->hooks->gone(session->mount, head_has_ended(session, err));
		return;
	}
	if (reason != session->obstacle) /* of hello_failed */
		snprintf(session->obstacle, sizeof(session->obstacle), "%s", reason);
	if (!session->complained)
		kr_log_warn("connection to %s lost: %s; operations wait", options->source, reason);
	session->complained = true;
}

const struct kr_rpc_events kr_session_events = {.on_connecting = on_connecting, .on_disconnected = on_disconnected};

static const char *no_answer(const struct kr_session *session)
{
	const struct kr_mount_options *options = session->mount->options;

	kr_fail(-ETIMEDOUT, "no answer from server %s:%u (is the address right, and is a firewall between?)",
		options->server.host, options->server.port);
	return kr_fail_reason();
}

void kr_session_on_silence(uv_timer_t *timer)
{
	struct kr_session *session = timer->data;

	if (session->on_hello && !session->said_ns)
		wait_on(session, no_answer(session));
}

void kr_session_on_deadline(uv_timer_t *timer)
{
	struct kr_session *session = timer->data;

	report_hello(session,
		kr_fail(-ETIMEDOUT, "%s; gave up after %g s (%s)",
			session->said_ns ? session->obstacle : no_answer(session), (double)patience_ms(session) / 1e3,
			patience_name(session)));
}

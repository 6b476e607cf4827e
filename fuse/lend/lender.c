/* See lender.h.  Here are the connections of borrowers: who they are, and which child is theirs. */
#include "fuse/lend/lender.h"

#include <errno.h>
#include <signal.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <fcntl.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/service_manager.h"
#include "common/rpc/proto.h"
#include "common/rpc/resolve.h"
#include "fuse/base/options.h"
#include "fuse/lend/lend_priv.h"
#include "fuse/lend/status_relay.h"

enum { TICK_MS = 500, GUESTS_MAX = 64, GUEST_MS = 10000, BACKLOG = 128, PARTING_MS = 2000 };

static struct kr_lender lender;

/* --- the proof of identity -------------------------------------------------------------------- */

static int challenge(struct kr_lend_peer *peer, const struct kr_auth_request *request, struct kr_auth_reply *ret_reply)
{
	const uint64_t ns = kr_clock_real_ns();
	const struct kr_time now = {.sec = (int64_t)(ns / KR_NS_PER_S), .nsec = (uint32_t)(ns % KR_NS_PER_S)};
	struct kr_fresh fresh;
	int err;

	if (!lender.keyring)
		return kr_fail(-EOPNOTSUPP, "it has a key, and we have none (key=FILE)");
	kr_fresh_make(&fresh);
	err = kr_auth_server_challenge(&peer->auth, lender.keyring, (enum kr_security)lender.options->security, request,
		&fresh, now, ret_reply);
	sodium_memzero(&fresh, sizeof(fresh));
	return err;
}

/* AUTH and AUTH_PROVE. */
static int handshake(struct kr_lend_peer *peer, const struct kr_frame *frame, union kr_any_msg *msg)
{
	struct kr_seal_keys keys = {.security = KR_SECURITY_AUTH};
	const bool first = frame->header.type == KR_MSG_AUTH;
	struct kr_auth_reply reply;
	int err = first ? challenge(peer, &msg->auth_request, &reply) :
			  kr_auth_server_verify(&peer->auth, &msg->auth_prove_request, &keys);

	kr_conn_reply(peer->conn, frame->header.type, frame->header.id, 0, err, err || !first ? NULL : &reply, NULL, 0);
	if (!err && !first)
		kr_conn_seal(peer->conn, &keys);
	sodium_memzero(&keys, sizeof(keys));
	return err;
}

static int check_key(const struct kr_lend_peer *peer)
{
	if (!lender.keyring)
		return 0;
	return peer->auth.state == KR_AUTH_DONE ? 0 : kr_fail(-ENOKEY, "it has not shown a key");
}

static struct kr_lend_child *find_child(const uint8_t token[16])
{
	return KR_LIST_FIND(struct kr_lend_child, child, &lender.children, link,
		sodium_memcmp(child->token, token, sizeof(child->token)) == 0);
}

static void forget_child(struct kr_lend_peer *peer)
{
	if (peer->child)
		peer->child->peer = NULL;
	peer->child = NULL;
}

static int bind_child(struct kr_lend_peer *peer, const struct kr_lend_request *request)
{
	struct kr_lend_child *child = NULL;
	int err = check_key(peer);

	if (err < 0)
		return err;
	if (sodium_is_zero(request->token, sizeof(request->token)))
		err = kr_lend_child_new(&lender, request, &child);
	else if (!(child = find_child(request->token)) || !child->ready)
		err = kr_fail(-ESTALE, "the mount that node %s wants to go on with has ended", request->node);
	else
		err = kr_lend_link_acked(&child->messages, request->seen);
	if (err < 0)
		return err;
	if (child->peer) { /* its connection has not noticed yet that it is dead */
		kr_conn_close(child->peer->conn, false);
		forget_child(child->peer);
	}
	child->peer = peer;
	child->heard_ns = kr_clock_ns();
	peer->child = child;
	return 0;
}

static int answer_lend(struct kr_lend_peer *peer, const struct kr_frame *frame, const struct kr_lend_request *request)
{
	int err = bind_child(peer, request);
	struct kr_lend_child *child = peer->child;
	struct kr_lend_reply reply = {.hold_ms = (uint32_t)lender.options->timeo};
	const struct kr_lend_kept *kept;

	if (err == 0) {
		memcpy(reply.token, child->token, sizeof(reply.token));
		reply.seen = kr_lend_link_tell(&child->messages);
		kr_conn_set_guest(peer->conn, false);
	}
	kr_conn_reply(peer->conn, KR_MSG_LEND, frame->header.id, 0, err, err ? NULL : &reply, NULL, 0);
	if (err < 0)
		return err;
	if (child->ready) /* it may have changed meanwhile */
		kr_conn_oneway(peer->conn, KR_MSG_LEND_READY,
			&(struct kr_lend_ready_request){.reason = "", .lease_ms = child->lease_ms}, NULL, 0);
	kr_log_info("node %s, %s: %s", child->node, child->mount_point,
		child->ready ? "connected again" : kr_conn_peer(peer->conn));
	KR_LIST_FOR_EACH(kept, &child->messages.kept, link)
		kr_lend_child_send(child, kept);
	kr_lend_children_start(&lender);
	return 0;
}

/* --- connections ------------------------------------------------------------------------------ */

void kr_lend_peer_resume(struct kr_lend_peer *peer)
{
	if (peer->paused)
		kr_conn_resume(peer->conn);
	peer->paused = false;
}

static int take_message(struct kr_lend_peer *peer, const struct kr_lend_message_request *message, struct kr_buf *data)
{
	struct kr_lend_child *child = peer->child;
	int result = kr_lend_link_take(&child->messages, message, data ? data->length : 0);
	struct kr_lend_ping_request ping;

	if (result > 0)
		result = kr_lend_child_deliver(child, message, data);
	if (result == 0 && kr_lend_link_owes(&child->messages)) {
		ping.ack = kr_lend_link_tell(&child->messages);
		kr_conn_oneway(peer->conn, KR_MSG_LEND_PING, &ping, NULL, 0);
	}
	return result;
}

static int take_ping(struct kr_lend_peer *peer, const struct kr_frame *frame, const struct kr_lend_ping_request *ping)
{
	struct kr_lend_link *messages = &peer->child->messages;
	int err = kr_lend_link_acked(messages, ping->ack);
	struct kr_lend_ping_reply reply;

	if (err == 0 && !(frame->header.flags & KR_FRAME_ONEWAY)) {
		reply.ack = kr_lend_link_tell(messages);
		kr_conn_reply(peer->conn, KR_MSG_LEND_PING, frame->header.id, 0, 0, &reply, NULL, 0);
	}
	return err;
}

static void ignore_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	(void)conn, (void)frame; /* the child asks nothing here */
}

static void ignore_end(struct kr_conn *conn, int err, const char *reason)
{
	(void)conn, (void)err, (void)reason;
}

/* The child's own control socket answers, at a connection of its own.  By way of /proc, because a socket's name may
 * have 107 bytes only. */
static void take_status(struct kr_lend_peer *peer, uint64_t id, const struct kr_status_request *request)
{
	static const struct kr_conn_handler handler = {.on_frame = ignore_frame, .on_closed = ignore_end};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct kr_conn *conn = NULL;
	KR_AUTO_FD int directory = open(peer->child->directory, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	snprintf(address.sun_path, sizeof(address.sun_path), "/proc/self/fd/%d/control", directory);
	if (directory >= 0)
		kr_conn_connect(lender.loop, (const struct sockaddr *)&address, &handler, NULL, &conn);
	kr_status_relay(&peer->asked, peer->conn, id, request, conn, true);
}

static int take_frame(struct kr_lend_peer *peer, const struct kr_frame *frame, union kr_any_msg *msg)
{
	const bool oneway = frame->header.flags & KR_FRAME_ONEWAY;

	switch (frame->header.type) {
	case KR_MSG_AUTH:
	case KR_MSG_AUTH_PROVE:
		return peer->child || oneway ? -EPROTO : handshake(peer, frame, msg);
	case KR_MSG_LEND:
		return peer->child || oneway ? -EPROTO : answer_lend(peer, frame, &msg->lend_request);
	case KR_MSG_LEND_MESSAGE:
		return peer->child && oneway ? take_message(peer, &msg->lend_message_request, frame->data) : -EPROTO;
	case KR_MSG_LEND_PING:
		return peer->child ? take_ping(peer, frame, &msg->lend_ping_request) : -EPROTO;
	case KR_MSG_STATUS:
		if (!peer->child || oneway)
			return -EPROTO;
		take_status(peer, frame->header.id, &msg->status_request);
		return 0;
	default:
		return -EPROTO;
	}
}

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct kr_lend_peer *peer = kr_conn_context(conn);
	const uint16_t type = frame->header.type;
	struct kr_arena arena = {0};
	union kr_any_msg msg;
	int err = 0;

	kr_fail(-EPROTO, "it sends %s, which does not belong here", kr_msg_name(type));
	if (peer->child)
		peer->child->heard_ns = kr_clock_ns();
	if (type == KR_MSG_AUTH)
		err = kr_proto_check(frame->fields, frame->header.fields_length);
	if (err == 0)
		err = kr_msg_decode(type, false, frame->fields, frame->header.fields_length, &msg, &arena);
	if (err == 0)
		err = take_frame(peer, frame, &msg);
	kr_arena_fini(&arena);
	if (err < 0) {
		kr_log_warn("%s refused: %s", kr_conn_peer(conn), kr_fail_reason());
		kr_conn_close(conn, true);
	}
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct kr_lend_peer *peer = kr_conn_context(conn);
	struct kr_lend_child *child = peer->child;

	(void)err;
	if (child && !child->ready)
		kr_lend_child_end(child); /* its borrower does not wait for it any more */
	else if (child && !child->ended && !child->ending)
		kr_log_warn("node %s, %s: the connection is lost (%s); its daemon waits for it", child->node,
			child->mount_point, reason);
	forget_child(peer);
	kr_status_relays_end(&peer->asked);
	kr_list_remove(&peer->link);
	kr_auth_fini(&peer->auth);
	free(peer);
}

static void on_connection(uv_stream_t *listener, int status)
{
	static const struct kr_conn_handler handler = {on_frame, NULL, on_closed};
	struct kr_lend_peer *peer, *each;
	unsigned guests = 0;

	if (status < 0)
		return;
	peer = kr_xcalloc(1, sizeof(*peer));
	peer->lender = &lender;
	peer->since_ns = kr_clock_ns();
	kr_auth_init(&peer->auth);
	kr_list_init(&peer->asked);
	if (kr_conn_accept(listener, &handler, peer, &peer->conn) < 0) {
		kr_log_warn("%s", kr_fail_reason());
		free(peer);
		return;
	}
	kr_conn_set_guest(peer->conn, true);
	KR_LIST_FOR_EACH(each, &lender.peers, link)
		guests += !each->child;
	kr_list_append(&lender.peers, &peer->link);
	if (guests >= GUESTS_MAX)
		kr_conn_close(peer->conn, false);
}

/* --- time ------------------------------------------------------------------------------------- */

static void look_at_child(struct kr_lend_child *child, uint64_t now_ns)
{
	const uint64_t silent_ms = (now_ns - child->heard_ns) / KR_NS_PER_MS;

	if (!child->ended && !child->ending && silent_ms > lender.options->timeo) {
		kr_log_warn(
			"node %s, %s: not heard of for %u s: its daemon ends, and brings what it holds to the server",
			child->node, child->mount_point, (unsigned)(lender.options->timeo / 1000));
		if (child->peer) {
			kr_conn_close(child->peer->conn, false);
			forget_child(child->peer);
		}
		kr_lend_child_end(child);
	}
	if (child->ended &&
		(!child->ready || child->messages.acked == child->messages.sent ||
			silent_ms > (child->peer && !lender.stopping ? lender.options->timeo : PARTING_MS))) {
		if (child->peer) {
			kr_conn_close(child->peer->conn, true);
			forget_child(child->peer);
		}
		kr_lend_child_free(child);
	}
}

static void on_tick(uv_timer_t *timer)
{
	const uint64_t now_ns = kr_clock_ns();
	struct kr_lend_child *child, *next_child;
	struct kr_lend_peer *peer;

	(void)timer;
	KR_LIST_FOR_EACH_SAFE(child, next_child, &lender.children, link)
		look_at_child(child, now_ns);
	KR_LIST_FOR_EACH(peer, &lender.peers, link)
		if (!peer->child && now_ns - peer->since_ns > GUEST_MS * KR_NS_PER_MS)
			kr_conn_close(peer->conn, false);
	if (lender.stopping && kr_list_empty(&lender.children))
		uv_stop(lender.loop);
}

/* --- the beginning and the end ---------------------------------------------------------------- */

static void reload_key(void)
{
	char *const path = lender.options->key;
	struct kr_keyring *keyring;

	if (!path)
		return;
	if (kr_keyring_load(&path, 1, &keyring) < 0) {
		kr_log_error("the key stays as it was: %s", kr_fail_reason());
		return;
	}
	kr_keyring_free(lender.keyring);
	lender.keyring = keyring;
	kr_log_info("SIGHUP: %s is read again", path);
}

static void on_signal(uv_signal_t *handle, int number)
{
	struct kr_lend_child *child;

	(void)handle;
	if (number == SIGHUP) {
		reload_key();
		return;
	}
	kr_service_manager_tell("STOPPING=1");
	kr_log_info("stopping: the daemons of all borrowers drain and end");
	lender.stopping = true;
	KR_LIST_FOR_EACH(child, &lender.children, link)
		kr_lend_child_terminate(child);
}

static int listen_on(const struct sockaddr *address)
{
	uv_tcp_t *listener = &lender.listeners[lender.listening];
	char text[80];
	int err;

	kr_address_format(address, text, sizeof(text));
	uv_tcp_init(lender.loop, listener);
	err = uv_tcp_bind(listener, address, address->sa_family == AF_INET6 ? UV_TCP_IPV6ONLY : 0);
	if (!err)
		err = uv_listen((uv_stream_t *)listener, BACKLOG, on_connection);
	if (err < 0)
		return kr_fail(err, "cannot listen on %s: %s (choose another address with --listen ADDR:PORT)", text,
			uv_strerror(err));
	lender.listening++;
	kr_log_info("lending %s on %s", lender.options->lend, text);
	return 0;
}

static int listen_on_all(void)
{
	const char *text = lender.options->listen ? lender.options->listen : lender.keyring ? "0.0.0.0" : "127.0.0.1";
	struct kr_addresses addresses;
	struct kr_endpoint endpoint;
	int err = kr_endpoint_parse(text, KR_LEND_PORT, false, &endpoint);

	if (!err)
		err = kr_resolve(&endpoint, true, &addresses);
	for (size_t i = 0; !err && i < addresses.count; i++)
		err = listen_on((const struct sockaddr *)&addresses.items[i]);
	return err;
}

static int prepare(void)
{
	char *const path = lender.options->key;
	struct stat stat_buffer;

	if (stat(lender.options->lend, &stat_buffer) < 0)
		return kr_fail_errno(-errno, "%s", lender.options->lend);
	if (!S_ISDIR(stat_buffer.st_mode) || stat_buffer.st_uid != geteuid() || stat_buffer.st_mode & 022)
		return kr_fail(-EPERM, "%s: not a directory of this user's to which no other user can write",
			lender.options->lend);
	if (path && kr_keyring_load(&path, 1, &lender.keyring) < 0)
		return kr_fail(-EKEYREJECTED, "%s", kr_fail_reason());
	if (path && kr_keyring_at(lender.keyring, 0)->owner.kind != KR_KEY_NODE)
		return kr_fail(-EINVAL, "%s: a lender has a node's key, not a user's", path);
	if (!path)
		kr_log_warn("no key (key=FILE): every node that reaches this address gets disk space, as any user");
	return listen_on_all();
}

int kr_lender_run(const struct kr_mount_options *options)
{
	static const int numbers[] = {SIGTERM, SIGINT, SIGHUP};
	int err;

	lender.options = options;
	lender.loop = uv_default_loop();
	kr_list_init(&lender.peers);
	kr_list_init(&lender.children);
	err = prepare();
	if (err < 0)
		return err;
	for (size_t i = 0; i < KR_ARRAY_SIZE(numbers); i++) {
		uv_signal_init(lender.loop, &lender.signals[i]);
		uv_signal_start(&lender.signals[i], on_signal, numbers[i]);
	}
	uv_timer_init(lender.loop, &lender.tick);
	uv_timer_start(&lender.tick, on_tick, TICK_MS, TICK_MS);
	kr_service_manager_tell("READY=1");
	kr_log_info("ready");
	uv_run(lender.loop, UV_RUN_DEFAULT);
	kr_keyring_free(lender.keyring);
	kr_log_info("stopped");
	return 0;
}

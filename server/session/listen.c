#include "server/session/listen.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/rpc/proto.h"
#include "common/rpc/resolve.h"
#include "server/session/hello.h"
#include "server/session/introduce.h"
#include "server/base/options.h"
#include "server/session/session.h"
#include "server/session/trust.h"

enum { LISTENERS_MAX = 64, BACKLOG = 512 };

struct listener {
	uv_tcp_t tcp;
	struct kr_server *server;
};

struct kr_listen {
	struct listener *listeners[LISTENERS_MAX];
	size_t count;
	struct kr_list pending_conns; /* oldest first */
	size_t count_pending;
};

/* --- pending connections -------------------------------------------------------------------------- */

static void forget(struct kr_pending_conn *pending_conn)
{
	if (!kr_link_linked(&pending_conn->link))
		return;
	kr_list_remove(&pending_conn->link);
	pending_conn->server->listen->count_pending--;
}

static void free_pending(struct kr_pending_conn *pending_conn)
{
	kr_auth_fini(&pending_conn->auth);
	kr_pair_fini(&pending_conn->pair);
	free(pending_conn);
}

struct kr_conn *kr_pending_conn_take(struct kr_pending_conn *pending_conn)
{
	struct kr_conn *conn = pending_conn->conn;

	forget(pending_conn);
	if (conn) {
		kr_conn_set_context(conn, NULL);
		kr_conn_set_guest(conn, false);
	}
	free_pending(pending_conn);
	return conn;
}

static void drop(struct kr_pending_conn *pending_conn, bool flush)
{
	struct kr_conn *conn = pending_conn->conn;

	forget(pending_conn);
	pending_conn->conn = NULL;
	if (conn) {
		kr_conn_set_context(conn, NULL);
		kr_conn_close(conn, flush);
	}
	if (!pending_conn->busy)
		free_pending(pending_conn);
}

static void answer_status(struct kr_pending_conn *pending_conn, const struct kr_frame *frame)
{
	union kr_any_msg msg;

	if (kr_conn_queued(pending_conn->conn) > KR_SESSION_QUEUE_MAX) {
		kr_log_warn("%s asks for the status and does not take it: connection closed",
			kr_conn_peer(pending_conn->conn));
		drop(pending_conn, false);
		return;
	}
	if (kr_msg_decode(KR_MSG_STATUS, false, frame->fields, frame->header.fields_length, &msg, NULL))
		kr_conn_reply(pending_conn->conn, KR_MSG_STATUS, frame->header.id, 0, -EPROTO, NULL, NULL, 0);
	else
		pending_conn->server->sessions->hooks.status(pending_conn->server, pending_conn->conn, frame->header.id,
			&msg.status_request, pending_conn->auth.key);
	pending_conn->since_ns = kr_clock_ns();
}

/* The peer speaks another protocol, or has not shown an accepted key. */
static void turn_away(struct kr_pending_conn *pending_conn, const struct kr_frame *frame, int err)
{
	kr_log_warn("%s refused: %s", kr_conn_peer(pending_conn->conn), kr_fail_reason());
	if (!(frame->header.flags & (KR_FRAME_ONEWAY | KR_FRAME_REPLY)))
		kr_conn_reply(pending_conn->conn, frame->header.type, frame->header.id, 0, err, NULL, NULL, 0);
	drop(pending_conn, true);
}

/* Before a request is decoded: another version may have laid it out anew.  Before the key is checked: a peer of another
 * version cannot show it. */
static int check_proto(const struct kr_frame *frame)
{
	const uint16_t type = frame->header.type;

	if (type != KR_MSG_HELLO && type != KR_MSG_AUTH && type != KR_MSG_AUTH_MUNGE)
		return 0;
	return kr_proto_check(frame->fields, frame->header.fields_length);
}

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct kr_pending_conn *pending_conn = kr_conn_context(conn);
	const uint16_t type = frame->header.type;
	int err;

	if (!pending_conn || pending_conn->busy)
		return;
	err = check_proto(frame);
	if (!err && (type == KR_MSG_HELLO || type == KR_MSG_STATUS || type == KR_MSG_INTRODUCE))
		err = kr_trust_admit(pending_conn);
	if (err) {
		turn_away(pending_conn, frame, err);
		return;
	}
	switch (type) {
	case KR_MSG_AUTH:
	case KR_MSG_AUTH_PROVE:
	case KR_MSG_AUTH_MUNGE:
	case KR_MSG_AUTH_MUNGE_PROVE:
		if (!kr_trust_handshake(pending_conn, frame))
			drop(pending_conn, true);
		return;
	case KR_MSG_HELLO:
		kr_hello_arrived(pending_conn, frame);
		return;
	case KR_MSG_HOP_HELLO:
		if (!pending_conn->server->sessions->hooks.hop_hello(pending_conn->server, pending_conn, frame))
			drop(pending_conn, true);
		return;
	case KR_MSG_HOP_PROVE:
		if (!pending_conn->server->sessions->hooks.hop_prove(pending_conn->server, pending_conn, frame))
			drop(pending_conn, true);
		return;
	case KR_MSG_STATUS:
		answer_status(pending_conn, frame);
		return;
	case KR_MSG_INTRODUCE:
		kr_introduce_answer(pending_conn, frame);
		return;
	default:
		kr_log_warn("%s began with something else than HELLO: connection closed", kr_conn_peer(conn));
		if (!(frame->header.flags & (KR_FRAME_ONEWAY | KR_FRAME_REPLY)))
			kr_conn_reply(conn, type, frame->header.id, 0, -EPROTO, NULL, NULL, 0);
		drop(pending_conn, true);
	}
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct kr_pending_conn *pending_conn = kr_conn_context(conn);

	if (!pending_conn)
		return;
	if (err == -EBADMSG)
		kr_log_warn("%s: %s: connection closed", kr_conn_peer(conn), reason);
	forget(pending_conn);
	pending_conn->conn = NULL;
	if (!pending_conn->busy)
		free_pending(pending_conn);
}

static const struct kr_conn_handler handler = {on_frame, NULL, on_closed};

static struct kr_pending_conn *oldest_idle(struct kr_listen *listen)
{
	return KR_LIST_FIND(struct kr_pending_conn, pending_conn, &listen->pending_conns, link, !pending_conn->busy);
}

static void on_connection(uv_stream_t *stream, int status)
{
	struct listener *listener = stream->data;
	struct kr_listen *listen = listener->server->listen;
	struct kr_pending_conn *pending_conn, *oldest;
	char host[64];
	int err;

	if (status < 0)
		return;
	pending_conn = kr_xcalloc(1, sizeof(*pending_conn));
	pending_conn->server = listener->server;
	pending_conn->since_ns = kr_clock_ns();
	err = kr_conn_accept(stream, &handler, pending_conn, &pending_conn->conn);
	if (err) {
		kr_log_warn("cannot accept a connection: %s", kr_fail_reason());
		free(pending_conn);
		return;
	}
	kr_conn_set_guest(pending_conn->conn, true);
	kr_list_append(&listen->pending_conns, &pending_conn->link);
	kr_conn_peer_host(pending_conn->conn, host, sizeof(host));
	if (!kr_server_allows(&listener->server->options->allow, host)) {
		listen->count_pending++;
		kr_log_warn("connection from %s refused: it is in no network that is allowed (--allow)", host);
		drop(pending_conn, false);
		return;
	}
	if (++listen->count_pending > KR_SERVER_PENDING_CONNS_MAX && (oldest = oldest_idle(listen)))
		drop(oldest, false);
}

void kr_listen_tick(struct kr_server *server, uint64_t now_ns)
{
	struct kr_pending_conn *pending_conn, *after;

	KR_LIST_FOR_EACH_SAFE(pending_conn, after, &server->listen->pending_conns, link) {
		if (!pending_conn->busy && now_ns - pending_conn->since_ns > KR_PENDING_CONN_MS * KR_NS_PER_MS)
			drop(pending_conn, false);
	}
}

/* --- listeners -------------------------------------------------------------------------------- */

static void free_listener(uv_handle_t *handle)
{
	free(handle->data);
}

/* Whether other machines may connect. */
static bool open_to_others(const struct kr_server *server)
{
	return server->options->insecure || !kr_trusts_anybody(server);
}

static int listen_on(struct kr_server *server, const struct sockaddr *address)
{
	struct kr_listen *listen = server->listen;
	struct listener *listener;
	char text[80];
	int err;

	kr_address_format(address, text, sizeof(text));
	if (!open_to_others(server) && !kr_address_is_loopback(address))
		return kr_fail(-EINVAL,
			"without a key only loopback addresses are served, and %s is none (make a key with 'kairan key "
			"FILE' and give it here with --key FILE; or --insecure lets whoever reaches the address read "
			"and write everything)",
			text);
	if (listen->count == LISTENERS_MAX)
		return kr_fail(-EINVAL, "more than %d addresses to listen on", LISTENERS_MAX);
	listener = kr_xcalloc(1, sizeof(*listener));
	listener->server = server;
	uv_tcp_init(server->loop, &listener->tcp);
	listener->tcp.data = listener;
	err = uv_tcp_bind(&listener->tcp, address, address->sa_family == AF_INET6 ? UV_TCP_IPV6ONLY : 0);
	if (!err)
		err = uv_listen((uv_stream_t *)&listener->tcp, BACKLOG, on_connection);
	if (err) {
		uv_close((uv_handle_t *)&listener->tcp, free_listener);
		if (err == UV_EADDRINUSE)
			return kr_fail(err,
				"%s is in use (is another kairand running? choose another with --listen ADDR:PORT)",
				text);
		return kr_fail(err, "cannot listen on %s: %s", text, uv_strerror(err));
	}
	listen->listeners[listen->count++] = listener;
	return 0;
}

static int listen_on_text(struct kr_server *server, const char *text)
{
	struct kr_endpoint endpoint;
	struct kr_addresses addresses;
	int err = kr_endpoint_parse(text, KR_DEFAULT_PORT, true, &endpoint);

	if (!err)
		err = kr_resolve(&endpoint, true, &addresses);
	for (size_t i = 0; !err && i < addresses.count; i++)
		err = listen_on(server, (const struct sockaddr *)&addresses.items[i]);
	return err;
}

/* IPv4 must work; a machine without IPv6 is fine. */
static int listen_on_defaults(struct kr_server *server)
{
	bool others = open_to_others(server);
	int err = listen_on_text(server, others ? "0.0.0.0" : "127.0.0.1"), err6;

	if (err)
		return err;
	err6 = listen_on_text(server, others ? "[::]" : "[::1]");
	return err6 == -EADDRINUSE ? err6 : 0;
}

static void log_addresses(const struct kr_server *server)
{
	const struct kr_listen *listen = server->listen;

	for (size_t i = 0; i < listen->count; i++) {
		struct sockaddr_storage address;
		int size = sizeof(address);
		char text[80];

		if (uv_tcp_getsockname(&listen->listeners[i]->tcp, (struct sockaddr *)&address, &size))
			continue;
		kr_address_format((const struct sockaddr *)&address, text, sizeof(text));
		kr_log_info("serving %s on %s", server->options->export_path, text);
	}
	if (server->options->insecure)
		kr_log_warn("--insecure: whoever reaches these addresses can read and write the export as any user");
	else if (kr_trusts_anybody(server))
		kr_log_info("no key: nodes on this machine only");
}

void kr_listen_init(struct kr_server *server)
{
	server->listen = kr_xcalloc(1, sizeof(*server->listen));
	kr_list_init(&server->listen->pending_conns);
}

static int listen_on_all(struct kr_server *server)
{
	const struct kr_strings *texts = &server->options->listen;
	int err = texts->count ? 0 : listen_on_defaults(server);

	for (size_t i = 0; !err && i < texts->count; i++)
		err = listen_on_text(server, texts->items[i]);
	return err;
}

int kr_listen_check(const struct kr_server_options *options)
{
	uv_loop_t loop;
	struct kr_server server = {.loop = &loop, .options = options};
	int err = uv_loop_init(&loop);

	if (err)
		return kr_fail(err, "cannot start: %s", uv_strerror(err));
	kr_listen_init(&server);
	err = listen_on_all(&server);
	kr_listen_stop(&server);
	uv_run(&loop, UV_RUN_DEFAULT); /* until they are closed; this accepts no connection */
	kr_listen_fini(&server);
	uv_loop_close(&loop);
	return err;
}

int kr_listen_start(struct kr_server *server)
{
	int err = listen_on_all(server);

	if (!err)
		log_addresses(server);
	return err;
}

uint16_t kr_listen_port(const struct kr_server *server)
{
	struct sockaddr_storage address;
	int size = sizeof(address);

	if (server->listen->count == 0 ||
		uv_tcp_getsockname(&server->listen->listeners[0]->tcp, (struct sockaddr *)&address, &size))
		return 0;
	return ntohs(((const struct sockaddr_in *)&address)->sin_port); /* at the same place in sockaddr_in6 */
}

void kr_listen_stop(struct kr_server *server)
{
	struct kr_listen *listen = server->listen;
	struct kr_pending_conn *pending_conn, *after;

	for (size_t i = 0; i < listen->count; i++)
		uv_close((uv_handle_t *)&listen->listeners[i]->tcp, free_listener);
	listen->count = 0;
	KR_LIST_FOR_EACH_SAFE(pending_conn, after, &listen->pending_conns, link)
		drop(pending_conn, false);
}

void kr_listen_fini(struct kr_server *server)
{
	free(server->listen);
	server->listen = NULL;
}

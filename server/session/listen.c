/* Accepting connections and sorting them by their first frame: see listen.h. */
#include "server/session/listen.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/rpc/resolve.h"
#include "server/flush/data.h"
#include "server/session/hello.h"
#include "server/base/networks.h"
#include "server/daemon/options.h"
#include "server/session/session.h"
#include "server/daemon/status.h"
#include "server/session/trust.h"
#include "server/session/trust_munge.h"

enum { LISTENERS_MAX = 64, BACKLOG = 512 };

struct listener {
	uv_tcp_t tcp;
	struct kr_server *server;
};

struct kr_listen {
	struct listener *listeners[LISTENERS_MAX];
	size_t count;
	struct kr_list strangers; /* oldest first */
	size_t stranger_count;
};

/* --- strangers ------------------------------------------------------------------------------------------------------ */

static void forget(struct kr_stranger *stranger)
{
	if (!kr_link_linked(&stranger->link))
		return;
	kr_list_remove(&stranger->link);
	stranger->server->listen->stranger_count--;
}

static void free_stranger(struct kr_stranger *stranger)
{
	kr_auth_fini(&stranger->auth);
	kr_pair_fini(&stranger->pair);
	free(stranger);
}

struct kr_conn *kr_stranger_take(struct kr_stranger *stranger)
{
	struct kr_conn *conn = stranger->conn;

	forget(stranger);
	if (conn) {
		kr_conn_set_context(conn, NULL);
		kr_conn_set_guest(conn, false);
	}
	free_stranger(stranger);
	return conn;
}

static void drop(struct kr_stranger *stranger, bool flush)
{
	struct kr_conn *conn = stranger->conn;

	forget(stranger);
	stranger->conn = NULL;
	if (conn) {
		kr_conn_set_context(conn, NULL);
		kr_conn_close(conn, flush);
	}
	if (!stranger->busy)
		free_stranger(stranger);
}

static void answer_status(struct kr_stranger *stranger, const struct kr_frame *frame)
{
	union kr_any_msg msg;
	struct kr_arena arena = {0};

	if (kr_conn_queued(stranger->conn) > KR_SESSION_QUEUE_MAX) {
		kr_log_warn("%s asks for the status and does not take it: connection closed", kr_conn_peer(stranger->conn));
		drop(stranger, false);
		return;
	}
	if (kr_msg_decode(KR_MSG_STATUS, false, frame->fields, frame->header.fields_length, &msg, &arena))
		kr_conn_reply(stranger->conn, KR_MSG_STATUS, frame->header.id, 0, -EPROTO, NULL, NULL, 0);
	else
		kr_status_send(stranger->server, stranger->conn, frame->header.id, &msg.status_request);
	kr_arena_fini(&arena);
	stranger->since_ns = kr_clock_ns();
}

/* It has not shown a key that it needs. */
static void turn_away(struct kr_stranger *stranger, const struct kr_frame *frame, int err)
{
	kr_log_warn("%s refused: %s", kr_conn_peer(stranger->conn), kr_fail_reason());
	kr_conn_reply(stranger->conn, frame->header.type, frame->header.id, 0, err, NULL, NULL, 0);
	drop(stranger, true);
}

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct kr_stranger *stranger = kr_conn_context(conn);
	const uint16_t type = frame->header.type;
	int err;

	if (!stranger || stranger->busy)
		return;
	err = type == KR_MSG_HELLO || type == KR_MSG_STATUS ? kr_trust_admit(stranger) : 0;
	if (err) {
		turn_away(stranger, frame, err);
		return;
	}
	switch (type) {
	case KR_MSG_AUTH:
	case KR_MSG_AUTH_PROVE:
		if (!kr_trust_handshake(stranger, frame))
			drop(stranger, true);
		return;
	case KR_MSG_AUTH_MUNGE:
	case KR_MSG_AUTH_MUNGE_PROVE:
		if (!kr_trust_munge(stranger, frame))
			drop(stranger, true);
		return;
	case KR_MSG_HELLO:
		kr_hello_arrived(stranger, frame);
		return;
	case KR_MSG_HOP_HELLO:
		if (!kr_data_hop_hello(stranger->server->data, stranger, frame))
			drop(stranger, true);
		return;
	case KR_MSG_HOP_PROVE:
		if (!kr_data_hop_prove(stranger->server->data, stranger, frame))
			drop(stranger, true);
		return;
	case KR_MSG_STATUS:
		answer_status(stranger, frame);
		return;
	default:
		kr_log_warn("%s began with something else than HELLO: connection closed", kr_conn_peer(conn));
		if (!(frame->header.flags & (KR_FRAME_ONEWAY | KR_FRAME_REPLY)))
			kr_conn_reply(conn, type, frame->header.id, 0, -EPROTO, NULL, NULL, 0);
		drop(stranger, true);
	}
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct kr_stranger *stranger = kr_conn_context(conn);

	if (!stranger)
		return;
	if (err == -EBADMSG)
		kr_log_warn("%s: %s: connection closed", kr_conn_peer(conn), reason);
	forget(stranger);
	stranger->conn = NULL;
	if (!stranger->busy)
		free_stranger(stranger);
}

static const struct kr_conn_handler handler = {on_frame, NULL, on_closed};

static struct kr_stranger *oldest_stranger(struct kr_listen *listen)
{
	struct kr_stranger *stranger;

	KR_LIST_FOR_EACH(stranger, &listen->strangers, link) {
		if (!stranger->busy)
			return stranger;
	}
	return NULL;
}

static void on_connection(uv_stream_t *stream, int status)
{
	struct listener *listener = stream->data;
	struct kr_listen *listen = listener->server->listen;
	struct kr_stranger *stranger, *oldest;
	char host[64];
	int err;

	if (status < 0)
		return;
	stranger = kr_xcalloc(1, sizeof(*stranger));
	stranger->server = listener->server;
	stranger->since_ns = kr_clock_ns();
	err = kr_conn_accept(stream, &handler, stranger, &stranger->conn);
	if (err) {
		kr_log_warn("cannot accept a connection: %s", kr_fail_reason());
		free(stranger);
		return;
	}
	kr_conn_set_guest(stranger->conn, true);
	kr_list_append(&listen->strangers, &stranger->link);
	kr_conn_peer_host(stranger->conn, host, sizeof(host));
	if (!kr_networks_allow(&listener->server->options->allow, host)) {
		listen->stranger_count++;
		kr_log_warn("connection from %s refused: it is in no network that is allowed (--allow)", host);
		drop(stranger, false);
		return;
	}
	if (++listen->stranger_count > KR_SERVER_STRANGERS_MAX && (oldest = oldest_stranger(listen)))
		drop(oldest, false);
}

void kr_listen_tick(struct kr_server *server, uint64_t now_ns)
{
	struct kr_stranger *stranger, *after;

	KR_LIST_FOR_EACH_SAFE(stranger, after, &server->listen->strangers, link) {
		if (!stranger->busy && now_ns - stranger->since_ns > KR_STRANGER_MS * KR_NS_PER_MS)
			drop(stranger, false);
	}
}

/* --- listeners ------------------------------------------------------------------------------------------------------ */

static void free_listener(uv_handle_t *handle)
{
	free(handle->data);
}

/* Other machines may reach us. */
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
		return kr_fail(-EACCES, "without a key only loopback addresses are served, and %s is none (make a key with 'kairan key "
			"FILE' and give it here with --key FILE; or --insecure lets whoever reaches the address read and write everything)",
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
			return kr_fail(err, "%s is in use (is another kairand running? choose another with --listen ADDR:PORT)", text);
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
	kr_list_init(&server->listen->strangers);
}

int kr_listen_start(struct kr_server *server)
{
	const struct kr_strings *texts = &server->options->listen;
	int err = texts->count ? 0 : listen_on_defaults(server);

	for (size_t i = 0; !err && i < texts->count; i++)
		err = listen_on_text(server, texts->items[i]);
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
	struct kr_stranger *stranger, *after;

	for (size_t i = 0; i < listen->count; i++)
		uv_close((uv_handle_t *)&listen->listeners[i]->tcp, free_listener);
	listen->count = 0;
	KR_LIST_FOR_EACH_SAFE(stranger, after, &listen->strangers, link)
		drop(stranger, false);
}

void kr_listen_fini(struct kr_server *server)
{
	free(server->listen);
	server->listen = NULL;
}

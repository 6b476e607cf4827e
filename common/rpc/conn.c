/* A connection's life: connect or accept, watch the peer, match replies to requests, end.  conn_priv.h has the states.
 */
#include "common/rpc/conn.h"

#include <assert.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include "common/rpc/conn_priv.h"
#include "common/rpc/round_trip.h"
#include "common/rpc/proto.h"
#include "common/base/fail.h"
#include "common/rpc/resolve.h"
#include "common/base/util.h"

enum {
	TICK_MS = 2000,
	SILENT_TICKS = 5, /* 10 s without a sign of life end a connection */
	LINGER_TICKS = 1,
	KEEPALIVE_IDLE_S = 4,
	KEEPALIVE_INTERVAL_S = 2,
	KEEPALIVE_COUNT = 3,
	QUEUEING_US = 2000, /* a busy machine alone makes shorter delays */
};

/* An unanswered request. */
struct request {
	struct kr_table_link link;
	struct kr_link in_order;
	uint64_t id;
	uint16_t type;
	kr_reply_fn callback;
	void *context;
};

/* --- the end --- */

static void end_request(struct kr_conn *conn, struct request *request)
{
	kr_table_remove(&conn->requests, &request->link);
	kr_list_remove(&request->in_order);
	free(request);
}

/* A callback may drop other requests: so each step looks at the list anew. */
static void fail_requests(struct kr_conn *conn)
{
	while (!kr_list_empty(&conn->requests_in_order)) {
		struct request *request = KR_LIST_ENTRY(conn->requests_in_order.head.next, struct request, in_order);
		struct request copy = *request;

		end_request(conn, request);
		copy.callback(copy.context, -ECONNRESET, NULL, NULL, false);
	}
}

static void on_handle_closed(uv_handle_t *handle)
{
	struct kr_conn *conn = handle->data;

	if (--conn->open_handles > 0)
		return;
	fail_requests(conn);
	if (conn->handler)
		conn->handler->on_closed(conn, conn->end_err, conn->end_reason);
	kr_conn_drop_queue(conn);
	kr_conn_read_fini(conn);
	kr_seal_free(conn->out.seal);
	kr_seal_free(conn->in.seal);
	kr_table_fini(&conn->requests);
	free(conn);
}

void kr_conn_end(struct kr_conn *conn, int err, const char *reason)
{
	bool drop;

	kr_conn_uncork(conn);
	if (conn->state == KR_CONN_CLOSING)
		return;
	conn->state = KR_CONN_CLOSING;
	kr_conn_carrier_close(conn, err);
	conn->end_err = err;
	snprintf(conn->end_reason, sizeof(conn->end_reason), "%s", reason);
	/* Else the kernel would go on to send what it has, also when the peer's link comes back much later. */
	drop = conn->handle.type == UV_TCP && (conn->reset || err == -ETIMEDOUT);
	if (!drop || uv_tcp_close_reset(&conn->tcp, on_handle_closed) < 0)
		uv_close(&conn->handle, on_handle_closed);
	uv_close((uv_handle_t *)&conn->watch, on_handle_closed);
	uv_close((uv_handle_t *)&conn->kick, on_handle_closed);
	uv_close((uv_handle_t *)&conn->cork, on_handle_closed);
}

void kr_conn_reset(struct kr_conn *conn)
{
	conn->reset = true;
	kr_conn_end(conn, 0, "closed");
}

void kr_conn_close(struct kr_conn *conn, bool flush)
{
	if (!flush || (!conn->connected && kr_list_empty(&conn->out.waiting))) {
		kr_conn_end(conn, 0, "closed");
		return;
	}
	if (!kr_conn_usable(conn))
		return;
	conn->idle_ticks = 0;
	if (!kr_list_empty(&conn->out.held)) {
		conn->out.close_when_released = true;
		return;
	}
	conn->state = KR_CONN_FLUSHING;
	if (kr_conn_parses(conn))
		kr_conn_read_kick(conn);
	else if (conn->connected)
		kr_conn_read_start(conn);
	kr_conn_write_more(conn);
}

/* --- watching the peer --- */

/* The peer's kernel has owed an acknowledgement since the last tick.  TCP_USER_TIMEOUT would also end connections whose
 * living peer has stopped reading for a while, as kr_conn_pause does. */
static bool peer_is_silent(struct kr_conn *conn)
{
	struct tcp_info info = {0};
	socklen_t size = sizeof(info);
	uv_os_fd_t fd;

	if (conn->handle.type != UV_TCP || uv_fileno(&conn->handle, &fd) < 0)
		return false;
	if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) < 0)
		return false;
	return info.tcpi_unacked > 0 && info.tcpi_last_ack_recv >= TICK_MS;
}

static struct kr_round_trip round_trip(const struct kr_conn *conn)
{
	uv_os_fd_t fd;

	if (conn->handle.type != UV_TCP || uv_fileno(&conn->handle, &fd) != 0)
		return (struct kr_round_trip){0};
	return kr_round_trip_of(fd);
}

uint64_t kr_conn_rtt_us(const struct kr_conn *conn)
{
	return round_trip(conn).shortest_us;
}

bool kr_conn_congested(const struct kr_conn *conn)
{
	const struct kr_round_trip trip = round_trip(conn);

	return trip.lately_us > 2 * trip.shortest_us + QUEUEING_US;
}

static void on_tick(uv_timer_t *timer)
{
	struct kr_conn *conn = timer->data;

	const bool stuck = kr_conn_carrier_is_stuck(conn);

	if (conn->state == KR_CONN_OPEN && !peer_is_silent(conn) && !conn->out.close_when_released && !stuck) {
		conn->idle_ticks = 0;
		return;
	}
	if (conn->idle_ticks++ < (conn->state == KR_CONN_LINGERING ? LINGER_TICKS : SILENT_TICKS))
		return;
	if (conn->state == KR_CONN_LINGERING)
		kr_conn_end(conn, 0, "closed");
	else if (conn->state == KR_CONN_CONNECTING)
		kr_conn_end(conn, -ETIMEDOUT, "no answer within 10 s");
	else if (stuck)
		kr_conn_end(conn, -ETIMEDOUT, "no data has moved beside the stream for 10 s");
	else
		kr_conn_end(conn, -ETIMEDOUT, "no sign of life from the peer for 10 s");
}

static void set_socket_options(struct kr_conn *conn)
{
	static const int on = 1, idle = KEEPALIVE_IDLE_S, interval = KEEPALIVE_INTERVAL_S, count = KEEPALIVE_COUNT;
	uv_os_fd_t fd;

	if (conn->handle.type != UV_TCP || uv_fileno(&conn->handle, &fd) < 0)
		return;
	/* If the kernel refuses one of these, the connection is slower or notices death later, but works. */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
}

/* --- the beginning --- */

static struct kr_conn *new_conn(uv_loop_t *loop, bool local, const struct kr_conn_handler *handler, void *context)
{
	struct kr_conn *conn = kr_xcalloc(1, sizeof(*conn));

	if (local)
		uv_pipe_init(loop, &conn->pipe, 0);
	else
		uv_tcp_init(loop, &conn->tcp);
	uv_timer_init(loop, &conn->watch);
	uv_idle_init(loop, &conn->kick);
	uv_idle_init(loop, &conn->cork);
	uv_unref((uv_handle_t *)&conn->cork);
	conn->open_handles = 4;
	conn->handle.data = conn->watch.data = conn->kick.data = conn->cork.data = conn;
	conn->loop = loop;
	conn->handler = handler;
	conn->context = context;
	conn->state = KR_CONN_CONNECTING;
	kr_list_init(&conn->out.waiting);
	kr_list_init(&conn->out.held);
	kr_list_init(&conn->out.in_flight);
	kr_list_init(&conn->requests_in_order);
	kr_table_init(&conn->requests);
	uv_timer_start(&conn->watch, on_tick, TICK_MS, TICK_MS);
	uv_unref((uv_handle_t *)&conn->watch);
	return conn;
}

static void connected(struct kr_conn *conn)
{
	conn->connected = true;
	conn->idle_ticks = 0;
	set_socket_options(conn);
	if (conn->state == KR_CONN_CONNECTING)
		conn->state = KR_CONN_OPEN;
	if (conn->in.paused == 0 || conn->state != KR_CONN_OPEN)
		kr_conn_read_start(conn);
	kr_conn_write_more(conn);
}

int kr_conn_accept(
	uv_stream_t *listener, const struct kr_conn_handler *handler, void *context, struct kr_conn **ret_conn)
{
	bool local = listener->type == UV_NAMED_PIPE;
	struct kr_conn *conn = new_conn(listener->loop, local, NULL, context);
	int size = sizeof(conn->remote), err = uv_accept(listener, &conn->stream);

	if (err < 0) {
		kr_conn_end(conn, err, "not accepted");
		return kr_fail_errno(err, "cannot accept a connection");
	}
	conn->handler = handler;
	conn->remote.ss_family = AF_UNIX;
	if (!local && uv_tcp_getpeername(&conn->tcp, (struct sockaddr *)&conn->remote, &size) < 0)
		conn->remote.ss_family = AF_UNSPEC; /* gone already: the first read will fail */
	kr_address_format((const struct sockaddr *)&conn->remote, conn->peer, sizeof(conn->peer));
	connected(conn);
	*ret_conn = conn;
	return 0;
}

int kr_conn_take(
	uv_loop_t *loop, int fd, const struct kr_conn_handler *handler, void *context, struct kr_conn **ret_conn)
{
	int domain = AF_INET;
	socklen_t domain_size = sizeof(domain);
	const bool local = getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_size) == 0 && domain == AF_UNIX;
	struct kr_conn *conn = new_conn(loop, local, NULL, context);
	int size = sizeof(conn->remote), err = local ? uv_pipe_open(&conn->pipe, fd) : uv_tcp_open(&conn->tcp, fd);

	conn->remote.ss_family = AF_UNIX;
	if (err < 0)
		close(fd);
	else if (!local)
		err = uv_tcp_getpeername(&conn->tcp, (struct sockaddr *)&conn->remote, &size);
	if (err < 0) {
		kr_conn_end(conn, err, "not taken over");
		return kr_fail_errno(err, "cannot take over a connection");
	}
	conn->handler = handler;
	kr_address_format((const struct sockaddr *)&conn->remote, conn->peer, sizeof(conn->peer));
	connected(conn);
	*ret_conn = conn;
	return 0;
}

static void on_connected(uv_connect_t *request, int status)
{
	struct kr_conn *conn = KR_CONTAINER_OF(request, struct kr_conn, connect_request);

	if (conn->state == KR_CONN_CLOSING)
		return;
	if (status < 0)
		kr_conn_end(conn, status, uv_strerror(status));
	else
		connected(conn);
}

int kr_conn_connect(uv_loop_t *loop, const struct sockaddr *address, const struct kr_conn_handler *handler,
	void *context, struct kr_conn **ret_conn)
{
	size_t size = address->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
		address->sa_family == AF_INET6      ? sizeof(struct sockaddr_in6) :
						      sizeof(struct sockaddr_un);
	bool local = address->sa_family == AF_UNIX;
	struct kr_conn *conn;
	int err = 0;

	if (!local && address->sa_family != AF_INET && address->sa_family != AF_INET6)
		return kr_fail(-EAFNOSUPPORT, "cannot connect to an address of family %d", address->sa_family);
	conn = new_conn(loop, local, handler, context);
	memcpy(&conn->remote, address, size);
	kr_address_format(address, conn->peer, sizeof(conn->peer));
	if (local)
		uv_pipe_connect(&conn->connect_request, &conn->pipe, ((const struct sockaddr_un *)address)->sun_path,
			on_connected);
	else
		err = uv_tcp_connect(&conn->connect_request, &conn->tcp, address, on_connected);
	if (err < 0)
		kr_conn_end(conn, err, uv_strerror(err));
	*ret_conn = conn;
	return 0;
}

int kr_conn_peer_uid(const struct kr_conn *conn, uint32_t *ret_uid)
{
	struct ucred peer;
	socklen_t size = sizeof(peer);
	uv_os_fd_t fd;
	int err = uv_fileno(&conn->handle, &fd);

	if (!err && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0)
		err = -errno;
	if (!err)
		*ret_uid = peer.uid;
	return err;
}

/* --- seals --- */

void kr_conn_seal(struct kr_conn *conn, const struct kr_seal_keys *keys)
{
	int err;

	if (!kr_conn_usable(conn) || keys->security == KR_SECURITY_AUTH)
		return;
	if (conn->in.seal || conn->out.seal) { /* a peer may begin a second handshake behind the first */
		kr_conn_end(conn, -EPROTO, "a second handshake on one connection");
		return;
	}
	err = kr_seal_new(keys->security, keys->cipher, keys->send, &conn->out.seal);
	if (!err)
		err = kr_seal_new(keys->security, keys->cipher, keys->receive, &conn->in.seal);
	if (!err && conn->in.have_header)
		err = kr_fail(-EBADMSG, "the peer sent more before the end of the handshake");
	if (err)
		kr_conn_end(conn, err, kr_fail_reason());
	conn->security = keys->security;
}

enum kr_security kr_conn_security(const struct kr_conn *conn)
{
	return conn->security;
}

void kr_conn_hold(struct kr_conn *conn)
{
	conn->out.holding = true;
}

void kr_conn_release(struct kr_conn *conn)
{
	conn->out.holding = false;
	kr_conn_send_held(conn);
	if (conn->out.close_when_released && kr_conn_usable(conn))
		kr_conn_close(conn, true);
}

/* --- properties --- */

void *kr_conn_context(const struct kr_conn *conn)
{
	return conn->context;
}

void kr_conn_set_context(struct kr_conn *conn, void *context)
{
	conn->context = context;
}

void kr_conn_set_handler(struct kr_conn *conn, const struct kr_conn_handler *handler)
{
	conn->handler = handler;
}

uv_loop_t *kr_conn_loop(const struct kr_conn *conn)
{
	return conn->loop;
}

const char *kr_conn_peer(const struct kr_conn *conn)
{
	return conn->peer;
}

void kr_conn_peer_host(const struct kr_conn *conn, char *host, size_t size)
{
	kr_address_host((const struct sockaddr *)&conn->remote, host, size);
}

void kr_conn_local_host(const struct kr_conn *conn, char *host, size_t size)
{
	struct sockaddr_storage local = {.ss_family = AF_UNIX};
	int length = sizeof(local);

	if (conn->handle.type == UV_TCP && uv_tcp_getsockname(&conn->tcp, (struct sockaddr *)&local, &length) < 0)
		local.ss_family = AF_UNSPEC;
	kr_address_host((const struct sockaddr *)&local, host, size);
}

uint16_t kr_conn_local_port(const struct kr_conn *conn)
{
	struct sockaddr_storage local = {.ss_family = AF_UNSPEC};
	int length = sizeof(local);

	if (conn->handle.type == UV_TCP)
		uv_tcp_getsockname(&conn->tcp, (struct sockaddr *)&local, &length);
	if (local.ss_family == AF_INET)
		return ntohs(((const struct sockaddr_in *)&local)->sin_port);
	return local.ss_family == AF_INET6 ? ntohs(((const struct sockaddr_in6 *)&local)->sin6_port) : 0;
}

void kr_conn_counters(const struct kr_conn *conn, uint64_t *ret_received, uint64_t *ret_sent)
{
	*ret_received = conn->in.bytes_received;
	*ret_sent = conn->out.bytes_sent;
}

struct kr_conn_counts kr_conn_counts;

struct kr_conn_sums kr_conn_sums(void)
{
	return (struct kr_conn_sums){kr_conn_counts.requests, kr_conn_counts.received, kr_conn_counts.sent};
}

/* --- requests and replies --- */

static struct request *find_request(struct kr_conn *conn, uint64_t id)
{
	return KR_TABLE_FIND(struct request, request, &conn->requests, kr_hash_u64(id), link, request->id == id);
}

/* The frame of request ID of TYPE has been queued. */
static void await_reply(struct kr_conn *conn, uint64_t id, uint16_t type, kr_reply_fn callback, void *context)
{
	struct request *request;

	assert(!find_request(conn, id));
	request = kr_xcalloc(1, sizeof(*request));
	*request = (struct request){.id = id, .type = type, .callback = callback, .context = context};
	kr_table_insert(&conn->requests, &request->link, kr_hash_u64(id));
	kr_list_append(&conn->requests_in_order, &request->in_order);
	kr_conn_count(&kr_conn_counts.requests, 1);
}

int kr_conn_request_as(struct kr_conn *conn, uint64_t id, uint16_t flags, uint16_t type, const void *msg,
	const struct kr_slice *slices, size_t count, kr_reply_fn callback, void *context)
{
	struct kr_frame_header header = {.type = type, .flags = flags, .id = id};
	int err = kr_conn_enqueue(conn, header, msg, NULL, slices, count);

	if (!err)
		await_reply(conn, id, type, callback, context);
	return err;
}

int kr_conn_request_encoded(struct kr_conn *conn, uint64_t id, uint16_t flags, uint16_t type,
	const struct kr_writer *encoded, const struct kr_slice *slices, size_t count, kr_reply_fn callback,
	void *context)
{
	struct kr_frame_header header = {.type = type, .flags = flags, .id = id};
	int err = kr_conn_enqueue(conn, header, NULL, encoded, slices, count);

	if (!err)
		await_reply(conn, id, type, callback, context);
	return err;
}

uint64_t kr_conn_request(struct kr_conn *conn, uint16_t type, const void *msg, const struct kr_slice *slices,
	size_t count, kr_reply_fn callback, void *context)
{
	if (kr_conn_request_as(conn, conn->last_id + 1, 0, type, msg, slices, count, callback, context) < 0)
		return 0;
	return ++conn->last_id;
}

void kr_conn_forget(struct kr_conn *conn, uint64_t id)
{
	struct request *request = find_request(conn, id);

	if (request)
		end_request(conn, request);
}

void kr_conn_reply(struct kr_conn *conn, uint16_t type, uint64_t id, uint16_t flags, int err, const void *msg,
	const struct kr_slice *slices, size_t count)
{
	struct kr_frame_header header = {.type = type, .flags = (uint16_t)(KR_FRAME_REPLY | flags), .id = id};

	if (!kr_conn_usable(conn))
		return;
	if (err == 0)
		err = kr_conn_enqueue(conn, header, msg, NULL, slices, count);
	if (err == 0)
		return;
	/* Every request gets a reply: a reply that cannot be encoded becomes a status, and is the last one. */
	header.status = kr_status_from_errno(err);
	header.flags &= (uint16_t)~KR_FRAME_MORE;
	if (kr_conn_enqueue(conn, header, NULL, NULL, NULL, 0) < 0)
		kr_conn_end(conn, -ENOMEM, kr_fail_reason());
}

uint16_t kr_conn_reply_flags(const struct kr_conn *conn)
{
	return conn->reply_flags;
}

int kr_conn_oneway(struct kr_conn *conn, uint16_t type, const void *msg, const struct kr_slice *slices, size_t count)
{
	struct kr_frame_header header = {.type = type, .flags = KR_FRAME_ONEWAY};

	return kr_conn_enqueue(conn, header, msg, NULL, slices, count);
}

void kr_conn_take_reply(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct request *request = find_request(conn, frame->header.id), copy;
	bool more = frame->header.flags & KR_FRAME_MORE;
	struct kr_arena arena = {0};
	union kr_any_msg reply;
	int err;

	if (!request)
		return; /* dropped by kr_conn_forget */
	if (request->type != frame->header.type) {
		kr_conn_end(conn, -EBADMSG, "a reply is of another type than its request");
		return;
	}
	err = kr_status_to_errno(frame->header.status);
	if (err == -EPROTONOSUPPORT) {
		struct kr_reader r;

		kr_reader_init(&r, frame->fields, frame->header.fields_length);
		kr_proto_differs(kr_take_u32(&r));
	} else if (err == 0) {
		int bad =
			kr_msg_decode(request->type, true, frame->fields, frame->header.fields_length, &reply, &arena);

		if (bad) {
			kr_conn_end(conn, bad, kr_fail_reason());
			kr_arena_fini(&arena);
			return;
		}
	}
	copy = *request;
	if (!more)
		end_request(conn, request);
	conn->reply_flags = frame->header.flags;
	copy.callback(copy.context, err, err ? NULL : &reply, err ? NULL : frame->data, more);
	kr_arena_fini(&arena);
}

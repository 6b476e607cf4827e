/* The rpc's connection: resolve, connect, wait, and again; and the tick that looks for calls that have waited too long.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/session/rpc_priv.h"

static void attempt(struct kr_rpc *rpc);

static void on_retry(uv_timer_t *timer)
{
	attempt(timer->data);
}

static void attempt_failed(struct kr_rpc *rpc, int err, const char *reason)
{
	if (rpc->stopped)
		return;
	rpc->events->on_disconnected(rpc->events_context, err, reason);
	if (rpc->stopped)
		return;
	uv_timer_start(&rpc->retry, on_retry, rpc->backoff_ms, 0);
	rpc->backoff_ms = KR_MIN(rpc->backoff_ms * 2, (uint64_t)KR_RPC_BACKOFF_MAX_MS);
}

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct kr_rpc *rpc = kr_conn_context(conn);

	rpc->heard_ns = kr_clock_ns();
	kr_rpc_deliver_down(rpc, frame);
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct kr_rpc *rpc = kr_conn_context(conn);
	uint64_t received, sent;

	if (rpc->reset_reason)
		reason = rpc->reset_reason;
	rpc->reset_reason = NULL;
	kr_conn_counters(conn, &received, &sent);
	rpc->received += received;
	rpc->sent += sent;
	rpc->conn = NULL;
	kr_rpc_connection_lost(rpc);
	if (rpc->freed && !rpc->timers)
		kr_rpc_destroy(rpc);
	else
		attempt_failed(rpc, err, reason);
}

static const struct kr_conn_handler handler = {.on_frame = on_frame, .on_closed = on_closed};

static void on_resolved(void *context, int err, const struct kr_addresses *addresses)
{
	struct kr_rpc *rpc = context;
	const struct sockaddr *address;

	rpc->resolving = NULL;
	if (err < 0) {
		attempt_failed(rpc, err, kr_fail_reason());
		return;
	}
	rpc->address = addresses->items[rpc->next_address++ % addresses->count];
	address = (const struct sockaddr *)&rpc->address;
	err = kr_conn_connect(rpc->mount->loop, address, &handler, rpc, &rpc->conn);
	if (err < 0) {
		attempt_failed(rpc, err, kr_fail_reason());
		return;
	}
	kr_rpc_start_tick(rpc);
	rpc->events->on_connecting(rpc->events_context, address);
}

static void attempt(struct kr_rpc *rpc)
{
	int err;

	rpc->attempt_ns = kr_clock_ns();
	err = kr_resolve_start(rpc->mount->loop, &rpc->server, on_resolved, rpc, &rpc->resolving);
	if (err < 0)
		attempt_failed(rpc, err, kr_fail_reason());
}

static void on_tick(uv_timer_t *timer)
{
	struct kr_rpc *rpc = timer->data;
	bool connecting = rpc->conn && rpc->gate == KR_RPC_SHUT;

	if (kr_list_empty(&rpc->calls) && !connecting) {
		uv_timer_stop(timer);
		return;
	}
	kr_rpc_check_deadlines(rpc);
	kr_rpc_watch_tick(rpc, kr_clock_ns());
	if (connecting && kr_clock_ns() - rpc->attempt_ns > KR_RPC_ATTEMPT_MS * KR_NS_PER_MS)
		kr_rpc_reset(rpc, "no answer (is the address right, and is a firewall between?)");
}

void kr_rpc_start_tick(struct kr_rpc *rpc)
{
	if (rpc->started && !rpc->stopped && !uv_is_active((uv_handle_t *)&rpc->tick))
		uv_timer_start(&rpc->tick, on_tick, KR_RPC_TICK_MS, KR_RPC_TICK_MS);
}

void kr_rpc_set_hooks(struct kr_rpc *rpc, const struct kr_rpc_hooks *hooks)
{
	rpc->hooks = hooks;
}

int kr_rpc_new(struct kr_mount *mount, const struct kr_endpoint *server, struct kr_rpc **ret_rpc)
{
	struct kr_rpc *rpc = kr_xcalloc(1, sizeof(*rpc));

	rpc->mount = mount;
	rpc->server = *server;
	rpc->backoff_ms = KR_RPC_BACKOFF_MIN_MS;
	kr_list_init(&rpc->calls);
	kr_table_init(&rpc->by_id);
	kr_table_init(&rpc->downs);
	uv_timer_init(mount->loop, &rpc->retry);
	uv_timer_init(mount->loop, &rpc->tick);
	uv_timer_init(mount->loop, &rpc->later);
	rpc->retry.data = rpc->tick.data = rpc->later.data = rpc;
	rpc->timers = 3;
	*ret_rpc = rpc;
	return 0;
}

static void on_timer_closed(uv_handle_t *handle)
{
	struct kr_rpc *rpc = handle->data;

	if (--rpc->timers == 0 && !rpc->conn)
		kr_rpc_destroy(rpc);
}

void kr_rpc_free(struct kr_rpc *rpc)
{
	if (!rpc)
		return;
	rpc->freed = true;
	uv_close((uv_handle_t *)&rpc->retry, on_timer_closed);
	uv_close((uv_handle_t *)&rpc->tick, on_timer_closed);
	uv_close((uv_handle_t *)&rpc->later, on_timer_closed);
}

void kr_rpc_start(struct kr_rpc *rpc, const struct kr_rpc_events *events, void *context)
{
	rpc->events = events;
	rpc->events_context = context;
	rpc->started = true;
	kr_rpc_start_tick(rpc); /* there may be calls already */
	attempt(rpc);
}

void kr_rpc_reset(struct kr_rpc *rpc, const char *reason)
{
	if (!rpc->conn)
		return;
	kr_log_debug("closing the connection to the server: %s", reason);
	rpc->reset_reason = reason;
	kr_conn_reset(rpc->conn);
}

/* A request outside the queue. */
struct direct {
	struct kr_rpc *rpc;
	kr_rpc_fn callback;
	void *context;
};

static void on_direct_reply(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct direct *direct = context;

	if (more)
		return;
	if (err != -ECONNRESET)
		direct->rpc->heard_ns = kr_clock_ns();
	if (!direct->rpc->stopped)
		direct->callback(direct->context, err, reply, data);
	free(direct);
}

int kr_rpc_direct(struct kr_rpc *rpc, uint16_t type, const void *msg, kr_rpc_fn callback, void *context)
{
	struct direct *direct;
	int err;

	if (!rpc->conn)
		return -ENOTCONN;
	direct = kr_xcalloc(1, sizeof(*direct));
	*direct = (struct direct){.rpc = rpc, .callback = callback, .context = context};
	err = kr_conn_request_as(rpc->conn, ++rpc->last_id, 0, type, msg, NULL, 0, on_direct_reply, direct);
	if (err < 0)
		free(direct);
	return err;
}

struct kr_conn *kr_rpc_conn(const struct kr_rpc *rpc)
{
	return rpc->conn;
}

uint64_t kr_rpc_heard_ns(const struct kr_rpc *rpc)
{
	return rpc->heard_ns;
}

uint64_t kr_rpc_rtt_us(const struct kr_rpc *rpc)
{
	return rpc->conn ? kr_conn_rtt_us(rpc->conn) : 0;
}

void kr_rpc_counters(const struct kr_rpc *rpc, uint64_t *ret_received, uint64_t *ret_sent)
{
	*ret_received = rpc->received;
	*ret_sent = rpc->sent;
	if (rpc->conn) {
		uint64_t received, sent;

		kr_conn_counters(rpc->conn, &received, &sent);
		*ret_received += received;
		*ret_sent += sent;
	}
}

/* The ring listener, the clock that watches ring connections, and the budget of blocks under way. */
#include "fuse/readcache/hops.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/readcache/hops_priv.h"
#include "fuse/base/options.h"
#include "fuse/session/rpc.h"

enum { BACKLOG = 128, TICK_MS = 250, IDLE_MS = 2000, POOL = 64 << 20 };

static void on_timer(uv_timer_t *timer)
{
	struct kr_hops *hops = timer->data;
	struct kr_stage *stage, *after;
	bool waits = hops->strangers > 0;

	hops->rate = hops->came;
	hops->best = KR_MAX(hops->best, hops->rate);
	hops->came = 0;
	waits |= kr_upstream_tick(hops);
	KR_LIST_FOR_EACH_SAFE(stage, after, &hops->stages, link)
		waits |= kr_stage_tick(stage);
	kr_downstream_tick(hops);
	/* The cache and the files are made after us. */
	if (!kr_list_empty(&hops->stages))
		kr_stage_evict(hops->mount);
	if (!waits && kr_list_empty(&hops->stages))
		uv_timer_stop(timer);
	else if (!waits) /* the disk may fill, and the cache has to give way */
		uv_timer_start(timer, on_timer, IDLE_MS, IDLE_MS);
}

void kr_hops_start_tick(struct kr_hops *hops)
{
	if (!hops->closing &&
		(!uv_is_active((uv_handle_t *)&hops->timer) || uv_timer_get_repeat(&hops->timer) != TICK_MS))
		uv_timer_start(&hops->timer, on_timer, TICK_MS, TICK_MS);
}

int kr_hops_new(struct kr_mount *mount, struct kr_hops **ret_hops)
{
	struct kr_hops *hops = kr_xcalloc(1, sizeof(*hops));
	int err = kr_verbs_new(mount->loop, (enum kr_transport)mount->options->transport, POOL, &hops->verbs);

	if (err) {
		free(hops);
		return err;
	}
	hops->mount = mount;
	kr_list_init(&hops->incoming);
	kr_list_init(&hops->outgoing);
	kr_list_init(&hops->stages);
	kr_table_init(&hops->by_fid);
	kr_list_init(&hops->starved);
	kr_list_init(&hops->to_store);
	kr_list_init(&hops->unkept);
	uv_timer_init(mount->loop, &hops->timer);
	hops->timer.data = hops;
	*ret_hops = hops;
	return 0;
}

/* --- the listener ----------------------------------------------------------------------------- */

static void on_listener_closed(uv_handle_t *handle)
{
	((struct kr_hops *)handle->data)->listeners--;
	free(handle);
}

static void close_listener(struct kr_hops *hops)
{
	if (hops->listener)
		uv_close((uv_handle_t *)hops->listener, on_listener_closed);
	hops->listener = NULL;
	hops->host[0] = '\0';
}

static void on_connection(uv_stream_t *listener, int status)
{
	if (status == 0)
		kr_downstream_accept(listener->data, listener);
}

static int make_address(const char *host, uint16_t port, struct sockaddr_storage *ret_address)
{
	if (uv_ip4_addr(host, port, (struct sockaddr_in *)ret_address) == 0 ||
		uv_ip6_addr(host, port, (struct sockaddr_in6 *)ret_address) == 0)
		return 0;
	return kr_fail(-EINVAL, "%s is no numeric address", host);
}

static uint16_t *port_of(struct sockaddr_storage *address)
{
	return address->ss_family == AF_INET ? &((struct sockaddr_in *)address)->sin_port :
					       &((struct sockaddr_in6 *)address)->sin6_port;
}

/* A port that is taken is told of by bind or, where the other has only just bound it too, by listen. */
static int try_listen(struct kr_hops *hops, struct sockaddr_storage *address, uv_tcp_t **ret_listener)
{
	uv_tcp_t *listener = kr_xcalloc(1, sizeof(*listener));
	int size = sizeof(*address), err;

	uv_tcp_init(hops->mount->loop, listener);
	listener->data = hops;
	hops->listeners++;
	err = uv_tcp_bind(listener, (struct sockaddr *)address, 0);
	if (err == 0)
		err = uv_listen((uv_stream_t *)listener, BACKLOG, on_connection);
	if (err == 0)
		err = uv_tcp_getsockname(listener, (struct sockaddr *)address, &size);
	if (err < 0)
		uv_close((uv_handle_t *)listener, on_listener_closed);
	else
		*ret_listener = listener;
	return err;
}

static int listen_in(struct kr_hops *hops, const char *host, const struct kr_port_range *ports,
	struct sockaddr_storage *address, uv_tcp_t **ret_listener)
{
	int err = -EADDRINUSE;

	for (uint32_t port = ports->low; err == -EADDRINUSE && port <= ports->high; port++) {
		*port_of(address) = htons((uint16_t)port);
		err = try_listen(hops, address, ret_listener);
	}
	if (err == -EADDRINUSE && ports->low < ports->high)
		return kr_fail(err, "ring ports %u-%u of %s are all in use (ring_port=LOW-HIGH)", ports->low,
			ports->high, host);
	if (err == -EADDRINUSE && ports->low)
		return kr_fail(err,
			"ring port %u of %s is in use (ring_port=LOW-HIGH lets several mounts of a node choose)",
			ports->low, host);
	return err < 0 ? kr_fail_errno(err, "cannot listen for ring connections on %s", host) : 0;
}

int kr_hops_listen(struct kr_hops *hops, const char *host, const struct kr_port_range *ports, uint16_t *ret_port)
{
	struct sockaddr_storage address = {0};
	uv_tcp_t *listener;
	int err;

	if (!hops->listener || strcmp(hops->host, host) != 0) {
		hops->told = 0;
		err = make_address(host, 0, &address);
		if (err == 0)
			err = listen_in(hops, host, ports, &address, &listener);
		if (err < 0)
			return err;
		close_listener(hops);
		hops->listener = listener;
		snprintf(hops->host, sizeof(hops->host), "%s", host);
		hops->port = ntohs(*port_of(&address));
	}
	*ret_port = hops->told = hops->port;
	return 0;
}

void kr_hops_identify(struct kr_hops *hops, uint32_t node, uint64_t session, const uint8_t ring_key[32],
	enum kr_security security, uint32_t lease_ms)
{
	if (hops->identified && memcmp(hops->self.ring_key, ring_key, KR_RING_KEY) != 0) {
		kr_downstream_close_all(hops);
		kr_upstream_close_all(hops);
	}
	hops->self = (struct kr_pair_caller){.node = node, .session = session, .least = security};
	memcpy(hops->self.ring_key, ring_key, KR_RING_KEY);
	hops->patience_ms = KR_MIN(KR_HOP_SILENT_NODE_S * 1000u, lease_ms / 4);
	hops->identified = true;
}

void kr_hops_on(struct kr_hops *hops, uint16_t type, kr_hop_frame_fn frame, kr_hop_closed_fn closed)
{
	if (hops->handler_count < KR_HOPS_TYPES)
		hops->handlers[hops->handler_count++] = (struct kr_hop_handler){type, frame, closed};
}

/* --- lanes of others -------------------------------------------------------------------------- */

/* During the handshake. */
struct dial {
	struct kr_hops *hops;
	struct kr_conn *conn;
	bool receives;
};

static void on_opened(void *context, int err)
{
	struct dial *dial = context;
	struct kr_conn *conn = dial->conn;

	if (!err && dial->hops->verbs)
		kr_verbs_ask(dial->hops->verbs, conn, dial->receives);
	free(dial);
	if (err == -EKEYREJECTED)
		kr_log_warn("ring connection to %s: %s", kr_conn_peer(conn), kr_fail_reason());
	else if (err && err != -ECONNRESET)
		kr_log_debug("ring connection to %s: %s", kr_conn_peer(conn), kr_fail_reason());
}

int kr_hop_dial(struct kr_hops *hops, const struct kr_hop_address *to, bool receives,
	const struct kr_conn_handler *handler, void *context, struct kr_conn **ret_conn)
{
	const struct sockaddr *address;
	struct dial *dial;
	struct sockaddr_storage named = {0};
	int err = 0;

	/* The server only knows where it was reached in the end, behind a tunnel or a translation of addresses. */
	if (to->node == 0) {
		address = kr_rpc_address(hops->mount->rpc);
	} else {
		err = make_address(to->address, to->port, &named);
		address = (const struct sockaddr *)&named;
	}
	if (err < 0)
		return err;
	err = kr_conn_connect(hops->mount->loop, address, handler, context, ret_conn);
	if (err < 0)
		return err;
	dial = kr_xcalloc(1, sizeof(*dial));
	*dial = (struct dial){.hops = hops, .conn = *ret_conn, .receives = receives};
	kr_pair_open(*ret_conn, to, &hops->self, on_opened, dial);
	return 0;
}

/* --- status ----------------------------------------------------------------------------------- */

void kr_hop_count(const struct kr_conn *conn, struct kr_hops_counters *counters)
{
	uint64_t received, sent;

	kr_conn_counters(conn, &received, &sent);
	counters->received += received;
	counters->sent += sent;
	counters->verbs += strcmp(kr_conn_transport(conn), "verbs") == 0;
}

/* --- the budget ------------------------------------------------------------------------------- */

void kr_hops_uncharge(struct kr_hops *hops, uint64_t bytes)
{
	struct kr_list starved;
	struct kr_stage *stage;

	hops->charged -= bytes;
	/* A good part at once, so that requests stay large. */
	if (kr_list_empty(&hops->starved) || hops->charged > KR_HOPS_BUDGET - KR_PULL_BATCH * KR_BLOCK_SIZE / 4 ||
		hops->closing)
		return;
	kr_list_init(&starved);
	kr_list_move(&hops->starved, &starved);
	while ((stage = KR_LIST_POP(&starved, struct kr_stage, starved)))
		kr_stage_advance(stage);
}

/* --- the end ---------------------------------------------------------------------------------- */

void kr_hops_close(struct kr_hops *hops)
{
	if (hops->closing)
		return;
	hops->closing = true;
	close_listener(hops);
	uv_close((uv_handle_t *)&hops->timer, NULL);
	kr_downstream_close_all(hops);
	kr_upstream_close_all(hops);
	kr_verbs_close(hops->verbs);
}

void kr_hops_free(struct kr_hops *hops)
{
	if (!hops)
		return;
	kr_table_fini(&hops->by_fid);
	kr_verbs_free(hops->verbs);
	free(hops);
}

/* Connections to upstreams: one for each address, shared by all stages that pull from there.
 *
 * A connection that owes blocks and sends nothing for a while is given up: its stages ask for another upstream.  So is
 * a connection to a node that sends some bytes now and then: the way to that node may be so bad that no block comes
 * whole, while the server is well.  A connection that no stage has used for KR_HOP_IDLE_S is closed.
 */
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/readcache/hops_priv.h"
#include "fuse/session/rpc.h"

enum { TICKS_PER_S = 4 };

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	(void)frame;
	kr_upstream_break(kr_conn_context(conn), "sent a request");
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct kr_upstream *hop = kr_conn_context(conn);
	uint64_t received, sent;

	kr_conn_counters(conn, &received, &sent);
	hop->hops->received += received;
	hop->hops->sent += sent;
	if (err != 0)
		kr_log_debug("connection to upstream %s ended: %s", kr_conn_peer(conn), reason);
	hop->conn = NULL;
	kr_list_remove(&hop->link);
	hop->hops->outgoing_count--;
	while (!kr_list_empty(&hop->stages)) {
		struct kr_stage *stage = KR_LIST_ENTRY(hop->stages.head.next, struct kr_stage, upstream_link);

		kr_stage_upstream_lost(stage, hop);
		kr_stage_advance(stage);
	}
	kr_upstream_put(hop);
}

static const struct kr_conn_handler handler = {.on_frame = on_frame, .on_closed = on_closed};

static bool leads_to(const struct kr_upstream *hop, const struct kr_hop_address *to)
{
	return !hop->ending && hop->to.node == to->node && hop->to.port == to->port && hop->to.session == to->session &&
		memcmp(hop->to.ticket, to->ticket, sizeof(to->ticket)) == 0 &&
		strcmp(hop->to.address, to->address) == 0;
}

static struct kr_upstream *make(struct kr_hops *hops, const struct kr_hop_address *to)
{
	struct kr_upstream *hop = kr_xcalloc(1, sizeof(*hop));

	hop->hops = hops;
	hop->to = *to;
	hop->to.address = kr_xstrdup(to->address);
	hop->id = ++hops->next_id;
	hop->references = 1; /* the connection's, until on_closed */
	kr_list_init(&hop->stages);
	if (kr_hop_dial(hops, to, true, &handler, hop, &hop->conn) < 0) {
		hop->conn = NULL;
		kr_upstream_put(hop);
		return NULL;
	}
	kr_list_append(&hops->outgoing, &hop->link);
	hops->outgoing_count++;
	kr_hops_start_tick(hops);
	return hop;
}

struct kr_upstream *kr_upstream_get(struct kr_hops *hops, const struct kr_hop_address *to)
{
	struct kr_upstream *hop;

	if (hops->closing)
		return NULL;
	KR_LIST_FOR_EACH(hop, &hops->outgoing, link) {
		if (leads_to(hop, to)) {
			hop->references++;
			return hop;
		}
	}
	hop = make(hops, to);
	if (hop)
		hop->references++;
	return hop;
}

void kr_upstream_put(struct kr_upstream *hop)
{
	if (!hop || --hop->references > 0)
		return;
	free((char *)(uintptr_t)hop->to.address);
	free(hop);
}

void kr_upstream_break(struct kr_upstream *hop, const char *reason)
{
	if (!hop->conn || hop->ending)
		return;
	hop->ending = true;
	kr_log_info("upstream %s %s: connection closed", kr_conn_peer(hop->conn), reason);
	kr_conn_close(hop->conn, false);
}

/* Whether it is to be looked at again soon: it owes blocks, or will be closed if nobody needs it. */
static bool look_at(struct kr_upstream *hop)
{
	uint32_t limit =
		(hop->to.node == 0 ? KR_HOP_SILENT_SERVER_S * 1000 : hop->hops->patience_ms) * TICKS_PER_S / 1000;
	uint64_t received, sent;

	kr_conn_counters(hop->conn, &received, &sent);
	hop->idle_ticks = hop->pulls == 0 && kr_list_empty(&hop->stages) ? hop->idle_ticks + 1 : 0;
	if (hop->idle_ticks > KR_HOP_IDLE_S * TICKS_PER_S) {
		hop->ending = true;
		kr_conn_close(hop->conn, false);
		return false;
	}
	/* While the server is away everybody may be waiting for it. */
	if (received != hop->received || hop->pulls == 0 || !kr_rpc_connected(hop->hops->mount->rpc))
		hop->silent_ticks = 0;
	else if (++hop->silent_ticks > limit)
		kr_upstream_break(hop, "owes blocks and is silent");
	if (hop->to.node == 0 || hop->blocks != hop->blocks_seen || hop->pulls == 0 ||
		!kr_rpc_connected(hop->hops->mount->rpc))
		hop->slow_ticks = 0;
	else if (++hop->slow_ticks > KR_HOP_SLOW * limit)
		kr_upstream_break(hop, "owes blocks and sends none whole");
	hop->received = received;
	hop->blocks_seen = hop->blocks;
	return hop->pulls > 0 || kr_list_empty(&hop->stages);
}

bool kr_upstream_tick(struct kr_hops *hops)
{
	struct kr_upstream *hop, *after;
	bool waits = false;

	KR_LIST_FOR_EACH_SAFE(hop, after, &hops->outgoing, link)
		waits |= look_at(hop);
	return waits;
}

void kr_upstream_close_all(struct kr_hops *hops)
{
	struct kr_upstream *hop, *after;

	KR_LIST_FOR_EACH_SAFE(hop, after, &hops->outgoing, link)
		kr_conn_close(hop->conn, false);
}

void kr_hops_counters(const struct kr_hops *hops, struct kr_hops_counters *ret_counters)
{
	struct kr_upstream *hop;

	*ret_counters = (struct kr_hops_counters){.received = hops->received,
		.sent = hops->sent,
		.incoming = hops->incoming_count,
		.outgoing = hops->outgoing_count,
		.in_flight = hops->charged,
		.port = hops->told};
	KR_LIST_FOR_EACH(hop, &hops->outgoing, link)
		kr_hop_count(hop->conn, ret_counters);
	kr_downstream_count(hops, ret_counters);
}

void kr_hops_each(const struct kr_hops *hops, kr_hop_each_fn each, void *context)
{
	struct kr_upstream *hop;

	KR_LIST_FOR_EACH(hop, &hops->outgoing, link)
		each(context, hop->conn, false);
	kr_downstream_each(hops, each, context);
}

/* Connections to upstreams: one or several (lanes) for each address, shared by all stages that pull from there.
 *
 * ring/lanes.h decides how many there are, which is asked, and whose blocks are asked again.  A hop ends with its last
 * lane.
 *
 * A connection that owes blocks and sends nothing for a while is closed: its stages ask for another upstream.  So is a
 * connection to a node that sends bytes and no whole block: the way to that node may be bad, and the server well.  A
 * connection that no stage has used for KR_HOP_IDLE_S is closed, too.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/base/options.h"
#include "fuse/readcache/hops_priv.h"
#include "fuse/session/rpc.h"

enum { TICKS_PER_S = 4 };

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	(void)frame;
	kr_upstream_break(((struct kr_upstream_lane *)kr_conn_context(conn))->hop, "sent a request");
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct kr_upstream_lane *lane = kr_conn_context(conn);
	struct kr_upstream *hop = lane->hop;
	uint64_t received, sent;

	kr_conn_counters(conn, &received, &sent);
	hop->hops->received += received;
	hop->hops->sent += sent;
	if (err != 0)
		kr_log_debug("connection to upstream %s ended: %s", kr_conn_peer(conn), reason);
	lane->conn = NULL;
	kr_upstream_lane_lost(lane);
	hop->hops->outgoing_count--;
	if (--hop->open > 0)
		return;
	kr_list_remove(&hop->link);
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

static int open_lane(struct kr_upstream *hop, uint32_t number)
{
	struct kr_upstream_lane *lane = &hop->conns[number];
	int err;

	if (lane->conn)
		return -EBUSY; /* not closed yet */
	err = kr_hop_dial(hop->hops, &hop->to, true, &handler, lane, &lane->conn);
	if (err < 0) {
		lane->conn = NULL;
		return err;
	}
	kr_lanes_opened(&hop->lanes, number);
	hop->open++;
	hop->hops->outgoing_count++;
	return 0;
}

static struct kr_upstream *make(struct kr_hops *hops, const struct kr_hop_address *to)
{
	struct kr_upstream *hop = kr_xcalloc(1, sizeof(*hop));

	hop->hops = hops;
	hop->to = *to;
	hop->to.address = kr_xstrdup(to->address);
	hop->id = ++hops->next_id;
	hop->references = 1; /* the connections', until on_closed */
	kr_list_init(&hop->stages);
	kr_lanes_init(&hop->lanes, (uint32_t)hops->mount->options->lanes);
	for (uint32_t i = 0; i < KR_LANES_MAX; i++) {
		hop->conns[i].hop = hop;
		kr_list_init(&hop->conns[i].pulls);
	}
	if (open_lane(hop, 0) < 0) {
		kr_upstream_put(hop);
		return NULL;
	}
	kr_list_append(&hops->outgoing, &hop->link);
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

struct kr_conn *kr_upstream_conn(const struct kr_upstream *hop)
{
	for (uint32_t i = 0; i < KR_LANES_MAX && !hop->ending; i++) {
		if (hop->lanes.lanes[i].open)
			return hop->conns[i].conn;
	}
	return NULL;
}

const char *kr_upstream_peer(const struct kr_upstream *hop)
{
	const struct kr_conn *conn = kr_upstream_conn(hop);

	return conn ? kr_conn_peer(conn) : hop->to.address;
}

bool kr_upstream_lane_lost(struct kr_upstream_lane *lane)
{
	struct kr_upstream *hop = lane->hop;

	kr_lanes_closed(&hop->lanes, (uint32_t)(lane - hop->conns));
	if (lane->conn)
		kr_conn_close(lane->conn, false);
	if (!kr_upstream_conn(hop))
		hop->ending = true;
	return !hop->ending;
}

static void close_lanes(struct kr_upstream *hop)
{
	hop->ending = true;
	for (uint32_t i = 0; i < KR_LANES_MAX; i++) {
		if (hop->conns[i].conn)
			kr_conn_close(hop->conns[i].conn, false);
	}
}

void kr_upstream_break(struct kr_upstream *hop, const char *reason)
{
	if (hop->open == 0 || hop->ending)
		return;
	kr_log_info("upstream %s %s: connection closed", kr_upstream_peer(hop), reason);
	close_lanes(hop);
}

/* Fills BYTES with what each lane has received.  Whether any has come since the last time. */
static bool count_bytes(struct kr_upstream *hop, uint64_t bytes[KR_LANES_MAX])
{
	bool any = false;

	for (uint32_t i = 0; i < KR_LANES_MAX; i++) {
		const struct kr_conn *conn = hop->conns[i].conn;
		uint64_t sent;

		bytes[i] = 0;
		if (!conn)
			continue;
		kr_conn_counters(conn, &bytes[i], &sent);
		bytes[i] += kr_conn_carried_bytes(conn);
		any = any || bytes[i] != hop->lanes.lanes[i].bytes;
	}
	return any;
}

static void adjust_lanes(struct kr_upstream *hop, const uint64_t bytes[KR_LANES_MAX])
{
	const struct kr_conn *conn = kr_upstream_conn(hop);
	struct kr_lanes_steps steps;

	if (conn && hop->pulls > 0)
		hop->rtt_us = kr_conn_rtt_us(conn);
	steps = kr_lanes_tick(&hop->lanes, bytes, hop->rtt_us);
	for (uint32_t i = 0; i < KR_LANES_MAX && (steps.open | steps.close | steps.take_back); i++) {
		const uint64_t bit = UINT64_C(1) << i;
		struct kr_upstream_lane *lane = &hop->conns[i];

		if (steps.take_back & bit)
			hop->hops->reassigned += kr_stage_take_back(&lane->pulls);
		if (steps.close & bit)
			kr_upstream_lane_lost(lane);
		if (steps.open & bit)
			(void)open_lane(hop, i); /* else at the next tick */
	}
	if (steps.open | steps.take_back)
		kr_stages_advance(hop->hops);
}

static bool close_if_idle(struct kr_upstream *hop)
{
	hop->idle_ticks = hop->pulls == 0 && kr_list_empty(&hop->stages) ? hop->idle_ticks + 1 : 0;
	if (hop->idle_ticks > KR_HOP_IDLE_S * TICKS_PER_S)
		close_lanes(hop);
	return hop->ending;
}

static void break_if_silent(struct kr_upstream *hop, bool silent, uint32_t limit)
{
	hop->silent_ticks = silent ? hop->silent_ticks + 1 : 0;
	if (hop->silent_ticks > limit)
		kr_upstream_break(hop, "owes blocks and is silent");
}

static void break_if_no_block_is_whole(struct kr_upstream *hop, bool owes, uint32_t limit)
{
	hop->slow_ticks = owes && hop->blocks == hop->blocks_seen ? hop->slow_ticks + 1 : 0;
	hop->blocks_seen = hop->blocks;
	if (hop->slow_ticks > limit)
		kr_upstream_break(hop, "owes blocks and sends none whole");
}

/* Whether the next tick must look at HOP, too: HOP owes blocks, has several lanes, or will be closed as idle. */
static bool look_at(struct kr_upstream *hop)
{
	const uint32_t limit =
		(hop->to.node == 0 ? KR_HOP_SILENT_SERVER_S * 1000 : hop->hops->patience_ms) * TICKS_PER_S / 1000;
	/* While the server is away every node may be waiting for the server. */
	const bool owes = hop->pulls > 0 && kr_rpc_connected(hop->hops->mount->rpc);
	uint64_t bytes[KR_LANES_MAX];
	bool received = count_bytes(hop, bytes);

	if (hop->ending || close_if_idle(hop))
		return false;
	break_if_silent(hop, owes && !received, limit);
	break_if_no_block_is_whole(hop, owes && hop->to.node != 0, KR_HOP_SLOW * limit);
	if (!hop->ending)
		adjust_lanes(hop, bytes);
	return hop->pulls > 0 || hop->open > 1 || kr_list_empty(&hop->stages);
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
		close_lanes(hop);
}

void kr_hops_counters(const struct kr_hops *hops, struct kr_hops_counters *ret_counters)
{
	struct kr_upstream *hop;

	*ret_counters = (struct kr_hops_counters){.received = hops->received,
		.sent = hops->sent,
		.incoming = hops->incoming_count,
		.outgoing = hops->outgoing_count,
		.in_flight = hops->charged,
		.reassigned = hops->reassigned,
		.port = hops->told};
	KR_LIST_FOR_EACH(hop, &hops->outgoing, link) {
		ret_counters->lanes += hop->open - 1;
		for (uint32_t i = 0; i < KR_LANES_MAX; i++) {
			if (hop->conns[i].conn)
				kr_hop_count(hop->conns[i].conn, ret_counters);
		}
	}
	kr_downstream_count(hops, ret_counters);
}

void kr_hops_each(const struct kr_hops *hops, kr_hop_each_fn each, void *context)
{
	struct kr_upstream *hop;

	KR_LIST_FOR_EACH(hop, &hops->outgoing, link) {
		for (uint32_t i = 0; i < KR_LANES_MAX; i++) {
			if (hop->conns[i].conn)
				each(context, hop->conns[i].conn, false);
		}
	}
	kr_downstream_each(hops, each, context);
}

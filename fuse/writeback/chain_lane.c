/* Lanes: connections to the downstreams of streams, kept idle for the next round that goes the same way. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "fuse/writeback/chain_priv.h"
#include "fuse/readcache/hops.h"
#include "fuse/base/mount.h"

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	(void)frame; /* a downstream only answers */
	kr_conn_close(conn, false);
}

static void on_drain(struct kr_conn *conn)
{
	struct kr_chain_lane *lane = kr_conn_context(conn);

	if (lane->chain)
		kr_chain_pump(lane->chain);
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct kr_chain_lane *lane = kr_conn_context(conn);
	struct kr_chain *chain = lane->chain;

	if (!lane->closing)
		kr_log_debug("connection to downstream %s ended: %s", kr_conn_peer(conn), reason);
	if (lane->idle)
		lane->chains->idle_lanes--;
	kr_list_remove(&lane->link);
	free(lane->address);
	free(lane);
	if (chain)
		kr_chain_lane_lost(chain, err);
}

static bool leads_to(const struct kr_chain_lane *lane, const struct kr_hop_address *to)
{
	return lane->node == to->node && lane->port == to->port && lane->session == to->session &&
		memcmp(lane->ticket, to->ticket, sizeof(lane->ticket)) == 0 && strcmp(lane->address, to->address) == 0;
}

static struct kr_chain_lane *new_lane(struct kr_chains *chains, const struct kr_hop_address *to)
{
	static const struct kr_conn_handler handler = {
		.on_frame = on_frame, .on_drain = on_drain, .on_closed = on_closed};
	struct kr_chain_lane *lane = kr_xcalloc(1, sizeof(*lane));

	lane->chains = chains;
	if (kr_hop_dial(chains->mount->hops, to, &handler, lane, &lane->conn) < 0) {
		free(lane);
		return NULL;
	}
	lane->node = to->node;
	lane->port = to->port;
	lane->session = to->session;
	memcpy(lane->ticket, to->ticket, sizeof(lane->ticket));
	lane->address = kr_xstrdup(to->address);
	kr_list_append(&chains->lanes, &lane->link);
	return lane;
}

struct kr_chain_lane *kr_chain_lane_get(struct kr_chains *chains, const struct kr_hop_address *to)
{
	struct kr_chain_lane *lane;

	if (chains->stopped)
		return NULL;
	KR_LIST_FOR_EACH(lane, &chains->lanes, link) {
		if (!lane->idle || !leads_to(lane, to))
			continue;
		lane->idle = false;
		chains->idle_lanes--;
		return lane;
	}
	return new_lane(chains, to);
}

static void on_answer(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct kr_chain_lane *lane = context;

	(void)reply;
	(void)data;
	(void)more;
	if (lane->chain && err != -ECONNRESET) /* that one is told by on_closed */
		kr_chain_lane_answered(lane->chain, err);
}

uint64_t kr_chain_lane_begin(struct kr_chain_lane *lane, struct kr_chain *chain, const struct kr_stream_request *stream)
{
	lane->chain = chain;
	return kr_conn_request(lane->conn, KR_MSG_STREAM, stream, NULL, 0, on_answer, lane);
}

void kr_chain_lane_idle(struct kr_chain_lane *lane)
{
	struct kr_chains *chains = lane->chains;

	lane->chain = NULL;
	if (chains->stopped || chains->idle_lanes >= KR_CHAIN_IDLE_LANES) {
		kr_chain_lane_close(lane, false);
		return;
	}
	lane->idle = true;
	chains->idle_lanes++;
}

void kr_chain_lane_close(struct kr_chain_lane *lane, bool flush)
{
	lane->chain = NULL;
	lane->closing = true;
	kr_conn_close(lane->conn, flush);
}

void kr_chain_lanes_close_idle(struct kr_chains *chains)
{
	struct kr_chain_lane *lane, *next;

	KR_LIST_FOR_EACH_SAFE(lane, next, &chains->lanes, link) {
		if (!lane->idle)
			continue;
		lane->idle = false;
		chains->idle_lanes--;
		kr_chain_lane_close(lane, false);
	}
}

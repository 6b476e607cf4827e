/* Ring connections of this node: the listener that peers connect to, and the connections to upstreams.
 *
 * downstream.c serves peers.  A peer first proves that the server gave it the secret for this node and session
 * (common/auth/pair.h).  Then stages answer its PULLs, block by block as they become ready; other types go to the
 * handlers registered for them. upstream.c has one connection per upstream, or several lanes (ring/lanes.h), shared by
 * all stages, and reports each block as it arrives.  All in the loop thread.
 *
 * Memory: blocks asked and not yet stored are at most KR_HOPS_BUDGET bytes for the whole mount.  Blocks that the local
 * disk would not keep are at most 64 MiB more.  What is queued to one slow peer is at most KR_HOP_QUEUE bytes plus one
 * block, and delays only that peer.
 */
#ifndef KR_FUSE_HOPS_H
#define KR_FUSE_HOPS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/rpc/conn.h"

enum { KR_HOPS_BUDGET = 64 << 20, KR_HOP_QUEUE = 4 << 20 };

struct kr_mount;
struct kr_hops;
struct kr_port_range;

/* The listener starts with kr_hops_listen. */
int kr_hops_new(struct kr_mount *mount, struct kr_hops **ret_hops);
/* Closes all ring connections and the listener; run the loop until all is closed, then free. */
void kr_hops_close(struct kr_hops *hops);
void kr_hops_free(struct kr_hops *hops);

/* Listens on HOST (the local address of the control connection), at the first of PORTS that is free; does nothing when
 * it listens there already.  To be called before each HELLO, which carries *RET_PORT.  -EADDRINUSE: none is free. */
int kr_hops_listen(struct kr_hops *hops, const char *host, const struct kr_port_range *ports, uint16_t *ret_port);
/* From HELLO's reply: our node, session and ring key (common/auth/pair.h), the least security of ring connections, and
 * the lease time: a RECALL waits for reads that wait for an upstream.
 * Another ring key than before ends all connections between nodes: what they were opened with has been taken back. */
void kr_hops_identify(struct kr_hops *hops, uint32_t node, uint64_t session, const uint8_t ring_key[32],
	enum kr_security security, uint32_t lease_ms);

/* Frames of TYPE on incoming, authenticated connections go to FRAME; CLOSED (may be NULL) hears of the end of every
 * such connection. For STREAM, EXTENT and STREAM_END. */
typedef void (*kr_hop_frame_fn)(
	struct kr_mount *mount, struct kr_conn *conn, uint32_t node, const struct kr_frame *frame);
typedef void (*kr_hop_closed_fn)(struct kr_mount *mount, struct kr_conn *conn);
void kr_hops_on(struct kr_hops *hops, uint16_t type, kr_hop_frame_fn frame, kr_hop_closed_fn closed);

/* A connection of the caller's own (a lane) to TO: connects and proves this node's identity; frames may be queued
 * behind it at once. on_closed reports a failure: no connection, this node was refused, or the peer is not the one that
 * the server says.  RECEIVES: file data comes from there, else it goes there; so verbs know which side needs buffers.
 * HANDLER and CONTEXT as kr_conn_connect. */
int kr_hop_dial(struct kr_hops *hops, const struct kr_hop_address *to, bool receives,
	const struct kr_conn_handler *handler, void *context, struct kr_conn **ret_conn);

struct kr_hops_counters {
	uint64_t received, sent; /* bytes of ring connections, those ended included */
	uint32_t incoming, outgoing;
	uint32_t lanes;      /* of the outgoing, those beside the first one to the same upstream */
	uint64_t reassigned; /* blocks that were asked again because a lane was late */
	uint32_t verbs;      /* connections that move data by verbs */
	uint64_t in_flight;  /* bytes asked and not yet stored */
	uint16_t port;       /* that the server has been told; 0: other nodes cannot come */
};
void kr_hops_counters(const struct kr_hops *hops, struct kr_hops_counters *ret_counters);
/* Calls EACH for the connections, but for those that users of kr_hop_dial have made. */
typedef void (*kr_hop_each_fn)(void *context, const struct kr_conn *conn, bool incoming);
void kr_hops_each(const struct kr_hops *hops, kr_hop_each_fn each, void *context);

#endif

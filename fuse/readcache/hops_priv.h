/* Inside of the ring connections: hops.c (listener, clock, budget), downstream.c (peers that pull from us), upstream.c
 * (upstreams that we pull from).  Loop thread only.
 */
#ifndef KR_FUSE_HOPS_PRIV_H
#define KR_FUSE_HOPS_PRIV_H

#include "common/base/list.h"
#include "common/auth/pair_conn.h"
#include "common/verbs/verbs.h"
#include "fuse/readcache/hops.h"
#include "fuse/base/mount.h"
#include "fuse/readcache/stage_priv.h"
#include "ring/lanes.h"

enum {
	KR_HOPS_INCOMING = 1024, /* connections of peers at once */
	KR_HOPS_STRANGERS = 128, /* of these, peers without a proof of identity yet: the oldest go first */
	KR_HOP_WANTED = 4096,    /* blocks that one peer may ask for before they are answered */
	KR_HOP_HELLO_S = 10,
	/* The node gives up an upstream node that owes blocks and sends nothing for so long, or for a quarter of the
	 * lease time if that is shorter.  It gives up one that sends no whole block after KR_HOP_SLOW times as long. */
	KR_HOP_SILENT_NODE_S = 8,
	KR_HOP_SLOW = 4,
	KR_HOP_SILENT_SERVER_S = 30,
	KR_HOP_IDLE_S = 30,
	KR_HOPS_UNKEPT = 64 << 20, /* blocks that the disk would not keep, in memory */
	KR_HOPS_TYPES = 8,
	KR_HOPS_PER_NODE = 256, /* connections of one peer, as at the server */
};

/* The functions that are registered for one type of frame. */
struct kr_hop_handler {
	uint16_t type;
	kr_hop_frame_fn frame;
	kr_hop_closed_fn closed;
};

struct kr_hops {
	struct kr_mount *mount;
	uv_tcp_t *listener; /* NULL: not listening; freed by its close */
	char host[64];
	uint16_t port;
	uint16_t told; /* what kr_hops_listen has said last; 0: nothing */
	uv_timer_t timer;
	bool closing;
	uint32_t listeners; /* not yet closed */

	struct kr_verbs *verbs; /* NULL: built without */
	struct kr_pair_caller self;
	bool identified;
	/* Blocks of all files that have come in this tick, in the last one, and in the best one.  Once a stage has
	 * looked at another upstream, the best one counts for as much as can be got. */
	uint32_t came, rate, best;
	bool compared;
	uint32_t patience_ms; /* with a silent upstream that is a node */

	struct kr_hop_handler handlers[KR_HOPS_TYPES];
	size_t handler_count;
	struct kr_list incoming, outgoing;
	uint32_t incoming_count, outgoing_count, strangers;
	uint64_t next_id;
	uint64_t received, sent; /* of connections that have ended */
	uint64_t reassigned;     /* blocks of late lanes that were asked of others */

	struct kr_list stages;   /* all of the mount */
	struct kr_table by_fid;  /* the same */
	uint64_t charged;        /* bytes asked and not yet stored */
	struct kr_list starved;  /* stages that wait for some of the budget */
	struct kr_list to_store; /* struct kr_held */
	uint32_t stores;         /* store jobs under way */
	uint32_t jobs;           /* other jobs under way, but evicting */
	struct kr_list unkept;   /* struct kr_held, oldest first */
	uint64_t unkept_bytes;
	bool evicting;
};

/* hops.c */
/* Bytes are no longer asked or have been stored: starved stages go on. */
void kr_hops_uncharge(struct kr_hops *hops, uint64_t bytes);
/* An upstream owes blocks or is idle, a stage waits for an upstream, or a stranger came: looks at them a few times a
 * second, until there is none of these.  While there are stages, every two seconds goes on: the cache evicts. */
void kr_hops_start_tick(struct kr_hops *hops);

/* downstream.c */
void kr_downstream_accept(struct kr_hops *hops, uv_stream_t *listener);
void kr_downstream_tick(struct kr_hops *hops);
/* Peers that wait for blocks of the file FID are told to ask elsewhere. */
void kr_downstream_cancel(struct kr_hops *hops, const struct kr_fid *fid);
void kr_downstream_close_all(struct kr_hops *hops);
/* Adds the bytes of the incoming connections. */
void kr_downstream_count(const struct kr_hops *hops, struct kr_hops_counters *counters);
void kr_downstream_each(const struct kr_hops *hops, kr_hop_each_fn each, void *context);
/* hops.c: adds CONN to COUNTERS. */
void kr_hop_count(const struct kr_conn *conn, struct kr_hops_counters *counters);

/* upstream.c */
/* One of the connections to an upstream. */
struct kr_upstream_lane {
	struct kr_upstream *hop;
	struct kr_conn *conn; /* NULL: none */
	struct kr_list pulls; /* asked of it and not answered to the end, in that order (stage_pull.c) */
};

/* A way to an upstream. */
struct kr_upstream {
	struct kr_hops *hops;
	struct kr_link link;
	struct kr_lanes lanes;
	struct kr_upstream_lane conns[KR_LANES_MAX];
	uint32_t open;            /* of CONNS, those that on_closed has not seen; 0: ended */
	uint64_t rtt_us;          /* the shortest; 0: not known yet */
	struct kr_hop_address to; /* address is own memory */
	uint64_t id;              /* the puller's name for it */
	struct kr_list stages;    /* whose upstream it is now (kr_stage.upstream_link) */
	uint32_t pulls;           /* PULLs not yet answered to the end */
	uint32_t references;
	uint64_t blocks;      /* that we have asked for and got */
	uint64_t blocks_seen; /* when last looked at */
	uint32_t silent_ticks, slow_ticks, idle_ticks;
	bool ending; /* closed by us, on_closed will follow */
};
/* The connection to TO, made if there is none, with a reference; NULL when it can't be (bad address). */
struct kr_upstream *kr_upstream_get(struct kr_hops *hops, const struct kr_hop_address *to);
void kr_upstream_put(struct kr_upstream *hop);
/* The connection for requests without file data; NULL: ended. */
struct kr_conn *kr_upstream_conn(const struct kr_upstream *hop);
/* "10.0.0.3:51324", for logs. */
const char *kr_upstream_peer(const struct kr_upstream *hop);
/* LANE will answer no request any more: closes it.  Returns whether the upstream has other lanes. */
bool kr_upstream_lane_lost(struct kr_upstream_lane *lane);
/* Ends it: the peer breaks the protocol or is silent. */
void kr_upstream_break(struct kr_upstream *hop, const char *reason);
bool kr_upstream_tick(struct kr_hops *hops);
void kr_upstream_close_all(struct kr_hops *hops);

#endif

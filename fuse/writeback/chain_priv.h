/* The inside of chain.c and chain_receiver.c.  Loop thread, but for the bodies of reads. */
#ifndef KR_FUSE_CHAIN_PRIV_H
#define KR_FUSE_CHAIN_PRIV_H

#include "common/rpc/conn.h"
#include "common/base/list.h"
#include "fuse/writeback/chain.h"
#include "fuse/journal/journal.h"
#include "fuse/base/loop.h"
#include "ring/merge.h"

enum { KR_CHAIN_PIECES = 512 };

struct kr_chains {
	struct kr_mount *mount;
	struct kr_list running, receivers, lanes;
	void (*on_early)(struct kr_flusher *flusher);
	uint32_t idle_lanes;
	bool stopped;
};

/* A connection to a downstream; it carries one stream at a time. */
struct kr_chain_lane {
	struct kr_link link;
	struct kr_chains *chains;
	struct kr_conn *conn;
	struct kr_chain *chain; /* whose stream it carries; NULL: idle or closing */
	bool idle, closing;
	uint32_t node;
	uint16_t port;
	uint64_t session;
	uint8_t ticket[32];
	char *address;
};

/* The upstream neighbour's stream. */
struct kr_chain_receiver {
	struct kr_link link;
	struct kr_conn *conn; /* borrowed from downstream.c */
	uint64_t stream;      /* id of its STREAM */
	struct kr_fid file;
	uint64_t round, extents, bytes;
	struct kr_chain *chain; /* NULL: came before our ROUND, paused */
	uint64_t since_ns;
	bool paused;
};

/* Pieces that follow each other in the file, read behind one another. */
struct kr_chain_run {
	uint64_t offset;
	size_t start, length; /* in the read's buffer */
};

/* A job of the pool: own pieces into buffers. */
struct kr_chain_read {
	uv_work_t work;
	struct kr_chain *chain; /* NULL: aborted meanwhile */
	struct kr_journal *journal;
	struct kr_extent pieces[KR_CHAIN_PIECES];
	struct kr_chain_run runs[KR_CHAIN_PIECES];
	uint32_t count, run_count;
	uint64_t bytes;
	struct kr_buf *buf;
	bool last; /* nothing is behind */
	int err;
};

struct kr_chain {
	struct kr_link link;
	struct kr_chains *chains;
	struct kr_fid file;
	uint64_t round;
	bool has_upstream;
	const struct kr_extent_map *extents;
	uint64_t next; /* own extents are planned up to here */
	bool own_planned;
	struct kr_chain_read *read;
	struct kr_merge merge;
	struct kr_chain_receiver *receiver;
	struct kr_chain_lane *lane;
	uint64_t stream; /* id of our STREAM */
	uint64_t extents_sent, bytes_sent;
	uint64_t own_taken;   /* own bytes that are sent, or about to be */
	uint64_t bytes_taken; /* own and from upstream: more than are sent, where they overlap */
	uint64_t overlapped;  /* at the nodes before, as upstream said */
	bool end_sent;
	struct kr_task kick; /* pumps from the loop */
	kr_chain_done_fn done;
	void *context;
};

/* --- chain_receiver.c --- */
void kr_chain_receivers_init(struct kr_mount *mount);
/* The upstream's stream has no place any more: its connection tells it. */
void kr_chain_drop_receiver(struct kr_chain_receiver *receiver);
/* CHAIN begins: the stream that came early is its upstream's, if it has one; no other has a place. */
void kr_chain_take_early(struct kr_chain *chain);
void kr_chain_drop_early(struct kr_chains *chains);

/* --- chain.c --- */
/* Does all that can be done now. The chain may be gone afterwards. */
void kr_chain_pump(struct kr_chain *chain);
/* Ends the chain with an error: the downstream is told in words if it can be. */
void kr_chain_fail(struct kr_chain *chain, int err, bool own);

#endif

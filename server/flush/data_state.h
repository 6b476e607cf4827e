/* The state of the flush room, shared by its files and by the pipelines room. */
#ifndef KR_SERVER_DATA_STATE_H
#define KR_SERVER_DATA_STATE_H

#include "common/auth/pair.h"
#include "server/flush/applied.h"
#include "server/flush/data.h"
#include "server/leases/file_table.h"
#include "server/base/pool_share.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/session/session.h"
#include "server/flush/failed_syncs.h"

enum {
	KR_DATA_APPLIES = 5, /* jobs in the pool at a time, of each kind: together less than the pool has threads */
	KR_DATA_FEEDS = 4,
	KR_DATA_TICK_MS = 200,
	KR_DATA_AHEAD_S = 5,      /* a node's estimate of the server's clock is more exact */
	KR_DATA_GATHER_MS = 20,   /* so long does a chained round wait for the file's other writers */
	KR_DATA_STALL_MS = 20000, /* a chained round without progress for so long is run again */
};

struct kr_hop;
struct kr_verbs;

/* The pipelines room's part of ring connections and readers. */
struct kr_pipeline_hooks {
	/* Closes the ring connections of NODE; 0: all. */
	void (*close_ring)(struct kr_data *data, uint32_t node);
	void (*pull)(struct kr_hop *hop, const struct kr_frame *frame);
	void (*drained)(struct kr_hop *hop);
	void (*closed)(struct kr_hop *hop);
	void (*tick)(struct kr_data *data);
	void (*session_lost)(struct kr_data *data, struct kr_session *session);
	void (*end)(struct kr_data *data);
};

/* The syncs of all files: syncs.c. */
struct kr_syncs {
	struct kr_pool_share share;
	struct kr_list queue; /* kr_commit.queued */
	size_t queued;        /* in it */
	struct kr_list later; /* kr_commit.queued: no node waits for these files */
	uv_timer_t later_timer;
	bool may_syncfs, syncfs_runs;
	int syncfs_fd;
	struct kr_list failing; /* kr_commit.failing */
	size_t former_failed;   /* of these, those of former instances that have not been tried again */
	struct kr_failed_syncs failed_log;
};

struct kr_data {
	struct kr_pipeline_hooks hooks;
	struct kr_server *server;
	struct kr_verbs *verbs; /* NULL: built without */
	struct kr_pool_share applies, feeds;
	uint64_t last_round;
	uint8_t ring_key[KR_RING_KEY]; /* the server's own, see common/auth/pair.h */
	char host[64];                 /* the server's address, as the latest session reached it */
	uint16_t port;
	struct kr_list busy;      /* kr_sfile_data.busy: files with flushes */
	struct kr_list gathering; /* kr_sfile_data.gathering, in the order of gather_ns */
	struct kr_list pipelines; /* kr_reader_pipeline.link */
	struct kr_list hops;      /* kr_hop.link */
	struct kr_syncs syncs;
	struct kr_list writing; /* kr_commit.writing: files with uncommitted bytes */
	struct kr_applied applied;
	uv_timer_t gather_timer, tick;
	struct kr_list throttled;  /* kr_round_stream.throttled: wait until round stream_bytes falls */
	size_t round_stream_bytes; /* received in streams, not written yet */
	bool stopping;

	struct {
		uint64_t inline_rounds, chained_rounds, chained_nodes, aborted_rounds, failed_rounds;
		uint64_t bytes, extents;
		uint64_t overlapped; /* bytes that more than one participant of a round had written */
		uint64_t syncs, sync_errors;
		uint64_t fed_blocks, fed_bytes;
	} counters;
};

static inline struct kr_data *kr_data_of(const struct kr_sfile *file)
{
	return file->server->data;
}

/* --- flush*.c --------------------------------------------------------------------------------- */
void kr_flush_init(struct kr_data *data);
/* From round_stream.c: the result of the stream of ROUND. */
void kr_flush_received(struct kr_sfile *file, uint64_t round);
void kr_flush_broken(struct kr_sfile *file, uint64_t round);
void kr_flush_failed(struct kr_sfile *file, uint64_t round, int err);
void kr_flush_drained(struct kr_sfile *file, uint64_t round);
/* From apply jobs: the attributes before the round's first write. */
void kr_flush_before(struct kr_sfile *file, const struct kr_attr *before);
void kr_flush_session_lost(struct kr_data *data, struct kr_session *session);
/* Whether the next round of FILE may begin has changed. */
void kr_flush_update_hold_of(struct kr_sfile *file);
/* Stops new rounds and aborts chains; kr_flush_quiet: no round runs. */
void kr_flush_stop(struct kr_data *data);
bool kr_flush_quiet(const struct kr_data *data);
/* Aborts rounds that have stalled. */
void kr_flush_tick(struct kr_data *data, uint64_t now_ns);

#endif

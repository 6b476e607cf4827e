/* The state of the flush room, shared by its files and by the pipelines room. */
#ifndef KR_SERVER_DATA_STATE_H
#define KR_SERVER_DATA_STATE_H

#include "common/auth/pair.h"
#include "server/flush/applied.h"
#include "server/flush/data.h"
#include "server/leases/file_table.h"
#include "server/base/pool_share.h"
#include "server/flush/replayed.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/session/session.h"
#include "server/flush/synced.h"

enum {
	KR_DATA_APPLIES = 5, /* jobs in the pool at a time, of each kind: together less than the pool has threads */
	KR_DATA_FEEDS = 4,
	KR_DATA_TICK_MS = 200,
	KR_DATA_AHEAD_S = 5,          /* a node's estimate of the server's clock is more exact */
	KR_DATA_GATHER_MS = 20,       /* so long does a chained round wait for the file's other writers */
	KR_DATA_RAISE_MS = 10000,     /* between two raises of the floor of what is known to be synced ... */
	KR_DATA_RAISE_SOON_MS = 1000, /* ... when files above it have left the table, or the log has grown long */
	KR_DATA_INHERITED_MS = 60000, /* from the start to the first one, which syncs the whole filesystem ... */
	KR_DATA_NOTES_MANY = 256,     /* ... unless so many have been noted for want of it */
	KR_DATA_REPLAY_BYTES =
		128 << 20,        /* of collected replays: the node streams what comes beyond when its round comes */
	KR_DATA_STALL_MS = 20000, /* a chained round without progress for so long is run again */
};

struct kr_hop;

/* What the pipelines room does for ring connections and readers. */
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

struct kr_data {
	struct kr_pipeline_hooks hooks;
	struct kr_server *server;
	struct kr_pool_share applies, feeds, syncs;
	uint64_t last_round;
	uint8_t ring_key[KR_RING_KEY]; /* the server's own, see common/auth/pair.h */
	char host[64];                 /* the server's address, as the latest session reached it */
	uint16_t port;
	struct kr_list busy;                    /* kr_sfile_data.busy: files with flushes */
	struct kr_list gathering;               /* kr_sfile_data.gathering, in the order of gather_ns */
	struct kr_list pipelines;               /* kr_reader_pipeline.link */
	struct kr_list hops;                    /* kr_hop.link */
	struct kr_list sync_urgent, sync_queue; /* kr_stable.queued: with a waiter; without */
	uv_timer_t sync_timer, gather_timer, tick;
	struct kr_list in_sync;   /* kr_stable.in_sync */
	struct kr_list restoring; /* kr_stable.restoring: files that lost bytes in a failed sync and wait for replays */
	struct kr_applied applied;
	struct kr_synced synced;
	struct kr_replayed replayed;
	uint64_t forgotten_round; /* the last round of files that have left the table, and of former instances */
	uint64_t raised_ns;       /* when the floor of `synced` was raised the last time */
	bool may_raise;           /* no replays of a former boot are expected ... */
	bool inherited;           /* ... but dirty pages of a former instance are to be synced first */
	bool syncing_all;
	struct kr_list throttled;  /* kr_round_stream.throttled: wait until round stream_bytes falls */
	size_t round_stream_bytes; /* received in streams, not written yet */
	size_t replays;            /* received and not answered ... */
	size_t replay_bytes; /* ... and the bytes that came with them, and with what waits for replays of unstable.c */
	bool collecting;     /* replays: all flushes wait */
	bool replaying;      /* the end of the grace period waits for `replays` to become 0 */
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

/* What has been applied in this boot of FILE from the journal NODE_ID, if that is all up to SEQ; else NULL.  Borrowed
 * until the next call. */
static inline const struct kr_applied_entry *kr_data_applied_anew(
	struct kr_data *data, const struct kr_fid *file, const uint8_t node_id[16], uint64_t seq)
{
	const struct kr_applied_entry *entry = kr_applied_find(&data->applied, file, node_id);

	return entry && !entry->unstable_err && entry->seq >= seq ? entry : NULL;
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
/* `collecting` has changed. */
void kr_flush_update_hold(struct kr_data *data);
/* The same for the rounds of FILE alone. */
void kr_flush_update_hold_of(struct kr_sfile *file);
/* Stops new rounds and aborts chains; kr_flush_quiet: no round runs. */
void kr_flush_stop(struct kr_data *data);
bool kr_flush_quiet(const struct kr_data *data);
/* Aborts rounds that have stalled. */
void kr_flush_tick(struct kr_data *data, uint64_t now_ns);

/* --- stable.c --------------------------------------------------------------------------------- */
void kr_stable_init(struct kr_data *data);
void kr_fsyncs_register(struct kr_data *data);
void kr_stable_file_init(struct kr_stable *stable);
void kr_stable_file_fini(struct kr_stable *stable);
/* ROUND, with bytes of NODE_ID's journal, is applied.  The server syncs it soon, then tells the node. */
void kr_stable_applied(struct kr_sfile *file, const uint8_t node_id[16], uint64_t round);
/* After a sync the server tells the node that all its rounds up to ROUND are durable. */
void kr_stable_owe(struct kr_sfile *file, const uint8_t node_id[16], uint64_t round);
/* All rounds up to this one have been synced, or their sync has failed. */
uint64_t kr_stable_floor(const struct kr_data *data);
/* Syncs all files of the queues at once. */
void kr_stable_hurry(struct kr_data *data);

/* --- unstable.c ------------------------------------------------------------------------------- */
/* A sync of FILE has failed with ERR: the nodes concerned get UNSTABLE, and send again what is lost. */
void kr_stable_lost(struct kr_sfile *file, int err);
/* SESSION's node reclaims the file and has not acknowledged the loss: sends UNSTABLE again.  Every RECLAIM does until
 * the node has. */
void kr_stable_tell_again(struct kr_sfile *file, struct kr_session *session, const struct kr_applied_entry *entry);
/* The same when the node of SESSION asks whether the file is synced, and does not reclaim it.  0: the node knows, or
 * UNSTABLE is on its way; else the error of the failed sync. */
int kr_stable_tell_untold(struct kr_sfile *file, struct kr_session *session);
/* Nodes still send what was lost: no round of FILE may begin. */
bool kr_stable_restores(const struct kr_sfile *file);
/* ... and NODE is one of them: its replays go in. */
bool kr_stable_may_restore(const struct kr_sfile *file, uint32_t node);
/* A replay is about to go in; the last one may be done. */
void kr_stable_restoring(struct kr_sfile_data *data);
void kr_stable_restored(struct kr_sfile_data *data);
/* Ends waits for nodes that take too long. */
void kr_stable_tick(struct kr_data *data, uint64_t now_ns);

#endif

/* The data side's own state, shared by its files (flush, round stream, apply, stable, pipelines, feed, hop). */
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
	KR_DATA_AHEAD_S = 5, /* a node's idea of our clock is not as wrong as that */
	KR_DATA_GATHER_MS =
		20, /* a chained round waits so long for the file's other writers: programs close together */
	KR_DATA_RAISE_MS = 10000,     /* between two raises of the floor of what is known to be synced ... */
	KR_DATA_RAISE_SOON_MS = 1000, /* ... when files above it have left the table, or the log has grown long */
	KR_DATA_INHERITED_MS = 60000, /* from the start to the first one, which syncs the whole filesystem ... */
	KR_DATA_NOTES_MANY = 256,     /* ... unless so many have been noted for want of it */
	KR_DATA_REPLAY_BYTES =
		128 << 20,        /* of replays that are collected: what comes beyond is streamed when its turn comes */
	KR_DATA_STALL_MS = 20000, /* a chained round in which nothing moves for so long is run again */
};

struct kr_hop;

/* What the pipelines room does for ring connections and nodes that read. */
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
	char host[64];                 /* where nodes reach the server: of the latest session that asked */
	uint16_t port;
	struct kr_list busy;                    /* kr_sfile_data.busy: files with flushes */
	struct kr_list gathering;               /* kr_sfile_data.gathering, in the order of gather_ns */
	struct kr_list pipelines;               /* kr_reader_pipeline.link */
	struct kr_list hops;                    /* kr_hop.link */
	struct kr_list sync_urgent, sync_queue; /* kr_stable.queued: somebody waits; by the time they are due */
	uv_timer_t sync_timer, gather_timer, tick;
	struct kr_list in_sync;   /* kr_stable.in_sync */
	struct kr_list restoring; /* kr_stable.restoring: files that wait for what a failed sync has lost */
	struct kr_applied applied;
	struct kr_synced synced;
	struct kr_replayed replayed;
	uint64_t forgotten_round; /* the last round of files that have left the table, and of former instances */
	uint64_t raised_ns;       /* when the floor of `synced` was raised the last time */
	bool may_raise;           /* no replays of a former boot are waited for ... */
	bool inherited; /* ... but what a former instance may have left in the page cache is to be synced first */
	bool syncing_all;
	struct kr_list throttled;  /* kr_round_stream.throttled: wait until round stream_bytes falls */
	size_t round_stream_bytes; /* received in streams, not written yet */
	size_t replays;            /* asked and not answered ... */
	size_t replay_bytes; /* ... and the data that came with them, and with what waits for those of unstable.c */
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

/* What has been applied in this boot of FILE from the journal NODE_ID, if that is all up to SEQ; else NULL. Borrowed
 * until the next call. */
static inline const struct kr_applied_entry *kr_data_applied_anew(
	struct kr_data *data, const struct kr_fid *file, const uint8_t node_id[16], uint64_t seq)
{
	const struct kr_applied_entry *entry = kr_applied_find(&data->applied, file, node_id);

	return entry && !entry->unstable_err && entry->seq >= seq ? entry : NULL;
}

/* --- flush*.c --------------------------------------------------------------------------------- */
void kr_flush_init(struct kr_data *data);
/* From round_stream.c: what became of the stream of ROUND. */
void kr_flush_received(struct kr_sfile *file, uint64_t round);
void kr_flush_broken(struct kr_sfile *file, uint64_t round);
void kr_flush_failed(struct kr_sfile *file, uint64_t round, int err);
void kr_flush_drained(struct kr_sfile *file, uint64_t round);
/* From apply jobs: the attributes before the round's first write. */
void kr_flush_before(struct kr_sfile *file, const struct kr_attr *before);
void kr_flush_session_lost(struct kr_data *data, struct kr_session *session);
/* `collecting` has changed. */
void kr_flush_update_hold(struct kr_data *data);
/* The same for what holds rounds of FILE alone. */
void kr_flush_update_hold_of(struct kr_sfile *file);
/* No round begins any more, chains are aborted; whether none runs. */
void kr_flush_stop(struct kr_data *data);
bool kr_flush_quiet(const struct kr_data *data);
/* Aborts rounds that have stalled. */
void kr_flush_tick(struct kr_data *data, uint64_t now_ns);

/* --- stable.c --------------------------------------------------------------------------------- */
void kr_stable_init(struct kr_data *data);
void kr_fsyncs_register(struct kr_data *data);
void kr_stable_file_init(struct kr_stable *stable);
void kr_stable_file_fini(struct kr_stable *stable);
/* ROUND, with bytes of NODE_ID's journal, has been applied: to be synced soon, then the node is told. */
void kr_stable_applied(struct kr_sfile *file, const uint8_t node_id[16], uint64_t round);
/* The node is to be told, after a sync, that all its rounds up to ROUND are stable. */
void kr_stable_owe(struct kr_sfile *file, const uint8_t node_id[16], uint64_t round);
/* All rounds up to it have been synced, or found their sync to fail. */
uint64_t kr_stable_floor(const struct kr_data *data);
/* Syncs everything that waits at once. */
void kr_stable_hurry(struct kr_data *data);

/* --- unstable.c ------------------------------------------------------------------------------- */
/* A sync of FILE has failed with ERR: whom it concerns is told, and sends again what is lost. */
void kr_stable_lost(struct kr_sfile *file, int err);
/* Tells SESSION's node, which reclaims the file, of the loss that it has not taken note of: until it has, every RECLAIM
 * does. */
void kr_stable_tell_again(struct kr_sfile *file, struct kr_session *session, const struct kr_applied_entry *entry);
/* The same when SESSION's node asks whether the file is synced, and does not reclaim it. 0: there is nothing to be
 * told, or it is being told; else the failed sync's error. */
int kr_stable_tell_untold(struct kr_sfile *file, struct kr_session *session);
/* Nodes are still sending what was lost: no round of FILE may begin. */
bool kr_stable_restores(const struct kr_sfile *file);
/* ... and the node NODE is one of them: its replays go in. */
bool kr_stable_may_restore(const struct kr_sfile *file, uint32_t node);
/* A replay is about to go in; it may be that the last one is done. */
void kr_stable_restoring(struct kr_sfile_data *data);
void kr_stable_restored(struct kr_sfile_data *data);
/* Nobody is waited for for ever. */
void kr_stable_tick(struct kr_data *data, uint64_t now_ns);

#endif

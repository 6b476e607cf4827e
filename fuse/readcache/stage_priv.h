/* Inside of a stage: stage.c (life, reads), stage_pull.c (what comes from upstream), stage_store.c (memory to disk),
 * stage_hedge.c (whether another upstream is faster), stage_patch.c (own flushed bytes), stage_whole.c (all of a file).
 */
#ifndef KR_FUSE_STAGE_PRIV_H
#define KR_FUSE_STAGE_PRIV_H

#include <pthread.h>

#include "common/rpc/msg.h"
#include "fuse/readcache/cache.h"
#include "fuse/base/loop.h"
#include "fuse/base/mount.h"
#include "fuse/readcache/stage.h"
#include "ring/hedge.h"
#include "ring/puller.h"
#include "ring/readahead.h"

struct kr_hops;
struct kr_upstream;

enum {
	KR_STAGE_AHEAD = 8,   /* read-ahead ranges that wait their turn */
	KR_STAGE_FAILED = 64, /* failures remembered */
	KR_STAGE_FAILED_MS = 1000,
	KR_STAGE_STORES = 3,       /* store jobs at once, of the whole mount */
	KR_STAGE_STORE_BLOCKS = 8, /* blocks of one store job */
};
#define KR_STAGE_ANY_BLOCK UINT64_MAX

/* A block in memory: on its way to the disk, or one that could not be kept there. */
struct kr_held {
	struct kr_table_link by_block;
	struct kr_link link;    /* [loop] the mount's store queue, or its list of unkept blocks */
	struct kr_stage *stage; /* NULL: given up, the store job frees it */
	struct kr_buf *buf;
	uint64_t block, checksum;
	uint64_t edition; /* of the cache's entry */
	bool storing, unkept;
	bool charged; /* counts against the budget */
};

struct kr_failed {
	uint64_t block, until_ns;
	int err;
};

/* A peer downstream that waits for a block. */
struct kr_stage_waiter {
	struct kr_fetch_waiter fetch;
	uint64_t block;
	/* The block, borrowed; or ERR: -EAGAIN ask again; -ESTALE, -ECANCELED, or why it can't be read. */
	void (*ready)(struct kr_stage_waiter *waiter, int err, struct kr_buf *buf, uint64_t checksum);
};

/* [loop] Of kr_stage_all. */
struct kr_stage_whole {
	bool waits;              /* for the disk to have kept blocks, among others */
	bool passing;            /* the latest pass has not been judged yet */
	int unkept_err;          /* why the disk would not keep a block, since then; 0: it kept all */
	uint64_t kept_most;      /* blocks on the disk after any pass */
	uint64_t evicted_before; /* the cache's evicted_bytes when the latest pass began */
	uint64_t in_vain_ns;     /* since when passes are in vain; 0: they are not */
	int in_vain_err;         /* of the latest pass, until kr_stage_all has told it */
	uint64_t pass_from_ns;   /* no pass before */
};

struct kr_stage {
	struct kr_mount *mount;
	const struct kr_stage_hooks *hooks;
	struct kr_file *file; /* [loop] NULL after kr_stage_free */
	struct kr_fid fid;
	uint32_t references;         /* [loop] jobs and requests under way, plus the file's */
	struct kr_link link;         /* [loop] in the hops' list of stages ... */
	struct kr_table_link by_fid; /* ... and table, until kr_stage_free */

	pthread_mutex_t lock; /* the loop writes, others read: */
	bool known, live, loading, patching;
	uint64_t version, size;
	uint64_t generation;          /* what came for an earlier one is ignored */
	struct kr_cache_entry *entry; /* NULL until known */
	struct kr_table held;         /* struct kr_held */
	struct kr_failed failed[KR_STAGE_FAILED];
	uint32_t failed_count;
	struct kr_readahead readahead;
	struct kr_range ahead[KR_STAGE_AHEAD]; /* of blocks */
	uint32_t ahead_count;
	struct kr_task ahead_task;

	/* [loop] */
	struct kr_puller puller;
	struct kr_upstream *upstream; /* NULL: to be asked for */
	struct kr_link upstream_link;
	struct kr_hedge hedge;
	struct kr_upstream *beside; /* reference; is asked instead, for a trial; NULL: no trial */
	uint64_t choice;            /* answers to REPARENT for an earlier one are ignored */
	struct kr_list parked;      /* waiters, while loading or patching */
	struct kr_list patches;     /* of own flushed bytes, for after that; in the order of their versions */
	struct kr_link starved;     /* waits for the mount's budget */
	uint64_t epoch;             /* answers to JOIN and REPARENT of an earlier one are ignored */
	bool joined, asking, outdated, failed_once;
	uint32_t failed_node; /* the upstream that failed, for REPARENT */
	uint64_t retry_ns;    /* the server could not be reached: not before then */
	uint32_t retries;
	uint32_t solo; /* so many blocks are asked one by one, to find the one that can't be read */
	struct kr_stage_whole whole;
};

/* stage.c */
/* The cache file's map is read, or a patch is done. */
void kr_stage_go_on(struct kr_stage *stage);
/* The stage of the file FID; NULL: there is none. */
struct kr_stage *kr_stage_find(struct kr_hops *hops, const struct kr_fid *fid);
struct kr_stage *kr_stage_ref(struct kr_stage *stage);
void kr_stage_unref(struct kr_stage *stage);
/* [lock] The block in memory, or NULL. */
struct kr_held *kr_stage_find_held(struct kr_stage *stage, uint64_t block);
/* Any thread. Whether the block is here, in memory or on disk. */
bool kr_stage_has(struct kr_stage *stage, uint64_t block);
/* [lock] Why BLOCK can't be had, if that was found out a moment ago; else 0. */
int kr_stage_failure(const struct kr_stage *stage, uint64_t block);
/* [lock] Adds a range of blocks to be staged ahead, to the last one if it goes on there. */
void kr_stage_add_ahead(struct kr_stage *stage, uint64_t from, uint64_t end);
/* Remembers that BLOCK (or KR_STAGE_ANY_BLOCK) can't be had. */
void kr_stage_note_failed(struct kr_stage *stage, uint64_t block, int err);
/* Tells waiters of WAITERS (a list of fetch waiters). */
void kr_stage_tell(struct kr_list *waiters, int err, struct kr_buf *buf, uint64_t checksum);
/* Tells the file that something has changed. */
void kr_stage_step(struct kr_stage *stage);

/* stage_store.c */
/* Blocks in memory that the disk would not keep are stored again. */
void kr_stage_store_again(struct kr_stage *stage);

/* stage_pull.c */
/* Asks for wanted blocks as far as window, budget and upstream allow. */
void kr_stage_advance(struct kr_stage *stage);
/* Ends all fetches; their waiters get ERR. */
void kr_stage_stop_pulling(struct kr_stage *stage, int err);
/* The same, and leaves the upstream and the pipeline. */
void kr_stage_part(struct kr_stage *stage, int err);
/* The upstream's connection is gone, or it does not serve this file. */
void kr_stage_upstream_lost(struct kr_stage *stage, struct kr_upstream *hop);
/* Neighbouring blocks as RANGES, of which there is room for COUNT.  Returns their number. */
uint32_t kr_stage_ranges(const uint64_t *blocks, size_t count, struct kr_range *ranges);
/* Pulls from TO from now on. */
void kr_stage_take_upstream(struct kr_stage *stage, const struct kr_hop_address *to);
/* Queues again what PULLS (kr_upstream_lane.pulls) owe, once for each.  Returns the number of blocks. */
uint64_t kr_stage_take_back(const struct kr_list *pulls);
/* All stages ask for what they can. */
void kr_stages_advance(struct kr_hops *hops);
/* A quarter of a second has passed.  Whether the stage still has something to ask. */
bool kr_stage_tick(struct kr_stage *stage);

/* stage_hedge.c */
/* The upstream is a new one, or none. */
void kr_stage_end_trial(struct kr_stage *stage);
void kr_stage_hedge_tick(struct kr_stage *stage);
/* A block has come over HOP.  May change the upstream. */
void kr_stage_hedge_came(struct kr_stage *stage, const struct kr_upstream *hop);
/* The member that is tried does not serve this file. */
void kr_stage_beside_lost(struct kr_stage *stage);

/* stage_store.c */
/* BLOCK has come, verified: it can be read from now on, waiters are told, and it goes to disk.  CHARGED: it counts
 * against the hops' budget until then. */
void kr_stage_deliver(struct kr_stage *stage, uint64_t block, struct kr_buf *buf, uint64_t checksum, bool charged);
/* The same for the only block of a file.  A small one stays in memory. */
void kr_stage_deliver_whole(struct kr_stage *stage, struct kr_buf *buf, uint64_t checksum);
/* Writes blocks that the cache has in memory alone to a file. */
void kr_stage_keep(struct kr_stage *stage);
/* Forgets all blocks in memory. */
void kr_stage_drop_held(struct kr_stage *stage);
/* Forgets one; returns its buffer (owned). */
struct kr_buf *kr_stage_take_held(struct kr_stage *stage, uint64_t block);

/* stage_patch.c */
/* As kr_stage_flushed, where BASE_VERSION is the staged version. */
void kr_stage_patch(struct kr_stage *stage, uint64_t version, uint64_t size, const struct kr_extent_map *sent);
/* Starts the next patch that waits; false: none does. */
bool kr_stage_patch_next(struct kr_stage *stage);
/* Forgets those that wait. */
void kr_stage_drop_patches(struct kr_stage *stage);

#endif

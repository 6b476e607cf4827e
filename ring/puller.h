/* Pulls one file's blocks from its upstream: which blocks to ask next, and what to ask again when an upstream goes.
 * Pure.
 *
 * Invariants: a block is asked from one upstream at a time.  At most `window` blocks are asked and unanswered.  A block
 * with a waiter is queued or asked until it arrives or fails.  Demanded blocks come before read-ahead.  Read-ahead is a
 * range whose blocks are enumerated late, so that staging a huge file costs no memory ahead of time.
 *
 * An upstream is any number of the caller's, a new one for each connection or renewal, never 0.
 */
#ifndef KR_RING_PULLER_H
#define KR_RING_PULLER_H

#include "ring/fetches.h"

enum {
	KR_PULL_WINDOW = 128, /* blocks = 16 MiB: 10 Gbit/s x 10 ms is 12.5 MiB */
	KR_PULL_WINDOW_MIN = 8,
	KR_PULL_WINDOW_MS = 100, /* the window is what comes in this time and two round trips, up to KR_PULL_WINDOW */
	KR_PULL_RATE_MS = 20,    /* ... at the rate of the last so many ms or more */
	KR_PULL_BATCH = 64,      /* blocks of one request at most */
	KR_PULL_BATCH_SHARE = 8, /* read-ahead waits until this part of the window can be asked at once */
};

/* Whether the node has BLOCK already. */
typedef bool (*kr_puller_present_fn)(void *context, uint64_t block);

struct kr_puller {
	struct kr_fetches fetches;
	uint64_t upstream; /* 0: none at present; no block is asked */
	uint64_t window;   /* may be changed at any time */
	uint64_t ahead_next, ahead_end;
	uint64_t rate_since_ns, rate_blocks; /* blocks that have come since then */
	kr_puller_present_fn present;
	void *context;
};

void kr_puller_init(struct kr_puller *puller, uint64_t window, kr_puller_present_fn present, void *context);
void kr_puller_fini(struct kr_puller *puller);

/* Demands BLOCK.  WAITER (may be NULL) comes back when the block arrives or fails.  The caller may unlink it; the fetch
 * goes on.  0 or -ENOMEM. */
int kr_puller_want(struct kr_puller *puller, uint64_t block, struct kr_fetch_waiter *waiter);
/* Sets the read-ahead range, FROM up to END, for times without demand; replaces the former range. */
void kr_puller_ahead(struct kr_puller *puller, uint64_t from, uint64_t end);

/* From now on blocks are asked from UPSTREAM (0: from none until further notice).  Blocks asked from the former
 * upstream may still come from it. */
void kr_puller_set_upstream(struct kr_puller *puller, uint64_t upstream);
/* UPSTREAM will not answer any more (broken, refused, canceled): its blocks are queued again.  If it is the current one
 * there is none until kr_puller_set_upstream.  Returns the number of blocks queued again. */
uint64_t kr_puller_lost(struct kr_puller *puller, uint64_t upstream);

/* How many blocks UPSTREAM has been asked for and has not sent. */
uint32_t kr_puller_owed(const struct kr_puller *puller, uint64_t upstream);
/* The first MAX of these.  Returns their number. */
size_t kr_puller_asked(const struct kr_puller *puller, uint64_t upstream, uint64_t *blocks, size_t max);
/* Queues again what UPSTREAM owes; what it sends nevertheless is accepted. */
void kr_puller_take_back(struct kr_puller *puller, uint64_t upstream);

/* The pipeline is a new one, whose order may differ: all asked blocks are queued again, and there is no upstream until
 * kr_puller_set_upstream.  Blocks that arrive nevertheless are accepted. */
void kr_puller_renew(struct kr_puller *puller);

/* Fills BLOCKS with up to MAX blocks (within the window) to ask the current upstream now; they count as asked.  Returns
 * their number. */
size_t kr_puller_next(struct kr_puller *puller, uint64_t *blocks, size_t max);
/* BLOCK has arrived (or failed for good): ends its fetch, and moves its waiters to RET_WAITERS.  False: it had no
 * fetch. */
bool kr_puller_arrived(struct kr_puller *puller, uint64_t block, struct kr_list *ret_waiters);
/* A block that was asked has come at NOW_NS (monotonic): the window follows the rate.  RTT_US: the round trip to the
 * upstream, 0: not known.  LEAST: blocks, also if they come slowly. */
void kr_puller_adapt(struct kr_puller *puller, uint64_t now_ns, uint64_t rtt_us, uint64_t least);
/* Whether only read-ahead is left to be asked, and too little of the window is free for a batch of it. */
bool kr_puller_holds_back(const struct kr_puller *puller);
/* Ends all fetches and the read-ahead; all waiters move to RET_WAITERS (NULL: unlinked). */
void kr_puller_reset(struct kr_puller *puller, struct kr_list *ret_waiters);
/* Whether no block is queued, asked or to be read ahead. */
bool kr_puller_idle(const struct kr_puller *puller);

#endif

/* Pulling one file's blocks from its upstream: what to ask next, and what to do when an upstream goes.  Pure.
 *
 * Invariants: a block is asked from one upstream at a time; no more than `window` blocks are asked and unanswered; a
 * block that somebody waits for is queued or asked until it arrives or fails; demanded blocks are asked before
 * read-ahead; read-ahead is a range that is enumerated lazily, so that staging a huge file costs no memory ahead of
 * time.
 *
 * An upstream is any number that the caller gives out, a new one for each connection or renewal, never 0.
 */
#ifndef KR_RING_PULLER_H
#define KR_RING_PULLER_H

#include "ring/fetches.h"

enum { KR_PULL_WINDOW = 128 }; /* blocks = 16 MiB: 10 Gbit/s x 10 ms is 12.5 MiB */

/* Whether BLOCK need not be pulled because it is here. */
typedef bool (*kr_puller_present_fn)(void *context, uint64_t block);

struct kr_puller {
	struct kr_fetches fetches;
	uint64_t upstream; /* 0: none at present, nothing is asked */
	uint64_t window;   /* may be changed at any time */
	uint64_t ahead_next, ahead_end;
	kr_puller_present_fn present;
	void *context;
};

void kr_puller_init(struct kr_puller *puller, uint64_t window, kr_puller_present_fn present, void *context);
void kr_puller_fini(struct kr_puller *puller);

/* BLOCK is demanded; WAITER (may be NULL) is handed out when it arrives or fails; taken out of its list it is
 * forgotten, and the block is fetched nevertheless.  0 or -ENOMEM. */
int kr_puller_want(struct kr_puller *puller, uint64_t block, struct kr_fetch_waiter *waiter);
/* Blocks from FROM up to END are to come when nothing is demanded; replaces the former range. */
void kr_puller_ahead(struct kr_puller *puller, uint64_t from, uint64_t end);

/* From now on ask UPSTREAM (0: nobody until further notice). What was asked from the former one is still awaited from
 * it. */
void kr_puller_set_upstream(struct kr_puller *puller, uint64_t upstream);
/* UPSTREAM will not answer any more (broken, refused, canceled): what was asked from it is queued again.  If it is the
 * current one there is none until kr_puller_set_upstream.  Returns how many blocks were taken back. */
uint64_t kr_puller_lost(struct kr_puller *puller, uint64_t upstream);

/* The pipeline is another one, in which who waits for whom may have turned round: whatever was asked of anybody is
 * queued again, and there is no upstream until kr_puller_set_upstream.  What comes nevertheless is taken. */
void kr_puller_renew(struct kr_puller *puller);

/* Fills BLOCKS with up to MAX (and window permitting) blocks to ask the current upstream now; they count as asked.
 * Returns how many. */
size_t kr_puller_next(struct kr_puller *puller, uint64_t *blocks, size_t max);
/* BLOCK is here (or failed for good): ends its fetch, its waiters move to RET_WAITERS. False: it was not being fetched.
 */
bool kr_puller_arrived(struct kr_puller *puller, uint64_t block, struct kr_list *ret_waiters);
/* Ends all fetches and the read-ahead; all waiters move to RET_WAITERS (NULL: unlinked). */
void kr_puller_reset(struct kr_puller *puller, struct kr_list *ret_waiters);
/* Whether anything is queued, asked or to be read ahead. */
bool kr_puller_idle(const struct kr_puller *puller);

#endif

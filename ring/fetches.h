/* The blocks of one file that are wanted or on their way, with the waiters of each.  Pure data, no locks.
 *
 * A block has at most one fetch for all its waiters: a request for a wanted block joins its fetch.
 * A fetch is QUEUED (demanded ones before read-ahead, each first come first served) or ASKED from one upstream.
 */
#ifndef KR_RING_FETCHES_H
#define KR_RING_FETCHES_H

#include "common/base/list.h"
#include "common/base/table.h"

enum kr_fetch_state { KR_FETCH_QUEUED, KR_FETCH_ASKED };
enum kr_fetch_why { KR_FETCH_AHEAD, KR_FETCH_DEMAND };

/* Lies in the waiter's own struct; linked to one fetch at a time. */
struct kr_fetch_waiter {
	struct kr_link link;
};

struct kr_fetch {
	struct kr_table_link by_block;
	struct kr_link link; /* in one of the queues, or in `asked` */
	struct kr_list waiters;
	uint64_t block;
	uint64_t upstream; /* the upstream that was asked; meaningful while ASKED */
	enum kr_fetch_state state;
	enum kr_fetch_why why;
};

struct kr_fetches {
	struct kr_table table;
	struct kr_list demanded, ahead, asked;
	uint64_t queued_count, asked_count;
};

void kr_fetches_init(struct kr_fetches *fetches);
/* Frees the fetches and unlinks the waiters that are left. */
void kr_fetches_fini(struct kr_fetches *fetches);
struct kr_fetch *kr_fetches_find(const struct kr_fetches *fetches, uint64_t block);
/* The fetch of BLOCK, new (QUEUED) or joined; a demand moves a queued read-ahead forward.  WAITER may be NULL.  NULL:
 * out of memory. */
struct kr_fetch *kr_fetches_want(
	struct kr_fetches *fetches, uint64_t block, enum kr_fetch_why why, struct kr_fetch_waiter *waiter);
/* The next queued fetch, which stays queued; NULL when there is none. */
struct kr_fetch *kr_fetches_first(const struct kr_fetches *fetches);
void kr_fetches_mark_asked(struct kr_fetches *fetches, struct kr_fetch *fetch, uint64_t upstream);
/* Puts FETCH back to the head of its queue. */
void kr_fetches_mark_queued(struct kr_fetches *fetches, struct kr_fetch *fetch);
/* Ends and frees FETCH.  Its waiters move to the end of RET_WAITERS (NULL: they are just unlinked). */
void kr_fetches_finish(struct kr_fetches *fetches, struct kr_fetch *fetch, struct kr_list *ret_waiters);

#endif

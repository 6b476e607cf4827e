/* What to do next about one file's unflushed bytes: the flush scheduler's decisions.  PURE: no clocks, sockets, locks.
 *
 * flush.c tells what happened and asks kr_flush_plan_next after each event, and again with its tick while the answer is
 * LATER.
 */
#ifndef KR_FUSE_FLUSH_PLAN_H
#define KR_FUSE_FLUSH_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum {
	KR_FLUSH_RETRY_MS = 5000, /* after a refusal */
	KR_FLUSH_AGAIN_MS = 200,  /* when the server could not take it now */
};

struct kr_flush_plan {
	bool in_flight;
	bool gone;         /* never try again */
	bool urgent;       /* a program or a command waits: ignore retry_ns and age */
	uint64_t wanted;   /* all writes up to this seq are to be applied */
	int refused;       /* negative errno of the last answer, 0 after a good one */
	bool passing;      /* the last answer was that it should be tried again */
	uint64_t retry_ns; /* not before */
};

enum kr_flush_plan_step {
	KR_FLUSH_NOTHING, /* all is done, or an event will come */
	KR_FLUSH_SEND,    /* send, then kr_flush_plan_sent */
	KR_FLUSH_LATER,   /* ask again when time has passed */
};

struct kr_flush_facts {
	uint64_t now_ns;
	bool dirty;
	uint64_t dirty_since_ns; /* of the oldest dirty write */
	uint64_t age_ns;         /* what is older is flushed unasked */
	uint64_t flushed_seq;
	bool blocked; /* no session, or replays come first */
	bool backlog; /* of a burst that is over: as much as is flushed unasked */
};

/* Writes up to SEQ shall be applied; URGENT: a program or a command waits, so a refused flush goes again at once. */
void kr_flush_plan_want(struct kr_flush_plan *plan, uint64_t seq, bool urgent);
enum kr_flush_plan_step kr_flush_plan_next(const struct kr_flush_plan *plan, const struct kr_flush_facts *facts);
void kr_flush_plan_sent(struct kr_flush_plan *plan);
/* The answer: 0 or negative errno.  Returns whether it is a refusal that programs must be told. */
bool kr_flush_plan_answered(struct kr_flush_plan *plan, int err, uint64_t now_ns);

#endif

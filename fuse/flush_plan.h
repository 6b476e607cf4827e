/* What to do next about one file's unflushed bytes: the flush scheduler's decisions.  PURE: no clocks, sockets, locks.
 *
 * flush.c tells what happened (kr_flush_plan_*) and asks kr_flush_plan_next after each event and at the time it named.
 */
#ifndef KR_FUSE_FLUSH_PLAN_H
#define KR_FUSE_FLUSH_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum {
	KR_FLUSH_RETRY_MS = 5000, /* of a refused flush */
	KR_FLUSH_AGAIN_MS = 100,  /* of one that the server could not take now */
};

enum kr_flush_state {
	KR_FLUSH_IDLE,
	KR_FLUSH_IN_FLIGHT,
};

struct kr_flush_plan {
	enum kr_flush_state state;
	uint64_t wanted;      /* somebody wants all writes up to this seq applied */
	int refused;          /* negative errno of the last answer, 0 after a good one */
	bool gone;            /* never try again */
	bool now;             /* somebody waits: do not wait for the retry time */
	uint64_t retry_ns;    /* of a refused one: not before */
};

enum kr_flush_step {
	KR_FLUSH_NOTHING, /* all is done, or an event will come */
	KR_FLUSH_SEND,    /* take a snapshot and send it: then kr_flush_plan_sent */
	KR_FLUSH_PERMIT,  /* get permission, then ask again */
	KR_FLUSH_LATER,   /* ask again at *ret_when_ns */
};

struct kr_flush_facts {
	uint64_t now_ns;
	uint64_t oldest_ns;   /* since when something is dirty; 0: not known */
	uint64_t age_ns;      /* flush what is older; 0: never by age */
	uint64_t dirty_bytes;
	bool permitted;       /* WRITE held, or a READ recall under way */
	bool session;         /* the session is live */
};

void kr_flush_plan_init(struct kr_flush_plan *plan);
/* Writes up to SEQ shall be applied; NOW: somebody waits for it. */
void kr_flush_plan_want(struct kr_flush_plan *plan, uint64_t seq, bool now);
enum kr_flush_step kr_flush_plan_next(const struct kr_flush_plan *plan, const struct kr_flush_facts *facts, uint64_t *ret_when_ns);
void kr_flush_plan_sent(struct kr_flush_plan *plan);
/* The answer: 0 or negative errno. Returns whether it is a refusal that programs must be told. */
bool kr_flush_plan_answered(struct kr_flush_plan *plan, int err, uint64_t now_ns);
/* What was in flight is neither answered nor refused: a session ended. */
void kr_flush_plan_forgotten(struct kr_flush_plan *plan);
/* Nothing is dirty any more. */
void kr_flush_plan_clean(struct kr_flush_plan *plan);

#endif

/* Decides when a node asks another member beside its upstream (a hedged request), and which of both serves it better.
 * Pure; one per file.
 *
 * The caller ticks four times a second, and reports each block that comes.  A node is slow when it gets less than a
 * third of its best rate, or does not know yet which rate it can get.
 *
 * The node looks at the member before its upstream (`beside`) when the upstream owes blocks and is silent, or when the
 * node has been slow for some ticks.  A trial begins if the upstream is silent, or if `beside` has all blocks that the
 * upstream owes.  (The server has all; the first trial with it waits for KR_HEDGE_FIRST_SERVER slow ticks.)  During the
 * trial the node asks `beside` for what it wants next.
 *
 * The upstream gets its blocks from `beside`.  So `beside` stays ahead only if the upstream, or the link between the
 * two, is slow.  If the server or this node is the slow one, both members send at the same rate.
 *
 * The upstream wins with KR_HEDGE_WON blocks, or with all that it owed, if that is half of what `beside` has sent.  It
 * loses if at two ticks in a row `beside` has sent KR_HEDGE_LOST blocks, and the upstream less than a third of that (a
 * fifth if it was silent).  It also loses if it sends nothing for some ticks while `beside` sends.
 *
 * Each trial that the upstream wins makes later trials rarer: in a trial with the server, the server sends some blocks
 * twice.
 */
#ifndef KR_RING_HEDGE_H
#define KR_RING_HEDGE_H

#include <stdbool.h>
#include <stdint.h>

enum {
	KR_HEDGE_WON = 4,
	KR_HEDGE_LOST = 12,
	KR_HEDGE_WINDOW = 4,       /* blocks that may be asked more during a trial */
	KR_HEDGE_FIRST = 2,        /* slow ticks until the first look at a node ... */
	KR_HEDGE_FIRST_SERVER = 4, /* ... and until the first trial with the server */
	KR_HEDGE_HOLD_MAX = 256,
};

enum kr_hedge_step {
	KR_HEDGE_NONE,
	KR_HEDGE_ASK,   /* ask the server who stands before the upstream, or before the member that is tried */
	KR_HEDGE_KEEP,  /* the trial is over: the upstream stays */
	KR_HEDGE_BLAME, /* the upstream has lost; the trial goes on until there is another (kr_hedge_init) */
};

struct kr_hedge {
	uint32_t ticks, hold;     /* slow ticks, and how many are a reason to look */
	uint32_t quiet, patience; /* ticks of silence, and how many are one */
	bool silent;              /* why */
	bool asking, trying;      /* an answer is awaited; there is a trial */
	uint32_t trial_ticks;     /* since then, or since another member is tried */
	uint32_t owed;            /* by the upstream when the trial began */
	uint32_t here, there;     /* blocks from the upstream and from beside since then */
	bool lost;                /* by the blocks that had come at the last tick */
};

/* There is a new upstream. */
void kr_hedge_init(struct kr_hedge *hedge);
/* A quarter of a second has passed.  OWED: blocks asked of the upstream, and OWED_BESIDE of the member that is tried,
 * and not answered.  SILENT: nothing has come from the upstream since the last tick.  SLOW: the node is. */
enum kr_hedge_step kr_hedge_tick(struct kr_hedge *hedge, uint32_t owed, uint32_t owed_beside, bool silent, bool slow);
/* The server has named the member after KR_HEDGE_ASK; SERVER: it is the server itself.  OWED: by the upstream. */
enum kr_hedge_begin {
	KR_HEDGE_NOT_NOW,
	KR_HEDGE_IF_AHEAD, /* ask that member what it has, then kr_hedge_start or kr_hedge_behind */
	KR_HEDGE_STARTED,  /* the trial has begun, or goes on with that member */
};
enum kr_hedge_begin kr_hedge_begin(struct kr_hedge *hedge, uint32_t owed, bool server);
void kr_hedge_start(struct kr_hedge *hedge, uint32_t owed);
/* That member lacks blocks that the upstream owes. */
void kr_hedge_behind(struct kr_hedge *hedge);
/* A block has come, from the upstream or from BESIDE. */
enum kr_hedge_step kr_hedge_came(struct kr_hedge *hedge, bool beside);
/* There is nobody to ask, or the member that is tried is gone. */
void kr_hedge_keep(struct kr_hedge *hedge);

#endif

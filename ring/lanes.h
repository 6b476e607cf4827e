/* The connections (lanes) to one upstream: how many there are, which is asked next, and whose blocks are asked of
 * others.  Pure; one per upstream.
 *
 * There is one lane until the link is long.  The caller ticks four times a second and tells the round trip.  Lanes are
 * added only when the caller wanted to ask more than it was allowed to at each tick, and
 * - each lane has KR_LANES_BYTES under way: the buffers of a TCP connection hold about twice as much; or
 * - the round trip takes KR_LANES_LONG_US.  Then twice as many lanes are tried.  They stay if a quarter more comes, as
 *   where packets are lost; else the former number comes back, and the next trial has to wait.
 *
 * A lane may owe what it brings in a tenth of a second and two round trips.  Until its first block comes it is asked
 * for KR_LANES_UNPROVEN blocks.  So a lane is given blocks as fast as it brings them, and one that connects nowhere
 * costs nothing.  A sole lane has no such limit: the caller's is enough.
 *
 * A lane is late when it owes blocks, another lane works, and it has brought no byte for two ticks, or takes several
 * times as long as the others.  The caller then asks other lanes for its blocks, once, but accepts what the late lane
 * brings.  It asks a late lane for nothing while another is not late, and closes it after KR_LANES_DEAD ticks without a
 * byte.  If all lanes are silent it opens one more, to find out whether the peer or the connection is to blame.
 */
#ifndef KR_RING_LANES_H
#define KR_RING_LANES_H

#include <stdbool.h>
#include <stdint.h>

enum {
	KR_LANES_MAX = 64,
	KR_LANES_BYTES = 1 << 20,
	KR_LANES_LONG_US = 5000,
	KR_LANES_UNPROVEN = 2, /* blocks */
	KR_LANES_FIRST = 8,    /* blocks, when one has come */
	KR_LANES_CHUNK = 8,    /* blocks asked of one lane at once */
	KR_LANES_DEAD = 8,     /* ticks */
	KR_LANES_IDLE = 20,    /* ticks without need, until surplus lanes are closed */
	KR_LANES_HOLD = 12,    /* ticks until the next trial; twice as many after each that brought nothing */
	KR_LANES_HOLD_MAX = 240,
};

struct kr_lane {
	bool open, proven, late;
	bool leaving;               /* is asked nothing more */
	uint32_t owed, owed_before; /* blocks asked and not answered, now and at the last tick */
	uint32_t owing;             /* ticks since it last owed none */
	uint32_t came;              /* blocks, since the last tick */
	uint32_t window;            /* blocks that it may owe */
	uint32_t still;             /* ticks without a byte while it owed some */
	uint64_t bytes;             /* that have come, as of the last tick */
};

struct kr_lanes {
	struct kr_lane lanes[KR_LANES_MAX];
	uint32_t most;   /* may be open */
	uint32_t count;  /* open */
	uint32_t wanted; /* without those that are silent */
	bool full;       /* since the last tick more would have been asked if it could */
	uint32_t idle;   /* ticks without that */
	/* The trial of more lanes. */
	uint32_t level_ticks, former;       /* with this number of lanes; the former number, 0: no trial */
	uint64_t level_bytes, former_bytes; /* that came with each in the same time */
	uint32_t hold, next_hold;
};

/* What the caller has to do, in this order: a bit for each lane. */
struct kr_lanes_steps {
	uint64_t take_back, close, open;
};

/* MOST: 1 to KR_LANES_MAX; with 1 there is never a second lane. */
void kr_lanes_init(struct kr_lanes *lanes, uint32_t most);
/* The lane that comes first has been opened; kr_lanes_tick opens the others. */
void kr_lanes_opened(struct kr_lanes *lanes, uint32_t lane);
/* The lane is gone, for whatever reason.  The caller queues again the blocks that it owed. */
void kr_lanes_closed(struct kr_lanes *lanes, uint32_t lane);
/* The lane to be asked next, and for how many blocks at most; -1: none has room.  WINDOW: blocks that the file may have
 * asked in all, so that one lane does not get them all. */
int kr_lanes_pick(struct kr_lanes *lanes, uint64_t window, uint32_t *ret_blocks);
void kr_lanes_asked(struct kr_lanes *lanes, uint32_t lane, uint32_t blocks);
/* A block has come. */
void kr_lanes_came(struct kr_lanes *lanes, uint32_t lane);
/* It will not answer these BLOCKS. */
void kr_lanes_refused(struct kr_lanes *lanes, uint32_t lane, uint32_t blocks);
/* A quarter of a second has passed.  BYTES: what each open lane has received so far.  RTT_US: the shortest round trip;
 * 0: not known. */
struct kr_lanes_steps kr_lanes_tick(struct kr_lanes *lanes, const uint64_t bytes[KR_LANES_MAX], uint64_t rtt_us);

#endif

/* See lanes.h. */
#include "ring/lanes.h"

#include <string.h>

#include "common/base/util.h"

enum { TICK_MS = 250, WINDOW_MS = 100, SETTLE = 2, MEASURE = 3, LATE = 2, FEW = 4 };

void kr_lanes_init(struct kr_lanes *lanes, uint32_t most)
{
	memset(lanes, 0, sizeof(*lanes));
	lanes->most = KR_MIN(KR_MAX(most, 1u), (uint32_t)KR_LANES_MAX);
	lanes->wanted = 1;
	lanes->next_hold = KR_LANES_HOLD;
}

void kr_lanes_opened(struct kr_lanes *lanes, uint32_t lane)
{
	lanes->lanes[lane] = (struct kr_lane){.open = true, .window = KR_LANES_UNPROVEN};
	lanes->count++;
}

void kr_lanes_closed(struct kr_lanes *lanes, uint32_t lane)
{
	if (lanes->lanes[lane].open)
		lanes->count--;
	lanes->lanes[lane] = (struct kr_lane){0};
}

void kr_lanes_asked(struct kr_lanes *lanes, uint32_t lane, uint32_t blocks)
{
	lanes->lanes[lane].owed += blocks;
}

void kr_lanes_refused(struct kr_lanes *lanes, uint32_t lane, uint32_t blocks)
{
	lanes->lanes[lane].owed -= KR_MIN(blocks, lanes->lanes[lane].owed);
}

void kr_lanes_came(struct kr_lanes *lanes, uint32_t lane)
{
	struct kr_lane *one = &lanes->lanes[lane];

	kr_lanes_refused(lanes, lane, 1);
	one->came++;
	if (!one->proven)
		one->window = KR_LANES_FIRST;
	one->proven = true;
}

/* --- which one -------------------------------------------------------------------------------- */

/* Whether ONE is a better choice than BEST: not late, then with more room. */
static bool is_better(const struct kr_lane *one, const struct kr_lane *best)
{
	if (!best || one->late != best->late)
		return !best || best->late;
	return (uint64_t)one->owed * best->window < (uint64_t)best->owed * one->window;
}

int kr_lanes_pick(struct kr_lanes *lanes, uint64_t window, uint32_t *ret_blocks)
{
	const struct kr_lane *best = NULL;
	uint64_t share = window / (2 * KR_MAX(lanes->count, 1u));

	for (uint32_t i = 0; i < lanes->most; i++) {
		const struct kr_lane *one = &lanes->lanes[i];

		if (one->open && !one->leaving && is_better(one, best))
			best = one;
	}
	if (!best)
		return -1;
	if (lanes->count == 1) {
		*ret_blocks = UINT32_MAX;
		return (int)(best - lanes->lanes);
	}
	if (best->owed >= best->window)
		return -1;
	*ret_blocks = (uint32_t)KR_MIN(KR_MAX(share, UINT64_C(1)), (uint64_t)KR_LANES_CHUNK);
	*ret_blocks = KR_MIN(*ret_blocks, best->window - best->owed);
	return (int)(best - lanes->lanes);
}

/* --- what each does --------------------------------------------------------------------------- */

/* Blocks that a lane with CAME blocks in a tick may owe. */
static uint32_t window_for(uint32_t came, uint64_t rtt_us)
{
	return (uint32_t)(came * (WINDOW_MS * UINT64_C(1000) + 2 * rtt_us) / (TICK_MS * 1000));
}

static void measure(struct kr_lane *one, uint64_t bytes, uint64_t rtt_us)
{
	one->owing = one->owed == 0 ? 0 : one->owing + 1;
	one->still = one->owed == 0 || bytes != one->bytes ? 0 : one->still + 1;
	one->bytes = bytes;
	if (one->proven) {
		/* Down in steps: a short stall is no slow lane. */
		one->window = KR_MAX(window_for(one->came, rtt_us), one->window * 3 / 4);
		one->window = KR_MAX(one->window, (uint32_t)KR_LANES_UNPROVEN);
	}
}

/* Blocks that ONE has owed for a tick. */
static uint32_t left_over(const struct kr_lane *one)
{
	return one->owed_before - KR_MIN(one->came, one->owed_before);
}

/* Of all open lanes. */
struct sums {
	uint32_t working, idle; /* lanes; the idle ones have worked before */
	uint32_t came, left;    /* blocks */
};

static bool works(const struct kr_lane *one)
{
	return one->open && (one->owed == 0 || (one->proven && one->still == 0));
}

static struct sums add_up(const struct kr_lanes *lanes)
{
	struct sums sums = {0};

	for (uint32_t i = 0; i < lanes->most; i++) {
		const struct kr_lane *one = &lanes->lanes[i];

		sums.idle += one->proven && one->owed == 0;
		sums.working += works(one);
		sums.came += one->came;
		sums.left += left_over(one);
	}
	return sums;
}

/* It needs more than another tick, and several times as long as the others, or one is idle that could do it sooner. */
static bool is_slow(const struct kr_lane *one, const struct sums *sums)
{
	uint32_t left = left_over(one), came = sums->came - one->came;

	return one->proven && left > FEW + one->came &&
		(sums->idle > 0 || (uint64_t)came * left > UINT64_C(3) * (sums->left - left) * KR_MAX(one->came, 1u));
}

/* Which lanes are late; returns those that have become it. */
static uint64_t find_late(struct kr_lanes *lanes, uint64_t rtt_us)
{
	const struct sums sums = add_up(lanes);
	const uint64_t patience = LATE + rtt_us / (TICK_MS * 1000 / 2);
	uint64_t became = 0;

	for (uint32_t i = 0; i < lanes->most; i++) {
		struct kr_lane *one = &lanes->lanes[i];
		bool late = one->open && one->owing >= patience && sums.working > works(one) &&
			(one->still >= patience || is_slow(one, &sums));

		became |= late && !one->late ? UINT64_C(1) << i : 0;
		one->late = late;
	}
	return became;
}

static bool all_are_silent(const struct kr_lanes *lanes)
{
	for (uint32_t i = 0; i < lanes->most; i++) {
		if (lanes->lanes[i].open && lanes->lanes[i].still < LATE)
			return false;
	}
	return lanes->count > 0;
}

/* --- how many --------------------------------------------------------------------------------- */

static void set_level(struct kr_lanes *lanes, uint32_t wanted)
{
	lanes->wanted = KR_MIN(KR_MAX(wanted, 1u), lanes->most);
	lanes->level_ticks = 0;
	lanes->level_bytes = 0;
}

/* The trial is over if there was one, and here is what came of it. */
static void judge(struct kr_lanes *lanes)
{
	uint32_t former = lanes->former;

	lanes->former = 0;
	if (former > 0 && lanes->level_bytes / 5 < lanes->former_bytes / 4) {
		lanes->hold = lanes->next_hold;
		lanes->next_hold = KR_MIN(2 * lanes->next_hold, (uint32_t)KR_LANES_HOLD_MAX);
		set_level(lanes, former);
	} else if (lanes->wanted < lanes->most && lanes->hold == 0) {
		lanes->former = lanes->wanted;
		lanes->former_bytes = lanes->level_bytes;
		set_level(lanes, 2 * lanes->wanted);
	} else {
		lanes->level_ticks = SETTLE;
		lanes->level_bytes = 0;
	}
}

/* BYTES have come in a tick at which more would have been asked. */
static void climb(struct kr_lanes *lanes, uint64_t bytes, uint64_t rtt_us)
{
	uint64_t under_way = bytes * rtt_us / (TICK_MS * 1000);
	uint64_t needed = 1 + under_way / KR_LANES_BYTES;

	lanes->hold -= lanes->hold > 0;
	if (lanes->former == 0 && KR_MIN(needed, (uint64_t)lanes->most) > lanes->wanted) {
		set_level(lanes, (uint32_t)KR_MIN(needed, (uint64_t)lanes->most));
		return;
	}
	if (rtt_us < KR_LANES_LONG_US)
		return;
	lanes->level_bytes += ++lanes->level_ticks > SETTLE ? bytes : 0;
	if (lanes->level_ticks == SETTLE + MEASURE)
		judge(lanes);
}

static void choose_number(struct kr_lanes *lanes, uint64_t bytes, uint64_t rtt_us)
{
	if (lanes->full) {
		lanes->idle = 0;
		climb(lanes, bytes, rtt_us);
	} else if (++lanes->idle >= KR_LANES_IDLE) {
		lanes->former = 0;
		set_level(lanes, 1);
	}
	lanes->full = false;
}

/* Whether ONE counts as one of those that are wanted. */
static bool is_sound(const struct kr_lane *one)
{
	return one->open && !one->leaving && !(one->late && one->still >= LATE);
}

/* Opens missing lanes and closes dead ones.  Surplus lanes get no more requests, and are closed when they owe no block.
 */
static struct kr_lanes_steps adjust(struct kr_lanes *lanes, uint32_t wanted)
{
	struct kr_lanes_steps steps = {0};
	uint32_t sound = 0;

	for (uint32_t i = 0; i < lanes->most; i++)
		sound += is_sound(&lanes->lanes[i]);
	for (uint32_t i = 0; i < lanes->most; i++) {
		struct kr_lane *one = &lanes->lanes[i];

		if (sound < wanted && (!one->open || one->leaving)) {
			steps.open |= one->open ? 0 : UINT64_C(1) << i;
			one->leaving = false;
			sound++;
		}
	}
	for (uint32_t i = lanes->most; i-- > 0;) {
		struct kr_lane *one = &lanes->lanes[i];

		if (sound > wanted && is_sound(one)) {
			one->leaving = true;
			sound--;
		}
		if ((one->leaving && one->owed == 0) || (one->late && one->still >= KR_LANES_DEAD))
			steps.close |= UINT64_C(1) << i;
	}
	return steps;
}

struct kr_lanes_steps kr_lanes_tick(struct kr_lanes *lanes, const uint64_t bytes[KR_LANES_MAX], uint64_t rtt_us)
{
	struct kr_lanes_steps steps;
	uint64_t late, moved = 0;

	for (uint32_t i = 0; i < lanes->most; i++) {
		if (!lanes->lanes[i].open)
			continue;
		moved += bytes[i] - lanes->lanes[i].bytes;
		measure(&lanes->lanes[i], bytes[i], rtt_us);
	}
	late = find_late(lanes, rtt_us);
	for (uint32_t i = 0; i < lanes->most; i++) {
		lanes->lanes[i].owed_before = lanes->lanes[i].owed;
		lanes->lanes[i].came = 0;
	}
	choose_number(lanes, moved, rtt_us);
	steps = adjust(lanes, lanes->wanted + all_are_silent(lanes));
	steps.take_back = late;
	return steps;
}

/* See turn.h. */
#include "server/turn.h"

#include <stddef.h>

static _Thread_local struct kr_turn *taken;

void kr_turn_take(struct kr_turn *turn)
{
	taken = turn;
}

bool kr_turn_is_for(uint64_t before)
{
	return !taken || !taken->expected || taken->expected == before;
}

void kr_turn_begin(uint64_t before)
{
	if (taken)
		taken->begin(taken, before);
}

void kr_turn_end(int err, uint64_t after)
{
	if (taken)
		taken->end(taken, err, after);
}

/* See turn.h. */
#include "server/turn.h"

#include <stddef.h>

static _Thread_local struct kr_turn *taken;
static _Thread_local bool begun;

void kr_turn_take(struct kr_turn *turn)
{
	taken = turn;
	begun = false;
}

bool kr_turn_is_for(uint64_t before)
{
	return !taken || !taken->expected || taken->expected == before;
}

void kr_turn_begin(uint64_t before)
{
	if (!taken)
		return;
	begun = true;
	taken->begin(taken, before);
}

void kr_turn_end(int err, uint64_t after)
{
	if (taken && (begun || !err))
		taken->end(taken, err, after);
	begun = false;
}

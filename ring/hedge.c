/* See hedge.h. */
#include "ring/hedge.h"

#include "common/base/util.h"

enum {
	PATIENCE = 2,      /* with an upstream that is new, or was silent before */
	PATIENCE_LEFT = 8, /* after a trial in which it stayed; doubles until something comes */
	SILENT_BESIDE = 2, /* ticks until the next member is tried */
	WINS = 2,          /* with half of the blocks that `beside` has sent */
	LOSES = 3,         /* with less than a third ... */
	LOSES_SILENT = 5,  /* ... or a fifth, for it may just begin to send again what all have waited for */
	ENOUGH = 4,        /* ticks after which one block against none decides */
	TRIAL_MAX = 12,    /* ticks */
};

void kr_hedge_init(struct kr_hedge *hedge)
{
	*hedge = (struct kr_hedge){.hold = KR_HEDGE_FIRST, .patience = PATIENCE};
}

/* Looks again after FACTOR times as long. */
static void rest(struct kr_hedge *hedge, uint32_t factor)
{
	hedge->hold = KR_MIN(hedge->hold * factor, (uint32_t)KR_HEDGE_HOLD_MAX);
	hedge->asking = hedge->trying = false;
	hedge->ticks = hedge->quiet = 0;
}

void kr_hedge_keep(struct kr_hedge *hedge)
{
	rest(hedge, 4);
	if (hedge->silent)
		hedge->patience = hedge->patience <= PATIENCE ? PATIENCE_LEFT : hedge->patience * 2;
}

void kr_hedge_behind(struct kr_hedge *hedge)
{
	rest(hedge, 2);
}

static enum kr_hedge_step keep(struct kr_hedge *hedge)
{
	kr_hedge_keep(hedge);
	return KR_HEDGE_KEEP;
}

static enum kr_hedge_step ask(struct kr_hedge *hedge, enum kr_hedge_step what)
{
	hedge->asking = true;
	return what;
}

/* Whether the upstream has sent so little of what `beside` has. */
static bool is_behind(const struct kr_hedge *hedge)
{
	return (uint64_t)hedge->here * (hedge->silent ? LOSES_SILENT : LOSES) < hedge->there;
}

static enum kr_hedge_step tick_trial(struct kr_hedge *hedge, uint32_t owed_beside)
{
	hedge->trial_ticks++;
	if (hedge->there == 0 && hedge->trial_ticks >= SILENT_BESIDE)
		return hedge->silent && owed_beside > 0 ? ask(hedge, KR_HEDGE_ASK) : keep(hedge);
	/* Not at once: after a pause of the server, what comes to `beside` takes a moment to come by the upstream. */
	if ((hedge->lost && is_behind(hedge)) || (hedge->here == 0 && hedge->trial_ticks >= ENOUGH))
		return ask(hedge, KR_HEDGE_BLAME);
	hedge->lost = hedge->there >= KR_HEDGE_LOST && is_behind(hedge);
	return hedge->trial_ticks >= TRIAL_MAX ? keep(hedge) : KR_HEDGE_NONE;
}

/* A tick in which all was well. */
static void relax(struct kr_hedge *hedge)
{
	hedge->ticks = 0;
	hedge->hold = KR_MAX(hedge->hold - 1, (uint32_t)KR_HEDGE_FIRST);
}

enum kr_hedge_step kr_hedge_tick(struct kr_hedge *hedge, uint32_t owed, uint32_t owed_beside, bool silent, bool slow)
{
	if (hedge->asking)
		return KR_HEDGE_NONE;
	if (hedge->trying)
		return tick_trial(hedge, owed_beside);
	if (owed == 0)
		return KR_HEDGE_NONE;
	hedge->quiet = silent ? hedge->quiet + 1 : 0;
	if (!silent)
		hedge->patience = hedge->patience > PATIENCE ? PATIENCE : 1;
	if (slow)
		hedge->ticks++;
	else
		relax(hedge);
	hedge->silent = hedge->quiet >= hedge->patience;
	return hedge->silent || hedge->ticks >= hedge->hold ? ask(hedge, KR_HEDGE_ASK) : KR_HEDGE_NONE;
}

enum kr_hedge_begin kr_hedge_begin(struct kr_hedge *hedge, uint32_t owed, bool server)
{
	if (hedge->trying) {
		hedge->asking = false;
		hedge->trial_ticks = 0;
		return KR_HEDGE_STARTED;
	}
	if (owed == 0 || (server && !hedge->silent && hedge->hold < KR_HEDGE_FIRST_SERVER)) {
		hedge->hold = KR_MAX(hedge->hold, (uint32_t)KR_HEDGE_FIRST_SERVER);
		hedge->asking = false;
		return KR_HEDGE_NOT_NOW;
	}
	if (!server && !hedge->silent)
		return KR_HEDGE_IF_AHEAD;
	kr_hedge_start(hedge, owed);
	return KR_HEDGE_STARTED;
}

void kr_hedge_start(struct kr_hedge *hedge, uint32_t owed)
{
	hedge->asking = false;
	hedge->trying = true;
	hedge->lost = false;
	hedge->owed = owed;
	hedge->trial_ticks = hedge->here = hedge->there = 0;
}

static bool has_won(const struct kr_hedge *hedge)
{
	return hedge->here >= KR_MIN(hedge->owed, (uint32_t)KR_HEDGE_WON) &&
		(uint64_t)hedge->here * WINS >= hedge->there;
}

enum kr_hedge_step kr_hedge_came(struct kr_hedge *hedge, bool beside)
{
	if (!hedge->trying || hedge->asking)
		return KR_HEDGE_NONE;
	if (beside) {
		hedge->there++;
		return KR_HEDGE_NONE;
	}
	hedge->here++;
	return has_won(hedge) ? keep(hedge) : KR_HEDGE_NONE;
}

/* See lease_state.h.  kr_lease_state_next is the whole policy; the events only note what happened. */
#include "fuse/file/lease_state.h"

#include <assert.h>

void kr_lease_state_init(struct kr_lease_state *holder)
{
	*holder = (struct kr_lease_state){0};
}

uint8_t kr_lease_state_giving_up(const struct kr_lease_state *holder)
{
	return holder->recalled | holder->leaving;
}

/* The kinds that operations may use. */
static uint8_t usable(const struct kr_lease_state *holder)
{
	return holder->write_unconfirmed ? holder->held & (uint8_t)~KR_LEASE_WRITE : holder->held;
}

/* Whether the node gives WRITE up only after the pages.  After the loss of a session no lease covers the pages, and
 * their dropping may wait for READ. */
static bool keeps_write(const struct kr_lease_state *holder)
{
	return holder->pages_writable && !(holder->suspect && !(holder->held & KR_LEASE_READ));
}

bool kr_lease_state_must_drop(const struct kr_lease_state *holder)
{
	return holder->pages &&
		(kr_lease_state_giving_up(holder) & (keeps_write(holder) ? KR_LEASE_ALL : KR_LEASE_READ));
}

bool kr_lease_state_has(const struct kr_lease_state *holder, uint8_t kinds)
{
	/* Also while only WRITE goes: a program that reads all the time must not keep the pages from being dropped. */
	if ((kinds & KR_LEASE_READ) && (holder->suspect || kr_lease_state_must_drop(holder)))
		return false;
	return (usable(holder) & kinds) == kinds && (kr_lease_state_giving_up(holder) & kinds) == 0;
}

static void count_in(struct kr_lease_state *holder, uint8_t kinds)
{
	if (kinds & KR_LEASE_READ)
		holder->readers++;
	if (kinds & KR_LEASE_WRITE)
		holder->writers++;
}

bool kr_lease_state_enter(struct kr_lease_state *holder, uint8_t kinds)
{
	if (!kr_lease_state_has(holder, kinds))
		return false;
	count_in(holder, kinds);
	return true;
}

bool kr_lease_state_write_through(struct kr_lease_state *holder)
{
	if (!(holder->held & KR_LEASE_READ) || !holder->dropping)
		return false;
	holder->drop_again = true;
	return true;
}

bool kr_lease_state_enter_through(struct kr_lease_state *holder, uint8_t kinds)
{
	if ((holder->held & kinds) != kinds && !holder->suspect)
		return false;
	if (!kr_lease_state_write_through(holder))
		return false;
	count_in(holder, kinds);
	return true;
}

void kr_lease_state_leave(struct kr_lease_state *holder, uint8_t kinds, uint32_t epoch)
{
	if (epoch != holder->epoch)
		return;
	if (kinds & KR_LEASE_READ) {
		assert(holder->readers > 0);
		holder->readers--;
	}
	if (kinds & KR_LEASE_WRITE) {
		assert(holder->writers > 0);
		holder->writers--;
	}
}

bool kr_lease_state_may_flush(const struct kr_lease_state *holder)
{
	return (usable(holder) & KR_LEASE_WRITE) || (holder->held & holder->recalled & KR_LEASE_READ);
}

bool kr_lease_state_confirm_write(struct kr_lease_state *holder)
{
	/* While it is being recalled the server counts it. */
	if (!(holder->held & (uint8_t)~holder->recalled & KR_LEASE_WRITE))
		return false;
	holder->write_unconfirmed = true;
	return true;
}

static void give_away(struct kr_lease_state *holder, uint8_t kinds)
{
	holder->held &= (uint8_t)~kinds;
	if (kinds & KR_LEASE_WRITE)
		holder->write_unconfirmed = false;
}

void kr_lease_state_want(struct kr_lease_state *holder, uint8_t kinds)
{
	holder->want = kinds;
}

void kr_lease_state_granted(struct kr_lease_state *holder, bool valid)
{
	if (valid) {
		holder->held |= holder->asked;
		if (holder->asked & KR_LEASE_WRITE)
			holder->write_unconfirmed = false;
	}
	holder->asked = 0;
}

void kr_lease_state_ask_failed(struct kr_lease_state *holder)
{
	holder->asked = 0;
}

void kr_lease_state_gained(struct kr_lease_state *holder, uint8_t kinds)
{
	holder->held |= kinds & (uint8_t)~holder->returning;
}

void kr_lease_state_recalled(struct kr_lease_state *holder, uint8_t kinds)
{
	holder->recall_open = true;
	holder->recalled |= kinds & holder->held;
	if (kinds & KR_LEASE_WRITE)
		holder->write_unconfirmed = false;
	if ((holder->recalled & KR_LEASE_READ) && holder->dirty)
		holder->flush_before_giving_read = true;
}

void kr_lease_state_release(struct kr_lease_state *holder, uint8_t kinds)
{
	holder->leaving |= kinds & holder->held;
	if ((holder->leaving & KR_LEASE_READ) && holder->dirty)
		holder->flush_before_giving_read = true;
}

void kr_lease_state_returned(struct kr_lease_state *holder)
{
	holder->returning = 0;
}

void kr_lease_state_dirtied(struct kr_lease_state *holder, bool mapped)
{
	holder->dirty = true;
	holder->mapped |= mapped;
	holder->refused = false;
}

void kr_lease_state_flushed(struct kr_lease_state *holder, bool ok, bool clean)
{
	if (holder->flushing)
		holder->flush_before_giving_read = false;
	holder->flushing = false;
	holder->refused = !ok && !clean;
	if (clean)
		kr_lease_state_cleaned(holder);
}

void kr_lease_state_cleaned(struct kr_lease_state *holder)
{
	holder->dirty = holder->mapped = holder->flush_before_giving_read = holder->refused = false;
}

void kr_lease_state_retry(struct kr_lease_state *holder)
{
	holder->refused = false;
}

void kr_lease_state_cached(struct kr_lease_state *holder)
{
	holder->pages = true;
}

void kr_lease_state_stored(struct kr_lease_state *holder)
{
	holder->pages = holder->pages_writable = true;
}

void kr_lease_state_sealed(struct kr_lease_state *holder)
{
	holder->pages_writable = false;
}

void kr_lease_state_linger(struct kr_lease_state *holder, bool lingering)
{
	holder->lingering = lingering;
}

void kr_lease_state_dropped(struct kr_lease_state *holder)
{
	holder->dropping = false;
	if (!holder->drop_again && holder->readers == 0)
		holder->pages = holder->pages_writable = holder->suspect = false;
}

void kr_lease_state_distrust(struct kr_lease_state *holder)
{
	holder->suspect |= holder->pages;
}

uint8_t kr_lease_state_lost(struct kr_lease_state *holder)
{
	uint8_t kinds = holder->held | (holder->dirty ? KR_LEASE_WRITE : 0);

	kinds &= (uint8_t)~holder->returning; /* the RETURN will be sent again */
	holder->epoch++;
	holder->readers = holder->writers = 0;
	holder->held = holder->recalled = holder->leaving = 0;
	holder->recall_open = holder->flush_before_giving_read = holder->write_unconfirmed = false;
	return kinds;
}

void kr_lease_state_reclaimed(struct kr_lease_state *holder, uint8_t kinds, bool same)
{
	holder->held |= kinds;
	if (!same || !(kinds & KR_LEASE_READ) || (holder->pages_writable && !(kinds & KR_LEASE_WRITE)))
		kr_lease_state_distrust(holder);
}

void kr_lease_state_keep(struct kr_lease_state *holder, bool keeps)
{
	holder->keeps_leases = keeps;
}

static bool must_flush(const struct kr_lease_state *holder)
{
	uint8_t giving = kr_lease_state_giving_up(holder);

	if (!holder->dirty || holder->refused || !kr_lease_state_may_flush(holder))
		return false;
	if (keeps_write(holder) && giving) /* later: stores are still in the pages */
		return false;
	if ((giving & KR_LEASE_WRITE) && holder->writers == 0)
		return true;
	return (giving & KR_LEASE_READ) && (holder->mapped || holder->flush_before_giving_read) && !holder->pages &&
		holder->readers == 0;
}

/* Whether the kinds that are being given up can go now: no flush on its way, no operation inside, nothing to drop. */
static bool let_go(const struct kr_lease_state *holder)
{
	uint8_t giving = kr_lease_state_giving_up(holder);

	if (holder->keeps_leases)
		return false;
	if (kr_lease_state_must_drop(holder) || ((giving & KR_LEASE_READ) && (holder->readers || holder->dropping)))
		return false;
	if ((giving & KR_LEASE_WRITE) && holder->writers)
		return false;
	return !holder->flushing && !must_flush(holder);
}

static enum kr_lease_state_action next_giving_up(struct kr_lease_state *holder, uint8_t *ret_kinds)
{
	/* Pages that a mapping left behind need WRITE before READ may go, unless the server takes READ from all nodes.
	 */
	if (holder->leaving && holder->dirty && !holder->refused && !kr_lease_state_may_flush(holder)) {
		holder->leaving = 0;
		return kr_lease_state_next(holder, ret_kinds);
	}
	if (must_flush(holder) && !holder->flushing) {
		holder->flushing = true;
		return KR_LEASE_STATE_FLUSH;
	}
	if (kr_lease_state_must_drop(holder) && holder->readers == 0 && !holder->dropping && !holder->lingering) {
		holder->dropping = true;
		holder->drop_again = false;
		return KR_LEASE_STATE_DROP;
	}
	if (!let_go(holder))
		return KR_LEASE_STATE_NOTHING;
	if ((holder->leaving & (uint8_t)~holder->recalled) && !holder->asked && !holder->returning) {
		*ret_kinds = holder->returning = holder->leaving & (uint8_t)~holder->recalled;
		give_away(holder, holder->returning);
		holder->leaving = 0;
		return KR_LEASE_STATE_RETURN;
	}
	if (!holder->recalled)
		return KR_LEASE_STATE_NOTHING;
	*ret_kinds = holder->recalled;
	give_away(holder, holder->recalled);
	holder->leaving &= (uint8_t)~holder->recalled;
	holder->recalled = 0;
	holder->recall_open = false;
	return KR_LEASE_STATE_ANSWER;
}

enum kr_lease_state_action kr_lease_state_next(struct kr_lease_state *holder, uint8_t *ret_kinds)
{
	uint8_t need = holder->want;

	*ret_kinds = 0;
	if (holder->recall_open && !holder->recalled) {
		holder->recall_open = false;
		return KR_LEASE_STATE_ANSWER;
	}
	if (kr_lease_state_giving_up(holder))
		return next_giving_up(holder, ret_kinds);
	if (holder->suspect && holder->pages && holder->readers == 0 && !holder->dropping) {
		holder->dropping = true;
		holder->drop_again = false;
		return KR_LEASE_STATE_DROP;
	}
	if (holder->dirty && !holder->refused)
		need |= KR_LEASE_WRITE;
	if (holder->asked || holder->returning || (need & (uint8_t)~usable(holder)) == 0)
		return KR_LEASE_STATE_NOTHING;
	*ret_kinds = holder->asked = need;
	return KR_LEASE_STATE_ASK;
}

bool kr_lease_state_idle(const struct kr_lease_state *holder)
{
	return !holder->held && !holder->want && !holder->asked && !holder->returning && !holder->dirty &&
		!holder->flushing && !holder->dropping && !holder->recall_open && holder->readers == 0 &&
		holder->writers == 0;
}

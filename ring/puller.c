/* See puller.h. */
#include "ring/puller.h"

#include <errno.h>
#include <string.h>

#include "common/base/util.h"

void kr_puller_init(struct kr_puller *puller, uint64_t window, kr_puller_present_fn present, void *context)
{
	memset(puller, 0, sizeof(*puller));
	kr_fetches_init(&puller->fetches);
	puller->window = window;
	puller->present = present;
	puller->context = context;
}

void kr_puller_fini(struct kr_puller *puller)
{
	kr_fetches_fini(&puller->fetches);
}

int kr_puller_want(struct kr_puller *puller, uint64_t block, struct kr_fetch_waiter *waiter)
{
	return kr_fetches_want(&puller->fetches, block, KR_FETCH_DEMAND, waiter) ? 0 : -ENOMEM;
}

void kr_puller_ahead(struct kr_puller *puller, uint64_t from, uint64_t end)
{
	puller->ahead_next = from;
	puller->ahead_end = end;
}

void kr_puller_set_upstream(struct kr_puller *puller, uint64_t upstream)
{
	puller->upstream = upstream;
}

/* Queues again the blocks asked from UPSTREAM (0: from any).  Begins with the last, as each goes to the head of its
 * queue. */
static uint64_t take_back(struct kr_puller *puller, uint64_t upstream)
{
	struct kr_fetches *fetches = &puller->fetches;
	struct kr_link *link = fetches->asked.head.prev;
	uint64_t count = 0;

	while (link != &fetches->asked.head) {
		struct kr_fetch *fetch = KR_LIST_ENTRY(link, struct kr_fetch, link);

		link = link->prev;
		if (upstream == 0 || fetch->upstream == upstream) {
			kr_fetches_mark_queued(fetches, fetch);
			count++;
		}
	}
	return count;
}

uint32_t kr_puller_owed(const struct kr_puller *puller, uint64_t upstream)
{
	const struct kr_fetch *fetch;
	uint32_t count = 0;

	KR_LIST_FOR_EACH(fetch, &puller->fetches.asked, link)
		count += fetch->upstream == upstream;
	return count;
}

size_t kr_puller_asked(const struct kr_puller *puller, uint64_t upstream, uint64_t *blocks, size_t max)
{
	const struct kr_fetch *fetch;
	size_t count = 0;

	KR_LIST_FOR_EACH(fetch, &puller->fetches.asked, link) {
		if (fetch->upstream == upstream && count < max)
			blocks[count++] = fetch->block;
	}
	return count;
}

void kr_puller_take_back(struct kr_puller *puller, uint64_t upstream)
{
	if (upstream)
		take_back(puller, upstream);
}

uint64_t kr_puller_lost(struct kr_puller *puller, uint64_t upstream)
{
	if (puller->upstream == upstream)
		puller->upstream = 0;
	return take_back(puller, upstream);
}

void kr_puller_renew(struct kr_puller *puller)
{
	puller->upstream = 0;
	take_back(puller, 0);
}

/* The next block of the read-ahead range that has to be pulled, as a queued fetch; NULL when there is none. */
static struct kr_fetch *take_ahead(struct kr_puller *puller)
{
	while (puller->ahead_next < puller->ahead_end) {
		uint64_t block = puller->ahead_next++;

		if (!kr_fetches_find(&puller->fetches, block) && !puller->present(puller->context, block))
			return kr_fetches_want(&puller->fetches, block, KR_FETCH_AHEAD, NULL);
	}
	return NULL;
}

size_t kr_puller_next(struct kr_puller *puller, uint64_t *blocks, size_t max)
{
	size_t count = 0;

	if (puller->upstream == 0)
		return 0;
	while (count < max && puller->fetches.asked_count < puller->window) {
		struct kr_fetch *fetch = kr_fetches_first(&puller->fetches);

		if (!fetch)
			fetch = take_ahead(puller);
		if (!fetch)
			break;
		kr_fetches_mark_asked(&puller->fetches, fetch, puller->upstream);
		blocks[count++] = fetch->block;
	}
	return count;
}

bool kr_puller_arrived(struct kr_puller *puller, uint64_t block, struct kr_list *ret_waiters)
{
	struct kr_fetch *fetch = kr_fetches_find(&puller->fetches, block);

	if (!fetch)
		return false;
	kr_fetches_finish(&puller->fetches, fetch, ret_waiters);
	return true;
}

/* On a slow link the node asks for few blocks at a time, so that little still comes from a former upstream when a node
 * joins in between.  10 Gbit/s with 10 ms have the whole window within a few round trips. */
void kr_puller_adapt(struct kr_puller *puller, uint64_t now_ns, uint64_t rtt_us, uint64_t least)
{
	uint64_t elapsed_ns = now_ns - puller->rate_since_ns;
	uint64_t window, window_us = KR_PULL_WINDOW_MS * UINT64_C(1000) + 2 * rtt_us;

	puller->rate_blocks++;
	if (elapsed_ns < KR_PULL_RATE_MS * KR_NS_PER_MS)
		return;
	/* After a pause there is no rate to be measured. */
	if (elapsed_ns < KR_NS_PER_S) {
		window = puller->rate_blocks * window_us * 1000 / elapsed_ns;
		/* A short stall is no slow link: down in steps. */
		window = KR_MAX(window, puller->window * 3 / 4);
		puller->window = KR_MIN(KR_MAX(window, least), (uint64_t)KR_PULL_WINDOW);
	}
	puller->rate_since_ns = now_ns;
	puller->rate_blocks = 0;
}

/* Larger batches: fewer requests for the same blocks. */
bool kr_puller_holds_back(const struct kr_puller *puller)
{
	const struct kr_fetches *fetches = &puller->fetches;

	return kr_list_empty(&fetches->demanded) && fetches->asked_count > 0 &&
		fetches->asked_count + puller->window / KR_PULL_BATCH_SHARE > puller->window;
}

static void finish_list(struct kr_puller *puller, struct kr_list *list, struct kr_list *ret_waiters)
{
	while (!kr_list_empty(list))
		kr_fetches_finish(&puller->fetches, KR_LIST_ENTRY(list->head.next, struct kr_fetch, link), ret_waiters);
}

void kr_puller_reset(struct kr_puller *puller, struct kr_list *ret_waiters)
{
	finish_list(puller, &puller->fetches.demanded, ret_waiters);
	finish_list(puller, &puller->fetches.ahead, ret_waiters);
	finish_list(puller, &puller->fetches.asked, ret_waiters);
	puller->ahead_next = puller->ahead_end = 0;
}

bool kr_puller_idle(const struct kr_puller *puller)
{
	return puller->fetches.queued_count == 0 && puller->fetches.asked_count == 0 &&
		puller->ahead_next >= puller->ahead_end;
}

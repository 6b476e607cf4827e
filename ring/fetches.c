/* See fetches.h. */
#include "ring/fetches.h"

#include <stdlib.h>

void kr_fetches_init(struct kr_fetches *fetches)
{
	kr_table_init(&fetches->table);
	kr_list_init(&fetches->demanded);
	kr_list_init(&fetches->ahead);
	kr_list_init(&fetches->asked);
	fetches->queued_count = fetches->asked_count = 0;
}

static void finish_all(struct kr_fetches *fetches, struct kr_list *list)
{
	while (!kr_list_empty(list))
		kr_fetches_finish(fetches, KR_LIST_ENTRY(list->head.next, struct kr_fetch, link), NULL);
}

void kr_fetches_fini(struct kr_fetches *fetches)
{
	finish_all(fetches, &fetches->demanded);
	finish_all(fetches, &fetches->ahead);
	finish_all(fetches, &fetches->asked);
	kr_table_fini(&fetches->table);
}

struct kr_fetch *kr_fetches_find(const struct kr_fetches *fetches, uint64_t block)
{
	return KR_TABLE_FIND(
		struct kr_fetch, fetch, &fetches->table, kr_hash_u64(block), by_block, fetch->block == block);
}

static struct kr_list *queue_of(struct kr_fetches *fetches, const struct kr_fetch *fetch)
{
	return fetch->why == KR_FETCH_DEMAND ? &fetches->demanded : &fetches->ahead;
}

static struct kr_fetch *make(struct kr_fetches *fetches, uint64_t block, enum kr_fetch_why why)
{
	struct kr_fetch *fetch = calloc(1, sizeof(*fetch));

	if (!fetch)
		return NULL;
	fetch->block = block;
	fetch->why = why;
	fetch->state = KR_FETCH_QUEUED;
	kr_list_init(&fetch->waiters);
	kr_table_insert(&fetches->table, &fetch->by_block, kr_hash_u64(block));
	kr_list_append(queue_of(fetches, fetch), &fetch->link);
	fetches->queued_count++;
	return fetch;
}

struct kr_fetch *kr_fetches_want(
	struct kr_fetches *fetches, uint64_t block, enum kr_fetch_why why, struct kr_fetch_waiter *waiter)
{
	struct kr_fetch *fetch = kr_fetches_find(fetches, block);

	if (!fetch) {
		fetch = make(fetches, block, why);
		if (!fetch)
			return NULL;
	} else if (why == KR_FETCH_DEMAND && fetch->why == KR_FETCH_AHEAD) {
		fetch->why = KR_FETCH_DEMAND;
		if (fetch->state == KR_FETCH_QUEUED) {
			kr_list_remove(&fetch->link);
			kr_list_append(&fetches->demanded, &fetch->link);
		}
	}
	if (waiter)
		kr_list_append(&fetch->waiters, &waiter->link);
	return fetch;
}

struct kr_fetch *kr_fetches_first(const struct kr_fetches *fetches)
{
	const struct kr_list *list = kr_list_empty(&fetches->demanded) ? &fetches->ahead : &fetches->demanded;

	return kr_list_empty(list) ? NULL : KR_LIST_ENTRY(list->head.next, struct kr_fetch, link);
}

void kr_fetches_mark_asked(struct kr_fetches *fetches, struct kr_fetch *fetch, uint64_t upstream)
{
	if (fetch->state == KR_FETCH_QUEUED) {
		fetches->queued_count--;
		fetches->asked_count++;
	}
	fetch->state = KR_FETCH_ASKED;
	fetch->upstream = upstream;
	kr_list_remove(&fetch->link);
	kr_list_append(&fetches->asked, &fetch->link);
}

void kr_fetches_mark_queued(struct kr_fetches *fetches, struct kr_fetch *fetch)
{
	if (fetch->state == KR_FETCH_ASKED) {
		fetches->asked_count--;
		fetches->queued_count++;
	}
	fetch->state = KR_FETCH_QUEUED;
	kr_list_remove(&fetch->link);
	kr_list_prepend(queue_of(fetches, fetch), &fetch->link);
}

void kr_fetches_finish(struct kr_fetches *fetches, struct kr_fetch *fetch, struct kr_list *ret_waiters)
{
	struct kr_link *link;

	while ((link = kr_list_pop(&fetch->waiters))) {
		if (ret_waiters)
			kr_list_append(ret_waiters, link);
	}
	if (fetch->state == KR_FETCH_QUEUED)
		fetches->queued_count--;
	else
		fetches->asked_count--;
	kr_list_remove(&fetch->link);
	kr_table_remove(&fetches->table, &fetch->by_block);
	free(fetch);
}

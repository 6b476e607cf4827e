/* See lease_queue.h. */
#include "server/leases/lease_queue.h"

#include <string.h>

#include "common/base/util.h"
#include "server/leases/lease_sums.h"

struct kr_lease_holder *kr_lease_queue_holder(const struct kr_lease_table *table, uint32_t node)
{
	struct kr_lease_holder *holder;

	KR_LIST_FOR_EACH(holder, &table->holders, link) {
		if (holder->node == node)
			return holder;
	}
	return NULL;
}

/* The kinds of HOLDER that stand in the way of KINDS wanted by another. */
static uint8_t in_the_way(const struct kr_lease_holder *holder, uint8_t wanted)
{
	uint8_t kinds = 0;

	if (wanted & KR_LEASE_WRITE)
		kinds |= holder->kinds & (holder->jealous ? KR_LEASE_ALL : KR_LEASE_READ);
	if (wanted & KR_LEASE_READ)
		kinds |= holder->kinds & KR_LEASE_WRITE;
	return kinds;
}

/* What it holds, as others have to look at it: who is jealous keeps them out as who has both kinds does. */
static uint8_t kinds_of(const struct kr_lease_holder *holder)
{
	return holder->jealous && (holder->kinds & KR_LEASE_WRITE) ? KR_LEASE_ALL : holder->kinds;
}

/* Those who hold, and operations under way. */
static struct kr_lease_sums gather_holders(const struct kr_lease_table *table)
{
	const struct kr_lease_holder *holder;
	const struct kr_lease_waiter *operation;
	struct kr_lease_sums sums = {0};

	KR_LIST_FOR_EACH(holder, &table->holders, link)
		kr_lease_sums_add(&sums, holder->node, kinds_of(holder), false);
	KR_LIST_FOR_EACH(operation, &table->operations, link)
		kr_lease_sums_add(&sums, operation->node, operation->kinds, true);
	return sums;
}

/* An operation for a node that is alone with the file goes first, also while that is asked to give it up: what the node
 * has to write back before may wait for the operation (the kernel writes no page back while it sets the file's size).
 */
static bool goes_first(const struct kr_lease_waiter *waiter, const struct kr_lease_holder *holder)
{
	return waiter->operation && holder && holder->kinds == KR_LEASE_ALL;
}

/* Whether WAITER can have what it wants, as far as its own node's HOLDER (NULL: it has nothing), all holders, and those
 * are concerned who asked EARLIER and that it has to wait behind. */
static bool grantable(const struct kr_lease_waiter *waiter, const struct kr_lease_holder *holder,
	const struct kr_lease_sums *holders, const struct kr_lease_sums *earlier)
{
	if (holder && !waiter->operation) {
		if ((waiter->kinds & ~(holder->kinds & ~holder->recalling)) == 0)
			return true;
		if (holder->recalling & waiter->kinds)
			return false;
	}
	return !kr_lease_sums_exclude(holders, waiter) && !kr_lease_sums_exclude(earlier, waiter);
}

/* Holders by node, as far as they have been looked for lately: many who wait are of few nodes. */
struct known_holders {
	struct known {
		uint32_t node; /* 0: none */
		const struct kr_lease_holder *holder;
	} known[64];
};

static const struct kr_lease_holder *look_up(
	struct known_holders *known, const struct kr_lease_table *table, uint32_t node)
{
	struct known *place = &known->known[node % KR_ARRAY_SIZE(known->known)];

	if (node && place->node != node)
		*place = (struct known){node, kr_lease_queue_holder(table, node)};
	return node ? place->holder : NULL;
}

struct kr_lease_waiter *kr_lease_queue_next(const struct kr_lease_table *table)
{
	struct kr_lease_sums holders,
		earlier = {0}, first = {0}; /* those that go first wait behind each other; they are of one node */
	struct known_holders known;
	struct kr_lease_waiter *waiter;

	if (kr_list_empty(&table->waiting))
		return NULL;
	memset(&known, 0, sizeof(known));
	holders = gather_holders(table);
	KR_LIST_FOR_EACH(waiter, &table->waiting, link) {
		const struct kr_lease_holder *holder = look_up(&known, table, waiter->node);
		bool goes = goes_first(waiter, holder);

		if (grantable(waiter, holder, &holders, goes ? &first : &earlier))
			return waiter;
		kr_lease_sums_add(&earlier, waiter->node, waiter->kinds, waiter->operation);
		if (goes)
			kr_lease_sums_add(&first, waiter->node, waiter->kinds, true);
	}
	return NULL;
}

uint8_t kr_lease_queue_free(const struct kr_lease_table *table, uint32_t node, uint8_t kinds)
{
	struct kr_lease_sums holders = gather_holders(table), waiting = {0};
	const struct kr_lease_waiter *waiter;
	uint8_t granted = 0;

	KR_LIST_FOR_EACH(waiter, &table->waiting, link)
		kr_lease_sums_add(&waiting, waiter->node, waiter->kinds, waiter->operation);
	for (unsigned kind = KR_LEASE_READ; kind <= KR_LEASE_WRITE; kind <<= 1) {
		struct kr_lease_waiter probe = {.node = node, .kinds = (uint8_t)kind};

		if ((kinds & kind) && grantable(&probe, kr_lease_queue_holder(table, node), &holders, &waiting))
			granted |= (uint8_t)kind;
	}
	return granted;
}

/* What others than its node need back from HOLDER and have not asked for yet. */
static uint8_t to_recall(const struct kr_lease_holder *holder, const struct kr_lease_sums *wanted)
{
	uint8_t kinds = 0;

	if (wanted->read.any && (wanted->read.several || wanted->read.node != holder->node))
		kinds |= KR_LEASE_READ;
	if (wanted->write.any && (wanted->write.several || wanted->write.node != holder->node))
		kinds |= KR_LEASE_WRITE;
	return in_the_way(holder, kinds) & (uint8_t)~holder->recalling;
}

/* What those want who are not behind another. */
static struct kr_lease_sums gather_first(const struct kr_lease_table *table)
{
	struct kr_lease_sums earlier = {0}, first = {0};
	const struct kr_lease_waiter *waiter;

	KR_LIST_FOR_EACH(waiter, &table->waiting, link) {
		if (!kr_lease_sums_exclude(&earlier, waiter))
			kr_lease_sums_add(&first, waiter->node, waiter->kinds, waiter->operation);
		kr_lease_sums_add(&earlier, waiter->node, waiter->kinds, waiter->operation);
	}
	return first;
}

struct kr_lease_holder *kr_lease_queue_recall(const struct kr_lease_table *table, uint8_t *ret_kinds)
{
	const struct kr_lease_sums wanted = gather_first(table);
	struct kr_lease_holder *holder;

	KR_LIST_FOR_EACH(holder, &table->holders, link) {
		uint8_t kinds = to_recall(holder, &wanted);

		if (!kinds)
			continue;
		*ret_kinds = kinds;
		return holder;
	}
	return NULL;
}

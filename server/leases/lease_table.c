/* The lease state machine of one file: see lease_table.h for its rules.  Who gets something next, and what is asked
 * back, is found in lease_queue.c; here it is carried out.
 */
#include "server/leases/lease_table.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/util.h"
#include "server/leases/lease_queue.h"

static struct kr_lease_holder *find_or_add_holder(struct kr_lease_table *table, uint32_t node)
{
	struct kr_lease_holder *holder = kr_lease_queue_holder(table, node);

	if (!holder) {
		holder = kr_xcalloc(1, sizeof(*holder));
		holder->node = node;
		kr_list_append(&table->holders, &holder->link);
	}
	return holder;
}

static void free_holder(struct kr_lease_holder *holder)
{
	kr_list_remove(&holder->link);
	free(holder);
}

static void free_holder_if_unused(struct kr_lease_holder *holder)
{
	if (holder->kinds == 0 && holder->announcing == 0)
		free_holder(holder);
}

static void hold(struct kr_lease_table *table, uint32_t node, uint8_t kinds)
{
	struct kr_lease_holder *holder = find_or_add_holder(table, node);

	holder->kinds |= kinds;
	holder->announcing++;
}

static void grant(struct kr_lease_table *table, struct kr_lease_waiter *waiter)
{
	kr_list_remove(&waiter->link);
	if (waiter->operation)
		kr_list_append(&table->operations, &waiter->link);
	else
		hold(table, waiter->node, waiter->kinds);
	table->actions->grant(table->context, waiter);
}

static void emit_recall(struct kr_lease_table *table, struct kr_lease_holder *holder, uint8_t kinds)
{
	uint64_t number = ++table->last_recall;

	if (kinds & KR_LEASE_READ)
		holder->recalls[0] = number;
	if (kinds & KR_LEASE_WRITE)
		holder->recalls[1] = number;
	holder->unsent &= (uint8_t)~kinds;
	table->actions->recall(table->context, holder->node, kinds, number);
}

static void ask_back(struct kr_lease_table *table, struct kr_lease_holder *holder, uint8_t kinds)
{
	holder->recalling |= kinds;
	if (holder->announcing)
		holder->unsent |= kinds;
	else
		emit_recall(table, holder, kinds);
}

/* Asks one holder for what the first waiters need; false when all have been asked. */
static bool recall_one(struct kr_lease_table *table)
{
	uint8_t kinds;
	struct kr_lease_holder *holder = kr_lease_queue_recall(table, &kinds);

	if (!holder)
		return false;
	ask_back(table, holder, kinds);
	return true;
}

/* Grants and recalls until nothing more follows from the state. Callbacks may come back in here, so every step starts
 * from the lists anew. */
static void settle(struct kr_lease_table *table)
{
	struct kr_lease_waiter *waiter;

	do {
		while ((waiter = kr_lease_queue_next(table)))
			grant(table, waiter);
	} while (!kr_list_empty(&table->waiting) && recall_one(table));
}

void kr_lease_table_init(struct kr_lease_table *table, const struct kr_lease_actions *actions, void *context)
{
	*table = (struct kr_lease_table){.actions = actions, .context = context};
	kr_list_init(&table->holders);
	kr_list_init(&table->operations);
	kr_list_init(&table->waiting);
	kr_list_init(&table->awaits);
}

void kr_lease_table_fini(struct kr_lease_table *table)
{
	struct kr_link *link;

	assert(kr_list_empty(&table->waiting) && kr_list_empty(&table->operations) && kr_list_empty(&table->awaits));
	while ((link = kr_list_pop(&table->holders)))
		free(KR_LIST_ENTRY(link, struct kr_lease_holder, link));
}

void kr_lease_table_ask(struct kr_lease_table *table, struct kr_lease_waiter *waiter)
{
	assert(waiter->kinds != 0 && (waiter->kinds & ~KR_LEASE_ALL) == 0);
	assert(waiter->operation || waiter->node != 0);
	kr_list_append(&table->waiting, &waiter->link);
	settle(table);
}

uint8_t kr_lease_table_try(struct kr_lease_table *table, uint32_t node, uint8_t kinds)
{
	uint8_t granted = kr_lease_queue_free(table, node, kinds);

	if (granted)
		hold(table, node, granted);
	return granted;
}

uint8_t kr_lease_table_leave(struct kr_lease_table *table, const struct kr_lease_waiter *operation, uint8_t kinds)
{
	const struct kr_lease_holder *holder = kr_lease_queue_holder(table, operation->node);
	uint8_t granted = kinds & (uint8_t) ~(holder ? holder->recalling : 0);

	assert(operation->operation && operation->node && operation->kinds == KR_LEASE_ALL);
	if (granted)
		hold(table, operation->node, granted);
	return granted;
}

void kr_lease_table_withdraw(struct kr_lease_table *table, struct kr_lease_waiter *waiter)
{
	kr_list_remove(&waiter->link);
	settle(table);
}

void kr_lease_table_announced(struct kr_lease_table *table, uint32_t node)
{
	struct kr_lease_holder *holder = kr_lease_queue_holder(table, node);

	if (!holder)
		return; /* expired meanwhile */
	assert(holder->announcing > 0);
	if (--holder->announcing > 0)
		return;
	if (holder->unsent)
		emit_recall(table, holder, holder->unsent);
	else
		free_holder_if_unused(holder);
}

static bool revoke_one(struct kr_lease_table *table, uint8_t kinds)
{
	struct kr_lease_holder *holder;

	KR_LIST_FOR_EACH(holder, &table->holders, link) {
		uint8_t held = holder->kinds & kinds & (uint8_t)~holder->recalling;

		if (!held)
			continue;
		ask_back(table, holder, held);
		return true;
	}
	return false;
}

void kr_lease_table_revoke(struct kr_lease_table *table, uint8_t kinds)
{
	while (revoke_one(table, kinds))
		;
}

void kr_lease_table_refused(struct kr_lease_table *table, uint32_t node, bool refused)
{
	struct kr_lease_holder *holder = kr_lease_queue_holder(table, node);
	bool less = holder && holder->jealous && !refused;

	if (holder)
		holder->jealous = refused;
	if (less)
		settle(table);
}

/* --- bytes that changed under READ ------------------------------------------------------------ */

void kr_lease_table_outdate(struct kr_lease_table *table)
{
	struct kr_lease_holder *holder;

	table->outdates++;
	KR_LIST_FOR_EACH(holder, &table->holders, link) {
		if ((holder->kinds & KR_LEASE_READ) && holder->outdated == 0)
			holder->outdated = table->outdates;
	}
	kr_lease_table_revoke(table, KR_LEASE_READ);
}

static bool has_happened(const struct kr_lease_table *table, const struct kr_lease_await *await)
{
	const struct kr_lease_holder *holder;

	KR_LIST_FOR_EACH(holder, &table->holders, link) {
		if (holder->node != await->node && holder->outdated && holder->outdated <= await->outdates)
			return false;
	}
	return true;
}

bool kr_lease_table_await(struct kr_lease_table *table, uint32_t node, struct kr_lease_await *await)
{
	*await = (struct kr_lease_await){.node = node, .outdates = table->outdates};
	kr_link_init(&await->link);
	if (has_happened(table, await))
		return true;
	kr_list_append(&table->awaits, &await->link);
	return false;
}

static struct kr_lease_await *next_awaited(const struct kr_lease_table *table)
{
	struct kr_lease_await *await;

	KR_LIST_FOR_EACH(await, &table->awaits, link) {
		if (has_happened(table, await))
			return await;
	}
	return NULL;
}

/* READ of somebody is gone. */
static void tell_awaits(struct kr_lease_table *table)
{
	struct kr_lease_await *await;

	while ((await = next_awaited(table))) {
		kr_list_remove(&await->link);
		table->actions->awaited(table->context, await);
	}
}

/* --- giving back ------------------------------------------------------------------------------ */

void kr_lease_table_take_back(struct kr_lease_table *table, uint32_t node, uint8_t kinds)
{
	struct kr_lease_holder *holder = kr_lease_queue_holder(table, node);

	if (holder)
		kinds &= holder->kinds & (uint8_t)~holder->recalling;
	if (holder && kinds)
		ask_back(table, holder, kinds);
}

static void give_up(struct kr_lease_table *table, struct kr_lease_holder *holder, uint8_t kinds)
{
	holder->kinds &= (uint8_t)~kinds;
	holder->recalling &= (uint8_t)~kinds;
	holder->unsent &= (uint8_t)~kinds;
	if (kinds & KR_LEASE_READ)
		holder->outdated = 0;
	free_holder_if_unused(holder);
	settle(table);
	tell_awaits(table);
}

void kr_lease_table_recalled(struct kr_lease_table *table, uint32_t node, uint8_t kinds, uint64_t recall)
{
	struct kr_lease_holder *holder = kr_lease_queue_holder(table, node);

	if (!holder)
		return;
	kinds &= holder->recalling & (uint8_t)~holder->unsent;
	if (holder->recalls[0] != recall)
		kinds &= (uint8_t)~KR_LEASE_READ;
	if (holder->recalls[1] != recall)
		kinds &= (uint8_t)~KR_LEASE_WRITE;
	if (kinds)
		give_up(table, holder, kinds);
}

void kr_lease_table_release(struct kr_lease_table *table, uint32_t node, uint8_t kinds)
{
	struct kr_lease_holder *holder = kr_lease_queue_holder(table, node);

	if (holder)
		give_up(table, holder, kinds);
}

void kr_lease_table_end(struct kr_lease_table *table, struct kr_lease_waiter *operation)
{
	assert(operation->operation);
	kr_list_remove(&operation->link);
	settle(table);
}

void kr_lease_table_expire(struct kr_lease_table *table, uint32_t node)
{
	struct kr_lease_holder *holder = kr_lease_queue_holder(table, node);

	if (!holder)
		return;
	free_holder(holder);
	settle(table);
	tell_awaits(table);
}

void kr_lease_table_inherit(struct kr_lease_table *table, uint32_t node, uint32_t successor)
{
	struct kr_lease_holder *holder = kr_lease_queue_holder(table, node);

	if (!holder)
		return;
	assert(!kr_lease_queue_holder(table, successor));
	holder->node = successor;
	holder->recalling = holder->unsent = holder->outdated ? KR_LEASE_READ : 0;
	holder->announcing = 1;
	settle(table);
}

uint8_t kr_lease_table_held(const struct kr_lease_table *table, uint32_t node)
{
	const struct kr_lease_holder *holder = kr_lease_queue_holder(table, node);

	return holder ? holder->kinds : 0;
}

uint8_t kr_lease_table_recalling(const struct kr_lease_table *table, uint32_t node)
{
	const struct kr_lease_holder *holder = kr_lease_queue_holder(table, node);

	return holder ? holder->recalling : 0;
}

bool kr_lease_table_known(const struct kr_lease_table *table, uint32_t node)
{
	return kr_lease_queue_holder(table, node) != NULL;
}

bool kr_lease_table_others_hold(const struct kr_lease_table *table, uint32_t except, uint8_t kinds)
{
	const struct kr_lease_holder *holder;

	KR_LIST_FOR_EACH(holder, &table->holders, link) {
		if ((except == 0 || holder->node != except) && (holder->kinds & kinds))
			return true;
	}
	return false;
}

/* The lease state machine of one file: see lease_table.h for its rules.
 *
 * Many may hold and many wait (also because somebody means harm): an event takes one walk over the holders and the waiters for each grant
 * or recall that follows, since who excludes whom is told by sums (crowd.h).
 */
#include "server/lease_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/util.h"
#include "server/crowd.h"

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

static struct kr_lease_holder *find_holder(const struct kr_lease_table *table, uint32_t node)
{
	struct kr_lease_holder *holder;

	KR_LIST_FOR_EACH(holder, &table->holders, link) {
		if (holder->node == node)
			return holder;
	}
	return NULL;
}

static struct kr_lease_holder *find_or_add_holder(struct kr_lease_table *table, uint32_t node)
{
	struct kr_lease_holder *holder = find_holder(table, node);

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

/* Those who hold, and operations under way. */
static struct kr_crowds gather_holders(const struct kr_lease_table *table)
{
	const struct kr_lease_holder *holder;
	const struct kr_lease_waiter *operation;
	struct kr_crowds crowds = {0};

	KR_LIST_FOR_EACH(holder, &table->holders, link)
		kr_crowds_add(&crowds, holder->node, kinds_of(holder), false);
	KR_LIST_FOR_EACH(operation, &table->operations, link)
		kr_crowds_add(&crowds, operation->node, operation->kinds, true);
	return crowds;
}

/* An operation for a node that is alone with the file goes first, also while that is asked to give it up: what the node has to write back
 * before may wait for the operation (the kernel writes no page back while it sets the file's size). */
static bool goes_first(const struct kr_lease_waiter *waiter, const struct kr_lease_holder *holder)
{
	return waiter->operation && holder && holder->kinds == KR_LEASE_ALL;
}

/* Whether WAITER can have what it wants, as far as its own node's HOLDER (NULL: it has nothing), all holders, and those are concerned who asked
 * EARLIER and that it has to wait behind. */
static bool grantable(const struct kr_lease_waiter *waiter, const struct kr_lease_holder *holder, const struct kr_crowds *holders,
	const struct kr_crowds *earlier)
{
	if (holder && !waiter->operation) {
		if ((waiter->kinds & ~(holder->kinds & ~holder->recalling)) == 0)
			return true;
		if (holder->recalling & waiter->kinds)
			return false;
	}
	return !kr_crowds_exclude(holders, waiter) && !kr_crowds_exclude(earlier, waiter);
}

/* Holders by node, as far as they have been looked for lately: many who wait are of few nodes. */
struct known_holders {
	struct known {
		uint32_t node; /* 0: none */
		const struct kr_lease_holder *holder;
	} known[64];
};

static const struct kr_lease_holder *look_up(struct known_holders *known, const struct kr_lease_table *table, uint32_t node)
{
	struct known *place = &known->known[node % KR_ARRAY_SIZE(known->known)];

	if (node && place->node != node)
		*place = (struct known){node, find_holder(table, node)};
	return node ? place->holder : NULL;
}

static struct kr_lease_waiter *next_grantable(struct kr_lease_table *table)
{
	struct kr_crowds holders, earlier = {0}, first = {0}; /* those that go first wait behind each other; they are of one node */
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
		kr_crowds_add(&earlier, waiter->node, waiter->kinds, waiter->operation);
		if (goes)
			kr_crowds_add(&first, waiter->node, waiter->kinds, true);
	}
	return NULL;
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

/* What others than its node need back from HOLDER and have not asked for yet. */
static uint8_t to_recall(const struct kr_lease_holder *holder, const struct kr_crowds *wanted)
{
	uint8_t kinds = 0;

	if (wanted->read.any && (wanted->read.several || wanted->read.node != holder->node))
		kinds |= KR_LEASE_READ;
	if (wanted->write.any && (wanted->write.several || wanted->write.node != holder->node))
		kinds |= KR_LEASE_WRITE;
	return in_the_way(holder, kinds) & (uint8_t)~holder->recalling;
}

/* What those want who are not behind another. */
static struct kr_crowds gather_first(const struct kr_lease_table *table)
{
	struct kr_crowds earlier = {0}, first = {0};
	const struct kr_lease_waiter *waiter;

	KR_LIST_FOR_EACH(waiter, &table->waiting, link) {
		if (!kr_crowds_exclude(&earlier, waiter))
			kr_crowds_add(&first, waiter->node, waiter->kinds, waiter->operation);
		kr_crowds_add(&earlier, waiter->node, waiter->kinds, waiter->operation);
	}
	return first;
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
	const struct kr_crowds wanted = gather_first(table);
	struct kr_lease_holder *holder;

	KR_LIST_FOR_EACH(holder, &table->holders, link) {
		uint8_t kinds = to_recall(holder, &wanted);

		if (!kinds)
			continue;
		ask_back(table, holder, kinds);
		return true;
	}
	return false;
}

/* Grants and recalls until nothing more follows from the state. Callbacks may come back in here, so every step starts
 * from the lists anew. */
static void settle(struct kr_lease_table *table)
{
	struct kr_lease_waiter *waiter;

	do {
		while ((waiter = next_grantable(table)))
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
	struct kr_crowds holders = gather_holders(table), waiting = {0};
	const struct kr_lease_waiter *waiter;
	uint8_t granted = 0;

	KR_LIST_FOR_EACH(waiter, &table->waiting, link)
		kr_crowds_add(&waiting, waiter->node, waiter->kinds, waiter->operation);
	for (unsigned kind = KR_LEASE_READ; kind <= KR_LEASE_WRITE; kind <<= 1) {
		struct kr_lease_waiter probe = {.node = node, .kinds = (uint8_t)kind};

		if ((kinds & kind) && grantable(&probe, find_holder(table, node), &holders, &waiting))
			granted |= (uint8_t)kind;
	}
	if (granted)
		hold(table, node, granted);
	return granted;
}

uint8_t kr_lease_table_leave(struct kr_lease_table *table, const struct kr_lease_waiter *operation, uint8_t kinds)
{
	const struct kr_lease_holder *holder = find_holder(table, operation->node);
	uint8_t granted = kinds & (uint8_t)~(holder ? holder->recalling : 0);

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
	struct kr_lease_holder *holder = find_holder(table, node);

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
	struct kr_lease_holder *holder = find_holder(table, node);
	bool less = holder && holder->jealous && !refused;

	if (holder)
		holder->jealous = refused;
	if (less)
		settle(table);
}

/* --- bytes that changed under READ ------------------------------------------------------------------------------------ */

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

/* --- giving back -------------------------------------------------------------------------------------------------------- */

void kr_lease_table_take_back(struct kr_lease_table *table, uint32_t node, uint8_t kinds)
{
	struct kr_lease_holder *holder = find_holder(table, node);

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
	struct kr_lease_holder *holder = find_holder(table, node);

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
	struct kr_lease_holder *holder = find_holder(table, node);

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
	struct kr_lease_holder *holder = find_holder(table, node);

	if (!holder)
		return;
	free_holder(holder);
	settle(table);
	tell_awaits(table);
}

void kr_lease_table_inherit(struct kr_lease_table *table, uint32_t node, uint32_t heir)
{
	struct kr_lease_holder *holder = find_holder(table, node);

	if (!holder)
		return;
	assert(!find_holder(table, heir));
	holder->node = heir;
	holder->recalling = holder->unsent = holder->outdated ? KR_LEASE_READ : 0;
	holder->announcing = 1;
	settle(table);
}

uint8_t kr_lease_table_held(const struct kr_lease_table *table, uint32_t node)
{
	const struct kr_lease_holder *holder = find_holder(table, node);

	return holder ? holder->kinds : 0;
}

uint8_t kr_lease_table_recalling(const struct kr_lease_table *table, uint32_t node)
{
	const struct kr_lease_holder *holder = find_holder(table, node);

	return holder ? holder->recalling : 0;
}

bool kr_lease_table_known(const struct kr_lease_table *table, uint32_t node)
{
	return find_holder(table, node) != NULL;
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

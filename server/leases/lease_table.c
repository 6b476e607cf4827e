/* The lease state machine of one file: lease_table.h has its rules.
 *
 * A file can have many holders and waiters, also when a hostile node makes them.  So each search for the next grant or
 * recall is one walk over both, after another that sums up their kinds.
 */
#include "server/leases/lease_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"

/* The holders of one kind of a file's lease, or the waiters for it, in sum. */
struct sum {
	uint32_t node;                /* a node of them; 0: none, or an operation for no node */
	bool any, several, operation; /* operation: one is an operation for that node */
};
struct sums {
	struct sum read, write;
};

/* The uncommitted holders in sum: the lowest first round, whose it is, and the lowest of all others. */
enum { NO_ROUND = -1 };
struct uncommitted {
	uint32_t node;
	uint64_t first, of_others; /* (uint64_t)NO_ROUND: none */
};

static void add(struct sum *sum, uint32_t node, bool operation)
{
	sum->several |= (sum->any && sum->node != node) || node == 0;
	sum->operation |= operation;
	sum->node = node;
	sum->any = true;
}

static void add_to_sums(struct sums *sums, uint32_t node, uint8_t kinds, bool operation)
{
	if (kinds & KR_LEASE_READ)
		add(&sums->read, node, operation);
	if (kinds & KR_LEASE_WRITE)
		add(&sums->write, node, operation);
}

/* An operation and its own node do not exclude each other; two operations always may. */
static bool excludes(const struct sum *sum, const struct kr_lease_waiter *waiter)
{
	bool same = sum->node == waiter->node && waiter->node != 0 && !(sum->operation && waiter->operation);

	return sum->any && (sum->several || !same);
}

static bool sums_exclude(const struct sums *sums, const struct kr_lease_waiter *waiter)
{
	return ((waiter->kinds & KR_LEASE_READ) && excludes(&sums->write, waiter)) ||
		((waiter->kinds & KR_LEASE_WRITE) && excludes(&sums->read, waiter));
}

static struct kr_lease_holder *find_holder(const struct kr_lease_table *table, uint32_t node)
{
	return KR_LIST_FIND(struct kr_lease_holder, holder, &table->holders, link, holder->node == node);
}

/* The kinds of HOLDER that exclude KINDS for another node. */
static uint8_t in_the_way(const struct kr_lease_holder *holder, uint8_t wanted)
{
	uint8_t kinds = 0;

	if (wanted & KR_LEASE_WRITE)
		kinds |= holder->kinds & (holder->excludes_writers ? KR_LEASE_ALL : KR_LEASE_READ);
	if (wanted & KR_LEASE_READ)
		kinds |= holder->kinds & KR_LEASE_WRITE;
	return kinds;
}

/* The kinds by which HOLDER excludes others.  A holder whose bytes were refused excludes writers, as a holder of both
 * kinds does. */
static uint8_t kinds_of(const struct kr_lease_holder *holder)
{
	return holder->excludes_writers && (holder->kinds & KR_LEASE_WRITE) ? KR_LEASE_ALL : holder->kinds;
}

/* The holders, and the operations under way. */
static struct sums gather_holders(const struct kr_lease_table *table)
{
	const struct kr_lease_holder *holder;
	const struct kr_lease_waiter *operation;
	struct sums sums = {0};

	KR_LIST_FOR_EACH(holder, &table->holders, link)
		add_to_sums(&sums, holder->node, kinds_of(holder), false);
	KR_LIST_FOR_EACH(operation, &table->operations, link)
		add_to_sums(&sums, operation->node, operation->kinds, true);
	return sums;
}

static struct uncommitted gather_uncommitted(const struct kr_lease_table *table)
{
	struct uncommitted sum = {.first = (uint64_t)NO_ROUND, .of_others = (uint64_t)NO_ROUND};
	const struct kr_lease_holder *holder;

	KR_LIST_FOR_EACH(holder, &table->holders, link) {
		if (!holder->uncommitted)
			continue;
		if (holder->first < sum.first) {
			sum.of_others = sum.first;
			sum.first = holder->first;
			sum.node = holder->node;
		} else {
			sum.of_others = KR_MIN(sum.of_others, holder->first);
		}
	}
	return sum;
}

/* Whether WAITER, whose node's holder is HOLDER (NULL: none), waits for bytes to be committed. */
static bool waits_for_commitment(const struct kr_lease_waiter *waiter, const struct kr_lease_holder *holder,
	const struct uncommitted *uncommitted)
{
	uint64_t others =
		waiter->node && waiter->node == uncommitted->node ? uncommitted->of_others : uncommitted->first;

	if (waiter->commitment == KR_COMMITTED_NONE || (!waiter->operation && !(waiter->kinds & KR_LEASE_READ)))
		return false;
	if (others != (uint64_t)NO_ROUND && (waiter->kinds || others <= waiter->mark))
		return true;
	return holder && holder->uncommitted &&
		(waiter->commitment == KR_COMMITTED_ALL || (waiter->kinds & KR_LEASE_READ && holder->among_others));
}

/* An operation for the only holder goes first, also while that holder is asked for its lease.  The holder may be
 * unable to write back before the operation: the kernel writes no page back while it sets the file's size. */
static bool goes_first(const struct kr_lease_waiter *waiter, const struct kr_lease_holder *holder)
{
	return waiter->operation && holder && holder->kinds == KR_LEASE_ALL;
}

/* Whether WAITER can get its kinds.  HOLDER is its own node's (NULL: none), HOLDERS are all, EARLIER the waiters
 * before it. */
static bool grantable(const struct kr_lease_waiter *waiter, const struct kr_lease_holder *holder,
	const struct sums *holders, const struct sums *earlier, const struct uncommitted *uncommitted)
{
	if (holder && !waiter->operation) {
		if ((waiter->kinds & ~(holder->kinds & ~holder->recalling)) == 0)
			return true;
		if (holder->recalling & waiter->kinds)
			return false;
	}
	return !sums_exclude(holders, waiter) && !sums_exclude(earlier, waiter) &&
		!waits_for_commitment(waiter, holder, uncommitted);
}

/* Holders found lately, by node: many waiters belong to few nodes. */
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
		*place = (struct known){node, find_holder(table, node)};
	return node ? place->holder : NULL;
}

static struct kr_lease_waiter *next_grantable(const struct kr_lease_table *table)
{
	struct sums holders, earlier = {0},
			     first = {0}; /* waiters that go first wait behind each other; they are of one node */
	struct uncommitted uncommitted;
	struct known_holders known;
	struct kr_lease_waiter *waiter;

	if (kr_list_empty(&table->waiting))
		return NULL;
	memset(&known, 0, sizeof(known));
	holders = gather_holders(table);
	uncommitted = gather_uncommitted(table);
	KR_LIST_FOR_EACH(waiter, &table->waiting, link) {
		const struct kr_lease_holder *holder = look_up(&known, table, waiter->node);
		bool goes = goes_first(waiter, holder);

		if (grantable(waiter, holder, &holders, goes ? &first : &earlier, &uncommitted))
			return waiter;
		add_to_sums(&earlier, waiter->node, waiter->kinds, waiter->operation);
		if (goes)
			add_to_sums(&first, waiter->node, waiter->kinds, true);
	}
	return NULL;
}

static uint8_t free_kinds(const struct kr_lease_table *table, uint32_t node, uint8_t kinds)
{
	struct sums holders = gather_holders(table), waiting = {0};
	const struct uncommitted uncommitted = gather_uncommitted(table);
	const struct kr_lease_waiter *waiter;
	uint8_t granted = 0;

	KR_LIST_FOR_EACH(waiter, &table->waiting, link)
		add_to_sums(&waiting, waiter->node, waiter->kinds, waiter->operation);
	for (unsigned kind = KR_LEASE_READ; kind <= KR_LEASE_WRITE; kind <<= 1) {
		struct kr_lease_waiter probe = {.node = node, .kinds = (uint8_t)kind};

		if ((kinds & kind) && grantable(&probe, find_holder(table, node), &holders, &waiting, &uncommitted))
			granted |= (uint8_t)kind;
	}
	return granted;
}

/* The kinds of HOLDER that are in the way of WANTED, and that the server has not recalled yet. */
static uint8_t to_recall(const struct kr_lease_holder *holder, const struct sums *wanted)
{
	uint8_t kinds = 0;

	if (wanted->read.any && (wanted->read.several || wanted->read.node != holder->node))
		kinds |= KR_LEASE_READ;
	if (wanted->write.any && (wanted->write.several || wanted->write.node != holder->node))
		kinds |= KR_LEASE_WRITE;
	return in_the_way(holder, kinds) & (uint8_t)~holder->recalling;
}

/* The kinds that those waiters want that wait behind no other. */
static struct sums gather_first(const struct kr_lease_table *table)
{
	struct sums earlier = {0}, first = {0};
	const struct kr_lease_waiter *waiter;

	KR_LIST_FOR_EACH(waiter, &table->waiting, link) {
		if (!sums_exclude(&earlier, waiter))
			add_to_sums(&first, waiter->node, waiter->kinds, waiter->operation);
		add_to_sums(&earlier, waiter->node, waiter->kinds, waiter->operation);
	}
	return first;
}

static struct kr_lease_holder *next_to_recall(const struct kr_lease_table *table, uint8_t *ret_kinds)
{
	const struct sums wanted = gather_first(table);
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
	if (holder->kinds == 0 && holder->announcing == 0 && !holder->uncommitted)
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

/* Recalls what the first waiters need from one holder; false when all are recalled. */
static bool recall_one(struct kr_lease_table *table)
{
	uint8_t kinds;
	struct kr_lease_holder *holder = next_to_recall(table, &kinds);

	if (!holder)
		return false;
	ask_back(table, holder, kinds);
	return true;
}

/* Grants and recalls until the state asks for no more.  Callbacks may come back in here: each step starts from the
 * lists. */
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
	struct kr_lease_holder *holder;

	assert(kr_list_empty(&table->waiting) && kr_list_empty(&table->operations) && kr_list_empty(&table->awaits));
	while ((holder = KR_LIST_POP(&table->holders, struct kr_lease_holder, link)))
		free(holder);
}

void kr_lease_table_ask(struct kr_lease_table *table, struct kr_lease_waiter *waiter)
{
	assert((waiter->kinds & ~KR_LEASE_ALL) == 0);
	assert(waiter->operation || (waiter->node != 0 && waiter->kinds != 0));
	waiter->mark = table->last_round;
	kr_list_append(&table->waiting, &waiter->link);
	settle(table);
}

uint8_t kr_lease_table_try(struct kr_lease_table *table, uint32_t node, uint8_t kinds)
{
	uint8_t granted = free_kinds(table, node, kinds);

	if (granted)
		hold(table, node, granted);
	return granted;
}

uint8_t kr_lease_table_leave(struct kr_lease_table *table, const struct kr_lease_waiter *operation, uint8_t kinds)
{
	const struct kr_lease_holder *holder = find_holder(table, operation->node);
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
	struct kr_lease_holder *holder = find_holder(table, node);

	if (!holder)
		return; /* the lease has expired */
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
	bool less = holder && holder->excludes_writers && !refused;

	if (holder)
		holder->excludes_writers = refused;
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
	return KR_LIST_FIND(struct kr_lease_await, await, &table->awaits, link, has_happened(table, await));
}

/* A node has given READ up. */
static void tell_awaits(struct kr_lease_table *table)
{
	struct kr_lease_await *await;

	while ((await = next_awaited(table))) {
		kr_list_remove(&await->link);
		table->actions->awaited(table->context, await);
	}
}

/* --- commitment ------------------------------------------------------------------------------- */

void kr_lease_table_uncommitted(struct kr_lease_table *table, uint32_t node, uint64_t round)
{
	struct kr_lease_holder *holder = find_or_add_holder(table, node), *other;

	holder->first = holder->uncommitted ? KR_MIN(holder->first, round) : round;
	holder->uncommitted = true;
	table->last_round = KR_MAX(table->last_round, round);
	KR_LIST_FOR_EACH(other, &table->holders, link) {
		if (other != holder && other->uncommitted)
			holder->among_others = other->among_others = true;
	}
}

void kr_lease_table_committed(struct kr_lease_table *table, uint32_t node, uint64_t next)
{
	struct kr_lease_holder *holder = find_holder(table, node);

	if (!holder || !holder->uncommitted)
		return;
	if (next) {
		holder->first = KR_MAX(holder->first, next);
	} else {
		holder->uncommitted = holder->among_others = false;
		free_holder_if_unused(holder);
	}
	settle(table);
}

/* --- giving back ------------------------------------------------------------------------------ */

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
	if (holder->uncommitted)
		kr_lease_table_uncommitted(table, 0, holder->first);
	free_holder(holder);
	settle(table);
	tell_awaits(table);
}

void kr_lease_table_inherit(struct kr_lease_table *table, uint32_t node, uint32_t successor)
{
	struct kr_lease_holder *holder = find_holder(table, node);

	if (!holder)
		return;
	assert(!find_holder(table, successor));
	holder->node = successor;
	if (holder->kinds & KR_LEASE_WRITE) {
		holder->recalling = holder->unsent = holder->outdated ? KR_LEASE_READ : 0;
		holder->announcing = 1;
		settle(table);
	} else {
		holder->announcing = 0;
		give_up(table, holder, KR_LEASE_ALL);
	}
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

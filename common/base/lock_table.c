/* See lock_table.h. */
#include "common/base/lock_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/base/util.h"

void kr_lock_world_init(struct kr_lock_world *world)
{
	*world = (struct kr_lock_world){.searches = 0};
}

void kr_lock_table_init(struct kr_lock_table *table, struct kr_lock_world *world,
	void (*grant)(void *context, struct kr_lock_waiter *waiter), void *context)
{
	*table = (struct kr_lock_table){.world = world, .grant = grant, .context = context};
	kr_list_init(&table->locks);
	kr_list_init(&table->waiting);
}

static void unblock(struct kr_lock_waiter *waiter)
{
	if (waiter->blocker)
		kr_list_remove(&waiter->of_lock);
	waiter->blocker = NULL;
}

static void drop(struct kr_lock_table *table, struct kr_lock *lock)
{
	while (!kr_list_empty(&lock->blocked))
		unblock(KR_LIST_ENTRY(lock->blocked.head.next, struct kr_lock_waiter, of_lock));
	kr_list_remove(&lock->link);
	kr_lock_tree_remove(&table->tree[lock->owner.flock], lock);
	table->count--;
	table->gave_up = true;
	if (table->counted)
		table->counted(table->context, lock, -1);
	free(lock);
}

void kr_lock_table_fini(struct kr_lock_table *table)
{
	assert(kr_list_empty(&table->waiting));
	while (!kr_list_empty(&table->locks))
		drop(table, KR_LIST_ENTRY(table->locks.head.next, struct kr_lock, link));
}

bool kr_lock_owner_equal(const struct kr_lock_owner *a, const struct kr_lock_owner *b)
{
	return a->node == b->node && a->flock == b->flock && a->id == b->id;
}

static bool overlap(const struct kr_lock *lock, uint64_t first, uint64_t last)
{
	return lock->first <= last && first <= lock->last;
}

bool kr_lock_excludes(const struct kr_lock *lock, const struct kr_lock *want)
{
	return want->kind != KR_LOCK_NONE && (lock->kind == KR_LOCK_WRITE || want->kind == KR_LOCK_WRITE) &&
		lock->owner.flock == want->owner.flock && overlap(lock, want->first, want->last) &&
		!kr_lock_owner_equal(&lock->owner, &want->owner);
}

const struct kr_lock *kr_lock_table_conflict(const struct kr_lock_table *table, const struct kr_lock *want)
{
	return want->kind == KR_LOCK_NONE ? NULL : kr_lock_tree_find(table->tree[want->owner.flock], want);
}

const struct kr_lock *kr_lock_table_held(
	const struct kr_lock_table *table, const struct kr_lock_owner *owner, uint64_t first, uint64_t last)
{
	const struct kr_lock *lock, *lowest = NULL;

	KR_LIST_FOR_EACH(lock, &table->locks, link) {
		if (overlap(lock, first, last) && kr_lock_owner_equal(&lock->owner, owner) &&
			(!lowest || lock->first < lowest->first))
			lowest = lock;
	}
	return lowest;
}

static void add(struct kr_lock_table *table, const struct kr_lock *lock)
{
	struct kr_lock *copy = kr_xcalloc(1, sizeof(*copy));

	*copy = *lock;
	copy->link = (struct kr_link){0};
	kr_list_init(&copy->blocked);
	kr_list_append(&table->locks, &copy->link);
	kr_lock_tree_insert(&table->tree[copy->owner.flock], copy);
	table->count++;
	if (table->counted)
		table->counted(table->context, copy, 1);
}

/* A replaced lock goes after all locks in its place have come.  So a counter in another thread never finds its owner
 * without locks in between. */
static void set_aside(struct kr_lock *lock, struct kr_list *replaced)
{
	kr_list_remove(&lock->link);
	kr_list_append(replaced, &lock->link);
}

/* Cuts [FIRST, LAST] out of LOCK, which overlaps it. */
static void carve(
	struct kr_lock_table *table, struct kr_lock *lock, uint64_t first, uint64_t last, struct kr_list *replaced)
{
	struct kr_lock head = *lock, tail = *lock;

	set_aside(lock, replaced);
	if (head.first < first) {
		head.last = first - 1;
		add(table, &head);
	}
	if (tail.last > last) {
		tail.first = last + 1;
		add(table, &tail);
	}
}

static bool adjoins(const struct kr_lock *a, const struct kr_lock *b)
{
	return a->last + 1 == b->first || b->last + 1 == a->first;
}

/* Adds WANT, joined with adjoining locks of the same kind and owner. */
static void merge(struct kr_lock_table *table, const struct kr_lock *want, struct kr_list *replaced)
{
	struct kr_lock merged = *want, *lock, *after;

	KR_LIST_FOR_EACH_SAFE(lock, after, &table->locks, link) {
		if (!adjoins(lock, &merged) || lock->kind != merged.kind ||
			!kr_lock_owner_equal(&lock->owner, &merged.owner))
			continue;
		merged.first = KR_MIN(merged.first, lock->first);
		merged.last = KR_MAX(merged.last, lock->last);
		set_aside(lock, replaced);
	}
	add(table, &merged);
}

void kr_lock_table_note(struct kr_lock_table *table, const struct kr_lock *want)
{
	struct kr_lock *lock, *after;
	struct kr_list replaced;

	kr_list_init(&replaced);
	KR_LIST_FOR_EACH_SAFE(lock, after, &table->locks, link) {
		if (overlap(lock, want->first, want->last) && kr_lock_owner_equal(&lock->owner, &want->owner))
			carve(table, lock, want->first, want->last, &replaced);
	}
	if (want->kind != KR_LOCK_NONE)
		merge(table, want, &replaced);
	while ((lock = KR_LIST_POP(&replaced, struct kr_lock, link)))
		drop(table, lock);
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* Whether no lock excludes WAITER's.  Otherwise remembers one that does. */
static bool is_free(const struct kr_lock_table *table, struct kr_lock_waiter *waiter)
{
	struct kr_lock *lock;

	if (waiter->blocker)
		return false;
	lock = kr_lock_tree_find(table->tree[waiter->want.owner.flock], &waiter->want);
	if (!lock)
		return true;
	waiter->blocker = lock;
	kr_list_append(&lock->blocked, &waiter->of_lock);
	return false;
}

static struct kr_lock_waiter *first_free(const struct kr_lock_table *table)
{
	return KR_LIST_FIND(struct kr_lock_waiter, waiter, &table->waiting, of_table, is_free(table, waiter));
}

/* After a lock was given up: grants every waiter whose lock is free.  A grant may give up a lock too, so each round
 * looks anew. */
static void grant_waiters(struct kr_lock_table *table)
{
	struct kr_lock_waiter *waiter;

	if (!table->gave_up || !table->world || table->world->closed)
		return;
	while ((waiter = first_free(table))) {
		kr_lock_table_withdraw(waiter);
		kr_lock_table_note(table, &waiter->want);
		table->grant(table->context, waiter);
	}
	table->gave_up = false;
}

/* An flock of another kind is unlocked before the new one is asked for. */
static void before_conversion(struct kr_lock_table *table, const struct kr_lock *want)
{
	const struct kr_lock *held =
		want->owner.flock ? kr_lock_table_held(table, &want->owner, want->first, want->last) : NULL;
	struct kr_lock unlock = *want;

	if (!held || held->kind == want->kind)
		return;
	unlock.kind = KR_LOCK_NONE;
	kr_lock_table_note(table, &unlock);
}

int kr_lock_table_set(struct kr_lock_table *table, const struct kr_lock *want)
{
	bool excluded;

	before_conversion(table, want);
	excluded = kr_lock_table_conflict(table, want) != NULL;
	if (!excluded)
		kr_lock_table_note(table, want);
	grant_waiters(table);
	return excluded ? -EAGAIN : 0;
}

struct search {
	const struct kr_lock_owner *goal;
	uint64_t number;
	size_t steps;
	struct kr_list todo; /* struct stop */
};

/* A wait that the search has reached. */
struct stop {
	struct kr_link link;
	const struct kr_lock_waiter *waiter;
};

static uint64_t hash_of(const struct kr_lock_owner *owner)
{
	return kr_hash_u64(owner->id ^ kr_hash_u64(owner->node));
}

/* Queues the waiters whose owner holds LOCK, each once. */
static void follow(struct search *search, const struct kr_lock_world *world, const struct kr_lock *lock)
{
	struct kr_lock_waiter *waiter;
	struct stop *stop;

	KR_TABLE_FOR_EACH_OF(waiter, &world->waiters, hash_of(&lock->owner), by_owner) {
		if (!kr_lock_owner_equal(&waiter->want.owner, &lock->owner))
			continue;
		search->steps++;
		if (waiter->seen == search->number)
			continue;
		waiter->seen = search->number;
		stop = kr_xcalloc(1, sizeof(*stop));
		stop->waiter = waiter;
		kr_list_append(&search->todo, &stop->link);
	}
}

/* Whether the goal itself excludes WANT.  Otherwise queues the owners that do. */
static bool leads_to_goal(struct search *search, const struct kr_lock_table *table, const struct kr_lock *want)
{
	const struct kr_lock *lock;

	KR_LIST_FOR_EACH(lock, &table->locks, link) {
		if (++search->steps > KR_LOCK_STEPS)
			return false;
		if (!kr_lock_excludes(lock, want))
			continue;
		if (kr_lock_owner_equal(&lock->owner, search->goal))
			return true;
		follow(search, table->world, lock);
	}
	return false;
}

/* Whether an owner that excludes WANT waits, directly or over others, for a lock of WANT's owner. */
static bool closes_circle(const struct kr_lock_table *table, const struct kr_lock *want)
{
	struct search search = {.goal = &want->owner, .number = ++table->world->searches};
	struct stop *stop;
	bool found = false;

	if (want->owner.flock)
		return false;
	kr_list_init(&search.todo);
	leads_to_goal(&search, table, want);
	while ((stop = KR_LIST_POP(&search.todo, struct stop, link))) {
		found = found || leads_to_goal(&search, stop->waiter->table, &stop->waiter->want);
		free(stop);
	}
	return found;
}

int kr_lock_table_wait(struct kr_lock_table *table, struct kr_lock_waiter *waiter)
{
	int err = kr_lock_table_set(table, &waiter->want);

	if (err != -EAGAIN)
		return err;
	if (closes_circle(table, &waiter->want))
		return -EDEADLK;
	waiter->table = table;
	waiter->blocker = NULL;
	table->waits++;
	kr_list_append(&table->waiting, &waiter->of_table);
	kr_table_insert(&table->world->waiters, &waiter->by_owner, hash_of(&waiter->want.owner));
	return -EINPROGRESS;
}

void kr_lock_table_withdraw(struct kr_lock_waiter *waiter)
{
	if (!kr_link_linked(&waiter->of_table))
		return;
	unblock(waiter);
	waiter->table->waits--;
	kr_list_remove(&waiter->of_table);
	kr_table_remove(&waiter->table->world->waiters, &waiter->by_owner);
	if (waiter->table->world->waiters.count == 0)
		kr_table_fini(&waiter->table->world->waiters);
}

void kr_lock_table_release_node(struct kr_lock_table *table, uint32_t node)
{
	struct kr_lock *lock, *after;

	KR_LIST_FOR_EACH_SAFE(lock, after, &table->locks, link) {
		if (lock->owner.node == node)
			drop(table, lock);
	}
	grant_waiters(table);
}

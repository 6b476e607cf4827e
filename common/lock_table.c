/* See lock_table.h. */
#include "common/lock_table.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#include "common/util.h"

enum { CIRCLE_MAX = 16 }; /* owners in a circle that is looked for: each could be in the way of several */

void kr_lock_world_init(struct kr_lock_world *world)
{
	kr_list_init(&world->waiters);
	world->closed = false;
}

void kr_lock_table_init(struct kr_lock_table *table, struct kr_lock_world *world,
	void (*grant)(void *context, struct kr_lock_waiter *waiter), void *context)
{
	*table = (struct kr_lock_table){ .world = world, .grant = grant, .context = context };
	kr_list_init(&table->locks);
	kr_list_init(&table->waiting);
}

static void drop(struct kr_lock_table *table, struct kr_lock *lock)
{
	kr_list_remove(&lock->link);
	table->count--;
	if (table->counted)
		table->counted(lock, -1);
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

static bool excludes(const struct kr_lock *lock, const struct kr_lock *want)
{
	return want->kind != KR_LOCK_NONE && (lock->kind == KR_LOCK_WRITE || want->kind == KR_LOCK_WRITE) &&
		lock->owner.flock == want->owner.flock && overlap(lock, want->first, want->last) &&
		!kr_lock_owner_equal(&lock->owner, &want->owner);
}

const struct kr_lock *kr_lock_table_conflict(const struct kr_lock_table *table, const struct kr_lock *want)
{
	const struct kr_lock *lock, *lowest = NULL;

	KR_LIST_FOR_EACH(lock, &table->locks, link) {
		if (excludes(lock, want) && (!lowest || lock->first < lowest->first))
			lowest = lock;
	}
	return lowest;
}

const struct kr_lock *kr_lock_table_held(const struct kr_lock_table *table, const struct kr_lock_owner *owner, uint64_t first,
	uint64_t last)
{
	const struct kr_lock *lock, *lowest = NULL;

	KR_LIST_FOR_EACH(lock, &table->locks, link) {
		if (kr_lock_owner_equal(&lock->owner, owner) && overlap(lock, first, last) && (!lowest || lock->first < lowest->first))
			lowest = lock;
	}
	return lowest;
}

static void add(struct kr_lock_table *table, const struct kr_lock *lock)
{
	struct kr_lock *copy = kr_xcalloc(1, sizeof(*copy));

	*copy = *lock;
	copy->link = (struct kr_link){ 0 };
	kr_list_append(&table->locks, &copy->link);
	table->count++;
	if (table->counted)
		table->counted(copy, 1);
}

/* Cuts [FIRST, LAST] out of LOCK, which overlaps it. */
static void carve(struct kr_lock_table *table, struct kr_lock *lock, uint64_t first, uint64_t last)
{
	struct kr_lock tail = *lock;

	if (lock->first >= first && lock->last <= last) {
		drop(table, lock);
		return;
	}
	if (lock->first < first && lock->last > last) {
		tail.first = last + 1;
		add(table, &tail);
	}
	if (lock->first < first)
		lock->last = first - 1;
	else
		lock->first = last + 1;
}

static bool adjoins(const struct kr_lock *a, const struct kr_lock *b)
{
	return a->last + 1 == b->first || b->last + 1 == a->first;
}

void kr_lock_table_note(struct kr_lock_table *table, const struct kr_lock *want)
{
	struct kr_lock merged = *want, *lock, *after;

	KR_LIST_FOR_EACH_SAFE(lock, after, &table->locks, link) {
		if (kr_lock_owner_equal(&lock->owner, &want->owner) && overlap(lock, want->first, want->last))
			carve(table, lock, want->first, want->last);
	}
	if (want->kind == KR_LOCK_NONE)
		return;
	KR_LIST_FOR_EACH_SAFE(lock, after, &table->locks, link) {
		if (lock->kind != merged.kind || !kr_lock_owner_equal(&lock->owner, &merged.owner) || !adjoins(lock, &merged))
			continue;
		merged.first = KR_MIN(merged.first, lock->first);
		merged.last = KR_MAX(merged.last, lock->last);
		drop(table, lock);
	}
	add(table, &merged);
}

/* --- waiting -------------------------------------------------------------------------------------------------------- */

static struct kr_lock_waiter *first_free(const struct kr_lock_table *table)
{
	struct kr_lock_waiter *waiter;

	KR_LIST_FOR_EACH(waiter, &table->waiting, of_table) {
		if (!kr_lock_table_conflict(table, &waiter->want))
			return waiter;
	}
	return NULL;
}

/* Something was given up: whoever can go on goes on. A grant may give something up too, so each look is a new one. */
static void grant_waiters(struct kr_lock_table *table)
{
	struct kr_lock_waiter *waiter;

	if (!table->world || table->world->closed)
		return;
	while ((waiter = first_free(table))) {
		kr_lock_table_withdraw(waiter);
		kr_lock_table_note(table, &waiter->want);
		table->grant(table->context, waiter);
	}
}

/* An flock of another kind goes before the new one is asked for. */
static void before_conversion(struct kr_lock_table *table, const struct kr_lock *want)
{
	const struct kr_lock *held = kr_lock_table_held(table, &want->owner, want->first, want->last);
	struct kr_lock unlock = *want;

	if (!want->owner.flock || !held || held->kind == want->kind)
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

static bool leads_to(const struct kr_lock_table *table, const struct kr_lock *want, const struct kr_lock_owner *goal, int depth)
{
	const struct kr_lock_waiter *waiter;
	const struct kr_lock *lock;

	KR_LIST_FOR_EACH(lock, &table->locks, link) {
		if (!excludes(lock, want))
			continue;
		if (kr_lock_owner_equal(&lock->owner, goal))
			return true;
		if (depth == 0)
			continue;
		KR_LIST_FOR_EACH(waiter, &table->world->waiters, of_world) {
			if (kr_lock_owner_equal(&waiter->want.owner, &lock->owner) &&
			    leads_to(waiter->table, &waiter->want, goal, depth - 1))
				return true;
		}
	}
	return false;
}

/* Whether an owner in the way of WANT waits itself, over whatever steps, for something of WANT's owner. */
static bool closes_circle(const struct kr_lock_table *table, const struct kr_lock *want)
{
	const struct kr_lock_waiter *waiter;
	const struct kr_lock *lock;

	if (want->owner.flock)
		return false;
	KR_LIST_FOR_EACH(lock, &table->locks, link) {
		if (!excludes(lock, want))
			continue;
		KR_LIST_FOR_EACH(waiter, &table->world->waiters, of_world) {
			if (kr_lock_owner_equal(&waiter->want.owner, &lock->owner) &&
			    leads_to(waiter->table, &waiter->want, &want->owner, CIRCLE_MAX))
				return true;
		}
	}
	return false;
}

int kr_lock_table_wait(struct kr_lock_table *table, struct kr_lock_waiter *waiter)
{
	int err = kr_lock_table_set(table, &waiter->want);

	if (err != -EAGAIN)
		return err;
	if (closes_circle(table, &waiter->want))
		return -EDEADLK;
	waiter->table = table;
	kr_list_append(&table->waiting, &waiter->of_table);
	kr_list_append(&table->world->waiters, &waiter->of_world);
	return -EINPROGRESS;
}

void kr_lock_table_withdraw(struct kr_lock_waiter *waiter)
{
	kr_list_remove(&waiter->of_table);
	kr_list_remove(&waiter->of_world);
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

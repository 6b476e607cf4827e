/* The lock machine: its rules one by one, then random histories against a model that knows single bytes. */
#include "common/base/lock_table.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/util.h"

enum { BYTES = 24, OWNERS = 6, WAITERS = 8 };

static int granted;

static void on_grant(void *context, struct kr_lock_waiter *waiter)
{
	(void)context;
	(void)waiter;
	granted++;
}

static struct kr_lock want(uint32_t node, uint64_t id, uint8_t kind, uint64_t first, uint64_t last)
{
	return (struct kr_lock){.owner = {.node = node, .id = id}, .first = first, .last = last, .kind = kind};
}

static struct kr_lock want_flock(uint64_t id, uint8_t kind)
{
	return (struct kr_lock){.owner = {.node = 1, .flock = true, .id = id}, .last = KR_LOCK_END, .kind = kind};
}

static int set(struct kr_lock_table *table, struct kr_lock lock)
{
	return kr_lock_table_set(table, &lock);
}

static void make(struct kr_lock_table *table, struct kr_lock_world *world)
{
	granted = 0;
	kr_lock_world_init(world);
	kr_lock_table_init(table, world, on_grant, NULL);
}

static void shared_ranges_overlap_and_exclusive_ones_do_not(void **state)
{
	struct kr_lock_world world;
	struct kr_lock_table table;

	(void)state;
	make(&table, &world);
	assert_int_equal(set(&table, want(1, 1, KR_LOCK_READ, 0, 9)), 0);
	assert_int_equal(set(&table, want(2, 1, KR_LOCK_READ, 5, 14)), 0);
	assert_int_equal(set(&table, want(3, 1, KR_LOCK_WRITE, 14, 20)), -EAGAIN);
	assert_int_equal(set(&table, want(3, 1, KR_LOCK_WRITE, 15, KR_LOCK_END)), 0);
	assert_int_equal(set(&table, want(1, 1, KR_LOCK_WRITE, 0, 4)), 0); /* an upgrade of a part */
	assert_int_equal(set(&table, want(1, 1, KR_LOCK_WRITE, 0, 5)), -EAGAIN);
	kr_lock_table_fini(&table);
}

static void ranges_split_and_merge(void **state)
{
	struct kr_lock_world world;
	struct kr_lock_table table;

	(void)state;
	make(&table, &world);
	assert_int_equal(set(&table, want(1, 1, KR_LOCK_WRITE, 0, KR_LOCK_END)), 0);
	assert_int_equal(set(&table, want(1, 1, KR_LOCK_NONE, 10, 19)), 0);
	assert_int_equal(table.count, 2);
	assert_int_equal(set(&table, want(1, 1, KR_LOCK_WRITE, 10, 19)), 0);
	assert_int_equal(table.count, 1);
	assert_int_equal(set(&table, want(1, 1, KR_LOCK_READ, 10, 19)), 0);
	assert_int_equal(table.count, 3);
	kr_lock_table_fini(&table);
}

static int owned, least;

static void note_count(void *context, const struct kr_lock *lock, int change)
{
	(void)context;
	owned += lock->kind == KR_LOCK_WRITE ? change : 0;
	least = KR_MIN(least, owned);
}

/* Others look on, in threads of their own. */
static void who_keeps_a_lock_of_a_kind_is_never_seen_without(void **state)
{
	const struct kr_lock steps[] = {want(1, 1, KR_LOCK_NONE, 10, 19), want(1, 1, KR_LOCK_NONE, 0, 9),
		want(1, 1, KR_LOCK_WRITE, 20, KR_LOCK_END), want(1, 1, KR_LOCK_WRITE, 10, 19),
		want(1, 1, KR_LOCK_READ, 10, 30), want(1, 1, KR_LOCK_WRITE, 0, KR_LOCK_END)};
	struct kr_lock_world world;
	struct kr_lock_table table;

	(void)state;
	make(&table, &world);
	table.counted = note_count;
	owned = 0;
	assert_int_equal(set(&table, want(1, 1, KR_LOCK_WRITE, 0, KR_LOCK_END)), 0);
	least = owned;
	for (size_t i = 0; i < KR_ARRAY_SIZE(steps); i++) {
		assert_int_equal(set(&table, steps[i]), 0);
		assert_true(least > 0);
	}
	assert_int_equal(owned, 1);
	kr_lock_table_fini(&table);
	assert_int_equal(owned, 0);
}

static void flock_and_ranges_are_independent(void **state)
{
	struct kr_lock_world world;
	struct kr_lock_table table;

	(void)state;
	make(&table, &world);
	assert_int_equal(set(&table, want(1, 1, KR_LOCK_WRITE, 0, KR_LOCK_END)), 0);
	assert_int_equal(set(&table, want_flock(2, KR_LOCK_WRITE)), 0);
	assert_int_equal(set(&table, want_flock(3, KR_LOCK_READ)), -EAGAIN);
	kr_lock_table_fini(&table);
}

static void an_flock_that_cannot_be_converted_is_lost(void **state)
{
	struct kr_lock_world world;
	struct kr_lock_table table;
	struct kr_lock_waiter waiter = {.want = want_flock(3, KR_LOCK_WRITE)};

	(void)state;
	make(&table, &world);
	assert_int_equal(set(&table, want_flock(1, KR_LOCK_READ)), 0);
	assert_int_equal(set(&table, want_flock(2, KR_LOCK_READ)), 0);
	assert_int_equal(kr_lock_table_wait(&table, &waiter), -EINPROGRESS);
	assert_int_equal(set(&table, want_flock(1, KR_LOCK_WRITE)), -EAGAIN);
	assert_int_equal(table.count, 1);
	assert_int_equal(set(&table, want_flock(2, KR_LOCK_NONE)), 0);
	assert_int_equal(granted, 1);
	kr_lock_table_fini(&table);
}

static void a_circle_over_two_files_is_refused(void **state)
{
	struct kr_lock_world world;
	struct kr_lock_table a, b;
	struct kr_lock_waiter first = {.want = want(1, 1, KR_LOCK_WRITE, 0, 0)};
	struct kr_lock_waiter second = {.want = want(2, 1, KR_LOCK_WRITE, 0, 0)};

	(void)state;
	make(&a, &world);
	kr_lock_table_init(&b, &world, on_grant, NULL);
	assert_int_equal(set(&a, want(1, 1, KR_LOCK_READ, 0, 0)), 0);
	assert_int_equal(set(&b, want(2, 1, KR_LOCK_WRITE, 0, 0)), 0);
	assert_int_equal(kr_lock_table_wait(&b, &first), -EINPROGRESS);
	assert_int_equal(kr_lock_table_wait(&a, &second), -EDEADLK);
	kr_lock_table_withdraw(&first);
	assert_int_equal(kr_lock_table_wait(&a, &second), -EINPROGRESS);
	kr_lock_table_release_node(&a, 1);
	assert_int_equal(granted, 1);
	kr_lock_table_fini(&a);
	kr_lock_table_fini(&b);
}

static void nobody_is_granted_when_the_world_is_closed(void **state)
{
	struct kr_lock_world world;
	struct kr_lock_table table;
	struct kr_lock_waiter waiter = {.want = want(2, 1, KR_LOCK_WRITE, 0, 0)};

	(void)state;
	make(&table, &world);
	assert_int_equal(set(&table, want(1, 1, KR_LOCK_READ, 0, 0)), 0);
	assert_int_equal(kr_lock_table_wait(&table, &waiter), -EINPROGRESS);
	world.closed = true;
	kr_lock_table_release_node(&table, 1);
	assert_int_equal(granted, 0);
	kr_lock_table_withdraw(&waiter);
	kr_lock_table_fini(&table);
}

/* --- very much of it: without care these take hours ------------------------------------------- */

enum { LEVELS = 17, EACH = 6, BYSTANDERS = 6000 };

/* Everybody of a level waits for everybody of the next one, on a file of its own: there are EACH^LEVELS ways, and no
 * circle.  Others, who wait for something else, are no matter. */
static void many_ways_are_not_walked_one_by_one(void **state)
{
	static struct kr_lock_waiter waiters[LEVELS][EACH];
	static struct kr_lock_waiter bystanders[BYSTANDERS];
	static struct kr_lock_table tables[LEVELS + 1], elsewhere;
	struct kr_lock_waiter last = {.want = want(LEVELS + 1, 0, KR_LOCK_WRITE, 0, 0)};
	struct kr_lock_world world;

	(void)state;
	make(&tables[0], &world);
	kr_lock_table_init(&elsewhere, &world, on_grant, NULL);
	assert_int_equal(set(&elsewhere, want(100, 0, KR_LOCK_WRITE, 0, 0)), 0);
	for (uint64_t id = 0; id < BYSTANDERS; id++) {
		bystanders[id] = (struct kr_lock_waiter){.want = want(101, id, KR_LOCK_WRITE, 0, 0)};
		assert_int_equal(kr_lock_table_wait(&elsewhere, &bystanders[id]), -EINPROGRESS);
	}
	for (uint32_t level = 0; level <= LEVELS; level++) {
		kr_lock_table_init(&tables[level], &world, on_grant, NULL);
		for (uint64_t id = 0; id < EACH; id++)
			assert_int_equal(set(&tables[level], want(level, id, KR_LOCK_READ, 0, 0)), 0);
	}
	for (uint32_t level = LEVELS; level-- > 0;) {
		for (uint64_t id = 0; id < EACH; id++) {
			waiters[level][id] = (struct kr_lock_waiter){.want = want(level, id, KR_LOCK_WRITE, 0, 0)};
			assert_int_equal(kr_lock_table_wait(&tables[level + 1], &waiters[level][id]), -EINPROGRESS);
		}
	}
	assert_int_equal(kr_lock_table_wait(&tables[0], &last), -EINPROGRESS);
	kr_lock_table_withdraw(&last);
	last.want = want(LEVELS, 0, KR_LOCK_WRITE, 0, 0); /* now there is one */
	assert_int_equal(kr_lock_table_wait(&tables[0], &last), -EDEADLK);
	for (uint32_t level = 0; level < LEVELS; level++)
		for (uint64_t id = 0; id < EACH; id++)
			kr_lock_table_withdraw(&waiters[level][id]);
	for (uint64_t id = 0; id < BYSTANDERS; id++)
		kr_lock_table_withdraw(&bystanders[id]);
	for (uint32_t level = 0; level <= LEVELS; level++)
		kr_lock_table_fini(&tables[level]);
	kr_lock_table_fini(&elsewhere);
}

enum { MANY_LOCKS = 16384, MANY_WAITS = 2048, FAR = 1 << 20 };

/* Of two locks there is always one that keeps all waiters out, behind many that do not. */
static void many_waiters_and_many_locks_are_not_compared_one_by_one(void **state)
{
	struct kr_lock_waiter *waiters = kr_xcalloc(MANY_WAITS, sizeof(*waiters));
	struct kr_lock_world world;
	struct kr_lock_table table;

	(void)state;
	make(&table, &world);
	for (uint64_t i = 0; i < MANY_LOCKS; i++)
		assert_int_equal(set(&table, want(1, i, KR_LOCK_READ, i, i)), 0);
	assert_int_equal(set(&table, want(3, 0, KR_LOCK_WRITE, FAR, FAR)), 0);
	for (uint64_t i = 0; i < MANY_WAITS; i++) {
		waiters[i] = (struct kr_lock_waiter){.want = want(2, i, KR_LOCK_READ, 2 * i, FAR + 1)};
		assert_int_equal(kr_lock_table_wait(&table, &waiters[i]), -EINPROGRESS);
	}
	for (uint64_t i = 0; i < 200; i++) {
		uint64_t other = (i + 1) % 2;

		assert_int_equal(set(&table, want(3, other, KR_LOCK_WRITE, FAR + other, FAR + other)), 0);
		assert_int_equal(set(&table, want(3, i % 2, KR_LOCK_NONE, 0, KR_LOCK_END)), 0);
	}
	assert_int_equal(granted, 0);
	assert_int_equal(table.waits, MANY_WAITS);
	kr_lock_table_release_node(&table, 3);
	assert_int_equal(granted, MANY_WAITS);
	assert_int_equal(table.waits, 0);
	kr_lock_table_release_node(&table, 1);
	kr_lock_table_release_node(&table, 2);
	assert_int_equal(table.count, 0);
	kr_lock_table_fini(&table);
	free(waiters);
}

/* --- random histories ------------------------------------------------------------------------- */

/* kind[flock][owner][byte]; owner: node = owner / 2, id = owner % 2. */
struct model {
	uint8_t kind[2][OWNERS][BYTES];
	struct kr_lock_waiter waiters[WAITERS];
	bool waiting[WAITERS];
	uint64_t asked[WAITERS], now;
	int grants;
};

static unsigned owner_of(const struct kr_lock *lock)
{
	return lock->owner.node * 2 + (unsigned)lock->owner.id;
}

static bool model_free(const struct model *model, const struct kr_lock *lock)
{
	if (lock->kind == KR_LOCK_NONE)
		return true;
	for (unsigned o = 0; o < OWNERS; o++)
		for (uint64_t b = lock->first; b <= lock->last && b < BYTES; b++)
			if (o != owner_of(lock) &&
				KR_MAX(model->kind[lock->owner.flock][o][b], lock->kind) == KR_LOCK_WRITE &&
				model->kind[lock->owner.flock][o][b])
				return false;
	return true;
}

static void model_set(struct model *model, const struct kr_lock *lock)
{
	for (uint64_t b = lock->first; b <= lock->last && b < BYTES; b++)
		model->kind[lock->owner.flock][owner_of(lock)][b] = lock->kind;
}

static void model_grant(void *context, struct kr_lock_waiter *waiter)
{
	struct model *model = context;
	size_t i = (size_t)(waiter - model->waiters);

	assert_true(model->waiting[i]);
	assert_true(model_free(model, &waiter->want));
	for (size_t j = 0; j < WAITERS; j++) /* nobody who asked before could have gone on instead */
		assert_false(model->waiting[j] && model->asked[j] < model->asked[i] &&
			model_free(model, &model->waiters[j].want));
	model->waiting[i] = false;
	model->grants++;
	model_set(model, &waiter->want);
}

static struct kr_lock random_lock(void)
{
	uint64_t first = (uint64_t)random() % BYTES, length = 1 + (uint64_t)random() % (BYTES - first);
	struct kr_lock lock = want((uint32_t)random() % (OWNERS / 2), (uint64_t)random() % 2, (uint8_t)(random() % 3),
		first, first + length - 1);

	if (random() % 4 == 0) {
		lock.owner.flock = true;
		lock.first = 0;
		lock.last = BYTES - 1;
	}
	return lock;
}

/* What a walk over all locks finds. */
static const struct kr_lock *lowest_conflict(const struct kr_lock_table *table, const struct kr_lock *want)
{
	const struct kr_lock *lock, *lowest = NULL;

	KR_LIST_FOR_EACH(lock, &table->locks, link) {
		if (kr_lock_excludes(lock, want) && (!lowest || lock->first < lowest->first))
			lowest = lock;
	}
	return lowest;
}

static void check(const struct kr_lock_table *table, const struct model *model)
{
	size_t runs = 0;

	for (int i = 0; i < 4; i++) {
		struct kr_lock want = random_lock();
		const struct kr_lock *walked = lowest_conflict(table, &want),
				     *found = kr_lock_table_conflict(table, &want);

		assert_true(!walked == !found);
		assert_true(!found || (found->first == walked->first && kr_lock_excludes(found, &want)));
	}
	for (int flock = 0; flock < 2; flock++) {
		for (unsigned o = 0; o < OWNERS; o++) {
			struct kr_lock_owner owner = {.node = o / 2, .flock = flock, .id = o % 2};

			for (uint64_t b = 0; b < BYTES; b++) {
				const struct kr_lock *lock = kr_lock_table_held(table, &owner, b, b);
				uint8_t kind = model->kind[flock][o][b];

				assert_int_equal(lock ? lock->kind : KR_LOCK_NONE, kind);
				runs += kind && (b == 0 || model->kind[flock][o][b - 1] != kind);
			}
		}
	}
	assert_int_equal(table->count, runs);
	for (size_t i = 0; i < WAITERS; i++)
		assert_false(model->waiting[i] && model_free(model, &model->waiters[i].want));
}

static void model_convert(struct model *model, const struct kr_lock *lock)
{
	struct kr_lock none = *lock;

	none.kind = KR_LOCK_NONE;
	if (lock->owner.flock && model->kind[1][owner_of(lock)][0] != lock->kind)
		model_set(model, &none);
}

static void random_event(struct kr_lock_table *table, struct model *model)
{
	size_t i = (size_t)random() % WAITERS;
	struct kr_lock lock = random_lock();
	bool free;
	int err;

	if (random() % 40 == 0) {
		for (size_t j = 0; j < WAITERS; j++) {
			if (model->waiting[j] && model->waiters[j].want.owner.node == lock.owner.node) {
				model->waiting[j] = false;
				kr_lock_table_withdraw(&model->waiters[j]);
			}
		}
		for (int f = 0; f < 2; f++)
			memset(model->kind[f][lock.owner.node * 2], 0, sizeof(model->kind[f][0]) * 2);
		kr_lock_table_release_node(table, lock.owner.node);
		return;
	}
	if (model->waiting[i] && random() % 3 == 0) {
		model->waiting[i] = false;
		kr_lock_table_withdraw(&model->waiters[i]);
		return;
	}
	model_convert(model, &lock);
	free = model_free(model, &lock);
	if (free)
		model_set(model, &lock);
	if (model->waiting[i] || random() % 2) {
		assert_int_equal(kr_lock_table_set(table, &lock), free ? 0 : -EAGAIN);
		return;
	}
	model->waiters[i] = (struct kr_lock_waiter){.want = lock};
	err = kr_lock_table_wait(table, &model->waiters[i]);
	assert_true(free ? err == 0 : err == -EINPROGRESS || (err == -EDEADLK && !lock.owner.flock));
	model->waiting[i] = err == -EINPROGRESS;
	model->asked[i] = ++model->now;
}

static void random_histories_agree_with_a_model_of_bytes(void **state)
{
	int grants = 0;

	(void)state;
	for (unsigned seed = 0; seed < 200; seed++) {
		struct kr_lock_world world;
		struct kr_lock_table table;
		struct model *model = kr_xcalloc(1, sizeof(*model));

		srandom(seed);
		kr_lock_world_init(&world);
		kr_lock_table_init(&table, &world, model_grant, model);
		for (int i = 0; i < 1000; i++) {
			random_event(&table, model);
			check(&table, model);
		}
		grants += model->grants;
		for (size_t i = 0; i < WAITERS; i++)
			kr_lock_table_withdraw(&model->waiters[i]);
		kr_lock_table_fini(&table);
		free(model);
	}
	assert_true(grants > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(shared_ranges_overlap_and_exclusive_ones_do_not),
		cmocka_unit_test(ranges_split_and_merge),
		cmocka_unit_test(who_keeps_a_lock_of_a_kind_is_never_seen_without),
		cmocka_unit_test(flock_and_ranges_are_independent),
		cmocka_unit_test(an_flock_that_cannot_be_converted_is_lost),
		cmocka_unit_test(a_circle_over_two_files_is_refused),
		cmocka_unit_test(nobody_is_granted_when_the_world_is_closed),
		cmocka_unit_test(many_ways_are_not_walked_one_by_one),
		cmocka_unit_test(many_waiters_and_many_locks_are_not_compared_one_by_one),
		cmocka_unit_test(random_histories_agree_with_a_model_of_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

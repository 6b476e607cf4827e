/* The hash table against a plain array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/table.h"
#include "common/base/util.h"

enum { ITEMS = 3000 };

struct item {
	struct kr_table_link link;
	uint64_t key;
	bool inside;
	unsigned visits;
};

static struct item items[ITEMS];

static struct item *find(const struct kr_table *table, uint64_t hash, uint64_t key)
{
	struct item *item;

	KR_TABLE_FOR_EACH_OF(item, table, hash, link)
		if (item->key == key)
			return item;
	assert_null(item);
	return NULL;
}

static void check_all(struct kr_table *table, uint64_t (*hash)(uint64_t))
{
	struct item *item;
	size_t count = 0;

	for (size_t i = 0; i < ITEMS; i++)
		items[i].visits = 0;
	KR_TABLE_FOR_EACH(item, table, link)
		item->visits++;
	assert_null(item);
	for (size_t i = 0; i < ITEMS; i++) {
		const struct item *found = find(table, hash(items[i].key), items[i].key);

		assert_ptr_equal(found, items[i].inside ? &items[i] : NULL);
		assert_int_equal(items[i].visits, items[i].inside);
		count += items[i].inside;
	}
	assert_int_equal(table->count, count);
}

static void agrees_with_an_array(uint64_t (*hash)(uint64_t), unsigned steps)
{
	struct kr_table table;
	unsigned seed = 3;

	kr_table_init(&table);
	for (size_t i = 0; i < ITEMS; i++)
		items[i] = (struct item){.key = i * 1000003};
	check_all(&table, hash);
	for (unsigned step = 0; step < steps; step++) {
		struct item *item = &items[(size_t)rand_r(&seed) % ITEMS];

		if (item->inside)
			kr_table_remove(&table, &item->link);
		else
			kr_table_insert(&table, &item->link, hash(item->key));
		item->inside = !item->inside;
		if (step % (steps / 4) == 0)
			check_all(&table, hash);
	}
	check_all(&table, hash);
	kr_table_fini(&table);
	assert_int_equal(table.count, 0);
}

static void random_steps_agree_with_an_array(void **state)
{
	(void)state;
	agrees_with_an_array(kr_hash_u64, 20000);
}

static uint64_t bad_hash(uint64_t key)
{
	return key % 3;
}

static void colliding_hashes_only_cost_time(void **state)
{
	(void)state;
	agrees_with_an_array(bad_hash, 4000);
}

static void a_loop_over_one_hash_sees_each_of_its_elements_once(void **state)
{
	struct kr_table table;
	struct item *item;

	(void)state;
	kr_table_init(&table);
	for (size_t i = 0; i < 100; i++) {
		items[i] = (struct item){.key = i};
		kr_table_insert(&table, &items[i].link, i % 4 * 4096); /* in one bucket */
	}
	KR_TABLE_FOR_EACH_OF(item, &table, 4096, link)
		item->visits++;
	assert_null(item);
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(items[i].visits, i % 4 == 1);
	kr_table_fini(&table);
}

static void a_loop_that_removes_its_element_ends(void **state)
{
	struct kr_table table;
	struct item *item;

	(void)state;
	kr_table_init(&table);
	for (size_t i = 0; i < 100; i++) {
		items[i] = (struct item){.key = i};
		kr_table_insert(&table, &items[i].link, 0);
	}
	KR_TABLE_FOR_EACH_OF(item, &table, 0, link) {
		if (item->key == 50) {
			kr_table_remove(&table, &item->link);
			break;
		}
	}
	assert_ptr_equal(item, &items[50]);
	assert_int_equal(table.count, 99);
	for (size_t i = 0; i < 100; i++)
		assert_ptr_equal(find(&table, 0, i), i == 50 ? NULL : &items[i]);
	kr_table_fini(&table);
}

/* COUNT elements on the heap, their hashes in few buckets. */
static void fill(struct kr_table *table, size_t count)
{
	kr_table_init(table);
	for (size_t i = 0; i < count; i++) {
		struct item *item = kr_xcalloc(1, sizeof(*item));

		item->key = i;
		kr_table_insert(table, &item->link, i % 7);
	}
}

static void a_loop_over_all_may_remove_and_free_its_element(void **state)
{
	struct kr_table table;
	struct item *item;
	size_t visits = 0;

	(void)state;
	fill(&table, 100);
	KR_TABLE_FOR_EACH(item, &table, link) {
		visits++;
		if (item->key % 2) {
			kr_table_remove(&table, &item->link);
			free(item);
		}
	}
	assert_int_equal(visits, 100);
	assert_int_equal(table.count, 50);
	KR_TABLE_FOR_EACH(item, &table, link) {
		assert_int_equal(item->key % 2, 0);
		visits++;
		kr_table_remove(&table, &item->link);
		free(item);
	}
	assert_int_equal(visits, 150);
	assert_int_equal(table.count, 0);
	kr_table_fini(&table);
}

static void a_loop_over_all_may_be_left(void **state)
{
	struct kr_table table;
	struct item *item;
	size_t visits = 0;

	(void)state;
	fill(&table, 100);
	KR_TABLE_FOR_EACH(item, &table, link)
		if (++visits == 30)
			break;
	assert_non_null(item);
	assert_int_equal(visits, 30);
	kr_table_free_all(&table, offsetof(struct item, link));
}

static void loops_over_all_may_stand_in_each_other(void **state)
{
	struct kr_table table;
	struct item *outer, *inner;

	(void)state;
	fill(&table, 20);
	KR_TABLE_FOR_EACH(outer, &table, link)
		KR_TABLE_FOR_EACH(inner, &table, link)
			inner->visits++;
	KR_TABLE_FOR_EACH(outer, &table, link)
		assert_int_equal(outer->visits, 20);
	kr_table_free_all(&table, offsetof(struct item, link));
}

static void a_loop_over_an_empty_table_ends_at_once(void **state)
{
	struct kr_table table;
	struct item *item;

	(void)state;
	kr_table_init(&table);
	KR_TABLE_FOR_EACH(item, &table, link)
		fail();
	assert_null(item);
	kr_table_insert(&table, &items[0].link, 5);
	kr_table_remove(&table, &items[0].link);
	KR_TABLE_FOR_EACH(item, &table, link)
		fail();
	assert_null(item);
	kr_table_fini(&table);
}

static void a_table_that_was_large_gives_its_memory_back(void **state)
{
	enum { MANY = 100000, LEFT = 10 };
	struct item *many = calloc(MANY, sizeof(*many)), *item;
	struct kr_table table;
	size_t large;

	(void)state;
	assert_non_null(many);
	kr_table_init(&table);
	for (size_t i = 0; i < MANY; i++)
		kr_table_insert(&table, &many[i].link, kr_hash_u64(i));
	large = table.bucket_count;
	for (size_t i = LEFT; i < MANY; i++)
		kr_table_remove(&table, &many[i].link);
	for (size_t i = LEFT; i < 2 * LEFT; i++)
		kr_table_insert(&table, &many[i].link, kr_hash_u64(i));
	assert_true(table.bucket_count < large / 16);
	for (size_t i = 0; i < 2 * LEFT; i++)
		assert_ptr_equal(kr_table_first_of(&table, kr_hash_u64(i), offsetof(struct item, link)), &many[i]);
	for (size_t i = 2 * LEFT; i < MANY; i++)
		kr_table_insert(&table, &many[i].link, kr_hash_u64(i));
	KR_TABLE_FOR_EACH(item, &table, link)
		kr_table_remove(&table, &item->link);
	assert_int_equal(table.count, 0);
	assert_null(table.buckets);
	free(many);
}

static void hashes_are_stable(void **state)
{
	(void)state;
	assert_true(kr_hash_u64(1) == UINT64_C(0xb456bcfc34c2cb2c));
	assert_true(kr_hash_bytes("kairan", 6) == kr_hash_bytes("kairan", 6));
	assert_true(kr_hash_bytes("kairan", 6) != kr_hash_bytes("kairaN", 6));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_steps_agree_with_an_array),
		cmocka_unit_test(colliding_hashes_only_cost_time),
		cmocka_unit_test(a_loop_over_one_hash_sees_each_of_its_elements_once),
		cmocka_unit_test(a_loop_that_removes_its_element_ends),
		cmocka_unit_test(a_loop_over_all_may_remove_and_free_its_element),
		cmocka_unit_test(a_loop_over_all_may_be_left),
		cmocka_unit_test(loops_over_all_may_stand_in_each_other),
		cmocka_unit_test(a_loop_over_an_empty_table_ends_at_once),
		cmocka_unit_test(a_table_that_was_large_gives_its_memory_back),
		cmocka_unit_test(hashes_are_stable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

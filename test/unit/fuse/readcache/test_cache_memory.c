/* Small files that were just written or read stay in memory, within a bound, and make no file. */
#include <errno.h>

#include "test/unit/fuse/readcache/cache_fixture.h"

enum { SMALL = 4096 };

static struct kr_cache_counters counters_of(struct kr_cache *cache)
{
	struct kr_cache_counters counters;

	kr_cache_counters(cache, &counters);
	return counters;
}

static void a_just_written_file_is_read_back_without_a_file_on_disk(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *entry = open_entry(cache, 1, 5, SMALL);
	char byte;

	assert_int_equal(put_memory(entry, SMALL, 1), 0);
	kr_cache_entry_put(entry);
	entry = open_entry(cache, 1, 5, SMALL);
	expect(entry, 0, SMALL, 1);
	assert_int_equal(kr_cache_read(entry, 0, SMALL - 1, &byte, 2), -ENODATA);
	assert_int_equal(put(entry, 0, SMALL, 1), 0);
	assert_int_equal(counters_of(cache).files, 0);
	assert_int_equal(open_file(*state, 1, 5), -1);
	kr_cache_entry_put(entry);
	entry = open_entry(cache, 1, 6, SMALL);
	assert_false(kr_cache_has(entry, 0));
	kr_cache_entry_put(entry);
	kr_cache_free(cache);
}

static void a_part_of_a_file_or_a_large_one_is_refused(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *entry = open_entry(cache, 1, 5, SMALL),
			      *large = open_entry(cache, 2, 5, KR_CACHE_MEMORY_FILE + 1);

	assert_int_equal(put_memory(entry, SMALL - 1, 1), -EINVAL);
	assert_int_equal(put_memory(large, KR_CACHE_MEMORY_FILE + 1, 1), -EINVAL);
	assert_int_equal(put(entry, 0, SMALL, 2), 0);
	assert_int_equal(put_memory(entry, SMALL, 1), -EBUSY); /* it has a file */
	expect(entry, 0, SMALL, 2);
	kr_cache_entry_put(entry);
	kr_cache_entry_put(large);
	kr_cache_free(cache);
}

static void memory_is_bounded_and_the_least_recently_used_go_first(void **state)
{
	enum { FILES = 20000 };
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_fid first = fid_of(1), last = fid_of(FILES), kept = fid_of(2);
	uint8_t byte;

	for (uint32_t i = 1; i <= FILES; i++) {
		struct kr_cache_entry *entry = open_entry(cache, i, 5, SMALL), *used;

		assert_int_equal(put_memory(entry, SMALL, i), 0);
		kr_cache_entry_put(entry);
		assert_true(counters_of(cache).memory_bytes <= KR_CACHE_MEMORY);
		used = open_entry(cache, 2, 5, SMALL);
		if (i >= 2)
			assert_int_equal(kr_cache_read(used, 0, 0, &byte, 1), 0);
		kr_cache_entry_put(used);
	}
	assert_true(counters_of(cache).memory_bytes > KR_CACHE_MEMORY / 2);
	assert_false(kr_cache_may_have(cache, &first, 5, 0));
	assert_true(kr_cache_may_have(cache, &kept, 5, 0));
	assert_true(kr_cache_may_have(cache, &last, 5, 0));
	kr_cache_free(cache);
}

static void what_memory_had_no_room_for_gets_a_file_when_it_comes_again(void **state)
{
	enum { FILES = 5000 };
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *entry;

	for (uint32_t i = 1; i <= FILES; i++) {
		entry = open_entry(cache, i, 5, SMALL);
		assert_int_equal(put_memory(entry, SMALL, i), 0);
		kr_cache_entry_put(entry);
	}
	entry = open_entry(cache, 1, 5, SMALL);
	assert_false(kr_cache_has(entry, 0));
	assert_int_equal(put_memory(entry, SMALL, 1), -EBUSY);
	assert_int_equal(put(entry, 0, SMALL, 1), 0);
	expect(entry, 0, SMALL, 1);
	kr_cache_entry_put(entry);
	assert_int_equal(counters_of(cache).files, 1);
	entry = open_entry(cache, 1, 6, SMALL); /* another version comes for the first time */
	assert_int_equal(put_memory(entry, SMALL, 1), 0);
	kr_cache_entry_put(entry);
	kr_cache_free(cache);
}

static void what_no_reader_will_ask_for_frees_its_memory_at_once(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *entry = open_entry(cache, 1, 5, SMALL);
	struct kr_fid fid = fid_of(2);

	assert_int_equal(put_memory(entry, SMALL, 1), 0);
	kr_cache_entry_abandon(entry);
	kr_cache_entry_put(entry);
	assert_int_equal(counters_of(cache).memory_bytes, 0);
	entry = open_entry(cache, 2, 5, SMALL);
	assert_int_equal(put_memory(entry, SMALL, 1), 0);
	kr_cache_entry_put(entry);
	kr_cache_abandon(cache, &fid, 5);
	assert_int_equal(counters_of(cache).memory_bytes, 0);
	entry = open_entry(cache, 3, 0, SMALL); /* without a version */
	assert_int_equal(put_memory(entry, SMALL, 1), 0);
	kr_cache_entry_put(entry);
	assert_int_equal(counters_of(cache).memory_bytes, 0);
	kr_cache_free(cache);
}

static void a_file_that_grows_finds_its_former_bytes(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *entry = open_entry(cache, 1, 5, SMALL);
	struct kr_cache_replaced replaced = {.block = 0};
	uint8_t former[SMALL], want[SMALL];

	assert_int_equal(put_memory(entry, SMALL, 1), 0);
	kr_cache_rekey(entry, 6, BLOCK, &replaced, 1);
	assert_false(kr_cache_has(entry, 0));
	assert_int_equal(put_memory(entry, SMALL, 1), -EBUSY);
	kr_cache_rekey_disk(entry);
	assert_int_equal(replaced.length, SMALL);
	assert_int_equal(kr_cache_read_replaced(entry, &replaced, former), 0);
	fill(want, SMALL, 1);
	assert_memory_equal(former, want, SMALL);
	assert_int_equal(counters_of(cache).memory_bytes, 0);
	assert_int_equal(put(entry, 0, BLOCK, 2), 0); /* a large one is a file */
	expect(entry, 0, BLOCK, 2);
	assert_int_equal(counters_of(cache).files, 1);
	kr_cache_entry_put(entry);
	kr_cache_free(cache);
}

static void another_version_of_the_same_bytes_keeps_them(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *entry = open_entry(cache, 1, 5, SMALL);

	assert_int_equal(put_memory(entry, SMALL, 1), 0);
	kr_cache_rekey(entry, 6, SMALL, NULL, 0);
	kr_cache_rekey_disk(entry);
	expect(entry, 0, SMALL, 1);
	kr_cache_rekey(entry, 7, SMALL / 2, NULL, 0); /* cut */
	kr_cache_rekey_disk(entry);
	assert_false(kr_cache_has(entry, 0));
	assert_int_equal(counters_of(cache).memory_bytes, 0);
	kr_cache_entry_put(entry);
	kr_cache_free(cache);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_just_written_file_is_read_back_without_a_file_on_disk),
		TEST(a_part_of_a_file_or_a_large_one_is_refused),
		TEST(memory_is_bounded_and_the_least_recently_used_go_first),
		TEST(what_memory_had_no_room_for_gets_a_file_when_it_comes_again),
		TEST(what_no_reader_will_ask_for_frees_its_memory_at_once),
		TEST(a_file_that_grows_finds_its_former_bytes),
		TEST(another_version_of_the_same_bytes_keeps_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Cached files that go on under another version, and what others do with them at that moment. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "test/unit/fuse/readcache/cache_fixture.h"

/* What happens just before a file is removed (in place of the C library's). */
static void (*before_unlink)(void);

int unlinkat(int dirfd, const char *path, int flags)
{
	void (*hook)(void) = before_unlink;

	before_unlink = NULL;
	if (hook)
		hook();
	return (int)syscall(SYS_unlinkat, dirfd, path, flags);
}

/* All of it goes on, and at once on the disk. */
static void rekey(struct kr_cache_entry *entry, uint64_t version, uint64_t size)
{
	kr_cache_rekey(entry, version, size, NULL, 0);
	kr_cache_rekey_disk(entry);
}

static void assert_holds(struct kr_cache *cache, uint64_t files, uint64_t bytes)
{
	struct kr_cache_counters counters;

	kr_cache_counters(cache, &counters);
	assert_int_equal(counters.files, files);
	assert_int_equal(counters.bytes, bytes);
}

static void end(struct kr_cache *cache, struct kr_cache_entry *entry)
{
	kr_cache_entry_put(entry);
	kr_cache_free(cache);
}

static void a_patched_file_goes_on_under_its_new_version(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *entry = open_entry(cache, 1, 5, 2 * BLOCK + 100);
	struct kr_cache_replaced replaced[2] = {{.block = 1}, {.block = 2}};
	uint8_t *old = malloc(BLOCK), *want = malloc(BLOCK);

	put(entry, 0, BLOCK, 1);
	put(entry, 1, BLOCK, 2);
	put(entry, 2, 100, 3);
	kr_cache_rekey(entry, 6, 2 * BLOCK + 200, replaced, 2);
	assert_false(kr_cache_has(entry, 1));
	assert_false(kr_cache_has(entry, 2));
	assert_int_equal(put(entry, 1, BLOCK, 9), -EBUSY);
	kr_cache_rekey_disk(entry);
	assert_int_equal(replaced[1].length, 100);
	assert_int_equal(kr_cache_read_replaced(entry, &replaced[1], old), 0);
	fill(want, 100, 3);
	assert_memory_equal(old, want, 100);
	assert_int_equal(put(entry, 1, BLOCK, 12), 0);
	end(cache, entry);

	assert_int_equal(open_file(*state, 1, 5), -1);
	cache = open_cache(*state, LARGE);
	entry = open_entry(cache, 1, 6, 2 * BLOCK + 200);
	expect(entry, 0, BLOCK, 1);
	expect(entry, 1, BLOCK, 12);
	assert_false(kr_cache_has(entry, 2));
	end(cache, entry);
	free(old);
	free(want);
}

static void a_file_that_shrank_keeps_nothing(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *entry = open_entry(cache, 1, 5, 4 * BLOCK);

	put(entry, 3, BLOCK, 2);
	rekey(entry, 6, 2 * BLOCK);
	rekey(entry, 7, 4 * BLOCK);
	assert_false(kr_cache_has(entry, 3));
	assert_int_equal(put(entry, 0, BLOCK, 4), 0);
	kr_cache_entry_put(entry);
	assert_holds(cache, 1, BLOCK);
	kr_cache_free(cache);
	cache = open_cache(*state, LARGE);
	entry = open_entry(cache, 1, 7, 4 * BLOCK);
	expect(entry, 0, BLOCK, 4);
	assert_false(kr_cache_has(entry, 3));
	end(cache, entry);
}

static void a_patch_takes_over_the_name_of_an_older_file(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *older = open_entry(cache, 1, 6, BLOCK), *entry = open_entry(cache, 1, 5, BLOCK);

	put(older, 0, BLOCK, 1);
	put(entry, 0, BLOCK, 2);
	rekey(entry, 6, BLOCK);
	assert_false(kr_cache_has(older, 0));
	expect(entry, 0, BLOCK, 2);
	kr_cache_entry_put(older);
	kr_cache_entry_put(entry);
	entry = open_entry(cache, 1, 6, BLOCK);
	expect(entry, 0, BLOCK, 2);
	kr_cache_entry_put(entry);
	assert_holds(cache, 1, BLOCK);
	kr_cache_free(cache);
}

static void who_has_lost_its_name_does_no_harm_to_the_file_that_has_it(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *older = open_entry(cache, 1, 6, 3 * BLOCK), *entry = open_entry(cache, 1, 5, 3 * BLOCK);

	put(older, 0, BLOCK, 1);
	put(entry, 0, BLOCK, 2);
	rekey(entry, 6, 3 * BLOCK);
	assert_int_equal(put(older, 2, BLOCK, 1), -EBUSY);
	expect(entry, 0, BLOCK, 2);
	put(entry, 2, BLOCK, 3);
	expect(entry, 0, BLOCK, 2);
	kr_cache_entry_put(older);
	expect(entry, 0, BLOCK, 2);
	end(cache, entry);
}

static void one_without_a_file_takes_over_the_name_too(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *older = open_entry(cache, 1, 6, BLOCK), *entry = open_entry(cache, 1, 5, BLOCK);

	put(older, 0, BLOCK, 1);
	kr_cache_entry_put(older);
	rekey(entry, 6, BLOCK);
	assert_holds(cache, 0, 0);
	assert_int_equal(open_file(*state, 1, 6), -1);
	put(entry, 0, BLOCK, 2);
	expect(entry, 0, BLOCK, 2);
	end(cache, entry);
}

static struct kr_cache_entry *rekeyed, *asked_again;
static struct kr_cache *cache_of_hook;
static pthread_t rekeyer;
static atomic_bool rekey_ended;

static void *bring_the_disk_after(void *unused)
{
	(void)unused;
	kr_cache_rekey_disk(rekeyed);
	atomic_store(&rekey_ended, true);
	return NULL;
}

static void rekey_meanwhile(void)
{
	kr_cache_rekey(rekeyed, 6, 2 * BLOCK, NULL, 0);
	assert_int_equal(pthread_create(&rekeyer, NULL, bring_the_disk_after, NULL), 0);
	usleep(100000); /* long enough for it to do what it must not */
	assert_false(atomic_load(&rekey_ended));
}

static void a_name_whose_file_is_being_removed_is_taken_over_after_that(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *older = open_entry(cache, 1, 6, BLOCK);

	put(older, 0, BLOCK, 1);
	kr_cache_entry_abandon(older);
	kr_cache_entry_put(older);
	rekeyed = open_entry(cache, 1, 5, 2 * BLOCK);
	put(rekeyed, 0, BLOCK, 2);
	put(rekeyed, 1, BLOCK, 3);
	before_unlink = rekey_meanwhile;
	while (kr_cache_evict_step(cache))
		;
	assert_int_equal(pthread_join(rekeyer, NULL), 0);
	assert_holds(cache, 1, 2 * BLOCK);
	assert_false(kr_cache_wants_eviction(cache));
	expect(rekeyed, 0, BLOCK, 2);
	expect(rekeyed, 1, BLOCK, 3);
	kr_cache_entry_put(rekeyed);
	kr_cache_free(cache);
}

static void ask_again(void)
{
	asked_again = open_entry(cache_of_hook, 1, 5, BLOCK);
}

static void a_version_that_is_asked_for_while_it_is_removed_begins_anew(void **state)
{
	struct kr_cache_entry *entry;

	cache_of_hook = open_cache(*state, LARGE);
	entry = open_entry(cache_of_hook, 1, 5, BLOCK);
	put(entry, 0, BLOCK, 1);
	kr_cache_entry_abandon(entry);
	kr_cache_entry_put(entry);
	assert_true(kr_cache_wants_eviction(cache_of_hook));
	before_unlink = ask_again;
	while (kr_cache_evict_step(cache_of_hook))
		;
	assert_false(kr_cache_wants_eviction(cache_of_hook));
	assert_false(kr_cache_has(asked_again, 0));
	assert_int_equal(put(asked_again, 0, BLOCK, 2), 0);
	expect(asked_again, 0, BLOCK, 2);
	kr_cache_entry_put(asked_again);
	assert_false(kr_cache_wants_eviction(cache_of_hook));
	kr_cache_free(cache_of_hook);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_patched_file_goes_on_under_its_new_version),
		TEST(a_file_that_shrank_keeps_nothing),
		TEST(a_patch_takes_over_the_name_of_an_older_file),
		TEST(who_has_lost_its_name_does_no_harm_to_the_file_that_has_it),
		TEST(one_without_a_file_takes_over_the_name_too),
		TEST(a_name_whose_file_is_being_removed_is_taken_over_after_that),
		TEST(a_version_that_is_asked_for_while_it_is_removed_begins_anew),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The cache on a real directory: what it keeps, survives and gives up. */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "test/unit/fuse/readcache/cache_fixture.h"

static void a_block_that_was_kept_is_read_back(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *entry = open_entry(cache, 1, 5, 3 * BLOCK + 100);
	char byte;

	assert_int_equal(put(entry, 0, BLOCK, 1), 0);
	assert_int_equal(put(entry, 3, 100, 2), 0);
	assert_int_equal(put(entry, 2, 100, 2), -EINVAL);
	assert_int_equal(put(entry, 4, 100, 2), -EINVAL);
	expect(entry, 0, BLOCK, 1);
	expect(entry, 3, 100, 2);
	assert_int_equal(kr_cache_next_absent(entry, 0, 4), 1);
	assert_int_equal(kr_cache_read(entry, 1, 0, &byte, 1), -ENODATA);
	assert_int_equal(kr_cache_read(entry, 3, 99, &byte, 2), -ENODATA);
	kr_cache_entry_put(entry);
	kr_cache_free(cache);
}

static void the_next_start_finds_what_was_kept_of_the_same_version_only(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *entry = open_entry(cache, 1, 5, 20000 * (uint64_t)BLOCK);

	assert_int_equal(put(entry, 2, BLOCK, 1), 0);
	assert_int_equal(put(entry, 9000, BLOCK, 2), 0);
	assert_int_equal(put(entry, 19999, BLOCK, 3), 0);
	kr_cache_entry_put(entry);
	kr_cache_free(cache);

	cache = open_cache(*state, LARGE);
	entry = open_entry(cache, 1, 5, 20000 * (uint64_t)BLOCK);
	expect(entry, 2, BLOCK, 1);
	expect(entry, 9000, BLOCK, 2);
	expect(entry, 19999, BLOCK, 3);
	assert_false(kr_cache_has(entry, 3));
	kr_cache_entry_put(entry);
	entry = open_entry(cache, 1, 6, 20000 * (uint64_t)BLOCK);
	assert_false(kr_cache_has(entry, 2));
	kr_cache_entry_put(entry);
	entry = open_entry(cache, 2, 5, 20000 * (uint64_t)BLOCK);
	assert_false(kr_cache_has(entry, 2));
	kr_cache_entry_put(entry);
	kr_cache_free(cache);
}

static void whether_a_version_may_be_here_is_told_without_reading(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_fid fid = fid_of(1), other = fid_of(2);
	struct kr_cache_entry *entry = open_entry(cache, 1, 5, 2 * BLOCK);

	assert_false(kr_cache_may_have(cache, &fid, 5, 0));
	assert_int_equal(put(entry, 0, BLOCK, 1), 0);
	assert_true(kr_cache_may_have(cache, &fid, 5, 0));
	assert_false(kr_cache_may_have(cache, &fid, 5, 1));
	assert_false(kr_cache_may_have(cache, &fid, 6, 0));
	assert_false(kr_cache_may_have(cache, &fid, 0, 0));
	assert_false(kr_cache_may_have(cache, &other, 5, 0));
	kr_cache_entry_put(entry);
	kr_cache_free(cache);

	cache = open_cache(*state, LARGE);
	assert_true(kr_cache_may_have(cache, &fid, 5, 0));
	assert_false(kr_cache_may_have(cache, &fid, 6, 0));
	entry = open_entry(cache, 1, 5, 2 * BLOCK);
	expect(entry, 0, BLOCK, 1);
	assert_false(kr_cache_may_have(cache, &fid, 5, 1));
	kr_cache_entry_put(entry);
	kr_cache_free(cache);
}

static void volatile_blocks_end_with_their_user(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *entry = open_entry(cache, 1, 0, BLOCK);
	struct kr_cache_counters counters;

	assert_int_equal(put(entry, 0, BLOCK, 1), 0);
	expect(entry, 0, BLOCK, 1);
	kr_cache_entry_put(entry);
	entry = open_entry(cache, 1, 0, BLOCK);
	assert_false(kr_cache_has(entry, 0));
	kr_cache_entry_put(entry);
	assert_true(kr_cache_wants_eviction(cache));
	while (kr_cache_evict_step(cache))
		;
	kr_cache_counters(cache, &counters);
	assert_int_equal(counters.files, 0);
	assert_int_equal(counters.bytes, 0);
	kr_cache_free(cache);
}

static void an_abandoned_version_goes_first_unless_it_is_asked_for_again(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *entry = open_entry(cache, 1, 5, BLOCK);
	struct kr_cache_counters counters;

	assert_int_equal(put(entry, 0, BLOCK, 1), 0);
	kr_cache_entry_abandon(entry);
	assert_false(kr_cache_wants_eviction(cache));
	kr_cache_entry_put(entry);
	assert_true(kr_cache_wants_eviction(cache));
	entry = open_entry(cache, 1, 5, BLOCK);
	assert_false(kr_cache_wants_eviction(cache));
	expect(entry, 0, BLOCK, 1);
	kr_cache_entry_abandon(entry);
	kr_cache_entry_put(entry);
	while (kr_cache_evict_step(cache))
		;
	kr_cache_counters(cache, &counters);
	assert_int_equal(counters.files, 0);
	assert_int_equal(counters.bytes, 0);
	kr_cache_free(cache);
}

static void keep(struct kr_cache *cache, uint32_t number, uint64_t version)
{
	struct kr_cache_entry *entry = open_entry(cache, number, version, BLOCK);

	assert_int_equal(put(entry, 0, BLOCK, number), 0);
	kr_cache_entry_put(entry);
}

static uint64_t files_after_eviction(struct kr_cache *cache)
{
	struct kr_cache_counters counters;

	while (kr_cache_evict_step(cache))
		;
	kr_cache_counters(cache, &counters);
	assert_true(counters.bytes <= counters.files * 2 * BLOCK);
	return counters.files;
}

static void what_is_kept_of_a_file_that_is_gone_goes_when_its_last_user_does(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_fid gone = fid_of(1), used = fid_of(2), unknown = fid_of(9);
	struct kr_cache_entry *entry;

	keep(cache, 1, 5);
	keep(cache, 1, 6);
	keep(cache, 2, 5);
	keep(cache, 3, 5);
	kr_cache_free(cache);
	cache = open_cache(*state, LARGE); /* nobody has asked for them since */
	kr_cache_abandon(cache, &unknown, 5);
	kr_cache_abandon(cache, &gone, 7);
	kr_cache_abandon(cache, &gone, 0);
	assert_false(kr_cache_wants_eviction(cache));
	kr_cache_abandon(cache, &gone, 5);
	kr_cache_abandon(cache, &gone, 5);
	assert_true(kr_cache_wants_eviction(cache));
	assert_int_equal(files_after_eviction(cache), 3);
	kr_cache_abandon(cache, &gone, 5);
	assert_false(kr_cache_wants_eviction(cache));
	entry = open_entry(cache, 2, 5, BLOCK);
	kr_cache_abandon(cache, &used, 5);
	assert_int_equal(files_after_eviction(cache), 3);
	expect(entry, 0, BLOCK, 2);
	kr_cache_entry_put(entry);
	assert_int_equal(files_after_eviction(cache), 2);
	kr_cache_free(cache);
	cache = open_cache(*state, LARGE);
	entry = open_entry(cache, 3, 5, BLOCK);
	expect(entry, 0, BLOCK, 3);
	kr_cache_entry_put(entry);
	kr_cache_free(cache);
}

/* A daemon that is killed before they have gone: they are there as others are, and count. */
static void what_was_to_go_and_is_there_at_the_next_start_counts(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_counters counters;
	struct kr_fid gone = fid_of(1);

	keep(cache, 1, 5);
	kr_cache_abandon(cache, &gone, 5);
	kr_cache_free(cache);
	cache = open_cache(*state, LARGE);
	kr_cache_counters(cache, &counters);
	assert_int_equal(counters.files, 1);
	assert_true(counters.bytes >= BLOCK);
	assert_true(kr_cache_make_room(cache, BLOCK) && files_after_eviction(cache) == 0);
	kr_cache_free(cache);
}

static void damage_anywhere_in_the_file_is_never_served(void **state)
{
	enum { SIZE = BLOCK + 1000 };
	struct kr_cache *cache;
	struct kr_cache_entry *entry;
	unsigned random = 9;

	for (int round = 0; round < 300; round++) {
		uint64_t spots[] = {0, KR_CACHE_HEADER_USED, kr_cache_entry_offset(0), 32, kr_cache_block_offset(0),
			BLOCK, kr_cache_block_offset(1), 1000};
		int which = rand_r(&random) % 4, fd;
		uint64_t offset;
		uint8_t byte;

		cache = open_cache(*state, LARGE);
		entry = open_entry(cache, 1, 7, SIZE);
		put(entry, 0, BLOCK, 1);
		put(entry, 1, 1000, 2);
		expect(entry, 0, BLOCK, 1);
		expect(entry, 1, 1000, 2);
		kr_cache_entry_put(entry);
		kr_cache_free(cache);

		fd = open_file(*state, 1, 7);
		offset = spots[which * 2] + (uint64_t)rand_r(&random) % spots[which * 2 + 1];
		assert_int_equal(kr_pread_full(fd, &byte, 1, offset), 0);
		byte ^= (uint8_t)(1 << rand_r(&random) % 8);
		assert_int_equal(kr_pwrite_full(fd, &byte, 1, offset), 0);
		close(fd);

		cache = open_cache(*state, LARGE);
		entry = open_entry(cache, 1, 7, SIZE);
		for (uint64_t block = 0; block < 2; block++) {
			size_t length = block ? 1000 : BLOCK;
			uint8_t *got = malloc(length), *want = malloc(length);

			fill(want, length, (unsigned)block + 1);
			if (kr_cache_read(entry, block, 0, got, length) == 0)
				assert_memory_equal(got, want, length);
			else
				assert_false(kr_cache_has(entry, block));
			free(got);
			free(want);
		}
		kr_cache_entry_put(entry);
		kr_cache_free(cache);
	}
}

static void a_file_cut_at_any_length_is_never_served_wrongly(void **state)
{
	static const uint64_t cuts[] = {
		0, 1, 231, 232, 4096, 131072, 131073, 131088, 131100, 262144, 262145, 393215, 393216, 393300};

	for (size_t i = 0; i < KR_ARRAY_SIZE(cuts); i++) {
		struct kr_cache *cache = open_cache(*state, LARGE);
		struct kr_cache_entry *entry = open_entry(cache, 1, 7, BLOCK + 1000);
		uint8_t byte;
		int fd;

		put(entry, 0, BLOCK, 1);
		put(entry, 1, 1000, 2);
		kr_cache_entry_put(entry);
		kr_cache_free(cache);
		fd = open_file(*state, 1, 7);
		assert_int_equal(ftruncate(fd, (off_t)cuts[i]), 0);
		close(fd);
		cache = open_cache(*state, LARGE);
		entry = open_entry(cache, 1, 7, BLOCK + 1000);
		assert_int_equal(kr_cache_read(entry, 0, 5, &byte, 1), cuts[i] >= 393216 ? 0 : -ENODATA);
		assert_int_equal(kr_cache_read(entry, 1, 999, &byte, 1), -ENODATA);
		kr_cache_entry_put(entry);
		kr_cache_free(cache);
	}
}

static void least_recently_used_files_go_first_and_used_ones_never(void **state)
{
	struct kr_cache *cache = open_cache(*state, 20 * BLOCK);
	struct kr_cache_entry *held = open_entry(cache, 100, 1, BLOCK);
	struct kr_cache_counters counters;

	assert_int_equal(put(held, 0, BLOCK, 100), 0);
	for (uint32_t i = 0; i < 19; i++) {
		struct kr_cache_entry *entry = open_entry(cache, i, 1, BLOCK);

		assert_int_equal(put(entry, 0, BLOCK, i), 0);
		kr_cache_entry_put(entry);
	}
	{
		struct kr_cache_entry *entry = open_entry(cache, 50, 1, BLOCK);

		assert_int_equal(put(entry, 0, BLOCK, 50), -ENOSPC);
		assert_true(kr_cache_wants_eviction(cache));
		while (kr_cache_evict_step(cache))
			;
		assert_false(kr_cache_wants_eviction(cache));
		assert_int_equal(put(entry, 0, BLOCK, 50), 0);
		expect(entry, 0, BLOCK, 50);
		kr_cache_entry_put(entry);
	}
	expect(held, 0, BLOCK, 100);
	for (uint32_t i = 0; i < 19; i++) {
		struct kr_cache_entry *entry = open_entry(cache, i, 1, BLOCK);

		assert_int_equal(kr_cache_has(entry, 0), i >= 4);
		kr_cache_entry_put(entry);
	}
	kr_cache_counters(cache, &counters);
	assert_int_equal(counters.evicted_bytes, 4 * BLOCK);
	kr_cache_entry_put(held);
	kr_cache_free(cache);
}

static void many_open_files_use_a_bounded_number_of_descriptors(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *entries[600];
	int count = 0;
	DIR *dir;

	for (uint32_t i = 0; i < 600; i++) {
		entries[i] = open_entry(cache, i, 1, 5000);
		assert_int_equal(put(entries[i], 0, 5000, i), 0);
	}
	dir = opendir("/proc/self/fd");
	while (readdir(dir))
		count++;
	closedir(dir);
	assert_true(count < KR_CACHE_FDS + 20);
	for (uint32_t i = 0; i < 600; i++) {
		expect(entries[i], 0, 5000, i);
		kr_cache_entry_put(entries[i]);
	}
	kr_cache_free(cache);
}

/* A process that puts blocks for ever, and tells how many by a pipe. */
static void put_for_ever(const struct place *place, int pipe_fd, uint64_t blocks)
{
	struct kr_cache *cache = open_cache(place, LARGE);
	struct kr_cache_entry *entry = open_entry(cache, 1, 5, blocks * BLOCK);

	for (uint64_t i = 0;; i++) {
		put(entry, i * 7919 % blocks, BLOCK, (unsigned)(i * 7919 % blocks));
		if (write(pipe_fd, "", 1) != 1)
			_exit(1);
	}
}

static void what_a_killed_process_has_put_is_here_and_right(void **state)
{
	enum { BLOCKS = 211 };

	for (int round = 1; round <= 8; round++) {
		struct kr_cache *cache;
		struct kr_cache_entry *entry;
		uint64_t present = 0;
		int pipes[2], status;
		pid_t child;
		char byte;

		assert_int_equal(pipe(pipes), 0);
		child = fork();
		if (child == 0)
			put_for_ever(*state, pipes[1], BLOCKS);
		for (int i = 0; i < round * 20; i++)
			assert_int_equal(read(pipes[0], &byte, 1), 1);
		kill(child, SIGKILL);
		assert_int_equal(waitpid(child, &status, 0), child);
		close(pipes[0]);
		close(pipes[1]);
		cache = open_cache(*state, LARGE);
		entry = open_entry(cache, 1, 5, BLOCKS * (uint64_t)BLOCK);
		for (uint64_t block = 0; block < BLOCKS; block++) {
			if (kr_cache_has(entry, block)) {
				expect(entry, block, BLOCK, (unsigned)block);
				present++;
			}
		}
		assert_true(present >= (uint64_t)round * 20);
		kr_cache_entry_put(entry);
		kr_cache_free(cache);
	}
}

static void strange_files_in_the_directory_are_harmless(void **state)
{
	struct place *place = *state;
	struct kr_cache *cache = open_cache(place, LARGE);
	struct kr_cache_counters counters;
	char path[128];

	kr_cache_free(cache);
	snprintf(path, sizeof(path), "%s/cache/ab", place->path);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/cache/ab/strange", place->path);
	close(open(path, O_CREAT | O_RDWR, 0600));
	snprintf(path, sizeof(path), "%s/cache/ab/ab000000000000000000000000000000", place->path);
	close(open(path, O_CREAT | O_RDWR, 0600));
	cache = open_cache(place, LARGE);
	kr_cache_counters(cache, &counters);
	assert_int_equal(counters.files, 1);
	kr_cache_free(cache);
}

static void the_header_survives_encoding(void **state)
{
	struct kr_cache_header header = {.export_id = "exportexportexp",
				       .version = 77,
				       .size = UINT64_MAX,
				       .fid = fid_of(3)},
			       back;
	uint8_t bytes[KR_CACHE_HEADER_USED];

	(void)state;
	kr_cache_header_encode(&header, bytes);
	assert_int_equal(kr_cache_header_decode(bytes, &back), 0);
	assert_memory_equal(&header, &back, sizeof(header));
	for (size_t i = 0; i < sizeof(bytes) * 8; i++) {
		bytes[i / 8] ^= (uint8_t)(1 << i % 8);
		assert_int_equal(kr_cache_header_decode(bytes, &back), -EBADMSG);
		bytes[i / 8] ^= (uint8_t)(1 << i % 8);
	}
}

/* Whoever needs the disk more gets all of it, the latest used last. */
static void room_is_made_of_what_is_only_cached(void **state)
{
	struct kr_cache *cache = open_cache(*state, LARGE);
	struct kr_cache_entry *held = open_entry(cache, 100, 1, BLOCK);
	struct kr_cache_counters counters;

	for (uint32_t i = 0; i < 6; i++) {
		struct kr_cache_entry *entry = open_entry(cache, i, 1, BLOCK);

		assert_int_equal(put(entry, 0, BLOCK, i), 0);
		kr_cache_entry_put(entry);
	}
	assert_int_equal(put(held, 0, BLOCK, 100), 0);
	assert_true(kr_cache_make_room(cache, 2 * BLOCK));
	kr_cache_counters(cache, &counters);
	assert_int_equal(counters.evicted_bytes, 2 * BLOCK);
	assert_true(kr_cache_make_room(cache, LARGE));
	kr_cache_counters(cache, &counters);
	assert_int_equal(counters.evicted_bytes, 7 * BLOCK);
	assert_int_equal(counters.bytes, 0);
	assert_false(kr_cache_make_room(cache, LARGE));
	assert_false(kr_cache_has(held, 0));
	assert_int_equal(put(held, 0, BLOCK, 100), 0);
	expect(held, 0, BLOCK, 100);
	kr_cache_entry_put(held);
	kr_cache_free(cache);
}

/* The checksums and the name come from Python, by the words of the format's description. */
static void the_formats_bytes_are_golden(void **state)
{
	static const uint8_t golden_entry[KR_CACHE_ENTRY] = {
		0x68,
		0x67,
		0x66,
		0x65,
		0x64,
		0x63,
		0x62,
		0x61,
		0,
		0,
		2,
		0,
		0xcc,
		0xfd,
		0x7c,
		0x81,
	};
	static const uint8_t golden_start[16] = "kaircach\1\0\0\0\0\0\0",
			     golden_numbers[16] =
				     {
					     8,
					     7,
					     6,
					     5,
					     4,
					     3,
					     2,
					     1,
					     0x18,
					     0x17,
					     0x16,
					     0x15,
					     0x14,
					     0x13,
					     0x12,
					     0x11,
				     },
			     golden_fid[6] = "\5fid!!",
			     golden_check[8] = {0x1a, 0x1e, 0x25, 0xab, 0x07, 0x07, 0x11, 0x32};
	struct kr_cache_header header = {
		.version = 0x0102030405060708,
		.size = 0x1112131415161718,
		.fid = {.length = 5, .bytes = "fid!!"},
	};
	uint8_t bytes[KR_CACHE_HEADER_USED], zeros[224 - 70] = {0};
	char name[KR_CACHE_NAME + 1];

	(void)state;
	for (uint8_t i = 0; i < 16; i++) {
		header.export_id[i] = 0x20 + i;
		header.boot_id[i] = 0x50 + i;
	}
	kr_cache_header_encode(&header, bytes);
	assert_memory_equal(bytes, golden_start, 16);
	assert_memory_equal(bytes + 16, header.export_id, 16);
	assert_memory_equal(bytes + 32, golden_numbers, 16);
	assert_memory_equal(bytes + 48, header.boot_id, 16);
	assert_memory_equal(bytes + 64, golden_fid, 6);
	assert_memory_equal(bytes + 70, zeros, sizeof(zeros));
	assert_memory_equal(bytes + 224, golden_check, 8);
	kr_cache_entry_encode(&(struct kr_cache_map_entry){0x6162636465666768, BLOCK}, 8193, bytes);
	assert_memory_equal(bytes, golden_entry, sizeof(golden_entry));
	assert_int_equal(kr_cache_entry_offset(8193), UINT64_C(1074003984));
	assert_int_equal(kr_cache_block_offset(8193), UINT64_C(1074266112));
	kr_cache_name(header.export_id, &header.fid, header.version, name);
	assert_string_equal(name, "2740248983de813d2d7d3cf30c4d88a5");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_block_that_was_kept_is_read_back),
		TEST(the_next_start_finds_what_was_kept_of_the_same_version_only),
		TEST(whether_a_version_may_be_here_is_told_without_reading),
		TEST(volatile_blocks_end_with_their_user),
		TEST(room_is_made_of_what_is_only_cached),
		TEST(an_abandoned_version_goes_first_unless_it_is_asked_for_again),
		TEST(what_is_kept_of_a_file_that_is_gone_goes_when_its_last_user_does),
		TEST(what_was_to_go_and_is_there_at_the_next_start_counts),
		TEST(damage_anywhere_in_the_file_is_never_served),
		TEST(a_file_cut_at_any_length_is_never_served_wrongly),
		TEST(least_recently_used_files_go_first_and_used_ones_never),
		TEST(many_open_files_use_a_bounded_number_of_descriptors),
		TEST(what_a_killed_process_has_put_is_here_and_right),
		TEST(strange_files_in_the_directory_are_harmless),
		cmocka_unit_test(the_header_survives_encoding),
		cmocka_unit_test(the_formats_bytes_are_golden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

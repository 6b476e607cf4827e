/* The journal: appends, recoveries, holders, reuse, limits; against a model of what was written. */
#include "test/unit/fuse/journal/journal_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "common/base/fail.h"
#include "fuse/journal/journal_format.h"
#include "fuse/journal/journal_record.h"

static void what_was_appended_is_read_back(void **state)
{
	struct fixture *f = *state;
	static uint8_t big[KR_JOURNAL_APPEND_MAX], back[KR_JOURNAL_APPEND_MAX];
	struct kr_extent extent;

	assert_int_equal(append(f, 0, 10, 100, 1), 0);
	assert_int_equal(append(f, 0, 50, 5000, 2), 0);
	compare_map(f->journal, &f->files[0].map, f->files[0].dirty);
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (uint8_t)(i * 7 + i / 1000);
	assert_int_equal(kr_journal_append(f->journal, f->files[1].file, 3, big, sizeof(big), (struct kr_time){0},
				 false, &extent),
		0);
	assert_int_equal(kr_journal_read_verified(f->journal, extent.position, back, sizeof(back)), 0);
	assert_memory_equal(big, back, sizeof(big));
	assert_int_equal(kr_journal_read_verified(f->journal, extent.position + 130000, back, 300000), 0);
	assert_memory_equal(big + 130000, back, 300000);
	assert_int_equal(kr_journal_read(f->journal, extent.position + 1, back, 17), 0);
	assert_memory_equal(big + 1, back, 17);
	kr_journal_release(f->journal, &extent);
}

static void random_life_with_restarts_agrees_with_the_model(void **state)
{
	struct fixture *f = *state;

	for (int step = 0; step < 3000; step++) {
		int index = (int)random_below(FILES);
		uint64_t offset = random_below(FILE_BYTES - 1);
		uint64_t longest = random_below(8) == 0 ? FILE_BYTES - offset : KR_MIN(FILE_BYTES - offset, 700u);

		switch (random_below(24)) {
		case 0:
			apply(f, index);
			break;
		case 1:
		case 2:
			make_stable(f, index);
			break;
		case 3:
			truncate_file(f, index, offset);
			break;
		case 4:
			if (random_below(4) == 0)
				restart(f);
			break;
		default:
			assert_int_equal(append(f, index, offset, 1 + random_below(longest), (uint8_t)step), 0);
		}
		compare_map(f->journal, &f->files[index].map, f->files[index].dirty);
	}
	restart(f);
}

static void mtime_and_suid_of_the_last_write_that_is_not_durable_come_back(void **state)
{
	struct fixture *f = *state;
	struct kr_recovered_file *found;

	append(f, 0, 0, 10, 1);
	apply(f, 0);
	make_stable(f, 0);
	append(f, 0, 0, 10, 2);
	apply(f, 0);
	append(f, 0, 90, 10, 4);
	kr_journal_free(f->journal);
	open_journal(f);
	found = recovered(&f->recovery, 0);
	assert_non_null(found);
	assert_string_equal(found->file->hint, "dir/file0");
	assert_int_equal(found->mtime.sec, 1004);
	assert_int_equal(found->mtime.nsec, 5);
	assert_false(found->clear_suid);
}

/* RECLAIM says so of bytes in the middle of a file, and an older write has others. */
static void what_is_durable_up_to_a_seq_is_gone_and_newer_writes_stay(void **state)
{
	struct fixture *f = *state;
	uint64_t durable;

	append(f, 0, 0, 100, 1);
	append(f, 0, 50, 10, 2);
	durable = kr_extent_map_max_seq(&f->files[0].map);
	append(f, 0, 70, 50, 3);
	kr_journal_release_until(f->journal, &f->files[0].map, durable);
	memset(f->files[0].dirty, 0, 70);
	compare_map(f->journal, &f->files[0].map, f->files[0].dirty);
	restart(f);
	assert_int_equal(f->files[0].map.bytes, 50);
}

static void a_killed_writer_loses_nothing_that_returned(void **state)
{
	struct fixture *f = *state;
	int pipes[2], status;
	uint8_t done = 0, last = 0;
	pid_t child;

	kr_journal_free(f->journal);
	assert_int_equal(pipe(pipes), 0);
	child = fork();
	if (child == 0) {
		open_journal(f);
		for (uint8_t i = 1;; i++) {
			if (append(f, 0, i * 10u, 3000, i) < 0 || write(pipes[1], &i, 1) != 1)
				_exit(1);
			if (i == 200)
				pause();
		}
	}
	close(pipes[1]);
	while (last < 150 && read(pipes[0], &done, 1) == 1)
		last = done;
	kill(child, SIGKILL);
	while (read(pipes[0], &done, 1) == 1)
		last = done;
	waitpid(child, &status, 0);
	close(pipes[0]);
	f->options.incarnation++;
	open_journal(f);
	assert_true(kr_list_empty(&f->recovery.damage));
	assert_non_null(recovered(&f->recovery, 0));
	assert_true(recovered(&f->recovery, 0)->dirty.count >= last);
	assert_true(recovered(&f->recovery, 0)->dirty.bytes >= last * 10u + 2990);
}

static void at_journal_max_appends_wait_until_bytes_are_stable(void **state)
{
	struct fixture *f = *state;
	struct kr_journal_usage usage;
	int err = 0;

	for (int i = 0; err == 0; i++) {
		assert_true(i < 1000);
		err = append(f, 0, (uint64_t)i * 100000, 100000, (uint8_t)i);
	}
	assert_int_equal(err, -EAGAIN);
	kr_journal_usage(f->journal, &usage);
	assert_true(usage.used <= usage.max);
	assert_true(usage.live > usage.max * 3 / 4);
	assert_true(usage.waiting);
	apply(f, 0);
	assert_int_equal(append(f, 1, 0, KR_JOURNAL_APPEND_MAX, 1), -EAGAIN);
	assert_int_equal(f->space_calls, 0);
	make_stable(f, 0);
	assert_int_equal(f->space_calls, 1);
	assert_int_equal(append(f, 1, 0, KR_JOURNAL_APPEND_MAX, 1), 0);
}

static void segments_are_used_again_and_their_number_stays_bounded(void **state)
{
	struct fixture *f = *state;
	struct kr_journal_usage usage;

	for (int i = 0; i < 400; i++) {
		assert_int_equal(append(f, i % 2, 0, 200000, (uint8_t)i), 0);
		kr_extent_map_truncate(&f->files[i % 2].map, 0, kr_journal_release, f->journal);
	}
	assert_true(count_files(f->directory) <= 4);
	kr_journal_usage(f->journal, &usage);
	assert_int_equal(usage.live, 0);
	memset(f->files[0].dirty, 0, FILE_BYTES);
	memset(f->files[1].dirty, 0, FILE_BYTES);
	append(f, 0, 7, 9, 1);
	restart(f);
	kr_extent_map_truncate(&f->files[0].map, 0, kr_journal_release, f->journal);
	kr_journal_free(f->journal);
	assert_int_equal(count_files(f->directory), 0);
	open_journal(f);
}

static void one_held_record_does_not_keep_other_segments(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(append(f, 2, 5, 10, 3), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(append(f, 0, 0, 200000, (uint8_t)i), 0);
		kr_extent_map_truncate(&f->files[0].map, 0, kr_journal_release, f->journal);
	}
	memset(f->files[0].dirty, 0, FILE_BYTES);
	restart(f);
	compare_map(f->journal, &f->files[2].map, f->files[2].dirty);
}

static uint64_t blocks_in(const char *directory)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	uint64_t bytes = 0;
	struct stat st;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
			bytes += (uint64_t)st.st_blocks * 512;
	closedir(dir);
	return bytes;
}

static void pinned_segments_give_back_what_is_dead(void **state)
{
	struct fixture *f = *state;
	struct kr_journal_usage usage;

	pin_and_fill(f);
	compare_map(f->journal, &f->files[2].map, f->files[2].dirty);
	kr_journal_usage(f->journal, &usage);
	assert_true(usage.used <= usage.max);
	assert_int_equal(usage.live, 600);
	assert_true(blocks_in(f->directory) <= usage.max + KR_JOURNAL_SPARES * (UINT64_C(2) << 20));
	restart(f);
	compare_map(f->journal, &f->files[2].map, f->files[2].dirty);
	pin_and_fill(f);
	restart(f);
}

/* As a patch of the read cache reads durable bytes (fuse/readcache/stage_patch.c). */
static void a_pin_keeps_the_data_and_not_the_record(void **state)
{
	struct fixture *f = *state;
	static uint8_t back[200000];
	struct kr_journal_usage usage;
	struct kr_extent extent;

	assert_int_equal(append(f, 1, 0, sizeof(back), 1), 0);
	assert_true(kr_extent_map_find(&f->files[1].map, 0, &extent));
	kr_journal_pin(f->journal, &extent);
	kr_extent_map_truncate(&f->files[1].map, 0, kr_journal_release, f->journal); /* durable */
	memset(f->files[1].dirty, 0, FILE_BYTES);
	for (int i = 0; i < 400; i++) { /* more than journal_max: what is dead is used again */
		assert_int_equal(append(f, 0, 0, sizeof(back), (uint8_t)i), 0);
		kr_extent_map_truncate(&f->files[0].map, 0, kr_journal_release, f->journal);
	}
	memset(f->files[0].dirty, 0, FILE_BYTES);
	assert_int_equal(kr_journal_read(f->journal, extent.position, back, sizeof(back)), 0);
	for (size_t i = 0; i < sizeof(back); i++)
		assert_int_equal(back[i], (uint8_t)(1 + (31u + i) % 255));
	kr_journal_usage(f->journal, &usage);
	assert_int_equal(usage.live, 0);
	restart(f); /* as if the daemon had been killed: there is nothing to send */
	append(f, 1, 0, sizeof(back), 1);
	assert_true(kr_extent_map_find(&f->files[1].map, 0, &extent));
	kr_journal_pin(f->journal, &extent);
	kr_extent_map_truncate(&f->files[1].map, 0, kr_journal_release, f->journal);
	memset(f->files[1].dirty, 0, FILE_BYTES);
	kr_journal_unpin(f->journal, &extent);
	kr_journal_free(f->journal);
	assert_int_equal(count_files(f->directory), 0);
	open_journal(f);
}

static void the_journal_of_another_export_is_refused_and_kept(void **state)
{
	struct fixture *f = *state;

	append(f, 0, 0, 10, 1);
	kr_journal_free(f->journal);
	f->options.export_id[0] = 8;
	open_journal(f);
	assert_true(kr_list_empty(&f->recovery.files));
	assert_false(kr_list_empty(&f->recovery.damage));
	kr_recovery_fini(&f->recovery);
	kr_journal_free(f->journal);
	assert_int_equal(count_files(f->directory), 2);
	f->options.export_id[0] = 0;
	open_journal(f);
	assert_true(kr_list_empty(&f->recovery.damage));
}

static void write_file(const char *directory, const char *name, const void *bytes, size_t length)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, length, file), length);
	fclose(file);
}

static void garbage_is_refused_and_kept(void **state)
{
	struct fixture *f = *state;
	uint8_t garbage[9000];

	for (size_t i = 0; i < sizeof(garbage); i++)
		garbage[i] = (uint8_t)random_below(256);
	kr_journal_free(f->journal);
	write_file(f->directory, "00000001.index", garbage, sizeof(garbage));
	write_file(f->directory, "00000001.data", garbage, sizeof(garbage));
	write_file(f->directory, "00000002.index", garbage, 1);
	write_file(f->directory, "00000003.data", garbage, 10);
	write_file(f->directory, "00000004.data", garbage, 0);
	write_file(f->directory, "README", garbage, 10);
	open_journal(f);
	assert_int_equal(append(f, 0, 0, 100, 1), 0);
	kr_recovery_fini(&f->recovery);
	kr_journal_free(f->journal);
	assert_int_equal(count_files(f->directory), 7); /* the empty one went, two came */
	open_journal(f);
	compare_map(f->journal, &recovered(&f->recovery, 0)->dirty, f->files[0].dirty);
}

static void too_small_a_maximum_is_refused(void **state)
{
	struct fixture *f = *state;
	struct kr_journal *journal;
	struct kr_recovery recovery;

	f->options.max = KR_JOURNAL_MIN - 1;
	assert_int_equal(kr_journal_open(&f->options, &recovery, &journal), -EINVAL);
	f->options.max = KR_JOURNAL_MIN;
}

struct writer {
	struct fixture *f;
	int index;
};

static void *write_many(void *context)
{
	struct writer *writer = context;

	for (int i = 0; i < 2000; i++) {
		assert_int_equal(append(writer->f, writer->index, (uint64_t)(i % 7) * 1000, 900, (uint8_t)i), 0);
		if (i % 100 == 99)
			apply(writer->f, writer->index);
		if (i % 300 == 299)
			while (!kr_list_empty(&writer->f->files[writer->index].applied))
				make_stable(writer->f, writer->index);
	}
	return NULL;
}

static void writers_of_different_files_go_in_parallel(void **state)
{
	struct fixture *f = *state;
	struct writer writers[FILES];
	pthread_t threads[FILES];

	for (int i = 0; i < FILES; i++) {
		writers[i] = (struct writer){f, i};
		pthread_create(&threads[i], NULL, write_many, &writers[i]);
	}
	for (int i = 0; i < FILES; i++)
		pthread_join(threads[i], NULL);
	restart(f);
}

static void another_version_is_refused_with_words_and_left_alone(void **state)
{
	struct fixture *f = *state;
	struct kr_journal_header header;
	struct kr_journal *journal;
	char path[128];
	int fd;

	append(f, 0, 0, 100, 1);
	kr_journal_free(f->journal);
	snprintf(path, sizeof(path), "%s/%08x.index", f->directory, 1);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(kr_pread_full(fd, &header, sizeof(header), 0), 0);
	for (uint32_t version = KR_JOURNAL_VERSION - 1; version <= KR_JOURNAL_VERSION + 1; version += 2) {
		char said[200];

		snprintf(said, sizeof(said), "%s is a journal of version %u, and kairan", f->directory, version);
		header.version = version;
		kr_journal_header_seal(&header);
		assert_int_equal(kr_pwrite_full(fd, &header, sizeof(header), 0), 0);
		assert_int_equal(kr_pwrite_full(fd, &header, sizeof(header), KR_JOURNAL_HEADER_COPY), 0);
		assert_int_equal(kr_journal_open(&f->options, &f->recovery, &journal), -EPROTO);
		assert_non_null(strstr(kr_fail_reason(), said));
		assert_int_equal(count_files(f->directory), 3); /* with `clean`: nothing has changed */
	}
	header.version = KR_JOURNAL_VERSION;
	kr_journal_header_seal(&header);
	assert_int_equal(kr_pwrite_full(fd, &header, sizeof(header), 0), 0);
	close(fd);
	open_journal(f);
	assert_true(kr_list_empty(&f->recovery.damage));
	assert_false(kr_list_empty(&f->recovery.files));
}

static void the_formats_bytes_are_golden(void **state)
{
	struct kr_journal_record record = {
		.seq = 0x0102030405060708,
		.file = 0x11121314,
		.type = KR_JOURNAL_WRITE,
		.flags = KR_JOURNAL_CLEAR_SUID,
		.offset = 0x2122232425262728,
		.length = 0x31323334,
		.data = 0x41424344,
		.data_check = 0x5152535455565758,
		.mtime_ns = 0x6162636465666768,
	};
	/* clang-format off */
	static const uint8_t golden[48] = {
		8, 7, 6, 5, 4, 3, 2, 1, 0x14, 0x13, 0x12, 0x11, 2, 1, 0, 0,
		0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 0x34, 0x33, 0x32, 0x31, 0x44, 0x43, 0x42, 0x41,
		0x58, 0x57, 0x56, 0x55, 0x54, 0x53, 0x52, 0x51, 0x68, 0x67, 0x66, 0x65, 0x64, 0x63, 0x62, 0x61,
	};
	/* clang-format on */
	struct kr_journal_header header = {.magic = KR_JOURNAL_MAGIC, .version = KR_JOURNAL_VERSION, .number = 3};

	(void)state;
	assert_memory_equal((uint8_t *)&record + 16, golden, sizeof(golden));
	assert_memory_equal(&header.magic, "KAIRANJ1", 8);
	kr_journal_header_seal(&header);
	assert_true(kr_journal_header_good(&header, KR_JOURNAL_VERSION));
	assert_false(kr_journal_header_good(&header, 1));
	assert_int_equal(header.check, UINT64_C(0xf030f0f1a3c3578d));
	assert_int_equal(kr_journal_record_check(&record, 99), UINT64_C(0x7a88a3ee582e3ebf));
	assert_int_equal(kr_journal_keep(5, 6), UINT64_C(0x290981ca00000007));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(what_was_appended_is_read_back),
		TEST(random_life_with_restarts_agrees_with_the_model),
		TEST(mtime_and_suid_of_the_last_write_that_is_not_durable_come_back),
		TEST(what_is_durable_up_to_a_seq_is_gone_and_newer_writes_stay),
		TEST(another_version_is_refused_with_words_and_left_alone),
		TEST(a_killed_writer_loses_nothing_that_returned),
		TEST(at_journal_max_appends_wait_until_bytes_are_stable),
		TEST(segments_are_used_again_and_their_number_stays_bounded),
		TEST(one_held_record_does_not_keep_other_segments),
		TEST(pinned_segments_give_back_what_is_dead),
		TEST(a_pin_keeps_the_data_and_not_the_record),
		TEST(the_journal_of_another_export_is_refused_and_kept),
		TEST(garbage_is_refused_and_kept),
		TEST(too_small_a_maximum_is_refused),
		TEST(writers_of_different_files_go_in_parallel),
		cmocka_unit_test(the_formats_bytes_are_golden),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

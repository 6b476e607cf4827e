/* Reading a range: unflushed bytes (in a real journal) over staged ones (simulated here), against an array of bytes. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "fuse/file/file_read.h"
#include "fuse/journal/journal.h"
#include "fuse/base/mount.h"
#include "fuse/readcache/stage.h"
#include "test/unit/directory.h"

enum { SIZE = 256 * 1024, BLOCK = 4096 };

/* --- a stage that has some of its blocks ------------------------------------------------------ */

struct kr_stage {
	uint8_t bytes[SIZE];
	bool here[SIZE / BLOCK];
	uint64_t version;
	unsigned asked;
};

int kr_stage_pread(struct kr_stage *stage, uint64_t version, uint64_t offset, void *buffer, size_t length)
{
	if (version != stage->version)
		return -ESTALE;
	for (uint64_t block = offset / BLOCK; block <= (offset + length - 1) / BLOCK; block++) {
		if (!stage->here[block])
			return -ENODATA;
	}
	memcpy(buffer, stage->bytes + offset, length);
	return 0;
}

int kr_stage_want(struct kr_stage *stage, uint64_t offset, size_t length)
{
	bool all = true;

	for (uint64_t block = offset / BLOCK; block <= (offset + length - 1) / BLOCK; block++) {
		all &= stage->here[block];
		stage->here[block] = true;
	}
	stage->asked++;
	return all;
}

/* --- a file with a journal -------------------------------------------------------------------- */

struct fixture {
	char directory[64];
	struct kr_mount mount;
	struct kr_recovery recovery;
	struct kr_file file;
	struct kr_stage stage;
	uint8_t model[SIZE];
	uint64_t model_end;
};

static int setup(void **state)
{
	struct fixture *fixture = calloc(1, sizeof(*fixture));
	struct kr_journal_options options = {.incarnation = 1, .max = 64 << 20};

	snprintf(fixture->directory, sizeof(fixture->directory), "/tmp/kr-file-read-XXXXXX");
	assert_non_null(mkdtemp(fixture->directory));
	options.directory = fixture->directory;
	memset(options.export_id, 1, sizeof(options.export_id));
	memset(options.node_id, 2, sizeof(options.node_id));
	assert_int_equal(kr_journal_open(&options, &fixture->recovery, &fixture->mount.journal), 0);
	fixture->file.mount = &fixture->mount;
	fixture->file.fid = (struct kr_fid){.length = 4, .bytes = "abc"};
	fixture->file.journal_file = kr_journal_file_new(&fixture->file.fid, NULL);
	fixture->file.stage = &fixture->stage;
	fixture->file.base.version = fixture->stage.version = 7;
	kr_extent_map_init(&fixture->file.dirty);
	*state = fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *fixture = *state;

	kr_extent_map_truncate(&fixture->file.dirty, 0, kr_journal_release, fixture->mount.journal);
	kr_journal_file_free(fixture->file.journal_file);
	kr_recovery_fini(&fixture->recovery);
	kr_journal_free(fixture->mount.journal);
	directory_remove(fixture->directory);
	free(fixture);
	return 0;
}

static void stage_bytes(struct fixture *fixture, uint64_t size)
{
	for (uint64_t i = 0; i < size; i++)
		fixture->model[i] = fixture->stage.bytes[i] = (uint8_t)rand();
	fixture->file.base.size = size;
	fixture->model_end = KR_MAX(fixture->model_end, size);
}

static void write_bytes(struct fixture *fixture, uint64_t offset, size_t length)
{
	struct kr_extent extent;

	for (size_t i = 0; i < length; i++)
		fixture->model[offset + i] = (uint8_t)rand();
	assert_int_equal(kr_journal_append(fixture->mount.journal, fixture->file.journal_file, offset,
				 fixture->model + offset, length, (struct kr_time){0}, false, &extent),
		0);
	assert_int_equal(
		kr_extent_map_insert(&fixture->file.dirty, &extent, kr_journal_release, fixture->mount.journal), 0);
	fixture->model_end = KR_MAX(fixture->model_end, offset + length);
}

/* Reads as op_read.c does: tries, asks for what is missing, tries again. */
static void check_read(struct fixture *fixture, uint64_t offset, size_t length)
{
	uint64_t end = KR_MIN(offset + length, fixture->model_end);
	size_t expected = end > offset ? (size_t)(end - offset) : 0;
	struct kr_read_plan plan;
	uint8_t *buffer = malloc(length + 1);
	int err;

	assert_int_equal(kr_read_plan_init(&plan, &fixture->file, offset, length), 0);
	assert_int_equal(plan.length, expected);
	err = kr_read_plan_fill(&plan, buffer);
	if (err == -ENODATA) {
		assert_true(kr_read_plan_needs_stage(&plan));
		assert_int_equal(kr_read_plan_want(&plan, &fixture->stage), 0);
		assert_int_equal(kr_read_plan_want(&plan, &fixture->stage), 1);
		err = kr_read_plan_fill(&plan, buffer);
	}
	assert_int_equal(err, 0);
	assert_memory_equal(buffer, fixture->model + offset, expected);
	kr_read_plan_fini(&plan);
	free(buffer);
}

/* --- tests ------------------------------------------------------------------------------------ */

static void random_reads_see_unflushed_over_staged_bytes(void **state)
{
	struct fixture *fixture = *state;

	srand(4711);
	stage_bytes(fixture, SIZE / 2 + 77);
	for (unsigned i = 0; i < 400; i++) {
		uint64_t offset = (uint64_t)rand() % (SIZE - 5000);

		if (rand() % 3 == 0)
			write_bytes(fixture, offset, 1 + (size_t)rand() % 5000);
		check_read(fixture, (uint64_t)rand() % SIZE, 1 + (size_t)rand() % 30000);
	}
	check_read(fixture, 0, SIZE);
}

static void bytes_that_are_all_unflushed_need_no_stage(void **state)
{
	struct fixture *fixture = *state;
	struct kr_read_plan plan;

	stage_bytes(fixture, 10000);
	write_bytes(fixture, 100, 500);
	assert_int_equal(kr_read_plan_init(&plan, &fixture->file, 150, 300), 0);
	assert_false(kr_read_plan_needs_stage(&plan));
	kr_read_plan_fini(&plan);
	assert_int_equal(kr_read_plan_init(&plan, &fixture->file, 99, 300), 0);
	assert_true(kr_read_plan_needs_stage(&plan));
	kr_read_plan_fini(&plan);
	check_read(fixture, 150, 300);
	assert_int_equal(fixture->stage.asked, 0);
}

static void a_hole_beyond_the_servers_end_is_zeros(void **state)
{
	struct fixture *fixture = *state;

	stage_bytes(fixture, 100);
	write_bytes(fixture, 5000, 10);
	check_read(fixture, 0, 10000);
	check_read(fixture, 200, 100);
	check_read(fixture, 5010, 100);
	check_read(fixture, 90, 20);
}

static void a_read_keeps_its_journal_bytes_while_they_are_released_elsewhere(void **state)
{
	struct fixture *fixture = *state;
	struct kr_read_plan plan;
	uint8_t buffer[3000];

	write_bytes(fixture, 0, 3000);
	assert_int_equal(kr_read_plan_init(&plan, &fixture->file, 0, 3000), 0);
	kr_extent_map_truncate(&fixture->file.dirty, 0, kr_journal_release, fixture->mount.journal);
	assert_int_equal(kr_read_plan_fill(&plan, buffer), 0);
	assert_memory_equal(buffer, fixture->model, 3000);
	kr_read_plan_fini(&plan);
}

static void another_version_in_between_is_noticed(void **state)
{
	struct fixture *fixture = *state;
	struct kr_read_plan plan;
	uint8_t buffer[100];

	stage_bytes(fixture, 100);
	assert_int_equal(kr_read_plan_init(&plan, &fixture->file, 0, 100), 0);
	fixture->stage.version++;
	assert_int_equal(kr_read_plan_fill(&plan, buffer), -ESTALE);
	kr_read_plan_fini(&plan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(random_reads_see_unflushed_over_staged_bytes, setup, teardown),
		cmocka_unit_test_setup_teardown(bytes_that_are_all_unflushed_need_no_stage, setup, teardown),
		cmocka_unit_test_setup_teardown(a_hole_beyond_the_servers_end_is_zeros, setup, teardown),
		cmocka_unit_test_setup_teardown(
			a_read_keeps_its_journal_bytes_while_they_are_released_elsewhere, setup, teardown),
		cmocka_unit_test_setup_teardown(another_version_in_between_is_noticed, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

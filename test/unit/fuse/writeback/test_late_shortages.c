/* Late bytes when the journal is full, memory is out, or the disk refuses. */
#include "test/unit/fuse/writeback/late_bytes_fixture.h"

static bool disk_full;

int __real_kr_pwrite_full(int fd, const void *bytes, size_t length, uint64_t offset);
int __wrap_kr_pwrite_full(int fd, const void *bytes, size_t length, uint64_t offset);

int __wrap_kr_pwrite_full(int fd, const void *bytes, size_t length, uint64_t offset)
{
	return disk_full ? -ENOSPC : __real_kr_pwrite_full(fd, bytes, length, offset);
}

/* The disk has room again by no doing of the journal's, which nobody tells: no program waits in a write, and what has
 * moved cannot go to the server. */
static void a_disk_that_has_room_again_is_found_out(void **state)
{
	(void)state;
	many_writes(100, 1);
	begin();
	answer(0); /* moves the first of them */
	disk_full = true;
	kr_late_step(&F.original);
	disk_full = false;
	assert_int_equal(F.space_asked, 1);
	assert_false(kr_extent_map_empty(&F.target.dirty));
	kr_late_step(&F.original);
	assert_all_moved();
}

/* A journal that is full of nothing else: no flush can make room. */
static void a_full_journal_does_not_keep_its_late_bytes(void **state)
{
	enum { PIECE = 1 << 20 };
	static const uint8_t data[PIECE] = {1};
	struct kr_extent extent;
	uint64_t bytes = 0;

	(void)state;
	teardown(NULL);
	init_fixture(KR_JOURNAL_MIN);
	for (; kr_journal_append(F.journal, F.original.journal_file, bytes, data, PIECE, (struct kr_time){1, 1}, false,
		       &extent) == 0;
		bytes += PIECE)
		assert_int_equal(kr_extent_map_insert(&F.original.dirty, &extent, NULL, NULL), 0);
	assert_true(bytes > 2 * PIECE);
	begin();
	answer(0);
	for (unsigned turns = 0; F.original.flush->late; turns++) {
		struct kr_journal_usage usage;

		assert_true(turns < 2 * bytes / PIECE);
		kr_journal_usage(F.journal, &usage);
		assert_true(usage.used <= usage.max + 2 * PIECE);
		flush_target();
		kr_late_step(&F.original);
	}
	flush_target();
	assert_int_equal(live(), 0);
}

/* What has moved, and is being flushed, makes room: so long nothing goes beyond the maximum. */
static void a_full_journal_waits_for_what_has_moved(void **state)
{
	static const uint8_t data[KR_JOURNAL_APPEND_MAX] = {1};
	struct kr_journal_usage usage;
	struct kr_extent extent;

	(void)state;
	teardown(NULL);
	init_fixture(KR_JOURNAL_MIN);
	many_writes(100, 1);
	begin();
	answer(0);
	while (kr_journal_append(F.journal, F.original.journal_file, 0, data, sizeof(data), (struct kr_time){1, 1},
		       false, &extent) == 0)
		;
	while (kr_journal_append(
		       F.journal, F.original.journal_file, 0, data, BLOCK, (struct kr_time){1, 1}, false, &extent) == 0)
		;
	while (kr_journal_append(
		       F.journal, F.original.journal_file, 0, data, 1, (struct kr_time){1, 1}, false, &extent) == 0)
		;
	kr_late_step(&F.original);
	assert_int_equal(F.space_asked, 1);
	kr_journal_usage(F.journal, &usage);
	assert_true(usage.used <= usage.max);
	assert_non_null(F.original.flush->late);
	flush_target();
	for (int turns = 0; F.original.flush->late && turns < 100; turns++) {
		kr_late_step(&F.original);
		flush_target();
	}
	assert_all_moved();
}

/* Whatever allocation fails when they are taken: none is lost, and none can be flushed into the original.  What could
 * be taken stays with what could not, until the next time. */
static void out_of_memory_at_the_beginning_nothing_is_lost(void **state)
{
	bool failed = true;

	(void)state;
	for (int good = 0; failed; good++) {
		teardown(NULL);
		init_fixture(64 << 20);
		write_bytes(500, 10, 9, true);
		begin();
		answer(-ENOSPC);
		write_bytes(0, 100, 1, true);
		write_bytes(50, 100, 2, true);
		write_bytes(490, 15, 3, true);
		write_bytes(70, 10, 4, true);
		F.allocations_left = good;
		begin();
		failed = F.allocations_left < 0;
		F.allocations_left = -1;
		assert_int_equal(F.original.flush->orphaned, failed);
		look_as_if_killed();
		if (failed) {
			later();
			assert_null(F.answer);
			begin();
		}
		answer(0);
		F.watched = false;
		assert_all_moved();
		assert_true(good < 100);
		F.watched = false;
	}
}

static void out_of_memory_in_the_middle_it_is_tried_again(void **state)
{
	bool failed = true;

	(void)state;
	for (int good = 0; failed; good++) {
		int err = 0;

		teardown(NULL);
		init_fixture(64 << 20);
		write_bytes(0, 100, 1, true);
		write_bytes(50, 10, 2, true);
		begin();
		F.target.journal_file = kr_journal_file_new(&F.target.fid, "hint");
		F.allocations_left = -1;
		answer(-ENOSPC);
		later();
		answer(0);
		assert_null(F.original.flush->late);
		F.close_asked = 0;
		flush_target();
		write_bytes(0, 100, 3, true);
		write_bytes(50, 10, 4, true);
		begin();
		F.original.flush->orphaned = false;
		F.allocations_left = good;
		answer(0);
		failed = F.allocations_left < 0;
		F.allocations_left = -1;
		if (failed && F.original.flush->late) {
			kr_late_bytes(F.original.flush->late, &err);
			assert_int_equal(err, -ENOMEM);
			look_as_if_killed();
			later();
		}
		assert_all_moved();
		assert_true(good < 100);
		F.watched = false;
	}
}

static void what_the_disk_does_not_take_is_tried_again(void **state)
{
	int err = 0;

	(void)state;
	write_bytes(0, 100, 1, true);
	write_bytes(50, 10, 2, true);
	begin();
	F.append_err = -EIO;
	F.watched = true;
	answer(0);
	assert_int_equal(kr_late_bytes(F.original.flush->late, &err), 100);
	assert_int_equal(err, -EIO);
	F.append_err = 0;
	kr_late_step(&F.original);
	assert_non_null(F.original.flush->late);
	later();
	F.watched = false;
	assert_all_moved();
}

/* Bytes that the disk has lost are told of, and none goes in their place. */
static void what_cannot_be_read_does_not_move(void **state)
{
	struct kr_extent extent;
	char path[400] = "";
	int err = 0;

	(void)state;
	write_bytes(0, BLOCK, 1, true);
	assert_true(kr_extent_map_find(&F.original.dirty, 0, &extent));
	snprintf(path, sizeof(path), "%s/00000001.data", F.directory);
	{
		KR_AUTO_FD int fd = open(path, O_WRONLY);

		assert_int_equal(pwrite(fd, "?", 1, (off_t)(uint32_t)extent.position), 1);
	}
	begin();
	answer(0);
	assert_non_null(F.original.flush->late);
	assert_int_equal(kr_late_bytes(F.original.flush->late, &err), BLOCK);
	assert_int_equal(err, -EBADMSG);
	assert_true(kr_extent_map_empty(&F.target.dirty));
	later();
	assert_int_equal(kr_late_bytes(F.original.flush->late, &err), BLOCK);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_disk_that_has_room_again_is_found_out),
		TEST(a_full_journal_does_not_keep_its_late_bytes),
		TEST(a_full_journal_waits_for_what_has_moved),
		TEST(out_of_memory_at_the_beginning_nothing_is_lost),
		TEST(out_of_memory_in_the_middle_it_is_tried_again),
		TEST(what_the_disk_does_not_take_is_tried_again),
		TEST(what_cannot_be_read_does_not_move),
	};

	kr_log_init("test_late_shortages", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

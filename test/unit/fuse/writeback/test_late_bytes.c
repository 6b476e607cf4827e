/* Late bytes move to their conflict file: which, in what order, and what a kill or another lapse in between leaves. */
#include "test/unit/fuse/writeback/late_bytes_fixture.h"

static void without_such_bytes_nothing_happens(void **state)
{
	(void)state;
	begin();
	assert_null(F.original.flush->late);
	assert_int_equal(F.calls + F.redirtied, 0);
}

static void who_has_the_conflict_file_open_reads_what_moves_into_it(void **state)
{
	(void)state;
	write_bytes(100, 50, 1, true);
	begin();
	kr_lease_state_cached(&F.target.holder);
	answer(0);
	assert_all_moved();
	assert_true(F.target.holder.suspect); /* the kernel's pages go before the next read */
}

static void dirty_bytes_move_to_the_file_that_the_server_names(void **state)
{
	(void)state;
	write_bytes(100, 50, 1, true);
	write_bytes(120, 5, 2, true);
	F.watched = true;
	begin();
	assert_true(kr_extent_map_empty(&F.original.dirty)); /* nobody here reads them any more */
	assert_int_equal(F.redirtied, 1);
	assert_string_equal(F.asked_path, "dir/original");
	assert_int_equal(F.asked.mode, S_IFREG | 0640);
	assert_int_equal(F.asked.uid, 10);
	assert_int_equal(F.asked.written.sec, 1002);
	assert_true(F.asked.first > 0 && F.asked.first < F.asked.last);
	assert_int_equal(F.asked.last, F.original.written_seq);
	answer(0);
	assert_int_equal(F.target.open.count, 1);
	assert_int_equal(F.target.mtime.sec, 1002);
	assert_string_equal(F.target.journal_file->hint, "dir/original.conflict");
	assert_int_equal(json_array_size(F.flusher.conflicts), 1);
	assert_true(F.looks >= 4);
	F.watched = false;
	assert_all_moved();
	assert_int_equal(live(), 0);
}

/* The end of a write is still here when what covered its middle has moved: it must not come back over that. */
static void killed_at_any_step_no_older_byte_comes_back_over_a_newer_one(void **state)
{
	uint64_t random = 7;

	(void)state;
	for (int i = 0; i < 30; i++) {
		random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
		write_bytes((random >> 33) % 3000, 1 + (random >> 20) % 900, (uint8_t)(1 + i), true);
	}
	F.watched = true;
	begin();
	answer(0);
	F.watched = false;
	assert_true(F.looks > 40);
	assert_all_moved();
}

static void a_second_lapse_in_the_middle_adds_newer_bytes(void **state)
{
	(void)state;
	many_writes(100, 1);
	begin();
	answer(0); /* moves the first of them */
	assert_non_null(F.original.flush->late);
	assert_false(kr_extent_map_empty(&F.target.dirty));
	flush_target();
	write_bytes(8, 3000, 2, true);
	F.watched = true;
	begin();
	assert_int_equal(F.calls, 2); /* the server says anew where it goes */
	assert_int_equal(F.asked.last, F.original.written_seq);
	answer(0);
	while (F.original.flush->late)
		kr_late_step(&F.original);
	F.watched = false;
	assert_all_moved();
}

/* A failed sync has made dirty what was applied before, while what was written over it waits for its file. */
static void a_second_lapse_in_the_middle_adds_older_bytes_under_newer_ones(void **state)
{
	struct kr_extent_map applied;

	(void)state;
	write_bytes(0, 100, 1, true);
	kr_extent_map_init(&applied);
	kr_extent_map_move(&F.original.dirty, &applied);
	write_bytes(50, 20, 2, true);
	begin();
	kr_extent_map_move(&applied, &F.original.dirty);
	write_bytes(60, 20, 3, true);
	F.watched = true;
	begin();
	answer(0);
	F.watched = false;
	assert_all_moved();
}

/* No tick comes between, and each turn of the loop takes its share. */
static void many_ranges_move_one_turn_after_the_other(void **state)
{
	(void)state;
	many_writes(1000, 1);
	begin();
	assert_null(F.posted);
	answer(0);
	while (F.posted)
		run_posted();
	assert_in_range(F.turns, 4, 100);
	assert_all_moved();
}

/* What is written later, under a lease, is not what the directory speaks of. */
static void the_directory_does_not_say_any_more_that_what_has_moved_was_refused(void **state)
{
	(void)state;
	many_writes(100, 1);
	begin();
	answer(0); /* moves the first of them */
	assert_int_equal(F.forgotten, 0);
	while (F.posted)
		run_posted();
	assert_int_equal(F.forgotten, 1);
	assert_all_moved();
}

static void what_is_discarded_in_the_middle_does_not_go_on(void **state)
{
	(void)state;
	many_writes(1000, 1);
	begin();
	answer(0);
	run_posted();
	assert_non_null(F.posted);
	kr_late_discard(&F.original);
	assert_null(F.posted);
	assert_null(F.original.flush->late);
}

static void a_second_lapse_while_the_server_is_asked_asks_once(void **state)
{
	(void)state;
	write_bytes(0, 100, 1, true);
	begin();
	write_bytes(50, 100, 2, true);
	begin();
	assert_int_equal(F.calls, 1);
	answer(0);
	assert_all_moved();
}

static void what_cannot_have_a_file_is_tried_again(void **state)
{
	int err = 0;

	(void)state;
	write_bytes(0, 100, 1, true);
	begin();
	answer(-ENOSPC);
	kr_late_step(&F.original);
	assert_int_equal(F.calls, 1);
	assert_int_equal(kr_late_bytes(F.original.flush->late, &err), 100);
	assert_int_equal(err, -ENOSPC);
	later();
	assert_int_equal(F.calls, 2);
	answer(0);
	assert_all_moved();
}

static void what_the_server_refuses_waits_to_be_discarded(void **state)
{
	(void)state;
	write_bytes(0, 100, 1, true);
	begin();
	write_bytes(50, 100, 2, true); /* a program goes on meanwhile */
	F.watched = true;
	answer(-EPERM);
	assert_null(F.original.flush->late);
	assert_int_equal(F.orphaned, 1);
	assert_int_equal(F.orphan_err, -ESTALE);
	assert_int_equal(F.original.dirty.bytes, 150);
	look_as_if_killed();
}

static void discarded_bytes_leave_the_journal(void **state)
{
	(void)state;
	write_bytes(0, 100, 1, true);
	begin();
	kr_late_discard(&F.original);
	assert_null(F.original.flush->late);
	assert_int_equal(live(), 0);
	answer(0); /* too late: it is nobody's */
	assert_true(kr_extent_map_empty(&F.target.dirty));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(without_such_bytes_nothing_happens),
		TEST(who_has_the_conflict_file_open_reads_what_moves_into_it),
		TEST(dirty_bytes_move_to_the_file_that_the_server_names),
		TEST(killed_at_any_step_no_older_byte_comes_back_over_a_newer_one),
		TEST(a_second_lapse_in_the_middle_adds_newer_bytes),
		TEST(a_second_lapse_in_the_middle_adds_older_bytes_under_newer_ones),
		TEST(many_ranges_move_one_turn_after_the_other),
		TEST(the_directory_does_not_say_any_more_that_what_has_moved_was_refused),
		TEST(what_is_discarded_in_the_middle_does_not_go_on),
		TEST(a_second_lapse_while_the_server_is_asked_asks_once),
		TEST(what_cannot_have_a_file_is_tried_again),
		TEST(what_the_server_refuses_waits_to_be_discarded),
		TEST(discarded_bytes_leave_the_journal),
	};

	kr_log_init("test_late_bytes", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

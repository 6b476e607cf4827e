/* The journal under errors of the disk and kills at its fault points (built with -Dfaults=true only). */
#include "test/unit/fuse/journal/journal_fixture.h"

#include <errno.h>
#include <sys/stat.h>
#include <sys/wait.h>

/* In another process, since one reads its fault points once: this program again, see main.  Returns its wait status. */
static int with_fault(struct fixture *f, const char *fault, const char *act)
{
	char incarnation[24];
	int status;
	pid_t child;

	kr_journal_free(f->journal);
	snprintf(incarnation, sizeof(incarnation), "%llu", (unsigned long long)++f->options.incarnation);
	child = fork();
	if (child == 0) {
		setenv("KR_FAULT", fault, 1);
		execl("/proc/self/exe", "test_journal_faults", act, f->directory, incarnation, (char *)NULL);
		_exit(2);
	}
	waitpid(child, &status, 0);
	open_journal(f);
	assert_true(kr_list_empty(&f->recovery.damage));
	return status;
}

static void append_around_an_error(struct fixture *f)
{
	if (append(f, 0, 0, 5000, 1) != 0 || append(f, 0, 100, 5000, 2) != -EIO || append(f, 0, 9000, 5000, 3) != 0)
		_exit(1);
}

static void an_append_that_fails_leaves_nothing_and_the_next_one_goes(void **state)
{
	struct fixture *f = *state;
	static const char *const faults[] = {"journal.append:eio:2", "journal.index:eio:2"};

	for (size_t i = 0; i < KR_ARRAY_SIZE(faults); i++) {
		assert_int_equal(with_fault(f, faults[i], "error"), 0);
		assert_int_equal(recovered(&f->recovery, 0)->dirty.count, 2);
		assert_int_equal(recovered(&f->recovery, 0)->dirty.bytes, 10000);
		kr_recovery_fini(&f->recovery);
	}
}

/* The active segment is dead when the disk is full: it is begun anew. */
static void append_to_a_full_disk(struct fixture *f)
{
	struct kr_journal_usage usage;

	if (append(f, 0, 0, 500000, 1) != 0)
		_exit(1);
	kr_extent_map_truncate(&f->files[0].map, 0, kr_journal_release, f->journal);
	if (append(f, 0, 100, 5000, 2) != 0)
		_exit(2);
	kr_journal_usage(f->journal, &usage);
	_exit(usage.used < 100000 ? 0 : 3);
}

static void a_full_disk_gets_the_room_of_dead_records(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(with_fault(f, "journal.append:enospc:2", "full"), 0);
	assert_int_equal(recovered(&f->recovery, 0)->dirty.bytes, 5000);
}

/* It says that it waits as long as there is anything to wait for. */
static void append_beside_live_records(struct fixture *f)
{
	struct kr_journal_usage usage;

	if (append(f, 0, 0, 5000, 1) != 0 || append(f, 0, 9000, 5000, 2) != -EAGAIN)
		_exit(1);
	kr_journal_usage(f->journal, &usage);
	if (!usage.waiting || usage.full != -ENOSPC || usage.error)
		_exit(2);
	/* The disk is not asked again by who waits, but now and then. */
	if (append(f, 0, 9000, 5000, 2) != -EAGAIN || append(f, 1, 0, 6000, 2) != -EAGAIN)
		_exit(5);
	kr_journal_try_again(f->journal);
	if (append(f, 0, 9000, 5000, 2) != -EAGAIN || append(f, 0, 9000, 5000, 2) != -EAGAIN)
		_exit(6);
	kr_extent_map_truncate(&f->files[0].map, 0, kr_journal_release, f->journal);
	if (append(f, 0, 9000, 5000, 3) != 0) /* where the first was */
		_exit(4);
}

static void a_full_disk_is_waited_for_while_the_journal_holds_bytes(void **state)
{
	struct fixture *f = *state;

	/* The second append, and the next one that tries. */
	assert_int_equal(with_fault(f, "journal.append:enospc:2,journal.append:enospc:2", "beside"), 0);
	assert_int_equal(recovered(&f->recovery, 0)->dirty.bytes, 5000);
}

static void append_to_a_full_disk_and_an_empty_journal(struct fixture *f)
{
	if (append(f, 0, 0, 5000, 1) != -ENOSPC)
		_exit(1);
}

static void a_full_disk_and_an_empty_journal_is_an_error(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(with_fault(f, "journal.append:enospc", "empty"), 0);
}

static void killed_before_and_amid_the_punches_nothing_is_damaged(void **state)
{
	struct fixture *f = *state;
	static const char *const faults[] = {"journal.punch:kill:1", "journal.punch:kill:2", "journal.punch:kill:9"};

	for (size_t k = 0; k < KR_ARRAY_SIZE(faults); k++) {
		struct kr_recovered_file *file;

		assert_true(WIFSIGNALED(with_fault(f, faults[k], "pin")));
		assert_null(recovered(&f->recovery, 0));
		file = recovered(&f->recovery, 2);
		for (uint64_t i = 0; i < file->dirty.count * 10; i++)
			f->files[2].dirty[i / 10 * 300 + i % 10] = (uint8_t)(1 + ((i / 10 + 1) * 31 + i % 10) % 255);
		assert_true(file->dirty.count > 3);
		compare_map(f->journal, &file->dirty, f->files[2].dirty);
		memset(f->files[2].dirty, 0, FILE_BYTES);
		kr_recovery_fini(&f->recovery);
		kr_journal_free(f->journal);
		directory_remove(f->directory);
		assert_int_equal(mkdir(f->directory, 0700), 0);
		open_journal(f);
	}
}

/* Segments die and are used again; exits with the number of appends that failed, each of which left what was there
 * before. */
static void write_round_and_round(struct fixture *f)
{
	int failed = 0;

	for (int i = 0; i < 100; i++)
		failed += append(f, 0, 0, 300000, (uint8_t)i) != 0;
	if (append(f, 1, 0, 5000, 9) != 0)
		failed = 255;
	kr_journal_free(f->journal);
	_exit(failed);
}

static void a_segment_that_cannot_be_used_again_costs_a_write_at_most(void **state)
{
	static const struct {
		const char *fault;
		int least, most;
	} cases[] = {
		{"journal.reuse:eio:1", 1, 1},
		{"journal.reuse:eio:2", 1, 1},
		{"journal.reuse:eio", 1, 60},
		/* room is made, and it is tried again */
		{"journal.reuse:enospc:1", 0, 0},
		{"journal.reuse:edquot:1", 0, 0},
		{"journal.reuse:enospc", 0, 0},
		{"journal.reuse:edquot", 0, 0},
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < KR_ARRAY_SIZE(cases); i++) {
		int status = with_fault(f, cases[i].fault, "round");

		assert_true(WIFEXITED(status));
		assert_in_range(WEXITSTATUS(status), cases[i].least, cases[i].most);
		assert_int_equal(recovered(&f->recovery, 0)->dirty.bytes, 300000);
		assert_int_equal(recovered(&f->recovery, 1)->dirty.bytes, 5000);
		kr_recovery_fini(&f->recovery);
		kr_journal_free(f->journal);
		directory_remove(f->directory);
		assert_int_equal(mkdir(f->directory, 0700), 0);
		open_journal(f);
	}
}

static void killed_while_a_segment_is_used_again_nothing_is_lost(void **state)
{
	struct fixture *f = *state;

	assert_true(WIFSIGNALED(with_fault(f, "journal.reuse:kill:2", "round")));
	assert_int_equal(recovered(&f->recovery, 0)->dirty.bytes, 300000);
}

/* More segments die than are kept. */
static void die_at_once(struct fixture *f)
{
	for (int i = 0; i < 7; i++)
		if (append(f, 0, (uint64_t)i << 20, 1 << 20, (uint8_t)i) != 0)
			_exit(1);
	kr_extent_map_truncate(&f->files[0].map, 0, kr_journal_release, f->journal);
	if (append(f, 1, 0, 5000, 9) != 0)
		_exit(2);
	kr_journal_free(f->journal);
	_exit(0);
}

/* ... and the disk does not let go of them: found by the next start, and nobody misses anything. */
static void segments_that_cannot_be_removed_are_no_damage_and_go_later(void **state)
{
	struct fixture *f = *state;
	int files;

	assert_int_equal(with_fault(f, "journal.remove:eio", "die"), 0);
	assert_null(recovered(&f->recovery, 0));
	assert_int_equal(recovered(&f->recovery, 1)->dirty.bytes, 5000);
	kr_recovery_fini(&f->recovery);
	files = count_files(f->directory);
	kr_journal_free(f->journal);
	open_journal(f);
	assert_true(count_files(f->directory) <= files);
	assert_true(count_files(f->directory) <= 2 * (KR_JOURNAL_SPARES + 2));
	assert_int_equal(recovered(&f->recovery, 1)->dirty.bytes, 5000);
}

static int has_clean(const struct fixture *f)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/clean", f->directory);
	return access(path, F_OK) == 0;
}

/* In peace. */
static void end_after_a_failed_sync(struct fixture *f)
{
	pin_and_fill(f);
	kr_journal_free(f->journal);
	_exit(has_clean(f) ? 1 : 0);
}

/* The kernel takes the pages of a failed sync for clean, so that the next sync of them succeeds: not asked a second
 * time, neither before data goes whose marks must be on the disk, nor for the word that all is there. */
static void a_failed_sync_is_final_for_its_segment(void **state)
{
	struct fixture *f = *state;
	struct kr_recovered_file *file;

	assert_int_equal(with_fault(f, "journal.sync:eio:1", "end"), 0);
	file = recovered(&f->recovery, 2);
	assert_non_null(file);
	assert_int_equal(file->dirty.bytes, 600);
	kr_recovery_fini(&f->recovery);
	assert_int_equal(with_fault(f, "journal.sync:eio:1000", "end"), 256); /* without an error there is the word */
}

static void append_and_apply(struct fixture *f)
{
	append(f, 0, 0, 5000, 1);
	apply(f, 0);
	append(f, 0, 1000, 5000, 2);
	make_stable(f, 0);
}

static void killed_at_any_point_the_journal_says_what_was_done(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *fault;
		uint64_t dirty;
	} cases[] = {
		{"journal.segment:kill", 0},
		{"journal.append:kill:1", 0},
		{"journal.index:kill:1", 0},
		{"journal.append:kill:2", 5000},
		{"journal.index:kill:2", 5000},
		{"journal.stable:kill", 6000},
		{"journal.mark:kill:1", 6000},
	};

	for (size_t i = 0; i < KR_ARRAY_SIZE(cases); i++) {
		struct kr_recovered_file *file;

		with_fault(f, cases[i].fault, "kill");
		file = recovered(&f->recovery, 0);
		assert_int_equal(file ? file->dirty.bytes : 0, cases[i].dirty);
		kr_recovery_fini(&f->recovery);
		kr_journal_free(f->journal);
		directory_remove(f->directory);
		assert_int_equal(mkdir(f->directory, 0700), 0);
		open_journal(f);
	}
}
/* The other process. */
static int act_with_fault(char **argv)
{
	struct fixture *f = calloc(1, sizeof(*f));

	init_fixture(f, argv[2], strtoull(argv[3], NULL, 10));
	if (strcmp(argv[1], "error") == 0)
		append_around_an_error(f);
	else if (strcmp(argv[1], "full") == 0)
		append_to_a_full_disk(f);
	else if (strcmp(argv[1], "beside") == 0)
		append_beside_live_records(f);
	else if (strcmp(argv[1], "empty") == 0)
		append_to_a_full_disk_and_an_empty_journal(f);
	else if (strcmp(argv[1], "pin") == 0)
		pin_and_fill(f);
	else if (strcmp(argv[1], "round") == 0)
		write_round_and_round(f);
	else if (strcmp(argv[1], "die") == 0)
		die_at_once(f);
	else if (strcmp(argv[1], "end") == 0)
		end_after_a_failed_sync(f);
	else
		append_and_apply(f);
	_exit(0);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(an_append_that_fails_leaves_nothing_and_the_next_one_goes),
		TEST(killed_at_any_point_the_journal_says_what_was_done),
		TEST(a_full_disk_gets_the_room_of_dead_records),
		TEST(a_full_disk_is_waited_for_while_the_journal_holds_bytes),
		TEST(a_full_disk_and_an_empty_journal_is_an_error),
		TEST(killed_before_and_amid_the_punches_nothing_is_damaged),
		TEST(a_failed_sync_is_final_for_its_segment),
		TEST(a_segment_that_cannot_be_used_again_costs_a_write_at_most),
		TEST(killed_while_a_segment_is_used_again_nothing_is_lost),
		TEST(segments_that_cannot_be_removed_are_no_damage_and_go_later),
	};

	if (argc == 4)
		return act_with_fault(argv);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

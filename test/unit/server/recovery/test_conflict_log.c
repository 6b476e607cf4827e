/* What the server remembers of late nodes and of conflicts, and the names of conflict files. */
#include "test/unit/server/session/server_fixture.h"

#include <fcntl.h>

#include "common/base/log.h"
#include "server/base/line_log.h"
#include "server/recovery/conflict_log.h"
#include "server/session/lapses.h"
#include "server/session/session.h"

/* --- what is remembered of nodes -------------------------------------------------------------- */

static void the_latest_lapse_of_a_node_counts(void **state)
{
	static const uint8_t one[16] = {1}, two[16] = {2};
	struct kr_lapse lapse = {.kind = KR_LAPSE_KNOWN, .epoch = 5};
	struct kr_lapses lapses;

	(void)state;
	kr_lapses_init(&lapses);
	assert_false(kr_lapses_find(&lapses, one, &lapse));
	kr_lapses_note(&lapses, one, &lapse);
	lapse.epoch = 9;
	kr_lapses_note(&lapses, one, &lapse);
	assert_true(kr_lapses_find(&lapses, one, &lapse));
	assert_int_equal(lapse.epoch, 9);
	assert_false(kr_lapses_find(&lapses, two, &lapse));
	kr_lapses_fini(&lapses);
}

static void of_too_many_lapses_the_oldest_goes(void **state)
{
	struct kr_lapse lapse = {.kind = KR_LAPSE_KNOWN};
	uint8_t id[16] = {0};
	struct kr_lapses lapses;

	(void)state;
	kr_lapses_init(&lapses);
	for (uint32_t i = 0; i <= KR_LAPSES_MAX; i++) {
		memcpy(id, &i, sizeof(i));
		kr_lapses_note(&lapses, id, &lapse);
	}
	memset(id, 0, sizeof(id));
	assert_false(kr_lapses_find(&lapses, id, &lapse));
	id[0] = 1;
	assert_true(kr_lapses_find(&lapses, id, &lapse));
	kr_lapses_fini(&lapses);
}

/* --- what is remembered of conflicts ---------------------------------------------------------- */

static struct kr_conflict *made_conflict(uint8_t node, uint64_t last, uint8_t target)
{
	uint8_t id[16] = {node};
	struct kr_fid file = {.length = 3, .bytes = {1, 2, 3}};
	struct kr_conflict *conflict = kr_conflict_new(id, NULL, "n", &file, 10, last);

	if (target) {
		conflict->target = (struct kr_fid){.length = 2, .bytes = {target, 7}};
		conflict->place = strdup("d/f.conflict-n");
		conflict->original = strdup("d/f");
	}
	return conflict;
}

static void conflicts_outlive_the_server_and_a_torn_line(void **state)
{
	struct fixture *f = *state;
	struct kr_conflicts conflicts;
	const struct kr_conflict *found;
	const uint8_t id[16] = {1};
	struct kr_conflict *conflict = made_conflict(1, 70, 0);
	const struct kr_fid file = conflict->file;
	int dir = open(f->directory, O_RDONLY | O_DIRECTORY), fd;

	assert_int_equal(kr_conflicts_open(&conflicts, dir), 0);
	assert_int_equal(kr_conflicts_log(&conflicts, conflict), 0);
	kr_conflict_free(conflict);
	conflict = made_conflict(1, 80, 5);
	assert_int_equal(kr_conflicts_log(&conflicts, conflict), 0);
	kr_conflict_free(conflict);
	kr_conflicts_close(&conflicts);
	fd = openat(dir, "conflicts", O_WRONLY | O_APPEND);
	assert_int_equal(write(fd, "garbage\n{\"node_id\":\"01", 22), 22);
	close(fd);
	for (int i = 0; i < 2; i++) { /* read, and written anew */
		assert_int_equal(kr_conflicts_open(&conflicts, dir), 0);
		assert_int_equal(conflicts.count, 1);
		found = kr_conflicts_find(&conflicts, id, &file, 80, 90);
		assert_non_null(found);
		assert_string_equal(found->place, "d/f.conflict-n");
		assert_int_equal(found->target.bytes[0], 5);
		assert_null(kr_conflicts_find(&conflicts, id, &file, 81, 90)); /* written after: another matter */
		kr_conflicts_close(&conflicts);
	}
	close(dir);
}

/* The disk was full for a moment. */
static void a_line_cut_short_does_not_spoil_the_next(void **state)
{
	struct fixture *f = *state;
	struct kr_conflicts conflicts;
	struct kr_conflict *conflict = made_conflict(1, 70, 0);
	const struct kr_fid file = conflict->file;
	const uint8_t id[16] = {1};
	int dir = open(f->directory, O_RDONLY | O_DIRECTORY);

	assert_int_equal(kr_conflicts_open(&conflicts, dir), 0);
	assert_int_equal(write(conflicts.fd, "{\"node_id\":\"01", 14), 14);
	assert_int_equal(kr_conflicts_log(&conflicts, conflict), 0);
	kr_conflict_free(conflict);
	kr_conflicts_close(&conflicts);
	assert_int_equal(kr_conflicts_open(&conflicts, dir), 0);
	assert_non_null(kr_conflicts_find(&conflicts, id, &file, 70, 70));
	kr_conflicts_close(&conflicts);
	close(dir);
}

static void a_server_starts_with_however_long_a_log(void **state)
{
	struct fixture *f = *state;
	struct kr_conflicts conflicts;
	struct kr_conflict *conflict = made_conflict(1, 70, 0);
	const struct kr_fid file = conflict->file;
	const uint8_t id[16] = {1};
	int dir = open(f->directory, O_RDONLY | O_DIRECTORY);
	struct stat stat;

	assert_int_equal(kr_conflicts_open(&conflicts, dir), 0);
	assert_int_equal(ftruncate(conflicts.fd, (off_t)5 * KR_LINE_LOG_MAX), 0);
	assert_int_equal(kr_conflicts_log(&conflicts, conflict), 0);
	kr_conflict_free(conflict);
	kr_conflicts_close(&conflicts);
	assert_int_equal(kr_conflicts_open(&conflicts, dir), 0);
	assert_non_null(kr_conflicts_find(&conflicts, id, &file, 70, 70));
	assert_int_equal(fstat(conflicts.fd, &stat), 0);
	assert_true(stat.st_size < 1000);
	kr_conflicts_close(&conflicts);
	close(dir);
}

static void a_target_is_new_while_its_time_is_what_it_was(void **state)
{
	struct fixture *f = *state;
	struct kr_conflicts conflicts;
	const uint8_t id[16] = {1}, other[16] = {2};
	const struct kr_time made = {.sec = 1000000000, .nsec = 999999999}, later = {.sec = 1000000001};
	struct kr_conflict *conflict = made_conflict(1, 70, 5), *unknown = made_conflict(2, 70, 5);
	const struct kr_fid target = conflict->target;
	int dir = open(f->directory, O_RDONLY | O_DIRECTORY);

	conflict->made = made;
	assert_int_equal(kr_conflicts_open(&conflicts, dir), 0);
	assert_int_equal(kr_conflicts_log(&conflicts, conflict), 0);
	assert_int_equal(kr_conflicts_log(&conflicts, unknown), 0);
	kr_conflict_free(conflict);
	kr_conflict_free(unknown);
	kr_conflicts_close(&conflicts);
	assert_int_equal(kr_conflicts_open(&conflicts, dir), 0);
	assert_true(kr_conflicts_is_new(&conflicts, id, &target, made));
	assert_false(kr_conflicts_is_new(&conflicts, id, &target, later));
	assert_false(kr_conflicts_is_new(
		&conflicts, other, &target, (struct kr_time){0})); /* it was killed before it knew */
	kr_conflicts_put(&conflicts, made_conflict(1, 80, 5));     /* the same one, and nothing of its time */
	assert_false(kr_conflicts_is_new(&conflicts, id, &target, made));
	conflict = made_conflict(1, 80, 5);
	conflict->made = made;
	kr_conflicts_put(&conflicts, conflict);
	assert_true(kr_conflicts_is_new(&conflicts, id, &target, made));
	kr_conflicts_put(&conflicts, made_conflict(1, 99, 0)); /* after which it is over */
	assert_false(kr_conflicts_is_new(&conflicts, id, &target, made));
	kr_conflicts_close(&conflicts);
	close(dir);
}

static void a_second_lapse_of_a_file_does_not_hide_the_first_conflict_file(void **state)
{
	struct fixture *f = *state;
	struct kr_conflicts conflicts;
	const uint8_t id[16] = {1};
	struct kr_conflict *second = made_conflict(1, 99, 6);
	const struct kr_fid file = second->file;
	int dir = open(f->directory, O_RDONLY | O_DIRECTORY);
	json_t *status;

	assert_int_equal(kr_conflicts_open(&conflicts, dir), 0);
	kr_conflicts_put(&conflicts, made_conflict(1, 50, 5));
	kr_conflicts_put(&conflicts, second);
	assert_ptr_equal(kr_conflicts_find(&conflicts, id, &file, 60, 61), second);
	status = kr_conflicts_status(&conflicts, NULL);
	assert_int_equal(json_array_size(status), 2);
	json_decref(status);
	assert_int_equal(kr_conflicts_files(&conflicts), 2);
	kr_conflicts_close(&conflicts);
	close(dir);
}

/* --- names ------------------------------------------------------------------------------------ */

static void long_names_are_cut_between_characters(void **state)
{
	struct kr_conflict_make make = {.node = "a/b\n", .written = {.sec = 1000000000}};
	char name[KR_NAME_MAX + 1], long_name[KR_NAME_MAX + 1] = "", expected[KR_NAME_MAX + 1];
	const char *suffix = ".conflict-a_b_-20010909T014640Z";

	(void)state;
	kr_export_conflict_name(&make, "x", 1, name);
	assert_string_equal(name, "x.conflict-a_b_-20010909T014640Z");
	kr_export_conflict_name(&make, "x", 12, name);
	assert_string_equal(name, "x.conflict-a_b_-20010909T014640Z-12");
	for (int i = 0; i < 85; i++)
		strcat(long_name, "\xe2\x82\xac");
	kr_export_conflict_name(&make, long_name, 1, name);
	snprintf(
		expected, sizeof(expected), "%.*s%s", (int)((KR_NAME_MAX - strlen(suffix)) / 3 * 3), long_name, suffix);
	assert_string_equal(name, expected);
	memset(long_name, 0xbf, KR_NAME_MAX); /* not UTF-8 at all */
	kr_export_conflict_name(&make, long_name, 1, name);
	assert_int_equal(strlen(name), KR_NAME_MAX);
}

static void put_many(struct kr_conflicts *conflicts, const struct kr_key_owner *key, uint32_t first, uint32_t count)
{
	const uint8_t id[16] = {(uint8_t)(key ? key->uid : 0)};

	for (uint32_t i = first; i < first + count; i++) {
		struct kr_fid file = {.length = 4};

		memcpy(file.bytes, &i, 4);
		kr_conflicts_put(conflicts, kr_conflict_new(id, key, "n", &file, 1, 9));
	}
}

static void nobody_pushes_others_conflicts_out(void **state)
{
	const struct kr_key_owner alice = {.kind = KR_KEY_USER, .uid = 1}, mallory = {.kind = KR_KEY_USER, .uid = 2};
	struct fixture *f = *state;
	struct kr_conflicts conflicts;
	const uint8_t node_id[16] = {0}, alice_id[16] = {1}, mallory_id[16] = {2};
	const struct kr_fid zero = {.length = 4};
	int dir = open(f->directory, O_RDONLY | O_DIRECTORY);

	assert_int_equal(kr_conflicts_open(&conflicts, dir), 0);
	put_many(&conflicts, NULL, 0, 100);
	put_many(&conflicts, &alice, 0, 1);
	put_many(&conflicts, &mallory, 0, KR_CONFLICTS_MAX);
	assert_int_equal(conflicts.count, KR_CONFLICTS_MAX);
	assert_non_null(kr_conflicts_find(&conflicts, node_id, &zero, 1, 9));
	assert_non_null(kr_conflicts_find(&conflicts, alice_id, &zero, 1, 9));
	assert_null(kr_conflicts_find(&conflicts, mallory_id, &zero, 1, 9));
	kr_conflicts_close(&conflicts);
	close(dir);
}

static void the_log_does_not_grow_beyond_what_counts(void **state)
{
	const struct kr_key_owner mallory = {.kind = KR_KEY_USER, .uid = 2};
	struct kr_conflicts conflicts;
	const uint8_t id[16] = {2};
	const struct kr_fid file = {.length = 4};
	char path[] = "/dev/shm/kairan-conflicts-XXXXXX"; /* each line is synced */
	int dir = open(mkdtemp(path), O_RDONLY | O_DIRECTORY);
	struct stat stat;

	(void)state;
	assert_int_equal(kr_conflicts_open(&conflicts, dir), 0);
	for (uint64_t last = 10; last < 10 + 3 * KR_CONFLICTS_SPARE; last++) {
		struct kr_conflict *conflict = kr_conflict_new(id, &mallory, "n", &file, 10, last);

		assert_int_equal(kr_conflicts_log(&conflicts, conflict), 0);
		kr_conflict_free(conflict);
	}
	assert_int_equal(fstat(conflicts.fd, &stat), 0);
	assert_true(stat.st_size < (off_t)(KR_CONFLICTS_SPARE + 2) * 200);
	kr_conflicts_close(&conflicts);
	assert_int_equal(kr_conflicts_open(&conflicts, dir), 0);
	assert_int_equal(conflicts.count, 1);
	assert_non_null(kr_conflicts_find(&conflicts, id, &file, 9 + 3 * KR_CONFLICTS_SPARE, UINT64_MAX));
	assert_int_equal(KR_LIST_ENTRY(conflicts.order.head.next, struct kr_conflict, order)->key.uid, 2);
	kr_conflicts_close(&conflicts);
	unlinkat(dir, "conflicts", 0);
	close(dir);
	assert_int_equal(rmdir(path), 0);
}

/* Rounds that were applied before the lapse are another matter. */
static void a_conflict_covers_the_bytes_that_were_declared(void **state)
{
	struct fixture *f = *state;
	struct kr_conflicts conflicts;
	struct kr_conflict *conflict = made_conflict(1, 70, 0);
	const struct kr_fid file = conflict->file;
	const uint8_t id[16] = {1};
	int dir = open(f->directory, O_RDONLY | O_DIRECTORY);

	assert_int_equal(kr_conflicts_open(&conflicts, dir), 0);
	assert_int_equal(kr_conflicts_log(&conflicts, conflict), 0);
	kr_conflict_free(conflict);
	for (int i = 0; i < 2; i++) {
		kr_conflicts_close(&conflicts);
		assert_int_equal(kr_conflicts_open(&conflicts, dir), 0);
		assert_null(kr_conflicts_find(&conflicts, id, &file, 1, 9));
		assert_non_null(kr_conflicts_find(&conflicts, id, &file, 1, 10));
		assert_non_null(kr_conflicts_present(&conflicts, id, &file, 1));
		assert_null(kr_conflicts_present(&conflicts, id, &file, 71));
	}
	kr_conflicts_close(&conflicts);
	close(dir);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		cmocka_unit_test(the_latest_lapse_of_a_node_counts),
		cmocka_unit_test(of_too_many_lapses_the_oldest_goes),
		cmocka_unit_test(long_names_are_cut_between_characters),
		TEST(conflicts_outlive_the_server_and_a_torn_line),
		TEST(a_line_cut_short_does_not_spoil_the_next),
		TEST(a_server_starts_with_however_long_a_log),
		TEST(nobody_pushes_others_conflicts_out),
		TEST(the_log_does_not_grow_beyond_what_counts),
		TEST(a_conflict_covers_the_bytes_that_were_declared),
		TEST(a_target_is_new_while_its_time_is_what_it_was),
		TEST(a_second_lapse_of_a_file_does_not_hide_the_first_conflict_file),
	};

	kr_log_init("test_conflicts", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

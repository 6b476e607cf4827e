/* Which unflushed bytes `kairan flush` waits for. */
#include "tools/flush_goal.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* A status with one file. Owned. */
static json_t *status_of(const char *file, int conflict_files)
{
	json_t *parsed = json_loads(file, 0, NULL);

	assert_non_null(parsed);
	return json_pack("{s:[o], s:i}", "files", parsed, "conflict_files", conflict_files);
}

/* Whether FILE is waited for CONFLICT_FILES after a flush that began with one file, which is named f. */
static bool is_due(const char *first, const char *file, int conflict_files)
{
	json_t *before = status_of(first, 3), *status = status_of(file, 3 + conflict_files);
	struct kr_flush_goal *due = kr_flush_goal_new(before);
	bool result = kr_flush_goal_has(due, status, json_array_get(json_object_get(status, "files"), 0));

	kr_flush_goal_free(due);
	json_decref(before);
	json_decref(status);
	return result;
}

#define FILE_OF(fid, state, written, safe) \
	"{\"fid\": \"" fid "\", \"state\": \"" state "\", \"written\": " #written ", \"safe\": " #safe "}"

static void what_was_written_before_is_waited_for(void **state)
{
	(void)state;
	assert_true(is_due(FILE_OF("f", "dirty", 7, 0), FILE_OF("f", "dirty", 7, 0), 0));
	assert_true(is_due(FILE_OF("f", "dirty", 7, 0), FILE_OF("f", "flushing", 9, 6), 0));
	assert_true(is_due(FILE_OF("f", "unstable", 7, 5), FILE_OF("f", "refused", 9, 0), 0));
	assert_true(is_due(FILE_OF("f", "dirty", 7, 0), FILE_OF("f", "orphaned", 7, 0), 0));
}

static void what_is_written_meanwhile_is_not(void **state)
{
	(void)state;
	assert_false(is_due(FILE_OF("f", "dirty", 7, 0), FILE_OF("f", "dirty", 9, 7), 0));
	assert_false(is_due(FILE_OF("f", "dirty", 7, 0), FILE_OF("f", "unstable", 9, 8), 0));
	assert_false(is_due(FILE_OF("f", "dirty", 7, 0), FILE_OF("new", "dirty", 9, 0), 0));
}

static void late_bytes_may_be_in_any_new_file(void **state)
{
	(void)state;
	assert_true(is_due(FILE_OF("f", "dirty", 7, 0), FILE_OF("f", "conflict", 7, 7), 0));
	assert_true(is_due(FILE_OF("f", "dirty", 7, 0), FILE_OF("new", "dirty", 9, 0), 1));
	assert_false(is_due(FILE_OF("f", "dirty", 7, 0), FILE_OF("f", "dirty", 9, 7), 1));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_was_written_before_is_waited_for),
		cmocka_unit_test(what_is_written_meanwhile_is_not),
		cmocka_unit_test(late_bytes_may_be_in_any_new_file),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

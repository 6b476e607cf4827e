/* The memory of executed requests: beyond a restart, not beyond a boot, the latest only. */
#include "server/executed.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static const uint8_t boot[16] = "boot", other_boot[16] = "another";
static char path[64];
static int dir;

static struct kr_executed_key key_of(uint64_t request)
{
	return (struct kr_executed_key){.node_id = "node", .incarnation = 3, .request = request};
}

static int setup(void **state)
{
	(void)state;
	strcpy(path, "/tmp/kr-test-executed-XXXXXX");
	assert_non_null(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY);
	return dir < 0;
}

static int teardown(void **state)
{
	(void)state;
	unlinkat(dir, "executed", 0);
	close(dir);
	return rmdir(path);
}

static enum kr_executed_phase phase_of(struct kr_executed *executed, uint64_t request, int *ret_err, uint64_t *ret_value)
{
	struct kr_executed_key key = key_of(request);

	return kr_executed_find(executed, &key, ret_err, ret_value);
}

static void remembers_beyond_a_restart_but_not_beyond_a_boot(void **state)
{
	struct kr_executed_key done = key_of(1), failed = key_of(2), begun = key_of(3), other = key_of(1);
	struct kr_executed *executed;
	uint64_t value = 0;
	int err = 0;

	(void)state;
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	kr_executed_begin(executed, &done, false);
	kr_executed_begin(executed, &failed, false);
	kr_executed_begin(executed, &begun, false);
	kr_executed_end(executed, &done, 0, 77);
	kr_executed_end(executed, &failed, -ENOENT, 0);
	kr_executed_close(executed);

	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_DONE);
	assert_int_equal(err, 0);
	assert_int_equal(value, 77);
	assert_int_equal(phase_of(executed, 2, &err, &value), KR_EXECUTED_DONE);
	assert_int_equal(err, -ENOENT);
	assert_int_equal(phase_of(executed, 3, &err, &value), KR_EXECUTED_BEGUN);
	assert_int_equal(phase_of(executed, 4, &err, &value), KR_EXECUTED_UNKNOWN);
	other.incarnation++;
	assert_int_equal(kr_executed_find(executed, &other, &err, &value), KR_EXECUTED_UNKNOWN);
	kr_executed_close(executed);

	assert_int_equal(kr_executed_open(dir, other_boot, &executed), 0);
	assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_UNKNOWN);
	kr_executed_close(executed);
}

static void forgets_the_oldest_first(void **state)
{
	struct kr_executed *executed;
	uint64_t value = 0;
	int err = 0;

	(void)state;
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	for (uint64_t i = 1; i <= KR_EXECUTED_SLOTS; i++) {
		struct kr_executed_key key = key_of(i);

		kr_executed_begin(executed, &key, false);
	}
	kr_executed_close(executed);
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_BEGUN);
	kr_executed_begin(executed, &(struct kr_executed_key){.request = 9}, false);
	assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_UNKNOWN);
	assert_int_equal(phase_of(executed, 2, &err, &value), KR_EXECUTED_BEGUN);
	kr_executed_close(executed);
}

static void what_is_not_there_was_never_begun_unless_it_may_be_forgotten(void **state)
{
	struct kr_executed_key key = key_of(2), earlier = key_of(1), of_another = {.node_id = "other", .incarnation = 3, .request = 1},
		of_another_start = key_of(1);
	struct kr_executed *executed;

	(void)state;
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	assert_false(kr_executed_inherited(executed));
	assert_true(kr_executed_never(executed, &key));
	for (uint64_t i = 0; i < KR_EXECUTED_SLOTS; i++)
		kr_executed_begin(executed, &of_another, false);
	of_another_start.incarnation--;
	kr_executed_begin(executed, &of_another_start, false);
	assert_false(kr_executed_never(executed, &key));
	kr_executed_begin(executed, &earlier, false);
	assert_true(kr_executed_never(executed, &key));
	kr_executed_close(executed);
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	assert_true(kr_executed_inherited(executed));
	assert_true(kr_executed_never(executed, &key));
	kr_executed_close(executed);
}

/* A repetition that is cut short, too, leaves what is known of the first. */
static void a_turn_that_was_cut_short_stays_in_doubt(void **state)
{
	struct kr_executed_key cut_short = key_of(1), unknown = key_of(2);
	struct kr_executed *executed;
	uint64_t value = 0;
	int err = 0;

	(void)state;
	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	kr_executed_begin(executed, &cut_short, false);
	kr_executed_turn(executed, &cut_short, 77);
	kr_executed_begin(executed, &cut_short, true);
	kr_executed_begin(executed, &unknown, true);
	kr_executed_close(executed);

	assert_int_equal(kr_executed_open(dir, boot, &executed), 0);
	assert_int_equal(phase_of(executed, 1, &err, &value), KR_EXECUTED_TURN);
	assert_int_equal(value, 77);
	assert_int_equal(phase_of(executed, 2, &err, &value), KR_EXECUTED_DOUBT);
	kr_executed_turn(executed, &unknown, 78);
	assert_int_equal(phase_of(executed, 2, &err, &value), KR_EXECUTED_TURN);
	kr_executed_no_turn(executed, &unknown, KR_EXECUTED_DOUBT);
	assert_int_equal(phase_of(executed, 2, &err, &value), KR_EXECUTED_DOUBT);
	kr_executed_end(executed, &cut_short, 0, 79);
	assert_true(kr_executed_by_other(executed, &unknown, 79));
	assert_false(kr_executed_by_other(executed, &cut_short, 79));
	kr_executed_close(executed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(remembers_beyond_a_restart_but_not_beyond_a_boot, setup, teardown),
		cmocka_unit_test_setup_teardown(a_turn_that_was_cut_short_stays_in_doubt, setup, teardown),
		cmocka_unit_test_setup_teardown(forgets_the_oldest_first, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_not_there_was_never_begun_unless_it_may_be_forgotten, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

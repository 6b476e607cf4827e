/* What a start of the server makes of how the one before has ended. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/util.h"
#include "server/base/clean_shutdown.h"

static const uint8_t this_machine[16] = {1}, next_machine[16] = {2}, last_machine[16] = {3};
static uint8_t fresh[16]; /* of the latest start */

static struct kr_clean_shutdown began(const uint8_t machine[16])
{
	struct kr_clean_shutdown nothing = {0};

	fresh[0]++;
	return kr_clean_shutdown_start(&nothing, machine, fresh, true);
}

static struct kr_clean_shutdown stopped(struct kr_clean_shutdown shutdown)
{
	assert_int_equal(shutdown.state, KR_CLEAN_SHUTDOWN_SERVING);
	shutdown.state = KR_CLEAN_SHUTDOWN_STOPPED;
	return shutdown;
}

static struct kr_clean_shutdown started(struct kr_clean_shutdown found, const uint8_t machine[16])
{
	fresh[0]++;
	return kr_clean_shutdown_start(&found, machine, fresh, false);
}

static void assert_new(const struct kr_clean_shutdown *shutdown)
{
	assert_memory_equal(shutdown->boot, fresh, 16);
}

static void assert_goes_on(const struct kr_clean_shutdown *shutdown, const struct kr_clean_shutdown *former)
{
	assert_memory_equal(shutdown->boot, former->boot, 16);
}

static void a_boot_id_goes_on_over_boots_after_clean_shutdowns(void **state)
{
	const struct kr_clean_shutdown first = began(this_machine);
	struct kr_clean_shutdown shutdown;

	(void)state;
	assert_new(&first);
	shutdown = started(stopped(first), this_machine);
	assert_goes_on(&shutdown, &first);
	shutdown = started(stopped(shutdown), next_machine);
	assert_goes_on(&shutdown, &first);
	assert_memory_equal(shutdown.machine, next_machine, 16);
	shutdown = started(stopped(shutdown), last_machine);
	assert_goes_on(&shutdown, &first);
	assert_int_equal(shutdown.state, KR_CLEAN_SHUTDOWN_SERVING);
}

/* Also where the machine that starts has been up all the time, and its id is that of a former server. */
static void a_loss_of_power_makes_another(void **state)
{
	const struct kr_clean_shutdown lost = started(began(this_machine), next_machine);
	struct kr_clean_shutdown shutdown;

	(void)state;
	assert_new(&lost);
	shutdown = started(stopped(lost), last_machine);
	assert_goes_on(&shutdown, &lost);
	shutdown = started(shutdown, this_machine);
	assert_new(&shutdown);
}

static void after_a_kill_the_boot_id_goes_on_until_the_machine_boots(void **state)
{
	const struct kr_clean_shutdown first = began(this_machine);
	struct kr_clean_shutdown shutdown = started(started(stopped(first), next_machine), next_machine);

	(void)state;
	assert_goes_on(&shutdown, &first);
	assert_int_equal(shutdown.state, KR_CLEAN_SHUTDOWN_KILLED);
	shutdown = started(shutdown, next_machine);
	assert_goes_on(&shutdown, &first);
	assert_int_equal(shutdown.state, KR_CLEAN_SHUTDOWN_KILLED);
	shutdown = started(shutdown, last_machine);
	assert_new(&shutdown);
	assert_int_equal(shutdown.state, KR_CLEAN_SHUTDOWN_SERVING);
}

static void after_a_sync_that_has_failed_the_next_start_has_an_id_of_its_own(void **state)
{
	struct kr_clean_shutdown failed = began(this_machine), shutdown;

	(void)state;
	failed.state = KR_CLEAN_SHUTDOWN_FAILED;
	shutdown = started(failed, next_machine);
	assert_new(&shutdown);
	failed = started(failed, this_machine);
	assert_new(&failed);
	assert_memory_equal(failed.machine, this_machine, 16);
	shutdown = started(stopped(failed), next_machine);
	assert_goes_on(&shutdown, &failed);
}

static void an_unknown_end_was_no_clean_shutdown(void **state)
{
	static const char *const damaged[] = {
		"",
		"stopped",
		"01000000000000000000000000000000 01000000000000000000000000000000 stopped",
		"01000000000000000000000000000000 0100000000000000000000000000000 stopped\n",
		"01000000000000000000000000000000 01000000000000000000000000000000 stoppe\n",
		"01000000000000000000000000000000 01000000000000000000000000000000 stopped\n\n",
		"01000000000000000000000000000000 01000000000000000000000000000000 stopped and more than that, much more than that\n",
		"x1000000000000000000000000000000 01000000000000000000000000000000 stopped\n",
	};
	char directory[] = "/tmp/kr-test-shutdown-XXXXXX";
	struct kr_clean_shutdown shutdown = stopped(began(this_machine)), found, next;
	int dir;

	(void)state;
	assert_non_null(mkdtemp(directory));
	dir = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(kr_clean_shutdown_read(dir, &found), 0);
	assert_int_equal(found.state, KR_CLEAN_SHUTDOWN_UNKNOWN);
	assert_int_equal(started(found, this_machine).state, KR_CLEAN_SHUTDOWN_KILLED);
	assert_int_equal(kr_clean_shutdown_write(dir, &shutdown), 0);
	assert_int_equal(kr_clean_shutdown_read(dir, &found), 0);
	assert_int_equal(found.state, KR_CLEAN_SHUTDOWN_STOPPED);
	assert_goes_on(&found, &shutdown);
	for (size_t i = 0; i < KR_ARRAY_SIZE(damaged); i++) {
		assert_int_equal(kr_write_file(dir, "peace", damaged[i], strlen(damaged[i]), 0600), 0);
		assert_int_equal(kr_clean_shutdown_read(dir, &found), 0);
		assert_int_equal(found.state, KR_CLEAN_SHUTDOWN_UNKNOWN);
		next = started(found, next_machine);
		assert_new(&next);
	}
	assert_int_equal(unlinkat(dir, "peace", 0), 0);
	close(dir);
	rmdir(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_boot_id_goes_on_over_boots_after_clean_shutdowns),
		cmocka_unit_test(a_loss_of_power_makes_another),
		cmocka_unit_test(after_a_kill_the_boot_id_goes_on_until_the_machine_boots),
		cmocka_unit_test(after_a_sync_that_has_failed_the_next_start_has_an_id_of_its_own),
		cmocka_unit_test(an_unknown_end_was_no_clean_shutdown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Fault points, compiled in here whatever the build's option says.  Each case is a child with its own environment. */
#ifndef KR_FAULTS
#define KR_FAULTS
#endif
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/fault.c"

/* Passes POINT five times in a child; returns its wait status. The exit code has bit i set where pass i failed so. */
static int pass_in_child(const char *environment, const char *point, int expected_err)
{
	int status, failed = 0;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		close(STDERR_FILENO);
		setenv("KR_FAULT", environment, 1);
		for (int i = 0; i < 5; i++)
			failed |= KR_FAULT(point) == expected_err ? 1 << i : 0;
		_exit(failed);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void a_point_without_an_order_passes(void **state)
{
	(void)state;
	assert_int_equal(WEXITSTATUS(pass_in_child("", "a", 0)), 31);
	assert_int_equal(WEXITSTATUS(pass_in_child("b:eio", "a", 0)), 31);
}

static void errors_come_always_or_on_the_counted_pass(void **state)
{
	(void)state;
	assert_int_equal(WEXITSTATUS(pass_in_child("x:kill,a:eio", "a", -EIO)), 31);
	assert_int_equal(WEXITSTATUS(pass_in_child("a:enospc:3", "a", -ENOSPC)), 4);
	assert_int_equal(WEXITSTATUS(pass_in_child("a:edquot:1,a:eio:2", "a", -EDQUOT)), 1);
	assert_int_equal(WEXITSTATUS(pass_in_child("a:delay-1:2", "a", 0)), 31);
}

static void the_item_in_a_file_counts_while_it_is_there(void **state)
{
	char path[] = "/tmp/kairan-fault-XXXXXX", environment[64];
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	snprintf(environment, sizeof environment, "@%s", path);
	assert_int_equal(WEXITSTATUS(pass_in_child(environment, "a", 0)), 31);
	assert_int_equal(write(fd, "b:hold\n", 7), 7); /* of another point */
	assert_int_equal(WEXITSTATUS(pass_in_child(environment, "a", 0)), 31);
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_int_equal(pwrite(fd, "a:eio\n", 6, 0), 6);
	assert_int_equal(WEXITSTATUS(pass_in_child(environment, "a", -EIO)), 31);
	assert_int_equal(WEXITSTATUS(pass_in_child(environment, "b", -EIO)), 0);
	assert_int_equal(pwrite(fd, "a:eio:1\n", 8, 0), 8);
	assert_int_equal(WEXITSTATUS(pass_in_child(environment, "a", -EIO)), 1);
	assert_int_equal(access(path, F_OK), -1); /* taken */
	assert_int_equal(WEXITSTATUS(pass_in_child(environment, "a", 0)), 31);
	close(fd);
}

static void kill_is_sigkill(void **state)
{
	int status = pass_in_child("a:kill:5", "a", 0);

	(void)state;
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGKILL);
}

static void nonsense_aborts(void **state)
{
	static const char *const cases[] = {"a", "a:explode", ":eio:x", "a:hold"};

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(cases); i++) {
		int status = pass_in_child(cases[i], "a", 0);

		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGABRT);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_point_without_an_order_passes),
		cmocka_unit_test(errors_come_always_or_on_the_counted_pass),
		cmocka_unit_test(the_item_in_a_file_counts_while_it_is_there),
		cmocka_unit_test(kill_is_sigkill),
		cmocka_unit_test(nonsense_aborts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

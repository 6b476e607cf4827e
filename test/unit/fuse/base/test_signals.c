/* What is pending for a program, by its status in /proc, and what that means for what it waits for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuse/base/signals.h"

#define BIT(number) (UINT64_C(1) << ((number)-1))

struct sets {
	uint64_t thread, process, blocked, ignored, caught;
};

static enum kr_signals of(struct sets sets)
{
	char text[512];

	snprintf(text, sizeof(text),
		"Name:\tSigPnd: 1\nThreads:\t1\nSigQ:\t3/7\nSigPnd:\t%016" PRIx64 "\nShdPnd:\t%016" PRIx64
		"\nSigBlk:\t%016" PRIx64 "\nSigIgn:\t%016" PRIx64 "\nSigCgt:\t%016" PRIx64 "\nCapInh:\t0\n",
		sets.thread, sets.process, sets.blocked, sets.ignored, sets.caught);
	return kr_signals_parse(text);
}

static void what_kills_is_deadly(void **state)
{
	(void)state;
	assert_int_equal(of((struct sets){.thread = BIT(SIGKILL)}), KR_SIGNALS_DEADLY);
	assert_int_equal(of((struct sets){.thread = BIT(SIGKILL), .process = BIT(SIGALRM), .caught = BIT(SIGALRM)}),
		KR_SIGNALS_DEADLY);
	assert_int_equal(of((struct sets){.process = BIT(SIGQUIT)}),
		KR_SIGNALS_DEADLY); /* dumps core: no SIGKILL is made of it */
	assert_int_equal(of((struct sets){.process = BIT(SIGUSR1), .caught = BIT(SIGINT)}), KR_SIGNALS_DEADLY);
}

static void a_request_to_end_with_a_handler_ends_it_later(void **state)
{
	static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

	(void)state;
	for (size_t i = 0; i < sizeof(ending) / sizeof(ending[0]); i++)
		assert_int_equal(
			of((struct sets){.process = BIT(ending[i]), .caught = BIT(ending[i])}), KR_SIGNALS_END);
}

static void a_timer_a_child_or_a_stop_does_not_end_it(void **state)
{
	uint64_t caught = BIT(SIGALRM) | BIT(SIGCHLD) | BIT(SIGURG) | BIT(SIGPROF) | BIT(SIGUSR1) | BIT(64);

	(void)state;
	assert_int_equal(of((struct sets){0}), KR_SIGNALS_OTHER); /* another thread has taken it */
	assert_int_equal(of((struct sets){.thread = caught, .process = caught, .caught = caught}), KR_SIGNALS_OTHER);
	assert_int_equal(of((struct sets){.process = BIT(SIGTSTP) | BIT(SIGCHLD) | BIT(SIGWINCH)}), KR_SIGNALS_OTHER);
	assert_int_equal(of((struct sets){.process = BIT(SIGINT), .blocked = BIT(SIGINT)}), KR_SIGNALS_OTHER);
	assert_int_equal(of((struct sets){.process = BIT(SIGINT), .ignored = BIT(SIGINT)}), KR_SIGNALS_OTHER);
}

static void who_is_not_seen_may_be_ending(void **state)
{
	(void)state;
	assert_int_equal(kr_signals_parse(""), KR_SIGNALS_END);
	assert_int_equal(kr_signals_parse("Name:\tx\nSigPnd:\t0\nShdPnd:\t0\n"), KR_SIGNALS_END);
	assert_int_equal(kr_signals_pending(0), KR_SIGNALS_END);
	assert_int_equal(kr_signals_pending(-1), KR_SIGNALS_END);
}

static void a_running_program_is_read(void **state)
{
	pid_t child = fork();

	(void)state;
	if (child == 0)
		for (;;)
			pause();
	assert_true(child > 0);
	assert_int_equal(kr_signals_pending(child), KR_SIGNALS_OTHER);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	assert_int_equal(kr_signals_pending(child), KR_SIGNALS_END); /* gone */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_kills_is_deadly),
		cmocka_unit_test(a_request_to_end_with_a_handler_ends_it_later),
		cmocka_unit_test(a_timer_a_child_or_a_stop_does_not_end_it),
		cmocka_unit_test(who_is_not_seen_may_be_ending),
		cmocka_unit_test(a_running_program_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

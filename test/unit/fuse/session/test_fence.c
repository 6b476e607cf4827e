/* Fencing against clocks that jump: the test's own clocks stand in for the kernel's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <time.h>

#include "fuse/session/fence.h"
#include "fuse/session/server_clock.h"

static uint64_t boot_ns, real_ns;

/* In place of libc's. */
int clock_gettime(clockid_t clock, struct timespec *ret)
{
	uint64_t ns = clock == CLOCK_BOOTTIME ? boot_ns : real_ns;

	if (clock != CLOCK_BOOTTIME && clock != CLOCK_REALTIME) {
		errno = EINVAL; /* nothing of the kind may be asked for */
		return -1;
	}
	*ret = (struct timespec){.tv_sec = (time_t)(ns / KR_NS_PER_S), .tv_nsec = (long)(ns % KR_NS_PER_S)};
	return 0;
}

static void set(uint64_t boot_s, uint64_t real_s)
{
	boot_ns = boot_s * KR_NS_PER_S;
	real_ns = real_s * KR_NS_PER_S;
}

static void a_set_clock_neither_fences_nor_frees(void **state)
{
	struct kr_mount mount = {0};

	(void)state;
	set(1000, 5000);
	mount.fence_at_ns = kr_fence_after(kr_clock_ns(), 20000);
	set(1014, 1);
	assert_false(kr_mount_fenced(&mount));
	set(1014, 900000);
	assert_false(kr_mount_fenced(&mount));
	set(1015, 1);
	assert_true(kr_mount_fenced(&mount));
}

static void sleep_counts(void **state)
{
	struct kr_mount mount = {0};

	(void)state;
	set(1000, 5000);
	mount.fence_at_ns = kr_fence_after(kr_clock_ns(), 20000);
	set(1000 + 3600, 5000 + 3600); /* suspended: only BOOTTIME tells, and no code of ours ran */
	assert_true(kr_mount_fenced(&mount));
}

/* What was sent at S is read by the server at R >= S, which gives up at R + LEASE, by a clock that may run a quarter
 * faster. */
static void a_node_is_fenced_before_the_server_gives_it_up(void **state)
{
	(void)state;
	for (uint32_t lease_ms = 100; lease_ms < 100000; lease_ms = lease_ms * 3 / 2 + 1) {
		for (uint64_t on_the_way = 0; on_the_way < lease_ms; on_the_way += lease_ms / 7 + 1) {
			uint64_t sent = 77 * KR_NS_PER_S, heard = sent + on_the_way * KR_NS_PER_MS;
			uint64_t fenced = kr_fence_after(sent, lease_ms), given_up = heard + lease_ms * KR_NS_PER_MS;

			assert_true(fenced < given_up);
			assert_true(fenced - sent <= (given_up - heard) / 4 * 3);
		}
	}
}

static void an_answer_to_an_old_ping_does_not_free_a_fenced_node(void **state)
{
	struct kr_mount mount = {0};
	uint64_t sent;

	(void)state;
	set(1000, 0);
	sent = kr_clock_ns();
	set(1030, 0); /* stopped in between: the answer had come, and was not read */
	mount.fence_at_ns = kr_fence_after(sent, 20000);
	assert_true(kr_mount_fenced(&mount));
}

static void the_servers_clock_is_followed_and_never_overtaken(void **state)
{
	const int64_t ahead = 1000000;
	int64_t offset = 0;

	(void)state;
	/* Answered after 50, and it showed the clock of the 10th: the least that can be is taken, so that nothing lies
	 * in its future. */
	offset = kr_server_clock_offset(offset, 100, 150, ahead + 110);
	assert_int_equal(offset, ahead - 40);
	/* A quicker answer tells more. */
	offset = kr_server_clock_offset(offset, 200, 205, ahead + 203);
	assert_int_equal(offset, ahead - 2);
	/* Slow ones tell nothing, whichever way was slow. */
	offset = kr_server_clock_offset(offset, 300, 900, ahead + 301);
	offset = kr_server_clock_offset(offset, 1000, 1900, ahead + 1890);
	assert_int_equal(offset, ahead - 2);
	/* A clock that is set is followed at once, back and forth. */
	offset = kr_server_clock_offset(offset, 2000, 2003, ahead + 2001 - 500);
	assert_int_equal(offset, ahead - 502);
	offset = kr_server_clock_offset(offset, 3000, 3003, ahead + 3001);
	assert_int_equal(offset, ahead - 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_set_clock_neither_fences_nor_frees),
		cmocka_unit_test(sleep_counts),
		cmocka_unit_test(the_servers_clock_is_followed_and_never_overtaken),
		cmocka_unit_test(a_node_is_fenced_before_the_server_gives_it_up),
		cmocka_unit_test(an_answer_to_an_old_ping_does_not_free_a_fenced_node),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

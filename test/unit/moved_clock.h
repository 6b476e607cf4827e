/* A clock that the test moves: included in one file of a test program, it stands in for libc's clock_gettime, and so for all
 * that asks how late it is, libuv's timers as well.  What is to take a lease time takes a few steps of the test instead, and
 * since time passes otherwise as slowly as the test runs, leases may be as long as in production: a busy machine does not end
 * them.  CLOCK_REALTIME stays what it is.  moved_clock_ns is changed by the test's thread only, and read by all.
 */
#ifndef KR_TEST_MOVED_CLOCK_H
#define KR_TEST_MOVED_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic uint64_t moved_clock_ns;

int clock_gettime(clockid_t clock, struct timespec *now)
{
	enum { NS_PER_S = 1000000000 };
	uint64_t ns;

	if (syscall(SYS_clock_gettime, clock, now) < 0)
		return -1;
	if (clock != CLOCK_BOOTTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE)
		return 0;
	ns = (uint64_t)now->tv_nsec + moved_clock_ns;
	now->tv_sec += (time_t)(ns / NS_PER_S);
	now->tv_nsec = (long)(ns % NS_PER_S);
	return 0;
}

static inline void move_clock(uint64_t ms)
{
	moved_clock_ns += ms * 1000000;
}

#endif

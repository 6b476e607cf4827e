/* A clock that the test moves: included in one file of a test program, it stands in for libc's clock_gettime, and so
 * for all that asks how late it is, libuv's timers as well.  What is to take a lease time takes a few steps of the test
 * instead, and since time passes otherwise as slowly as the test runs, leases may be as long as in production: a busy
 * machine does not end them.  Where even that is too much it can be stopped.  CLOCK_REALTIME stays what it is.
 * moved_clock_ns is changed by the test's thread only, and read by all.
 */
#ifndef KR_TEST_MOVED_CLOCK_H
#define KR_TEST_MOVED_CLOCK_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CLOCK_NS_PER_S = 1000000000 };
static _Atomic uint64_t moved_clock_ns, stopped_clock_ns; /* when it was stopped, by CLOCK_MONOTONIC; 0: it goes */

static inline uint64_t unmoved_clock_ns(clockid_t clock)
{
	struct timespec now = {0};

	syscall(SYS_clock_gettime, clock, &now);
	return (uint64_t)now.tv_sec * CLOCK_NS_PER_S + (uint64_t)now.tv_nsec;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	uint64_t ns, stopped = stopped_clock_ns;

	if (clock != CLOCK_BOOTTIME && clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE)
		return (int)syscall(SYS_clock_gettime, clock, now);
	ns = unmoved_clock_ns(clock) + moved_clock_ns;
	if (stopped)
		ns -= unmoved_clock_ns(CLOCK_MONOTONIC) - stopped;
	now->tv_sec = (time_t)(ns / CLOCK_NS_PER_S);
	now->tv_nsec = (long)(ns % CLOCK_NS_PER_S);
	return 0;
}

/* No timer is due any more, but for what move_clock makes so. */
static inline void stop_clock(void)
{
	stopped_clock_ns = unmoved_clock_ns(CLOCK_MONOTONIC);
}

static inline void start_clock(void)
{
	moved_clock_ns -= unmoved_clock_ns(CLOCK_MONOTONIC) - stopped_clock_ns;
	stopped_clock_ns = 0;
}

static inline void move_clock(uint64_t ms)
{
	moved_clock_ns += ms * 1000000;
}

#endif

/* Preloaded into a daemon: sets its clocks.  KR_CLOCKS is a file of two numbers of 8 bytes, seconds that CLOCK_REALTIME
 * and CLOCK_BOOTTIME are ahead of the machine's; they may be changed while the daemon runs.  Timers of the kernel go by
 * the machine's. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t *ahead_s;

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("KR_CLOCKS");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *page = fd >= 0 ? mmap(NULL, 16, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;

	if (page != MAP_FAILED)
		ahead_s = page;
	if (fd >= 0)
		close(fd);
}

int clock_gettime(clockid_t id, struct timespec *ret_time)
{
	int err = (int)syscall(SYS_clock_gettime, id, ret_time);

	if (err == 0 && ahead_s && (id == CLOCK_REALTIME || id == CLOCK_BOOTTIME))
		ret_time->tv_sec += ahead_s[id == CLOCK_BOOTTIME];
	return err;
}

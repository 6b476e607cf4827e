#include "common/base/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "common/base/util.h"

static json_int_t resident_bytes(void)
{
	KR_AUTO_FD int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	char text[128] = "";
	unsigned long resident = 0;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0 || sscanf(text, "%*u %lu", &resident) != 1)
		return 0;
	return (json_int_t)resident * sysconf(_SC_PAGESIZE);
}

static json_int_t cpu_ms(void)
{
	struct rusage usage;

	if (getrusage(RUSAGE_SELF, &usage) < 0)
		return 0;
	return (json_int_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
		(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

uint64_t kr_runnable_ns(const char *path)
{
	KR_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);
	char text[128] = "";
	uint64_t runnable = 0;

	if (fd < 0 || read(fd, text, sizeof(text) - 1) < 0 || sscanf(text, "%*u %" SCNu64, &runnable) != 1)
		return 0;
	return runnable;
}

static json_int_t runnable_ms(void)
{
	DIR *threads = opendir("/proc/self/task");
	const struct dirent *thread;
	uint64_t sum = 0;
	char path[sizeof("/proc/self/task//schedstat") + sizeof(thread->d_name)];

	while (threads && (thread = readdir(threads))) {
		snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", thread->d_name);
		sum += kr_runnable_ns(path); /* 0 of "." and ".." */
	}
	if (threads)
		closedir(threads);
	return (json_int_t)(sum / KR_NS_PER_MS);
}

json_t *kr_process_status(void)
{
	return json_pack("{s:I, s:I, s:I}", "resident_bytes", resident_bytes(), "cpu_ms", cpu_ms(), "runnable_ms",
		runnable_ms());
}

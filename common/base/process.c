#include "common/base/process.h"

#include <fcntl.h>
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

json_t *kr_process_status(void)
{
	return json_pack("{s:I, s:I}", "resident_bytes", resident_bytes(), "cpu_ms", cpu_ms());
}

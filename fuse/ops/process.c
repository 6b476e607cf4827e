/* See process.h. */
#include "fuse/ops/process.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/util.h"
#include "fuse/base/lent.h"

/* Reads /proc/PID/NAME into TEXT, of SIZE bytes, with a NUL; "" where it cannot be read, or is another machine's. */
static void read_proc(int pid, const char *name, char *text, size_t size)
{
	char path[64];
	ssize_t length;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, name);
	KR_AUTO_FD int fd = kr_lent() ? -1 : open(path, O_RDONLY | O_CLOEXEC);

	length = fd < 0 ? 0 : read(fd, text, size - 1);
	text[KR_MAX(length, (ssize_t)0)] = 0;
}

/* PID (COMMAND) STATE and more numbers; START is number 22.  COMMAND may hold anything. */
void kr_process_parse(const char *text, struct kr_process *ret_process)
{
	enum { STATE = 3, START = 22 };
	const char *begin = strchr(text, '('), *end = strrchr(text, ')'), *at = end;
	size_t length;

	*ret_process = (struct kr_process){0};
	if (!begin || !end || end < begin)
		return;
	length = KR_MIN((size_t)(end - begin - 1), sizeof(ret_process->command) - 1);
	memcpy(ret_process->command, begin + 1, length);
	for (int field = STATE; at && field <= START; field++)
		at = strchr(at + 1, ' ');
	if (at)
		sscanf(at, " %" SCNu64, &ret_process->start);
}

void kr_process_find(int pid, struct kr_process *ret_process)
{
	char text[1024];

	read_proc(pid, "stat", text, sizeof(text));
	kr_process_parse(text, ret_process);
}

void kr_process_find_command(int pid, struct kr_process *ret_process)
{
	*ret_process = (struct kr_process){0};
	read_proc(pid, "comm", ret_process->command, sizeof(ret_process->command));
	ret_process->command[strcspn(ret_process->command, "\n")] = 0;
}

char *kr_process_cgroup_of(char *text)
{
	const char *found = "";
	char *rest = text, *line;

	while ((line = strsep(&rest, "\n")) != NULL) {
		const char *path = strchr(line, '/');

		if (path && !strstr(found, "/job"))
			found = path;
	}
	return kr_xstrdup(found);
}

char *kr_process_cgroup(int pid)
{
	char text[4096];

	read_proc(pid, "cgroup", text, sizeof(text));
	return kr_process_cgroup_of(text);
}

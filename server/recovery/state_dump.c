/* See state_dump.h. */
#include "server/recovery/state_dump.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "server/base/line_log.h"
#include "server/recovery/executed_log.h"

static const char *const logs[] = {"clock", "doubts", "aliases", "failed", "conflicts"};

bool kr_state_dump_knows(int dir)
{
	return faccessat(dir, "identity", F_OK, 0) == 0 && faccessat(dir, "nodes", F_OK, 0) == 0;
}

static int print_members(int dir, FILE *to)
{
	int fd = openat(dir, "nodes", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *nodes = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!nodes)
		return kr_fail_errno(-errno, "cannot read the members of the state directory");
	while ((entry = readdir(nodes))) {
		char member[PATH_MAX];
		ssize_t length = readlinkat(fd, entry->d_name, member, sizeof(member));

		if (length > 0)
			fprintf(to, "member: %s %.*s\n", entry->d_name, (int)length, member);
	}
	closedir(nodes);
	return 0;
}

struct printing {
	FILE *to;
	const char *log;
};

static void print_line(void *context, char *line)
{
	const struct printing *printing = context;

	fprintf(printing->to, "%s: %s\n", printing->log, line);
}

int kr_state_dump(int dir, bool all, FILE *to, size_t *ret_damaged)
{
	size_t damaged = 0;
	int err = print_members(dir, to);

	for (size_t i = 0; i < KR_ARRAY_SIZE(logs) && !err; i++) {
		struct printing printing = {to, logs[i]};
		size_t more = 0;

		err = kr_line_log_read(dir, logs[i], print_line, &printing, &more);
		if (!err && more)
			fprintf(to, "%s: %zu invalid lines\n", logs[i], more);
		damaged += more;
	}
	if (!err && all)
		err = kr_executed_print(dir, to);
	if (!err)
		*ret_damaged = damaged;
	return err;
}

/* See bench_place.h. */
#include "tools/bench/bench_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "tools/base/client.h"
#include "tools/base/units.h"
#include "tools/bench/bench_measure.h"

volatile sig_atomic_t kr_bench_stopped;

static void on_signal(int number)
{
	kr_bench_stopped = number;
}

void kr_bench_watch_signals(void)
{
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND};

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	sigaction(SIGHUP, &action, NULL);
}

int kr_bench_end(int err)
{
	if (kr_bench_stopped) {
		signal(kr_bench_stopped, SIG_DFL);
		raise(kr_bench_stopped);
	}
	if (err < 0) {
		kr_tool_failed();
		return EXIT_FAILURE;
	}
	return kr_tool_printed(KR_EXIT_OK) == KR_EXIT_OK ? KR_EXIT_OK : EXIT_FAILURE;
}

int kr_bench_dir_make(struct kr_bench_dir *dir, const char *parent)
{
	char *path = NULL;

	if (asprintf(&path, "%s/.kairan-bench-XXXXXX", parent) < 0)
		abort();
	if (!mkdtemp(path)) {
		int err = -errno;

		free(path);
		return kr_fail_errno(err, "cannot make a directory in %s", parent);
	}
	dir->path = path;
	dir->parent = kr_xstrdup(parent);
	dir->fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir->fd < 0)
		return kr_fail_errno(-errno, "%s", path);
	kr_place_of(dir->fd, dir->type);
	return 0;
}

void kr_bench_dir_remove(struct kr_bench_dir *dir)
{
	if (dir->fd >= 0) {
		kr_bench_clear(dir->fd);
		close(dir->fd);
	}
	if (dir->path && rmdir(dir->path) < 0)
		fprintf(stderr, "kairan: cannot remove %s: %s\n", dir->path, strerror(errno));
	free(dir->path);
	free(dir->parent);
}

int kr_bench_dir_room(const struct kr_bench_dir *dir, uint64_t least, uint64_t *limit)
{
	struct statvfs facts;
	uint64_t room;

	if (fstatvfs(dir->fd, &facts) < 0)
		return kr_fail_errno(-errno, "%s", dir->parent);
	room = (uint64_t)facts.f_bavail * facts.f_frsize;
	if (room / KR_BENCH_SHARE_OF_FREE < least)
		return kr_fail(-ENOSPC, "%s: too little space: %s are free, and %s are wanted", dir->parent,
			kr_bytes_text((json_int_t)room), kr_bytes_text((json_int_t)(least * KR_BENCH_SHARE_OF_FREE)));
	*limit = KR_MIN(*limit, room / KR_BENCH_SHARE_OF_FREE);
	return 0;
}

/* kairan umount: flush, unmount, wait for the daemon; says what is not on the server. */
#include <errno.h>
#include <getopt.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/fail.h"
#include "common/util.h"
#include "fuse/control_place.h"
#include "tools/client.h"
#include "tools/commands.h"

static const char usage[] = "usage: kairan umount [--timeout SECONDS] MOUNTPOINT\n"
	"Flushes with a progress bar, unmounts, and waits until the daemon is gone.\n"
	"  --timeout S  flush for at most S seconds (default: wait). What is left then is listed, stays in the journal,\n"
	"               and the next mount with the same local directory sends it.\n"
	"Exit code: 0 unmounted and all is on the server; 1 unmounted, but some bytes are not on the server;\n"
	"2 not unmounted (busy, no such mount); 64 wrong arguments.\n";

enum { GONE_WAIT_MS = 60000, KEPT_ALIVE_MS = 2000, LOOK_MS = 20 };

extern char **environ;

static int run_fusermount(const char *path)
{
	char program[] = "fusermount3", unmount[] = "-u", dashes[] = "--";
	KR_AUTO_FREE char *copy = kr_xstrdup(path);
	char *argv[] = {program, unmount, dashes, copy, NULL};
	int status = 0, err;
	pid_t pid;

	err = posix_spawnp(&pid, program, NULL, NULL, argv, environ);
	if (err)
		return kr_fail_errno(-err, "cannot run fusermount3");
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : kr_fail(-EBUSY, "%s is not unmounted (see above)", path);
}

static int unmount(const char *path)
{
	if (geteuid() != 0)
		return run_fusermount(path);
	if (umount2(path, UMOUNT_NOFOLLOW) == 0)
		return 0;
	return kr_fail_errno(-errno, "cannot unmount %s%s", path, errno == EBUSY ? " (programs use it: fuser -vm shows which)" : "");
}

/* True: the process has ended. */
static bool wait_until_gone(int pid, int wait_ms)
{
	for (int waited = 0; waited < wait_ms; waited += LOOK_MS) {
		struct timespec pause = {.tv_nsec = LOOK_MS * (long)KR_NS_PER_MS};

		if (!kr_daemon_runs(pid))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

/* Flushes, unmounts and waits for the daemon, which shall not go on with what could not be flushed in time. */
static int flush_and_unmount(const struct kr_mounted *mounted, unsigned long timeout_ms)
{
	KR_AUTO_FREE char *socket = NULL;
	int pid = 0, result = KR_EXIT_OK;

	if (kr_control_place_read(mounted, &socket, &pid) == 0 && kr_daemon_runs(pid))
		result = kr_flush_mount(mounted, NULL, timeout_ms);
	if (result == KR_EXIT_FAILED)
		return result;
	if (result == KR_EXIT_LEFT) {
		json_t *status = NULL;

		kr_ask_mount(mounted, "drain", "0", &status);
		json_decref(status);
	}
	if (unmount(mounted->path) < 0) {
		fprintf(stderr, "kairan: %s\n", kr_fail_reason());
		return KR_EXIT_FAILED;
	}
	if (pid && !wait_until_gone(pid, KEPT_ALIVE_MS)) {
		/* A copy of the mount in another mount namespace keeps it alive. */
		json_t *status = NULL;

		kr_ask_mount(mounted, "end", "", &status);
		json_decref(status);
		if (!wait_until_gone(pid, GONE_WAIT_MS)) {
			fprintf(stderr, "kairan: %s is unmounted, but its daemon (process %d) still runs\n", mounted->path, pid);
			return KR_EXIT_LEFT;
		}
	}
	return result;
}

int kr_tool_umount(int argc, char **argv)
{
	static const struct option options[] = {{"timeout", required_argument, NULL, 't'}, {"help", no_argument, NULL, 'h'}, {0}};
	unsigned long timeout_ms = 0;
	struct kr_mounted mounted;
	char *end = NULL;
	int option, result;

	while ((option = getopt_long(argc, argv, "t:h", options, NULL)) != -1) {
		if (option == 't')
			timeout_ms = (unsigned long)(strtod(optarg, &end) * 1000);
		if (option == 'h' || option == '?' || (end && *end)) {
			fputs(usage, option == 'h' ? stdout : stderr);
			return option == 'h' ? KR_EXIT_OK : KR_EXIT_USAGE;
		}
	}
	if (argc - optind != 1) {
		fputs(usage, stderr);
		return KR_EXIT_USAGE;
	}
	KR_AUTO_FREE char *plain = kr_plain_path(argv[optind]);
	if (kr_mounted_find(plain, true, &mounted) < 0) {
		KR_AUTO_FREE char *real = realpath(argv[optind], NULL);

		if (!real || kr_mounted_find(real, true, &mounted) < 0) {
			fprintf(stderr, "kairan: %s is not a mount of kairanfs\n", argv[optind]);
			return KR_EXIT_FAILED;
		}
	}
	result = flush_and_unmount(&mounted, timeout_ms);
	kr_mounted_fini(&mounted);
	return result;
}

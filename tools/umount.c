/* kairan umount: flushes, unmounts, waits for the daemon, and prints what is not on the server.
 *
 * A killed daemon may stay. One of its threads waits in the kernel for a page that a program is reading, and the
 * program waits for the daemon.  The kernel ends the connection when its last descriptor is closed, and that thread
 * keeps one.  So this command ends the connection, and the programs' requests fail.  A second process that watches the
 * daemon would not help: a kill of all the job's processes ends it as well.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "fuse/daemon/control_address.h"
#include "tools/base/client.h"
#include "tools/commands.h"
#include "tools/base/find_mount.h"

static const char usage[] =
	"usage: kairan umount [--timeout SECONDS | --drain] [--refused-ok] [--quiet] [--force] MOUNTPOINT\n"
	"Flushes and shows progress, unmounts, and waits until the daemon is gone.\n"
	"  --timeout S  flush for at most S seconds (default: wait). What is left then is listed, stays in the "
	"journal,\n"
	"               and the next mount with the same local directory sends it.\n"
	"  --drain      the same, for as long as the mount's drain_timeout says\n"
	"  --refused-ok exit code 0 also if all that is left is what the server refuses\n"
	"  -q, --quiet  no progress\n"
	"  --force      although programs use it or the daemon hangs: they get errors, and what is not on the server "
	"within\n"
	"               2 s stays in the journal. The mount of a daemon that was killed goes like "
	"this by itself.\n"
	"Exit code: 0 unmounted and all is on the server; 1 unmounted, but some bytes are, or may be, not on the "
	"server;\n"
	"2 not unmounted (busy, no such mount); 64 wrong arguments.\n";

enum { GONE_WAIT_MS = 60000, KEPT_ALIVE_MS = 2000, FORCED_WAIT_MS = 10000, LOOK_MS = 20 };

/* Makes all requests to the daemon fail.  The mount's owner may do that where fusectl is mounted, root everywhere.
 * True: this has also unmounted it. */
static bool end_connection(const struct kr_mounted *mounted)
{
	char path[64];
	KR_AUTO_FD int fd = -1;

	snprintf(path, sizeof(path), "/sys/fs/fuse/connections/%u/abort", mounted->dev_minor);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd >= 0 && write(fd, "1", 1) >= 0)
		return false;
	return geteuid() == 0 &&
		umount2(mounted->path, MNT_FORCE | UMOUNT_NOFOLLOW) == 0; /* busy or not, the connection is ended */
}

/* True: the process has ended. */
static bool wait_until_gone(int pid, int wait_ms)
{
	for (int waited = 0; waited < wait_ms; waited += LOOK_MS) {
		if (!kr_daemon_runs(pid))
			return true;
		kr_sleep_ms(LOOK_MS);
	}
	return false;
}

/* Whether the daemon has ended or is about to.  From another process namespace a living one may look so too, but it
 * answers. */
static bool is_dead(const struct kr_mounted *mounted, int pid)
{
	json_t *status = NULL;

	if (kr_daemon_runs(pid) || kr_ask_mount(mounted, "status", "", &status) == 0) {
		json_decref(status);
		return false;
	}
	return true;
}

/* Whether all is on the server, stable.  What a view=node holds belongs nowhere else. */
static bool has_no_backlog(const json_t *status)
{
	const json_t *backlog = json_object_get(status, "backlog"), *bytes = json_object_get(backlog, "bytes");

	if (json_object_get(status, "view"))
		return true;
	return bytes && json_integer_value(bytes) == 0 &&
		json_integer_value(json_object_get(backlog, "unstable_bytes")) == 0;
}

/* Sets how long the daemon flushes on unmount; "": as the mount's option says.  -EACCES: it is another user's.
 * *RET_CLEAN, if asked for: nothing is unflushed. */
static int limit_drain(const struct kr_mounted *mounted, const char *ms, bool *ret_clean)
{
	json_t *status = NULL;
	int err = kr_ask_mount(mounted, "drain", ms, &status);

	if (err == 0 && ret_clean)
		*ret_clean = has_no_backlog(status);
	json_decref(status);
	return err == -EPERM ? -EACCES : err;
}

static void say_what_stays(const struct kr_mounted *mounted)
{
	if (strncmp(mounted->source, "job:", 4) == 0)
		printf("if the job's head still serves, what it has not got stays here, and the next mount with the same "
		       "local directory sends it\n");
	else if (strstr(mounted->source, ":/"))
		printf("what is not on the server stays in the journal, and the next mount with the same local directory "
		       "sends it\n");
	else
		printf("the next mount with the same local directory removes what this one held\n");
}

static int unmount_by_force(const struct kr_mounted *mounted, int pid, bool dead)
{
	bool clean = false;
	int err = 0;

	if (dead)
		printf("the daemon of %s is gone\n", mounted->path);
	else if (limit_drain(mounted, "0", &clean) == -EACCES)
		return kr_tool_failed();
	if (!end_connection(mounted))
		err = kr_unmount(mounted->path, true);
	if (err < 0 && err != -EINVAL) /* the daemon may have unmounted it when its connection ended */
		return kr_tool_failed();
	if (!clean)
		say_what_stays(mounted);
	if (!dead && !wait_until_gone(pid, FORCED_WAIT_MS)) {
		fprintf(stderr, "kairan: %s is unmounted, but its daemon (process %d) still runs\n", mounted->path,
			pid);
		clean = false;
	}
	return clean ? KR_EXIT_OK : KR_EXIT_LEFT;
}

/* Ends a daemon that a copy of the mount in another mount namespace keeps alive.  Uses its own socket: another mount
 * may have the device number now. */
static bool ends_when_told(const char *socket, int pid)
{
	json_t *status = NULL, *last = NULL;

	if (kr_ask_socket(socket, "status", "", &status) == 0 &&
		json_integer_value(json_object_get(status, "pid")) == pid)
		kr_ask_socket(socket, "end", "", &last);
	json_decref(status);
	json_decref(last);
	return wait_until_gone(pid, GONE_WAIT_MS);
}

/* The mount of a job's head: nothing of the job is left after it. */
static bool ends_job(const struct kr_mounted *mounted)
{
	json_t *status = NULL;
	bool ends =
		kr_ask_mount(mounted, "status", "", &status) == 0 && json_is_true(json_object_get(status, "ends_job"));

	json_decref(status);
	return ends;
}

/* 0: the daemon does not tell. */
static unsigned long drain_timeout_of(const struct kr_mounted *mounted)
{
	json_t *status = NULL;
	json_int_t ms = 0;

	if (kr_ask_mount(mounted, "status", "", &status) == 0)
		ms = json_integer_value(json_object_get(status, "drain_timeout_ms"));
	json_decref(status);
	return ms > 0 ? (unsigned long)ms : 0;
}

/* Flushes, unmounts and waits for the daemon, which must not go on with bytes that could not be flushed in time. */
static int flush_and_unmount(
	const struct kr_mounted *mounted, unsigned long timeout_ms, bool force, bool refused_ok, bool quiet)
{
	KR_AUTO_FREE char *socket = NULL;
	int pid = 0, result = KR_EXIT_OK;
	bool only_refused = false;
	bool known = kr_control_address_read(mounted, &socket, &pid) == 0, dead = known && is_dead(mounted, pid);
	bool removed = known && access(socket, F_OK) < 0 && errno == ENOENT;

	if (force || dead)
		return unmount_by_force(mounted, pid, dead);
	if (known && !removed && !ends_job(mounted))
		result = kr_flush_mount(mounted, timeout_ms, quiet, &only_refused);
	else if (known && !removed && limit_drain(mounted, "", NULL) == -EACCES)
		return kr_tool_failed();
	if (result == KR_EXIT_FAILED) /* the daemon has ended meanwhile? members of a job end with the job's head */
		return wait_until_gone(pid, KEPT_ALIVE_MS) ? unmount_by_force(mounted, pid, true) : result;
	if (result == KR_EXIT_LEFT)
		limit_drain(mounted, "0", NULL);
	if (kr_unmount(mounted->path, false) < 0) {
		fprintf(stderr, "kairan: %s\n", kr_fail_reason());
		if (result == KR_EXIT_LEFT)
			limit_drain(mounted, "", NULL);
		return KR_EXIT_FAILED;
	}
	if (known && !wait_until_gone(pid, KEPT_ALIVE_MS) && !ends_when_told(socket, pid)) {
		fprintf(stderr, "kairan: %s is unmounted, but its daemon (process %d) still runs\n", mounted->path,
			pid);
		return KR_EXIT_LEFT;
	}
	if (!known || removed) {
		fprintf(stderr, "kairan: %s is unmounted, but %s: whether all is on the server cannot be told\n",
			mounted->path,
			removed ? "somebody has removed its local directory, or files in it" :
				  "no daemon is known for it");
		return KR_EXIT_LEFT;
	}
	return result == KR_EXIT_LEFT && only_refused && refused_ok ? KR_EXIT_OK : result;
}

int kr_tool_umount(int argc, char **argv)
{
	static const struct option options[] = {{"timeout", required_argument, NULL, 't'},
		{"drain", no_argument, NULL, 'd'}, {"force", no_argument, NULL, 'f'},
		{"refused-ok", no_argument, NULL, 'r'}, {"quiet", no_argument, NULL, 'q'},
		{"help", no_argument, NULL, 'h'}, {0}};
	unsigned long timeout_ms = 0;
	bool force = false, bad = false, drain = false, refused_ok = false, quiet = false;
	struct kr_mounted mounted;
	KR_AUTO_FREE char *below = NULL;
	int option, result;

	while ((option = kr_tool_option(argc, argv, "t:dfqh", options)) != -1) {
		if (option == 't')
			bad = kr_tool_timeout(optarg, &timeout_ms) < 0;
		else if (option == 'd')
			drain = true;
		else if (option == 'f')
			force = true;
		else if (option == 'r')
			refused_ok = true;
		else if (option == 'q')
			quiet = true;
		if (bad)
			return KR_EXIT_USAGE;
		if (option == 'h' || option == '?')
			return kr_tool_usage(usage, option == 'h');
	}
	if (argc - optind != 1) {
		fprintf(stderr, "kairan: %s\n%s", optind == argc ? "no mount point is given" : "too many arguments",
			usage);
		return KR_EXIT_USAGE;
	}
	if (kr_find_mount(argv[optind], &mounted, &below) < 0)
		return kr_tool_failed();
	if (*below) {
		fprintf(stderr, "kairan: %s is not a mount point: what it lies on is mounted on %s\n", argv[optind],
			mounted.path);
		kr_mounted_fini(&mounted);
		return KR_EXIT_FAILED;
	}
	if (drain && !force)
		timeout_ms = drain_timeout_of(&mounted);
	result = flush_and_unmount(&mounted, timeout_ms, force, refused_ok, quiet);
	kr_mounted_fini(&mounted);
	return result;
}

/* kairanfs: mounts a directory that kairand exports.
 *
 * Without -f the program forks.  The child does everything.  The parent waits until the mount answers and returns 0, or
 * prints the reason and returns 1.  They talk over a socket pair.  The child says R (ready), or E and a sentence.  The
 * parent looks at the mount through the kernel, and then answers G (go on alone).  A child that gets no G unmounts.  A
 * child that gets it leaves the parent's session and terminal and then closes the socket; only then does the parent
 * return.
 *
 * The child stays in the parent's process group until then.  Below a mount point of autofs (automount(8), systemd's
 * x-systemd.automount) the kernel shuts out programs until the mount is there.  It lets in only the process group that
 * is to mount there.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/service_manager.h"
#include "common/base/util.h"
#include "fuse/base/cpus.h"
#include "fuse/base/lent.h"
#include "fuse/base/local_dir.h"
#include "fuse/daemon/local_place.h"
#include "fuse/daemon/mountpoint.h"
#include "fuse/base/options.h"
#include "fuse/daemon/serve.h"
#include "fuse/daemon/serve_borrowed.h"
#include "fuse/daemon/serve_job.h"
#include "fuse/daemon/serve_view.h"
#include "fuse/lend/lender.h"

enum { PROBE_SECONDS = 30 };

/* The child's (or, with -f, the only process's) part. */
struct child {
	const struct kr_mount_options *options;
	struct kr_local *local;
	int parent; /* socket; -1 with -f */
	bool mounted;
};

static void open_log(const struct kr_local *local)
{
	int fd = openat(kr_local_fd(local), "log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd >= 0)
		kr_log_set_file(fd);
	kr_log_use_syslog();
}

static void leave_terminal(void)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int fd = 0; fd < 3; fd++)
		dup2(null, fd);
	if (null > 2)
		close(null);
}

/* The mount is there.  False: the parent has ended, or wants no mount. */
static bool on_ready(void *context)
{
	struct child *child = context;
	char answer = 0;

	if (child->parent >= 0) {
		prctl(PR_SET_PDEATHSIG, 0); /* from here on the socket tells of the parent's end */
		if (send(child->parent, "R", 1, MSG_NOSIGNAL) != 1 || recv(child->parent, &answer, 1, 0) != 1 ||
			answer != 'G')
			return false;
		setsid();
		signal(SIGQUIT, SIG_DFL);
		if (child->local)
			open_log(child->local);
		else
			kr_log_use_syslog();
		leave_terminal();
		close(child->parent);
		child->parent = -1;
	}
	if (child->local)
		kr_log_info("%s is mounted on %s; local directory %s", child->options->source,
			child->options->mount_point, kr_local_path(child->local));
	else
		kr_log_info("%s is mounted on %s; journal and cache are at %s", child->options->source,
			child->options->mount_point, child->options->lender.host);
	if (kr_lent())
		kr_lent_ready(0, "");
	else if (child->options->foreground)
		kr_service_manager_tell("READY=1");
	child->mounted = true;
	return true;
}

/* A journal below a kairan mount waits for the mount whose bytes it holds, or for another that waits for this one. */
static int check_place(const struct kr_local *local, bool is_view)
{
	char type[KR_PLACE_TYPE];
	enum kr_place_kind kind = kr_place_of(kr_local_fd(local), type);

	if (kind == KR_PLACE_KAIRAN)
		return kr_fail(-EINVAL,
			"local directory %s lies on a mount of kairanfs: name one on a local disk with -o local=DIR",
			kr_local_path(local));
	if (kind == KR_PLACE_MEMORY && !is_view)
		kr_log_warn("local directory %s lies in memory (%s): what is not on the server yet is lost when this "
			    "machine stops; -o local=DIR names one on a disk",
			kr_local_path(local), type);
	return 0;
}

static int run(struct child *child)
{
	const int view = child->options->view;
	const bool is_view = view != KR_VIEW_CACHE;
	const bool borrowed = child->options->borrowed;
	int result = borrowed ? 0 : kr_local_open(child->options, &child->local);

	if (result == 0 && !borrowed)
		result = check_place(child->local, is_view);
	if (result == 0 && borrowed)
		result = kr_serve_borrowed(child->options, on_ready, child);
	else if (result == 0 && view == KR_VIEW_NODE)
		result = kr_serve_view(child->options, child->local, on_ready, child);
	else if (result == 0 && view == KR_VIEW_JOB)
		result = kr_serve_job(child->options, child->local, child->parent, on_ready, child);
	else if (result == 0)
		result = kr_serve(child->options, child->local, on_ready, child);
	if (result < 0 && child->parent >= 0) {
		char message[600];
		int length = snprintf(message, sizeof(message), "E%s", kr_fail_reason());

		send(child->parent, message, (size_t)KR_MIN(length, (int)sizeof(message) - 1), MSG_NOSIGNAL);
	} else if (result < 0) {
		fprintf(stderr, "kairanfs: %s\n", kr_fail_reason());
		if (kr_lent())
			kr_lent_ready(result, kr_fail_reason());
	} else if (child->mounted) {
		kr_log_info("the mount on %s has ended; %s", child->options->mount_point,
			result == 1     ? "its journal keeps the rest for the next mount" :
				is_view ? "what it held is removed" :
					  "the server has all of it on its disk");
	}
	kr_local_free(child->local);
	if (result == -ENOTCONN && child->mounted) /* threads still run: kr_serve */
		_exit(EXIT_FAILURE);
	return result < 0 ? 1 : result;
}

static void on_term(int number)
{
	(void)number; /* interrupts the look at the mount */
}

/* Looks at the mount through the kernel. A timer's SIGALRM would not end the wait (signals.h). */
static int probe(const char *path)
{
	struct sigaction action = {.sa_handler = on_term};
	struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGTERM};
	struct itimerspec limit = {.it_value = {.tv_sec = PROBE_SECONDS}};
	struct statfs statfs_buffer;
	timer_t timer;
	int err;

	sigaction(SIGTERM, &action, NULL);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) < 0)
		return -errno;
	timer_settime(timer, 0, &limit, NULL);
	err = statfs(path, &statfs_buffer) < 0 ? -errno : 0;
	timer_delete(timer);
	return err;
}

/* The parent's part: waits for the child's message. */
static int supervise(int child, pid_t pid, const struct kr_mount_options *options)
{
	char message[600];
	ssize_t length = recv(child, message, sizeof(message) - 1, 0);
	int err;

	if (length > 0 && message[0] == 'E') {
		message[length] = '\0';
		fprintf(stderr, "kairanfs: %s\n", message + 1);
		waitpid(pid, NULL, 0);
		return 1;
	}
	if (length <= 0 || message[0] != 'R') {
		fprintf(stderr, "kairanfs: the daemon ended unexpectedly\n");
		return 1;
	}
	err = probe(options->mount_point);
	if (err == 0 && send(child, "G", 1, MSG_NOSIGNAL) == 1) {
		recv(child, message, 1, 0); /* from here on a Ctrl-C does not reach the daemon */
		return 0;
	}
	fprintf(stderr, "kairanfs: the mount on %s does not answer: %s\n", options->mount_point, strerror(-err));
	close(child);
	waitpid(pid, NULL, 0);
	return 1;
}

static int run_detached(struct child *child)
{
	const pid_t parent = getpid();
	int pair[2];
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 || (pid = fork()) < 0) {
		fprintf(stderr, "kairanfs: cannot start the daemon: %s\n", strerror(errno));
		return 1;
	}
	if (pid > 0) {
		close(pair[1]);
		return supervise(pair[0], pid, child->options);
	}
	close(pair[0]);
	child->parent = pair[1];
	/* A user or program may give the mount up by a signal to the parent alone, or to the group (Ctrl-C,
	 * timeout(1)).  The child must not end by it without unmounting. */
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	signal(SIGQUIT, SIG_IGN);
	if (getppid() != parent)
		return 1;
	return run(child);
}

/* --- mount -o remount -------------------------------------------------------------------------- */

static const struct {
	const char *word;
	unsigned long set, clear;
} words[] = {
	{"suid", 0, MS_NOSUID},
	{"nosuid", MS_NOSUID, 0},
	{"dev", 0, MS_NODEV},
	{"nodev", MS_NODEV, 0},
	{"exec", 0, MS_NOEXEC},
	{"noexec", MS_NOEXEC, 0},
	{"sync", MS_SYNCHRONOUS, 0},
	{"dirsync", MS_DIRSYNC, 0},
};

/* As libfuse mounts: without set-user-ID programs and devices, unless the options ask for them. */
static unsigned long flags_of(const struct kr_mount_options *options)
{
	KR_AUTO_FREE char *list = kr_xstrdup(options->fuse_options ? options->fuse_options : "");
	unsigned long flags = MS_NOSUID | MS_NODEV | (options->read_only ? MS_RDONLY : 0);
	char *rest = NULL;

	for (char *word = strtok_r(list, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
		for (size_t i = 0; i < KR_ARRAY_SIZE(words); i++)
			if (strcmp(word, words[i].word) == 0)
				flags = (flags | words[i].set) & ~words[i].clear;
	}
	return flags;
}

static int change_flags(const struct kr_mounted *mounted, const struct kr_mount_options *options)
{
	if (strcmp(mounted->source, options->source) != 0)
		return kr_fail(-EINVAL, "cannot remount %s: %s is mounted there, not %s", mounted->path,
			mounted->source, options->source);
	if (mount(NULL, mounted->path, NULL, MS_REMOUNT | flags_of(options), NULL) == 0)
		return 0;
	return kr_fail_errno(-errno, "cannot remount %s%s", mounted->path,
		errno == EBUSY         ? " read-only while files are open for writing" :
			errno == EPERM ? " (only root can)" :
					 "");
}

/* Remounts options->mount_point: makes it ro or rw, and suid, dev, exec, sync, dirsync or their opposites.  Flags that
 * the options leave out are set as for a new mount.  -errno with a sentence: no mount of kairanfs there, another
 * source, files open for writing (EBUSY), not root.  The function never touches the mounted files.  So it does not wait
 * for the daemon, only for the kernel's own flush of the mount. */
static int remount(const struct kr_mount_options *options)
{
	KR_AUTO_FREE char *plain = kr_plain_path(options->mount_point);
	struct kr_mounted mounted = {0};
	int err;

	if (kr_mounted_find(plain, true, &mounted) < 0)
		return kr_fail(-EINVAL, "cannot remount %s: no mount of kairanfs is there", plain);
	err = change_flags(&mounted, options);
	kr_mounted_fini(&mounted);
	return err;
}

static int lend(const struct kr_mount_options *options)
{
	if (kr_lender_run(options) == 0)
		return EXIT_SUCCESS;
	kr_log_error("%s", kr_fail_reason());
	return EXIT_FAILURE;
}

const char *malloc_conf = KR_MALLOC_CONF;

int main(int argc, char **argv)
{
	static struct kr_mount_options options;
	static char name[96] = "kairanfs"; /* in the log */
	struct child child = {.options = &options, .parent = -1};
	int result;

	if (kr_open_standard_fds() < 0)
		return EXIT_FAILURE;
	result = kr_lent_begin();
	if (result == 0)
		result = kr_mount_options_parse(argc, argv, &options);
	if (result == 0 && kr_lent()) /* NODE:MOUNTPOINT */
		snprintf(name, sizeof(name), "kairanfs of %s", options.node);
	kr_log_init(name, options.debug ? KR_LOG_DEBUG : KR_LOG_INFO);
	if (result == 0 && options.remount) {
		result = remount(&options);
		result = result < 0 ? result : 1;
	}
	if (result == 0 && options.strictatime)
		kr_log_warn("strictatime: times of access follow opens, as with relatime");
	if (result == 0 && !kr_lent() && !options.lend)
		result = kr_mount_point_check(&options.mount_point, options.source,
			options.view == KR_VIEW_JOB ? options.job : NULL, options.nonempty, &options.over_dead);
	if (result == 0 && options.cpus)
		result = kr_cpus_confine(options.cpus, &options.cpu_set);
	if (result < 0)
		fprintf(stderr, "kairanfs: %s\n", kr_fail_reason());
	if (result == 0) {
		kr_keep_freed_memory();
		/* Without a disk: a thread for each notification that a daemon has under way (fuse/base/notify.c). */
		setenv("UV_THREADPOOL_SIZE", options.borrowed ? "64" : "8", 0);
		signal(SIGPIPE, SIG_IGN);
		signal(SIGXFSZ, SIG_IGN); /* a limit of files' sizes (ulimit -f) is EFBIG */
		/* The daemon must keep no directory below busy, nor be found through one.  All paths are absolute from
		 * here on. */
		if (chdir("/") < 0)
			abort();
		if (options.lend)
			result = lend(&options);
		else
			result = options.foreground ? run(&child) : run_detached(&child);
	} else {
		result = result < 0;
	}
	kr_mount_options_fini(&options);
	return result;
}

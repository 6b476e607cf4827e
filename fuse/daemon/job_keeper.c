/* See job_keeper.h.  One thread, in a process of its own from keep() on. */
#include "fuse/daemon/job_keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "common/rpc/resolve.h"
#include "fuse/base/options.h"
#include "fuse/view/project.h"
#include "fuse/view/space.h"
#include "fuse/view/tree.h"

enum { START_MS = 20000, LOOK_MS = 20, CONNECT_S = 1, PORT_TRIES = 5 };

struct keeper {
	const struct kr_mount_options *options;
	const struct kr_local *local;
	struct kr_introduce_request request;
	struct kr_job_head *head;
	int socket;    /* to the mount */
	pid_t kairand; /* 0: it does not run */
	bool left;     /* this node is not the head any more */
};

/* What the keeper tells the mount, once. */
struct report {
	int err; /* 0: kairand serves at PORT */
	uint16_t port;
	char reason[512];
};

/* --- the place -------------------------------------------------------------------------------- */

int kr_job_remove(const struct kr_local *local)
{
	KR_AUTO_FD int place =
		openat(kr_local_fd(local), KR_JOB_PLACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (place >= 0)
		kr_project_drop(place, "export");
	return kr_tree_remove(kr_local_fd(local), KR_JOB_PLACE);
}

/* Makes what kairand needs.  Root's export is for all users, and like /tmp. */
static int make_place(const struct keeper *keeper)
{
	const uint64_t size = keeper->options->size;
	KR_AUTO_FD int place =
		openat(kr_local_fd(keeper->local), KR_JOB_PLACE, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int err;

	if (place < 0 || mkdirat(place, "export", 0700) < 0 ||
		fchmodat(place, "export", geteuid() == 0 ? 01777 : 0700, 0) < 0 || mkdirat(place, "state", 0700) < 0)
		return kr_fail_errno(-errno, "cannot make %s/" KR_JOB_PLACE, kr_local_path(keeper->local));
	err = kr_write_file(place, "options", "{}", 2, 0600);
	if (err < 0)
		return kr_fail_errno(err, "cannot write %s/" KR_JOB_PLACE "/options", kr_local_path(keeper->local));
	err = size ? kr_project_limit(place, "export", size, KR_MAX(size / KR_SPACE_PER_INODE, UINT64_C(16))) : 0;
	if (err < 0)
		return kr_fail(err,
			"size: the disk of %s cannot keep a limit by a project's quota (mount it with prjquota, as root, or "
			"leave size out)",
			kr_local_path(keeper->local));
	return 0;
}

/* --- addresses -------------------------------------------------------------------------------- */

static struct kr_endpoint endpoint_of(const struct kr_job_head *head)
{
	struct kr_endpoint endpoint = {.port = head->port};

	snprintf(endpoint.host, sizeof(endpoint.host), "%s", head->address);
	return endpoint;
}

const char *kr_job_head_format(const struct kr_job_head *head, char text[KR_JOB_HEAD_TEXT])
{
	const struct kr_endpoint endpoint = endpoint_of(head);

	kr_endpoint_format(&endpoint, text, KR_JOB_HEAD_TEXT);
	return text;
}

static int address_of(const struct kr_job_head *head, struct sockaddr_storage *ret_address, socklen_t *ret_length)
{
	const struct kr_endpoint endpoint = endpoint_of(head);
	struct kr_addresses addresses;
	int err = kr_resolve(&endpoint, true, &addresses);

	if (err < 0)
		return err;
	*ret_address = addresses.items[0];
	*ret_length = ret_address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
	return 0;
}

int kr_job_head_answers(const struct kr_job_head *head)
{
	const struct timeval timeout = {.tv_sec = CONNECT_S};
	struct sockaddr_storage address;
	KR_AUTO_FD int fd = -1;
	socklen_t length;
	int err = address_of(head, &address, &length);

	if (err < 0)
		return err;
	fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) < 0 ||
		connect(fd, (const struct sockaddr *)&address, length) < 0)
		return errno == EINPROGRESS ? -ETIMEDOUT : -errno;
	return 0;
}

/* Fills in HEAD's port: the first of the ring's ports that is free.  Another process may take the port before kairand
 * does. */
static int choose_port(const struct kr_port_range *ports, struct kr_job_head *head)
{
	int err = -EADDRINUSE;

	for (unsigned port = ports->low; port <= ports->high && err == -EADDRINUSE; port++) {
		struct sockaddr_storage address;
		KR_AUTO_FD int fd = -1;
		socklen_t length;
		const int on = 1;

		head->port = (uint16_t)port;
		err = address_of(head, &address, &length);
		if (err < 0)
			return err;
		fd = socket(address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
			bind(fd, (const struct sockaddr *)&address, length) < 0 ||
			getsockname(fd, (struct sockaddr *)&address, &length) < 0)
			err = -errno;
		else
			head->port = ntohs(((const struct sockaddr_in *)&address)->sin_port); /* as in sockaddr_in6 */
	}
	return err < 0 ? kr_fail_errno(err, "no port of %s for the job's kairand", head->address) : 0;
}

/* --- kairand ---------------------------------------------------------------------------------- */

/* The program beside this one, else that in PATH. */
_Noreturn static void execute(char **argv)
{
	char path[4096];
	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - sizeof("kairand"));
	char *slash = length > 0 ? memrchr(path, '/', (size_t)length) : NULL;

	if (slash) {
		memcpy(slash + 1, "kairand", sizeof("kairand"));
		execv(path, argv);
	}
	execvp("kairand", argv);
	fprintf(stderr, "kairanfs: cannot run kairand, which is to be installed on each node of a job: %s\n",
		strerror(errno));
	_exit(127);
}

/* In the new process. */
_Noreturn static void become_kairand(const struct keeper *keeper, pid_t parent)
{
	char listen[KR_JOB_HEAD_TEXT], lease[32];
	const char *const argv[] = {"kairand", "--config", "options", "--listen", listen, "--key", "key", "--security",
		kr_security_name(keeper->head->security), "--state", "state", "--lease", lease, "--commit", "never",
		"--watch", "none", "export", NULL};

	kr_job_head_format(keeper->head, listen);
	snprintf(lease, sizeof(lease), "%ums", keeper->head->lease_ms);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent || fchdir(kr_local_fd(keeper->local)) < 0 || chdir(KR_JOB_PLACE) < 0)
		_exit(EXIT_FAILURE);
	execute((char **)(uintptr_t)argv);
}

static bool has_ended(struct keeper *keeper, int *ret_status)
{
	if (!keeper->kairand || waitpid(keeper->kairand, ret_status, WNOHANG) != keeper->kairand)
		return false;
	keeper->kairand = 0;
	return true;
}

/* False: the mount has closed the socket, within MS. */
static bool mount_lives(const struct keeper *keeper, int ms)
{
	struct pollfd mount = {.fd = keeper->socket, .events = POLLIN};

	return poll(&mount, 1, ms) <= 0;
}

static void kill_kairand(struct keeper *keeper)
{
	if (!keeper->kairand)
		return;
	kill(keeper->kairand, SIGKILL); /* what it serves is removed next, so there is nothing to bring to an end */
	waitpid(keeper->kairand, NULL, 0);
	keeper->kairand = 0;
}

static int wait_for_kairand(struct keeper *keeper)
{
	int status = 0;

	for (int waited_ms = 0; waited_ms < START_MS; waited_ms += LOOK_MS) {
		if (has_ended(keeper, &status))
			return kr_fail(WIFEXITED(status) && WEXITSTATUS(status) == 127 ? -ENOENT : -EADDRINUSE,
				"the job's kairand has ended at its start (status %d; with -f it says why)",
				WIFEXITED(status) ? WEXITSTATUS(status) : -1);
		if (kr_job_head_answers(keeper->head) == 0)
			return 0;
		if (!mount_lives(keeper, LOOK_MS))
			return kr_fail(-EINTR, "given up");
	}
	return kr_fail(-ETIMEDOUT, "the job's kairand does not answer");
}

static int try_kairand(struct keeper *keeper)
{
	const pid_t self = getpid();
	int err = choose_port(&keeper->options->ring_ports, keeper->head);

	if (err < 0)
		return err;
	keeper->kairand = fork();
	if (keeper->kairand < 0)
		return kr_fail_errno(-errno, "no process for the job's kairand");
	if (keeper->kairand == 0)
		become_kairand(keeper, self);
	err = wait_for_kairand(keeper);
	if (err < 0)
		kill_kairand(keeper);
	return err;
}

static int start_kairand(struct keeper *keeper)
{
	int err = make_place(keeper);

	if (err < 0)
		return err;
	for (int tries = 0; tries < PORT_TRIES; tries++) {
		err = try_kairand(keeper);
		if (err != -EADDRINUSE) /* another process has the port */
			break;
	}
	return err;
}

/* --- the keeper ------------------------------------------------------------------------------- */

/* Says to the site's kairand that this node serves the job. */
static int announce(struct keeper *keeper)
{
	struct kr_job_head ignored;
	int err;

	keeper->request.address = keeper->head->address;
	keeper->request.port = keeper->head->port;
	err = kr_introduction_ask(keeper->options, &keeper->request, &ignored);
	sodium_memzero(ignored.secret, sizeof(ignored.secret));
	return err;
}

static void leave(struct keeper *keeper)
{
	keeper->request.flags = KR_INTRODUCE_LEAVE;
	if (!keeper->left && announce(keeper) < 0)
		kr_log_warn("%s; job %s has ended all the same", kr_fail_reason(), keeper->options->job);
	keeper->left = true;
}

/* As long as the mount lives. */
static void serve(struct keeper *keeper)
{
	bool complained = false;
	int status;

	while (mount_lives(keeper, (int)(keeper->head->lease_ms / 4))) {
		int err = 0;

		if (has_ended(keeper, &status)) {
			kr_log_error("the kairand of job %s has ended", keeper->options->job);
			leave(keeper);
		}
		if (!keeper->left)
			err = announce(keeper);
		if (err == -EEXIST) {
			kr_log_error("%s: nodes that join job %s from now on do not see the files here",
				kr_fail_reason(), keeper->options->job);
			keeper->left = true;
		} else if (err < 0 && !complained) {
			kr_log_warn(
				"%s; job %s goes on, but no node can join it", kr_fail_reason(), keeper->options->job);
		}
		complained = err < 0;
	}
}

/* The keeper and kairand outlive the caller, and must not keep the caller's terminal or pipe open.  With -f that is
 * where the log goes. */
static void set_standard_fds(const struct keeper *keeper)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	int log = keeper->options->foreground ?
		-1 :
		openat(kr_local_fd(keeper->local), "log", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);

	dup2(null, STDIN_FILENO);
	if (!keeper->options->foreground) {
		dup2(log >= 0 ? log : null, STDOUT_FILENO);
		dup2(log >= 0 ? log : null, STDERR_FILENO);
	}
	close(null);
	if (log >= 0)
		close(log);
}

/* The keeper's process. */
_Noreturn static void keep(struct keeper *keeper)
{
	struct report report = {0};
	int err;

	setsid(); /* Ctrl-C and the like are the mount's to take */
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	set_standard_fds(keeper);
	report.err = start_kairand(keeper);
	if (report.err == 0)
		report.err = announce(keeper);
	report.port = keeper->head->port;
	snprintf(report.reason, sizeof(report.reason), "%s", report.err < 0 ? kr_fail_reason() : "");
	if (send(keeper->socket, &report, sizeof(report), MSG_NOSIGNAL) == sizeof(report) && report.err == 0)
		serve(keeper);
	kill_kairand(keeper);
	err = kr_job_remove(keeper->local);
	if (err < 0)
		kr_log_warn(
			"cannot remove all of %s/" KR_JOB_PLACE ": %s", kr_local_path(keeper->local), strerror(-err));
	leave(keeper);
	_exit(EXIT_SUCCESS);
}

/* --- in the mount's process ------------------------------------------------------------------- */

int kr_job_keeper_start(struct kr_job_keeper *keeper, const struct kr_mount_options *options,
	const struct kr_local *local, const struct kr_introduce_request *request, int parent, struct kr_job_head *head)
{
	struct keeper self = {.options = options, .local = local, .request = *request, .head = head};
	struct report report;
	int pair[2];

	snprintf(head->node, sizeof(head->node), "%s", request->node);
	snprintf(head->address, sizeof(head->address), "%s", head->own_host);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0 || (keeper->pid = fork()) < 0)
		return kr_fail_errno(-errno, "no process for the job's files");
	if (keeper->pid == 0) {
		close(pair[0]);
		if (parent >= 0)
			close(parent);
		self.socket = pair[1];
		keep(&self);
	}
	close(pair[1]);
	keeper->socket = pair[0];
	if (recv(keeper->socket, &report, sizeof(report), 0) != sizeof(report))
		report = (struct report){.err = -EINTR, .reason = "interrupted before the job's kairand served"};
	head->port = report.port;
	if (report.err == 0)
		return 0;
	kr_job_keeper_stop(keeper);
	return kr_fail(report.err, "%s", report.reason);
}

void kr_job_keeper_stop(struct kr_job_keeper *keeper)
{
	if (keeper->pid <= 0)
		return;
	close(keeper->socket);
	while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	keeper->pid = 0;
}

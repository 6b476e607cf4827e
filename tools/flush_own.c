/* See flush_own.h.
 *
 * A child syncs one file after the other, and may wait for a server that is away.  The command shows the progress, as
 * the daemon's status tells it, and kills the child when the time is over: that ends the wait.
 */
#include "tools/flush_own.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/base/client.h"
#include "tools/base/progress.h"

enum { LOOK_MS = 100 };

struct item {
	char *path;   /* owned */
	uint64_t ino; /* 0: not known, since the daemon names no such file */
	bool named;   /* by the user: whatever is there is meant */
};

/* In memory that the child shares. */
struct outcome {
	int err;           /* of open or fsync; positive errno */
	_Atomic bool done; /* err is set */
};

struct job {
	struct item *items;
	size_t count;
	struct outcome *outcomes; /* by item */
};

bool kr_flush_is_of_user(const struct kr_mounted *mounted)
{
	json_t *status = NULL;
	bool is_user = kr_ask_mount(mounted, "status", "", &status) == 0 && json_object_get(status, "user");

	json_decref(status);
	return is_user;
}

/* --- which files ---------------------------------------------------------------------------------- */

/* Takes the item's path. */
static void add(struct job *job, struct item item)
{
	job->items = realloc(job->items, (job->count + 1) * sizeof(*job->items));
	if (!job->items)
		abort();
	job->items[job->count++] = item;
}

static char *below_mount(const struct kr_mounted *mounted, const char *name)
{
	char *path;

	if (asprintf(&path, "%s/%s", mounted->path, name) < 0)
		abort();
	return path;
}

/* Takes the name by which the daemon came to know the file: if that is another file's now, the sync leaves it alone. */
static void add_own(struct job *job, const struct kr_mounted *mounted, const json_t *status, const char *below)
{
	const json_t *file;
	size_t i;

	json_array_foreach(json_object_get(status, "files"), i, file)
	{
		const char *name = kr_text_of(file, "path");

		if (*name && kr_path_below(name, below))
			add(job,
				(struct item){.path = below_mount(mounted, name),
					.ino = (uint64_t)kr_number(file, NULL, "ino"),
					.named = strcmp(name, below) == 0});
	}
}

/* --- syncing -------------------------------------------------------------------------------------- */

static int open_item(const struct item *item)
{
	const int flags = O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	int fd = open(item->path, O_RDONLY | flags);

	return fd < 0 && errno == EACCES ? open(item->path, O_WRONLY | flags) : fd;
}

/* 0 or a positive errno.  Of a directory only the user's own files are synced, by items of their own. */
static int sync_item(const struct item *item)
{
	struct stat stat_buffer;
	int fd, err = 0;

	if (item->named && stat(item->path, &stat_buffer) < 0)
		return errno;
	if (item->named && !S_ISREG(stat_buffer.st_mode))
		return 0;
	fd = open_item(item);
	if (fd < 0)
		return errno;
	if (fstat(fd, &stat_buffer) < 0)
		err = errno;
	else if (!item->named && stat_buffer.st_ino != item->ino)
		err = ESTALE;
	else if (fsync(fd) < 0)
		err = errno;
	close(fd);
	return err;
}

static void sync_all(const struct job *job)
{
	for (size_t i = 0; i < job->count; i++) {
		job->outcomes[i].err = sync_item(&job->items[i]);
		atomic_store(&job->outcomes[i].done, true);
	}
}

/* The child, or -errno with a reason. */
static pid_t start(struct job *job)
{
	void *memory = mmap(NULL, (job->count + 1) * sizeof(*job->outcomes), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t child;

	if (memory == MAP_FAILED)
		return kr_fail_errno(-errno, "cannot start to flush");
	job->outcomes = memory;
	child = fork();
	if (child < 0)
		return kr_fail_errno(-errno, "cannot start to flush");
	if (child > 0)
		return child;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sync_all(job);
	_exit(0);
}

/* --- watching ------------------------------------------------------------------------------------- */

/* Whether the job has still to sync this file. */
static bool awaits(const struct job *job, uint64_t ino)
{
	for (size_t i = 0; i < job->count; i++)
		if (job->items[i].ino == ino)
			return !atomic_load(&job->outcomes[i].done);
	return false;
}

/* Of a file that is not the user's own the daemon tells nothing. */
static void show(struct kr_display *display, const struct job *job, const json_t *status)
{
	json_int_t rest = 0, waiting = 0;
	const json_t *file;
	size_t i;

	json_array_foreach(json_object_get(status, "files"), i, file)
	{
		json_int_t sent = kr_number(file, NULL, "sent");

		if (!awaits(job, (uint64_t)kr_number(file, NULL, "ino")))
			continue;
		rest += kr_number(file, NULL, "dirty") - sent;
		waiting += kr_number(file, NULL, "unstable") + sent;
	}
	kr_display_show(display, rest, waiting, 0);
}

static void watch(
	const struct kr_mounted *mounted, const struct job *job, pid_t child, unsigned long timeout_ms, bool quiet)
{
	const uint64_t start_ns = kr_clock_ns();
	struct kr_display display;

	kr_display_init(&display, mounted->path, quiet);
	while (waitpid(child, NULL, WNOHANG) == 0) {
		json_t *status = NULL;

		if (timeout_ms && kr_clock_ns() - start_ns >= timeout_ms * KR_NS_PER_MS) {
			kill(child, SIGKILL); /* not waited for: it may end only when the server is back */
			break;
		}
		if (kr_ask_mount(mounted, "status", "", &status) == 0)
			show(&display, job, status);
		json_decref(status);
		kr_sleep_ms(LOOK_MS);
	}
	kr_display_end(&display);
}

static int report_item(const struct item *item, const struct outcome *outcome)
{
	KR_AUTO_FREE char *shown = kr_text_shown(item->path);
	const bool done = atomic_load(&outcome->done);

	if (done && !outcome->err)
		return KR_EXIT_OK;
	if (done && item->named && (outcome->err == ENOENT || outcome->err == ENOTDIR)) {
		fprintf(stderr, "kairan: %s: %s\n", shown ? shown : "?", strerror(outcome->err));
		return KR_EXIT_FAILED;
	}
	printf("not on the server: %s: %s\n", shown ? shown : "?",
		!done                          ? "not within the time" :
			outcome->err == ESTALE ? "it has another name now" :
						 strerror(outcome->err));
	return KR_EXIT_LEFT;
}

static int report(const struct job *job)
{
	int result = KR_EXIT_OK;

	for (size_t i = 0; i < job->count; i++) {
		const int one = report_item(&job->items[i], &job->outcomes[i]);

		result = KR_MAX(result, one);
	}
	return result;
}

static bool has_named(const struct job *job)
{
	for (size_t i = 0; i < job->count; i++)
		if (job->items[i].named)
			return true;
	return false;
}

static void job_free(struct job *job)
{
	for (size_t i = 0; i < job->count; i++)
		free(job->items[i].path);
	free(job->items);
	if (job->outcomes)
		munmap(job->outcomes, (job->count + 1) * sizeof(*job->outcomes));
}

static int list_files(struct job *job, const struct kr_mounted *mounted, const char *below)
{
	json_t *status = NULL;
	int err = kr_ask_mount(mounted, "status", "", &status);

	if (err == 0)
		add_own(job, mounted, status, below);
	if (err == 0 && *below && !has_named(job))
		add(job, (struct item){.path = below_mount(mounted, below), .named = true});
	json_decref(status);
	return err;
}

int kr_flush_own(const struct kr_mounted *mounted, const char *below, unsigned long timeout_ms, bool quiet)
{
	struct job job = {0};
	int err = list_files(&job, mounted, below), result;
	pid_t child = err < 0 ? err : start(&job);

	if (child < 0) {
		result = kr_tool_failed();
	} else {
		watch(mounted, &job, child, timeout_ms, quiet);
		result = report(&job);
	}
	job_free(&job);
	return result;
}

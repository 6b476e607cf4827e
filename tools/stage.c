/* kairan stage: makes all nodes of the ring stage files, through ordinary handles on a mount (KR_IOC_STAGE), so with
 * the caller's own rights.
 *
 * A few threads take file after file; they share struct staging, under its lock.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/kairan_ioctl.h"
#include "common/base/util.h"
#include "tools/base/client.h"
#include "tools/base/files.h"
#include "tools/commands.h"
#include "tools/base/units.h"

static const char usage[] =
	"usage: kairan stage [--wait] PATH...\n"
	"Brings files, and all files below directories, into the caches of all nodes that mount the export, through "
	"the ring:\n"
	"each byte leaves the server once. Returns when all nodes have begun; they go on.\n"
	"  --wait   returns when all of it is there, with a progress bar on a terminal\n"
	"Exit code: 0 all is staged, or begun; 1 some of it is not (each file is named); 2 nothing could be; 64 "
	"wrong arguments.\n";

enum { THREADS = 8, WAIT_MS = 500, STALL_S = 120, BAR = 30 };

/* --- staging --- */

struct staging {
	const struct kr_tool_files *list;
	bool wait;
	pthread_mutex_t lock;
	size_t next;
	size_t failed, nowhere; /* files that some nodes do not have; that no node has */
	uint64_t bytes;         /* staged now, on all nodes together */
	uint32_t nodes;
	uint64_t room;
};

/* --- messages --- */

static void clear_line(void)
{
	if (isatty(STDOUT_FILENO)) {
		printf("\r%*s\r", BAR + 50, "");
		fflush(stdout);
	}
}

/* [lock] */
static void show_progress(const struct staging *staging)
{
	uint64_t all = staging->list->bytes * KR_MAX(staging->nodes, 1u), bytes = KR_MIN(staging->bytes, all);
	int filled = all ? (int)((double)bytes / (double)all * BAR) : BAR;

	if (!staging->wait || !isatty(STDOUT_FILENO))
		return;
	printf("\r[%-*.*s] %s of %s, %u nodes   ", BAR, filled, "##############################",
		kr_bytes_text((json_int_t)(bytes / KR_MAX(staging->nodes, 1u))),
		kr_bytes_text((json_int_t)staging->list->bytes), staging->nodes);
	fflush(stdout);
}

/* STATE: the nodes' answers; NULL: none was asked. */
static void __attribute__((format(printf, 4, 5)))
complain(struct staging *staging, const char *path, const struct kr_stage_state *state, const char *format, ...)
{
	va_list arguments;

	KR_SCOPED_LOCK(&staging->lock);
	clear_line();
	fprintf(stderr, "kairan: %s: ", path);
	va_start(arguments, format);
	vfprintf(stderr, format, arguments);
	va_end(arguments);
	fputc('\n', stderr);
	staging->failed++;
	staging->nowhere += !state || state->failed == state->nodes;
}

/* --- one file --------------------------------------------------------------------------------- */

/* Counts STATE of a file of which *BYTES were counted before.  Whether the caches have room for all files. */
static bool count(struct staging *staging, const struct kr_stage_state *state, uint64_t *bytes)
{
	KR_SCOPED_LOCK(&staging->lock);
	staging->bytes += state->bytes - *bytes;
	*bytes = state->bytes;
	staging->nodes = KR_MAX(staging->nodes, state->nodes);
	staging->room = KR_MIN(staging->room, state->room);
	show_progress(staging);
	return staging->list->bytes <= staging->room;
}

static const char *error_text(int err)
{
	if (err == ENOTTY)
		return "does not lie on a mount of kairanfs";
	if (err == EPROTO || err == EOPNOTSUPP)
		return "the server or a node is of a version that cannot stage";
	return strerror(err);
}

/* Whether a node must wait for others before it can begin. */
static bool unbegun(const struct kr_stage_state *state)
{
	return state->failed && state->error == EAGAIN;
}

/* Makes the nodes stage one file, or prints why they do not. */
static void stage_open_file(struct staging *staging, const char *path, int fd)
{
	uint64_t bytes = 0, moved_ns = kr_clock_ns();
	struct kr_stage_state state;

	do {
		uint64_t before = bytes;

		state = (struct kr_stage_state){.wait_ms = staging->wait ? WAIT_MS : 0};
		if (ioctl(fd, KR_IOC_STAGE, &state) < 0) {
			complain(staging, path, NULL, "%s", error_text(errno));
			return;
		}
		if (!count(staging, &state, &bytes))
			return; /* stage_all says so once */
		if (bytes != before)
			moved_ns = kr_clock_ns();
		if (kr_clock_ns() - moved_ns > STALL_S * KR_NS_PER_S) {
			complain(staging, path, &state, "nothing has come for %d s: %u of %u nodes have it", STALL_S,
				state.done, state.nodes);
			return;
		}
	} while (unbegun(&state) || (staging->wait && state.done + state.failed < state.nodes));
	if (state.failed)
		complain(staging, path, &state, "not on %u of %u nodes; %s: %s", state.failed, state.nodes, state.node,
			error_text((int)state.error));
}

static void stage_file(struct staging *staging, const char *path)
{
	KR_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0)
		complain(staging, path, NULL, "%s", strerror(errno));
	else
		stage_open_file(staging, path, fd);
}

static const char *next_path(struct staging *staging)
{
	KR_SCOPED_LOCK(&staging->lock);
	if (staging->next == staging->list->count || staging->list->bytes > staging->room)
		return NULL;
	return staging->list->files[staging->next++].path;
}

static void *work(void *context)
{
	const char *path;

	while ((path = next_path(context)))
		stage_file(context, path);
	return NULL;
}

/* --- all -------------------------------------------------------------------------------------- */

static int stage_all(const struct kr_tool_files *list, bool wait)
{
	struct staging staging = {.list = list, .wait = wait, .lock = PTHREAD_MUTEX_INITIALIZER, .room = UINT64_MAX};
	pthread_t threads[THREADS];
	size_t count = 0;

	while (count < THREADS && count < list->count && pthread_create(&threads[count], NULL, work, &staging) == 0)
		count++;
	if (count == 0)
		work(&staging);
	while (count > 0)
		pthread_join(threads[--count], NULL);
	clear_line();
	if (list->bytes > staging.room) {
		fprintf(stderr,
			"kairan: these are %s, and the smallest cache of a node has room for %s (cache_max of "
			"kairanfs)\n",
			kr_bytes_text((json_int_t)list->bytes), kr_bytes_text((json_int_t)staging.room));
		return KR_EXIT_LEFT;
	}
	if (staging.failed || list->errors)
		return staging.nowhere == list->count ? KR_EXIT_FAILED : KR_EXIT_LEFT;
	printf("%s %zu file%s, %s, on %u node%s\n", wait ? "staged" : "begun to stage", list->count, KR_S(list->count),
		kr_bytes_text((json_int_t)list->bytes), staging.nodes, KR_S(staging.nodes));
	return KR_EXIT_OK;
}

int kr_tool_stage(int argc, char **argv)
{
	static const struct option options[] = {
		{"wait", no_argument, NULL, 'w'}, {"help", no_argument, NULL, 'h'}, {0}};
	struct kr_tool_files list = {0};
	bool wait = false;
	int option, result;

	while ((option = kr_tool_option(argc, argv, "wh", options)) != -1) {
		if (option == 'w') {
			wait = true;
			continue;
		}
		return kr_tool_usage(usage, option == 'h');
	}
	if (optind == argc)
		return kr_tool_usage(usage, false);
	for (int i = optind; i < argc; i++)
		kr_tool_files_add(&list, argv[i]);
	result = stage_all(&list, wait);
	kr_tool_files_fini(&list);
	return result;
}

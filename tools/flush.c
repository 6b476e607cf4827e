/* kairan flush: asks a mount's daemon to bring what is unflushed to the server, and watches until it is there. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/fail.h"
#include "common/util.h"
#include "tools/client.h"
#include "tools/commands.h"

static const char usage[] = "usage: kairan flush [--timeout SECONDS] [PATH...]\n"
	"       kairan flush --discard PATH...\n"
	"Brings unflushed bytes to the server: of all mounts here, or of the files and trees named.\n"
	"What the server has refused (no space, quota...) is tried again.\n"
	"  --timeout S  give up after S seconds (default: wait)\n"
	"  --discard    drop the unflushed bytes of these files instead, for good; of a mount point:\n"
	"               the damaged journal segments that its start has set aside\n"
	"Exit code: 0 all is on the server, 1 some bytes are not (they are listed and stay in the journal),\n"
	"2 no such mount or no answer, 64 wrong arguments.\n";

/* What is left of the files that are meant. */
struct left {
	json_int_t dirty, refused, unstable;
};

enum { LOOK_MS = 100, REFUSAL_GRACE_MS = 1000, BAR = 30 };

/* Whether the file (an element of "files") lies at or below PREFIX; a file without a path counts always. */
static bool meant(const json_t *file, const char *prefix)
{
	const char *path = json_string_value(json_object_get(file, "path"));
	size_t length = prefix ? strlen(prefix) : 0;

	if (!length || !path || !*path)
		return true;
	return strncmp(path, prefix, length) == 0 && (path[length] == '\0' || path[length] == '/');
}

static bool refused(const json_t *file)
{
	const char *state = json_string_value(json_object_get(file, "state"));

	return state && (strcmp(state, "refused") == 0 || strcmp(state, "orphaned") == 0);
}

static struct left count_left(const json_t *status, const char *prefix)
{
	struct left left = {0};
	const json_t *file;
	size_t i;

	json_array_foreach(json_object_get(status, "files"), i, file) {
		json_int_t dirty = json_integer_value(json_object_get(file, "dirty"));

		if (!meant(file, prefix))
			continue;
		left.dirty += dirty;
		left.unstable += json_integer_value(json_object_get(file, "unstable"));
		if (refused(file))
			left.refused += dirty;
	}
	return left;
}

static void list_left(const json_t *status, const char *prefix)
{
	const json_t *file;
	size_t i;

	json_array_foreach(json_object_get(status, "files"), i, file) {
		const char *path = json_string_value(json_object_get(file, "path"));
		const char *error = json_string_value(json_object_get(file, "error"));
		json_int_t dirty = json_integer_value(json_object_get(file, "dirty"));

		if (!dirty || !meant(file, prefix))
			continue;
		printf("not on the server: %s: %s%s%s\n",
			path && *path ? path : json_string_value(json_object_get(file, "fid")), kr_bytes_text(dirty),
			error && *error ? ": " : "", error ? error : "");
	}
}

static uint64_t now_ms(void)
{
	return kr_clock_ns() / KR_NS_PER_MS;
}

static void show_progress(const struct left *left, json_int_t total)
{
	json_int_t rest = left->dirty + left->unstable;
	int filled = total ? (int)((total - rest) * BAR / total) : BAR;

	if (!isatty(STDOUT_FILENO))
		return;
	filled = KR_MAX(0, KR_MIN(filled, BAR));
	printf("\r[%-*.*s] %s left   ", BAR, filled, "##############################", kr_bytes_text(rest));
	fflush(stdout);
}

static void end_progress(void)
{
	if (isatty(STDOUT_FILENO))
		printf("\r%*s\r", BAR + 30, "");
}

/* Looks again and again until there is nothing more to wait for; *RET_STATUS is the last look. */
static int watch(const struct kr_mounted *mounted, const char *prefix, unsigned long timeout_ms, json_t **ret_status)
{
	uint64_t start = now_ms();
	json_int_t total = 0;
	json_t *status = NULL;
	int err = kr_ask_mount(mounted, "flush", "", &status);

	while (err == 0) {
		struct left left = count_left(status, prefix);
		uint64_t spent = now_ms() - start;
		bool only_refused = left.dirty == left.refused && !left.unstable && (!left.dirty || spent > REFUSAL_GRACE_MS);

		total = KR_MAX(total, left.dirty + left.unstable);
		show_progress(&left, total);
		if (only_refused || (timeout_ms && spent >= timeout_ms)) {
			*ret_status = status;
			break;
		}
		json_decref(status);
		struct timespec pause = {.tv_nsec = LOOK_MS * (long)KR_NS_PER_MS};

		nanosleep(&pause, NULL);
		err = kr_ask_mount(mounted, "status", "", &status);
	}
	end_progress();
	return err;
}

int kr_flush_mount(const struct kr_mounted *mounted, const char *prefix, unsigned long timeout_ms)
{
	json_t *status = NULL;
	struct left left;

	if (watch(mounted, prefix, timeout_ms, &status) < 0) {
		fprintf(stderr, "kairan: %s\n", kr_fail_reason());
		return KR_EXIT_FAILED;
	}
	left = count_left(status, prefix);
	list_left(status, prefix);
	if (!left.dirty && left.unstable)
		printf("%s of %s are applied, but not known to be on the server's disk\n", kr_bytes_text(left.unstable), mounted->path);
	json_decref(status);
	return left.dirty || left.unstable ? KR_EXIT_LEFT : KR_EXIT_OK;
}

/* The part of PATH below the mount point; owned. */
static char *below(const struct kr_mounted *mounted, const char *path)
{
	KR_AUTO_FREE char *plain = kr_plain_path(path);
	size_t length = strlen(mounted->path);

	if (strncmp(plain, mounted->path, length) != 0) { /* by a symbolic link */
		free(plain);
		plain = realpath(path, NULL);
		if (!plain || strncmp(plain, mounted->path, length) != 0)
			return kr_xstrdup("");
	}
	return kr_xstrdup(plain + length + (plain[length] == '/'));
}

static int flush_path(const char *path, bool discard, unsigned long timeout_ms)
{
	struct kr_mounted mounted;
	KR_AUTO_FREE char *prefix = NULL;
	json_t *status;
	int result;

	if (kr_find_mount(path, &mounted) < 0) {
		fprintf(stderr, "kairan: %s\n", kr_fail_reason());
		return KR_EXIT_FAILED;
	}
	prefix = below(&mounted, path);
	if (!discard) {
		result = kr_flush_mount(&mounted, prefix, timeout_ms);
	} else if (kr_ask_mount(&mounted, "discard", prefix, &status) < 0) {
		fprintf(stderr, "kairan: %s: %s\n", path, kr_fail_reason());
		result = KR_EXIT_FAILED;
	} else {
		printf("discarded the unflushed bytes of %s\n", path);
		json_decref(status);
		result = KR_EXIT_OK;
	}
	kr_mounted_fini(&mounted);
	return result;
}

struct all {
	unsigned long timeout_ms;
	int result;
};

static void flush_one_of_all(const struct kr_mounted *mounted, void *context)
{
	struct all *all = context;
	int result = kr_flush_mount(mounted, NULL, all->timeout_ms);

	all->result = KR_MAX(all->result, result);
}

int kr_tool_flush(int argc, char **argv)
{
	static const struct option options[] = {{"timeout", required_argument, NULL, 't'}, {"discard", no_argument, NULL, 'd'},
		{"help", no_argument, NULL, 'h'}, {0}};
	struct all all = {0};
	bool discard = false;
	char *end = NULL;
	int option;

	while ((option = getopt_long(argc, argv, "t:dh", options, NULL)) != -1) {
		if (option == 't')
			all.timeout_ms = (unsigned long)(strtod(optarg, &end) * 1000);
		else if (option == 'd')
			discard = true;
		if (option == 'h' || option == '?' || (end && *end)) {
			fputs(usage, option == 'h' ? stdout : stderr);
			return option == 'h' ? KR_EXIT_OK : KR_EXIT_USAGE;
		}
	}
	if (discard && optind == argc) {
		fputs(usage, stderr);
		return KR_EXIT_USAGE;
	}
	for (int i = optind; i < argc; i++) {
		int result = flush_path(argv[i], discard, all.timeout_ms);

		all.result = KR_MAX(all.result, result);
	}
	if (optind == argc && kr_mounted_for_each(flush_one_of_all, &all) < 0) {
		fprintf(stderr, "kairan: %s\n", kr_fail_reason());
		return KR_EXIT_FAILED;
	}
	return all.result;
}

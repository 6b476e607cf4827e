/* kairan flush: asks a mount's daemon to flush, and watches until the bytes are on the server. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/base/client.h"
#include "tools/flush_own.h"
#include "tools/commands.h"
#include "tools/flush_goal.h"
#include "tools/base/path_filter.h"
#include "tools/base/find_mount.h"
#include "tools/base/units.h"
#include "tools/base/progress.h"

static const char usage[] =
	"usage: kairan flush [--timeout SECONDS] [--refused-ok] [--quiet] [PATH...]\n"
	"       kairan flush --discard PATH...\n"
	"Brings unflushed bytes to the server: of all mounts here, or of the files and trees named;\n"
	"what programs write meanwhile is not waited for. Of another user's mount: your own files,\n"
	"and a file that is named, if you may open it.\n"
	"What the server has refused (no space, quota...) is tried again.\n"
	"  --timeout S  give up after S seconds (default: wait)\n"
	"  --refused-ok exit code 0 also if all that is left is what the server refuses\n"
	"  -q, --quiet  no progress\n"
	"  --discard    drop the unflushed bytes of these files instead, for good; of a mount point:\n"
	"               the damaged journal segments that its start has set aside\n"
	"Exit code: 0 all is on the server, 1 some bytes are not (they are listed and stay in the journal),\n"
	"2 no such mount or no answer, 64 wrong arguments.\n";

/* The bytes for which the command waits. */
struct wanted {
	struct kr_path_filter *paths;
	struct kr_flush_goal *goal;
	bool all;          /* also bytes written meanwhile */
	bool quiet;        /* without progress */
	bool only_refused; /* the result: only refused bytes are left */
};

/* How many of these bytes are left.  SENT: of the dirty ones, those that a flush under way has sent. */
struct left {
	json_int_t dirty, sent, refused, unstable;
};

enum { LOOK_MS = 100, LOOK_FIRST_MS = 2000, REFUSAL_GRACE_MS = 1000 };

static bool refused(const json_t *file)
{
	const char *error = json_string_value(json_object_get(file, "error"));

	return error && *error;
}

static bool is_wanted(const struct wanted *wanted, const json_t *status, const json_t *file)
{
	return (wanted->all || kr_flush_goal_has(wanted->goal, status, file)) &&
		kr_path_filter_has(wanted->paths, file);
}

static struct left count_left(const json_t *status, const struct wanted *wanted)
{
	struct left left = {0};
	const json_t *file;
	size_t i;

	json_array_foreach(json_object_get(status, "files"), i, file)
	{
		json_int_t dirty = json_integer_value(json_object_get(file, "dirty"));

		if (!is_wanted(wanted, status, file))
			continue;
		left.dirty += dirty;
		left.sent += json_integer_value(json_object_get(file, "sent"));
		left.unstable += json_integer_value(json_object_get(file, "unstable"));
		if (refused(file))
			left.refused += dirty;
	}
	return left;
}

static void list_left(const json_t *status, const struct wanted *wanted)
{
	const json_t *file;
	size_t i;

	json_array_foreach(json_object_get(status, "files"), i, file)
	{
		const char *path = json_string_value(json_object_get(file, "path"));
		const char *error = json_string_value(json_object_get(file, "error"));
		KR_AUTO_FREE char *shown =
			kr_text_shown(path && *path ? path : json_string_value(json_object_get(file, "fid")));
		json_int_t dirty = json_integer_value(json_object_get(file, "dirty"));

		if (!dirty || !is_wanted(wanted, status, file))
			continue;
		printf("not on the server: %s: %s%s%s\n", shown ? shown : "?", kr_bytes_text(dirty),
			error && *error ? ": " : "", error ? error : "");
	}
}

/* Sets the goal before it asks the daemon to flush, so that the flush includes all of the goal. */
static int begin(const struct kr_mounted *mounted, struct wanted *wanted, json_t **ret_status)
{
	json_t *status = NULL;
	int err = kr_ask_mount(mounted, "status", "", &status);

	wanted->goal = kr_flush_goal_new(status);
	json_decref(status);
	return err == 0 ? kr_ask_mount(mounted, "flush", "", ret_status) : err;
}

/* Polls until there are no more bytes to wait for; *RET_STATUS is the last status. */
static int watch(const struct kr_mounted *mounted, struct wanted *wanted, unsigned long timeout_ms, json_t **ret_status)
{
	uint64_t start = kr_clock_ms();
	struct kr_display display;
	json_t *status = NULL;
	int err = begin(mounted, wanted, &status);

	kr_display_init(&display, mounted->path, wanted->quiet);
	if (err == 0)
		err = kr_path_filter_update(wanted->paths, status,
			timeout_ms ? (unsigned)KR_MIN(timeout_ms, LOOK_FIRST_MS) : LOOK_FIRST_MS);
	while (err == 0) {
		struct left left = count_left(status, wanted);
		uint64_t spent = kr_clock_ms() - start;
		bool only_refused =
			left.dirty == left.refused && !left.unstable && (!left.dirty || spent > REFUSAL_GRACE_MS);

		kr_display_show(&display, left.dirty - left.sent, left.unstable + left.sent, left.refused);
		if (only_refused || (timeout_ms && spent >= timeout_ms)) {
			*ret_status = status;
			break;
		}
		json_decref(status);
		kr_sleep_ms(LOOK_MS);
		status = NULL;
		err = kr_ask_mount(mounted, "status", "", &status);
		if (err == 0)
			err = kr_path_filter_update(wanted->paths, status, 0);
	}
	kr_display_end(&display);
	if (err < 0)
		json_decref(status);
	return err;
}

static int flush_wanted(const struct kr_mounted *mounted, struct wanted *wanted, unsigned long timeout_ms)
{
	json_t *status = NULL;
	struct left left;

	if (watch(mounted, wanted, timeout_ms, &status) < 0)
		return kr_tool_failed();
	left = count_left(status, wanted);
	list_left(status, wanted);
	if (!left.dirty && left.unstable)
		printf("%s of %s are applied, but not known to be on the server's disk\n", kr_bytes_text(left.unstable),
			mounted->path);
	json_decref(status);
	wanted->only_refused = left.dirty == left.refused && !left.unstable;
	return left.dirty || left.unstable ? KR_EXIT_LEFT : KR_EXIT_OK;
}

static int flush_below(const struct kr_mounted *mounted, const char *below, bool all, unsigned long timeout_ms,
	bool quiet, bool *ret_only_refused)
{
	struct wanted wanted = {.paths = kr_path_filter_new(mounted, below), .all = all, .quiet = quiet};
	int result = flush_wanted(mounted, &wanted, timeout_ms);

	kr_path_filter_free(wanted.paths);
	kr_flush_goal_free(wanted.goal);
	*ret_only_refused = wanted.only_refused;
	return result;
}

int kr_flush_mount(const struct kr_mounted *mounted, unsigned long timeout_ms, bool quiet, bool *ret_only_refused)
{
	return flush_below(mounted, NULL, true, timeout_ms, quiet, ret_only_refused);
}

static int discard_below(const struct kr_mounted *mounted, const char *below, const char *path)
{
	json_t *status;
	int err = kr_ask_mount(mounted, "discard", below, &status);

	if (err == -ENODATA)
		fprintf(stderr,
			"kairan: %s: no file of this name has unflushed bytes (kairan status lists those that have)\n",
			path);
	else if (err < 0)
		fprintf(stderr, "kairan: %s: %s\n", path, kr_fail_reason());
	if (err < 0)
		return KR_EXIT_FAILED;
	json_decref(status);
	if (*below)
		printf("discarded the unflushed bytes of %s\n", path);
	else
		printf("let go of what is damaged in the journal of %s (unflushed bytes are discarded by the names "
		       "of their files)\n",
			path);
	return KR_EXIT_OK;
}

struct all {
	unsigned long timeout_ms;
	bool refused_ok, quiet;
	int result;
};

static void flush_one(struct all *all, const struct kr_mounted *mounted, const char *below)
{
	bool only_refused = false;
	int result = kr_flush_is_of_user(mounted) ?
		kr_flush_own(mounted, below ? below : "", all->timeout_ms, all->quiet) :
		flush_below(mounted, below, false, all->timeout_ms, all->quiet, &only_refused);

	if (result == KR_EXIT_LEFT && only_refused && all->refused_ok)
		result = KR_EXIT_OK;
	all->result = KR_MAX(all->result, result);
}

static void flush_path(struct all *all, const char *path, bool discard)
{
	struct kr_mounted mounted;
	KR_AUTO_FREE char *below = NULL;
	int result;

	if (kr_find_mount(path, &mounted, &below) < 0) {
		all->result = kr_tool_failed();
		return;
	}
	if (discard) {
		result = discard_below(&mounted, below, path);
		all->result = KR_MAX(all->result, result);
	} else {
		flush_one(all, &mounted, below);
	}
	kr_mounted_fini(&mounted);
}

static void flush_one_of_all(const struct kr_mounted *mounted, void *context)
{
	flush_one(context, mounted, NULL);
}

int kr_tool_flush(int argc, char **argv)
{
	static const struct option options[] = {{"timeout", required_argument, NULL, 't'},
		{"discard", no_argument, NULL, 'D'}, {"refused-ok", no_argument, NULL, 'r'},
		{"quiet", no_argument, NULL, 'q'}, {"help", no_argument, NULL, 'h'}, {0}};
	struct all all = {0};
	bool discard = false, bad = false;
	int option;

	while ((option = kr_tool_option(argc, argv, "t:qh", options)) != -1) {
		if (option == 't')
			bad = kr_tool_timeout(optarg, &all.timeout_ms) < 0;
		else if (option == 'D')
			discard = true;
		else if (option == 'r')
			all.refused_ok = true;
		else if (option == 'q')
			all.quiet = true;
		if (bad)
			return KR_EXIT_USAGE;
		if (option == 'h' || option == '?')
			return kr_tool_usage(usage, option == 'h');
	}
	if (discard && optind == argc) {
		fprintf(stderr, "kairan: no file is named to discard\n%s", usage);
		return KR_EXIT_USAGE;
	}
	for (int i = optind; i < argc; i++)
		flush_path(&all, argv[i], discard);
	if (optind == argc && kr_for_each_mount(flush_one_of_all, &all) < 0)
		return kr_tool_failed();
	return all.result;
}

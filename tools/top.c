/* kairan top: what mounts and servers do, again and again, from what `kairan status --json` tells. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "tools/base/client.h"
#include "tools/commands.h"
#include "tools/base/find_mount.h"
#include "tools/base/screen.h"
#include "tools/top_view.h"

enum { BATCH_WIDTH = 512, DELAY_MIN_MS = 100, DELAY_MAX_S = 86400 };

static const char usage[] =
	"usage: kairan top [-b] [-n COUNT] [-d SECONDS] [MOUNTPOINT | [--key FILE | --munge [--munge-socket PATH] "
	"[--munge-uid UID]] HOST[:PORT]]\n"
	"Shows what a mount, or a server and its nodes, do now, each second anew. Without an argument: all mounts of\n"
	"kairanfs here. q ends it.\n"
	"  -b          batch mode: plain text, one picture after the other\n"
	"  -n COUNT    ends after so many pictures\n"
	"  -d SECONDS  the time between two pictures\n"
	"Exit code: 0, 2 no such mount or no answer, 64 wrong arguments.\n";

struct top {
	const char *server; /* NULL: mounts */
	const char *path;   /* of the one mount; NULL: all */
	struct kr_tool_proof proof;
	bool batch;
	unsigned long delay_ms;
	uint64_t count; /* 0: no end */

	json_t *now, *before; /* of a server its status, of mounts an array */
	uint64_t now_ns, before_ns;
	char *trouble; /* why there is no status now; NULL */
};

/* --- asking -------------------------------------------------------------------------------------- */

static void note_trouble(struct top *top)
{
	free(top->trouble);
	top->trouble = kr_xstrdup(kr_fail_reason());
}

static void ask_mount(const struct kr_mounted *mounted, void *context)
{
	struct top *top = context;
	json_t *status, *printable;

	if (kr_ask_mount(mounted, "status", "", &status) < 0) {
		note_trouble(top);
		return;
	}
	if (json_object_get(status, "view")) { /* nothing moves there that the daemon sees */
		if (top->path) {
			kr_fail(-ENODATA, "%s is scratch of this node (view=node) and has no rates: kairan status %s",
				mounted->path, mounted->path);
			note_trouble(top);
		}
		json_decref(status);
		return;
	}
	printable = kr_printable(status);
	json_array_append_new(top->now, printable);
	json_decref(status);
}

static void ask_one_mount(struct top *top)
{
	struct kr_mounted mounted;

	if (kr_find_mount(top->path, &mounted, NULL) < 0) {
		note_trouble(top);
		return;
	}
	ask_mount(&mounted, top);
	kr_mounted_fini(&mounted);
}

static void ask_server(struct top *top)
{
	json_t *status;

	if (kr_ask_server(top->server, &top->proof, &status) < 0) {
		note_trouble(top);
		return;
	}
	top->now = kr_server_printable(status);
	json_decref(status);
}

/* The status of now; the former one becomes that of before.  False: there is none. */
static bool ask(struct top *top)
{
	json_decref(top->before);
	top->before = top->now;
	top->before_ns = top->now_ns;
	free(top->trouble);
	top->trouble = NULL;
	top->now = top->server ? NULL : json_array();
	if (top->server)
		ask_server(top);
	else if (top->path)
		ask_one_mount(top);
	else if (kr_for_each_mount(ask_mount, top) < 0)
		note_trouble(top);
	top->now_ns = kr_clock_ns();
	return !top->trouble;
}

/* --- showing ------------------------------------------------------------------------------------- */

static void put_title(const struct top *top, unsigned width, FILE *out)
{
	time_t now = time(NULL);
	struct tm local;
	char clock[16] = "", line[600];

	if (localtime_r(&now, &local))
		strftime(clock, sizeof(clock), "%H:%M:%S", &local);
	snprintf(line, sizeof(line), "kairan top - %s, every %.1f s%s%s", clock, (double)top->delay_ms / 1000,
		top->trouble ? ": " : "", top->trouble ? top->trouble : "");
	fprintf(out, "%.*s\n", (int)width, line);
}

/* The picture, owned; NULL: out of memory. */
static char *draw(const struct top *top, unsigned width)
{
	struct kr_top_moment moment = {.now = top->now,
		.before = top->before,
		.seconds = (double)(top->now_ns - top->before_ns) / (double)KR_NS_PER_S,
		.width = KR_MAX(width, 20U)};
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		return NULL;
	put_title(top, moment.width, out);
	if (top->server && top->now)
		kr_top_server(&moment, top->server, out);
	else if (!top->server && json_array_size(top->now))
		kr_top_mounts(&moment, out);
	else if (!top->server && !top->trouble)
		fputs("no mounts of a server here\n", out);
	fclose(out);
	return text;
}

static void print(const struct top *top)
{
	char *text = draw(top, BATCH_WIDTH);

	for (const char *at = text; at && *at; at++)
		if (*at != KR_TOP_HEAD)
			putchar(*at);
	putchar('\n');
	fflush(stdout);
	free(text);
}

static void show(const struct top *top)
{
	unsigned width, height;
	char *text;

	kr_screen_size(&width, &height);
	text = draw(top, width);
	kr_screen_show(text ? text : "", KR_TOP_HEAD);
	free(text);
}

/* --- going on ------------------------------------------------------------------------------------ */

static void sleep_ms(unsigned long ms)
{
	struct timespec time = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

	while (nanosleep(&time, &time) < 0 && errno == EINTR)
		continue;
}

/* Batch: each picture is of the time since the one before, so the first comes after a delay. */
static void run_batch(struct top *top)
{
	for (unsigned long done = 0; (!top->count || done < top->count) && !ferror(stdout); done++) {
		sleep_ms(top->delay_ms);
		ask(top);
		print(top);
	}
}

/* True: the user ends it. */
static bool wait_for_keys(const struct top *top)
{
	const uint64_t until_ns = kr_clock_ns() + top->delay_ms * KR_NS_PER_MS;
	uint64_t now_ns;

	while ((now_ns = kr_clock_ns()) < until_ns) {
		int key = kr_screen_key((unsigned)((until_ns - now_ns) / KR_NS_PER_MS) + 1);

		if (key == 'q' || key == 'Q' || key == -1)
			return true;
		if (key == 1)
			show(top);
		else if (key)
			return false; /* any other key: at once */
	}
	return false;
}

static void run_live(struct top *top)
{
	unsigned long done = 1;

	for (show(top); !top->count || done <= top->count; done++) {
		if (wait_for_keys(top))
			break;
		ask(top);
		show(top);
	}
	kr_screen_close();
}

static int run(struct top *top)
{
	if (!ask(top)) {
		fprintf(stderr, "kairan: %s\n", top->trouble);
		return KR_EXIT_FAILED;
	}
	if (!top->batch && kr_screen_open() < 0) {
		fprintf(stderr, "kairan: standard input and output are no terminal: use -b\n");
		return KR_EXIT_FAILED;
	}
	if (top->batch)
		run_batch(top);
	else
		run_live(top);
	return KR_EXIT_OK;
}

/* --- the command --------------------------------------------------------------------------------- */

static bool parse_delay(const char *text, unsigned long *ret_ms)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds >= 0 && seconds <= DELAY_MAX_S)) {
		fprintf(stderr, "kairan: -d: \"%s\" is not a number of seconds\n", text);
		return false;
	}
	*ret_ms = KR_MAX((unsigned long)(seconds * 1000), (unsigned long)DELAY_MIN_MS);
	return true;
}

static bool parse_count(const char *text, uint64_t *ret_count)
{
	if (kr_parse_number(text, 1, UINT64_MAX, ret_count))
		return true;
	fprintf(stderr, "kairan: -n: \"%s\" is not a number above 0\n", text);
	return false;
}

/* -1: the command goes on; else its exit code. */
static int parse(struct top *top, int argc, char **argv)
{
	static const struct option options[] = {KR_TOOL_PROOF_OPTIONS, {"help", no_argument, NULL, 'h'}, {0}};
	int option, code = -1;

	while (code < 0 && (option = kr_tool_option(argc, argv, "bn:d:k:h", options)) != -1) {
		if (option == 'b')
			top->batch = true;
		else if (option == 'n')
			code = parse_count(optarg, &top->count) ? -1 : KR_EXIT_USAGE;
		else if (option == 'd')
			code = parse_delay(optarg, &top->delay_ms) ? -1 : KR_EXIT_USAGE;
		else
			code = kr_tool_proof_take(&top->proof, option, usage);
	}
	if (code < 0)
		code = kr_tool_proof_end(&top->proof, argc - optind, usage);
	if (code >= 0)
		return code;
	if (optind < argc && kr_looks_like_path(argv[optind]))
		top->path = argv[optind];
	else if (optind < argc)
		top->server = argv[optind];
	return -1;
}

int kr_tool_top(int argc, char **argv)
{
	struct top top = {.delay_ms = 1000};
	int code = parse(&top, argc, argv);

	if (code >= 0)
		return code;
	code = run(&top);
	json_decref(top.now);
	json_decref(top.before);
	free(top.trouble);
	return kr_tool_printed(code);
}

/* kairan trace: begins and ends the trace of a mount, and shows traces. */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/fail.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/base/client.h"
#include "tools/base/find_mount.h"
#include "tools/commands.h"
#include "tools/trace/traces.h"

static const char usage[] =
	"usage: kairan trace start|stop MOUNTPOINT\n"
	"       kairan trace show [--by WHAT] [--json] [--html FILE] [--perfetto FILE] [--dot FILE]\n"
	"                         MOUNTPOINT|FILE...\n"
	"Notes what each process asks of which file, and what its requests wait for, in the file trace of the mount's\n"
	"local directory. A start begins a new one. show takes mounts of this machine, and such files of several\n"
	"nodes together.\n"
	"  --by WHAT         program, process, node or job (of Slurm, else the cgroup); program without it\n"
	"  --json            prints a JSON object\n"
	"  --html FILE       writes a page: the table, what the time went to, a timeline, a graph of files\n"
	"  --perfetto FILE   writes a timeline for ui.perfetto.dev or chrome://tracing\n"
	"  --dot FILE        writes a graph of programs and the files between them, for Graphviz\n";

enum { WRITTEN_MS = 30000, LOOK_MS = 20 };

/* --- the daemon ------------------------------------------------------------------------------- */

static bool flag(const json_t *status, const char *name)
{
	return json_is_true(json_object_get(json_object_get(status, "trace"), name));
}

/* Asks for WHAT, and waits until the file has it.  *RET_STATUS owned. */
static int ask(const struct kr_mounted *mounted, const char *what, json_t **ret_status)
{
	const uint64_t until_ns = kr_clock_ns() + WRITTEN_MS * KR_NS_PER_MS;
	json_t *status = NULL;
	int err = kr_ask_mount(mounted, "trace", what, &status);

	while (err == 0 && flag(status, "writing") && kr_clock_ns() < until_ns) {
		json_decref(status);
		status = NULL;
		kr_sleep_ms(LOOK_MS);
		err = kr_ask_mount(mounted, "status", "", &status);
	}
	if (err == 0 && flag(status, "writing")) {
		json_decref(status);
		return kr_fail(-ETIMEDOUT, "%s: the trace is not written within 30 s", mounted->path);
	}
	if (err == 0)
		*ret_status = status;
	return err;
}

static int explain(int err, const struct kr_mounted *mounted)
{
	if (err == -EEXIST)
		return kr_fail(err, "%s is being traced already", mounted->path);
	if (err == -ENODATA)
		return kr_fail(err, "%s is not being traced", mounted->path);
	return err == -EOPNOTSUPP ?
		kr_fail(err, "%s cannot be traced: its view is node, or its daemon is older", mounted->path) :
		err;
}

static int switch_trace(const char *what, const char *path)
{
	struct kr_mounted mounted = {0};
	json_t *status = NULL;
	int err = kr_find_mount(path, &mounted, NULL);

	if (err == 0)
		err = explain(ask(&mounted, what, &status), &mounted);
	if (err == 0 && strcmp(what, "stop") == 0) {
		const char *error = kr_text_of(json_object_get(status, "trace"), "error");
		KR_AUTO_FREE char *file = kr_text_shown(kr_text_of(json_object_get(status, "trace"), "file"));

		printf("%s\n", file);
		if (*error)
			err = kr_fail(-EIO, "%s lacks its end: %s", file, error);
	}
	json_decref(status);
	kr_mounted_fini(&mounted);
	return err < 0 ? kr_tool_failed() : kr_tool_printed(KR_EXIT_OK);
}

/* --- showing ---------------------------------------------------------------------------------- */

/* The trace file of a mount, with all that has happened; owned.  NULL with a reason. */
static char *file_of_mount(const char *path, bool *ret_on)
{
	struct kr_mounted mounted = {0};
	json_t *status = NULL;
	char *file = NULL;
	int err = kr_find_mount(path, &mounted, NULL);

	if (err == 0) {
		err = ask(&mounted, "write", &status);
		if (err == -ENODATA) /* it is off; its file may be there */
			err = kr_ask_mount(&mounted, "status", "", &status);
		explain(err, &mounted);
	}
	if (err == 0) {
		const char *error = kr_text_of(json_object_get(status, "trace"), "error");

		if (*error)
			fprintf(stderr, "kairan: the trace of %s has ended by itself: %s\n", mounted.path, error);
		*ret_on = flag(status, "on");
		file = kr_xstrdup(kr_text_of(json_object_get(status, "trace"), "file"));
	}
	json_decref(status);
	kr_mounted_fini(&mounted);
	return file;
}

static int add_trace(struct kr_traces *traces, const char *path)
{
	struct stat stat_now;
	bool is_mount = stat(path, &stat_now) < 0 || !S_ISREG(stat_now.st_mode), on = false, cut = false;
	KR_AUTO_FREE char *file = is_mount ? file_of_mount(path, &on) : kr_xstrdup(path);
	FILE *in = file ? fopen(file, "re") : NULL;
	int err;

	if (!file)
		return -EIO;
	if (!in && is_mount && errno == ENOENT)
		return kr_fail(-ENOENT, "%s has not been traced: kairan trace start %s", path, path);
	if (!in)
		return kr_fail_errno(-errno, "cannot read %s", file);
	err = kr_traces_read(traces, in, file, &cut);
	fclose(in);
	if (err == 0 && cut && !on)
		fprintf(stderr, "kairan: %s has no end: the daemon was killed, or its disk was full\n", file);
	return err;
}

struct show {
	const char *by, *html, *perfetto, *dot;
	bool json;
};

static int export_to(
	const struct kr_traces *traces, const char *path, void (*write)(const struct kr_traces *traces, FILE *out))
{
	FILE *out = fopen(path, "we");

	if (out)
		write(traces, out);
	if (!out || fclose(out) != 0)
		return kr_fail_errno(-errno, "cannot write %s", path);
	return 0;
}

static int export_page(const struct kr_traces *traces, const struct show *show)
{
	FILE *out = fopen(show->html, "we");

	if (out)
		kr_traces_page(traces, show->by, out);
	return !out || fclose(out) != 0 ? kr_fail_errno(-errno, "cannot write %s", show->html) : 0;
}

static int present(const struct kr_traces *traces, const struct show *show)
{
	int err = show->perfetto ? export_to(traces, show->perfetto, kr_traces_perfetto) : 0;

	if (err == 0 && show->dot)
		err = export_to(traces, show->dot, kr_traces_dot);
	if (err == 0 && show->html)
		err = export_page(traces, show);
	if (err == 0 && show->json) {
		json_t *json = kr_traces_json(traces, show->by);

		json_dumpf(json, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(json);
	} else if (err == 0 && !show->perfetto && !show->dot && !show->html) {
		kr_traces_print(traces, show->by, stdout);
	}
	return err;
}

static int show_traces(const struct show *show, char **paths, int count)
{
	struct kr_traces traces;
	int err = 0;

	kr_traces_init(&traces);
	for (int i = 0; err == 0 && i < count; i++)
		err = add_trace(&traces, paths[i]);
	if (err == 0)
		err = present(&traces, show);
	kr_traces_fini(&traces);
	return err < 0 ? kr_tool_failed() : kr_tool_printed(KR_EXIT_OK);
}

static int kr_tool_trace_show(int argc, char **argv)
{
	static const struct option options[] = {{"by", required_argument, NULL, 'b'}, {"json", no_argument, NULL, 'j'},
		{"perfetto", required_argument, NULL, 'p'}, {"dot", required_argument, NULL, 'd'},
		{"html", required_argument, NULL, 'H'}, {"help", no_argument, NULL, 'h'}, {0}};
	struct show show = {.by = "program"};
	int option;

	while ((option = kr_tool_option(argc, argv, "h", options)) != -1) {
		switch (option) {
		case 'b':
			show.by = optarg;
			break;
		case 'p':
			show.perfetto = optarg;
			break;
		case 'd':
			show.dot = optarg;
			break;
		case 'H':
			show.html = optarg;
			break;
		case 'j':
			show.json = true;
			break;
		default:
			return kr_tool_usage(usage, option == 'h');
		}
	}
	if (!kr_traces_knows_key(show.by)) {
		fprintf(stderr, "kairan: --by: \"%s\" is none of program, process, node, job\n", show.by);
		return KR_EXIT_USAGE;
	}
	return optind == argc ? kr_tool_usage(usage, false) : show_traces(&show, argv + optind, argc - optind);
}

int kr_tool_trace(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	if (strcmp(what, "--help") == 0 || strcmp(what, "-h") == 0)
		return kr_tool_usage(usage, true);
	if ((strcmp(what, "start") == 0 || strcmp(what, "stop") == 0) && argc == 3 && argv[2][0] != '-')
		return switch_trace(what, argv[2]);
	if (strcmp(what, "show") != 0)
		return kr_tool_usage(usage, false);
	argv[1] = argv[0];
	return kr_tool_trace_show(argc - 1, argv + 1);
}

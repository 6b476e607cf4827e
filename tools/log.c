/* kairan log: the access log of a mount, as it comes. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/fail.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/base/client.h"
#include "tools/base/find_mount.h"
#include "tools/commands.h"

static const char usage[] =
	"usage: kairan log [--pid PID] [--user USER] [--path PATH] [--slower MS] [--json] MOUNTPOINT\n"
	"Prints each operation of programs on a mount when it has ended, until Ctrl-C or the unmount: when it began,\n"
	"process, user, operation, path from the mount's root, offset and bytes, result, microseconds, and what it has\n"
	"waited for of these (kairan(1) has the words).\n"
	"  --pid PID     only of this process\n"
	"  --user USER   only of this user (a name or a number)\n"
	"  --path PATH   only on this file, or on what is below this directory\n"
	"  --slower MS   only those that took at least so many milliseconds (0.5, too)\n"
	"  --json        prints a JSON object in each line\n";

enum { SLOWER_MAX_MS = 3600000 };

struct log_options {
	json_int_t pid;   /* 0: all */
	json_int_t uid;   /* -1: all */
	const char *path; /* NULL: all */
	json_int_t slower_us;
	bool json;
};

static bool complain(const char *option, const char *text, const char *what)
{
	fprintf(stderr, "kairan: %s: \"%s\" is not %s\n", option, text, what);
	return false;
}

static bool parse_number(const char *text, uint64_t min, uint64_t max, json_int_t *ret_number)
{
	uint64_t number = 0;
	bool good = kr_parse_number(text, min, max, &number);

	*ret_number = (json_int_t)number;
	return good;
}

static bool parse_user(const char *text, json_int_t *ret_uid)
{
	const struct passwd *user = getpwnam(text);

	if (user)
		*ret_uid = user->pw_uid;
	return user || parse_number(text, 0, UINT32_MAX - 1, ret_uid) ||
		complain("--user", text, "a user of this machine");
}

static bool parse_slower(const char *text, json_int_t *ret_us)
{
	char *end;
	double ms = strtod(text, &end);

	if (end == text || *end || !(ms >= 0 && ms <= SLOWER_MAX_MS))
		return complain("--slower", text, "a number of milliseconds up to 3600000");
	*ret_us = (json_int_t)(ms * 1000);
	return true;
}

static bool parse_option(int option, struct log_options *log)
{
	switch (option) {
	case 'p':
		return parse_number(optarg, 1, INT32_MAX, &log->pid) ||
			complain("--pid", optarg, "the number of a process");
	case 'u':
		return parse_user(optarg, &log->uid);
	case 's':
		return parse_slower(optarg, &log->slower_us);
	case 't':
		log->path = optarg;
		return true;
	default:
		log->json = true;
		return true;
	}
}

/* -1: the command goes on; else its exit code. */
static int parse(struct log_options *log, int argc, char **argv)
{
	static const struct option options[] = {{"pid", required_argument, NULL, 'p'},
		{"user", required_argument, NULL, 'u'}, {"path", required_argument, NULL, 't'},
		{"slower", required_argument, NULL, 's'}, {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'}, {0}};
	int option;

	while ((option = kr_tool_option(argc, argv, "h", options)) != -1) {
		if (option == 'h' || option == '?')
			return kr_tool_usage(usage, option == 'h');
		if (!parse_option(option, log))
			return KR_EXIT_USAGE;
	}
	return argc - optind == 1 ? -1 : kr_tool_usage(usage, false);
}

/* Adds the path of --path, from the mount's root on, to FILTER.  -errno with a reason. */
static int add_path(json_t *filter, const struct kr_mounted *mounted, const char *path)
{
	struct kr_mounted of_path = {0};
	KR_AUTO_FREE char *below = NULL;
	int err = kr_find_mount(path, &of_path, &below);
	bool same = err == 0 && of_path.dev_major == mounted->dev_major && of_path.dev_minor == mounted->dev_minor;

	kr_mounted_fini(&of_path);
	if (!same)
		return kr_fail(-EXDEV, "--path: %s is not on the mount %s", path, mounted->path);
	KR_AUTO_FREE char *text = kr_text_utf8(below);

	if (text && *text)
		json_object_set_new(filter, "path", json_sprintf("/%s", text));
	return 0;
}

static void print_time(double time_s)
{
	const time_t seconds = (time_t)time_s;
	struct tm local;
	char text[16];

	localtime_r(&seconds, &local);
	strftime(text, sizeof(text), "%H:%M:%S", &local);
	printf("%s.%06d", text, (int)((time_s - (double)seconds) * 1e6));
}

static void print_waits(json_t *waits)
{
	const char *separator = " (", *what;
	json_t *us;

	json_object_foreach(waits, what, us)
	{
		printf("%s%s %" JSON_INTEGER_FORMAT, separator, what, json_integer_value(us));
		separator = ", ";
	}
	puts(json_object_size(waits) ? ")" : "");
}

static void print_record(const json_t *record)
{
	KR_AUTO_FREE char *path = kr_text_shown(kr_text_of(record, "path"));
	KR_AUTO_FREE char *to = kr_text_shown(kr_text_of(record, "to"));
	const char *error = kr_text_of(record, "errno");

	print_time(json_real_value(json_object_get(record, "time")));
	printf(" pid=%" JSON_INTEGER_FORMAT " uid=%" JSON_INTEGER_FORMAT " %s %s", kr_number(record, NULL, "pid"),
		kr_number(record, NULL, "uid"), kr_text_of(record, "operation"), path && *path ? path : "?");
	if (to && *to)
		printf(" to %s", to);
	if (json_object_get(record, "offset"))
		printf(" offset=%" JSON_INTEGER_FORMAT, kr_number(record, NULL, "offset"));
	if (json_object_get(record, "bytes"))
		printf(" bytes=%" JSON_INTEGER_FORMAT, kr_number(record, NULL, "bytes"));
	printf(" -> %s, %" JSON_INTEGER_FORMAT " us", *error ? error : "OK", kr_number(record, NULL, "us"));
	print_waits(json_object_get(record, "waits"));
}

static void print_line(const char *line, size_t length)
{
	json_t *record = json_loadb(line, length, 0, NULL);

	if (json_object_get(record, "lost"))
		printf("%" JSON_INTEGER_FORMAT " lines lost\n", kr_number(record, NULL, "lost"));
	else
		print_record(record);
	json_decref(record);
}

static bool print_json(const char *lines, size_t length)
{
	return fwrite(lines, 1, length, stdout) == length && fflush(stdout) == 0;
}

static bool print_text(const char *lines, size_t length)
{
	const char *after = lines + length, *end;

	for (; lines < after; lines = end + 1) {
		end = memchr(lines, '\n', (size_t)(after - lines));
		print_line(lines, (size_t)(end - lines));
	}
	return fflush(stdout) == 0 && !ferror(stdout);
}

static int follow(const struct kr_mounted *mounted, const struct log_options *log)
{
	json_t *filter = json_pack("{sI}", "slower_us", log->slower_us);
	KR_AUTO_FREE char *text = NULL;
	int err = log->path ? add_path(filter, mounted, log->path) : 0;

	if (log->pid)
		json_object_set_new(filter, "pid", json_integer(log->pid));
	if (log->uid >= 0)
		json_object_set_new(filter, "uid", json_integer(log->uid));
	text = json_dumps(filter, JSON_COMPACT);
	json_decref(filter);
	if (err == 0)
		err = kr_follow_log(mounted, text, log->json ? print_json : print_text);
	if (err == -EOPNOTSUPP)
		return kr_fail(err,
			"%s has no log: its view is node, its journal is at a lender (local=@NODE), or its daemon is older",
			mounted->path);
	return err == -EBUSY ? kr_fail(err, "%s: 4 programs read its log already", mounted->path) : err;
}

int kr_tool_log(int argc, char **argv)
{
	struct log_options log = {.uid = -1};
	struct kr_mounted mounted = {0};
	int code = parse(&log, argc, argv), err;

	if (code >= 0)
		return code;
	err = kr_find_mount(argv[optind], &mounted, NULL);
	if (err == 0)
		err = follow(&mounted, &log);
	kr_mounted_fini(&mounted);
	return err < 0 ? kr_tool_failed() : kr_tool_printed(KR_EXIT_OK);
}

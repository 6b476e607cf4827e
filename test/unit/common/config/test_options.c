/* Options: good and bad values, the file, -o, the command line and their precedence. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/fail.h"
#include "common/config/options.h"
#include "common/base/util.h"

struct values {
	char *name, *path;
	uint64_t size, delay_ms, threads;
	bool sync, foreground;
	int mode;
	struct kr_strings listen;
	char other[64];
};

static int take_other(void *values, const char *key, const char *value)
{
	struct values *v = values;

	if (strncmp(key, "x-", 2) != 0)
		return -ENOENT;
	snprintf(v->other, sizeof(v->other), "%s=%s", key, value ? value : "(none)");
	return 0;
}

#define AT(field) offsetof(struct values, field)
static const struct kr_option table[] = {
	{"name", KR_OPTION_STRING, AT(name), "fs", .help = "a name"},
	{"local_path", KR_OPTION_PATH, AT(path),
		.help = "where local files are kept, which is a sentence long enough that "
			"it has to be wrapped on the way out"},
	{"journal_max", KR_OPTION_SIZE, AT(size), "8M", 4096, UINT64_C(1) << 40, .help = "largest journal",
		.letter = 'j'},
	{"delay", KR_OPTION_SECONDS, AT(delay_ms), "5", 100, 3600 * 1000, .help = "age at which bytes are flushed"},
	{"threads", KR_OPTION_COUNT, AT(threads), "4", 1, 64, .help = "how many"},
	{"sync", KR_OPTION_BOOL, AT(sync), "true", .help = "wait"},
	{"foreground", KR_OPTION_BOOL, AT(foreground), .help = "stay", .letter = 'f', .command_line_only = true},
	{"mode", KR_OPTION_ENUM, AT(mode), "strict", .choices = "strict|relaxed|none", .help = "how"},
	{"listen", KR_OPTION_LIST, AT(listen), .help = "addresses"},
};
static const struct kr_options set = {
	.program = "kairantest",
	.usage = "[OPTIONS] PLACE",
	.about = "Tests options.",
	.section = "mount",
	.options = table,
	.count = KR_ARRAY_SIZE(table),
	.other = take_other,
};

static int parse_file(struct values *v, const char *json)
{
	memset(v, 0, sizeof(*v));
	assert_int_equal(kr_options_set_defaults(&set, v), 0);
	return kr_options_read_json(&set, json, "FILE", v);
}

static int parse_args(struct values *v, struct kr_arguments *arguments, const char *line)
{
	static char copy[1024], *argv[32];
	int argc = 0;
	char *rest = copy;

	snprintf(copy, sizeof(copy), "program %s", line);
	while ((argv[argc] = strsep(&rest, " ")) != NULL)
		if (*argv[argc])
			argc++;
	memset(v, 0, sizeof(*v));
	return kr_options_parse(&set, argc, argv, v, arguments);
}

static void refused(int err, const char *reason)
{
	assert_int_equal(err, -EINVAL);
	assert_string_equal(kr_fail_reason(), reason);
}

static void defaults_come_from_the_table(void **state)
{
	struct kr_arguments arguments;
	struct values v;

	(void)state;
	assert_int_equal(parse_args(&v, &arguments, ""), 0);
	assert_string_equal(v.name, "fs");
	assert_null(v.path);
	assert_int_equal(v.size, 8 << 20);
	assert_int_equal(v.delay_ms, 5000);
	assert_int_equal(v.threads, 4);
	assert_true(v.sync);
	assert_false(v.foreground);
	assert_int_equal(v.mode, 0);
	assert_int_equal(v.listen.count, 0);
	assert_int_equal(arguments.positional_count, 0);
	kr_options_fini(&set, &v);
}

static void sizes_and_times_take_units(void **state)
{
	static const struct {
		const char *text;
		uint64_t value;
	} sizes[] =
		{
			{"4096", 4096},
			{"64K", 65536},
			{"8m", 8 << 20},
			{"4G", UINT64_C(4) << 30},
			{"1T", UINT64_C(1) << 40},
		},
	  times[] = {
		  {"20", 20000},
		  {"0.5", 500},
		  {"500ms", 500},
		  {"1.25s", 1250},
		  {"2m", 120000},
		  {"1h", 3600000},
	  };
	struct values v = {0};

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(sizes); i++) {
		assert_int_equal(kr_option_set(&table[2], sizes[i].text, "size", &v), 0);
		assert_int_equal(v.size, sizes[i].value);
	}
	for (size_t i = 0; i < KR_ARRAY_SIZE(times); i++) {
		assert_int_equal(kr_option_set(&table[3], times[i].text, "time", &v), 0);
		assert_int_equal(v.delay_ms, times[i].value);
	}
}

static void bad_values_are_refused_with_a_reason(void **state)
{
	static const struct {
		size_t option;
		const char *text, *reason;
	} cases[] = {
		{2, "", "W: \"\" is not a size (try 64K, 8M, 4G)"},
		{2, "-1", "W: \"-1\" is not a size (try 64K, 8M, 4G)"},
		{2, "1X", "W: \"1X\" is not a size (try 64K, 8M, 4G)"},
		{2, "18446744073709551616", "W: \"18446744073709551616\" is not a size (try 64K, 8M, 4G)"},
		{2, "99999999T", "W: \"99999999T\" is not a size (try 64K, 8M, 4G)"},
		{2, "1K", "W: 1K is out of range (4K to 1T)"},
		{3, "1.", "W: \"1.\" is not a time (try 20, 0.5, 500ms, 5m)"},
		{3, ".5", "W: \".5\" is not a time (try 20, 0.5, 500ms, 5m)"},
		{3, "5d", "W: \"5d\" is not a time (try 20, 0.5, 500ms, 5m)"},
		{3, "99999999999999999999", "W: \"99999999999999999999\" is not a time (try 20, 0.5, 500ms, 5m)"},
		{3, "2h", "W: 2h is out of range (100ms to 1h)"},
		{4, "65", "W: 65 is out of range (1 to 64)"},
		{4, "4K", "W: \"4K\" is not a whole number"},
		{5, "maybe", "W: \"maybe\" is neither true nor false"},
		{7, "strictly", "W: \"strictly\" is none of strict|relaxed|none"},
		{7, "", "W: \"\" is none of strict|relaxed|none"},
	};
	struct values v = {0};

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(cases); i++)
		refused(kr_option_set(&table[cases[i].option], cases[i].text, "W", &v), cases[i].reason);
	assert_int_equal(v.size, 0);
}

static void a_file_sets_every_type(void **state)
{
	struct values v;

	(void)state;
	assert_int_equal(
		parse_file(&v,
			"{\"server\": {\"whatever\": 1}, \"mount\": {\"name\": \"x\", \"local_path\": \"/v\","
			"\"journal_max\": 65536, \"delay\": 0.25, \"threads\": 7, \"sync\": false, \"mode\": \"none\","
			"\"listen\": [\"a\", \"b\"]}}"),
		0);
	assert_string_equal(v.name, "x");
	assert_string_equal(v.path, "/v");
	assert_int_equal(v.size, 65536);
	assert_int_equal(v.delay_ms, 250);
	assert_int_equal(v.threads, 7);
	assert_false(v.sync);
	assert_int_equal(v.mode, 2);
	assert_int_equal(v.listen.count, 2);
	assert_string_equal(v.listen.items[1], "b");
	kr_options_fini(&set, &v);
}

static void a_file_s_errors_name_the_key_s_path(void **state)
{
	static const struct {
		const char *json, *reason;
	} cases[] = {
		{"{\"mount\": {\"journal_mx\": 1}}",
			"FILE: mount.journal_mx: no such option; did you mean journal_max?"},
		{"{\"mount\": {\"journal-max\": 65536}}",
			"FILE: mount.journal-max: no such option; did you mean journal_max?"},
		{"{\"mont\": {}}", "FILE: mont: no such section (there are \"server\" and \"mount\")"},
		{"{\"mount\": 3}", "FILE: mount: must be an object"},
		{"[]", "FILE: must be an object"},
		{"{\"mount\": {\"threads\": \"4\"}}", "FILE: mount.threads: must be a whole number"},
		{"{\"mount\": {\"threads\": -4}}", "FILE: mount.threads: \"-4\" is not a whole number"},
		{"{\"mount\": {\"threads\": 99}}", "FILE: mount.threads: 99 is out of range (1 to 64)"},
		{"{\"mount\": {\"sync\": \"yes\"}}", "FILE: mount.sync: must be true or false"},
		{"{\"mount\": {\"listen\": \"a\"}}", "FILE: mount.listen: must be an array of texts"},
		{"{\"mount\": {\"listen\": [\"a\", 2]}}", "FILE: mount.listen[1]: must be a text"},
		{"{\"mount\": {\"journal_max\": true}}",
			"FILE: mount.journal_max: must be a number of bytes or a text such as \"8M\""},
		{"{\"mount\": {\"foreground\": true}}", "FILE: mount.foreground: only for the command line"},
		{"{\"mount\": {\"sync\": true, \"sync\": true}}", "FILE:1: duplicate object key near '\"sync\"'"},
		{"{\"mount\": {", "FILE:1: string or '}' expected near end of file"},
	};
	struct values v;

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(cases); i++) {
		refused(parse_file(&v, cases[i].json), cases[i].reason);
		kr_options_fini(&set, &v);
	}
}

static void the_command_line_takes_all_spellings(void **state)
{
	struct kr_arguments arguments;
	struct values v;

	(void)state;
	assert_int_equal(parse_args(&v, &arguments,
				 "here -f --journal-max=1G --journal_max 2G --delay 1 there --no-sync "
				 "--listen a --listen=b -o mode=relaxed,name=q,nosync,x-gvfs,x-y=3 -othreads=9 -- -z"),
		0);
	assert_true(v.foreground);
	assert_int_equal(v.size, UINT64_C(2) << 30);
	assert_int_equal(v.delay_ms, 1000);
	assert_false(v.sync);
	assert_int_equal(v.listen.count, 2);
	assert_int_equal(v.mode, 1);
	assert_string_equal(v.name, "q");
	assert_int_equal(v.threads, 9);
	assert_string_equal(v.other, "x-y=3");
	assert_int_equal(arguments.positional_count, 3);
	assert_string_equal(arguments.positional[0], "here");
	assert_string_equal(arguments.positional[1], "there");
	assert_string_equal(arguments.positional[2], "-z");
	kr_options_fini(&set, &v);
	assert_int_equal(parse_args(&v, &arguments, "-fj64K -j 1M"), 0);
	assert_true(v.foreground);
	assert_int_equal(v.size, 1 << 20);
	kr_options_fini(&set, &v);
}

static void wrong_arguments_are_refused_with_a_reason(void **state)
{
	static const struct {
		const char *line, *reason;
	} cases[] = {
		{"--jornal", "--jornal: no such option (see kairantest --help)"},
		{"-q", "-q: no such option (see kairantest --help)"},
		{"-o quux", "-o quux: no such option (see kairantest --help)"},
		{"-o quux=3", "-o quux: no such option (see kairantest --help)"},
		{"-o threads", "-o threads: needs a value, as in threads=..."},
		{"-o nothreads", "-o nothreads: no such option; did you mean threads? (see kairantest --help)"},
		{"--threads", "--threads: needs a value (see kairantest --help)"},
		{"--threads=0", "--threads: 0 is out of range (1 to 64)"},
		{"--no-threads", "--no-threads: no such option; did you mean --threads? (see kairantest --help)"},
		{"-o", "-o: needs a value (see kairantest --help)"},
		{"--config", "--config: needs a value (see kairantest --help)"},
		{"-o threads=x", "-o threads: \"x\" is not a whole number"},
	};
	struct kr_arguments arguments;
	struct values v;

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(cases); i++) {
		refused(parse_args(&v, &arguments, cases[i].line), cases[i].reason);
		kr_options_fini(&set, &v);
	}
}

static void commas_in_a_list_s_values_can_be_escaped(void **state)
{
	struct values v = {0};

	(void)state;
	assert_int_equal(kr_options_set_list(&set, "name=a\\,b\\\\c,,threads=3,", &v), 0);
	assert_string_equal(v.name, "a,b\\c");
	assert_int_equal(v.threads, 3);
	kr_options_fini(&set, &v);
}

static void the_command_line_beats_the_file_beats_the_default(void **state)
{
	char path[] = "/tmp/kairan-options-XXXXXX", line[128];
	static const char json[] = "{\"mount\": {\"threads\": 5, \"name\": \"file\", \"listen\": [\"f\", \"g\"]}}";
	struct kr_arguments arguments;
	struct values v;
	int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, json, strlen(json)), strlen(json));
	close(fd);
	snprintf(line, sizeof(line), "--name line --config %s --listen c --listen d", path);
	assert_int_equal(parse_args(&v, &arguments, line), 0);
	assert_string_equal(v.name, "line");
	assert_int_equal(v.threads, 5);
	assert_int_equal(v.size, 8 << 20);
	assert_int_equal(v.listen.count, 2);
	assert_string_equal(v.listen.items[0], "c");
	assert_string_equal(v.listen.items[1], "d");
	kr_options_fini(&set, &v);
	snprintf(line, sizeof(line), "-o name=line,config=%s,listen=c", path);
	assert_int_equal(parse_args(&v, &arguments, line), 0);
	assert_string_equal(v.name, "line");
	assert_int_equal(v.threads, 5);
	assert_int_equal(v.listen.count, 1);
	assert_string_equal(v.listen.items[0], "c");
	kr_options_fini(&set, &v);
	snprintf(line, sizeof(line), "--config %s", path);
	assert_int_equal(parse_args(&v, &arguments, line), 0);
	assert_int_equal(v.listen.count, 2);
	assert_string_equal(v.listen.items[0], "f");
	kr_options_fini(&set, &v);
	unlink(path);
	assert_int_equal(parse_args(&v, &arguments, line), -ENOENT);
	kr_options_fini(&set, &v);
}

static void relative_paths_become_absolute(void **state)
{
	char *here = getcwd(NULL, 0), expected[4200];
	struct values v = {0};

	(void)state;
	snprintf(expected, sizeof(expected), "%s/a/b", here);
	assert_int_equal(kr_option_set(&table[1], "a/b", "W", &v), 0);
	assert_string_equal(v.path, expected);
	kr_options_fini(&set, &v);
	free(here);
}

static void what_is_printed_reads_back_the_same(void **state)
{
	struct kr_arguments arguments;
	char *text = NULL, *again = NULL;
	struct values v, w;
	size_t length;
	FILE *out;

	(void)state;
	assert_int_equal(
		parse_args(&v, &arguments, "--journal-max=96K --delay=1500ms --listen x -o mode=none --no-sync"), 0);
	out = open_memstream(&text, &length);
	kr_options_print(&set, &v, out);
	fclose(out);
	assert_int_equal(parse_file(&w, text), 0);
	out = open_memstream(&again, &length);
	kr_options_print(&set, &w, out);
	fclose(out);
	assert_string_equal(text, again);
	assert_non_null(strstr(text, "\"journal_max\": \"96K\""));
	assert_non_null(strstr(text, "\"delay\": \"1500ms\""));
	assert_null(strstr(text, "foreground"));
	free(text);
	free(again);
	kr_options_fini(&set, &v);
	kr_options_fini(&set, &w);
}

static void help_shows_every_option_and_ends_the_parsing(void **state)
{
	struct kr_arguments arguments;
	char *text = NULL, *line, *rest;
	struct values v;
	size_t length;
	FILE *out;

	(void)state;
	assert_int_equal(parse_args(&v, &arguments, "--help"), 0);
	assert_true(arguments.help);
	assert_null(v.name);
	assert_int_equal(parse_args(&v, &arguments, "-V"), 0);
	assert_true(arguments.version);
	out = open_memstream(&text, &length);
	kr_options_help(&set, out);
	fclose(out);
	assert_non_null(strstr(text, "Usage: kairantest [OPTIONS] PLACE\n"));
	assert_non_null(strstr(text, "  -j, --journal-max=SIZE      largest journal (default: 8M)\n"));
	assert_non_null(strstr(
		text, "      --mode=strict|relaxed|none\n                              how (default: strict)\n"));
	for (rest = text; (line = strsep(&rest, "\n")) != NULL;)
		assert_true(strlen(line) <= 120);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_come_from_the_table),
		cmocka_unit_test(sizes_and_times_take_units),
		cmocka_unit_test(bad_values_are_refused_with_a_reason),
		cmocka_unit_test(a_file_sets_every_type),
		cmocka_unit_test(a_file_s_errors_name_the_key_s_path),
		cmocka_unit_test(the_command_line_takes_all_spellings),
		cmocka_unit_test(wrong_arguments_are_refused_with_a_reason),
		cmocka_unit_test(commas_in_a_list_s_values_can_be_escaped),
		cmocka_unit_test(the_command_line_beats_the_file_beats_the_default),
		cmocka_unit_test(relative_paths_become_absolute),
		cmocka_unit_test(what_is_printed_reads_back_the_same),
		cmocka_unit_test(help_shows_every_option_and_ends_the_parsing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

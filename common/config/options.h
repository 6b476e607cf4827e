/* Options of a daemon: one table gives the JSON file's reader, `-o a=b,c`, `--name value`, --help and --print-config.
 *
 * An option is called journal_max in the file and in -o, --journal-max on the command line.  Values go into a plain
 * struct of the caller's at the table's offsets:
 *
 *   type      field                  written as
 *   STRING    char * (owned, NULL)   anything
 *   PATH      char * (owned, NULL)   made absolute
 *   SIZE      uint64_t, bytes        64K, 8M, 4G, 1T (of 1024), or plain bytes
 *   SECONDS   uint64_t, milliseconds 20, 0.5, 500ms, 20s, 5m, 2h
 *   COUNT     uint64_t               a whole number
 *   BOOL      bool                   true/false, yes/no, on/off, 1/0; alone: true; "no" before the name: false
 *   ENUM      int, index in choices  one of "sync|async"
 *   LIST      struct kr_strings      an array in JSON; elsewhere each mention adds one
 *
 * Order of precedence: the table's default, the file, the command line from left to right.  A list on the command line
 * replaces that of the file.  Main thread, before others.
 */
#ifndef KR_COMMON_OPTIONS_H
#define KR_COMMON_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum kr_option_type {
	KR_OPTION_STRING,
	KR_OPTION_PATH,
	KR_OPTION_SIZE,
	KR_OPTION_SECONDS,
	KR_OPTION_COUNT,
	KR_OPTION_BOOL,
	KR_OPTION_ENUM,
	KR_OPTION_LIST,
};

struct kr_strings {
	char **items;
	size_t count;
	bool from_file; /* the next mention replaces all of it */
};

struct kr_option {
	const char *name; /* with '_'; [a-z0-9_] */
	enum kr_option_type type;
	size_t offset;            /* of the field in the values' struct */
	const char *default_text; /* as one would write it; NULL: zero, empty */
	uint64_t min, max;        /* of SIZE, SECONDS (in milliseconds) and COUNT; max 0: no maximum */
	const char *choices;      /* of ENUM: "sync|async" */
	const char *value_name;   /* in --help: "FILE", "BYTES"; NULL: by type */
	const char *help;         /* one sentence, without the default, which is added */
	char letter;              /* also as -f; 0: none */
	bool command_line_only;   /* refused in the file: --foreground and the like */
};

struct kr_options {
	const char *program;      /* "kairand" */
	const char *usage;        /* "[OPTIONS] EXPORT" */
	const char *about;        /* what the program does, for --help */
	const char *section;      /* the file's object that is ours: "server", "mount"; others are left to others */
	const char *default_file; /* read when it exists and --config is not given; NULL: none */
	const struct kr_option *options;
	size_t count;
	/* Gets `-o KEY[=VALUE]` that the table lacks (VALUE NULL without '='): 0 taken, -ENOENT unknown. NULL: all
	 * unknown. */
	int (*other)(void *values, const char *key, const char *value);
	/* Hears of each option of the table that the command line sets; NULL: nobody does. */
	void (*given)(void *values, const struct kr_option *option);
};

/* The daemons' default file, and the sections that it may have. */
#define KR_OPTIONS_FILE "/etc/kairan/kairan.json"
#define KR_OPTIONS_SECTIONS "server", "mount"

/* What kr_options_parse found besides values. */
struct kr_arguments {
	bool help, version, print_config; /* the caller does it and exits */
	char **positional;                /* borrowed from argv, which is permuted */
	int positional_count;
};

/* Fills VALUES (zeroed by the caller) from defaults, the file (--config FILE, or default_file) and ARGV, in this order.
 * 0, or -EINVAL/-errno with a sentence for the user in kr_fail_reason: "--journal-max: 1X is not a size (try 64K, 8M,
 * 4G)", "/etc/kairan.json: mount.journal_mx: no such option".  With ret->help or ->version nothing else is looked at.
 */
int kr_options_parse(const struct kr_options *set, int argc, char **argv, void *values, struct kr_arguments *ret);
/* The steps of it. */
int kr_options_set_defaults(const struct kr_options *set, void *values);
int kr_options_read_file(const struct kr_options *set, const char *path, void *values);
int kr_options_read_json(const struct kr_options *set, const char *text, const char *where, void *values);
/* Sets one option from text; WHERE begins the error ("--journal-max"). */
int kr_option_set(const struct kr_option *option, const char *text, const char *where, void *values);
/* A list "a=b,c,noatime"; "\," is a comma in a value. config=FILE is passed over: kr_options_parse has read the file
 * before. */
int kr_options_set_list(const struct kr_options *set, const char *list, void *values);
/* Frees what VALUES owns. */
void kr_options_fini(const struct kr_options *set, void *values);

/* The text of --help, and the effective values as a JSON file that kr_options_read_file reads back. */
void kr_options_help(const struct kr_options *set, FILE *out);
void kr_options_print(const struct kr_options *set, const void *values, FILE *out);

#endif

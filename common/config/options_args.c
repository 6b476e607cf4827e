/* Options on the command line, and --help, which is made from the same table. */
#include "common/config/options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/nearest.h"
#include "common/config/options_priv.h"
#include "common/base/util.h"

/* -EINVAL: NAME, of LENGTH, is no option.  DASH: options are written with '-' for '_' here. */
static int no_such_option(const struct kr_options *set, const char *where, const char *name, size_t length, bool dash)
{
	KR_AUTO_FREE char *word = strndup(name, length), *meant = NULL;
	struct kr_nearest nearest = {0};

	for (size_t i = 0; word && i < set->count; i++)
		kr_nearest_try(&nearest, word, set->options[i].name);
	if (!nearest.name)
		return kr_fail(-EINVAL, "%s: no such option (see %s --help)", where, set->program);
	meant = kr_xstrdup(nearest.name);
	for (char *c = meant; dash && *c; c++)
		*c = *c == '_' ? '-' : *c;
	return kr_fail(-EINVAL, "%s: no such option; did you mean %s%s? (see %s --help)", where, dash ? "--" : "",
		meant, set->program);
}

/* --- "-o a=b,c" --- */

/* The file that it names has been read already. */
static bool is_config(const char *item)
{
	return strncmp(item, "config=", strlen("config=")) == 0;
}

static int set_given(
	const struct kr_options *set, const struct kr_option *option, const char *text, const char *where, void *values)
{
	if (set->given)
		set->given(values, option);
	return kr_option_set(option, text, where, values);
}

static int set_item(const struct kr_options *set, char *item, void *values)
{
	char *value = strchr(item, '='), where[128];
	size_t length = value ? (size_t)(value - item) : strlen(item);
	const struct kr_option *option = kr_option_find(set, item, length), *positive = NULL;

	if (is_config(item))
		return 0;
	snprintf(where, sizeof(where), "-o %.*s", (int)length, item);
	if (!option && !value && strncmp(item, "no", 2) == 0)
		positive = kr_option_find(set, item + 2, length - 2);
	if (positive && positive->type == KR_OPTION_BOOL)
		return set_given(set, positive, "false", where, values);
	if (!option) {
		int err = -ENOENT;

		if (value)
			*value = '\0';
		if (set->other)
			err = set->other(values, item, value ? value + 1 : NULL);
		return err == -ENOENT ? no_such_option(set, where, item, length, false) : err;
	}
	if (!value && option->type != KR_OPTION_BOOL)
		return kr_fail(-EINVAL, "%s: needs a value, as in %s=...", where, option->name);
	return set_given(set, option, value ? value + 1 : "true", where, values);
}

/* Cuts the first item off *LIST in place, turning "\," into ",". NULL at the end. */
static char *next_item(char **list)
{
	char *item = *list, *from = *list, *to = *list;

	if (!item)
		return NULL;
	for (; *from && *from != ','; from++) {
		if (from[0] == '\\' && (from[1] == ',' || from[1] == '\\'))
			from++;
		*to++ = *from;
	}
	*list = *from ? from + 1 : NULL;
	*to = '\0';
	return item;
}

int kr_options_set_list(const struct kr_options *set, const char *list, void *values)
{
	KR_AUTO_FREE char *copy = kr_xstrdup(list);
	char *rest = copy, *item;

	while ((item = next_item(&rest)) != NULL) {
		int err = *item ? set_item(set, item, values) : 0;

		if (err)
			return err;
	}
	return 0;
}

/* --- the arguments: walked twice, because the file that they may name comes before them --- */

struct walk {
	const struct kr_options *set;
	int argc, at;
	char **argv;
	void *values; /* NULL in the first walk: nothing is set */
	const char *config;
	char *listed_config; /* owned: CONFIG when it came with -o */
	struct kr_arguments *ret;
};

static int take_value(struct walk *walk, const char *where, char **ret_value)
{
	if (walk->at + 1 >= walk->argc)
		return kr_fail(-EINVAL, "%s: needs a value (see %s --help)", where, walk->set->program);
	*ret_value = walk->argv[++walk->at];
	return 0;
}

static int set_option(struct walk *walk, const struct kr_option *option, const char *where, char *value)
{
	int err = 0;

	if (!value && option->type != KR_OPTION_BOOL)
		err = take_value(walk, where, &value);
	if (err || !walk->values)
		return err;
	return set_given(walk->set, option, value ? value : "true", where, walk->values);
}

/* The file that LIST names, as the only thing that counts in the first walk. */
static void find_config(struct walk *walk, const char *list)
{
	KR_AUTO_FREE char *copy = kr_xstrdup(list);
	char *rest = copy, *item;

	while ((item = next_item(&rest)) != NULL) {
		if (!is_config(item))
			continue;
		free(walk->listed_config);
		walk->config = walk->listed_config = kr_xstrdup(item + strlen("config="));
	}
}

static int take_list(struct walk *walk, char *list)
{
	int err = list ? 0 : take_value(walk, "-o", &list);

	if (err)
		return err;
	if (walk->values)
		return kr_options_set_list(walk->set, list, walk->values);
	find_config(walk, list);
	return 0;
}

/* --help, --version, --print-config, --config: true when it was one of them. */
static bool take_common(struct walk *walk, const char *name, size_t length, char *value, int *ret_err)
{
	const struct {
		const char *name;
		bool *flag;
	} flags[] = {{"help", &walk->ret->help}, {"version", &walk->ret->version},
		{"print-config", &walk->ret->print_config}};

	*ret_err = 0;
	for (size_t i = 0; i < KR_ARRAY_SIZE(flags); i++)
		if (strlen(flags[i].name) == length && memcmp(flags[i].name, name, length) == 0 && !value) {
			*flags[i].flag = true;
			return true;
		}
	if (length != strlen("config") || memcmp(name, "config", length) != 0)
		return false;
	if (!value)
		*ret_err = take_value(walk, "--config", &value);
	if (!*ret_err)
		walk->config = value;
	return true;
}

static int take_long(struct walk *walk, char *argument)
{
	char *equals = strchr(argument, '='), *value = equals ? equals + 1 : NULL, where[128];
	size_t length = equals ? (size_t)(equals - argument) : strlen(argument);
	const struct kr_option *option;
	int err;

	if (take_common(walk, argument, length, value, &err))
		return err;
	snprintf(where, sizeof(where), "--%.*s", (int)length, argument);
	option = kr_option_find(walk->set, argument, length);
	if (!option && !value && strncmp(argument, "no-", 3) == 0) {
		option = kr_option_find(walk->set, argument + 3, length - 3);
		if (option && option->type == KR_OPTION_BOOL)
			return walk->values ? set_given(walk->set, option, "false", where, walk->values) : 0;
		option = NULL;
	}
	if (!option)
		return no_such_option(walk->set, where, argument, length, true);
	return set_option(walk, option, where, value);
}

/* "-f", "-fv", "-p7440", "-p 7440". */
static int take_short(struct walk *walk, char *letters)
{
	for (; *letters; letters++) {
		const struct kr_option *option = NULL;
		char where[] = {'-', *letters, '\0'}, *value = letters[1] ? letters + 1 : NULL;

		if (*letters == 'o')
			return take_list(walk, value);
		for (size_t i = 0; i < walk->set->count; i++)
			if (walk->set->options[i].letter == *letters)
				option = &walk->set->options[i];
		if (!option && *letters == 'h') {
			walk->ret->help = true;
		} else if (!option && *letters == 'V') {
			walk->ret->version = true;
		} else if (!option) {
			return kr_fail(-EINVAL, "%s: no such option (see %s --help)", where, walk->set->program);
		} else {
			int err = set_option(walk, option, where, option->type == KR_OPTION_BOOL ? NULL : value);

			if (err || option->type != KR_OPTION_BOOL)
				return err;
		}
	}
	return 0;
}

static int walk_arguments(struct walk *walk)
{
	int positional = 0;
	bool only_positional = false;

	for (walk->at = 1; walk->at < walk->argc; walk->at++) {
		char *argument = walk->argv[walk->at];
		int err = 0;

		if (only_positional || argument[0] != '-' || argument[1] == '\0') {
			if (walk->values) /* the slot has been read already */
				walk->argv[1 + positional++] = argument;
		} else if (strcmp(argument, "--") == 0) {
			only_positional = true;
		} else if (argument[1] == '-') {
			err = take_long(walk, argument + 2);
		} else {
			err = take_short(walk, argument + 1);
		}
		if (err)
			return err;
	}
	walk->ret->positional = walk->argv + 1;
	walk->ret->positional_count = positional;
	return 0;
}

/* Defaults, the file, the arguments. */
static int take_all(struct walk *walk, void *values)
{
	const struct kr_options *set = walk->set;
	int err = kr_options_set_defaults(set, values);

	if (!err && walk->config)
		err = kr_options_read_file(set, walk->config, values);
	else if (!err && set->default_file && access(set->default_file, F_OK) == 0)
		err = kr_options_read_file(set, set->default_file, values);
	walk->values = values;
	return err ? err : walk_arguments(walk);
}

int kr_options_parse(const struct kr_options *set, int argc, char **argv, void *values, struct kr_arguments *ret)
{
	struct kr_arguments arguments = {0};
	struct walk walk = {.set = set, .argc = argc, .argv = argv, .ret = &arguments};
	int err = walk_arguments(&walk);

	if (!err && !arguments.help && !arguments.version)
		err = take_all(&walk, values);
	free(walk.listed_config);
	if (!err)
		*ret = arguments;
	return err;
}

/* --- --help --- */

enum { HELP_COLUMN = 30, HELP_WIDTH = 100 };

/* Words of TEXT from HELP_COLUMN on; the cursor is at COLUMN. */
static void print_wrapped(FILE *out, const char *text, int column)
{
	if (column + 2 > HELP_COLUMN) {
		fputc('\n', out);
		column = 0;
	}
	fprintf(out, "%*s", HELP_COLUMN - column, "");
	column = HELP_COLUMN;
	while (*text) {
		int length = (int)strcspn(text, " ");

		if (column + length > HELP_WIDTH && column > HELP_COLUMN) {
			fprintf(out, "\n%*s", HELP_COLUMN, "");
			column = HELP_COLUMN;
		}
		column += fprintf(out, "%s%.*s", column > HELP_COLUMN ? " " : "", length, text);
		text += length;
		text += strspn(text, " ");
	}
	fputc('\n', out);
}

static void print_option(FILE *out, const struct kr_option *option)
{
	static const char *const value_names[] = {
		[KR_OPTION_STRING] = "TEXT",
		[KR_OPTION_PATH] = "PATH",
		[KR_OPTION_SIZE] = "SIZE",
		[KR_OPTION_SECONDS] = "TIME",
		[KR_OPTION_COUNT] = "NUMBER",
		[KR_OPTION_BOOL] = NULL,
		[KR_OPTION_ENUM] = NULL,
		[KR_OPTION_LIST] = "TEXT",
	};
	const char *value = option->value_name ? option->value_name :
		option->type == KR_OPTION_ENUM ? option->choices :
						 value_names[option->type];
	char name[64], text[1024];
	int column;

	snprintf(name, sizeof(name), "%s", option->name);
	for (char *c = name; *c; c++)
		*c = *c == '_' ? '-' : *c;
	column = option->letter ? fprintf(out, "  -%c, --%s", option->letter, name) : fprintf(out, "      --%s", name);
	if (value)
		column += fprintf(out, "=%s", value);
	if (option->default_text && option->type != KR_OPTION_BOOL)
		snprintf(text, sizeof(text), "%s (default: %s)", option->help, option->default_text);
	else
		snprintf(text, sizeof(text), "%s", option->help);
	print_wrapped(out, text, column);
}

void kr_options_help(const struct kr_options *set, FILE *out)
{
	static const struct kr_option common[] = {
		{.name = "config", .value_name = "FILE", .help = "read options from this JSON file first"},
		{.name = "print_config",
			.type = KR_OPTION_BOOL,
			.help = "show the values in effect, as a JSON file, and exit"},
		{.name = "help", .type = KR_OPTION_BOOL, .letter = 'h', .help = "show this text and exit"},
		{.name = "version", .type = KR_OPTION_BOOL, .letter = 'V', .help = "show the version and exit"},
	};

	fprintf(out,
		"Usage: %s %s\n\n%s\n\nOptions (also as -o name=value,..., or as \"name\" in the file's \"%s\" object, "
		"with _ for -):\n",
		set->program, set->usage, set->about, set->section);
	for (size_t i = 0; i < set->count; i++)
		print_option(out, &set->options[i]);
	for (size_t i = 0; i < KR_ARRAY_SIZE(common); i++)
		print_option(out, &common[i]);
	if (set->default_file)
		fprintf(out, "\nFile: %s\n", set->default_file);
}

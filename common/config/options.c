/* Options' values: from text to fields, with ranges, and back. */
#include "common/config/options.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/config/options_priv.h"
#include "common/base/util.h"

struct unit {
	const char *suffix;
	uint64_t factor;
};
/* Largest last: what is shown takes the largest that divides it. */
static const struct unit size_units[] = {
	{"", 1},
	{"K", UINT64_C(1) << 10},
	{"M", UINT64_C(1) << 20},
	{"G", UINT64_C(1) << 30},
	{"T", UINT64_C(1) << 40},
};
static const struct unit time_units[] = {{"ms", 1}, {"s", 1000}, {"m", 60 * 1000}, {"h", 3600 * 1000}};

static const struct unit *find_unit(const struct unit *units, size_t count, const char *suffix)
{
	for (size_t i = 0; i < count; i++)
		if (strcasecmp(units[i].suffix, suffix) == 0)
			return &units[i];
	return NULL;
}

/* Digits at *TEXT, which moves behind them. False: none, or too many. */
static bool parse_digits(const char **text, uint64_t *ret_value)
{
	uint64_t value = 0;

	if (!isdigit((unsigned char)**text))
		return false;
	for (; isdigit((unsigned char)**text); (*text)++) {
		if (__builtin_mul_overflow(value, 10, &value) ||
			__builtin_add_overflow(value, (uint64_t)(**text - '0'), &value))
			return false;
	}
	*ret_value = value;
	return true;
}

static bool parse_size(const char *text, uint64_t *ret_value)
{
	const struct unit *unit;

	if (!parse_digits(&text, ret_value))
		return false;
	unit = find_unit(size_units, KR_ARRAY_SIZE(size_units), text);
	return unit && !__builtin_mul_overflow(*ret_value, unit->factor, ret_value);
}

/* "2", "0.25", "1.5m": whole units and up to six decimals of one, in milliseconds. */
static bool parse_seconds(const char *text, uint64_t *ret_value)
{
	uint64_t whole, millionths = 0, weight = 100000;
	const struct unit *unit;

	if (!parse_digits(&text, &whole))
		return false;
	if (*text == '.') {
		if (!isdigit((unsigned char)*++text))
			return false;
		for (; isdigit((unsigned char)*text); text++, weight /= 10)
			millionths += (uint64_t)(*text - '0') * weight;
	}
	unit = find_unit(time_units, KR_ARRAY_SIZE(time_units), *text ? text : "s");
	return unit && !__builtin_mul_overflow(whole, unit->factor, &whole) &&
		!__builtin_add_overflow(whole, millionths * unit->factor / 1000000, ret_value);
}

static bool parse_bool(const char *text, bool *ret_value)
{
	static const char *const words[][2] = {{"false", "true"}, {"no", "yes"}, {"off", "on"}, {"0", "1"}};

	for (size_t i = 0; i < KR_ARRAY_SIZE(words); i++)
		for (int value = 0; value < 2; value++)
			if (strcasecmp(text, words[i][value]) == 0) {
				*ret_value = value;
				return true;
			}
	return false;
}

void kr_option_format_number(enum kr_option_type type, uint64_t value, char *text, size_t size)
{
	const struct unit *units = type == KR_OPTION_SIZE ? size_units : time_units, *unit = units;
	size_t count = type == KR_OPTION_SIZE ? KR_ARRAY_SIZE(size_units) : KR_ARRAY_SIZE(time_units);

	if (type == KR_OPTION_COUNT) {
		snprintf(text, size, "%" PRIu64, value);
		return;
	}
	for (size_t i = 1; i < count && value > 0; i++)
		if (value % units[i].factor == 0)
			unit = &units[i];
	snprintf(text, size, "%" PRIu64 "%s", value / unit->factor, unit->suffix);
}

static int set_number(const struct kr_option *option, const char *text, const char *where, uint64_t *field)
{
	static const char *const hints[] = {
		[KR_OPTION_SIZE] = "a size (try 64K, 8M, 4G)",
		[KR_OPTION_SECONDS] = "a time (try 20, 0.5, 500ms, 5m)",
		[KR_OPTION_COUNT] = "a whole number",
	};
	char low[32], high[32] = "any";
	const char *end = text;
	uint64_t value = 0;
	bool good;

	if (option->type == KR_OPTION_SIZE)
		good = parse_size(text, &value);
	else if (option->type == KR_OPTION_SECONDS)
		good = parse_seconds(text, &value);
	else
		good = parse_digits(&end, &value) && *end == '\0';
	if (!good)
		return kr_fail(-EINVAL, "%s: \"%s\" is not %s", where, text, hints[option->type]);
	if (value < option->min || (option->max && value > option->max)) {
		kr_option_format_number(option->type, option->min, low, sizeof(low));
		if (option->max)
			kr_option_format_number(option->type, option->max, high, sizeof(high));
		return kr_fail(-EINVAL, "%s: %s is out of range (%s to %s)", where, text, low, high);
	}
	*field = value;
	return 0;
}

const char *kr_option_choice(const char *choices, int index, size_t *ret_length)
{
	for (; index > 0 && choices; index--) {
		choices = strchr(choices, '|');
		if (choices)
			choices++;
	}
	if (choices)
		*ret_length = strcspn(choices, "|");
	return choices;
}

static int set_choice(const struct kr_option *option, const char *text, const char *where, int *field)
{
	const char *choice;
	size_t length;

	for (int i = 0; (choice = kr_option_choice(option->choices, i, &length)) != NULL; i++)
		if (strlen(text) == length && memcmp(text, choice, length) == 0) {
			*field = i;
			return 0;
		}
	return kr_fail(-EINVAL, "%s: \"%s\" is none of %s", where, text, option->choices);
}

static int set_path(const char *text, const char *where, char **field)
{
	KR_AUTO_FREE char *directory = NULL;
	char *path;

	if (*text == '/' || *text == '\0') {
		path = *text ? kr_xstrdup(text) : NULL;
	} else {
		directory = getcwd(NULL, 0);
		if (!directory)
			return kr_fail_errno(-errno, "%s: the current directory is unknown", where);
		if (asprintf(&path, "%s/%s", strcmp(directory, "/") == 0 ? "" : directory, text) < 0)
			return kr_fail_errno(-ENOMEM, "%s", where);
	}
	free(*field);
	*field = path;
	return 0;
}

static int append_string(struct kr_strings *list, const char *text, const char *where)
{
	char **items = realloc(list->items, (list->count + 1) * sizeof(*items));

	if (!items)
		return kr_fail_errno(-ENOMEM, "%s", where);
	items[list->count] = kr_xstrdup(text);
	list->items = items;
	list->count++;
	return 0;
}

int kr_option_set(const struct kr_option *option, const char *text, const char *where, void *values)
{
	void *field = kr_option_field(option, values);

	switch (option->type) {
	case KR_OPTION_STRING:
		kr_option_clear(option, values);
		*(char **)field = kr_xstrdup(text);
		return 0;
	case KR_OPTION_PATH:
		return set_path(text, where, field);
	case KR_OPTION_SIZE:
	case KR_OPTION_SECONDS:
	case KR_OPTION_COUNT:
		return set_number(option, text, where, field);
	case KR_OPTION_BOOL:
		if (!parse_bool(text, field))
			return kr_fail(-EINVAL, "%s: \"%s\" is neither true nor false", where, text);
		return 0;
	case KR_OPTION_ENUM:
		return set_choice(option, text, where, field);
	case KR_OPTION_LIST:
		if (((struct kr_strings *)field)->from_file)
			kr_option_clear(option, values);
		return append_string(field, text, where);
	}
	return kr_fail(-EINVAL, "%s: of an unknown type", where);
}

void kr_option_clear(const struct kr_option *option, void *values)
{
	void *field = kr_option_field(option, values);

	if (option->type == KR_OPTION_STRING || option->type == KR_OPTION_PATH) {
		free(*(char **)field);
		*(char **)field = NULL;
	} else if (option->type == KR_OPTION_LIST) {
		struct kr_strings *list = field;

		for (size_t i = 0; i < list->count; i++)
			free(list->items[i]);
		free(list->items);
		*list = (struct kr_strings){0};
	}
}

int kr_options_set_defaults(const struct kr_options *set, void *values)
{
	for (size_t i = 0; i < set->count; i++) {
		const struct kr_option *option = &set->options[i];
		int err = option->default_text ? kr_option_set(option, option->default_text, option->name, values) : 0;

		if (err)
			return err;
	}
	return 0;
}

void kr_options_fini(const struct kr_options *set, void *values)
{
	for (size_t i = 0; i < set->count; i++)
		kr_option_clear(&set->options[i], values);
}

static bool names_equal(const char *name, const char *given, size_t length)
{
	for (size_t i = 0; i < length; i++)
		if (name[i] == '\0' || name[i] != (given[i] == '-' ? '_' : given[i]))
			return false;
	return name[length] == '\0';
}

const struct kr_option *kr_option_find(const struct kr_options *set, const char *name, size_t length)
{
	for (size_t i = 0; i < set->count; i++)
		if (names_equal(set->options[i].name, name, length))
			return &set->options[i];
	return NULL;
}

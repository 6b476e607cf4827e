/* Options in a JSON file: {"server": {"listen": ["0.0.0.0"], ...}, "mount": {...}}.  Errors name the key's full path.
 */
#include "common/config/options.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/nearest.h"
#include "common/config/options_priv.h"
#include "common/base/text.h"
#include "common/base/util.h"

enum { FILE_MAX = 1 << 20 };

static const char *expected(enum kr_option_type type)
{
	switch (type) {
	case KR_OPTION_SIZE:
		return "a number of bytes or a text such as \"8M\"";
	case KR_OPTION_SECONDS:
		return "a number of seconds or a text such as \"500ms\"";
	case KR_OPTION_COUNT:
		return "a whole number";
	case KR_OPTION_BOOL:
		return "true or false";
	case KR_OPTION_LIST:
		return "an array of texts";
	default:
		return "a text";
	}
}

static int set_list(const struct kr_option *option, json_t *array, const char *where, void *values)
{
	struct kr_strings *list = kr_option_field(option, values);
	size_t index;
	json_t *item;

	kr_option_clear(option, values);
	json_array_foreach(array, index, item)
	{
		int err = json_is_string(item) ? kr_option_set(option, json_string_value(item), where, values) :
						 kr_fail(-EINVAL, "%s[%zu]: must be a text", where, index);

		if (err)
			return err;
	}
	list->from_file = true;
	return 0;
}

/* Texts and numbers go the same way as on the command line. */
static int set_value(const struct kr_option *option, json_t *value, const char *where, void *values)
{
	enum kr_option_type type = option->type;
	bool number = type == KR_OPTION_SIZE || type == KR_OPTION_SECONDS || type == KR_OPTION_COUNT;
	bool text = type != KR_OPTION_COUNT && type != KR_OPTION_BOOL && type != KR_OPTION_LIST;
	char digits[64];

	if (type == KR_OPTION_LIST && json_is_array(value))
		return set_list(option, value, where, values);
	if (type == KR_OPTION_BOOL && json_is_boolean(value))
		return kr_option_set(option, json_is_true(value) ? "true" : "false", where, values);
	if (text && json_is_string(value))
		return kr_option_set(option, json_string_value(value), where, values);
	if (number && json_is_integer(value)) {
		snprintf(digits, sizeof(digits), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
		return kr_option_set(option, digits, where, values);
	}
	if (type == KR_OPTION_SECONDS && json_is_real(value)) {
		snprintf(digits, sizeof(digits), "%.6f", json_real_value(value));
		return kr_option_set(option, digits, where, values);
	}
	if ((type == KR_OPTION_STRING || type == KR_OPTION_PATH) && json_is_null(value)) {
		kr_option_clear(option, values);
		return 0;
	}
	return kr_fail(-EINVAL, "%s: must be %s", where, expected(type));
}

static int no_such_option(const struct kr_options *set, const char *path, const char *key)
{
	struct kr_nearest nearest = {0};

	for (size_t i = 0; i < set->count; i++)
		kr_nearest_try(&nearest, key, set->options[i].name);
	return nearest.name ? kr_fail(-EINVAL, "%s: no such option; did you mean %s?", path, nearest.name) :
			      kr_fail(-EINVAL, "%s: no such option", path);
}

static int read_section(const struct kr_options *set, json_t *section, const char *where, void *values)
{
	const char *key;
	json_t *value;

	if (!json_is_object(section))
		return kr_fail(-EINVAL, "%s: %s: must be an object", where, set->section);
	json_object_foreach(section, key, value)
	{
		const struct kr_option *option = strchr(key, '-') ? NULL : kr_option_find(set, key, strlen(key));
		char path[512];
		int err;

		snprintf(path, sizeof(path), "%s: %s.%s", where, set->section, key);
		if (!option)
			return no_such_option(set, path, key);
		if (option->command_line_only)
			return kr_fail(-EINVAL, "%s: only for the command line", path);
		err = set_value(option, value, path, values);
		if (err)
			return err;
	}
	return 0;
}

static bool is_section(const char *name)
{
	static const char *const sections[] = {KR_OPTIONS_SECTIONS};

	for (size_t i = 0; i < KR_ARRAY_SIZE(sections); i++)
		if (strcmp(name, sections[i]) == 0)
			return true;
	return false;
}

static int read_root(const struct kr_options *set, json_t *root, const char *where, void *values)
{
	const char *name;
	json_t *section;
	int err = 0;

	json_object_foreach(root, name, section)
	{
		if (!is_section(name))
			return kr_fail(
				-EINVAL, "%s: %s: no such section (there are \"server\" and \"mount\")", where, name);
		if (strcmp(name, set->section) == 0)
			err = read_section(set, section, where, values);
		if (err)
			return err;
	}
	return 0;
}

int kr_options_read_json(const struct kr_options *set, const char *text, const char *where, void *values)
{
	json_error_t error;
	json_t *root = json_loads(text, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
	int err;

	if (!root)
		return kr_fail(-EINVAL, "%s:%d: %s", where, error.line, error.text);
	err = json_is_object(root) ? read_root(set, root, where, values) :
				     kr_fail(-EINVAL, "%s: must be an object", where);
	json_decref(root);
	return err;
}

int kr_options_read_file(const struct kr_options *set, const char *path, void *values)
{
	KR_AUTO_FREE char *text = NULL;
	size_t length;
	int err = kr_read_file(AT_FDCWD, path, FILE_MAX, &text, &length);

	return err ? err : kr_options_read_json(set, text, path, values);
}

static json_t *value_of(const struct kr_option *option, const void *field)
{
	const struct kr_strings *list = field;
	size_t length = 0;
	const char *choice;
	char text[32];
	json_t *array;

	switch (option->type) {
	case KR_OPTION_STRING:
	case KR_OPTION_PATH:
		return *(char *const *)field ? kr_text_json(*(char *const *)field) : json_null();
	case KR_OPTION_COUNT:
		return json_integer((json_int_t) * (const uint64_t *)field);
	case KR_OPTION_SIZE:
	case KR_OPTION_SECONDS:
		kr_option_format_number(option->type, *(const uint64_t *)field, text, sizeof(text));
		return json_string(text);
	case KR_OPTION_BOOL:
		return json_boolean(*(const bool *)field);
	case KR_OPTION_ENUM:
		choice = kr_option_choice(option->choices, *(const int *)field, &length);
		return json_stringn(choice ? choice : "", length);
	case KR_OPTION_LIST:
		array = json_array();
		for (size_t i = 0; i < list->count; i++)
			json_array_append_new(array, kr_text_json(list->items[i]));
		return array;
	}
	return json_null();
}

void kr_options_print(const struct kr_options *set, const void *values, FILE *out)
{
	json_t *root = json_object(), *section = json_object();

	for (size_t i = 0; i < set->count; i++)
		if (!set->options[i].command_line_only)
			json_object_set_new(section, set->options[i].name,
				value_of(&set->options[i], (const char *)values + set->options[i].offset));
	json_object_set_new(root, set->section, section);
	json_dumpf(root, out, JSON_INDENT(2));
	fputc('\n', out);
	json_decref(root);
}

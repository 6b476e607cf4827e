/* See hints.h. */
#include "mpiio/schedule/hints.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"

enum kind { NUMBER32, NUMBER64, SWITCH, ORDER, TEXT };

/* The one table of hints; the man page kairan-mpiio(7) says what each does. */
static const struct hint {
	const char *key;
	enum kind kind;
	size_t offset;
	uint64_t min, max;
} table[] = {
	{"cb_buffer_size", NUMBER64, offsetof(struct kr_hints, cb_buffer_size), 4096, UINT64_C(1) << 30},
	{"cb_nodes", NUMBER32, offsetof(struct kr_hints, cb_nodes), 1, 1 << 20},
	{"cb_config_list", TEXT, offsetof(struct kr_hints, cb_config_list), 0, 0},
	{"striping_unit", NUMBER64, offsetof(struct kr_hints, striping_unit), 4096, UINT64_C(1) << 40},
	{"romio_cb_read", SWITCH, offsetof(struct kr_hints, read), 0, 0},
	{"romio_cb_write", SWITCH, offsetof(struct kr_hints, write), 0, 0},
	{"kairan_order", ORDER, offsetof(struct kr_hints, order), 0, 0},
	{"kairan_window", NUMBER32, offsetof(struct kr_hints, window), 0, 1 << 20},
	{"kairan_slots", NUMBER32, offsetof(struct kr_hints, slots), 1, 16},
	{"kairan_direct_run", NUMBER64, offsetof(struct kr_hints, direct_run), 1, UINT64_MAX},
	{"kairan_summary", NUMBER32, offsetof(struct kr_hints, summary), 0, 1},
	{"kairan_trace", TEXT, offsetof(struct kr_hints, trace), 0, 0},
};
static const char *const switch_names[] = {
	[KR_DISABLE] = "disable", [KR_ENABLE] = "enable", [KR_AUTOMATIC] = "automatic"};

void kr_hints_defaults(struct kr_hints *hints)
{
	*hints = (struct kr_hints){
		.direct_run = 1 << 20,
		.window = 8,
		.slots = 8,
		.read = KR_AUTOMATIC,
		.write = KR_AUTOMATIC,
		.order = KR_ORDER_ND_RANK_SHIFT,
	};
}

enum { PIECE_MIN = 512 << 10, PIECE_MAX = 16 << 20, PIECE_PER_RANK = 32 << 10 };

uint64_t kr_hints_piece(int ranks)
{
	return KR_MIN(KR_MAX((uint64_t)ranks * PIECE_PER_RANK, PIECE_MIN), PIECE_MAX);
}

/* A whole number, with only blanks behind it. */
static bool parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
	char *end;
	unsigned long long value;

	while (isspace((unsigned char)*text))
		text++;
	if (!isdigit((unsigned char)*text))
		return false;
	errno = 0;
	value = strtoull(text, &end, 10);
	while (isspace((unsigned char)*end))
		end++;
	if (errno || *end || value < min || value > max)
		return false;
	*ret = value;
	return true;
}

static bool parse_switch(const char *text, uint32_t *ret)
{
	for (uint32_t i = 0; i < KR_ARRAY_SIZE(switch_names); i++)
		if (strcasecmp(text, switch_names[i]) == 0) {
			*ret = i;
			return true;
		}
	return false;
}

static bool parse_order(const char *text, uint32_t *ret)
{
	enum kr_order order;

	if (!kr_order_parse(text, &order))
		return false;
	*ret = order;
	return true;
}

static bool set_text(char *field, const char *value)
{
	if (strlen(value) >= KR_HINT_TEXT_MAX)
		return false;
	strcpy(field, value);
	return true;
}

static bool set(const struct hint *hint, struct kr_hints *hints, const char *value)
{
	void *field = (char *)hints + hint->offset;
	uint64_t number;

	switch (hint->kind) {
	case NUMBER64:
		return parse_number(value, hint->min, hint->max, field);
	case NUMBER32:
		if (!parse_number(value, hint->min, hint->max, &number))
			return false;
		*(uint32_t *)field = (uint32_t)number;
		return true;
	case SWITCH:
		return parse_switch(value, field);
	case ORDER:
		return parse_order(value, field);
	case TEXT:
		return set_text(field, value);
	}
	return false;
}

bool kr_hints_set(struct kr_hints *hints, const char *key, const char *value)
{
	for (size_t i = 0; i < KR_ARRAY_SIZE(table); i++)
		if (strcmp(key, table[i].key) == 0)
			return set(&table[i], hints, value);
	return false;
}

void kr_hints_set_list(struct kr_hints *hints, const char *list)
{
	KR_AUTO_FREE char *copy = kr_xstrdup(list);
	char *rest, *item;

	for (item = strtok_r(copy, ";", &rest); item; item = strtok_r(NULL, ";", &rest)) {
		char *value = strchr(item, '=');

		if (!value)
			continue;
		*value++ = '\0';
		kr_hints_set(hints, item, value);
	}
}

const char *kr_hints_get(const struct kr_hints *hints, size_t index, char *value)
{
	const struct hint *hint = &table[index];
	const void *field;

	if (index >= KR_ARRAY_SIZE(table))
		return NULL;
	field = (const char *)hints + hint->offset;
	switch (hint->kind) {
	case NUMBER64:
		snprintf(value, KR_HINT_TEXT_MAX, "%llu", (unsigned long long)*(const uint64_t *)field);
		break;
	case NUMBER32:
		snprintf(value, KR_HINT_TEXT_MAX, "%u", *(const uint32_t *)field);
		break;
	case SWITCH:
		snprintf(value, KR_HINT_TEXT_MAX, "%s", switch_names[*(const uint32_t *)field]);
		break;
	case ORDER:
		snprintf(value, KR_HINT_TEXT_MAX, "%s", kr_order_name((enum kr_order) * (const uint32_t *)field));
		break;
	case TEXT:
		snprintf(value, KR_HINT_TEXT_MAX, "%s", (const char *)field);
		break;
	}
	return hint->key;
}

/* See holders.h. */
#include "fuse/ops/holders.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "common/base/util.h"
#include "common/rpc/wire.h"

struct holder {
	char name[256];
	uint64_t bytes, cached, unflushed;
};

static int by_bytes(const void *left, const void *right)
{
	const struct holder *a = left, *b = right;

	return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : strcmp(a->name, b->name);
}

static bool take_holder(struct kr_reader *reader, uint64_t size, struct holder *ret_holder)
{
	uint8_t length = kr_take_u8(reader);
	const uint8_t *name = kr_take_bytes(reader, length);

	if (!name)
		return false;
	memcpy(ret_holder->name, name, length);
	ret_holder->name[length] = 0;
	ret_holder->cached = kr_take_u64(reader);
	ret_holder->unflushed = kr_take_u64(reader);
	/* Bytes that the node has just flushed may count in both. */
	ret_holder->bytes = KR_MIN(ret_holder->cached + ret_holder->unflushed, KR_MAX(size, ret_holder->unflushed));
	return !reader->failed;
}

/* The holders in order, owned.  NULL: NODES cannot be decoded. */
static struct holder *decode(const struct kr_bytes *nodes, uint64_t size, size_t *ret_count)
{
	enum { HOLDER_MIN = 17 };
	struct holder *holders = kr_xcalloc(nodes->length / HOLDER_MIN + 1, sizeof(*holders));
	struct kr_reader reader;
	size_t count = 0;

	kr_reader_init(&reader, nodes->bytes, nodes->length);
	while (kr_reader_left(&reader) > 0) {
		if (!take_holder(&reader, size, &holders[count++])) {
			free(holders);
			return NULL;
		}
	}
	qsort(holders, count, sizeof(*holders), by_bytes);
	*ret_count = count;
	return holders;
}

static void replace_separators(char *name)
{
	for (; *name; name++)
		if (*name == '=' || (unsigned char)*name <= ' ')
			*name = '_';
}

char *kr_holders_text(const struct kr_bytes *nodes, uint64_t size)
{
	KR_AUTO_FREE struct holder *holders = NULL;
	char *text = NULL;
	size_t count, length;
	FILE *out;

	holders = decode(nodes, size, &count);
	out = holders ? open_memstream(&text, &length) : NULL;
	if (!out)
		return NULL;
	for (size_t i = 0; i < count; i++) {
		replace_separators(holders[i].name);
		fprintf(out, "%s%s=%" PRIu64, i ? " " : "", holders[i].name, holders[i].bytes);
	}
	fclose(out);
	return text;
}

char *kr_holders_json(const struct kr_bytes *nodes, uint64_t size)
{
	KR_AUTO_FREE struct holder *holders = NULL;
	json_t *array = json_array(), *all;
	char *text;
	size_t count;

	holders = decode(nodes, size, &count);
	if (!holders) {
		json_decref(array);
		return NULL;
	}
	for (size_t i = 0; i < count; i++) {
		KR_AUTO_FREE char *name = kr_text_utf8(holders[i].name);

		json_array_append_new(array,
			json_pack("{ss sI sI sI}", "node", name, "bytes", (json_int_t)holders[i].bytes, "cached",
				(json_int_t)holders[i].cached, "unflushed", (json_int_t)holders[i].unflushed));
	}
	all = json_pack("{sI so}", "size", (json_int_t)size, "nodes", array);
	text = json_dumps(all, JSON_COMPACT);
	json_decref(all);
	return text;
}

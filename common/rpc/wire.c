/* Cursors over the wire's bytes: see wire.h. */
#include "common/rpc/wire.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"

void kr_writer_init(struct kr_writer *w)
{
	*w = (struct kr_writer){0};
}

void kr_writer_fini(struct kr_writer *w)
{
	if (!w)
		return;
	free(w->bytes);
	kr_writer_init(w);
}

/* Room for LENGTH more bytes, NULL when there is none. */
static uint8_t *grow_by(struct kr_writer *w, size_t length)
{
	size_t wanted = w->length + length;

	if (w->failed || wanted < length) {
		w->failed = true;
		return NULL;
	}
	if (wanted > w->capacity) {
		size_t capacity = KR_MAX(wanted, KR_MAX(w->capacity * 2, (size_t)128));
		uint8_t *bytes = realloc(w->bytes, capacity);

		if (!bytes) {
			w->failed = true;
			return NULL;
		}
		w->bytes = bytes;
		w->capacity = capacity;
	}
	w->length = wanted;
	return w->bytes + wanted - length;
}

void kr_put_bytes(struct kr_writer *w, const void *bytes, size_t length)
{
	uint8_t *to;

	if (length == 0)
		return;
	to = grow_by(w, length);
	if (to)
		memcpy(to, bytes, length);
}

void kr_put_u8(struct kr_writer *w, uint8_t value)
{
	kr_put_bytes(w, &value, sizeof(value));
}

void kr_put_u16(struct kr_writer *w, uint16_t value)
{
	value = htobe16(value);
	kr_put_bytes(w, &value, sizeof(value));
}

void kr_put_u32(struct kr_writer *w, uint32_t value)
{
	value = htobe32(value);
	kr_put_bytes(w, &value, sizeof(value));
}

void kr_put_u64(struct kr_writer *w, uint64_t value)
{
	value = htobe64(value);
	kr_put_bytes(w, &value, sizeof(value));
}

void kr_reader_init(struct kr_reader *r, const void *bytes, size_t length)
{
	*r = (struct kr_reader){.bytes = bytes, .length = length};
}

const uint8_t *kr_take_bytes(struct kr_reader *r, size_t length)
{
	static const uint8_t nothing;
	const uint8_t *bytes;

	if (r->failed || length > r->length - r->position) {
		r->failed = true;
		return NULL;
	}
	if (length == 0)
		return &nothing; /* even if R borrows no bytes at all */
	bytes = r->bytes + r->position;
	r->position += length;
	return bytes;
}

uint8_t kr_take_u8(struct kr_reader *r)
{
	const uint8_t *bytes = kr_take_bytes(r, 1);

	return bytes ? *bytes : 0;
}

uint16_t kr_take_u16(struct kr_reader *r)
{
	const uint8_t *bytes = kr_take_bytes(r, sizeof(uint16_t));
	uint16_t value = 0;

	if (bytes)
		memcpy(&value, bytes, sizeof(value));
	return be16toh(value);
}

uint32_t kr_take_u32(struct kr_reader *r)
{
	const uint8_t *bytes = kr_take_bytes(r, sizeof(uint32_t));
	uint32_t value = 0;

	if (bytes)
		memcpy(&value, bytes, sizeof(value));
	return be32toh(value);
}

uint64_t kr_take_u64(struct kr_reader *r)
{
	const uint8_t *bytes = kr_take_bytes(r, sizeof(uint64_t));
	uint64_t value = 0;

	if (bytes)
		memcpy(&value, bytes, sizeof(value));
	return be64toh(value);
}

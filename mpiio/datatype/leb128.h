/* Numbers as LEB128: seven bits a byte, lowest first; the top bit tells that more follow.  Signed numbers go through
 * zigzag (0, -1, 1, -2...) first.  Both ends are bounded.  No threads, no state. */
#ifndef KR_MPIIO_LEB128_H
#define KR_MPIIO_LEB128_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* A growing buffer; zero = empty.  The writer's owner frees BYTES.  An error sticks. */
struct kr_leb_writer {
	uint8_t *bytes;
	size_t length, capacity;
	int error;
};

/* 0 or -ENOMEM. */
static inline int kr_leb_put(struct kr_leb_writer *w, uint64_t value)
{
	if (w->error == 0 && w->capacity - w->length < 10) {
		size_t capacity = w->capacity ? 2 * w->capacity : 64;
		uint8_t *bytes = (uint8_t *)realloc(w->bytes, capacity);
		if (bytes) {
			w->bytes = bytes;
			w->capacity = capacity;
		} else {
			w->error = -ENOMEM;
		}
	}
	if (w->error < 0)
		return w->error;
	for (; value >= 0x80; value >>= 7)
		w->bytes[w->length++] = (uint8_t)(value | 0x80);
	w->bytes[w->length++] = (uint8_t)value;
	return 0;
}

static inline int kr_leb_put_signed(struct kr_leb_writer *w, int64_t value)
{
	return kr_leb_put(w, ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0));
}

struct kr_leb_reader {
	const uint8_t *at, *end;
};

static inline size_t kr_leb_left(const struct kr_leb_reader *r)
{
	return (size_t)(r->end - r->at);
}

/* False: the bytes end within the number, or it has more than 64 bits. */
static inline bool kr_leb_get(struct kr_leb_reader *r, uint64_t *ret_value)
{
	uint64_t value = 0;
	for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
		uint64_t bits = *r->at & 0x7f;
		if (shift == 63 && bits > 1)
			return false;
		value |= bits << shift;
		if ((*r->at++ & 0x80) == 0) {
			*ret_value = value;
			return true;
		}
	}
	return false;
}

static inline bool kr_leb_get_signed(struct kr_leb_reader *r, int64_t *ret_value)
{
	uint64_t value;
	if (!kr_leb_get(r, &value))
		return false;
	*ret_value = (int64_t)(value >> 1 ^ (value & 1 ? UINT64_MAX : 0));
	return true;
}

#endif

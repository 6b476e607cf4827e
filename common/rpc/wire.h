/* Cursors over bytes of the wire: big-endian integers one by one, every length checked.
 *
 * A failed cursor stays failed and reads zeros, so decoders check once, at the end.
 */
#ifndef KR_COMMON_WIRE_H
#define KR_COMMON_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Appends to a growing heap buffer. */
struct kr_writer {
	uint8_t *bytes;
	size_t length, capacity;
	bool failed; /* out of memory */
};
void kr_writer_init(struct kr_writer *w);
void kr_writer_fini(struct kr_writer *w);
void kr_put_u8(struct kr_writer *w, uint8_t value);
void kr_put_u16(struct kr_writer *w, uint16_t value);
void kr_put_u32(struct kr_writer *w, uint32_t value);
void kr_put_u64(struct kr_writer *w, uint64_t value);
void kr_put_bytes(struct kr_writer *w, const void *bytes, size_t length); /* without a length */

/* Reads from borrowed bytes. */
struct kr_reader {
	const uint8_t *bytes;
	size_t length, position;
	bool failed;
};
void kr_reader_init(struct kr_reader *r, const void *bytes, size_t length);
uint8_t kr_take_u8(struct kr_reader *r);
uint16_t kr_take_u16(struct kr_reader *r);
uint32_t kr_take_u32(struct kr_reader *r);
uint64_t kr_take_u64(struct kr_reader *r);
const uint8_t *kr_take_bytes(struct kr_reader *r, size_t length); /* borrowed; NULL on failure */
static inline size_t kr_reader_left(const struct kr_reader *r)
{
	return r->failed ? 0 : r->length - r->position;
}

#endif

/* Reference-counted data buffers from a bounded pool of KR_BLOCK_SIZE pieces.  Larger buffers come from the heap.
 *
 * The bytes of a buffer do not change once the buffer has a second reference.  Any thread.
 */
#ifndef KR_COMMON_BUF_H
#define KR_COMMON_BUF_H

#include <stddef.h>
#include <stdint.h>

struct kr_buf {
	uint8_t *data;
	size_t length; /* bytes valid */
	size_t capacity;
	uint32_t references; /* atomic */
};

/* Returns a buffer with one reference and length 0, or NULL (errno ENOMEM). */
struct kr_buf *kr_buf_new(size_t capacity);
struct kr_buf *kr_buf_get(struct kr_buf *buf);
void kr_buf_put(struct kr_buf *buf);
/* XXH3-64 of bytes: the checksum of every data frame and journal record. */
uint64_t kr_checksum(const void *bytes, size_t length);
/* Bytes in buffers that have references now, for status. */
size_t kr_buf_bytes_in_use(void);

#endif

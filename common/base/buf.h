/* Reference-counted data buffers from a bounded pool of KR_BLOCK_SIZE pieces (larger ones come from the heap).
 *
 * What a buffer holds does not change once it has a second reference.  Any thread.
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

/* A buffer with one reference, length 0; NULL (errno ENOMEM) when memory is out. */
struct kr_buf *kr_buf_new(size_t capacity);
struct kr_buf *kr_buf_get(struct kr_buf *buf);
void kr_buf_put(struct kr_buf *buf);
/* XXH3-64 of bytes: the checksum of every data frame and journal record. */
uint64_t kr_checksum(const void *bytes, size_t length);
/* Bytes in buffers that somebody holds now, for status. */
size_t kr_buf_bytes_in_use(void);

#endif

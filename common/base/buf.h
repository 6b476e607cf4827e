/* Reference-counted data buffers from a bounded pool of KR_BLOCK_SIZE pieces.  Larger buffers come from the heap.
 *
 * The bytes of a buffer do not change once the buffer has a second reference.  Any thread.
 *
 * A process with an RDMA device opens the registered pool: one region of page-aligned buffers, of KR_BLOCK_SIZE each,
 * that the device may read and write.  It stays until the process ends.  While one of its buffers is free, kr_buf_new
 * returns that one for a size that belongs into a pool.
 */
#ifndef KR_COMMON_BUF_H
#define KR_COMMON_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A buffer of less would waste most of a pooled block, and comes from the heap. */
enum { KR_BUF_POOLED_MIN = 32768 };

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
/* Opens the registered pool, with room for BYTES (a multiple of KR_BLOCK_SIZE), or returns the one that is open.
 * -ENOMEM. */
int kr_buf_pool_open(size_t bytes, void **ret_base, size_t *ret_length);
/* A buffer of the registered pool; NULL: none is free. */
struct kr_buf *kr_buf_new_registered(void);
/* Whether BUF is of the registered pool. */
bool kr_buf_is_registered(const struct kr_buf *buf);
/* XXH3-64 of bytes: the checksum of every data frame and journal record. */
uint64_t kr_checksum(const void *bytes, size_t length);
/* Bytes in buffers that have references now, for status. */
size_t kr_buf_bytes_in_use(void);

#endif

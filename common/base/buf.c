/* Data buffers: blocks of KR_BLOCK_SIZE come from a free list with a maximum, the rest from the heap.
 *
 * The header lies in front of the bytes, which are aligned to a cache line.  Under AddressSanitizer the free list stays
 * empty, so that a use after kr_buf_put shows.  Any thread; `pool.lock` guards the free list.
 */
#include "common/base/buf.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#ifdef KR_XXH_DISPATCH
#include <xxh_x86dispatch.h> /* the fastest variant that this CPU has: twice as fast with AVX2 */
#else
#include <xxhash.h>
#endif

#include "common/base/types.h"
#include "common/base/util.h"

enum { ALIGNMENT = 64 };
#ifdef __SANITIZE_ADDRESS__
enum { FREE_MAX = 0 };
#else
enum { FREE_MAX = 256 }; /* 32 MiB */
#endif
/* For a smaller buffer most of a pooled block would be waste. */
enum { POOLED_MIN = KR_BLOCK_SIZE / 4 };

struct block {
	struct kr_buf buf;
	struct block *next_free;
};
static_assert(sizeof(struct block) <= ALIGNMENT, "the header takes one cache line");

static struct {
	pthread_mutex_t lock;
	struct block *free;
	size_t free_count;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Atomic size_t bytes_in_use;

static struct block *take_free_block(void)
{
	KR_SCOPED_LOCK(&pool.lock);
	struct block *block = pool.free;

	if (block) {
		pool.free = block->next_free;
		pool.free_count--;
	}
	return block;
}

static bool keep_free_block(struct block *block)
{
	KR_SCOPED_LOCK(&pool.lock);

	if (pool.free_count + 1 > FREE_MAX)
		return false;
	block->next_free = pool.free;
	pool.free = block;
	pool.free_count++;
	return true;
}

struct kr_buf *kr_buf_new(size_t capacity)
{
	struct block *block = NULL;
	void *memory;

	if (capacity >= POOLED_MIN && capacity <= KR_BLOCK_SIZE) {
		capacity = KR_BLOCK_SIZE;
		block = take_free_block();
	}
	if (!block) {
		if (capacity > SIZE_MAX - ALIGNMENT || posix_memalign(&memory, ALIGNMENT, ALIGNMENT + capacity) != 0) {
			errno = ENOMEM;
			return NULL;
		}
		block = memory;
	}
	block->buf = (struct kr_buf){.data = (uint8_t *)block + ALIGNMENT, .capacity = capacity, .references = 1};
	atomic_fetch_add_explicit(&bytes_in_use, capacity, memory_order_relaxed);
	return &block->buf;
}

struct kr_buf *kr_buf_get(struct kr_buf *buf)
{
	__atomic_add_fetch(&buf->references, 1, __ATOMIC_RELAXED);
	return buf;
}

void kr_buf_put(struct kr_buf *buf)
{
	struct block *block;

	if (!buf || __atomic_sub_fetch(&buf->references, 1, __ATOMIC_ACQ_REL) > 0)
		return;
	block = KR_CONTAINER_OF(buf, struct block, buf);
	atomic_fetch_sub_explicit(&bytes_in_use, buf->capacity, memory_order_relaxed);
	if (buf->capacity != KR_BLOCK_SIZE || !keep_free_block(block))
		free(block);
}

uint64_t kr_checksum(const void *bytes, size_t length)
{
	return XXH3_64bits(bytes, length);
}

size_t kr_buf_bytes_in_use(void)
{
	return atomic_load_explicit(&bytes_in_use, memory_order_relaxed);
}

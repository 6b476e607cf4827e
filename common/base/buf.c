/* Data buffers: blocks of KR_BLOCK_SIZE come from the registered pool or a free list with a maximum, the rest from the
 * heap.
 *
 * The header lies in front of the bytes, which are aligned to a cache line.  Those of the registered pool lie apart.
 * Under AddressSanitizer a free block is poisoned, and rests until RESTING others are free, so that a use after
 * kr_buf_put shows.  Any thread; `pool.lock` guards the free lists.
 */
#include "common/base/buf.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif
#ifdef KR_XXH_DISPATCH
#include <xxh_x86dispatch.h> /* the fastest variant that this CPU has: twice as fast with AVX2 */
#else
#include <xxhash.h>
#endif

#include "common/base/fail.h"
#include "common/base/types.h"
#include "common/base/util.h"

enum { ALIGNMENT = 64 };
enum { FREE_MAX = 256 }; /* 32 MiB */
static_assert(KR_BUF_POOLED_MIN == KR_BLOCK_SIZE / 4, "a quarter of a block");
enum { HUGE_PAGE = 2 << 20 };

struct block {
	struct kr_buf buf;
	struct block *next_free;
};
static_assert(sizeof(struct block) <= ALIGNMENT, "the header takes one cache line");

static struct {
	pthread_mutex_t lock;
	struct block *free[FREE_MAX]; /* a ring from `oldest` on; without AddressSanitizer a stack, `oldest` stays 0 */
	size_t oldest, free_count;

	struct block *registered_free;
	struct block *headers;   /* of the registered pool, written once */
	uint8_t *_Atomic region; /* its bytes; NULL: not open */
	size_t region_length;
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER};
static _Atomic size_t bytes_in_use;

#ifdef __SANITIZE_ADDRESS__
enum { RESTING = 64, OLDEST_FIRST = 1 };
static void make_usable(void *bytes, bool usable)
{
	(usable ? __asan_unpoison_memory_region : __asan_poison_memory_region)(bytes, ALIGNMENT + KR_BLOCK_SIZE);
}
#else
enum { RESTING = 0, OLDEST_FIRST = 0 }; /* the latest is in the processor's cache */
static void make_usable(const void *bytes, bool usable)
{
	(void)bytes, (void)usable;
}
#endif

static struct block *take_free_block(void)
{
	KR_SCOPED_LOCK(&pool.lock);
	struct block *block;

	if (pool.free_count <= RESTING)
		return NULL;
	pool.free_count--;
	if (OLDEST_FIRST) {
		block = pool.free[pool.oldest];
		pool.oldest = (pool.oldest + 1) % FREE_MAX;
	} else {
		block = pool.free[pool.free_count];
	}
	make_usable(block, true);
	return block;
}

static bool keep_free_block(struct block *block)
{
	KR_SCOPED_LOCK(&pool.lock);

	if (pool.free_count == FREE_MAX)
		return false;
	make_usable(block, false);
	pool.free[(pool.oldest + pool.free_count++) % FREE_MAX] = block;
	return true;
}

/* --- the registered pool --- */

/* Huge pages where the administrator has set some aside, else such as the kernel makes. */
static void *map_region(size_t bytes)
{
	const int flags = MAP_PRIVATE | MAP_ANONYMOUS;
	void *region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB, -1, 0);

	if (region != MAP_FAILED)
		return region;
	region = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, -1, 0);
	if (region == MAP_FAILED)
		return NULL;
	madvise(region, bytes, MADV_HUGEPAGE);
	return region;
}

int kr_buf_pool_open(size_t bytes, void **ret_base, size_t *ret_length)
{
	KR_SCOPED_LOCK(&pool.lock);

	if (!pool.region) {
		const size_t length = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE, count = length / KR_BLOCK_SIZE;
		struct block *headers = calloc(count, sizeof(*headers));
		uint8_t *region = headers ? map_region(length) : NULL;

		if (!region) {
			free(headers);
			return kr_fail(-ENOMEM, "no memory for a pool of %zu bytes", length);
		}
		madvise(region, length, MADV_DONTFORK); /* a child's copy would move pages away from the device */
		for (size_t i = 0; i < count; i++) {
			headers[i].buf.data = region + i * KR_BLOCK_SIZE;
			headers[i].next_free = pool.registered_free;
			pool.registered_free = &headers[i];
		}
		pool.headers = headers;
		pool.region_length = length;
		pool.region = region;
	}
	*ret_base = pool.region;
	*ret_length = pool.region_length;
	return 0;
}

bool kr_buf_is_registered(const struct kr_buf *buf)
{
	const uint8_t *region = pool.region;

	return region && buf->data >= region && buf->data < region + pool.region_length;
}

struct kr_buf *kr_buf_new_registered(void)
{
	struct block *block;

	if (!pool.region)
		return NULL;
	KR_SCOPED_LOCK(&pool.lock);
	block = pool.registered_free;
	if (!block)
		return NULL;
	pool.registered_free = block->next_free;
	block->buf = (struct kr_buf){.data = block->buf.data, .capacity = KR_BLOCK_SIZE, .references = 1};
	atomic_fetch_add_explicit(&bytes_in_use, KR_BLOCK_SIZE, memory_order_relaxed);
	return &block->buf;
}

static void give_back(struct block *block)
{
	KR_SCOPED_LOCK(&pool.lock);

	block->next_free = pool.registered_free;
	pool.registered_free = block;
}

/* --- buffers --- */

struct kr_buf *kr_buf_new(size_t capacity)
{
	struct block *block = NULL;
	void *memory;

	if (capacity >= KR_BUF_POOLED_MIN && capacity <= KR_BLOCK_SIZE) {
		struct kr_buf *registered = kr_buf_new_registered();

		if (registered)
			return registered;
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
	if (kr_buf_is_registered(buf))
		give_back(block);
	else if (buf->capacity != KR_BLOCK_SIZE || !keep_free_block(block))
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

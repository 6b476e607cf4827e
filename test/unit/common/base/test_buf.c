/* Data buffers: references, the pool's limits, and many threads at once. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "common/base/buf.h"
#include "common/base/types.h"
#include "common/base/util.h"

static void a_buffer_lives_until_its_last_reference(void **state)
{
	struct kr_buf *buf = kr_buf_new(1000);

	(void)state;
	assert_non_null(buf);
	assert_int_equal(buf->length, 0);
	assert_true(buf->capacity >= 1000);
	memset(buf->data, 1, 1000);
	assert_ptr_equal(kr_buf_get(buf), buf);
	kr_buf_put(buf);
	assert_int_equal(buf->data[999], 1);
	assert_true(kr_buf_bytes_in_use() >= 1000);
	kr_buf_put(buf);
	assert_int_equal(kr_buf_bytes_in_use(), 0);
	kr_buf_put(NULL);
}

static void every_capacity_can_be_filled(void **state)
{
	static const size_t capacities[] = {0, 1, 4096, KR_BLOCK_SIZE / 4 - 1, KR_BLOCK_SIZE / 4, KR_BLOCK_SIZE - 1,
		KR_BLOCK_SIZE, KR_BLOCK_SIZE + 1, 1 << 20};

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(capacities); i++) {
		struct kr_buf *buf = kr_buf_new(capacities[i]);

		assert_true(buf->capacity >= capacities[i]);
		memset(buf->data, 0xff, buf->capacity);
		assert_int_equal(kr_buf_bytes_in_use(), buf->capacity);
		kr_buf_put(buf);
	}
	assert_int_equal(kr_buf_bytes_in_use(), 0);
}

static void more_blocks_than_the_pool_keeps_are_fine(void **state)
{
	enum { COUNT = 600 };
	static struct kr_buf *bufs[COUNT];

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < COUNT; i++) {
			bufs[i] = kr_buf_new(KR_BLOCK_SIZE);
			assert_int_equal(bufs[i]->length, 0);
			bufs[i]->data[0] = bufs[i]->data[KR_BLOCK_SIZE - 1] = (uint8_t)i;
		}
		assert_int_equal(kr_buf_bytes_in_use(), (size_t)COUNT * KR_BLOCK_SIZE);
		for (size_t i = 0; i < COUNT; i++) {
			assert_int_equal(bufs[i]->data[KR_BLOCK_SIZE - 1], (uint8_t)i);
			kr_buf_put(bufs[i]);
		}
	}
	assert_int_equal(kr_buf_bytes_in_use(), 0);
}

#ifdef __SANITIZE_ADDRESS__
static void address_sanitizer_sees_a_use_of_a_free_block(void **state)
{
	struct kr_buf *freed = kr_buf_new(KR_BLOCK_SIZE), *next;
	const uint8_t *data = freed->data;

	(void)state;
	kr_buf_put(freed);
	next = kr_buf_new(KR_BLOCK_SIZE);
	assert_ptr_not_equal(next, freed);
	assert_int_equal(__asan_address_is_poisoned(freed), 1);
	assert_int_equal(__asan_address_is_poisoned(data), 1);
	assert_int_equal(__asan_address_is_poisoned(data + KR_BLOCK_SIZE - 1), 1);
	assert_int_equal(__asan_address_is_poisoned(next->data), 0);
	kr_buf_put(next);
}
#endif

static void an_impossible_size_is_enomem(void **state)
{
	(void)state;
	errno = 0;
	assert_null(kr_buf_new(SIZE_MAX - 8));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(kr_buf_bytes_in_use(), 0);
}

static struct kr_buf *shared;

static void *churn(void *seed_pointer)
{
	unsigned seed = *(unsigned *)seed_pointer;

	for (int i = 0; i < 3000; i++) {
		struct kr_buf *own = kr_buf_new((size_t)rand_r(&seed) % (2 * KR_BLOCK_SIZE) + 1),
			      *other = kr_buf_get(shared);

		own->data[0] = (uint8_t)seed;
		if (own->data[0] != (uint8_t)seed || other->data[7] != 42)
			return (void *)1;
		kr_buf_put(other);
		kr_buf_put(own);
	}
	return NULL;
}

static void threads_share_the_pool(void **state)
{
	unsigned seeds[4] = {1, 2, 3, 4};
	pthread_t threads[4];
	void *result;

	(void)state;
	shared = kr_buf_new(KR_BLOCK_SIZE);
	shared->data[7] = 42;
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, churn, &seeds[i]), 0);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_null(result);
	}
	kr_buf_put(shared);
	assert_int_equal(kr_buf_bytes_in_use(), 0);
}

static void the_checksum_is_xxh3(void **state)
{
	(void)state;
	assert_true(kr_checksum(NULL, 0) == UINT64_C(0x2d06800538d394c2));
	assert_true(kr_checksum("kairan", 6) != kr_checksum("kairbn", 6));
}

static void the_registered_pool_is_used_first_and_taken_back(void **state)
{
	enum { COUNT = 16 };
	struct kr_buf *bufs[COUNT], *heap, *again;
	size_t length, other_length;
	void *base, *other;

	(void)state;
	assert_null(kr_buf_new_registered());
	assert_int_equal(kr_buf_pool_open(COUNT * KR_BLOCK_SIZE, &base, &length), 0);
	assert_int_equal(length, COUNT * KR_BLOCK_SIZE);
	assert_int_equal(kr_buf_pool_open(1, &other, &other_length), 0);
	assert_ptr_equal(base, other);
	for (size_t i = 0; i < COUNT; i++) {
		bufs[i] = kr_buf_new(KR_BUF_POOLED_MIN + i);
		assert_true(kr_buf_is_registered(bufs[i]));
		assert_int_equal((uintptr_t)bufs[i]->data % 4096, 0);
		assert_in_range((uintptr_t)bufs[i]->data, (uintptr_t)base, (uintptr_t)base + length - KR_BLOCK_SIZE);
		memset(bufs[i]->data, (int)i, KR_BLOCK_SIZE);
	}
	for (size_t i = 0; i < COUNT; i++)
		assert_int_equal(bufs[i]->data[KR_BLOCK_SIZE - 1], i);
	assert_null(kr_buf_new_registered());
	heap = kr_buf_new(KR_BLOCK_SIZE);
	assert_false(kr_buf_is_registered(heap));
	assert_int_equal(kr_buf_bytes_in_use(), (COUNT + 1) * KR_BLOCK_SIZE);
	kr_buf_put(bufs[3]);
	again = kr_buf_new_registered();
	assert_ptr_equal(again, bufs[3]);
	assert_int_equal(again->length, 0);
	for (size_t i = 0; i < COUNT; i++)
		kr_buf_put(bufs[i]);
	kr_buf_put(heap);
	heap = kr_buf_new(KR_BUF_POOLED_MIN - 1);
	assert_false(kr_buf_is_registered(heap));
	kr_buf_put(heap);
	assert_int_equal(kr_buf_bytes_in_use(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_buffer_lives_until_its_last_reference),
		cmocka_unit_test(every_capacity_can_be_filled),
		cmocka_unit_test(more_blocks_than_the_pool_keeps_are_fine),
#ifdef __SANITIZE_ADDRESS__
		cmocka_unit_test(address_sanitizer_sees_a_use_of_a_free_block),
#endif
		cmocka_unit_test(an_impossible_size_is_enomem), cmocka_unit_test(threads_share_the_pool),
		cmocka_unit_test(the_checksum_is_xxh3),
		cmocka_unit_test(the_registered_pool_is_used_first_and_taken_back), /* it stays open */
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Wire cursors: bytes as specified, and failure that stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/rpc/wire.h"

static void integers_are_big_endian(void **state)
{
	static const uint8_t expected[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 'x', 'y'};
	struct kr_writer w;

	(void)state;
	kr_writer_init(&w);
	kr_put_u8(&w, 1);
	kr_put_u16(&w, 0x0203);
	kr_put_u32(&w, 0x04050607);
	kr_put_u64(&w, UINT64_C(0x08090a0b0c0d0e0f));
	kr_put_bytes(&w, "xy", 2);
	kr_put_bytes(&w, NULL, 0);
	assert_false(w.failed);
	assert_int_equal(w.length, sizeof(expected));
	assert_memory_equal(w.bytes, expected, sizeof(expected));
	kr_writer_fini(&w);
	assert_null(w.bytes);
}

static void what_is_put_is_taken(void **state)
{
	struct kr_writer w;
	struct kr_reader r;

	(void)state;
	kr_writer_init(&w);
	for (uint64_t i = 0; i < 1000; i++) {
		kr_put_u8(&w, (uint8_t)i);
		kr_put_u16(&w, (uint16_t)(i * 77));
		kr_put_u32(&w, (uint32_t)(i * 7777777));
		kr_put_u64(&w, i * UINT64_C(77777777777777));
	}
	kr_reader_init(&r, w.bytes, w.length);
	for (uint64_t i = 0; i < 1000; i++) {
		assert_int_equal(kr_take_u8(&r), (uint8_t)i);
		assert_int_equal(kr_take_u16(&r), (uint16_t)(i * 77));
		assert_int_equal(kr_take_u32(&r), (uint32_t)(i * 7777777));
		assert_true(kr_take_u64(&r) == i * UINT64_C(77777777777777));
	}
	assert_int_equal(kr_reader_left(&r), 0);
	assert_false(r.failed);
	kr_writer_fini(&w);
}

static void a_failed_reader_stays_failed_and_reads_zeros(void **state)
{
	static const uint8_t bytes[] = {1, 2, 3, 4, 5};
	struct kr_reader r;

	(void)state;
	kr_reader_init(&r, bytes, sizeof(bytes));
	assert_int_equal(kr_take_u16(&r), 0x0102);
	assert_int_equal(kr_reader_left(&r), 3);
	assert_int_equal(kr_take_u32(&r), 0);
	assert_true(r.failed);
	assert_int_equal(kr_take_u8(&r), 0);
	assert_null(kr_take_bytes(&r, 0));
	assert_int_equal(kr_reader_left(&r), 0);
}

static void lengths_near_the_end_of_memory_do_not_wrap(void **state)
{
	static const uint8_t bytes[4];
	struct kr_writer w;
	struct kr_reader r;

	(void)state;
	kr_reader_init(&r, bytes, sizeof(bytes));
	kr_take_u8(&r);
	assert_null(kr_take_bytes(&r, SIZE_MAX));
	assert_true(r.failed);
	kr_writer_init(&w);
	kr_put_u8(&w, 1);
	kr_put_bytes(&w, bytes, SIZE_MAX);
	assert_true(w.failed);
	kr_put_u8(&w, 1);
	assert_int_equal(w.length, 1);
	kr_writer_fini(&w);
}

static void nothing_can_be_taken_from_nothing(void **state)
{
	struct kr_reader r;

	(void)state;
	kr_reader_init(&r, NULL, 0);
	assert_non_null(kr_take_bytes(&r, 0));
	assert_false(r.failed);
	assert_int_equal(kr_take_u64(&r), 0);
	assert_true(r.failed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(integers_are_big_endian),
		cmocka_unit_test(what_is_put_is_taken),
		cmocka_unit_test(a_failed_reader_stays_failed_and_reads_zeros),
		cmocka_unit_test(lengths_near_the_end_of_memory_do_not_wrap),
		cmocka_unit_test(nothing_can_be_taken_from_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

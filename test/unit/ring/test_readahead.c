/* Read-ahead: sequential readers are followed, random ones are not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "common/base/util.h"
#include "ring/readahead.h"

#define MIB (UINT64_C(1) << 20)

static void the_second_read_in_sequence_starts_it(void **state)
{
	struct kr_readahead ra;
	uint64_t from, end;

	(void)state;
	kr_readahead_init(&ra, 1024 * MIB);
	assert_false(kr_readahead_read(&ra, 0, MIB, 1000 * MIB, &from, &end));
	assert_true(kr_readahead_read(&ra, MIB, MIB, 1000 * MIB, &from, &end));
	assert_int_equal(from, 2 * MIB);
	assert_int_equal(end, 2 * MIB + KR_READAHEAD_MIN);
}

static void a_file_read_from_its_start_is_staged_to_its_end_without_gaps(void **state)
{
	struct kr_readahead ra;
	uint64_t size = 5000 * MIB + 17, reached = 0, from, end;

	(void)state;
	kr_readahead_init(&ra, 512 * MIB);
	for (uint64_t offset = 0; offset < size; offset += MIB) {
		if (kr_readahead_read(&ra, offset, MIB, size, &from, &end)) {
			assert_true(from <= KR_MAX(reached, offset + MIB));
			assert_true(end > from && end <= size);
			assert_true(end - offset <= 512 * MIB + MIB);
			reached = end;
		}
		assert_true(offset < 2 * MIB || reached >= KR_MIN(size, offset + KR_READAHEAD_MIN / 2));
	}
	assert_int_equal(reached, size);
}

static void random_reads_of_a_large_file_stage_nothing(void **state)
{
	struct kr_readahead ra;
	unsigned random = 3;
	uint64_t from, end;
	int asked = 0;

	(void)state;
	kr_readahead_init(&ra, 1024 * MIB);
	for (int i = 0; i < 1000; i++)
		asked += kr_readahead_read(&ra, (uint64_t)rand_r(&random) * 4096, 4096, UINT64_C(1) << 43, &from, &end);
	assert_true(asked < 5);
}

static void several_sequential_readers_are_told_apart(void **state)
{
	struct kr_readahead ra;
	uint64_t from, end;
	int asked = 0;

	(void)state;
	kr_readahead_init(&ra, 1024 * MIB);
	for (uint64_t step = 0; step < 3; step++) {
		for (uint64_t reader = 0; reader < KR_READAHEAD_STREAMS; reader++)
			asked += kr_readahead_read(
				&ra, reader * 10000 * MIB + step * MIB, MIB, 100000 * MIB, &from, &end);
	}
	assert_int_equal(asked, KR_READAHEAD_STREAMS);
}

static void reads_at_the_end_and_beyond_are_harmless(void **state)
{
	struct kr_readahead ra;
	uint64_t from, end;

	(void)state;
	kr_readahead_init(&ra, 0);
	assert_false(kr_readahead_read(&ra, 10, 10, 10, &from, &end));
	assert_false(kr_readahead_read(&ra, 0, 0, 10, &from, &end));
	assert_false(kr_readahead_read(&ra, 0, UINT64_MAX, 10, &from, &end));
	assert_false(kr_readahead_read(&ra, UINT64_MAX, 10, UINT64_MAX, &from, &end));
	assert_false(kr_readahead_read(&ra, UINT64_MAX - 1, UINT64_MAX, UINT64_MAX, &from, &end));
}

static void a_read_that_is_tried_again_is_no_second_one(void **state)
{
	struct kr_readahead ra;
	uint64_t from, end;

	(void)state;
	kr_readahead_init(&ra, 1024 * MIB);
	for (int i = 0; i < 5; i++)
		assert_false(kr_readahead_read(&ra, 0, MIB, 10 * MIB, &from, &end));
	assert_true(kr_readahead_read(&ra, MIB, MIB, 10 * MIB, &from, &end));
	assert_int_equal(end, 10 * MIB);
}

/* A program that reads a header, and the kernel, which reads a little ahead for it. */
static void who_looks_at_the_header_gets_no_more(void **state)
{
	struct kr_readahead ra;
	uint64_t from, end;

	(void)state;
	kr_readahead_init(&ra, 1024 * MIB);
	assert_false(kr_readahead_read(&ra, 0, 16384, 2 * MIB, &from, &end));
	assert_false(kr_readahead_read(&ra, 16384, 32768, 2 * MIB, &from, &end));
	assert_false(kr_readahead_read(&ra, 49152, 65536, 2 * MIB, &from, &end));
	assert_true(kr_readahead_read(&ra, 114688, 131072, 2 * MIB, &from, &end)); /* it goes on */
	assert_int_equal(from, 245760);
	assert_int_equal(end, 2 * MIB);
}

static void a_small_file_comes_whole_at_once(void **state)
{
	struct kr_readahead ra;
	uint64_t from, end;

	(void)state;
	kr_readahead_init(&ra, 1024 * MIB);
	assert_true(kr_readahead_read(&ra, 0, 4096, KR_READAHEAD_SMALL, &from, &end));
	assert_int_equal(from, 4096);
	assert_int_equal(end, KR_READAHEAD_SMALL);
	assert_false(kr_readahead_read(&ra, 4096, 4096, KR_READAHEAD_SMALL, &from, &end));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_second_read_in_sequence_starts_it),
		cmocka_unit_test(a_file_read_from_its_start_is_staged_to_its_end_without_gaps),
		cmocka_unit_test(a_read_that_is_tried_again_is_no_second_one),
		cmocka_unit_test(who_looks_at_the_header_gets_no_more),
		cmocka_unit_test(a_small_file_comes_whole_at_once),
		cmocka_unit_test(random_reads_of_a_large_file_stage_nothing),
		cmocka_unit_test(several_sequential_readers_are_told_apart),
		cmocka_unit_test(reads_at_the_end_and_beyond_are_harmless),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

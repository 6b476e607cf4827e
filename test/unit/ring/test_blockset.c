/* Block sets against an array of flags, and far apart numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "ring/blockset.h"

enum { BLOCKS = 100000 };

static uint64_t naive_next(const bool *flags, uint64_t from, uint64_t end)
{
	while (from < end && flags[from])
		from++;
	return from;
}

static void agrees_with_an_array_of_flags(void **state)
{
	static bool flags[BLOCKS];
	struct kr_blockset set;
	unsigned random = 7;
	uint64_t count = 0;

	(void)state;
	kr_blockset_init(&set);
	for (int step = 0; step < 20000; step++) {
		uint64_t base = (uint64_t)rand_r(&random) % (BLOCKS - 200);

		for (uint64_t block = base; block < base + (uint64_t)rand_r(&random) % 200; block++) {
			bool add = rand_r(&random) % 16 != 0 || step < 10000;

			if (add)
				assert_int_equal(kr_blockset_add(&set, block), !flags[block]);
			else
				assert_int_equal(kr_blockset_remove(&set, block), flags[block]);
			count = count + (add && !flags[block]) - (!add && flags[block]);
			flags[block] = add;
		}
		assert_int_equal(set.count, count);
		if (step % 10 == 0) {
			uint64_t end = base + (uint64_t)rand_r(&random) % (BLOCKS - base);

			assert_int_equal(kr_blockset_has(&set, base), flags[base]);
			assert_int_equal(kr_blockset_next_absent(&set, base, end), naive_next(flags, base, end));
		}
	}
	kr_blockset_fini(&set);
}

static void blocks_far_apart_cost_little(void **state)
{
	struct kr_blockset set;
	uint64_t far = UINT64_C(1) << 46;

	(void)state;
	kr_blockset_init(&set);
	assert_int_equal(kr_blockset_next_absent(&set, 3, 3), 3);
	assert_int_equal(kr_blockset_add(&set, 0), 1);
	assert_int_equal(kr_blockset_add(&set, far), 1);
	assert_int_equal(set.pages.count, 2);
	assert_int_equal(kr_blockset_next_absent(&set, far, far + 10), far + 1);
	assert_true(kr_blockset_has(&set, far));
	kr_blockset_clear(&set);
	assert_int_equal(set.count, 0);
	assert_false(kr_blockset_has(&set, far));
	kr_blockset_fini(&set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(agrees_with_an_array_of_flags),
		cmocka_unit_test(blocks_far_apart_cost_little),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

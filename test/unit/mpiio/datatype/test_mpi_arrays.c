/* Subarrays and distributed arrays: who has which elements. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>

#include "mpiio/datatype/cursor.h"
#include "test/unit/mpiio/datatype/mpi_random_map.h"

/* LENGTH bytes, of which one begins each EXTENT. */
static struct kr_typemap *bytes(uint64_t length, uint64_t extent)
{
	struct kr_typemap *map, *made;
	assert_int_equal(kr_typemap_bytes(length, &map), 0);
	assert_int_equal(kr_typemap_resized(map, 0, (int64_t)extent, &made), 0);
	kr_typemap_put(map);
	return made;
}

static uint64_t owner(const struct kr_darray_dim *dim, uint64_t index)
{
	uint64_t block = dim->block;
	if (dim->distribution == KR_DISTRIBUTE_NONE)
		return 0;
	if (block == 0)
		block = dim->distribution == KR_DISTRIBUTE_CYCLIC ? 1 :
								    (dim->size + dim->processes - 1) / dim->processes;
	return index / block % dim->processes;
}

static void check_darray(unsigned dims, const struct kr_darray_dim *dim, enum kr_array_order order, uint64_t *state)
{
	uint64_t elements = 1, processes = 1, seen = 0;
	uint64_t size = 1 + random_below(state, 4);
	struct kr_typemap *element = bytes(size, size + random_below(state, 2)), *map;
	for (unsigned d = 0; d < dims; d++) {
		elements *= dim[d].size;
		processes *= dim[d].processes;
	}
	for (uint64_t rank = 0; rank < processes; rank++) {
		struct kr_cursor cursor;
		struct kr_run run = {0};
		uint64_t used = 0;
		assert_int_equal(kr_typemap_darray(rank, dims, dim, order, element, &map), 0);
		assert_int_equal(map->extent, (int64_t)elements * element->extent);
		assert_int_equal(kr_cursor_init(&cursor, map, 0, 0, kr_typemap_size(map)), 0);
		for (uint64_t e = 0; e < elements; e++) {
			uint64_t rest = e, wanted = 0, scale = 1, index[4];
			for (unsigned i = 0; i < dims; i++) {
				unsigned d = order == KR_ARRAY_C ? dims - 1 - i : i;
				index[d] = rest % dim[d].size;
				rest /= dim[d].size;
			}
			for (unsigned d = dims; d-- > 0; scale *= dim[d].processes)
				wanted += scale * owner(&dim[d], index[d]);
			if (wanted != rank)
				continue;
			for (uint64_t i = 0; i < size; i++, used++) {
				if (used == run.length) {
					assert_true(kr_cursor_take(&cursor, UINT64_MAX, &run));
					used = 0;
				}
				assert_int_equal(run.offset + (int64_t)used, (int64_t)e * element->extent + (int64_t)i);
			}
			seen++;
		}
		assert_int_equal(cursor.position, cursor.end);
		assert_int_equal(used, run.length);
		kr_typemap_put(map);
	}
	assert_int_equal(seen, elements);
	assert_int_equal(kr_typemap_darray(processes, dims, dim, order, element, &map), -EINVAL);
	kr_typemap_put(element);
}

static void darrays_deal_out_each_element_once(void **unused)
{
	(void)unused;
	for (unsigned seed = 0; seed < 1500; seed++) {
		uint64_t state = random_seed(seed + 3000000);
		struct kr_darray_dim dim[4];
		unsigned dims = 1 + (unsigned)random_below(&state, 4);
		for (unsigned d = 0; d < dims; d++) {
			dim[d] = (struct kr_darray_dim){1 + random_below(&state, dims > 2 ? 6 : 20),
				(enum kr_distribution)random_below(&state, 3), random_below(&state, 5),
				1 + random_below(&state, 4)};
			if (dim[d].distribution == KR_DISTRIBUTE_NONE)
				dim[d].processes = 1;
			if (dim[d].distribution == KR_DISTRIBUTE_BLOCK && dim[d].block * dim[d].processes < dim[d].size)
				dim[d].block = 0;
		}
		check_darray(dims, dim, random_below(&state, 2) ? KR_ARRAY_C : KR_ARRAY_FORTRAN, &state);
	}
}

static void arrays_that_the_standard_forbids_are_refused(void **unused)
{
	struct kr_typemap *element = bytes(4, 4), *map;
	uint64_t sizes[2] = {10, 10}, part[2] = {5, 6}, starts[2] = {5, 5};
	struct kr_darray_dim block = {10, KR_DISTRIBUTE_BLOCK, 2, 4}, none = {10, KR_DISTRIBUTE_NONE, 0, 2},
			     empty = {0, KR_DISTRIBUTE_CYCLIC, 0, 2};
	(void)unused;
	assert_int_equal(kr_typemap_subarray(2, sizes, part, starts, KR_ARRAY_C, element, &map), -EINVAL);
	assert_int_equal(kr_typemap_subarray(0, sizes, part, starts, KR_ARRAY_C, element, &map), -EINVAL);
	assert_int_equal(kr_typemap_darray(0, 1, &block, KR_ARRAY_C, element, &map), -EINVAL);
	assert_int_equal(kr_typemap_darray(0, 1, &none, KR_ARRAY_C, element, &map), -EINVAL);
	assert_int_equal(kr_typemap_darray(0, 1, &empty, KR_ARRAY_C, element, &map), -EINVAL);
	part[1] = 5;
	assert_int_equal(kr_typemap_subarray(2, sizes, part, starts, KR_ARRAY_FORTRAN, element, &map), 0);
	assert_int_equal(kr_typemap_true_lb(map), 4 * 55);
	assert_int_equal(kr_typemap_size(map), 100);
	kr_typemap_put(map);
	kr_typemap_put(element);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(darrays_deal_out_each_element_once),
		cmocka_unit_test(arrays_that_the_standard_forbids_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Subarrays and distributed arrays as typemaps (MPI-3.1, 4.1.3 and 4.1.4): dimension by dimension from the fastest,
 * each a repeat of the result so far. */
#include <errno.h>

#include "mpiio/datatype/typemap_priv.h"

/* The layout after the dimensions so far. */
struct array {
	struct kr_typenode *layout; /* owned */
	int64_t displacement;
	int64_t extent; /* of the whole array in these dimensions */
};

/* COUNT elements of the dimension from START, as the array's layout so far; owned node. */
static int take_range(const struct array *array, uint64_t start, uint64_t count, struct kr_placed *ret_placed)
{
	if (!kr_typemap_mul(start, array->extent, &ret_placed->displacement))
		return -EOVERFLOW;
	return kr_typenode_repeat(count, array->extent, array->layout, &ret_placed->node);
}

/* Takes the reference to NODE. */
static int replace(struct array *array, uint64_t size, int64_t displacement, struct kr_typenode *node)
{
	kr_typenode_put(array->layout);
	array->layout = node;
	return kr_typemap_add(array->displacement, displacement, &array->displacement) &&
			kr_typemap_mul(size, array->extent, &array->extent) ?
		0 :
		-EOVERFLOW;
}

/* Element I, from the fastest, as the index of a dimension. */
static unsigned dimension(unsigned i, unsigned dims, enum kr_array_order order)
{
	return order == KR_ARRAY_C ? dims - 1 - i : i;
}

static int finish(struct array *array, int error, const struct kr_typemap *map, struct kr_typemap **ret_map)
{
	if (error < 0) {
		kr_typenode_put(array->layout);
		return error;
	}
	return kr_typemap_make(array->displacement, map->lb, array->extent, array->layout, ret_map);
}

int kr_typemap_subarray(unsigned dims, const uint64_t *sizes, const uint64_t *subsizes, const uint64_t *starts,
	enum kr_array_order order, struct kr_typemap *map, struct kr_typemap **ret_map)
{
	struct array array = {kr_typenode_get(map->layout), map->displacement, map->extent};
	int error = dims >= 1 && dims <= KR_TYPEMAP_DIMS ? 0 : -EINVAL;
	for (unsigned i = 0; i < dims && error == 0; i++) {
		unsigned d = dimension(i, dims, order);
		struct kr_placed block;
		if (sizes[d] == 0 || subsizes[d] > sizes[d] || starts[d] > sizes[d] - subsizes[d])
			error = -EINVAL;
		else
			error = take_range(&array, starts[d], subsizes[d], &block);
		if (error == 0)
			error = replace(&array, sizes[d], block.displacement, block.node);
	}
	return finish(&array, error, map, ret_map);
}

/* Appends the blocks of BLOCK elements that process COORDINATE of dimension DIM has, distributed in turn: whole blocks
 * as a repeat, then the rest of the last. */
static int deal(struct array *array, const struct kr_darray_dim *dim, uint64_t block, uint64_t coordinate)
{
	struct kr_placed parts[2] = {{0}}, one = {0};
	struct kr_typenode *node = NULL;
	uint64_t turn, first, whole = 0, rest = 0;
	int64_t stride = 0, displacement;
	int error;
	if (__builtin_mul_overflow(block, dim->processes, &turn))
		turn = UINT64_MAX; /* more than the array: one turn */
	if (__builtin_mul_overflow(block, coordinate, &first) || first >= dim->size)
		first = dim->size;
	whole = (dim->size - first) / turn;
	rest = (dim->size - first) % turn;
	if (rest >= block) {
		whole++;
		rest = 0;
	}
	if (whole > 1 && !kr_typemap_mul(turn, array->extent, &stride))
		return -EOVERFLOW;
	error = take_range(array, first, whole > 0 ? block : 0, &one);
	if (error == 0)
		error = kr_typenode_repeat(whole, stride, one.node, &parts[0].node);
	parts[0].displacement = one.displacement;
	if (error == 0)
		error = take_range(array, rest > 0 ? first + whole * turn : 0, rest, &parts[1]);
	if (error == 0)
		error = kr_typenode_list(parts, 2, &displacement, &node);
	kr_typenode_put(one.node);
	kr_typenode_put(parts[0].node);
	kr_typenode_put(parts[1].node);
	return error < 0 ? error : replace(array, dim->size, displacement, node);
}

/* The elements per block of DIM; 0: the standard forbids it. */
static uint64_t block_of(const struct kr_darray_dim *dim)
{
	uint64_t block, all;
	if (dim->size == 0 || dim->processes == 0)
		return 0;
	switch (dim->distribution) {
	case KR_DISTRIBUTE_NONE:
		return dim->processes == 1 ? dim->size : 0;
	case KR_DISTRIBUTE_BLOCK:
		block = dim->block ? dim->block : (dim->size - 1) / dim->processes + 1;
		return __builtin_mul_overflow(block, dim->processes, &all) || all >= dim->size ? block : 0;
	case KR_DISTRIBUTE_CYCLIC:
		return dim->block ? dim->block : 1;
	}
	return 0;
}

int kr_typemap_darray(uint64_t rank, unsigned dims, const struct kr_darray_dim *dim, enum kr_array_order order,
	struct kr_typemap *map, struct kr_typemap **ret_map)
{
	struct array array = {kr_typenode_get(map->layout), map->displacement, map->extent};
	uint64_t coordinates[KR_TYPEMAP_DIMS];
	int error = dims >= 1 && dims <= KR_TYPEMAP_DIMS ? 0 : -EINVAL;
	for (unsigned d = dims; d-- > 0 && error == 0;) {
		if (block_of(&dim[d]) == 0) {
			error = -EINVAL;
			break;
		}
		coordinates[d] = rank % dim[d].processes;
		rank /= dim[d].processes;
	}
	if (error == 0 && rank > 0)
		error = -EINVAL;
	for (unsigned i = 0; i < dims && error == 0; i++) {
		unsigned d = dimension(i, dims, order);
		error = deal(&array, &dim[d], block_of(&dim[d]), coordinates[d]);
	}
	return finish(&array, error, map, ret_map);
}

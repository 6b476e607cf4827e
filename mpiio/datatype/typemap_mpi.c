/* MPI datatypes as typemaps, by envelope and contents (MPI-3.1, 4.1.13; MPI-4.0, 5.1.13 for large counts); see
 * typemap_mpi.h.  Calls PMPI_, so that tools do not see these calls. */
#include "mpiio/datatype/typemap_mpi.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

/* Types may be nested this deep (dup of dup...), whatever the depth of the layout. */
enum { NESTING_MAX = 1000 };

static int from_type(MPI_Datatype type, unsigned nesting, struct kr_typemap **ret_map);

/* A type's envelope and contents, with the arguments in the order and the places of types made with int counts: NUMBERS
 * are their "integers", ADDRESSES their "addresses". */
struct contents {
	int combiner;
	MPI_Count integer_count, address_count, large_count, type_count; /* as the library counts them */
	int64_t *numbers, *addresses;
	MPI_Datatype *types;
};

static int read_envelope(MPI_Datatype type, struct contents *c)
{
#if MPI_VERSION >= 4
	return PMPI_Type_get_envelope_c(type, &c->integer_count, &c->address_count, &c->large_count, &c->type_count,
		       &c->combiner) == MPI_SUCCESS ?
		0 :
		-EIO;
#else
	int integers, addresses, types;
	if (PMPI_Type_get_envelope(type, &integers, &addresses, &types, &c->combiner) != MPI_SUCCESS)
		return -EIO;
	c->integer_count = integers;
	c->address_count = addresses;
	c->large_count = 0;
	c->type_count = types;
	return 0;
#endif
}

/* Types that have no contents and must not be freed. */
static bool is_leaf(int combiner)
{
	return combiner == MPI_COMBINER_NAMED || combiner == MPI_COMBINER_F90_REAL ||
		combiner == MPI_COMBINER_F90_COMPLEX || combiner == MPI_COMBINER_F90_INTEGER;
}

static void free_contents(struct contents *c)
{
	for (MPI_Count i = 0; c->types && i < c->type_count; i++) {
		struct contents inner;
		if (c->types[i] != MPI_DATATYPE_NULL && read_envelope(c->types[i], &inner) == 0 &&
			!is_leaf(inner.combiner))
			PMPI_Type_free(&c->types[i]);
	}
	free(c->types);
	free(c->numbers);
	free(c->addresses);
}

static int get_contents(
	MPI_Datatype type, const struct contents *c, int *integers, MPI_Aint *addresses, MPI_Count *large)
{
#if MPI_VERSION >= 4
	return PMPI_Type_get_contents_c(type, c->integer_count, c->address_count, c->large_count, c->type_count,
		       integers, addresses, large, c->types) == MPI_SUCCESS ?
		0 :
		-EIO;
#else
	(void)large;
	return PMPI_Type_get_contents(type, (int)c->integer_count, (int)c->address_count, (int)c->type_count, integers,
		       addresses, c->types) == MPI_SUCCESS ?
		0 :
		-EIO;
#endif
}

/* How many of the large counts come before the addresses: all, for types that have no addresses. */
static MPI_Count large_numbers(const struct contents *c, const MPI_Count *large)
{
	switch (c->combiner) {
	case MPI_COMBINER_HVECTOR:
	case MPI_COMBINER_HINDEXED_BLOCK:
		return 2;
	case MPI_COMBINER_HINDEXED:
	case MPI_COMBINER_STRUCT:
		return 1 + large[0];
	case MPI_COMBINER_RESIZED:
		return 0;
	default:
		return c->large_count;
	}
}

/* Puts the arguments into the places of int counts.  Large counts are the sizes of a subarray or darray, which stand
 * between the integers, or all numbers, or all numbers and addresses. */
static void arrange(struct contents *c, const int *integers, const MPI_Aint *addresses, const MPI_Count *large)
{
	MPI_Count before = c->combiner == MPI_COMBINER_SUBARRAY ? 1 : c->combiner == MPI_COMBINER_DARRAY ? 3 : 0;
	MPI_Count numbers = c->large_count ? large_numbers(c, large) : 0, at = 0;
	for (MPI_Count i = 0; i < c->integer_count; i++) {
		if (i == before)
			for (MPI_Count k = 0; k < numbers; k++)
				c->numbers[at++] = large[k];
		c->numbers[at++] = integers[i];
	}
	for (MPI_Count k = 0; c->integer_count == 0 && k < numbers; k++)
		c->numbers[at++] = large[k];
	for (MPI_Count i = 0; i < c->address_count; i++)
		c->addresses[i] = addresses[i];
	for (MPI_Count k = numbers; k < c->large_count; k++)
		c->addresses[k - numbers] = large[k];
}

/* After read_envelope; free_contents in any case. */
static int read_contents(MPI_Datatype type, struct contents *c)
{
	size_t most = (size_t)(c->integer_count + c->address_count + c->large_count) + 1;
	int *integers = calloc((size_t)c->integer_count + 1, sizeof(*integers));
	MPI_Aint *addresses = calloc((size_t)c->address_count + 1, sizeof(*addresses));
	MPI_Count *large = calloc((size_t)c->large_count + 1, sizeof(*large));
	int error = -ENOMEM;
	c->numbers = calloc(most, sizeof(*c->numbers));
	c->addresses = calloc(most, sizeof(*c->addresses));
	c->types = calloc((size_t)c->type_count + 1, sizeof(*c->types));
	if (integers && addresses && large && c->numbers && c->addresses && c->types) {
		for (MPI_Count i = 0; i < c->type_count; i++)
			c->types[i] = MPI_DATATYPE_NULL;
		error = get_contents(type, c, integers, addresses, large);
		if (error == 0)
			arrange(c, integers, addresses, large);
	}
	free(integers);
	free(addresses);
	free(large);
	return error;
}

/* ---- leaves ---- */

/* The pair types of MINLOC and MAXLOC may have a gap within. */
static bool is_pair(MPI_Datatype type, uint64_t *ret_first, int64_t *ret_second)
{
	struct {
		float a;
		int b;
	} float_int;
	struct {
		double a;
		int b;
	} double_int;
	struct {
		long a;
		int b;
	} long_int;
	struct {
		short a;
		int b;
	} short_int;
	struct {
		long double a;
		int b;
	} long_double_int;
	const struct {
		MPI_Datatype type;
		size_t first, second;
	} pairs[] = {
		{MPI_FLOAT_INT, sizeof float_int.a, offsetof(__typeof__(float_int), b)},
		{MPI_DOUBLE_INT, sizeof double_int.a, offsetof(__typeof__(double_int), b)},
		{MPI_LONG_INT, sizeof long_int.a, offsetof(__typeof__(long_int), b)},
		{MPI_SHORT_INT, sizeof short_int.a, offsetof(__typeof__(short_int), b)},
		{MPI_LONG_DOUBLE_INT, sizeof long_double_int.a, offsetof(__typeof__(long_double_int), b)},
	};
	for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
		if (pairs[i].type != MPI_DATATYPE_NULL && pairs[i].type == type) {
			*ret_first = pairs[i].first;
			*ret_second = (int64_t)pairs[i].second;
			return true;
		}
	return false;
}

static int from_leaf(MPI_Datatype type, struct kr_typemap **ret_map)
{
	struct kr_part parts[2] = {{.count = 1}, {.count = 1}};
	struct kr_typemap *first = NULL, *second = NULL;
	MPI_Count size;
	uint64_t length;
	if (!is_pair(type, &length, &parts[1].displacement))
		return PMPI_Type_size_x(type, &size) == MPI_SUCCESS && size >= 0 ?
			kr_typemap_bytes((uint64_t)size, ret_map) :
			-EIO;
	int error = kr_typemap_bytes(length, &first);
	if (error == 0)
		error = kr_typemap_bytes(sizeof(int), &second);
	parts[0].map = first;
	parts[1].map = second;
	if (error == 0)
		error = kr_typemap_struct(2, parts, ret_map);
	kr_typemap_put(first);
	kr_typemap_put(second);
	return error;
}

/* ---- derived types of one old type ---- */

/* COUNT blocks; block i has lengths[i] (or, without lengths, LENGTH) copies of MAP at displacements[i] * UNIT. */
static int from_blocks(int64_t count, const int64_t *lengths, int64_t length, const int64_t *displacements,
	int64_t unit, struct kr_typemap *map, struct kr_typemap **ret_map)
{
	struct kr_part *parts = count >= 0 ? calloc((size_t)count + 1, sizeof(*parts)) : NULL;
	int error = parts ? 0 : -ENOMEM;
	for (int64_t i = 0; i < count && error == 0; i++) {
		parts[i].map = map;
		parts[i].count = (uint64_t)(lengths ? lengths[i] : length);
		if (__builtin_mul_overflow(displacements[i], unit, &parts[i].displacement))
			error = -EOVERFLOW;
	}
	if (error == 0)
		error = kr_typemap_struct((size_t)count, parts, ret_map);
	free(parts);
	return error;
}

static int from_vector(
	const struct contents *c, int64_t unit, int64_t stride, struct kr_typemap *map, struct kr_typemap **ret_map)
{
	int64_t bytes;
	if (__builtin_mul_overflow(stride, unit, &bytes))
		return -EOVERFLOW;
	return kr_typemap_vector((uint64_t)c->numbers[0], (uint64_t)c->numbers[1], bytes, map, ret_map);
}

static int from_subarray(const struct contents *c, struct kr_typemap *map, struct kr_typemap **ret_map)
{
	uint64_t sizes[KR_TYPEMAP_DIMS], subsizes[KR_TYPEMAP_DIMS], starts[KR_TYPEMAP_DIMS];
	const int64_t *numbers = c->numbers + 1;
	int64_t dims = c->numbers[0];
	if (dims < 1 || dims > KR_TYPEMAP_DIMS)
		return -E2BIG;
	for (int64_t d = 0; d < dims; d++) {
		sizes[d] = (uint64_t)numbers[d];
		subsizes[d] = (uint64_t)numbers[dims + d];
		starts[d] = (uint64_t)numbers[2 * dims + d];
	}
	enum kr_array_order order = numbers[3 * dims] == MPI_ORDER_C ? KR_ARRAY_C : KR_ARRAY_FORTRAN;
	return kr_typemap_subarray((unsigned)dims, sizes, subsizes, starts, order, map, ret_map);
}

static int from_darray(const struct contents *c, struct kr_typemap *map, struct kr_typemap **ret_map)
{
	struct kr_darray_dim dim[KR_TYPEMAP_DIMS];
	const int64_t *numbers = c->numbers + 3;
	int64_t dims = c->numbers[2];
	if (dims < 1 || dims > KR_TYPEMAP_DIMS)
		return -E2BIG;
	for (int64_t d = 0; d < dims; d++) {
		int64_t distribution = numbers[dims + d], block = numbers[2 * dims + d];
		dim[d] = (struct kr_darray_dim){
			.size = (uint64_t)numbers[d],
			.distribution = distribution == MPI_DISTRIBUTE_BLOCK ? KR_DISTRIBUTE_BLOCK :
				distribution == MPI_DISTRIBUTE_CYCLIC        ? KR_DISTRIBUTE_CYCLIC :
									       KR_DISTRIBUTE_NONE,
			.block = block == MPI_DISTRIBUTE_DFLT_DARG ? 0 : (uint64_t)block,
			.processes = (uint64_t)numbers[3 * dims + d],
		};
	}
	enum kr_array_order order = numbers[4 * dims] == MPI_ORDER_C ? KR_ARRAY_C : KR_ARRAY_FORTRAN;
	return kr_typemap_darray((uint64_t)c->numbers[1], (unsigned)dims, dim, order, map, ret_map);
}

/* MAP is that of the old type. */
static int from_one(const struct contents *c, struct kr_typemap *map, struct kr_typemap **ret_map)
{
	const int64_t *n = c->numbers;
	switch (c->combiner) {
	case MPI_COMBINER_DUP:
	case MPI_COMBINER_RESIZED: /* lb and extent come from the library */
		*ret_map = kr_typemap_get(map);
		return 0;
	case MPI_COMBINER_CONTIGUOUS:
		return kr_typemap_contiguous((uint64_t)n[0], map, ret_map);
	case MPI_COMBINER_VECTOR:
		return from_vector(c, map->extent, n[2], map, ret_map);
	case MPI_COMBINER_HVECTOR:
		return from_vector(c, 1, c->addresses[0], map, ret_map);
	case MPI_COMBINER_INDEXED:
		return from_blocks(n[0], n + 1, 0, n + 1 + n[0], map->extent, map, ret_map);
	case MPI_COMBINER_HINDEXED:
		return from_blocks(n[0], n + 1, 0, c->addresses, 1, map, ret_map);
	case MPI_COMBINER_INDEXED_BLOCK:
		return from_blocks(n[0], NULL, n[1], n + 2, map->extent, map, ret_map);
	case MPI_COMBINER_HINDEXED_BLOCK:
		return from_blocks(n[0], NULL, n[1], c->addresses, 1, map, ret_map);
	case MPI_COMBINER_SUBARRAY:
		return from_subarray(c, map, ret_map);
	case MPI_COMBINER_DARRAY:
		return from_darray(c, map, ret_map);
	default:
		return -EOPNOTSUPP;
	}
}

/* ---- all derived types ---- */

static int from_struct(const struct contents *c, unsigned nesting, struct kr_typemap **ret_map)
{
	size_t count = (size_t)c->type_count;
	struct kr_part *parts = calloc(count + 1, sizeof(*parts));
	int error = parts ? 0 : -ENOMEM;
	for (size_t i = 0; i < count && error == 0; i++) {
		parts[i].displacement = c->addresses[i];
		parts[i].count = (uint64_t)c->numbers[1 + i];
		if (i > 0 && c->types[i] == c->types[i - 1])
			parts[i].map = kr_typemap_get(parts[i - 1].map);
		else
			error = from_type(c->types[i], nesting + 1, &parts[i].map);
	}
	if (error == 0)
		error = kr_typemap_struct(count, parts, ret_map);
	for (size_t i = 0; parts && i < count; i++)
		kr_typemap_put(parts[i].map);
	free(parts);
	return error;
}

static int from_derived(MPI_Datatype type, struct contents *c, unsigned nesting, struct kr_typemap **ret_map)
{
	struct kr_typemap *old;
	int error = nesting < NESTING_MAX ? read_contents(type, c) : -E2BIG;
	if (error == 0 && c->combiner == MPI_COMBINER_STRUCT) {
		error = from_struct(c, nesting, ret_map);
	} else if (error == 0 && c->type_count != 1) {
		error = -EOPNOTSUPP;
	} else if (error == 0) {
		error = from_type(c->types[0], nesting + 1, &old);
		if (error == 0) {
			error = from_one(c, old, ret_map);
			kr_typemap_put(old);
		}
	}
	free_contents(c);
	return error;
}

/* Gives *MAP the library's bounds and compares the sizes. */
static int agree(MPI_Datatype type, struct kr_typemap **map)
{
	MPI_Count size, lb, extent;
	struct kr_typemap *bounded;
	if (PMPI_Type_size_x(type, &size) != MPI_SUCCESS || PMPI_Type_get_extent_x(type, &lb, &extent) != MPI_SUCCESS)
		return -EIO;
	if (size < 0 || (uint64_t)size != kr_typemap_size(*map))
		return -EPROTO;
	if (lb == (*map)->lb && extent == (*map)->extent)
		return 0;
	int error = kr_typemap_resized(*map, lb, extent, &bounded);
	if (error == 0) {
		kr_typemap_put(*map);
		*map = bounded;
	}
	return error;
}

static int from_type(MPI_Datatype type, unsigned nesting, struct kr_typemap **ret_map)
{
	struct contents c = {0};
	struct kr_typemap *map;
	int error = read_envelope(type, &c);
	if (error < 0)
		return error;
	error = is_leaf(c.combiner) ? from_leaf(type, &map) : from_derived(type, &c, nesting, &map);
	if (error < 0)
		return error;
	error = agree(type, &map);
	if (error < 0)
		kr_typemap_put(map);
	else
		*ret_map = map;
	return error;
}

/* ---- kept as an attribute ---- */

static pthread_mutex_t keyval_lock = PTHREAD_MUTEX_INITIALIZER;
static int keyval = MPI_KEYVAL_INVALID; /* under the lock */

static int copy_attribute(MPI_Datatype type, int key, void *extra, void *value, void *ret_value, int *ret_flag)
{
	(void)type, (void)key, (void)extra;
	*(void **)ret_value = kr_typemap_get(value);
	*ret_flag = 1;
	return MPI_SUCCESS;
}

static int delete_attribute(MPI_Datatype type, int key, void *value, void *extra)
{
	(void)type, (void)key, (void)extra;
	kr_typemap_put(value);
	return MPI_SUCCESS;
}

static int get_keyval(int *ret_keyval)
{
	int error = 0;
	pthread_mutex_lock(&keyval_lock);
	if (keyval == MPI_KEYVAL_INVALID &&
		PMPI_Type_create_keyval(copy_attribute, delete_attribute, &keyval, NULL) != MPI_SUCCESS)
		error = -EIO;
	*ret_keyval = keyval;
	pthread_mutex_unlock(&keyval_lock);
	return error;
}

int kr_typemap_of_mpi(MPI_Datatype type, struct kr_typemap **ret_map)
{
	struct contents c;
	struct kr_typemap *map;
	void *value;
	int key, found, error = read_envelope(type, &c);
	if (error == 0 && is_leaf(c.combiner))
		return from_type(type, 0, ret_map);
	if (error == 0)
		error = get_keyval(&key);
	if (error == 0 && PMPI_Type_get_attr(type, key, &value, &found) != MPI_SUCCESS)
		error = -EIO;
	if (error < 0)
		return error;
	if (found) {
		*ret_map = kr_typemap_get(value);
		return 0;
	}
	error = from_type(type, 0, &map);
	if (error < 0)
		return error;
	if (PMPI_Type_set_attr(type, key, kr_typemap_get(map)) != MPI_SUCCESS)
		kr_typemap_put(map);
	*ret_map = map;
	return 0;
}

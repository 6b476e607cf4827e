// See random_type.h.
#include "random_type.h"

#include "kt.h"

enum { MOST = 12 };

static int64_t extent_of(MPI_Datatype type)
{
	MPI_Aint lb, extent;
	MPI_Type_get_extent(type, &lb, &extent);
	return extent;
}

static int between(uint64_t *state, int64_t low, int64_t high)
{
	return (int)(high <= low ? low : low + (int64_t)kt_below(state, (uint64_t)(high - low + 1)));
}

// Lower bound 0 and the upper bound that the type has, but not before its last byte: in a struct that has resized
// members, only theirs count (Open MPI; not MPICH 4), and copies would overlap.
static MPI_Datatype with_bounds(MPI_Datatype type)
{
	MPI_Aint lb, extent, true_lb, true_extent;
	MPI_Datatype ret;
	MPI_Type_get_extent(type, &lb, &extent);
	MPI_Type_get_true_extent(type, &true_lb, &true_extent);
	MPI_Aint end = lb + extent > true_lb + true_extent ? lb + extent : true_lb + true_extent;
	if (!lb && extent == end)
		return type;
	MPI_Type_create_resized(type, 0, end, &ret);
	MPI_Type_free(&type);
	return ret;
}

MPI_Datatype kt_random_etype(uint64_t *state, int *ret_derived)
{
	MPI_Datatype type;
	*ret_derived = 0;
	switch (kt_below(state, 8)) {
	case 0:
		return MPI_SHORT;
	case 1:
		return MPI_INT;
	case 2:
		return MPI_DOUBLE;
#ifndef MPICH_VERSION // whose ROMIO ends the program when it flattens one
	case 3:
		return MPI_DOUBLE_INT; // a hole at its end
#endif
	case 4:
		*ret_derived = 1;
		MPI_Type_contiguous(3, MPI_BYTE, &type);
		MPI_Type_commit(&type);
		return type;
	default:
		return MPI_BYTE;
	}
}

static MPI_Datatype generate(uint64_t *state, MPI_Datatype base, int depth, int64_t room);

// Blocks of 0 or more elements at ascending places: lengths and displacements in units of `unit` bytes, elements of
// `size` bytes.
static int blocks(
	uint64_t *state, int64_t size, int64_t unit, int64_t room, int64_t fixed, int *lengths, int64_t *places)
{
	int64_t at = unit * between(state, 0, 2);
	int n = 0;
	for (int wanted = between(state, 1, MOST); n < wanted; n++) {
		int64_t length = fixed ? fixed : between(state, 0, 3);
		if (at + length * size > room && n)
			break;
		lengths[n] = (int)length;
		places[n] = at / unit;
		at += (length * size + unit - 1) / unit * unit + unit * between(state, 0, 3);
	}
	return n;
}

static MPI_Datatype of_blocks(
	uint64_t *state, int kind, MPI_Datatype child, int64_t child_extent, int64_t base_extent, int64_t room)
{
	int lengths[MOST], displacements[MOST];
	int64_t places[MOST], unit = kind == 0 || kind == 2 ? child_extent : base_extent;
	MPI_Aint bytes[MOST];
	MPI_Datatype type;
	int64_t fixed = kind >= 2 ? between(state, 1, 3) : 0;
	int n = blocks(state, child_extent, unit, room, fixed, lengths, places);
	for (int i = 0; i < n; i++) {
		displacements[i] = (int)places[i];
		bytes[i] = (MPI_Aint)(places[i] * unit);
	}
	if (!fixed)
		lengths[n - 1] = lengths[n - 1] ? lengths[n - 1] : 1; // never an empty type
	switch (kind) {
	case 0:
		MPI_Type_indexed(n, lengths, displacements, child, &type);
		break;
	case 1:
		MPI_Type_create_hindexed(n, lengths, bytes, child, &type);
		break;
	case 2:
		MPI_Type_create_indexed_block(n, (int)fixed, displacements, child, &type);
		break;
	default:
		MPI_Type_create_hindexed_block(n, (int)fixed, bytes, child, &type);
		break;
	}
	return type;
}

static MPI_Datatype of_struct(uint64_t *state, MPI_Datatype base, int depth, int64_t base_extent, int64_t room)
{
	MPI_Datatype children[3], type;
	MPI_Aint places[3];
	int lengths[3], n = between(state, 1, 3);
	int64_t at = 0;
	for (int i = 0; i < n; i++) {
		children[i] = generate(state, base, depth - 1, room / n / 2);
		lengths[i] = between(state, 1, 2);
		at += base_extent * between(state, 0, 3);
		places[i] = (MPI_Aint)at;
		at += lengths[i] * extent_of(children[i]);
	}
	MPI_Type_create_struct(n, lengths, places, children, &type);
	for (int i = 0; i < n; i++)
		MPI_Type_free(&children[i]);
	return type;
}

static MPI_Datatype of_subarray(uint64_t *state, MPI_Datatype child, int64_t most)
{
	int n = between(state, 1, 3), sizes[3], subsizes[3], starts[3];
	MPI_Datatype type;
	for (int i = 0; i < n; i++) {
		sizes[i] = between(state, 1, most < 6 ? most : 6);
		most /= sizes[i];
		subsizes[i] = between(state, 1, sizes[i]);
		starts[i] = between(state, 0, sizes[i] - subsizes[i]);
	}
	MPI_Type_create_subarray(
		n, sizes, subsizes, starts, kt_below(state, 2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, child, &type);
	return type;
}

static MPI_Datatype of_darray(uint64_t *state, MPI_Datatype child, int64_t most)
{
	int n = between(state, 1, 2), sizes[2], kinds[2], arguments[2], grid[2], processes = 1;
	MPI_Datatype type;
	for (int i = 0; i < n; i++) {
		sizes[i] = between(state, 2, most < 8 ? most : 8);
		most /= sizes[i];
		kinds[i] =
			(int[]){MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE}[kt_below(state, 3)];
		grid[i] = kinds[i] == MPI_DISTRIBUTE_NONE ? 1 : between(state, 1, 2);
		arguments[i] = kinds[i] == MPI_DISTRIBUTE_CYCLIC ? between(state, 1, 2) : MPI_DISTRIBUTE_DFLT_DARG;
		if (kinds[i] == MPI_DISTRIBUTE_CYCLIC && sizes[i] <= arguments[i])
			arguments[i] = 1; // every process gets something
		processes *= grid[i];
	}
	MPI_Type_create_darray(processes, between(state, 0, processes - 1), n, sizes, kinds, arguments, grid,
		kt_below(state, 2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, child, &type);
	return type;
}

static MPI_Datatype generate(uint64_t *state, MPI_Datatype base, int depth, int64_t room)
{
	int64_t base_extent = extent_of(base), most = room / base_extent;
	MPI_Datatype type, child = MPI_DATATYPE_NULL;
	if (depth == 0 || most < 6 || !kt_below(state, 8)) {
		MPI_Type_contiguous(between(state, 1, most < 40 ? most : 40), base, &type);
		return type;
	}
	int kind = (int)kt_below(state, 12);
	if (kind == 7)
		return with_bounds(of_struct(state, base, depth, base_extent, room));
	child = generate(state, base, depth - 1, room / between(state, 2, 5));
	int64_t extent = extent_of(child), n = room / extent;
	int length = between(state, 1, n < 4 ? n : 4);
	switch (kind) {
	case 0:
		MPI_Type_contiguous(between(state, 1, n), child, &type);
		break;
	case 1: {
		int stride = length + between(state, 0, 3);
		MPI_Type_vector(between(state, 1, n / stride), length, stride, child, &type);
		break;
	}
	case 2: {
		int64_t stride = length * extent + base_extent * between(state, 0, 5);
		MPI_Type_create_hvector(between(state, 1, room / stride), length, (MPI_Aint)stride, child, &type);
		break;
	}
	case 3:
	case 4:
	case 5:
	case 6:
		type = of_blocks(state, kind - 3, child, extent, base_extent, room);
		break;
	case 8:
		type = of_subarray(state, child, n);
		break;
	case 9:
		type = n >= 4 ? of_darray(state, child, n) : of_subarray(state, child, n);
		break;
	case 10:
		MPI_Type_create_resized(child, 0, (MPI_Aint)(extent + base_extent * between(state, 0, 6)), &type);
		break;
	default:
		MPI_Type_dup(child, &type);
		break;
	}
	MPI_Type_free(&child);
	return with_bounds(type);
}

// In a type that overlaps itself every call is an error of the program.
static void check_room(MPI_Datatype type)
{
	MPI_Aint lb, extent, true_lb, true_extent;
	int size;
	MPI_Type_get_extent(type, &lb, &extent);
	MPI_Type_get_true_extent(type, &true_lb, &true_extent);
	MPI_Type_size(type, &size);
	KT_CHECK(lb <= true_lb && true_lb + true_extent <= lb + extent && size <= true_extent,
		"a type of %d bytes from %lld to %lld, its bytes from %lld to %lld", size, (long long)lb,
		(long long)(lb + extent), (long long)true_lb, (long long)(true_lb + true_extent));
}

MPI_Datatype kt_random_file_type(uint64_t *state, MPI_Datatype base, int64_t room)
{
	MPI_Datatype type = generate(state, base, between(state, 0, 4), room);
	while (extent_of(type) > 4 * room) {
		MPI_Type_free(&type);
		type = generate(state, base, between(state, 0, 4), room);
	}
	check_room(type);
	MPI_Type_commit(&type);
	return type;
}

MPI_Datatype kt_random_memory_type(uint64_t *state, MPI_Datatype base, int64_t room)
{
	MPI_Datatype type = generate(state, base, between(state, 0, 3), room), mixed;
	check_room(type);
	if (!kt_below(state, 3)) {
		// The later pieces first, and one before the buffer.
		int64_t extent = extent_of(type);
		MPI_Aint places[3] = {(MPI_Aint)(2 * extent), (MPI_Aint)(-2 * extent), (MPI_Aint)extent};
		MPI_Type_create_hindexed(3, (int[]){1, 2, 1}, places, type, &mixed);
		MPI_Type_free(&type);
		type = mixed;
	}
	MPI_Type_commit(&type);
	return type;
}

/* Random MPI datatypes out of every combiner. */
#ifndef KR_TEST_MPI_RANDOM_TYPE_H
#define KR_TEST_MPI_RANDOM_TYPE_H

#include <mpi.h>

#include "test/unit/mpiio/datatype/mpi_random_map.h"

enum { TYPE_SPAN = 20000, TYPE_BYTES = 6000 };

/* Whether parts of no bytes may occur within types. */
static bool random_empty_parts = true;

static inline int random_count(uint64_t *state, uint64_t limit)
{
	return random_empty_parts ? (int)random_below(state, limit) : 1 + (int)random_below(state, limit - 1);
}

static inline bool type_is_small(MPI_Datatype type)
{
	MPI_Count size, lb, extent;
	MPI_Type_size_x(type, &size);
	MPI_Type_get_true_extent_x(type, &lb, &extent);
	if (size > TYPE_BYTES || (size == 0 && !random_empty_parts))
		return false;
	if (size > 0 && (lb < -TYPE_SPAN || lb + extent > TYPE_SPAN))
		return false;
	MPI_Type_get_extent_x(type, &lb, &extent);
	return lb >= -TYPE_SPAN && lb + extent <= TYPE_SPAN && extent >= -TYPE_SPAN;
}

static inline MPI_Datatype random_basic(uint64_t *state)
{
	const MPI_Datatype basic[] = {MPI_BYTE, MPI_CHAR, MPI_SHORT, MPI_INT, MPI_DOUBLE, MPI_FLOAT_INT, MPI_DOUBLE_INT,
		MPI_SHORT_INT, MPI_LONG_INT, MPI_2INT, MPI_C_DOUBLE_COMPLEX, MPI_C_BOOL};
	MPI_Datatype type = MPI_DATATYPE_NULL;
	switch (random_below(state, 12)) {
	case 0:
		MPI_Type_create_f90_real(6, 30, &type);
		break;
	case 1:
		MPI_Type_create_f90_complex(15, 300, &type);
		break;
	case 2:
		MPI_Type_create_f90_integer(9, &type);
		break;
	default:
		type = basic[random_below(state, KR_ARRAY_SIZE(basic))];
		break;
	}
	/* A library without Fortran has no such types. */
	return type == MPI_DATATYPE_NULL ? MPI_INT : type;
}

static inline MPI_Datatype random_type(uint64_t *state, unsigned levels);

/* Predefined types must not be freed. */
static inline void free_type(MPI_Datatype type)
{
	int integers, addresses, types, combiner;
	MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
	if (combiner != MPI_COMBINER_NAMED && combiner != MPI_COMBINER_F90_REAL &&
		combiner != MPI_COMBINER_F90_COMPLEX && combiner != MPI_COMBINER_F90_INTEGER)
		MPI_Type_free(&type);
}

static inline MPI_Datatype random_blocks(uint64_t *state, MPI_Datatype old, uint64_t kind)
{
	int count = random_count(state, 6), lengths[6], places[6], length = random_count(state, 4);
	MPI_Aint addresses[6];
	MPI_Datatype type = MPI_DATATYPE_NULL;
	for (int i = 0; i < 6; i++) {
		lengths[i] = random_count(state, 4);
		places[i] = (int)random_below(state, 40) - 15;
		addresses[i] = (MPI_Aint)random_below(state, 800) - 300;
	}
	if (random_below(state, 3) == 0)
		for (int i = 1; i < 6; i++) {
			lengths[i] = lengths[0];
			places[i] = places[0] + i * 9;
			addresses[i] = addresses[0] + i * 150;
		}
	if (kind == 0)
		MPI_Type_indexed(count, lengths, places, old, &type);
	else if (kind == 1)
		MPI_Type_create_hindexed(count, lengths, addresses, old, &type);
	else if (kind == 2)
		MPI_Type_create_indexed_block(count, length, places, old, &type);
	else
		MPI_Type_create_hindexed_block(count, length, addresses, old, &type);
	return type;
}

static inline MPI_Datatype random_struct_type(uint64_t *state, unsigned levels)
{
	int count = random_count(state, 5), lengths[5] = {0};
	MPI_Aint addresses[5] = {0};
	MPI_Datatype types[5] = {0}, type = MPI_DATATYPE_NULL;
	for (int i = 0; i < count; i++) {
		lengths[i] = random_count(state, 3);
		addresses[i] = (MPI_Aint)random_below(state, 600) - 200;
		types[i] = i > 0 && random_below(state, 3) == 0 ? types[i - 1] : random_type(state, levels - 1);
	}
	MPI_Type_create_struct(count, lengths, addresses, types, &type);
	for (int i = 0; i < count; i++)
		if (i == 0 || types[i] != types[i - 1])
			free_type(types[i]);
	return type;
}

static inline MPI_Datatype random_subarray_type(uint64_t *state, MPI_Datatype old)
{
	int dims = 1 + (int)random_below(state, 4), sizes[4], parts[4], starts[4];
	MPI_Datatype type = MPI_DATATYPE_NULL;
	for (int d = 0; d < dims; d++) {
		sizes[d] = 1 + (int)random_below(state, 5);
		parts[d] = 1 + (int)random_below(state, (uint64_t)sizes[d]);
		starts[d] = (int)random_below(state, (uint64_t)(sizes[d] - parts[d] + 1));
	}
	MPI_Type_create_subarray(
		dims, sizes, parts, starts, random_below(state, 2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, old, &type);
	return type;
}

static inline MPI_Datatype random_darray_type(uint64_t *state, MPI_Datatype old)
{
	const int kinds[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
	int dims = 1 + (int)random_below(state, 3), processes = 1, size[3], kind[3], block[3], grid[3];
	MPI_Datatype type = MPI_DATATYPE_NULL;
	for (int d = 0; d < dims; d++) {
		size[d] = 1 + (int)random_below(state, 9);
		kind[d] = kinds[random_below(state, 3)];
		grid[d] = kind[d] == MPI_DISTRIBUTE_NONE ? 1 : 1 + (int)random_below(state, 4);
		block[d] = kind[d] == MPI_DISTRIBUTE_NONE || random_below(state, 2) ? MPI_DISTRIBUTE_DFLT_DARG :
										      1 + (int)random_below(state, 4);
		if (kind[d] == MPI_DISTRIBUTE_BLOCK && block[d] != MPI_DISTRIBUTE_DFLT_DARG &&
			block[d] * grid[d] < size[d])
			block[d] = MPI_DISTRIBUTE_DFLT_DARG;
		processes *= grid[d];
	}
	MPI_Type_create_darray(processes, (int)random_below(state, (uint64_t)processes), dims, size, kind, block, grid,
		random_below(state, 2) ? MPI_ORDER_C : MPI_ORDER_FORTRAN, old, &type);
	return type;
}

static inline MPI_Datatype random_derived(uint64_t *state, MPI_Datatype old, unsigned levels)
{
	MPI_Datatype type = MPI_DATATYPE_NULL;
	uint64_t kind = random_below(state, 13);
	int count = random_count(state, 6), length = random_count(state, 4);
	switch (kind) {
	case 0:
		MPI_Type_dup(old, &type);
		break;
	case 1:
		MPI_Type_contiguous(count, old, &type);
		break;
	case 2:
		MPI_Type_vector(count, length, (int)random_below(state, 30) - 10, old, &type);
		break;
	case 3:
		MPI_Type_create_hvector(count, length, (MPI_Aint)random_below(state, 300) - 100, old, &type);
		break;
	case 4:
	case 5:
	case 6:
	case 7:
		return random_blocks(state, old, kind - 4);
	case 8:
		return random_subarray_type(state, old);
	case 9:
		return random_darray_type(state, old);
	case 10:
		MPI_Type_create_resized(
			old, (MPI_Aint)random_below(state, 200) - 100, (MPI_Aint)random_below(state, 300), &type);
		break;
	default:
		return random_struct_type(state, levels);
	}
	return type;
}

/* Caller frees with free_type. */
static inline MPI_Datatype random_type(uint64_t *state, unsigned levels)
{
	if (levels == 0)
		return random_basic(state);
	MPI_Datatype old = random_type(state, levels - 1), type = random_derived(state, old, levels);
	if (type == MPI_DATATYPE_NULL) /* a library may refuse what it does not like (errors return) */
		return old;
	if (type_is_small(type)) {
		free_type(old);
		return type;
	}
	free_type(type);
	return old;
}

#endif

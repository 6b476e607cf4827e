/* See access.h. */
#include "mpiio/twophase/access.h"

#include <string.h>

#include "mpiio/datatype/typemap_mpi.h"

/* The memory's first byte, if it is one run. */
static char *contiguous_memory(const struct kr_access *access)
{
	const struct kr_typemap *map = access->map;

	if (kr_typemap_contiguous_tiles(map) || (access->count <= kr_typemap_size(map) && kr_typemap_runs(map) == 1))
		return access->memory + map->displacement;
	return NULL;
}

/* Finds the memory's map, if the layer can read the type. */
static bool find_memory(struct kr_access *access)
{
	if (kr_typemap_of_mpi(access->datatype, &access->map) < 0 ||
		kr_cursor_init(&access->cursor, access->map, 0, 0, access->count) < 0)
		return false;
	access->contiguous = contiguous_memory(access);
	return true;
}

static int count_bytes(struct kr_access *access)
{
	MPI_Count size;

	if (access->items < 0)
		return MPI_ERR_COUNT;
	if (access->datatype == MPI_DATATYPE_NULL || PMPI_Type_size_x(access->datatype, &size) != MPI_SUCCESS ||
		size < 0)
		return MPI_ERR_TYPE;
	if (__builtin_mul_overflow((uint64_t)size, (uint64_t)access->items, &access->count) ||
		access->count >= KR_TYPEMAP_LIMIT)
		return MPI_ERR_COUNT;
	return MPI_SUCCESS;
}

int kr_access_init(struct kr_access *access, bool writing, const struct kr_shape *shape, void *buffer, MPI_Count items,
	MPI_Datatype datatype, MPI_Offset offset)
{
	uint64_t start;
	int class;

	*access = (struct kr_access){.writing = writing,
		.memory = buffer,
		.buffer = buffer,
		.items = items,
		.datatype = datatype,
		.offset = offset};
	class = count_bytes(access);
	if (class != MPI_SUCCESS)
		return class;
	if (offset < 0 || __builtin_mul_overflow((uint64_t)offset, shape->etype_size, &start) ||
		start >= KR_TYPEMAP_LIMIT)
		return MPI_ERR_ARG;
	if (access->count % shape->etype_size != 0)
		return MPI_ERR_IO;
	access->known =
		kr_shape_view(shape, start, access->count, &access->view, &access->start, &access->ordered) == 0 &&
		(access->count == 0 || find_memory(access));
	access->ordered &= access->known;
	return MPI_SUCCESS;
}

void kr_access_fini(struct kr_access *access)
{
	kr_typemap_put(access->map);
	kr_view_fini(&access->view);
}

static void seek(struct kr_access *access, uint64_t data)
{
	if (access->cursor.position != data)
		kr_cursor_seek_data(&access->cursor, data);
}

void kr_access_pack(struct kr_access *access, uint64_t data, char *to, uint64_t n)
{
	struct kr_run run;

	if (access->contiguous) {
		memcpy(to, access->contiguous + data, n);
		return;
	}
	for (seek(access, data); n > 0 && kr_cursor_take(&access->cursor, n, &run); n -= run.length, to += run.length)
		memcpy(to, access->memory + run.offset, run.length);
}

void kr_access_unpack(struct kr_access *access, uint64_t data, const char *from, uint64_t n)
{
	struct kr_run run;

	if (access->contiguous) {
		memcpy(access->contiguous + data, from, n);
		return;
	}
	for (seek(access, data); n > 0 && kr_cursor_take(&access->cursor, n, &run); n -= run.length, from += run.length)
		memcpy(access->memory + run.offset, from, run.length);
}

/* One rank's part of a data access: its bytes of the view, and their place in memory. */
#ifndef KR_MPIIO_ACCESS_H
#define KR_MPIIO_ACCESS_H

#include <mpi.h>

#include "mpiio/datatype/shape.h"

struct kr_access {
	bool writing;
	bool known;              /* false: the layer cannot read this rank's types, and MPI itself must do its part */
	bool ordered;            /* can be exchanged (shape.h) */
	struct kr_view view;     /* own; empty if not known */
	struct kr_typemap *map;  /* of the memory, tiled; NULL when count is 0 */
	char *memory;            /* the base of the map's offsets */
	char *contiguous;        /* the first byte, when the memory is one run; else NULL */
	uint64_t start, count;   /* data bytes of the view */
	struct kr_cursor cursor; /* over the memory; of kr_access_pack and _unpack */
	/* As the program gave it. */
	void *buffer;
	MPI_Count items;
	MPI_Datatype datatype;
	MPI_Offset offset; /* in etypes */
};

/* The access of ITEMS of DATATYPE at etype OFFSET of SHAPE (borrowed for the call).  An MPI error class. */
int kr_access_init(struct kr_access *access, bool writing, const struct kr_shape *shape, void *buffer, MPI_Count items,
	MPI_Datatype datatype, MPI_Offset offset);
void kr_access_fini(struct kr_access *access);

/* Copies N bytes from DATA on (counted from the access's first byte) out of, or into, the memory. */
void kr_access_pack(struct kr_access *access, uint64_t data, char *to, uint64_t n);
void kr_access_unpack(struct kr_access *access, uint64_t data, const char *from, uint64_t n);

#endif

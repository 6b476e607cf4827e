/* A file view in the plainest datatypes that mean the same.
 *
 * MPI's own file keeps the view too, for what falls through to it: shared pointers, atomic mode.  MPI libraries crash,
 * corrupt their memory or write to wrong places over some filetypes (in Open MPI 4.1's ROMIO: indexed, struct and
 * resized types within each other, pair types).  So they are not told of the program's types but of blocks of bytes:
 * one flat list of them, or one vector. That can be told at once, in set_view, where all ranks meet; nothing has to be
 * caught up on later by one rank alone.
 */
#ifndef KR_MPIIO_PLAIN_VIEW_H
#define KR_MPIIO_PLAIN_VIEW_H

#include <mpi.h>
#include <stdbool.h>

#include "mpiio/datatype/typemap.h"

struct kr_plain_view {
	MPI_Offset displacement;
	MPI_Datatype etype, filetype;
	bool own_etype, own_filetype; /* made here */
};

/* The view of DISPLACEMENT, ETYPE and FILETYPE, whose map is MAP (NULL: not known); etype offsets mean the same bytes
 * in both.  What cannot be made plain (also because it is no valid view) stays as it is: the program's types, borrowed.
 */
void kr_plain_view_init(struct kr_plain_view *view, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
	const struct kr_typemap *map);
void kr_plain_view_fini(struct kr_plain_view *view);

#endif

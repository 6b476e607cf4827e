/* A file view in the plainest datatypes with the same meaning.
 *
 * MPI's own file keeps the view too, for calls that are left to it: shared pointers, atomic mode.  MPI libraries crash,
 * corrupt their memory or write to wrong places over some filetypes. In Open MPI 4.1's ROMIO these are pair types, and
 * indexed, struct and resized types within each other.  So they get blocks of bytes instead of the program's types: one
 * flat list of them, or one vector.  set_view passes that on at once, while all ranks meet, so no rank has to do it
 * alone later.
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
 * in both.  A view that cannot be made plain, also because it is invalid, keeps the program's types, borrowed. */
void kr_plain_view_init(struct kr_plain_view *view, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype,
	const struct kr_typemap *map);
void kr_plain_view_fini(struct kr_plain_view *view);

#endif

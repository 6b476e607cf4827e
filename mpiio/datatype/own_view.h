/* The view as the program set it, for MPI_File_get_view: the MPI library gets another one (plain_view.h). */
#ifndef KR_MPIIO_OWN_VIEW_H
#define KR_MPIIO_OWN_VIEW_H

#include <mpi.h>

struct kr_own_view {
	MPI_Offset displacement;
	MPI_Datatype etype, filetype; /* basic, or made from the program's */
};

/* Borrows the types only for the call.  An MPI error class; after an error the view holds nothing. */
int kr_own_view_init(struct kr_own_view *view, MPI_Offset displacement, MPI_Datatype etype, MPI_Datatype filetype);
/* The view of a newly opened file. */
void kr_own_view_init_bytes(struct kr_own_view *view);
void kr_own_view_fini(struct kr_own_view *view);
/* For the program: types that are not basic are new, and the program frees them.  An MPI error class. */
int kr_own_view_get(const struct kr_own_view *view, MPI_Offset *ret_displacement, MPI_Datatype *ret_etype,
	MPI_Datatype *ret_filetype);

#endif

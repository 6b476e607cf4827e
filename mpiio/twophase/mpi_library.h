/* The MPI library: its own PMPI_File_*, found behind this library's by dlsym(RTLD_NEXT), for all calls that the layer
 * does not handle; its error classes; the tags of the layer's messages. */
#ifndef KR_MPIIO_MPI_LIBRARY_H
#define KR_MPIIO_MPI_LIBRARY_H

#include <mpi.h>

/* clang-format off */
/* Data calls with large counts. */
#if MPI_VERSION >= 4
#define KR_REAL_LARGE_LIST(X) \
	X(File_read_c) X(File_read_all_c) X(File_read_at_c) X(File_read_at_all_c) X(File_write_c) \
	X(File_write_all_c) X(File_write_at_c) X(File_write_at_all_c) X(File_iread_c) X(File_iread_all_c) \
	X(File_iread_at_c) X(File_iread_at_all_c) X(File_iwrite_c) X(File_iwrite_all_c) X(File_iwrite_at_c) \
	X(File_iwrite_at_all_c) X(File_read_all_begin_c) X(File_read_at_all_begin_c) X(File_write_all_begin_c) \
	X(File_write_at_all_begin_c) X(File_write_shared_c) X(File_iwrite_shared_c) X(File_write_ordered_c) \
	X(File_write_ordered_begin_c)
#else
#define KR_REAL_LARGE_LIST(X)
#endif

#define KR_REAL_LIST(X) \
	X(File_open) X(File_close) X(File_set_size) X(File_preallocate) X(File_set_info) X(File_get_info) \
	X(File_set_view) X(File_read_at) X(File_read_at_all) X(File_write_at) X(File_write_at_all) \
	X(File_iread_at) X(File_iwrite_at) X(File_iread_at_all) X(File_iwrite_at_all) X(File_read) \
	X(File_read_all) X(File_write) X(File_write_all) X(File_iread) X(File_iwrite) X(File_iread_all) \
	X(File_iwrite_all) \
	X(File_seek) X(File_get_position) X(File_read_at_all_begin) X(File_read_at_all_end) \
	X(File_write_at_all_begin) X(File_write_at_all_end) X(File_read_all_begin) X(File_read_all_end) \
	X(File_write_all_begin) X(File_write_all_end) X(File_set_atomicity) X(File_sync) X(File_write_shared) \
	X(File_iwrite_shared) X(File_write_ordered) X(File_write_ordered_begin) X(File_get_view) \
	KR_REAL_LARGE_LIST(X)
/* clang-format on */

struct kr_real {
#define KR_REAL_FIELD(name) __typeof__(PMPI_##name) *name;
	KR_REAL_LIST(KR_REAL_FIELD)
#undef KR_REAL_FIELD
};

/* The table, filled at the first call.  Aborts with a message if the program has no MPI library behind this one.  Any
 * thread. */
const struct kr_real *kr_real(void);

/* MPI_SUCCESS for ERR >= 0, else the class of -errno. */
int kr_mpi_class(int err);

/* Tags, on communicators of the layer.  Each pair of ranks keeps its messages of one tag in order. */
enum kr_tag { KR_TAG_VIEW = 1, KR_TAG_WRITE, KR_TAG_READ, KR_TAG_CLOCK, KR_TAG_NONE };

#endif

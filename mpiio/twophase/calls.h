/* The functions of MPI-IO that the library handles, by name.  No MPI library has a part in this file: the preloaded
 * library (mpiio/preload) is none's. */
#ifndef KR_MPIIO_CALLS_H
#define KR_MPIIO_CALLS_H

/* clang-format off */
#define KR_CALLS(X) \
	X(File_open) X(File_close) X(File_set_size) X(File_preallocate) X(File_set_info) X(File_get_info) \
	X(File_set_view) X(File_read_at) X(File_read_at_all) X(File_write_at) X(File_write_at_all) \
	X(File_iread_at) X(File_iwrite_at) X(File_iread_at_all) X(File_iwrite_at_all) X(File_read) \
	X(File_read_all) X(File_write) X(File_write_all) X(File_iread) X(File_iwrite) X(File_iread_all) \
	X(File_iwrite_all) \
	X(File_seek) X(File_get_position) X(File_read_at_all_begin) X(File_read_at_all_end) \
	X(File_write_at_all_begin) X(File_write_at_all_end) X(File_read_all_begin) X(File_read_all_end) \
	X(File_write_all_begin) X(File_write_all_end) X(File_set_atomicity) X(File_sync) X(File_write_shared) \
	X(File_iwrite_shared) X(File_write_ordered) X(File_write_ordered_begin) X(File_get_view)

/* Data calls with large counts, which libraries have since MPI-4. */
#define KR_LARGE_CALLS(X) \
	X(File_read_c) X(File_read_all_c) X(File_read_at_c) X(File_read_at_all_c) X(File_write_c) \
	X(File_write_all_c) X(File_write_at_c) X(File_write_at_all_c) X(File_iread_c) X(File_iread_all_c) \
	X(File_iread_at_c) X(File_iread_at_all_c) X(File_iwrite_c) X(File_iwrite_all_c) X(File_iwrite_at_c) \
	X(File_iwrite_at_all_c) X(File_read_all_begin_c) X(File_read_at_all_begin_c) X(File_write_all_begin_c) \
	X(File_write_at_all_begin_c) X(File_write_shared_c) X(File_iwrite_shared_c) X(File_write_ordered_c) \
	X(File_write_ordered_begin_c)
/* clang-format on */

#endif

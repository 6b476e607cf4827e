/* The data calls of MPI-IO: blocking, non-blocking and split collective ones, at explicit offsets, at the individual
 * and at the shared file pointer.  Files that the layer does not handle go to the MPI library untouched.  Compiled for
 * both kinds of counts (api.h). */
#include "mpiio/api/api.h"
#include "mpiio/api/call.h"

/* The call NAME with the parameters DECLARED, which goes on to the MPI library with the arguments PASSED.  OURS does it
 * for a file that the layer handles. */
#define CALL(name, declared, passed, ours) \
	int KR_PMPI(name) declared \
	{ \
		struct kr_mpifile *file = kr_file_active(fh); \
\
		return file ? ours : KR_REAL(name) passed; \
	}

#define TO void *buf, kr_count count, MPI_Datatype datatype
#define FROM const void *buf, kr_count count, MPI_Datatype datatype
#define DATA buf, count, datatype

/* ---- blocking ---- */

#define INDEPENDENT(access) kr_call_independent(file, access, status)
#define COLLECTIVE(access) kr_call_collective(file, access, status)

CALL(File_read, (MPI_File fh, TO, MPI_Status *status), (fh, DATA, status), INDEPENDENT(READ(POINTER)));
CALL(File_read_all, (MPI_File fh, TO, MPI_Status *status), (fh, DATA, status), COLLECTIVE(READ(POINTER)));
CALL(File_read_at, (MPI_File fh, MPI_Offset offset, TO, MPI_Status *status), (fh, offset, DATA, status),
	INDEPENDENT(READ(AT)));
CALL(File_read_at_all, (MPI_File fh, MPI_Offset offset, TO, MPI_Status *status), (fh, offset, DATA, status),
	COLLECTIVE(READ(AT)));
CALL(File_write, (MPI_File fh, FROM, MPI_Status *status), (fh, DATA, status), INDEPENDENT(WRITE(POINTER)));
CALL(File_write_all, (MPI_File fh, FROM, MPI_Status *status), (fh, DATA, status), COLLECTIVE(WRITE(POINTER)));
CALL(File_write_at, (MPI_File fh, MPI_Offset offset, FROM, MPI_Status *status), (fh, offset, DATA, status),
	INDEPENDENT(WRITE(AT)));
CALL(File_write_at_all, (MPI_File fh, MPI_Offset offset, FROM, MPI_Status *status), (fh, offset, DATA, status),
	COLLECTIVE(WRITE(AT)));

/* ---- non-blocking ---- */

#define START(access) kr_call_start_independent(file, access, request)
#define START_ALL(access) kr_call_start_collective(file, access, request)

CALL(File_iread, (MPI_File fh, TO, MPI_Request *request), (fh, DATA, request), START(READ(POINTER)));
CALL(File_iread_all, (MPI_File fh, TO, MPI_Request *request), (fh, DATA, request), START_ALL(READ(POINTER)));
CALL(File_iread_at, (MPI_File fh, MPI_Offset offset, TO, MPI_Request *request), (fh, offset, DATA, request),
	START(READ(AT)));
CALL(File_iread_at_all, (MPI_File fh, MPI_Offset offset, TO, MPI_Request *request), (fh, offset, DATA, request),
	START_ALL(READ(AT)));
CALL(File_iwrite, (MPI_File fh, FROM, MPI_Request *request), (fh, DATA, request), START(WRITE(POINTER)));
CALL(File_iwrite_all, (MPI_File fh, FROM, MPI_Request *request), (fh, DATA, request), START_ALL(WRITE(POINTER)));
CALL(File_iwrite_at, (MPI_File fh, MPI_Offset offset, FROM, MPI_Request *request), (fh, offset, DATA, request),
	START(WRITE(AT)));
CALL(File_iwrite_at_all, (MPI_File fh, MPI_Offset offset, FROM, MPI_Request *request), (fh, offset, DATA, request),
	START_ALL(WRITE(AT)));

/* ---- split collective ---- */

#define BEGIN(access) kr_call_split_begin(file, access)

CALL(File_read_all_begin, (MPI_File fh, TO), (fh, DATA), BEGIN(READ(POINTER)));
CALL(File_read_at_all_begin, (MPI_File fh, MPI_Offset offset, TO), (fh, offset, DATA), BEGIN(READ(AT)));
CALL(File_write_all_begin, (MPI_File fh, FROM), (fh, DATA), BEGIN(WRITE(POINTER)));
CALL(File_write_at_all_begin, (MPI_File fh, MPI_Offset offset, FROM), (fh, offset, DATA), BEGIN(WRITE(AT)));

#ifndef KR_LARGE_COUNTS /* they have no count */
#define END(name, buffer, writing) \
	CALL(name, (MPI_File fh, buffer, MPI_Status * status), (fh, buf, status), \
		kr_call_split_end(file, writing, status))

END(File_read_all_end, void *buf, false);
END(File_read_at_all_end, void *buf, false);
END(File_write_all_end, const void *buf, true);
END(File_write_at_all_end, const void *buf, true);
#endif

/* ---- the shared pointer ---- */

/* These writes are MPI's own.  The layer only records that a rank wrote without the aggregators. */
#define SHARED_WRITE(name, declared, passed) \
	int KR_PMPI(name) declared \
	{ \
		struct kr_mpifile *file = kr_file_find(fh); \
\
		if (file) \
			kr_write_order_unseen(file); \
		return KR_REAL(name) passed; \
	}

SHARED_WRITE(File_write_shared, (MPI_File fh, FROM, MPI_Status *status), (fh, DATA, status));
SHARED_WRITE(File_iwrite_shared, (MPI_File fh, FROM, MPI_Request *request), (fh, DATA, request));
SHARED_WRITE(File_write_ordered, (MPI_File fh, FROM, MPI_Status *status), (fh, DATA, status));
SHARED_WRITE(File_write_ordered_begin, (MPI_File fh, FROM), (fh, DATA));

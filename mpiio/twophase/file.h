/* An open file that the layer handles, beside its MPI_File; the handle finds it.
 *
 * MPI's own file stays open and has an equivalent view (plain_view.h). Calls that the layer does not handle (shared
 * pointers, say) go to it untouched.  The individual file pointer is the layer's while the file is active, and MPI's
 * while it is not (atomic mode, data representations other than "native").  It is handed over when that changes.
 *
 * Threads: the handle table has a lock of its own.  Of a file, `lock` guards shape, view, position and effective.  Only
 * collective calls use the rest: MPI allows one at a time per file, and each first waits for the non-blocking ones
 * (kr_file_quiesce).
 */
#ifndef KR_MPIIO_FILE_H
#define KR_MPIIO_FILE_H

#include <mpi.h>
#include <pthread.h>
#include <stdbool.h>

#include "common/base/table.h"
#include "mpiio/schedule/hints.h"
#include "mpiio/twophase/io_thread.h"
#include "mpiio/twophase/mount.h"
#include "mpiio/datatype/own_view.h"
#include "mpiio/datatype/shape.h"
#include "mpiio/twophase/slots.h"
#include "mpiio/schedule/aggregators.h"
#include "mpiio/twophase/trace.h"
#include "mpiio/twophase/write_order.h"
#include "mpiio/twophase/views.h"
#include "mpiio/twophase/window.h"

struct kr_call_record;

struct kr_mpifile {
	struct kr_table_link link;
	MPI_File fh;
	MPI_Comm comm; /* a duplicate of the program's; errors are returned */
	struct kr_write_order write_order;
	int rank, ranks, amode;
	char *name;
	struct kr_mount *mount;
	bool threads;         /* MPI_THREAD_MULTIPLE on all ranks */
	bool atomic, foreign; /* atomic mode; another data representation than "native" */

	pthread_mutex_t lock;
	struct kr_shape shape;     /* the file view */
	struct kr_own_view view;   /* the same, for MPI_File_get_view */
	uint64_t position;         /* the individual file pointer, in etypes */
	struct kr_hints effective; /* for MPI_File_get_info; without cb_nodes when there are no aggregators */

	struct kr_hints wanted; /* the program's on this rank */
	struct kr_hints agreed; /* rank 0's at the last agreement */
	struct kr_hints hints;  /* the result: in force, the same on all ranks */
	struct kr_topology *topology;
	struct kr_aggregators *aggregators;
	uint32_t *targets; /* aggregators in the order in which this rank sends to them */
	uint32_t *sources; /* ranks in the order in which this aggregator serves them; NULL: none */
	struct kr_views views;
	struct kr_call_record *records; /* of the ranks, for the call under way */
	struct kr_window window;
	struct kr_slots slots; /* at an aggregator */

	struct kr_io_thread io;     /* the aggregator's reads and writes */
	struct kr_io_thread worker; /* non-blocking collectives; makes MPI calls, so only with MPI_THREAD_MULTIPLE */
	struct kr_trace *trace;     /* NULL: none */
	struct kr_tally tally;
	uint64_t calls;

	bool split_active, split_writing; /* a split collective has begun; this is its result */
	MPI_Status split_status;
};

/* The file of FH, or NULL when the layer does not handle it. */
struct kr_mpifile *kr_file_find(MPI_File fh);
/* The same, but also NULL while MPI handles its data calls. */
struct kr_mpifile *kr_file_active(MPI_File fh);

/* Collective over COMM, right after MPI's open of NAME, which gave FH, or MPI_FILE_NULL when it failed.  All ranks
 * decide together whether the layer handles the file; if so it goes into the table. */
void kr_file_attach(MPI_Comm comm, const char *name, int amode, MPI_Info info, MPI_File fh);
/* Collective.  Takes FILE out of the table and frees it; MPI's file stays open.  An MPI error class, the same on all
 * ranks. */
int kr_file_detach(struct kr_mpifile *file);

/* Waits for the non-blocking collectives under way. */
void kr_file_quiesce(struct kr_mpifile *file);
/* The highest error class of all ranks.  Collective. */
int kr_file_agree(struct kr_mpifile *file, int class);
/* Gives rank 0's hints to all ranks, and chooses the aggregators by them.  Collective; an MPI error class, the same on
 * all ranks. */
int kr_file_agree_hints(struct kr_mpifile *file);
/* Whether this rank wants other hints than those agreed on. */
bool kr_file_hints_changed(const struct kr_mpifile *file);
/* The hints in force, if the last agreement succeeded.  Any thread, also while a non-blocking collective changes them.
 */
bool kr_file_effective(struct kr_mpifile *file, struct kr_hints *ret_hints);
uint64_t kr_file_stripe(const struct kr_mpifile *file);

/* Gives the individual pointer to MPI, or takes it back. */
void kr_file_give_pointer(struct kr_mpifile *file);
void kr_file_take_pointer(struct kr_mpifile *file);

#endif

/* The history of a file's collective calls: events for `kairan gantt` (trace_format.h) and sums for the summary line.
 *
 * Events stay in memory until close, when each rank writes one file, so that tracing does not disturb the measured
 * program.  Events above KR_TRACE_EVENTS_MAX are dropped, and counted.  One thread at a time.
 */
#ifndef KR_MPIIO_TRACE_H
#define KR_MPIIO_TRACE_H

#include <mpi.h>

#include "mpiio/twophase/trace_format.h"

enum { KR_TRACE_EVENTS_MAX = 1 << 20 };

struct kr_trace;

/* Sums over one rank's calls. */
struct kr_tally {
	uint64_t writes, reads, direct;              /* collective calls; those without an exchange */
	uint64_t bytes_written, bytes_read;          /* this rank's data in collective calls */
	uint64_t phase_ns[KR_TRACE_PHASES], call_ns; /* time in each phase, and in all calls */
	uint64_t extents;                            /* written and read by aggregators */
};

/* Collective over COMM: compares the ranks' clocks with rank 0's.  Events go to PREFIX.RANK.jsonl.  NODE is this
 * rank's.  NULL: out of memory. */
struct kr_trace *kr_trace_new(MPI_Comm comm, const char *prefix, const char *file, uint32_t node);
/* Writes the events and frees TRACE (NULL is allowed). 0 or -errno. */
int kr_trace_free(struct kr_trace *trace);
void kr_trace_add(struct kr_trace *trace, const struct kr_trace_event *event);

/* Collective over COMM: rank 0 prints one line on standard error. */
void kr_tally_print(const struct kr_tally *tally, MPI_Comm comm, const char *file);

#endif

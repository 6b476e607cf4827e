/* A collective data call: the agreement of all ranks before it, the choice of the way, and the agreement after it.
 *
 * Each rank sends one small record (kr_call_record) to all others.  From these, and from the views that the aggregators
 * know (views.h), every rank computes which bytes go where in which round. So the ranks exchange nothing else but the
 * data.  A last agreement gives all ranks the same error class.  It also means that all ranks' bytes are in the file
 * when the call returns.
 */
#ifndef KR_MPIIO_COLLECTIVE_H
#define KR_MPIIO_COLLECTIVE_H

#include "mpiio/twophase/access.h"
#include "mpiio/twophase/file.h"
#include "mpiio/schedule/stripes.h"

struct kr_call_record {
	uint64_t start, count, runs; /* data bytes of the view; regions of the file, at most */
	int64_t lo, hi;              /* file range; 0, 0 when count is 0 */
	int64_t alone_lo, alone_hi;  /* see struct kr_write_order */
	struct kr_view_ref view;
	int32_t class;
	uint8_t ordered, hints_changed, exchanged;
};

enum kr_way { KR_WAY_NOTHING, KR_WAY_DIRECT, KR_WAY_TWO_PHASE };

struct kr_plan {
	struct kr_mpifile *file;
	struct kr_access *access;       /* this rank's */
	struct kr_call_record *records; /* of each rank; the file's */
	int64_t lo, hi;
	uint64_t bytes; /* of all ranks */
	enum kr_way way;
	int64_t alone_lo, alone_hi; /* what ranks wrote without the aggregators lies here; see write_order.h */
	bool relaxed; /* the newest bytes are those of this aggregator's node: it may read without asking other nodes */
	struct kr_stripes stripes;
	uint64_t rounds, call;
	/* Of two-phase I/O (twophase.h): */
	struct kr_slots *slots; /* NULL: not an aggregator */
	struct kr_window *window;
	uint64_t mark_ns; /* the end of the last traced exchange */
	int class;        /* the first error of this rank */
};

/* Does ACCESS with the other ranks.  CLASS is this rank's error so far, or MPI_SUCCESS.  Returns the error class, the
 * same on all ranks; *RET_DONE: this rank's bytes done.  Collective; one at a time per file. */
int kr_collective_run(struct kr_mpifile *file, struct kr_access *access, int class, uint64_t *ret_done);

/* The number of RANK's bytes in [lo, hi) of the file, and of its data bytes (from its start) before them. */
uint64_t kr_plan_share(const struct kr_plan *plan, int rank, int64_t lo, int64_t hi, uint64_t *ret_before);
/* RANK's view; at an aggregator, or for this rank itself.  Borrowed. */
struct kr_view kr_plan_view(const struct kr_plan *plan, int rank);
/* Adds a phase that ended now to the trace and the tally. */
void kr_plan_trace(const struct kr_plan *plan, enum kr_trace_phase phase, uint64_t round, uint32_t slot,
	uint64_t start_ns, uint64_t end_ns, uint64_t bytes);
/* The same for an exchange.  Rounds overlap: the trace shows as one round's exchange the time since the round before
 * was complete. */
void kr_plan_trace_exchange(struct kr_plan *plan, uint64_t round, uint64_t bytes);
/* Records an MPI error class, or MPI_SUCCESS. */
void kr_plan_record(struct kr_plan *plan, int class);
/* The slot of ROUND, at an aggregator. */
struct kr_slot *kr_plan_slot(const struct kr_plan *plan, uint64_t round);

#endif

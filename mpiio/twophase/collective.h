/* A collective data call: what all ranks agree on before it, which way it is done, and what they agree on after it.
 *
 * Each rank tells the others one small record (kr_call_record); from these and from the views that the aggregators know
 * (views.h) every rank computes by itself which bytes go where in which round, so that nothing more has to be exchanged
 * but the data.  A last agreement gives all ranks the same error class; it also means that when the call returns, all
 * bytes are in the file, whoever wrote them.
 */
#ifndef KR_MPIIO_COLLECTIVE_H
#define KR_MPIIO_COLLECTIVE_H

#include "mpiio/twophase/access.h"
#include "mpiio/twophase/file.h"
#include "mpiio/schedule/stripes.h"

struct kr_call_record {
	uint64_t start, count, runs; /* data bytes of the view; regions of the file, at most */
	int64_t lo, hi;              /* file range; 0, 0 when count is 0 */
	struct kr_view_note view;
	int32_t class;
	uint8_t ordered, hints_changed, wrote_alone, exchanged;
};

enum kr_way { KR_WAY_NOTHING, KR_WAY_DIRECT, KR_WAY_TWO_PHASE };

struct kr_plan {
	struct kr_mpifile *file;
	struct kr_access *access;       /* this rank's */
	struct kr_call_record *records; /* of each rank; the file's */
	int64_t lo, hi;
	uint64_t bytes; /* of all ranks */
	enum kr_way way;
	bool alone;   /* some rank wrote past the aggregators since the last sync or exchange */
	bool relaxed; /* what this aggregator's node wrote is the newest: it may be read without asking others */
	struct kr_stripes stripes;
	uint64_t rounds, call;
};

/* Does ACCESS with the other ranks.  CLASS is what is wrong with it on this rank already, or MPI_SUCCESS.  Returns the
 * error class, the same on all ranks; *RET_DONE are this rank's bytes done.  Collective; one at a time per file. */
int kr_collective_run(struct kr_mpifile *file, struct kr_access *access, int class, uint64_t *ret_done);

/* The bytes of RANK in [lo, hi) of the file: how many, and how many of its data bytes (from its start) lie before. */
uint64_t kr_plan_share(const struct kr_plan *plan, int rank, int64_t lo, int64_t hi, uint64_t *ret_before);
/* The view that RANK uses; at an aggregator, or for this rank itself. Borrowed. */
struct kr_view kr_plan_view(const struct kr_plan *plan, int rank);
/* Tells the trace and the tally of a phase that ended now. */
void kr_plan_trace(const struct kr_plan *plan, enum kr_trace_phase phase, uint64_t round, uint32_t slot,
	uint64_t start_ns, uint64_t end_ns, uint64_t bytes);

#endif

/* Exchange of views: each rank sends its file view to the aggregators once, and they keep it. A call with a known view
 * sends a few numbers only.  One of them is the view's position in the file: views that differ only in that count as
 * one. So a program's ranks, and its next steps, often share a view.
 *
 * A rank keeps KR_VIEW_SLOTS of its last views, and names one in its call record; the aggregators keep the same slots
 * for every rank.  Views that are one run need no slot.  When several ranks have equal fresh views, the lowest of them
 * sends it for all.
 */
#ifndef KR_MPIIO_VIEWS_H
#define KR_MPIIO_VIEWS_H

#include <mpi.h>
#include <stdbool.h>

#include "mpiio/datatype/view.h"

enum { KR_VIEW_SLOTS = 8, KR_VIEW_BYTES_MAX = 1 << 30 };

/* A rank's reference to its view; part of the call record. */
struct kr_view_ref {
	int64_t displacement; /* of the first data byte in the file */
	uint64_t hash;
	uint32_t bytes; /* of its tile as bytes (typemap.h), as if it began at 0 */
	uint8_t contiguous, fresh, slot;
};

struct kr_views {
	struct kr_sent_view {
		uint64_t hash, used;
		uint8_t *bytes;
		size_t length;
	} sent[KR_VIEW_SLOTS]; /* this rank's own */
	uint64_t clock;
	struct kr_typemap *(*known)[KR_VIEW_SLOTS]; /* at an aggregator: of each rank */
	int ranks;
	struct kr_typemap *byte; /* a map of one byte, for contiguous views */
};

/* 0 or -ENOMEM. */
int kr_views_init(struct kr_views *views, int ranks);
void kr_views_fini(struct kr_views *views);
/* Drops all sent views, because the aggregators have changed. */
void kr_views_drop_sent(struct kr_views *views);

/* Finds or takes a slot for VIEW.  0 or -ENOMEM, -E2BIG. */
int kr_views_refer(struct kr_views *views, const struct kr_view *view, struct kr_view_ref *ret_ref);
/* Collective.  Sends the fresh views to the aggregators (the COUNT ranks in AGGREGATORS).  Rank r's reference is at
 * REFS + r * STRIDE bytes.  0 or -errno of this rank; other ranks may have another result. */
int kr_views_exchange(struct kr_views *views, MPI_Comm comm, int rank, const void *refs, size_t stride,
	const uint32_t *aggregators, uint32_t count);
/* At an aggregator: RANK's view for REF; borrowed from VIEWS until the next call. */
struct kr_view kr_views_get(const struct kr_views *views, int rank, const struct kr_view_ref *ref);

#endif

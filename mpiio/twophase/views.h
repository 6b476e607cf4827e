/* Who knows whose view: each rank's file views are told to the aggregators once and kept there, so that a call that
 * uses a known view sends a few numbers only.  Where a view begins in the file is one of them: views that differ in
 * nothing else (those of the ranks of one program, those of its next steps) are one.
 *
 * A rank keeps KR_VIEW_SLOTS of its last views and says in its call record which of them it uses; the aggregators keep
 * the same slots for every rank.  Views that are one run need no slot.  When several ranks tell equal views at the same
 * time, the lowest of them sends it for all.
 */
#ifndef KR_MPIIO_VIEWS_H
#define KR_MPIIO_VIEWS_H

#include <mpi.h>
#include <stdbool.h>

#include "mpiio/datatype/view.h"

enum { KR_VIEW_SLOTS = 8, KR_VIEW_BYTES_MAX = 1 << 30 };

/* What a rank says of the view that it uses; part of the call record. */
struct kr_view_note {
	int64_t displacement; /* of the first data byte in the file */
	uint64_t hash;
	uint32_t bytes; /* of the serialised view, as if it began at 0 */
	uint8_t contiguous, fresh, slot;
};

struct kr_views {
	struct kr_told {
		uint64_t hash, used;
		uint8_t *bytes;
		size_t length;
	} told[KR_VIEW_SLOTS]; /* this rank's own */
	uint64_t clock;
	struct kr_view (*known)[KR_VIEW_SLOTS]; /* at an aggregator: of each rank */
	int ranks;
	struct kr_typemap *byte; /* a map of one byte, for contiguous views */
};

/* 0 or -ENOMEM. */
int kr_views_init(struct kr_views *views, int ranks);
void kr_views_fini(struct kr_views *views);
/* Forgets everything that was told: the aggregators are others now. */
void kr_views_forget(struct kr_views *views);

/* Finds or takes a slot for VIEW.  0 or -ENOMEM, -E2BIG. */
int kr_views_note(struct kr_views *views, const struct kr_view *view, struct kr_view_note *ret_note);
/* Collective.  Sends what the notes say is fresh to the aggregators (the COUNT ranks in AGGREGATORS).  Note r is at
 * NOTES
 * + r * STRIDE bytes.  0 or -errno of this rank; the others may have fared differently. */
int kr_views_exchange(struct kr_views *views, MPI_Comm comm, int rank, const void *notes, size_t stride,
	const uint32_t *aggregators, uint32_t count);
/* At an aggregator: the view that RANK's NOTE means; borrowed from VIEWS until the next call. */
struct kr_view kr_views_get(const struct kr_views *views, int rank, const struct kr_view_note *note);

#endif

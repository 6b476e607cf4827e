/* Stripes, owners and rounds of a collective call: arithmetic only.
 *
 * Stripe s is the file's bytes [s * stripe_size, (s + 1) * stripe_size) and belongs to aggregator s mod aggregators,
 * in every call and whatever the range.  A call over [lo, hi) touches the stripes first..last; in turn t every
 * aggregator has exactly one of the stripes first + t * aggregators ... first + (t + 1) * aggregators - 1 (or none, in
 * the last turn).  A stripe larger than the buffer is handled in pieces: round = turn * pieces + piece.  So each byte
 * of the range is in exactly one round, at its stripe's owner.
 */
#ifndef KR_MPIIO_STRIPES_H
#define KR_MPIIO_STRIPES_H

#include <stdbool.h>
#include <stdint.h>

struct kr_stripes {
	uint64_t stripe_size, piece_size, pieces; /* pieces per stripe */
	uint32_t aggregators;
	uint64_t lo, hi, first, last;
};

/* [LO, HI) is the range that all ranks together touch (LO == HI: no rounds).  BUFFER_SIZE is the most bytes an
 * aggregator handles at a time (0: the stripe).  -EINVAL: stripe_size or aggregators 0, LO > HI or HI above INT64_MAX,
 * too many rounds. */
int kr_stripes_init(struct kr_stripes *stripes, uint64_t stripe_size, uint64_t buffer_size, uint32_t aggregators,
	uint64_t lo, uint64_t hi);
uint64_t kr_stripes_rounds(const struct kr_stripes *stripes);
/* The bytes [lo, hi) that AGGREGATOR handles in ROUND; false when it has none. */
bool kr_stripes_window(
	const struct kr_stripes *stripes, uint64_t round, uint32_t aggregator, uint64_t *ret_lo, uint64_t *ret_hi);

#endif

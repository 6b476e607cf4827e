/* Stripe arithmetic; see stripes.h. */
#include "mpiio/schedule/stripes.h"

#include <errno.h>

#include "common/base/util.h"

int kr_stripes_init(struct kr_stripes *stripes, uint64_t stripe_size, uint64_t buffer_size, uint32_t aggregators,
	uint64_t lo, uint64_t hi)
{
	uint64_t piece = buffer_size == 0 ? stripe_size : KR_MIN(buffer_size, stripe_size), rounds;
	if (stripe_size == 0 || aggregators == 0 || lo > hi || hi > INT64_MAX)
		return -EINVAL;
	*stripes = (struct kr_stripes){
		.stripe_size = stripe_size,
		.piece_size = piece,
		.pieces = (stripe_size - 1) / piece + 1,
		.aggregators = aggregators,
		.lo = lo,
		.hi = hi,
		.first = lo / stripe_size,
		.last = hi > lo ? (hi - 1) / stripe_size : lo / stripe_size,
	};
	if (__builtin_mul_overflow((stripes->last - stripes->first) / aggregators + 1, stripes->pieces, &rounds))
		return -EINVAL;
	return 0;
}

uint64_t kr_stripes_rounds(const struct kr_stripes *stripes)
{
	if (stripes->lo == stripes->hi)
		return 0;
	return ((stripes->last - stripes->first) / stripes->aggregators + 1) * stripes->pieces;
}

/* The stripe that AGGREGATOR handles in TURN; false when it lies behind the range. */
static bool find_stripe(const struct kr_stripes *stripes, uint64_t turn, uint32_t aggregator, uint64_t *ret_stripe)
{
	uint64_t ahead =
		(aggregator + stripes->aggregators - stripes->first % stripes->aggregators) % stripes->aggregators;
	uint64_t span = stripes->last - stripes->first;
	if (ahead > span || turn > (span - ahead) / stripes->aggregators)
		return false;
	*ret_stripe = stripes->first + turn * stripes->aggregators + ahead;
	return true;
}

bool kr_stripes_window(
	const struct kr_stripes *stripes, uint64_t round, uint32_t aggregator, uint64_t *ret_lo, uint64_t *ret_hi)
{
	uint64_t stripe, piece = round % stripes->pieces, lo, hi;
	if (stripes->lo == stripes->hi || !find_stripe(stripes, round / stripes->pieces, aggregator, &stripe))
		return false;
	lo = stripe * stripes->stripe_size + piece * stripes->piece_size;
	/* The stripe may end above 2^63, its piece not above 2^64. */
	hi = lo + KR_MIN(stripes->piece_size, stripes->stripe_size - piece * stripes->piece_size);
	lo = KR_MAX(lo, stripes->lo);
	hi = KR_MIN(hi, stripes->hi);
	if (lo >= hi)
		return false;
	*ret_lo = lo;
	*ret_hi = hi;
	return true;
}

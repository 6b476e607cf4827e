/* How long things took: counts in buckets that double from 1 us to 67 s, and the sum.  Any thread adds and reads; a
 * reader that comes between may see a sum without its count. */
#ifndef KR_COMMON_HISTOGRAM_H
#define KR_COMMON_HISTOGRAM_H

#include <jansson.h>
#include <stdatomic.h>
#include <stdint.h>

/* Bucket I holds what took at most 2^I us and more than bucket I - 1; the last bucket all that took longer. */
enum { KR_HISTOGRAM_BUCKETS = 28 };

struct kr_histogram {
	_Atomic uint64_t counts[KR_HISTOGRAM_BUCKETS];
	_Atomic uint64_t sum_ns;
};

/* The bucket for NS nanoseconds. */
static inline unsigned kr_histogram_bucket(uint64_t ns)
{
	const uint64_t us = ns ? (ns - 1) / 1000 : 0; /* rounded up, minus 1 */
	const unsigned bits = us ? 64 - (unsigned)__builtin_clzll(us) : 0;

	return bits < KR_HISTOGRAM_BUCKETS - 1 ? bits : KR_HISTOGRAM_BUCKETS - 1;
}

static inline void kr_histogram_add(struct kr_histogram *histogram, uint64_t ns)
{
	atomic_fetch_add_explicit(&histogram->counts[kr_histogram_bucket(ns)], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&histogram->sum_ns, ns, memory_order_relaxed);
}

/* Adds all of FROM to TO. */
void kr_histogram_merge(struct kr_histogram *to, const struct kr_histogram *from);
/* {"count", "sum_us", "buckets": [...]}, owned.  The buckets are not cumulative, and end with the last that is not 0.
 * NULL: nothing was counted. */
json_t *kr_histogram_json(const struct kr_histogram *histogram);
/* Returns the time in us below which SHARE (0 to 1) of the counted times lie, interpolated within a bucket.  BUCKETS is
 * such an array.  BEFORE (may be NULL) is the same array at an earlier time: only what came since counts.  A result
 * below 0: nothing was counted. */
double kr_histogram_quantile(const json_t *buckets, const json_t *before, double share);

#endif

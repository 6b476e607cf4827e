#include "common/base/histogram.h"

void kr_histogram_merge(struct kr_histogram *to, const struct kr_histogram *from)
{
	for (unsigned i = 0; i < KR_HISTOGRAM_BUCKETS; i++)
		atomic_fetch_add_explicit(&to->counts[i], atomic_load_explicit(&from->counts[i], memory_order_relaxed),
			memory_order_relaxed);
	atomic_fetch_add_explicit(
		&to->sum_ns, atomic_load_explicit(&from->sum_ns, memory_order_relaxed), memory_order_relaxed);
}

json_t *kr_histogram_json(const struct kr_histogram *histogram)
{
	uint64_t counts[KR_HISTOGRAM_BUCKETS], total = 0;
	unsigned used = 0;
	json_t *buckets;

	for (unsigned i = 0; i < KR_HISTOGRAM_BUCKETS; i++) {
		counts[i] = atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
		total += counts[i];
		if (counts[i])
			used = i + 1;
	}
	if (!total)
		return NULL;
	buckets = json_array();
	for (unsigned i = 0; i < used; i++)
		json_array_append_new(buckets, json_integer((json_int_t)counts[i]));
	return json_pack("{s:I, s:I, s:o}", "count", (json_int_t)total, "sum_us",
		(json_int_t)(atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed) / 1000), "buckets",
		buckets);
}

static double count_at(const json_t *buckets, const json_t *before, size_t i)
{
	json_int_t count =
		json_integer_value(json_array_get(buckets, i)) - json_integer_value(json_array_get(before, i));

	return count > 0 ? (double)count : 0;
}

double kr_histogram_quantile(const json_t *buckets, const json_t *before, double share)
{
	const size_t size = json_array_size(buckets);
	double total = 0, below = 0, low = 0, high = 1;

	for (size_t i = 0; i < size; i++)
		total += count_at(buckets, before, i);
	if (total <= 0)
		return -1;
	for (size_t i = 0; i < size; i++) {
		double here = count_at(buckets, before, i);

		if (here > 0 && below + here >= share * total)
			return low + (high - low) * (share * total - below) / here;
		below += here;
		low = high;
		high *= 2;
	}
	return low;
}

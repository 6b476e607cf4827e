/* Latencies: which bucket takes what, and percentiles out of buckets. */
#include "common/base/histogram.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#define US UINT64_C(1000)

static void buckets_double_and_hold_their_upper_limit(void **state)
{
	(void)state;
	assert_int_equal(kr_histogram_bucket(0), 0);
	assert_int_equal(kr_histogram_bucket(1 * US), 0);
	assert_int_equal(kr_histogram_bucket(1 * US + 1), 1);
	for (unsigned i = 0; i < KR_HISTOGRAM_BUCKETS - 1; i++) {
		assert_int_equal(kr_histogram_bucket((UINT64_C(1) << i) * US), i);
		assert_int_equal(kr_histogram_bucket((UINT64_C(1) << i) * US + 1), i + 1);
	}
	assert_int_equal(kr_histogram_bucket(UINT64_MAX), KR_HISTOGRAM_BUCKETS - 1);
}

static void json_counts_all_and_ends_with_the_last_bucket_used(void **state)
{
	struct kr_histogram histogram = {0}, sum = {0};
	json_t *json, *buckets;

	(void)state;
	assert_null(kr_histogram_json(&histogram));
	kr_histogram_add(&histogram, 1 * US);
	kr_histogram_add(&histogram, 4 * US);
	kr_histogram_add(&histogram, 4 * US);
	kr_histogram_merge(&sum, &histogram);
	kr_histogram_merge(&sum, &histogram);
	json = kr_histogram_json(&sum);
	buckets = json_object_get(json, "buckets");
	assert_int_equal(json_integer_value(json_object_get(json, "count")), 6);
	assert_int_equal(json_integer_value(json_object_get(json, "sum_us")), 18);
	assert_int_equal(json_array_size(buckets), 3);
	assert_int_equal(json_integer_value(json_array_get(buckets, 0)), 2);
	assert_int_equal(json_integer_value(json_array_get(buckets, 1)), 0);
	assert_int_equal(json_integer_value(json_array_get(buckets, 2)), 4);
	json_decref(json);
}

static void quantiles_lie_in_their_bucket(void **state)
{
	json_t *buckets = json_pack("[i,i,i,i]", 50, 0, 49, 1), *before = json_pack("[i,i,i]", 50, 0, 49);

	(void)state;
	assert_true(kr_histogram_quantile(buckets, NULL, 0.5) <= 1);
	assert_true(kr_histogram_quantile(buckets, NULL, 0.75) > 2);
	assert_true(kr_histogram_quantile(buckets, NULL, 0.99) <= 4);
	assert_true(kr_histogram_quantile(buckets, NULL, 1) == 8);
	/* Only the slowest came since. */
	assert_true(kr_histogram_quantile(buckets, before, 0.5) > 4);
	assert_true(kr_histogram_quantile(buckets, buckets, 0.5) < 0);
	assert_true(kr_histogram_quantile(NULL, NULL, 0.5) < 0);
	json_decref(buckets);
	json_decref(before);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buckets_double_and_hold_their_upper_limit),
		cmocka_unit_test(json_counts_all_and_ends_with_the_last_bucket_used),
		cmocka_unit_test(quantiles_lie_in_their_bucket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The text of metrics: heads, suffixes, escapes, histograms. */
#include "common/metrics/exposition.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/util.h"

static void expect(const struct kr_metric *metrics, size_t count, json_t *status, const char *text)
{
	char *got = kr_exposition(metrics, count, status);

	assert_non_null(got);
	assert_string_equal(got, text);
	free(got);
	json_decref(status);
}

static void counters_end_with_total_and_units_are_scaled(void **state)
{
	static const struct kr_metric metrics[] = {
		{"x_read_bytes", .type = KR_METRIC_COUNTER, .unit = "bytes", .path = "a.read", .help = "Read."},
		{"x_age_seconds", .unit = "seconds", .divisor = 1000, .path = "a.age_ms", .help = "Age."},
		{"x_up", .path = "up", .help = "Up."},
		{"x_lost", .type = KR_METRIC_COUNTER, .path = "a.b.lost", .help = "Not in the status."},
	};

	(void)state;
	expect(metrics, KR_ARRAY_SIZE(metrics),
		json_pack("{s:{s:I, s:I}, s:b}", "a", "read", INT64_C(1) << 52, "age_ms", (json_int_t)1234567, "up", 1),
		"# TYPE x_read_bytes counter\n# UNIT x_read_bytes bytes\n# HELP x_read_bytes Read.\n"
		"x_read_bytes_total 4503599627370496\n"
		"# TYPE x_age_seconds gauge\n# UNIT x_age_seconds seconds\n# HELP x_age_seconds Age.\n"
		"x_age_seconds 1234.567\n"
		"# TYPE x_up gauge\n# HELP x_up Up.\nx_up 1\n"
		"# TYPE x_lost counter\n# HELP x_lost Not in the status.\n"
		"# EOF\n");
}

static void rows_of_one_name_are_one_metric(void **state)
{
	static const struct kr_metric metrics[] = {
		{"x_reads", .type = KR_METRIC_COUNTER, .path = "hits", .label = "result=hit", .help = "Reads."},
		{"x_reads", .path = "misses", .label = "result=miss"},
		{"x_kinds", .path = "kinds", .label = "kind", .help = "Kinds."},
	};

	(void)state;
	expect(metrics, KR_ARRAY_SIZE(metrics),
		json_pack("{s:i, s:i, s:{s:i, s:s}}", "hits", 3, "misses", 0, "kinds", "one", 1, "other", "no figure"),
		"# TYPE x_reads counter\n# HELP x_reads Reads.\n"
		"x_reads_total{result=\"hit\"} 3\nx_reads_total{result=\"miss\"} 0\n"
		"# TYPE x_kinds gauge\n# HELP x_kinds Kinds.\nx_kinds{kind=\"one\"} 1\n"
		"# EOF\n");
}

static void objects_of_an_array_are_labelled_by_their_members(void **state)
{
	static const struct kr_metric metrics[] = {
		{"x_bytes", .unit = "bytes", .array = "nodes", .path = "bytes", .label = "name,node", .help = "Bytes."},
	};

	(void)state;
	expect(metrics, 1,
		json_pack("{s:[{s:s, s:i, s:i}, {s:s, s:i, s:i}, {s:s}]}", "nodes", "name", "a", "node", 1, "bytes", 5,
			"name", "a\",ring=\"", "node", 2, "bytes", 0, "name", "no figure"),
		"# TYPE x_bytes gauge\n# UNIT x_bytes bytes\n# HELP x_bytes Bytes.\n"
		"x_bytes{name=\"a\",node=\"1\"} 5\nx_bytes{name=\"a\\\",ring=\\\"\",node=\"2\"} 0\n# EOF\n");
	expect(metrics, 1, json_object(), "# TYPE x_bytes gauge\n# UNIT x_bytes bytes\n# HELP x_bytes Bytes.\n# EOF\n");
}

static void labels_and_help_are_escaped(void **state)
{
	static const struct kr_metric metrics[] = {
		{"x", .type = KR_METRIC_INFO, .path = "text", .label = "value", .help = "A \"b\"\\c\nd."},
	};

	(void)state;
	expect(metrics, 1, json_pack("{s:s}", "text", "a\"b\\c\nd回"),
		"# TYPE x info\n# HELP x A \\\"b\\\"\\\\c\\nd.\nx_info{value=\"a\\\"b\\\\c\\nd回\"} 1\n# EOF\n");
}

static void histograms_are_cumulative(void **state)
{
	static const struct kr_metric metric = {"x_seconds", .type = KR_METRIC_HISTOGRAM, .unit = "seconds",
		.path = "times", .label = "operation", .help = "Times."};
	json_t *status = json_pack(
		"{s:{s:{s:i, s:i, s:[i,i,i]}}}", "times", "read", "count", 6, "sum_us", 2500000, "buckets", 1, 0, 5);
	char *text = kr_exposition(&metric, 1, status);
	unsigned buckets = 0;

	(void)state;
	assert_non_null(strstr(text,
		"\nx_seconds_bucket{operation=\"read\",le=\"1e-06\"} 1\n"
		"x_seconds_bucket{operation=\"read\",le=\"2e-06\"} 1\n"
		"x_seconds_bucket{operation=\"read\",le=\"4e-06\"} 6\n"
		"x_seconds_bucket{operation=\"read\",le=\"8e-06\"} 6\n"));
	assert_non_null(strstr(text,
		"x_seconds_bucket{operation=\"read\",le=\"67.108864\"} 6\n"
		"x_seconds_bucket{operation=\"read\",le=\"+Inf\"} 6\n"
		"x_seconds_count{operation=\"read\"} 6\n"
		"x_seconds_sum{operation=\"read\"} 2.5\n# EOF\n"));
	for (const char *at = text; (at = strstr(at, "_bucket{")) != NULL; at++)
		buckets++;
	assert_int_equal(buckets, 28);
	free(text);
	json_decref(status);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counters_end_with_total_and_units_are_scaled),
		cmocka_unit_test(rows_of_one_name_are_one_metric),
		cmocka_unit_test(objects_of_an_array_are_labelled_by_their_members),
		cmocka_unit_test(labels_and_help_are_escaped),
		cmocka_unit_test(histograms_are_cumulative),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* kairan envelope: medians, two envelopes beside each other, and pages. */
#include "tools/bench/envelope_page.h"
#include "tools/bench/envelope_view.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static json_t *envelope_of(double rate, json_int_t size)
{
	double rates[] = {rate * 2, rate, rate * 0.5};

	return json_pack("{s[o]}", "points", kr_envelope_point("write", 1, 2, size, rates, 3));
}

static void a_point_is_the_median_with_its_range(void **state)
{
	double rates[] = {30, 10, 20, 50, 40};
	json_t *point = kr_envelope_point("stat", 1, 4, 0, rates, 5);

	(void)state;
	assert_true(json_real_value(json_object_get(point, "per_s")) == 30);
	assert_true(json_real_value(json_object_get(point, "lowest")) == 10);
	assert_true(json_real_value(json_object_get(point, "highest")) == 50);
	json_decref(point);
}

static char *compared(json_t *a, json_t *b, size_t *ret_count)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	*ret_count = kr_envelope_compare(a, b, out);
	fclose(out);
	json_decref(a);
	json_decref(b);
	return text;
}

static void a_quotient_is_marked_where_the_ranges_are_apart(void **state)
{
	size_t count;
	char *text = compared(envelope_of(100, 1024), envelope_of(300, 1024), &count);

	(void)state;
	assert_int_equal(count, 1);
	assert_non_null(strstr(text, " 100.0        300.0     3.00\n")); /* 50 to 200, and 150 to 600 */
	free(text);
	text = compared(envelope_of(100, 1024), envelope_of(500, 1024), &count);
	assert_non_null(strstr(text, " 5.00 *\n"));
	free(text);
	text = compared(envelope_of(500, 1024), envelope_of(100, 1024), &count);
	assert_non_null(strstr(text, " 0.20 *\n"));
	free(text);
}

static void other_points_are_left_out(void **state)
{
	size_t count;
	char *text = compared(envelope_of(100, 1024), envelope_of(100, 2048), &count);

	(void)state;
	assert_int_equal(count, 0);
	free(text);
	text = compared(json_object(), envelope_of(100, 2048), &count);
	assert_int_equal(count, 0);
	free(text);
}

static void a_table_has_bytes_where_bytes_move(void **state)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	json_t *envelope = envelope_of(100, 1 << 20);

	(void)state;
	kr_envelope_print(envelope, out);
	fclose(out);
	assert_non_null(strstr(text, "100.0      100.0   -50 % to +100 %\n"));
	json_decref(envelope);
	free(text);
}

static size_t count_of(const char *text, const char *what)
{
	size_t count = 0;

	for (; (text = strstr(text, what)) != NULL; text++)
		count++;
	return count;
}

/* Two numbers of processes and two sizes, one operation on names. */
static json_t *measured(double factor)
{
	json_t *points = json_array();

	for (json_int_t processes = 1; processes <= 2; processes++)
		for (json_int_t size = 0; size <= 1 << 20; size += 1 << 19) {
			double rates[] = {10 * factor, 20 * factor, 40 * factor};

			json_array_append_new(
				points, kr_envelope_point(size ? "write" : "create", 1, processes, size, rates, 3));
		}
	return json_pack("{s{ss} so}", "machine", "node", "<n&1>", "points", points);
}

static void a_page_has_lines_and_points_of_one_or_two(void **state)
{
	json_t *a = measured(1), *b = measured(2);
	char *text = NULL;
	size_t length;

	(void)state;
	for (int two = 0; two < 2; two++) {
		FILE *out = open_memstream(&text, &length);

		kr_envelope_page(a, two ? b : NULL, out);
		fclose(out);
		assert_int_equal(count_of(text, "<svg"), 2); /* names, and writes with two panels */
		assert_int_equal(count_of(text, "<title>create:"), two ? 4 : 2);
		assert_int_equal(count_of(text, "<title>2 processes: 10 MiB/s, 5 to 20</title>"), 1);
		assert_int_equal(count_of(text, "dasharray:5 3\"/>"), two ? 5 + 3 : 0); /* with legends */
		assert_null(strstr(text, "<n&1>"));
		assert_non_null(strstr(text, "&#60;n&#38;1&#62;"));
		free(text);
	}
	json_decref(a);
	json_decref(b);
}

static void a_page_without_points_ends(void **state)
{
	json_t *nothing = json_pack("{s[{ss sf}]}", "points", "what", "create", "lowest", -1.0);
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	(void)state;
	kr_envelope_page(nothing, NULL, out);
	fclose(out);
	assert_non_null(strstr(text, "</html>"));
	json_decref(nothing);
	free(text);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_point_is_the_median_with_its_range),
		cmocka_unit_test(a_quotient_is_marked_where_the_ranges_are_apart),
		cmocka_unit_test(other_points_are_left_out),
		cmocka_unit_test(a_table_has_bytes_where_bytes_move),
		cmocka_unit_test(a_page_has_lines_and_points_of_one_or_two),
		cmocka_unit_test(a_page_without_points_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

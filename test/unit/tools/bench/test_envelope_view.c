/* kairan envelope: medians, and two envelopes beside each other. */
#include "tools/bench/envelope_view.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static json_t *envelope_of(double rate, json_int_t size)
{
	double rates[] = {rate * 2, rate, rate * 0.5};

	return json_pack("{s[o]}", "points", kr_envelope_point("write", 2, size, rates, 3));
}

static void a_point_is_the_median_with_its_range(void **state)
{
	double rates[] = {30, 10, 20, 50, 40};
	json_t *point = kr_envelope_point("stat", 4, 0, rates, 5);

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_point_is_the_median_with_its_range),
		cmocka_unit_test(a_quotient_is_marked_where_the_ranges_are_apart),
		cmocka_unit_test(other_points_are_left_out),
		cmocka_unit_test(a_table_has_bytes_where_bytes_move),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

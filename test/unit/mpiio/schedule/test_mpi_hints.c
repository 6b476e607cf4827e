/* Hints of MPI-IO: values in and out, from the environment and from the program. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "mpiio/schedule/hints.h"

static struct kr_hints defaults(void)
{
	struct kr_hints hints;

	kr_hints_defaults(&hints);
	return hints;
}

static void good_values_are_taken(void **context)
{
	struct kr_hints hints = defaults();

	(void)context;
	assert_true(kr_hints_set(&hints, "cb_buffer_size", "1048576"));
	assert_true(kr_hints_set(&hints, "striping_unit", " 65536 "));
	assert_true(kr_hints_set(&hints, "cb_nodes", "3"));
	assert_true(kr_hints_set(&hints, "romio_cb_write", "ENABLE"));
	assert_true(kr_hints_set(&hints, "romio_cb_read", "disable"));
	assert_true(kr_hints_set(&hints, "kairan_order", "pairwise"));
	assert_true(kr_hints_set(&hints, "cb_config_list", "a:2,*:1"));
	assert_int_equal(hints.cb_buffer_size, 1048576);
	assert_int_equal(hints.striping_unit, 65536);
	assert_int_equal(hints.cb_nodes, 3);
	assert_int_equal(hints.write, KR_ENABLE);
	assert_int_equal(hints.read, KR_DISABLE);
	assert_int_equal(hints.order, KR_ORDER_PAIRWISE);
	assert_string_equal(hints.cb_config_list, "a:2,*:1");
}

static void bad_values_change_nothing(void **context)
{
	static const char *const bad[][2] = {
		{"cb_buffer_size", "0"},
		{"cb_buffer_size", "-4096"},
		{"cb_buffer_size", "4096x"},
		{"cb_buffer_size", ""},
		{"cb_buffer_size", "99999999999999999999999"},
		{"cb_nodes", "0"},
		{"cb_nodes", "many"},
		{"kairan_slots", "0"},
		{"kairan_slots", "17"},
		{"romio_cb_write", "yes"},
		{"kairan_order", "random"},
		{"kairan_window", "-1"},
		{"striping_unit", "100"},
		{"no_such_hint", "1"},
		{"", ""},
	};
	struct kr_hints hints = defaults(), before = defaults();

	(void)context;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_false(kr_hints_set(&hints, bad[i][0], bad[i][1]));
		assert_memory_equal(&hints, &before, sizeof(hints));
	}
}

static void pieces_grow_with_the_ranks_within_bounds(void **context)
{
	(void)context;
	assert_int_equal(defaults().cb_buffer_size, 0);
	assert_int_equal(kr_hints_piece(1), 512 << 10);
	assert_int_equal(kr_hints_piece(12), 512 << 10);
	assert_int_equal(kr_hints_piece(64), 2 << 20);
	assert_int_equal(kr_hints_piece(1 << 30), 16 << 20);
}

static void too_long_a_text_changes_nothing(void **context)
{
	struct kr_hints hints = defaults(), before = defaults();
	char text[KR_HINT_TEXT_MAX + 1];

	(void)context;
	memset(text, '*', KR_HINT_TEXT_MAX);
	text[KR_HINT_TEXT_MAX] = '\0';
	assert_false(kr_hints_set(&hints, "cb_config_list", text));
	assert_memory_equal(&hints, &before, sizeof(hints));
	text[KR_HINT_TEXT_MAX - 1] = '\0';
	assert_true(kr_hints_set(&hints, "cb_config_list", text));
}

static void a_list_takes_what_is_usable(void **context)
{
	struct kr_hints hints = defaults();

	(void)context;
	kr_hints_set_list(&hints, "kairan_window=7;;nonsense;kairan_slots=100;cb_config_list=a,b:2;kairan_order=rank");
	assert_int_equal(hints.window, 7);
	assert_int_equal(hints.slots, defaults().slots);
	assert_string_equal(hints.cb_config_list, "a,b:2");
	assert_int_equal(hints.order, KR_ORDER_RANK);
}

/* What get tells can be set again, and comes to the same. */
static void values_survive_telling(void **context)
{
	struct kr_hints hints = defaults(), again = defaults();
	char value[KR_HINT_TEXT_MAX];
	const char *key;

	(void)context;
	kr_hints_set_list(
		&hints, "cb_nodes=5;striping_unit=8192;kairan_order=nd_shift;romio_cb_read=enable;kairan_trace=/tmp/t");
	for (size_t i = 0; (key = kr_hints_get(&hints, i, value)) != NULL; i++)
		kr_hints_set(&again, key, value);
	assert_memory_equal(&hints, &again, sizeof(hints));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(good_values_are_taken),
		cmocka_unit_test(bad_values_change_nothing),
		cmocka_unit_test(pieces_grow_with_the_ranks_within_bounds),
		cmocka_unit_test(too_long_a_text_changes_nothing),
		cmocka_unit_test(a_list_takes_what_is_usable),
		cmocka_unit_test(values_survive_telling),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

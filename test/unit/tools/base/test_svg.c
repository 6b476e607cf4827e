/* Drawings and pages. */
#include "tools/base/svg.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

static char *text;
static size_t length;

static FILE *begin(void)
{
	free(text);
	text = NULL;
	return open_memstream(&text, &length);
}

static void no_text_is_markup(void **state)
{
	static const char evil[] = "</title><script>&\"'\x01\n\xff";
	FILE *out = begin();

	(void)state;
	kr_page_begin(out, evil);
	kr_page_text(out, "p", evil);
	kr_svg_begin(out, 10, 10);
	kr_svg_rect(out, 0, 0, 1, 1, "fill:red", evil);
	kr_svg_text(out, 0, 0, "start", evil);
	fclose(out);
	assert_null(strstr(text, "<script"));
	assert_null(strchr(text, '\xff'));
	assert_non_null(
		strstr(text, "<title>&#60;/title&#62;&#60;script&#62;&#38;&#34;&#39;\\001\\012\\377</title></rect>"));
	assert_non_null(strstr(text, "<p>&#60;/title&#62;&#60;script&#62;&#38;&#34;&#39;\x01\n\\377</p>"));
}

static void marks_are_1_2_or_5_times_a_power_of_ten(void **state)
{
	static const double expected[][2] = {{10, 1}, {10.1, 2}, {21, 5}, {51, 10}, {0.99, 0.1}, {4e9, 5e8}};

	(void)state;
	for (size_t i = 0; i < sizeof(expected) / sizeof(*expected); i++) {
		const double tick = kr_svg_tick(expected[i][0], 10);

		assert_true(tick > expected[i][1] * 0.999 && tick < expected[i][1] * 1.001);
	}
	assert_true(kr_svg_tick(0, 10) > 0);
}

static int tear_down(void **state)
{
	(void)state;
	free(text);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_text_is_markup),
		cmocka_unit_test(marks_are_1_2_or_5_times_a_power_of_ten),
	};

	return cmocka_run_group_tests(tests, NULL, tear_down);
}

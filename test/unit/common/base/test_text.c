/* What names look like in JSON and on terminals. */
#include "common/base/text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

static void expect(char *(*convert)(const char *bytes), const char *bytes, const char *text)
{
	char *got = convert(bytes);

	assert_string_equal(got, text);
	free(got);
}

static void utf8_stays_as_it_is(void **state)
{
	static const char *const texts[] = {
		"", "plain", "回覧 \xc3\xbc \xf0\x9f\x98\x80", "a\\351b", "\xf4\x8f\xbf\xbf"};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		expect(kr_text_utf8, texts[i], texts[i]);
		expect(kr_text_shown, texts[i], texts[i]);
	}
	expect(kr_text_utf8, "line\nbreak\x1b[31m\x7f", "line\nbreak\x1b[31m\x7f");
}

static void bytes_that_are_no_characters_are_octal(void **state)
{
	(void)state;
	expect(kr_text_utf8, "latin\xe9", "latin\\351");
	expect(kr_text_utf8,
		"\xe9"
		"a",
		"\\351a");
	expect(kr_text_utf8, "\x80\xff", "\\200\\377");
	expect(kr_text_utf8, "\xc0\x80", "\\300\\200");                   /* overlong */
	expect(kr_text_utf8, "\xe0\x80\xaf", "\\340\\200\\257");          /* overlong */
	expect(kr_text_utf8, "\xed\xa0\x80", "\\355\\240\\200");          /* a surrogate */
	expect(kr_text_utf8, "\xf4\x90\x80\x80", "\\364\\220\\200\\200"); /* beyond the last */
	expect(kr_text_utf8, "\xf8\x88\x80\x80\x80", "\\370\\210\\200\\200\\200");
	expect(kr_text_utf8, "\xe5\x9b", "\\345\\233"); /* cut short */
	expect(kr_text_shown, "\xe5\x9b\n", "\\345\\233\\012");
}

static void controls_are_shown_as_octal(void **state)
{
	(void)state;
	expect(kr_text_shown, "line\nbreak", "line\\012break");
	expect(kr_text_shown, "\x1b[31mred\x7f", "\\033[31mred\\177");
	expect(kr_text_shown,
		"\xc2\x9b"
		"1m\xc2\xa0",
		"\\302\\2331m\xc2\xa0");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(utf8_stays_as_it_is),
		cmocka_unit_test(bytes_that_are_no_characters_are_octal),
		cmocka_unit_test(controls_are_shown_as_octal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

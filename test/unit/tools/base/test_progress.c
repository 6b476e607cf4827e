/* What kairan flush and umount tell of a transfer. */
#include "tools/base/progress.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MIB = 1 << 20 };

static void expect(const struct kr_progress *progress, const char *bar, const char *text)
{
	char got_bar[KR_PROGRESS_BAR + 1], got_text[KR_PROGRESS_TEXT];

	kr_progress_bar(progress, got_bar);
	kr_progress_text(progress, got_text);
	assert_string_equal(got_bar, bar);
	assert_string_equal(got_text, text);
}

/* A steady transfer, looked at each 100 ms. */
static void run(struct kr_progress *progress, json_int_t *now_ms, json_int_t to, json_int_t per_look)
{
	for (json_int_t rest = progress->rest; rest > to;) {
		rest = rest - per_look > to ? rest - per_look : to;
		*now_ms += 100;
		kr_progress_update(progress, *now_ms, rest, progress->total - rest, 0);
	}
}

static void rate_and_time_left_are_of_the_last_seconds(void **state)
{
	struct kr_progress progress = {0};
	json_int_t now_ms = 5000;

	(void)state;
	kr_progress_update(&progress, now_ms, 100 * (json_int_t)MIB, 0, 0);
	expect(&progress, "........................", "0 bytes of 100.0 MiB sent, nothing moves");
	run(&progress, &now_ms, 50 * (json_int_t)MIB, MIB / 8);
	expect(&progress, "############............", "50.0 MiB of 100.0 MiB sent, 1.2 MiB/s, 40.0 s left");
	run(&progress, &now_ms, 0, 10 * (json_int_t)MIB);
	expect(&progress, "########################",
		"100.0 MiB of 100.0 MiB sent, 100.0 MiB wait for the server's disk");
	kr_progress_update(&progress, now_ms + 100, 0, 0, 0);
	expect(&progress, "########################", "100.0 MiB of 100.0 MiB sent");
}

static void bytes_that_are_sent_again_make_no_larger_total(void **state)
{
	struct kr_progress progress = {0};

	(void)state;
	kr_progress_update(&progress, 0, 8 * MIB, 0, 0);
	kr_progress_update(&progress, 1000, 2 * MIB, 6 * MIB, 0);
	kr_progress_update(&progress, 2000, 8 * MIB, 0, 0); /* the stream broke */
	for (json_int_t now_ms = 3000; now_ms < 60000; now_ms += 1000)
		kr_progress_update(&progress, now_ms, 8 * MIB, 0, 0);
	expect(&progress, "........................", "0 bytes of 8.0 MiB sent, nothing moves");
}

static void refused_bytes_have_no_time_left(void **state)
{
	struct kr_progress progress = {0};

	(void)state;
	kr_progress_update(&progress, 0, 3 * MIB, 0, 3 * MIB);
	expect(&progress, "........................", "0 bytes of 3.0 MiB sent, 3.0 MiB refused");
}

static void nothing_to_be_sent_is_all(void **state)
{
	struct kr_progress progress = {0};

	(void)state;
	kr_progress_update(&progress, 0, 0, 0, 0);
	expect(&progress, "########################", "0 bytes of 0 bytes sent");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rate_and_time_left_are_of_the_last_seconds),
		cmocka_unit_test(bytes_that_are_sent_again_make_no_larger_total),
		cmocka_unit_test(refused_bytes_have_no_time_left),
		cmocka_unit_test(nothing_to_be_sent_is_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

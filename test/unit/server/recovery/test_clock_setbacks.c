/* The clock is set back: which times can deceive, and for how long. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/util.h"
#include "server/recovery/clock_setbacks.h"
#include "test/unit/directory.h"

#define S KR_NS_PER_S

static bool doubt(const struct kr_setbacks *setbacks, int64_t changed, int64_t since)
{
	return kr_setbacks_doubt(setbacks, (struct kr_time){.sec = changed}, (struct kr_time){.sec = since});
}

static void a_clock_that_goes_forward_deceives_nobody(void **state)
{
	struct kr_setbacks setbacks = {0};

	(void)state;
	kr_setbacks_look(&setbacks, 1000 * S, 10 * S);
	kr_setbacks_look(&setbacks, 1001 * S, 11 * S);
	kr_setbacks_look(&setbacks, 5000 * S, 12 * S);
	kr_setbacks_look(&setbacks, 5000 * S + S / 2, 13 * S); /* adjusted a little */
	assert_int_equal(setbacks.count, 0);
	assert_true(setbacks.unsaved); /* if it is set back next, that may be seen by the next instance only */
	assert_false(doubt(&setbacks, 1000, 1001));
}

/* At 5000 a node writes, at 1000 by the next clock another, and then the clock is right again. */
static void what_is_changed_after_a_setback_can_have_an_earlier_time(void **state)
{
	struct kr_setbacks setbacks = {0};

	(void)state;
	kr_setbacks_look(&setbacks, 5000 * S, 10 * S);
	kr_setbacks_look(&setbacks, 1001 * S, 12 * S);
	kr_setbacks_look(&setbacks, 9000 * S, 13 * S);
	assert_int_equal(setbacks.count, 1);
	assert_true(doubt(&setbacks, 1000, 4999));
	assert_true(doubt(&setbacks, 998, 5002));
	assert_false(doubt(&setbacks, 990, 4999));  /* before both */
	assert_false(doubt(&setbacks, 1000, 5010)); /* a moment that came only once */
	assert_false(doubt(&setbacks, 8000, 8999));
}

static void many_setbacks_become_one(void **state)
{
	struct kr_setbacks setbacks = {0};

	(void)state;
	for (uint64_t i = 0; i < 3 * KR_SETBACKS_MAX; i++) {
		kr_setbacks_look(&setbacks, (1000 * i + 1500) * S, (10 + 2 * i) * S);
		kr_setbacks_look(&setbacks, (1000 * i + 1000) * S, (11 + 2 * i) * S);
	}
	assert_int_equal(setbacks.count, KR_SETBACKS_MAX);
	for (int64_t i = 0; i < 3 * KR_SETBACKS_MAX; i++)
		assert_true(doubt(&setbacks, 1000 * i + 1000, 1000 * i + 1500));
}

/* The machine's clock is wrong when it boots, and nobody has seen how far it got before. */
static void a_boot_with_an_earlier_clock_is_a_setback(void **state)
{
	struct kr_setbacks setbacks = {0};

	(void)state;
	kr_setbacks_boot(&setbacks, 5000 * S, 100 * S, 120);
	assert_int_equal(setbacks.count, 0); /* nothing was known */
	kr_setbacks_boot(&setbacks, 1030 * S, 30 * S, 120);
	assert_int_equal(setbacks.count, 1);
	assert_true(doubt(&setbacks, 1000, 5100));
	assert_false(doubt(&setbacks, 1000, 5200));
	kr_setbacks_boot(&setbacks, 9000 * S, 30 * S, 120);
	assert_int_equal(setbacks.count, 1);
}

/* A standby, say, takes the export over. */
static void that_another_machine_was_up_before_is_no_setback(void **state)
{
	struct kr_setbacks setbacks = {0};

	(void)state;
	kr_setbacks_boot(&setbacks, 5000 * S, 100 * S, 120);
	kr_setbacks_boot(&setbacks, 5300 * S, 4000 * S, 120);
	assert_int_equal(setbacks.count, 0);
	kr_setbacks_boot(&setbacks, 5310 * S, 4000 * S, 120); /* at once: the former clock may have been ahead */
	assert_true(doubt(&setbacks, 5310, 5400));
	assert_false(doubt(&setbacks, 5000, 5300));
	kr_setbacks_boot(&setbacks, 5200 * S, 4000 * S, 120); /* its clock is behind */
	assert_true(doubt(&setbacks, 5250, 5300));
}

static void open_and_save(struct kr_setbacks *setbacks, int dir, const uint8_t boot_id[16])
{
	assert_int_equal(kr_setbacks_open(setbacks, dir, boot_id), 0);
	assert_int_equal(kr_setbacks_save(setbacks, dir, boot_id), 0);
}

static void the_next_instance_knows_of_a_setback(void **state)
{
	char directory[] = "/tmp/kr-test-setbacks-XXXXXX";
	static const uint8_t boot[16] = {1}, next_boot[16] = {2};
	struct kr_setbacks setbacks;
	const int64_t now = (int64_t)(kr_clock_real_ns() / S);
	int dir;

	(void)state;
	assert_non_null(mkdtemp(directory));
	dir = open(directory, O_RDONLY | O_DIRECTORY);
	assert_true(dir >= 0);
	open_and_save(&setbacks, dir, boot);
	assert_int_equal(setbacks.count, 0);
	open_and_save(&setbacks, dir, boot); /* its clock has gone on */
	assert_int_equal(setbacks.count, 0);
	assert_int_equal(kr_write_file(dir, "clock", "boot 01", 7, 0600), 0); /* torn */
	open_and_save(&setbacks, dir, boot);
	assert_int_equal(setbacks.count, 0);
	for (int i = 0; i < 2;
		i++) { /* another boot that began before the first one ended: by a clock that was set back */
		open_and_save(&setbacks, dir, next_boot);
		assert_int_equal(setbacks.count, 1);
		assert_true(doubt(&setbacks, now, now));
	}
	close(dir);
	directory_remove(directory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_clock_that_goes_forward_deceives_nobody),
		cmocka_unit_test(what_is_changed_after_a_setback_can_have_an_earlier_time),
		cmocka_unit_test(many_setbacks_become_one),
		cmocka_unit_test(a_boot_with_an_earlier_clock_is_a_setback),
		cmocka_unit_test(that_another_machine_was_up_before_is_no_setback),
		cmocka_unit_test(the_next_instance_knows_of_a_setback),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What is seen of a file: whose change it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/base/util.h"
#include "server/leases/last_stat.h"

enum { TOLD = true, UNTOLD = false };
#define MS KR_NS_PER_MS
static const uint64_t start = 1000 * KR_NS_PER_S;

static bool look(
	struct kr_last_stat *seen, uint64_t ctime_ns, uint64_t size, uint64_t changes, bool told, uint64_t now_ns)
{
	struct kr_attr attr = {.size = size,
		.ctime = {.sec = (int64_t)(ctime_ns / KR_NS_PER_S), .nsec = (uint32_t)(ctime_ns % KR_NS_PER_S)}};

	return kr_last_stat_changed(seen, &attr, changes, told, now_ns);
}

static void the_first_look_says_nothing(void **state)
{
	struct kr_last_stat seen = {0};

	(void)state;
	assert_false(look(&seen, start, 10, 4, TOLD, start));
	assert_true(seen.known);
}

static void a_new_ctime_without_a_change_of_ours_is_anothers(void **state)
{
	struct kr_last_stat seen = {0};

	(void)state;
	look(&seen, start, 10, 4, TOLD, start);
	assert_false(look(&seen, start, 10, 4, TOLD, start + 900 * MS));
	assert_true(look(&seen, start + 1, 10, 4, TOLD, start + 900 * MS));
	assert_false(look(&seen, start + 1, 10, 4, TOLD, start + 901 * MS));
}

static void a_ctime_that_goes_back_is_a_change(void **state)
{
	struct kr_last_stat seen = {0};

	(void)state;
	look(&seen, start, 10, 4, TOLD, start);
	assert_true(look(&seen, start - 1, 10, 4, TOLD, start));
}

static void after_a_change_of_ours_the_count_begins_anew(void **state)
{
	struct kr_last_stat seen = {0};

	(void)state;
	look(&seen, start, 10, 4, TOLD, start);
	assert_false(look(&seen, start + 5, 20, 6, TOLD, start + 5));
	assert_true(look(&seen, start + 6, 20, 6, TOLD, start + 6));
}

/* The state before a round of ours, judged by the old count, tells what others did until then. */
static void a_foreign_change_just_before_ours_is_found_by_the_look_before_it(void **state)
{
	struct kr_last_stat seen = {0};

	(void)state;
	look(&seen, start, 10, 4, TOLD, start);
	assert_true(look(&seen, start + 1, 10, 4, TOLD, start + 2));
}

static void a_young_state_is_doubted_once(void **state)
{
	struct kr_last_stat seen = {0};

	(void)state;
	look(&seen, start, 10, 4, UNTOLD, start + 3 * MS);
	assert_false(
		look(&seen, start, 10, 4, UNTOLD, start + 1900 * MS)); /* what comes now could still look the same */
	assert_true(look(&seen, start, 10, 4, UNTOLD, start + 2001 * MS));
	assert_false(look(&seen, start, 10, 4, UNTOLD, start + 3000 * MS));
}

static void an_old_state_is_believed(void **state)
{
	struct kr_last_stat seen = {0};

	(void)state;
	look(&seen, start, 10, 4, UNTOLD, start + 2001 * MS);
	assert_false(look(&seen, start, 10, 4, UNTOLD, start + 3000 * MS));
}

static void a_state_is_recent_for_a_minute(void **state)
{
	struct kr_last_stat seen = {0};

	(void)state;
	assert_false(kr_last_stat_recent(&seen, start));
	look(&seen, start, 10, 4, TOLD, start + 3 * MS);
	assert_true(kr_last_stat_recent(&seen, start - 5)); /* the clock was set back */
	assert_true(kr_last_stat_recent(&seen, start + 59 * KR_NS_PER_S));
	assert_false(kr_last_stat_recent(&seen, start + 60 * KR_NS_PER_S));
}

/* A clock with ticks, a looker and foreign changes at random, which have their ctime from their beginning: whatever is
 * changed, some later look says so. */
static void no_change_between_two_of_ours_is_missed(void **state)
{
	enum { TICK = 10, STEPS = 200 };
	uint64_t random = 7;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		uint64_t now = start + (uint64_t)round, ctime = now / (TICK * MS) * (TICK * MS), ends = 0;
		struct kr_last_stat seen = {0};
		bool owed = false;

		look(&seen, ctime, 1, 2, UNTOLD, now);
		for (int step = 0; step < STEPS; step++) {
			random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
			now += (random >> 33) % (30 * MS);
			if (ends && now >= ends) {
				owed = true;
				ends = 0;
			}
			if (random >> 60 == 0) {
				ctime = now / (TICK * MS) * (TICK * MS);
				owed = true;
				ends = now + (random >> 20) % (1900 * MS);
			} else if (random >> 62 != 0 && look(&seen, ctime, 1, 2, UNTOLD, now)) {
				owed = false;
			}
		}
		owed |= ends != 0;
		now += 4 * KR_NS_PER_S;
		if (look(&seen, ctime, 1, 2, UNTOLD, now))
			owed = false;
		assert_false(owed);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_look_says_nothing),
		cmocka_unit_test(a_new_ctime_without_a_change_of_ours_is_anothers),
		cmocka_unit_test(a_ctime_that_goes_back_is_a_change),
		cmocka_unit_test(after_a_change_of_ours_the_count_begins_anew),
		cmocka_unit_test(a_foreign_change_just_before_ours_is_found_by_the_look_before_it),
		cmocka_unit_test(a_young_state_is_doubted_once),
		cmocka_unit_test(an_old_state_is_believed),
		cmocka_unit_test(a_state_is_recent_for_a_minute),
		cmocka_unit_test(no_change_between_two_of_ours_is_missed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

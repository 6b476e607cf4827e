/* What is seen of a file: whose change it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/util.h"
#include "server/seen.h"

enum { EXACT = true, COARSE = false };
#define MS KR_NS_PER_MS
static const uint64_t start = 1000 * KR_NS_PER_S;

static bool look(struct kr_seen *seen, uint64_t ctime_ns, uint64_t size, uint64_t changes, bool exact, uint64_t now_ns)
{
	struct kr_attr attr = {.size = size,
		.ctime = {.sec = (int64_t)(ctime_ns / KR_NS_PER_S), .nsec = (uint32_t)(ctime_ns % KR_NS_PER_S)}};

	return kr_seen_changed(seen, &attr, changes, exact, now_ns);
}

static void the_first_look_says_nothing(void **state)
{
	struct kr_seen seen = {0};

	(void)state;
	assert_false(look(&seen, start, 10, 4, EXACT, start));
	assert_true(seen.known);
}

static void a_new_ctime_without_a_change_of_ours_is_anothers(void **state)
{
	struct kr_seen seen = {0};

	(void)state;
	look(&seen, start, 10, 4, EXACT, start);
	assert_false(look(&seen, start, 10, 4, EXACT, start + 900 * MS));
	assert_true(look(&seen, start + 1, 10, 4, EXACT, start + 900 * MS));
	assert_false(look(&seen, start + 1, 10, 4, EXACT, start + 901 * MS));
}

static void a_ctime_that_goes_back_is_a_change(void **state)
{
	struct kr_seen seen = {0};

	(void)state;
	look(&seen, start, 10, 4, EXACT, start);
	assert_true(look(&seen, start - 1, 10, 4, EXACT, start));
}

static void after_a_change_of_ours_the_count_begins_anew(void **state)
{
	struct kr_seen seen = {0};

	(void)state;
	look(&seen, start, 10, 4, EXACT, start);
	assert_false(look(&seen, start + 5, 20, 6, EXACT, start + 5));
	assert_true(look(&seen, start + 6, 20, 6, EXACT, start + 6));
}

/* The state before a round of ours, judged by the old count, tells what others did until then. */
static void a_foreign_change_just_before_ours_is_found_by_the_look_before_it(void **state)
{
	struct kr_seen seen = {0};

	(void)state;
	look(&seen, start, 10, 4, EXACT, start);
	assert_true(look(&seen, start + 1, 10, 4, EXACT, start + 2));
}

static void with_coarse_clocks_a_young_state_is_doubted_once(void **state)
{
	struct kr_seen seen = {0};

	(void)state;
	look(&seen, start, 10, 4, COARSE, start + 3 * MS);
	assert_false(look(&seen, start, 10, 4, COARSE, start + 20 * MS)); /* a change now could still look the same */
	assert_true(look(&seen, start, 10, 4, COARSE, start + 1000 * MS));
	assert_false(look(&seen, start, 10, 4, COARSE, start + 2000 * MS));
}

static void with_coarse_clocks_an_old_state_is_believed(void **state)
{
	struct kr_seen seen = {0};

	(void)state;
	look(&seen, start, 10, 4, COARSE, start + 60 * MS);
	assert_false(look(&seen, start, 10, 4, COARSE, start + 1000 * MS));
}

/* A clock with ticks, a looker and foreign changes at random: whatever is changed, some later look says so. */
static void no_change_between_two_of_ours_is_missed(void **state)
{
	enum { TICK = 10 };
	uint64_t random = 7;

	(void)state;
	for (int round = 0; round < 2000; round++) {
		uint64_t now = start + (uint64_t)round, ctime = now / (TICK * MS) * (TICK * MS);
		struct kr_seen seen = {0};
		bool owed = false;

		look(&seen, ctime, 1, 2, COARSE, now);
		for (int step = 0; step < 50; step++) {
			random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
			now += (random >> 33) % (30 * MS);
			if (random >> 62 == 0) {
				ctime = now / (TICK * MS) * (TICK * MS);
				owed = true;
			} else if (look(&seen, ctime, 1, 2, COARSE, now)) {
				owed = false;
			}
		}
		now += KR_NS_PER_S;
		if (look(&seen, ctime, 1, 2, COARSE, now))
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
		cmocka_unit_test(with_coarse_clocks_a_young_state_is_doubted_once),
		cmocka_unit_test(with_coarse_clocks_an_old_state_is_believed),
		cmocka_unit_test(no_change_between_two_of_ours_is_missed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

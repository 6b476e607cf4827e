/* What is seen of a file: whose change it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/base/util.h"
#include "server/base/last_stat.h"

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

static struct kr_attr state_of(uint64_t ctime_ns, uint64_t size, int64_t mtime)
{
	return (struct kr_attr){.size = size,
		.mtime = {.sec = mtime},
		.ctime = {.sec = (int64_t)(ctime_ns / KR_NS_PER_S), .nsec = (uint32_t)(ctime_ns % KR_NS_PER_S)}};
}

static void note(struct kr_carried *carried, uint64_t before_ns, uint64_t after_ns, uint64_t changes)
{
	struct kr_attr before = state_of(before_ns, 10, 5), after = state_of(after_ns, 10, 5);

	kr_carried_note(carried, &before, &after, changes);
}

/* The ctime of the bytes of a file that has CTIME_NS. */
static uint64_t bytes_ns(const struct kr_carried *carried, uint64_t ctime_ns, uint64_t size, uint64_t changes)
{
	struct kr_attr attr = state_of(ctime_ns, size, 5);

	kr_carried_apply(carried, changes, &attr);
	return (uint64_t)attr.ctime.sec * KR_NS_PER_S + attr.ctime.nsec;
}

static void the_bytes_keep_their_ctime_over_changes_of_attributes(void **state)
{
	struct kr_carried carried = {0};

	(void)state;
	assert_int_equal(bytes_ns(&carried, start, 10, 4), start);
	note(&carried, start, start + 1, 4);
	assert_int_equal(bytes_ns(&carried, start + 1, 10, 4), start);
	note(&carried, start + 1, start + 2, 4);
	note(&carried, start + 2, start + 2, 4); /* nothing that ctimes tell of */
	assert_int_equal(bytes_ns(&carried, start + 2, 10, 4), start);
}

static void another_ctime_or_size_or_count_is_of_other_bytes(void **state)
{
	struct kr_carried carried = {0};

	(void)state;
	note(&carried, start, start + 1, 4);
	assert_int_equal(bytes_ns(&carried, start + 2, 10, 4), start + 2);
	assert_int_equal(bytes_ns(&carried, start + 1, 11, 4), start + 1);
	assert_int_equal(bytes_ns(&carried, start + 1, 10, 6), start + 1);
	note(&carried, start + 1, start + 2, 6); /* bytes were changed before it */
	assert_int_equal(bytes_ns(&carried, start + 2, 10, 6), start + 1);
	note(&carried, start + 5, start + 6, 6); /* somebody changed something before it */
	assert_int_equal(bytes_ns(&carried, start + 6, 10, 6), start + 5);
}

static void what_changes_size_or_mtime_is_not_carried(void **state)
{
	const struct kr_attr before = state_of(start, 10, 5), longer = state_of(start + 1, 11, 5),
			     written = state_of(start + 1, 10, 6);
	struct kr_carried carried = {0};

	(void)state;
	kr_carried_note(&carried, &before, &longer, 4);
	assert_int_equal(bytes_ns(&carried, start + 1, 11, 4), start + 1);
	note(&carried, start - 1, start, 4);
	kr_carried_note(&carried, &before, &written, 4);
	assert_int_equal(bytes_ns(&carried, start + 1, 10, 4), start + 1);
}

static void changes_side_by_side_may_be_told_in_any_order(void **state)
{
	/* one's view of it, and the other's */
	const uint64_t views[][4] = {{0, 1, 1, 2}, {0, 2, 1, 2}, {0, 2, 0, 2}};

	(void)state;
	for (int i = 0; i < 3; i++) {
		for (int late = 0; late < 2; late++) {
			const uint64_t *first = views[i] + (late ? 2 : 0), *second = views[i] + (late ? 0 : 2);
			struct kr_carried carried = {0};

			note(&carried, start + first[0], start + first[1], 4);
			note(&carried, start + second[0], start + second[1], 4);
			assert_int_equal(bytes_ns(&carried, start + 2, 10, 4), start);
		}
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
		cmocka_unit_test(the_bytes_keep_their_ctime_over_changes_of_attributes),
		cmocka_unit_test(another_ctime_or_size_or_count_is_of_other_bytes),
		cmocka_unit_test(what_changes_size_or_mtime_is_not_carried),
		cmocka_unit_test(changes_side_by_side_may_be_told_in_any_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

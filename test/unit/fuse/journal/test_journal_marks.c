/* The journal on a disk that does not take what is stored into the mapped index, now and then. */
#include "test/unit/fuse/journal/journal_fixture.h"

#include <errno.h>

#include "fuse/journal/sigbus_guard.h"
#include "fuse/journal/journal_priv.h"

/* So many stores go well, then so many do not. */
static unsigned stores_good, stores_bad;

/* Linked with --wrap. */
int __real_kr_sigbus_guard(void (*body)(void *context), void *context);
int __wrap_kr_sigbus_guard(void (*body)(void *context), void *context);

int __wrap_kr_sigbus_guard(void (*body)(void *context), void *context)
{
	if (stores_good > 0 || stores_bad == 0) {
		stores_good -= stores_good > 0;
		return __real_kr_sigbus_guard(body, context);
	}
	stores_bad--;
	return -EIO;
}

static void start_anew(struct fixture *f)
{
	kr_journal_free(f->journal);
	forget_files(f);
	open_journal(f);
}

static void expect_readable(void *context, const struct kr_extent *piece)
{
	KR_AUTO_FREE void *bytes = malloc(piece->length);

	assert_int_equal(kr_journal_read_verified(context, piece->position, bytes, piece->length), 0);
}

static void the_data_of_a_dead_record_that_is_not_marked_stays(void **state)
{
	struct fixture *f = *state;
	struct kr_journal_usage usage;

	assert_int_equal(append(f, 0, 0, 200000, 1), 0);
	assert_int_equal(append(f, 1, 0, 200000, 2), 0);
	assert_int_equal(append(f, 2, 0, 10, 3), 0); /* the segment stays */
	stores_bad = 2;                              /* the two records of the first */
	kr_extent_map_truncate(&f->files[0].map, 0, kr_journal_release, f->journal);
	assert_int_equal(stores_bad, 0);
	kr_extent_map_truncate(&f->files[1].map, 0, kr_journal_release, f->journal);
	kr_journal_usage(f->journal, &usage);
	assert_int_equal(usage.live, 10);
	assert_true(kr_journal_reclaim(f->journal, true));

	start_anew(f);
	assert_true(kr_list_empty(&f->recovery.damage));
	assert_int_equal(recovered(&f->recovery, 0)->dirty.bytes, 200000);
	kr_extent_map_for_each(&recovered(&f->recovery, 0)->dirty, expect_readable, f->journal);
	assert_null(recovered(&f->recovery, 1));
	assert_int_equal(recovered(&f->recovery, 2)->dirty.bytes, 10);
}

/* GOOD of its name and three records are stored, then BAD stores fail. */
static void fail_an_append(struct fixture *f, unsigned good, unsigned bad)
{
	assert_int_equal(append(f, 1, 0, 10, 1), 0);
	stores_good = good;
	stores_bad = bad;
	assert_int_equal(append(f, 0, 0, 300000, 2), -EIO);
	stores_good = stores_bad = 0;
}

static void begin_anew(struct fixture *f)
{
	char directory[64];

	kr_recovery_fini(&f->recovery);
	kr_journal_free(f->journal);
	directory_empty(f->directory);
	strcpy(directory, f->directory);
	init_fixture(f, directory, f->options.incarnation);
}

static void an_append_that_fails_amid_its_records_leaves_none_of_them(void **state)
{
	struct fixture *f = *state;

	for (unsigned good = 0; good < 4; good++) {
		fail_an_append(f, good, 2); /* a store is tried twice */
		start_anew(f);
		assert_true(kr_list_empty(&f->recovery.damage));
		assert_null(recovered(&f->recovery, 0));
		assert_int_equal(recovered(&f->recovery, 1)->dirty.bytes, 10);
		begin_anew(f);
	}
}

static void what_it_cannot_take_back_keeps_its_place(void **state)
{
	struct fixture *f = *state;

	for (unsigned good = 0; good < 4; good++) {
		fail_an_append(f, good, UINT32_MAX);
		assert_int_equal(append(f, 2, 0, 250000, 3), 0);
		kr_extent_map_truncate(&f->files[2].map, 200000, kr_journal_release, f->journal);
		kr_journal_reclaim(f->journal, true);
		start_anew(f);
		assert_true(kr_list_empty(&f->recovery.damage));
		assert_int_equal(recovered(&f->recovery, 1)->dirty.bytes, 10);
		kr_extent_map_for_each(&recovered(&f->recovery, 2)->dirty, expect_readable, f->journal);
		if (recovered(&f->recovery, 0)) /* what was stored of it */
			kr_extent_map_for_each(&recovered(&f->recovery, 0)->dirty, expect_readable, f->journal);
		assert_int_equal(recovered(&f->recovery, 0) != NULL, good >= 2);
		begin_anew(f);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_data_of_a_dead_record_that_is_not_marked_stays),
		TEST(an_append_that_fails_amid_its_records_leaves_none_of_them),
		TEST(what_it_cannot_take_back_keeps_its_place),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What a node asks with RECLAIM, and makes of the answer (test_flush_redirty.c has what becomes of the bytes). */
#include "test/unit/fuse/writeback/reclaim_fixture.h"

static void a_file_without_late_bytes_has_nothing_to_keep(void **state)
{
	struct fixture *f = *state;
	const struct kr_reclaim_reply reply = {0};

	fake.facts.late = true;
	kr_flush_reclaimed(&f->file, -EIO, &reply);
	assert_int_equal(fake.orphaned, 0);
}

static void who_has_kept_his_leases_flushes_on(void **state)
{
	struct fixture *f = *state;
	const struct kr_reclaim_reply reply = {0};

	write_some(f);
	kr_flush_reclaimed(&f->file, -EIO, &reply);
	assert_int_equal(fake.orphaned, 0);
}

static void what_is_in_conflict_or_gone_is_moved(void **state)
{
	struct fixture *f = *state;
	const struct kr_reclaim_reply reply = {.conflict = 1};

	write_some(f);
	fake.facts.late = true;
	kr_flush_reclaimed(&f->file, 0, &reply);
	assert_int_equal(fake.late, 1);
	kr_flush_reclaimed(&f->file, -ESTALE, &reply);
	assert_int_equal(fake.late, 2);
}

/* They are not late: nobody else has seen the file without them. */
static void what_is_durable_is_in_no_conflict(void **state)
{
	struct fixture *f = *state;
	const struct kr_reclaim_reply reply = {.durable_seq = 7, .conflict = 1};

	write_some(f);
	f->file.clear_suid = true;
	kr_flush_reclaimed(&f->file, 0, &reply);
	assert_true(kr_extent_map_empty(&f->file.dirty));
	assert_false(f->file.clear_suid);
	assert_int_equal(fake.redirtied, 1);
	assert_int_equal(f->file.flushed_seq, 7);
}

static void what_is_not_durable_stays(void **state)
{
	struct fixture *f = *state;

	write_some(f);
	f->file.clear_suid = true;
	kr_flush_reclaimed(&f->file, 0, &(struct kr_reclaim_reply){.durable_seq = 6});
	assert_int_equal(f->file.dirty.bytes, 100);
	assert_true(f->file.clear_suid);
}

/* The highest of what is there: a higher one may have been overwritten, or cut off. */
static void a_reclaim_tells_what_may_have_been_applied(void **state)
{
	struct fixture *f = *state;
	const struct kr_extent newer = {.offset = 500, .length = 1, .position = 2000, .seq = 12};
	struct kr_claims claims;

	write_some(f);
	assert_int_equal(kr_extent_map_insert(&f->file.dirty, &newer, NULL, NULL), 0);
	f->file.flush->resend = 9;
	claims = kr_flush_claims(&f->file);
	assert_true(claims.first == 7 && claims.last == 12 && claims.resend == 7);
	f->file.flush->resend = 6;
	assert_int_equal(kr_flush_claims(&f->file).resend, 0);
	f->file.flush->resend = 9;
	f->file.flush->orphaned = true; /* none of it is sent */
	assert_int_equal(kr_flush_claims(&f->file).resend, 0);
	f->file.flush->unjudged = true; /* or perhaps */
	assert_int_equal(kr_flush_claims(&f->file).resend, 7);
}

/* The next start need not say it again, but as long as the server has not judged all. */
static void a_loss_of_power_is_settled_when_all_is_judged(void **state)
{
	struct fixture *f = *state;

	kr_recovery_settle_power(&fake.flusher);
	assert_int_equal(fake.settled, 0);
	f->mount.power_lost = true;
	kr_list_append(&fake.flusher.busy, &f->file.flush->busy);
	f->file.flush->unjudged = true;
	kr_recovery_settle_power(&fake.flusher);
	assert_true(f->mount.power_lost);
	f->file.flush->unjudged = false;
	kr_recovery_settle_power(&fake.flusher);
	assert_false(f->mount.power_lost);
	assert_int_equal(fake.settled, 1);
	kr_list_remove(&f->file.flush->busy);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(a_file_without_late_bytes_has_nothing_to_keep),
		TEST(who_has_kept_his_leases_flushes_on),
		TEST(what_is_in_conflict_or_gone_is_moved),
		TEST(what_is_durable_is_in_no_conflict),
		TEST(what_is_not_durable_stays),
		TEST(a_reclaim_tells_what_may_have_been_applied),
		TEST(a_loss_of_power_is_settled_when_all_is_judged),
	};

	kr_log_init("test_recovery", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

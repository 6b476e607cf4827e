/* Bytes of which a node does not know whether they may still go into their file: they are kept, told of, and asked
 * about. */
#include "test/unit/fuse/writeback/reclaim_fixture.h"

static void late_bytes_of_which_the_server_can_tell_nothing_are_kept_and_not_sent(void **state)
{
	struct fixture *f = *state;
	const struct kr_reclaim_reply reply = {0};

	write_some(f);
	fake.facts.late = true;
	kr_flush_reclaimed(&f->file, -EIO, &reply);
	assert_int_equal(fake.orphaned, -EIO);
	assert_int_equal(fake.late, 0);
}

static void nothing_is_given_up_while_what_was_refused_is_tried_again(void **state)
{
	struct fixture *f = *state;
	struct kr_flush_send send;

	write_some(f);
	f->file.flush->send = &send;
	assert_false(kr_unjudged_keeps_leases(&f->file));
	f->file.lease.refused_seq = 7;
	assert_true(kr_unjudged_keeps_leases(&f->file));
	f->file.flush->send = NULL;
	assert_false(kr_unjudged_keeps_leases(&f->file));
}

/* A time that a program has set, ahead of the clock, is no moment of which the node knows anything. */
static void others_changes_count_from_the_last_write(void **state)
{
	struct fixture *f = *state;

	fake.now.sec = 9;
	f->file.base.ctime.sec = 3;
	f->file.mtime.sec = 5;
	assert_int_equal(kr_file_since(&f->file).sec, 5);
	f->file.mtime.sec = 100;
	assert_int_equal(kr_file_since(&f->file).sec, 3);
	f->file.mtime.sec = -100;
	assert_int_equal(kr_file_since(&f->file).sec, 3);
	f->file.flush->power_lost = true; /* what is newer than the oldest bytes may be missing */
	f->file.flush->unjudged_since.sec = 1;
	assert_int_equal(kr_file_since(&f->file).sec, 1);
}

/* The server could not tell what becomes of the bytes; then it is asked, and has not answered yet. */
static void ask_again(struct fixture *f)
{
	write_some(f);
	fake.facts.late = true;
	kr_flush_reclaimed(&f->file, -EIO, &(struct kr_reclaim_reply){0});
	f->file.flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	assert_int_equal(fake.asks, 1);
}

/* Until it can tell; what others' changes are counted from does not move meanwhile. */
static void the_server_is_asked_again_what_it_could_not_tell(void **state)
{
	struct fixture *f = *state;
	struct kr_flush *flush = f->file.flush;
	struct kr_reclaim_reply reply = {.conflict = 1};

	write_some(f);
	fake.facts.late = true;
	f->file.base.ctime = (struct kr_time){.sec = 5};
	f->file.open.count = 3;
	flush->plan.retry_ns = 1;
	kr_flush_reclaimed(&f->file, -EIO, &reply);
	f->file.base.ctime.sec = 9;
	assert_int_equal(kr_file_since(&f->file).sec, 5);
	kr_unjudged_step(&f->file);
	assert_null(fake.answer); /* not at once */
	flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	assert_int_equal(fake.asked.first, 7);
	assert_int_equal(fake.asked.last, 7);
	assert_int_equal(fake.asked.since.sec, 5);
	assert_int_equal(fake.asked.opens, 3);
	flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	assert_int_equal(fake.asks, 1); /* one at a time */
	server_says(-EIO, NULL);
	assert_true(flush->unjudged && flush->orphaned);
	assert_int_equal(fake.late, 0);
	kr_unjudged_step(&f->file);
	assert_int_equal(fake.asks, 1); /* not at once again */
	flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	fake.generation++; /* another session asked for itself, and could not be told either */
	server_says(0, &reply);
	assert_true(flush->unjudged && flush->orphaned);
	flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	server_says(0, &reply);
	assert_false(flush->unjudged || flush->orphaned);
	assert_int_equal(flush->plan.retry_ns, 0); /* begins anew */
	assert_int_equal(fake.late, 1);
	assert_int_equal(fake.stepped, 1);
	assert_int_equal(fake.woken, 3);
	flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	assert_null(fake.answer);
}

static void what_is_opened_or_closed_meanwhile_is_not_counted_twice(void **state)
{
	struct fixture *f = *state;
	unsigned *const counts[] = {&f->file.open.opening, &f->file.open.closing};

	write_some(f);
	fake.facts.late = true;
	kr_flush_reclaimed(&f->file, -EIO, &(struct kr_reclaim_reply){0});
	f->file.flush->judge_ns = 0;
	for (size_t i = 0; i < KR_ARRAY_SIZE(counts); i++) {
		++*counts[i];
		kr_unjudged_step(&f->file);
		assert_int_equal(fake.asks, 0);
		--*counts[i];
	}
	kr_unjudged_step(&f->file);
	assert_int_equal(fake.asks, 1);
	server_says(-EIO, NULL);
}

/* It is gone. */
static void what_the_server_has_no_file_for_any_more_goes_to_a_conflict_file(void **state)
{
	struct fixture *f = *state;

	ask_again(f);
	server_says(-ESTALE, NULL);
	assert_false(f->file.flush->unjudged);
	assert_int_equal(fake.late, 1);
	assert_int_equal(f->file.holder.held, 0);
}

/* Another session asks for all files; or somebody has discarded the bytes. */
static void an_answer_that_comes_too_late_counts_no_more(void **state)
{
	struct fixture *f = *state;
	struct kr_flush *flush = f->file.flush;
	const struct kr_reclaim_reply reply = {.kinds = KR_LEASE_WRITE, .conflict = 1};

	ask_again(f);
	fake.flusher.recovering = true;
	server_says(0, &reply);
	fake.flusher.recovering = false;
	assert_true(flush->unjudged);
	flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	flush->unjudged = false;
	server_says(0, &reply);
	assert_int_equal(f->file.holder.held, 0);
	assert_int_equal(fake.late, 0);
	assert_int_equal(fake.stepped, 0);
}

static void bytes_of_a_file_that_is_known_to_be_gone_are_not_asked_for(void **state)
{
	struct fixture *f = *state;

	write_some(f);
	f->file.flush->orphaned = true;
	kr_unjudged_begin(&f->file, -EIO);
	f->file.flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	assert_int_equal(fake.asks, 0);
}

static void what_the_server_lets_in_comes_with_the_lease(void **state)
{
	struct fixture *f = *state;
	struct kr_flush *flush = f->file.flush;
	const struct kr_reclaim_reply reply = {.kinds = KR_LEASE_WRITE, .attr.size = 3};

	write_some(f);
	fake.facts.late = true;
	kr_flush_reclaimed(&f->file, -EIO, &reply);
	flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	assert_int_equal(fake.asked.kinds, KR_LEASE_WRITE);
	server_says(0, &reply);
	assert_false(flush->unjudged || flush->orphaned);
	assert_int_equal(f->file.holder.held, KR_LEASE_WRITE);
	assert_int_equal(f->file.base.size, 3);
	assert_int_equal(fake.late, 0);
}

/* The server refused them, and a lease is given back: others can write before they are taken. */
static void what_was_refused_is_judged_when_a_lease_has_been_given_back(void **state)
{
	struct fixture *f = *state;
	struct kr_flush *flush = f->file.flush;
	const struct kr_reclaim_reply granted = {.kinds = KR_LEASE_ALL}, conflict = {.conflict = 1};

	write_some(f);
	kr_unjudged_uncovered(&f->file);
	assert_false(flush->unjudged); /* it was not refused: written after what the recall was for */
	f->file.lease.refused_seq = 7;
	f->file.base.ctime.sec = 5;
	fake.now.sec = 8;
	flush->plan.refused = -ENOSPC;
	kr_unjudged_uncovered(&f->file);
	assert_true(flush->unjudged && flush->orphaned);
	assert_int_equal(fake.orphaned, -ENOSPC);
	fake.flusher.recovering = true; /* another session begins, which does not ask for them */
	kr_flush_reclaimed(&f->file, 0, &granted);
	assert_true(flush->unjudged && flush->orphaned);
	fake.flusher.recovering = false;
	flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	assert_int_equal(fake.asked.kinds, KR_LEASE_WRITE | KR_RECLAIM_UNCOVERED);
	assert_int_equal(fake.asked.since.sec, 8);
	assert_int_equal(fake.asked.last, 7);
	server_says(0, &conflict);
	assert_false(flush->unjudged || flush->orphaned || flush->uncovered);
	assert_int_equal(fake.late, 1);
	assert_int_equal(fake.forgotten, 0); /* not before they are elsewhere */
}

/* The server has let them in, and the lease goes again before they are sent. */
static void what_is_judged_again_before_it_is_sent_fails_for_the_same_reason(void **state)
{
	struct fixture *f = *state;
	struct kr_flush *flush = f->file.flush;
	const struct kr_reclaim_reply granted = {.kinds = KR_LEASE_WRITE};

	write_some(f);
	f->file.lease.refused_seq = 7;
	flush->plan.refused = -EDQUOT;
	kr_unjudged_uncovered(&f->file);
	flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	server_says(0, &granted);
	assert_false(flush->unjudged || flush->orphaned);
	kr_unjudged_uncovered(&f->file);
	assert_true(flush->unjudged);
	assert_int_equal(fake.orphaned, -EDQUOT);
}

/* The directory says it first. */
static void nothing_is_given_back_with_refused_bytes_before_that_is_written_down(void **state)
{
	struct fixture *f = *state;

	write_some(f);
	f->file.lease.refused_seq = 7;
	fake.now.sec = 8;
	assert_false(kr_unjudged_keeps_leases(&f->file)); /* nobody wants it back */
	f->file.holder.recalled = KR_LEASE_READ;
	assert_true(kr_unjudged_keeps_leases(&f->file));
	assert_int_equal(fake.listed_since.sec, 8);
	assert_int_equal(fake.listed_up_to, 7);
	fake.told = true;
	assert_false(kr_unjudged_keeps_leases(&f->file));
	f->file.flush->orphaned = true; /* they are sent no more at all */
	fake.told = false;
	assert_false(kr_unjudged_keeps_leases(&f->file));
}

/* A program goes on writing until the lease is gone: the bytes that were refused are as old as they were. */
static void what_was_refused_is_so_whatever_is_written_since(void **state)
{
	struct fixture *f = *state;
	struct kr_flush *flush = f->file.flush;
	const struct kr_extent more = {.offset = 500, .length = 10, .position = 2000, .seq = 8};

	write_some(f);
	f->file.lease.refused_seq = 7;
	f->file.holder.refused = true;
	f->file.holder.recalled = KR_LEASE_READ;
	assert_true(kr_unjudged_keeps_leases(&f->file));
	assert_int_equal(kr_extent_map_insert(&f->file.dirty, &more, NULL, NULL), 0);
	kr_lease_state_dirtied(&f->file.holder, false);
	assert_true(kr_unjudged_keeps_leases(&f->file));
	assert_int_equal(fake.listed_up_to, 7); /* else it would be written down again for each write */
	fake.told = true;
	assert_false(kr_unjudged_keeps_leases(&f->file));
	kr_unjudged_uncovered(&f->file);
	assert_true(flush->unjudged && flush->uncovered);
}

static void what_was_taken_since_is_not_refused(void **state)
{
	struct fixture *f = *state;

	write_some(f);
	f->file.lease.refused_seq = 6;
	f->file.holder.recalled = KR_LEASE_READ;
	assert_false(kr_unjudged_keeps_leases(&f->file));
	kr_unjudged_uncovered(&f->file);
	assert_false(f->file.flush->unjudged);
}

/* A daemon that is started anew finds that in the directory. */
static void what_a_start_finds_uncovered_is_judged(void **state)
{
	struct fixture *f = *state;
	struct kr_flush *flush = f->file.flush;
	const struct kr_reclaim_reply granted = {.kinds = KR_LEASE_ALL};
	const struct kr_uncovered uncovered = {.since.sec = 4, .up_to = 7};

	write_some(f);
	f->file.base.ctime.sec = 9;
	kr_unjudged_recovered(&f->file, &uncovered);
	assert_true(flush->uncovered && flush->orphaned);
	assert_int_equal(kr_file_since(&f->file).sec, 4);
	fake.flusher.recovering = true;
	kr_flush_reclaimed(&f->file, 0, &granted);
	assert_true(flush->uncovered && flush->orphaned); /* nothing was asked */
	fake.facts.late = true;
	kr_flush_reclaimed(&f->file, 0, &granted);
	assert_false(flush->uncovered || flush->orphaned);
	assert_int_equal(fake.forgotten, 1);
}

/* Without WRITE (the user may not write the file any more) others can write before they are in. */
static void what_may_not_be_written_now_is_asked_about_again(void **state)
{
	struct fixture *f = *state;
	const struct kr_reclaim_reply nothing = {0}, granted = {.kinds = KR_LEASE_ALL};

	ask_again(f);
	server_says(0, &nothing);
	assert_true(f->file.flush->unjudged && f->file.flush->orphaned);
	f->file.flush->judge_ns = 0;
	kr_unjudged_step(&f->file);
	server_says(0, &granted);
	assert_false(f->file.flush->unjudged || f->file.flush->orphaned);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(late_bytes_of_which_the_server_can_tell_nothing_are_kept_and_not_sent),
		TEST(nothing_is_given_up_while_what_was_refused_is_tried_again),
		TEST(others_changes_count_from_the_last_write),
		TEST(the_server_is_asked_again_what_it_could_not_tell),
		TEST(what_is_opened_or_closed_meanwhile_is_not_counted_twice),
		TEST(what_the_server_has_no_file_for_any_more_goes_to_a_conflict_file),
		TEST(an_answer_that_comes_too_late_counts_no_more),
		TEST(bytes_of_a_file_that_is_known_to_be_gone_are_not_asked_for),
		TEST(what_the_server_lets_in_comes_with_the_lease),
		TEST(what_was_refused_is_judged_when_a_lease_has_been_given_back),
		TEST(what_is_judged_again_before_it_is_sent_fails_for_the_same_reason),
		TEST(nothing_is_given_back_with_refused_bytes_before_that_is_written_down),
		TEST(what_was_refused_is_so_whatever_is_written_since),
		TEST(what_was_taken_since_is_not_refused),
		TEST(what_a_start_finds_uncovered_is_judged),
		TEST(what_may_not_be_written_now_is_asked_about_again),
	};

	kr_log_init("test_unjudged", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What becomes of bytes that the server has applied: durable, or sent again. */
#include "test/unit/fuse/writeback/resend_fixture.h"

static void what_is_applied_stays_in_the_journal_until_it_is_stable(void **state)
{
	(void)state;
	write_bytes(0, 10);
	flush();
	assert_true(kr_extent_map_empty(&F.file->dirty));
	assert_int_not_equal(live(), 0);
	write_bytes(5, 10);
	flush();
	memcpy(F.disk, F.cache, BYTES);
	kr_flush_stable(F.file, 1);
	assert_int_not_equal(live(), 0);
	look();
	stable();
	assert_int_equal(live(), 0);
	assert_int_equal(F.resends, 0);
}

static void what_a_failed_sync_has_lost_is_sent_again(void **state)
{
	(void)state;
	write_bytes(0, 100);
	flush();
	stable();
	write_bytes(0, 50);
	flush();
	write_bytes(20, 10);
	flush();
	unstable(F.stable_round);
	assert_int_equal(F.unstable_answers, 1);
	assert_int_equal(F.told, -EIO);
	assert_int_equal(F.file->dirty.bytes, 50);
	look();
	finish();
	assert_int_equal(F.resends, 1);
}

static void newer_bytes_stay_over_what_is_sent_again(void **state)
{
	(void)state;
	write_bytes(0, 50);
	flush();
	write_bytes(20, 10);
	unstable(0);
	look();
	assert_int_equal(F.file->dirty.bytes, 50);
	finish();
}

/* Rounds after a lost one may have come to the disk; older bytes would go over them. */
static void rounds_that_were_not_lost_come_after_those_that_were(void **state)
{
	(void)state;
	write_bytes(0, 50);
	flush();
	write_bytes(0, 30);
	flush();
	F.round = 1; /* of which alone the server tells */
	unstable(0);
	F.round = 2;
	assert_true(kr_list_empty(&F.file->flush->applied));
	look();
	finish();
}

/* Its answer would take all up to its number out of what is dirty. */
static void nothing_is_dirty_again_while_a_flush_is_on_its_way(void **state)
{
	(void)state;
	write_bytes(0, 50);
	flush();
	write_bytes(40, 50);
	ask();
	unstable(0);
	assert_int_equal(F.unstable_answers, 0);
	assert_true(kr_flush_is_unstable(F.file->flush));
	assert_int_equal(F.file->dirty.bytes, 50);
	apply();
	kr_flush_stable(F.file, F.round); /* of a later sync: it says nothing of what was lost */
	look();
	answer(0);
	assert_false(kr_flush_was_taken(F.file, 2)); /* who waits for it waits on */
	assert_int_equal(F.unstable_answers, 1);
	assert_false(kr_flush_is_unstable(F.file->flush));
	assert_int_equal(F.file->dirty.bytes, 90);
	assert_true(F.flush.there); /* it goes at once */
	assert_true(F.flush.request.flags & KR_FLUSH_RESEND);
	finish();
}

static void stable_counts_though_it_comes_before_the_answer(void **state)
{
	(void)state;
	write_bytes(0, 50);
	ask();
	apply();
	stable();
	assert_int_not_equal(live(), 0);
	answer(0);
	assert_int_equal(live(), 0);
	assert_false(kr_flush_busy(F.file));
	assert_int_equal(F.resends, 0);
}

static void a_lost_session_sends_all_again_that_is_not_stable(void **state)
{
	(void)state;
	write_bytes(0, 50);
	flush();
	stable();
	write_bytes(10, 10);
	flush();
	write_bytes(15, 10);
	ask(); /* and is under way */
	memcpy(F.cache, F.disk, BYTES);
	new_session(0);
	assert_int_equal(F.claimed.first, F.seqs[2]);
	assert_int_equal(F.claimed.last, F.seqs[3]);
	assert_int_equal(F.claimed.resend, F.seqs[3]); /* it may have been applied */
	look();
	assert_true(F.flush.there); /* not when it is old enough */
	assert_true(F.flush.request.flags & KR_FLUSH_RESEND);
	finish();
	assert_int_equal(F.told, 0);
}

static void what_was_never_sent_is_no_resend(void **state)
{
	(void)state;
	write_bytes(0, 50);
	new_session(0);
	assert_int_equal(F.claimed.last, F.seqs[1]);
	assert_int_equal(F.claimed.resend, 0);
	assert_false(F.flush.there); /* nobody waits for it */
	finish();
	assert_int_equal(F.resends, 0);
}

static void what_the_server_took_only_for_later_is_no_resend(void **state)
{
	(void)state;
	write_bytes(0, 50);
	ask();
	answer(-EAGAIN);
	new_session(0);
	assert_int_equal(F.claimed.resend, 0);
	F.file->flush->plan.retry_ns = 0;
	finish();
	assert_int_equal(F.resends, 0);
}

/* A part of it may have found room. */
static void what_was_refused_is_a_resend(void **state)
{
	(void)state;
	write_bytes(0, 50);
	ask();
	answer(-ENOSPC);
	assert_int_equal(F.failures, 1);
	finish();
	assert_int_equal(F.resends, 1);
}

static void what_is_durable_by_the_answer_to_reclaim_is_dropped(void **state)
{
	(void)state;
	write_bytes(0, 50);
	flush();
	write_bytes(40, 50);
	ask();
	apply(); /* the answer is lost with the session */
	write_bytes(80, 50);
	memcpy(F.disk, F.cache, BYTES);
	new_session(F.applied_seq);
	look();
	assert_int_equal(F.file->dirty.bytes, 50);
	assert_int_equal(F.file->flushed_seq, F.seqs[2]);
	finish();
	assert_int_equal(F.resends, 0);
}

static void all_that_is_durable_leaves_nothing(void **state)
{
	(void)state;
	write_bytes(0, 50);
	flush();
	memcpy(F.disk, F.cache, BYTES);
	new_session(F.applied_seq);
	assert_int_equal(live(), 0);
	assert_false(kr_flush_busy(F.file));
}

static void a_new_daemon_sends_again_what_its_journal_holds(void **state)
{
	(void)state;
	write_bytes(0, 50);
	flush();
	stable();
	write_bytes(10, 10);
	flush();
	write_bytes(15, 10);
	kill_daemon();
	new_session(0);
	assert_int_equal(F.claimed.first, F.seqs[2]);
	assert_int_equal(F.claimed.resend, F.claimed.last); /* who knows */
	look();
	assert_true(F.flush.there);
	finish();
}

/* It gave WRITE back when it had flushed. */
static void what_is_owed_goes_without_a_lease(void **state)
{
	(void)state;
	write_bytes(0, 50);
	flush();
	F.lease = false;
	unstable(0);
	assert_true(F.flush.there);
	apply();
	answer(0);
	write_bytes(0, 10); /* that is not owed */
	ask();
	assert_false(F.flush.there);
	finish();
}

/* The server may wait for the number of bytes that do not come any more. */
static void a_flush_covers_what_was_sent_and_is_gone(void **state)
{
	(void)state;
	write_bytes(0, 50);
	write_bytes(60, 50);
	flush();
	unstable(0);
	assert_true(F.flush.there);
	answer(-EAGAIN);
	kr_journal_trim(F.mount.journal, &F.file->dirty, 55);
	kr_extent_map_truncate(&F.file->dirty, 55, kr_journal_release, F.mount.journal);
	F.file->flush->plan.retry_ns = 0;
	ask();
	assert_int_equal(F.flush.request.seq, F.seqs[2]);
	assert_int_equal(F.flush.request.bytes, 50);
	answer(-EAGAIN);
}

static void what_is_discarded_is_not_waited_for(void **state)
{
	(void)state;
	write_bytes(0, 50);
	flush();
	unstable(0);
	assert_true(F.flush.there);
	assert_int_equal(F.waives, 0);
	kr_flush_discard(F.file);
	assert_int_equal(F.waives, 1);
	assert_int_equal(F.waived_seq, F.seqs[1]);
	assert_int_equal(live(), 0);
	write_bytes(0, 50);
	kr_flush_discard(F.file); /* the server never heard of it, but the number says nothing new either */
	assert_int_equal(F.waived_seq, F.seqs[1]);
}

/* It will be durable, or is lost as anything else. */
/* These have a way of their own: a conflict file, or a person who decides. */
static void what_is_late_unjudged_or_orphaned_is_not_discarded_with_its_file(void **state)
{
	struct kr_flush *flush;
	static char late; /* nobody looks into it */

	(void)state;
	write_bytes(0, 10);
	flush = F.file->flush;
	flush->late = (struct kr_late *)(void *)&late;
	kr_flush_hooks.discard(F.file);
	flush->late = NULL;
	flush->unjudged = true;
	kr_flush_hooks.discard(F.file);
	flush->unjudged = false;
	flush->orphaned = true;
	kr_flush_hooks.discard(F.file);
	flush->orphaned = false;
	kr_flusher_of(F.file)->recovering = true; /* RECLAIM will say whether they are late */
	kr_flush_hooks.discard(F.file);
	kr_flusher_of(F.file)->recovering = false;
	look();
	assert_int_equal(F.file->dirty.bytes, 10);
	kr_flush_hooks.discard(F.file);
	assert_int_equal(F.file->dirty.bytes, 0);
}

static void what_a_flush_found_gone_is_discarded_with_its_file(void **state)
{
	(void)state;
	write_bytes(0, 10);
	look();
	F.file->flush->orphaned = F.file->flush->stale = true;
	kr_flush_hooks.discard(F.file);
	assert_int_equal(F.file->dirty.bytes, 0);
	assert_false(F.file->flush->orphaned);
}

static void what_is_applied_is_not_discarded(void **state)
{
	(void)state;
	write_bytes(0, 50);
	flush();
	write_bytes(50, 50);
	ask();
	answer(-ENOSPC);
	kr_flush_discard(F.file);
	memset(F.model + 50, 0, 50);
	look();
	unstable(0);
	look();
	finish();
}

static void a_loss_of_bytes_that_are_gone_is_answered_with_nothing(void **state)
{
	(void)state;
	write_bytes(0, 50);
	flush();
	kr_flush_release_applied(F.file, UINT64_MAX);
	unstable(0);
	assert_int_equal(F.unstable_answers, 1);
	assert_int_equal(F.waived_seq, F.seqs[1]);
	assert_int_equal(F.told, 0);
}

/* --- times and set-id bits --- */

static void what_is_sent_again_has_the_time_of_its_last_write(void **state)
{
	(void)state;
	write_bytes(0, 50);
	flush();
	write_bytes(50, 50);
	flush();
	unstable(0);
	assert_int_equal(F.flush.request.mtime.sec, 2);
	finish();
	assert_int_equal(F.mtime.sec, 2);
}

static void what_is_sent_again_does_not_undo_a_time_that_was_set(void **state)
{
	const struct kr_time past = {.sec = -5}, future = {.sec = NEWER_MTIME};

	(void)state;
	write_bytes(0, 50);
	flush();
	F.mtime = past;
	kr_flush_attributes_set(F.file, &past, false);
	unstable(0);
	finish();
	assert_int_equal(F.mtime.sec, -5);
	write_bytes(0, 50);
	flush();
	F.mtime = future;
	kr_flush_attributes_set(F.file, &future, false);
	write_bytes(0, 20); /* a later write sets its own */
	unstable(F.stable_round);
	finish();
	assert_int_equal(F.mtime.sec, 3);
}

static void what_is_sent_again_does_not_clear_set_id_bits_that_were_set_since(void **state)
{
	(void)state;
	F.set_ids = true;
	F.file->clear_suid = true;
	write_bytes(0, 50);
	flush();
	assert_false(F.set_ids);
	F.set_ids = true; /* chmod */
	kr_flush_attributes_set(F.file, NULL, true);
	unstable(0);
	finish();
	assert_true(F.set_ids);
	F.file->clear_suid = true;
	write_bytes(0, 50);
	flush();
	F.set_ids = true; /* without a word: it comes again */
	unstable(F.stable_round);
	finish();
	assert_false(F.set_ids);
}

/* --- any history --- */

static uint64_t random_state = 1;

static uint64_t below(uint64_t limit)
{
	random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (random_state >> 33) % limit;
}

/* The server's instance lives on and knows what it has applied, or is a new one. */
static uint64_t durable_seq(void)
{
	if (below(2) == 0)
		F.applied_seq = 0;
	if (F.applied_seq)
		memcpy(F.disk, F.cache, BYTES);
	return F.applied_seq;
}

static void random_event(void)
{
	uint64_t offset = below(BYTES - 40);
	bool there = F.flush.there, answerable = there && F.flush.applied;

	switch (below(14)) {
	default:
		write_bytes(offset, 1 + below(40));
		break;
	case 4:
	case 5:
		ask();
		break;
	case 6:
	case 7:
		if (there && !F.flush.applied)
			apply();
		break;
	case 8:
	case 9:
		if (answerable)
			answer(0);
		else if (there)
			answer(below(2) ? -EAGAIN : -ENOSPC);
		break;
	case 10:
		stable(); /* an answer that is sent again comes after it */
		break;
	case 11:
		if (!kr_flush_is_unstable(F.file->flush))
			unstable(F.stable_round);
		break;
	case 12: /* its process, or its machine, has started anew */
		if (below(2))
			memcpy(F.cache, F.disk, BYTES), F.applied_seq = 0;
		new_session(durable_seq());
		break;
	case 13:
		if (below(4))
			break;
		kill_daemon();
		new_session(durable_seq());
		break;
	}
}

static void whatever_happens_nothing_is_lost_and_nothing_old_comes_back(void **state)
{
	enum { HISTORIES = 60, EVENTS = 120 };

	(void)state;
	for (int history = 0; history < HISTORIES; history++) {
		teardown(NULL);
		setup(NULL);
		random_state = (uint64_t)history;
		for (int i = 0; i < EVENTS; i++) {
			random_event();
			look();
		}
		finish();
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(what_is_applied_stays_in_the_journal_until_it_is_stable),
		TEST(what_a_failed_sync_has_lost_is_sent_again),
		TEST(newer_bytes_stay_over_what_is_sent_again),
		TEST(rounds_that_were_not_lost_come_after_those_that_were),
		TEST(nothing_is_dirty_again_while_a_flush_is_on_its_way),
		TEST(stable_counts_though_it_comes_before_the_answer),
		TEST(a_lost_session_sends_all_again_that_is_not_stable),
		TEST(what_was_never_sent_is_no_resend),
		TEST(what_the_server_took_only_for_later_is_no_resend),
		TEST(what_was_refused_is_a_resend),
		TEST(what_is_durable_by_the_answer_to_reclaim_is_dropped),
		TEST(all_that_is_durable_leaves_nothing),
		TEST(a_new_daemon_sends_again_what_its_journal_holds),
		TEST(what_is_owed_goes_without_a_lease),
		TEST(a_flush_covers_what_was_sent_and_is_gone),
		TEST(what_is_discarded_is_not_waited_for),
		TEST(what_is_late_unjudged_or_orphaned_is_not_discarded_with_its_file),
		TEST(what_a_flush_found_gone_is_discarded_with_its_file),
		TEST(what_is_applied_is_not_discarded),
		TEST(a_loss_of_bytes_that_are_gone_is_answered_with_nothing),
		TEST(what_is_sent_again_has_the_time_of_its_last_write),
		TEST(what_is_sent_again_does_not_undo_a_time_that_was_set),
		TEST(what_is_sent_again_does_not_clear_set_id_bits_that_were_set_since),
		TEST(whatever_happens_nothing_is_lost_and_nothing_old_comes_back),
	};

	kr_log_init("test_flush_redirty", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What a node does with its bytes when a session begins that knows them, or not. */
#include "test/unit/fuse/writeback/flush_session_fixture.h"

static void nothing_is_given_up_while_what_was_refused_is_tried_again(void **state)
{
	struct fixture *f = *state;

	write_some(f);
	assert_false(kr_flush_bound(&f->file));
	f->file.lease.refused_seq = 7;
	assert_true(kr_flush_bound(&f->file));
	kr_list_remove(&f->send.link);
	assert_false(kr_flush_bound(&f->file));
}

/* In their turn, whatever becomes of what was refused later. */
static void rounds_to_be_replayed_do_not_wait_for_what_was_refused(void **state)
{
	struct fixture *f = *state;
	struct kr_applied old = {.round = 20, .boot_id = {1}};

	write_some(f);
	kr_list_remove(&f->send.link);
	kr_extent_map_init(&old.extents);
	kr_list_append(&f->file.flush->applied, &old.link);
	f->file.lease.refused_seq = 7;
	kr_flush_uncovered(&f->file);
	kr_flush_replay_file(&f->file, 0);
	assert_int_equal(fake.replays, 1);
	assert_true(kr_flush_bound(&f->file));
	f->file.flush->keeps_replays = true;
	kr_flush_replay_file(&f->file, 0);
	assert_int_equal(fake.replays, 1);
	assert_false(kr_flush_bound(&f->file));
}

/* When all that were on their way have been heard, and not as fast as the server can answer. */
static void what_was_not_taken_as_a_replay_is_asked_for_before_it_is_sent_again(void **state)
{
	struct fixture *f = *state;
	struct kr_flush *flush = f->file.flush;
	struct kr_extent extent = {.offset = 10, .length = 100, .position = 1000, .seq = 3};
	struct kr_applied old = {.round = 20, .boot_id = {1}};

	kr_extent_map_init(&old.extents);
	assert_int_equal(kr_extent_map_insert(&old.extents, &extent, NULL, NULL), 0);
	kr_list_append(&flush->applied, &old.link);
	for (unsigned i = 1; i <= 2; i++) {
		flush->keeps_replays = true;
		kr_flush_replay_file(&f->file, 0);
		assert_false(flush->unjudged);
		assert_true(kr_flush_bound(&f->file));
		kr_list_remove(&f->send.link);
		kr_flush_replay_file(&f->file, 0);
		assert_int_equal(fake.replays, i - 1);
		assert_false(kr_flush_bound(&f->file));
		kr_unjudged_step(&f->file);
		assert_int_equal(fake.asks, 1); /* the first time at once */
		flush->judge_ns = 0;
		kr_unjudged_step(&f->file);
		assert_int_equal(fake.asks, i);
		assert_int_equal(fake.asked.replay_last, 3);
		kr_flush_replay_file(&f->file, 0);
		assert_int_equal(fake.replays, i - 1);
		server_says(0, &(struct kr_reclaim_reply){0});
		assert_false(flush->unjudged || flush->orphaned);
		kr_flush_replay_file(&f->file, 0);
		assert_int_equal(fake.replays, i);
		kr_list_append(&flush->sends, &f->send.link);
	}
	assert_int_equal(fake.orphaned, 0); /* no program has heard of it */
	kr_list_remove(&f->send.link);
	kr_extent_map_fini(&old.extents);
}

/* It was truncated before the round asked for them. */
static void a_round_of_a_former_boot_without_bytes_is_not_replayed(void **state)
{
	struct fixture *f = *state;
	struct kr_applied *all[2];

	for (uint8_t i = 0; i < 2; i++) {
		all[i] = kr_xcalloc(1, sizeof(*all[i]));
		*all[i] = (struct kr_applied){.round = 20 + i, .boot_id = {(uint8_t)(i + 1)}};
		kr_extent_map_init(&all[i]->extents);
		kr_list_append(&f->file.flush->applied, &all[i]->link);
	}
	fake.facts.boot_id[0] = 2;
	fake.busy = &f->file;
	kr_flusher_session_lost(&fake.flusher);
	assert_ptr_equal(f->file.flush->applied.head.next, &all[1]->link); /* until it is stable */
	assert_false(kr_flush_has_replays(&f->file, fake.facts.boot_id));
	kr_list_remove(&all[1]->link);
	free(all[1]);
}

/* If the replay were not taken in its turn, the server would have the later bytes alone, and take it for applied. */
static void what_is_to_be_replayed_goes_before_what_was_asked_for_in_the_boot_before(void **state)
{
	struct fixture *f = *state;
	struct kr_extent extent = {.offset = 10, .length = 100, .position = 1000, .seq = 3};
	struct kr_applied old = {.round = 20, .boot_id = {1}};

	write_some(f);
	f->send.inlined = true;
	fake.facts.boot_id[0] = 1;
	fake.busy = &f->file;
	kr_extent_map_init(&old.extents);
	assert_int_equal(kr_extent_map_insert(&old.extents, &extent, NULL, NULL), 0);
	kr_list_append(&f->file.flush->applied, &old.link);
	kr_flusher_session_lost(&fake.flusher);
	assert_int_equal(fake.abandoned, 0); /* the same boot: its answer may be waiting */
	fake.facts.boot_id[0] = 2;
	kr_flusher_session_lost(&fake.flusher);
	assert_int_equal(fake.abandoned, 1);
	assert_true(kr_list_empty(&f->file.flush->sends));
	kr_list_remove(&old.link);
	kr_extent_map_fini(&old.extents);
}

static void a_file_without_late_bytes_has_nothing_to_keep(void **state)
{
	struct fixture *f = *state;
	const struct kr_reclaim_reply reply = {0};

	fake.facts.late = true;
	kr_flush_reclaimed(&f->file, -EIO, &reply);
	assert_int_equal(fake.orphaned, 0);
}

/* A loss of power may have left an old write (here: 7) in the journal without a newer one and without their marks. */
static void bytes_that_may_be_older_than_the_servers_are_kept_and_not_sent(void **state)
{
	struct fixture *f = *state;

	write_some(f);
	fake.facts.instance = 3;
	f->file.flush->vouched = 3;
	kr_flush_reclaimed(&f->file, 0,
		&(struct kr_reclaim_reply){.forgotten_seq = 6}); /* others have been forgotten, older ones */
	assert_false(f->file.flush->orphaned);
	assert_int_equal(f->file.flush->vouched, 0);

	f->file.flush->vouched = 3;
	kr_flush_reclaimed(&f->file, 0, &(struct kr_reclaim_reply){.forgotten_seq = 7});
	assert_int_equal(fake.orphaned, -EIO);

	f->file.flush->orphaned = false;
	f->file.flush->vouched = 2; /* another instance knows nothing */
	kr_flush_reclaimed(&f->file, 0, &(struct kr_reclaim_reply){0});
	assert_true(f->file.flush->orphaned);

	f->file.flush->orphaned = false;
	f->file.flush->vouched = 0; /* no loss of power: the journal tells all */
	kr_flush_reclaimed(&f->file, 0, &(struct kr_reclaim_reply){.forgotten_seq = UINT64_MAX});
	assert_false(f->file.flush->orphaned);
}

static void who_has_kept_his_leases_flushes_on(void **state)
{
	struct fixture *f = *state;
	const struct kr_reclaim_reply reply = {0};

	write_some(f);
	kr_flush_reclaimed(&f->file, -EIO, &reply);
	assert_int_equal(fake.orphaned, 0);
	assert_int_equal(fake.abandoned, 0);
}

static void what_is_in_conflict_or_gone_is_moved(void **state)
{
	struct fixture *f = *state;
	const struct kr_reclaim_reply reply = {.conflict = 1};

	write_some(f);
	fake.facts.late = true;
	kr_flush_reclaimed(&f->file, 0, &reply);
	assert_int_equal(fake.late, 1);
	assert_int_equal(fake.abandoned, 1);
	kr_flush_reclaimed(&f->file, -ESTALE, &reply);
	assert_int_equal(fake.late, 2);
}

/* The server judges the two apart. */
static void a_reclaim_tells_what_is_dirty_from_what_is_to_be_replayed(void **state)
{
	struct fixture *f = *state;
	static const uint8_t now[16] = {2};
	struct kr_applied old = {.round = 20, .boot_id = {1}}, older = {.round = 10, .boot_id = {1}},
			  current = {.round = 99, .boot_id = {2}};
	struct kr_applied *all[] = {&current, &older, &old};
	struct kr_claims claims;

	for (uint64_t i = 0; i < KR_ARRAY_SIZE(all); i++) {
		struct kr_extent extent = {.offset = 10, .length = 100, .position = 1000, .seq = 2 + i};

		kr_extent_map_init(&all[i]->extents);
		assert_int_equal(kr_extent_map_insert(&all[i]->extents, &extent, NULL, NULL), 0);
		kr_list_append(&f->file.flush->applied, &all[i]->link);
	}
	kr_flush_claims(&f->file, now, &claims);
	assert_int_equal(claims.last, 0);
	write_some(f);
	kr_flush_claims(&f->file, now, &claims);
	assert_int_equal(claims.first, 7);
	assert_int_equal(claims.last, 7);
	assert_int_equal(claims.replay_first, 3);
	assert_int_equal(claims.replay_last, 4);
	assert_int_equal(claims.oldest, 10);
	assert_int_equal(claims.newest, 20);
	memcpy(fake.facts.boot_id, now, sizeof(now));
	kr_unjudged_begin(&f->file, -EIO);
	f->file.flush->judge_ns = 0;
	kr_list_remove(&f->send.link);
	kr_unjudged_step(&f->file);
	assert_true(fake.asked.first == 7 && fake.asked.last == 7 && fake.asked.replay_first == 3 &&
		fake.asked.replay_last == 4);
	assert_true(fake.asked.oldest == 10 && fake.asked.newest == 20);
	server_says(-EIO, NULL);
	for (size_t i = 0; i < KR_ARRAY_SIZE(all); i++)
		kr_extent_map_fini(&all[i]->extents);
}

/* RECLAIM asks about what is dirty by then: what a failed sync has lost must be, whatever was on its way after it. */
static void what_a_failed_sync_has_lost_is_dirty_before_a_session_begins(void **state)
{
	struct fixture *f = *state;

	write_some(f);
	fake.busy = &f->file;
	kr_flusher_session_lost(&fake.flusher);
	assert_int_equal(fake.abandoned, 0); /* it stays asked */
	fake.lost = true;
	kr_flusher_session_lost(&fake.flusher);
	assert_int_equal(fake.abandoned, 1);
	assert_false(f->file.flush->unstable);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(nothing_is_given_up_while_what_was_refused_is_tried_again),
		TEST(rounds_to_be_replayed_do_not_wait_for_what_was_refused),
		TEST(what_was_not_taken_as_a_replay_is_asked_for_before_it_is_sent_again),
		TEST(a_round_of_a_former_boot_without_bytes_is_not_replayed),
		TEST(what_is_to_be_replayed_goes_before_what_was_asked_for_in_the_boot_before),
		TEST(a_file_without_late_bytes_has_nothing_to_keep),
		TEST(a_reclaim_tells_what_is_dirty_from_what_is_to_be_replayed),
		TEST(bytes_that_may_be_older_than_the_servers_are_kept_and_not_sent),
		TEST(who_has_kept_his_leases_flushes_on),
		TEST(what_is_in_conflict_or_gone_is_moved),
		TEST(what_a_failed_sync_has_lost_is_dirty_before_a_session_begins),
	};

	kr_log_init("test_flush_session", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

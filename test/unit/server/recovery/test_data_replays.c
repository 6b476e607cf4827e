/* What nodes replay after a boot of the server's machine, what of it counts, and what is noted for that. */
#include "server/session/request.h"
#include "test/unit/server/flush/data_fixture.h"

#include "server/flush/data_state.h"
#include "server/base/clean_shutdown.h"

static unsigned after_replays(uint64_t offset)
{
	return offset >= 90 && offset < 95 ? 9 : offset >= 50 && offset < 150 ? 7 : 5;
}

static void replays_of_all_nodes_are_applied_by_round_and_before_the_rest(void **state)
{
	static const struct kr_range five = {0, 120}, seven = {50, 100}, nine = {90, 5};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_fid file = create_file(a, "file");
	struct kr_getattr_request getattr = {.file = file};

	(void)state;
	(void)b;
	boot_anew();
	assert_true(F.server.sessions->grace.active);
	server_stop(); /* before anybody is back: the next one goes on waiting for replays */
	server_start();
	assert_true(F.server.sessions->grace.active);
	a = node_new("a");
	b = node_new("b");
	for (size_t i = 0; i < 2; i++) {
		F.nodes[i].manual_reclaim = true;
		F.nodes[i].file = file;
		node_begin(&F.nodes[i]);
		wait_until(F.nodes[i].live);
	}
	send_replay(a, 9, &nine, 9);
	send_replay(a, 5, &five, 5);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_false(a->flushed);
	send_replay(b, 7, &seven, 7);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	/* Attributes are asked for in vain until all is replayed. */
	assert_int_equal(node_call(b, KR_MSG_GETATTR, &getattr), 0);
	assert_int_equal(the_answer.reply.getattr_reply.attr.size, 150);
	wait_until(a->flushed && b->flushed);
	assert_false(F.server.sessions->grace.active);
	assert_content("file", 150, after_replays);
}

static unsigned five_with_seven(uint64_t offset)
{
	return offset >= 50 && offset < 150 ? 7 : 5;
}

/* The power failed again in the middle of the replays: A was told that its older round had been applied anew, B was
 * not. */
static void replays_go_by_the_rounds_that_they_were_at_first(void **state)
{
	static const struct kr_range five = {0, 120}, seven = {50, 100};
	struct node *a = node_start("a"), *b = node_start("b");

	(void)state;
	begin_replays(create_file(a, "file"));
	send_replay_of(a, 20, 5, &five, 5);
	send_replay(b, 7, &seven, 7);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	wait_until(a->flushed && b->flushed);
	assert_content("file", 150, five_with_seven);
}

/* A's daemon is killed when it has sent its replays, and begins anew: what it had sent is gone with its session. */
static void who_begins_anew_while_replays_are_collected_is_waited_for_again(void **state)
{
	static const struct kr_range five = {0, 120}, seven = {50, 100};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_reclaim_request reclaim = {
		.kinds = KR_LEASE_WRITE, .replay_first = 1, .replay_last = 5, .oldest = 5, .newest = 5};

	(void)state;
	reclaim.file = create_file(a, "file");
	begin_replays(reclaim.file);
	send_replay(a, 5, &five, 5);
	send_replay(b, 7, &seven, 7);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	node_die(a);
	node_begin(a);
	wait_until(a->live);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.conflict, 0);
	send_replay(a, 5, &five, 5);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	wait_until(a->flushed && b->flushed && !F.server.sessions->grace.active);
	assert_int_equal(a->flush_err, 0);
	assert_content("file", 150, five_with_seven);
}

/* A was killed before it had written down that its round was applied anew. */
static void what_was_replayed_is_not_replayed_over_later_rounds(void **state)
{
	static const struct kr_range five = {0, 120}, seven = {50, 100};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_reclaim_request reclaim = {
		.kinds = KR_LEASE_WRITE, .replay_first = 1, .replay_last = 5, .oldest = 5, .newest = 5};

	(void)state;
	reclaim.file = create_file(a, "file");
	begin_replays(reclaim.file);
	send_replay(a, 5, &five, 5);
	send_replay(b, 7, &seven, 7);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	wait_until(a->flushed && b->flushed);
	a->flushed = false;
	node_die(a);
	node_begin(a);
	wait_until(a->live);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.conflict, 0);
	send_replay(a, 5, &five, 5);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	wait_until(a->flushed);
	assert_int_equal(a->flush_err, 0);
	assert_content("file", 150, five_with_seven);
}

/* The same, and the server's process has ended since and was started anew: AMONG the replays, as far as the state
 * directory knows, or after them, and SYNCED what was applied or not. */
static void replay_at_the_next_start(bool among, bool synced)
{
	static const struct kr_range five = {0, 120}, seven = {50, 100};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_reclaim_request reclaim = {
		.kinds = KR_LEASE_WRITE, .replay_first = 1, .replay_last = 5, .oldest = 5, .newest = 5};

	reclaim.file = create_file(a, "file");
	begin_replays(reclaim.file);
	send_replay(a, 5, &five, 5);
	send_replay(b, 7, &seven, 7);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	wait_until(a->flushed && b->flushed && !F.server.sessions->grace.active && F.server.jobs == 0);
	server_stop();
	change_state(among, !synced);
	server_start();
	assert_int_equal(F.server.data->collecting, among);
	a = node_new("a");
	b = node_new("b");
	for (size_t i = 0; i < 2; i++) {
		F.nodes[i].manual_reclaim = true;
		node_begin(&F.nodes[i]);
		wait_until(F.nodes[i].live);
	}
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.conflict, 0);
	a->file = reclaim.file;
	send_replay(a, 5, &five, 5);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	wait_until(a->flushed);
	assert_int_equal(a->flush_err, 0);
	assert_content("file", 150, five_with_seven);
}

static void what_was_replayed_is_not_replayed_at_the_next_start_in_the_same_boot(void **state)
{
	(void)state;
	replay_at_the_next_start(false, false);
}

static void what_was_replayed_is_not_replayed_when_the_server_was_killed_among_the_replays(void **state)
{
	(void)state;
	replay_at_the_next_start(true, false);
}

static void what_was_replayed_and_synced_is_in_conflict_with_nothing_at_the_next_start(void **state)
{
	(void)state;
	replay_at_the_next_start(false, true);
}

/* When the sessions have ended, the loop is busy until the data side's tick is due. */
static void dawdle(uv_timer_t *timer)
{
	if (!F.server.daemon->end.ended)
		return;
	usleep(2 * KR_DATA_TICK_MS * 1000);
	uv_close((uv_handle_t *)timer, NULL);
}

/* Nobody is told of a sync while replays wait, and no sync changes that when the server stops. That none is waited for
 * any more when the sessions have ended does not end the grace period: the next instance waits for all whose replays
 * may be missing. */
static void the_server_stops_while_replays_wait(void **state)
{
	static const struct kr_range five = {0, 120}, seven = {50, 100};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_flush_request waits = {.flags = 2, .seq = 7, .bytes = 100, .replay_round = 7, .replay_order = 7};
	struct kr_clean_shutdown peace;
	uv_timer_t timer;
	int dir;

	(void)state;
	waits.file = create_file(a, "file");
	begin_replays(waits.file);
	b->round_err = 1; /* it does not answer */
	send_replay(a, 5, &five, 5);
	node_ask(b, KR_MSG_FLUSH, &waits, NULL, 0, flush_answered);
	send_replay(a, 9, &seven, 9);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	wait_until(a->flushed && b->round_id);
	assert_true(F.server.sessions->grace.active);
	uv_timer_init(&F.loop, &timer);
	uv_timer_start(&timer, dawdle, 1, 1);
	server_stop();
	dir = open(F.state_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(kr_clean_shutdown_read(dir, &peace), 0);
	close(dir);
	server_start();
	assert_int_equal(peace.state, KR_CLEAN_SHUTDOWN_STOPPED); /* not when it took too long */
	assert_true(F.server.sessions->grace.active && F.server.data->collecting);
	assert_int_equal(kr_grace_awaited(&F.server.sessions->grace), 2);
}

/* Its first replay cannot be applied: what comes of it later is not all up to there. */
static void of_a_node_whose_replay_failed_nothing_counts_as_applied(void **state)
{
	static const struct kr_range five = {0, 120}, seven = {50, 100};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_reclaim_request reclaim = {
		.kinds = KR_LEASE_WRITE, .replay_first = 1, .replay_last = 7, .oldest = 5, .newest = 7};

	(void)state;
	reclaim.file = create_file(a, "file");
	begin_replays(reclaim.file);
	a->damaged = true;
	send_replay(a, 5, &five, 5);
	a->damaged = false;
	send_replay(a, 7, &seven, 7);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	wait_until(!F.server.sessions->grace.active);
	assert_int_not_equal(a->flush_err, 0);
	assert_content("file", 0, five_with_seven);
	node_die(a);
	node_begin(a);
	wait_until(a->live);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.applied_seq, 0);
}

/* There is memory for one of the two, and the other's bytes are asked for when its turn comes. */
static void replays_beyond_the_memory_for_them_are_streamed_in_their_turn(void **state)
{
	static const struct kr_range five = {0, 200}, seven = {50, 100};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_fid file = create_file(a, "file");
	size_t taken = KR_DATA_REPLAY_BYTES - 300 - sizeof(struct kr_request);

	(void)state;
	boot_anew();
	for (size_t i = 0; i < 2; i++) {
		F.nodes[i].manual_reclaim = true;
		F.nodes[i].file = file;
		F.nodes[i].extents = i == 0 ? &five : &seven;
		F.nodes[i].extent_count = 1;
		F.nodes[i].generation = i == 0 ? 5 : 7;
		node_begin(&F.nodes[i]);
		wait_until(F.nodes[i].live);
	}
	F.server.data->replay_bytes = taken;
	send_replay(b, 7, &seven, 7);
	send_replay(a, 5, &five, 5);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_int_equal(F.server.data->replays, 2);
	assert_int_equal(F.server.data->replay_bytes, taken + 100);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	wait_until(a->flushed && b->flushed);
	assert_int_equal(a->flush_err, 0);
	assert_int_equal(b->flush_err, 0);
	assert_int_equal(F.server.data->replay_bytes, taken);
	assert_int_equal(F.server.data->counters.chained_rounds, 1);
	assert_int_equal(a->replay_round, 5);
	assert_content("file", 200, five_with_seven);
}

static unsigned five_under_seven(uint64_t offset)
{
	return offset < 50 ? 5 : 7;
}

/* A comes back to a server that has lost its power, and knows only that its round was applied; B has let go of its own.
 */
static void a_replay_of_what_was_synced_does_not_cover_what_came_later(void **state)
{
	static const struct kr_range five = {0, 100}, seven = {50, 100};
	struct node *a = node_start("a"), *b = node_start("b");
	uint64_t round;

	(void)state;
	a->file = b->file = create_file(a, "file");
	a->extents = &five;
	b->extents = &seven;
	a->extent_count = b->extent_count = 1;
	a->inlined = b->inlined = true;
	a->generation = 5;
	b->generation = 7;
	flush_and_wait(a);
	round = a->flush_reply.round;
	node_die(a); /* before it was told */
	flush_and_wait(b);
	wait_until(b->stable >= b->flush_reply.round);
	boot_anew();
	for (size_t i = 0; i < 2; i++) {
		F.nodes[i].manual_reclaim = true;
		node_begin(&F.nodes[i]);
		wait_until(F.nodes[i].live);
	}
	a->flushed = false;
	send_replay(a, round, &five, 5);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	wait_until(a->flushed);
	assert_int_equal(a->flush_err, 0);
	assert_int_equal(a->flush_reply.round, round);
	assert_true(a->flush_reply.stable);
	assert_content("file", 150, five_under_seven);
}

/* Writing it down takes a sync of its own: only where somebody else could replay. */
static void only_syncs_of_files_with_several_writers_are_noted(void **state)
{
	static const struct kr_range extent = {0, 100};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_fsync_request fsync = {0};
	uint64_t floor;

	(void)state;
	F.server.data->inherited = false; /* there was no instance before */
	F.server.data->raised_ns = 0;
	fsync.file = a->file = b->file = create_file(a, "file");
	a->extents = b->extents = &extent;
	a->extent_count = b->extent_count = 1;
	a->inlined = b->inlined = true;
	a->generation = b->generation = 5;
	floor = F.server.data->last_round;
	wait_until(F.server.data->synced.floor.round >= floor);
	for (int i = 0; i < 5; i++) {
		flush_and_wait(a);
		assert_int_equal(node_call(a, KR_MSG_FSYNC, &fsync), 0);
	}
	wait_until(a->stable >= a->flush_reply.round);
	assert_int_equal(F.server.data->synced.lines, 0);
	flush_and_wait(b);
	assert_int_equal(node_call(b, KR_MSG_FSYNC, &fsync), 0);
	assert_true(kr_synced_round(&F.server.data->synced, &a->file) >= b->flush_reply.round);
}

static void reclaim_tells_what_is_applied_and_it_becomes_stable(void **state)
{
	static const struct kr_range extents[] = {{0, 100}};
	struct node *node = node_start("n1");
	struct kr_reclaim_request msg = {.kinds = KR_LEASE_WRITE};

	(void)state;
	msg.file = node->file = create_file(node, "file");
	node->extents = extents;
	node->extent_count = 1;
	node->inlined = true;
	node->generation = 42;
	flush_and_wait(node);
	node->manual_reclaim = true;
	node->stable = 0;
	node_die(node);
	node_begin(node);
	wait_until(node->live);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &msg), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.applied_seq, 42);
	assert_int_equal(the_answer.reply.reclaim_reply.applied_round, node->flush_reply.round);
	wait_until(node->stable >= node->flush_reply.round);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(replays_of_all_nodes_are_applied_by_round_and_before_the_rest),
		TEST(replays_go_by_the_rounds_that_they_were_at_first),
		TEST(who_begins_anew_while_replays_are_collected_is_waited_for_again),
		TEST(what_was_replayed_is_not_replayed_over_later_rounds),
		TEST(what_was_replayed_is_not_replayed_at_the_next_start_in_the_same_boot),
		TEST(what_was_replayed_is_not_replayed_when_the_server_was_killed_among_the_replays),
		TEST(what_was_replayed_and_synced_is_in_conflict_with_nothing_at_the_next_start),
		TEST(the_server_stops_while_replays_wait),
		TEST(of_a_node_whose_replay_failed_nothing_counts_as_applied),
		TEST(replays_beyond_the_memory_for_them_are_streamed_in_their_turn),
		TEST(a_replay_of_what_was_synced_does_not_cover_what_came_later),
		TEST(only_syncs_of_files_with_several_writers_are_noted),
		TEST(reclaim_tells_what_is_applied_and_it_becomes_stable),
	};

	prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

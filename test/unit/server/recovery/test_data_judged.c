/* What nodes replay that comes after what others have written since the boot of the server's machine: it is judged
 * before it goes in. */
#include "server/session/request.h"
#include "test/unit/server/flush/data_fixture.h"

#include "server/flush/data_state.h"
#include "server/base/state_priv.h"

/* A server that ended after it had let the replays of a node in, which was late, and before they came: the next one,
 * which takes it for one that was there all the time, does not know what happened since. */
static void what_may_not_have_been_replayed_is_judged_at_the_next_start_in_the_same_boot(void **state)
{
	struct node *a = node_start("a");
	struct kr_reclaim_request reclaim = {
		.kinds = KR_LEASE_WRITE, .replay_first = 1, .replay_last = 5, .oldest = 5, .newest = 5};

	(void)state;
	reclaim.file = create_file(a, "file");
	for (int touched = 0; touched < 2; touched++) {
		server_stop();
		change_state(false, true);
		server_start();
		assert_false(F.server.data->collecting);
		a = node_new("a");
		a->manual_reclaim = true;
		node_begin(a);
		wait_until(a->live);
		if (touched)
			reclaim.since = (struct kr_time){0};
		else
			reclaim.since = (struct kr_time){.sec = (int64_t)(kr_clock_real_ns() / KR_NS_PER_S) + 1};
		assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
		assert_int_equal(the_answer.reply.reclaim_reply.conflict, touched ? KR_CONFLICT_REPLAYS : 0);
	}
}

static unsigned only_seven(uint64_t offset)
{
	return offset >= 50 ? 7 : 0;
}

static unsigned only_five(uint64_t offset)
{
	(void)offset;
	return 5;
}

/* Others' rounds that were later have gone in since: whether A asks again in its session or in another. */
static void what_was_refused_in_its_turn_is_judged_when_it_comes_again(void **state)
{
	static const struct kr_range five = {0, 120}, seven = {50, 100};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_reclaim_request reclaim = {.kinds = KR_LEASE_WRITE,
		.replay_first = 1,
		.replay_last = 5,
		.oldest = 5,
		.newest = 5,
		.since = {.sec = (int64_t)(kr_clock_real_ns() / KR_NS_PER_S) - 3600}};
	struct kr_fid other = create_file(a, "other");

	(void)state;
	reclaim.file = create_file(a, "file");
	begin_replays(reclaim.file);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.conflict, 0);
	a->damaged = true;
	send_replay(a, 5, &five, 5);
	send_replay(b, 7, &seven, 7);
	a->file = other;
	send_replay(a, 5, &five, 5);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	wait_until(!F.server.sessions->grace.active);
	assert_content("file", 150, only_seven);
	for (int session = 0; session < 2; session++) {
		assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
		assert_int_equal(the_answer.reply.reclaim_reply.conflict, KR_CONFLICT_REPLAYS);
		if (session)
			break;
		node_die(a);
		node_begin(a);
		wait_until(a->live);
	}
	/* Nobody else has written here. */
	reclaim.file = other;
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.conflict, 0);
	assert_int_equal(the_answer.reply.reclaim_reply.kinds, KR_LEASE_ALL);
	a->damaged = a->flushed = false;
	send_replay(a, 5, &five, 5);
	wait_until(a->flushed);
	assert_int_equal(a->flush_err, 0);
	assert_content("other", 120, only_five);
}

/* A's connection was cut before it heard that it had told all: the copy that it has given up fails in its turn, and the
 * other one, which it sends since, comes after the rounds of B. */
static void a_copy_that_was_given_up_does_not_keep_the_other_from_being_judged(void **state)
{
	static const struct kr_range five = {0, 120};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_reclaim_request reclaim = {
		.kinds = KR_LEASE_WRITE, .replay_first = 1, .replay_last = 5, .oldest = 5, .newest = 5};
	struct kr_flush_request msg = {.flags = 2, .seq = 5, .bytes = 120, .replay_round = 5, .replay_order = 5};

	(void)state;
	reclaim.file = msg.file = create_file(a, "file");
	begin_replays(reclaim.file);
	a->extents = &five;
	a->extent_count = 1;
	a->generation = 5;
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	a->round_err = -ENOENT;
	node_ask(a, KR_MSG_FLUSH, &msg, NULL, 0, flush_answered);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.conflict, 0);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	wait_until(a->flushed && !F.server.sessions->grace.active);
	assert_int_equal(a->flush_err, -ENOENT);
	a->round_err = 0;
	assert_int_equal(node_call(a, KR_MSG_FLUSH, &msg), -EAGAIN);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.conflict, 0);
	assert_int_equal(node_call(a, KR_MSG_FLUSH, &msg), 0);
	assert_content("file", 120, only_five);
}

static struct {
	bool told;
	int err;
	uint8_t conflict;
} verdict;

static void note_verdict(struct node *node, int err, const void *reply)
{
	(void)node;
	verdict.told = true;
	verdict.err = err;
	verdict.conflict = err ? 0 : ((const struct kr_reclaim_reply *)reply)->conflict;
}

/* What has come of the replays is known when they are in: the one that runs is its own, given up with its connection.
 */
static void what_is_asked_for_while_the_collected_go_in_waits_for_them(void **state)
{
	static const struct kr_range five = {0, 120};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_reclaim_request reclaim = {
		.kinds = KR_LEASE_WRITE, .replay_first = 1, .replay_last = 5, .oldest = 5, .newest = 5};
	struct kr_reclaim_request other = {.file = create_file(b, "other"), .kinds = KR_LEASE_WRITE};
	struct kr_flush_request msg = {.flags = 2, .seq = 5, .bytes = 120, .replay_round = 5, .replay_order = 5};

	(void)state;
	reclaim.file = msg.file = create_file(a, "file");
	begin_replays(reclaim.file);
	a->extents = &five;
	a->extent_count = 1;
	a->generation = 5;
	a->round_err = 1;
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	node_ask(a, KR_MSG_FLUSH, &msg, NULL, 0, flush_answered);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	wait_until(!F.server.data->collecting && a->round_id);
	verdict.told = false;
	node_ask(a, KR_MSG_RECLAIM, &reclaim, NULL, 0, note_verdict);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &other), 0);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM, &other), 0);
	assert_false(verdict.told);
	a->round_err = 0;
	kr_conn_reply(a->control, KR_MSG_ROUND, a->round_id, 0, -ENOENT, NULL, NULL, 0);
	wait_until(verdict.told);
	assert_int_equal(verdict.err, 0);
	assert_int_equal(verdict.conflict, 0);
	assert_int_equal(node_call(a, KR_MSG_FLUSH, &msg), 0);
	assert_content("file", 120, only_five);
}

/* Others who have reclaimed the file flush what they write to it: A has to have it for itself, and nobody is asked for
 * that in the grace period. */
static void what_was_refused_is_judged_when_the_grace_period_is_over(void **state)
{
	static const struct kr_range five = {0, 120};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_reclaim_request reclaim = {
		.kinds = KR_LEASE_WRITE, .replay_first = 1, .replay_last = 5, .oldest = 5, .newest = 5};
	struct kr_reclaim_request held = {.kinds = KR_LEASE_WRITE};
	const uint8_t nobody[16] = {0};

	(void)state;
	node_start("c"); /* it does not come back */
	reclaim.file = held.file = create_file(a, "file");
	begin_replays(reclaim.file);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM, &held), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.kinds, KR_LEASE_WRITE);
	a->damaged = true;
	send_replay(a, 5, &five, 5);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	F.server.state->changing = true; /* the disk is slow, and C's record stays for a while */
	F.server.sessions->grace.ends_ns = F.server.sessions->grace.latest_ns = 1;
	wait_until(F.server.sessions->forgetting);
	assert_int_not_equal(a->flush_err, 0);
	verdict.told = false;
	node_ask(a, KR_MSG_RECLAIM, &reclaim, NULL, 0, note_verdict);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &held), 0);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM, &held), 0);
	assert_false(verdict.told);
	assert_int_equal(b->recalls, 0);
	F.server.state->changing = false;
	kr_state_forget_node(&F.server, nobody, NULL, NULL);
	wait_until(b->recalls == 1);
	assert_false(verdict.told);
}

/* The grace period ends for A while its file is being looked at: B may write from then on, so it is asked first. */
static void who_is_made_late_while_its_reclaim_runs_has_the_file_for_itself_when_it_is_judged(void **state)
{
	struct kr_reclaim_request reclaim = {.kinds = KR_LEASE_WRITE, .opens = 1, .first = 1, .last = 5},
				  held = {.kinds = KR_LEASE_WRITE};
	struct node *a = node_start("a"), *b = node_start("b");

	(void)state;
	reclaim.file = held.file = create_file(a, "file");
	server_stop();
	server_start();
	a = node_new("a");
	b = node_new("b");
	for (int i = 0; i < 2; i++) {
		F.nodes[i].manual_reclaim = true;
		node_begin(&F.nodes[i]);
		wait_until(F.nodes[i].live);
	}
	assert_true(F.server.sessions->grace.active);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM, &held), 0);
	wait_until(F.server.jobs == 0);
	verdict.told = false;
	node_ask(a, KR_MSG_RECLAIM, &reclaim, NULL, 0, note_verdict);
	wait_until(F.server.jobs > 0);
	kr_session_find(&F.server, a->session)->recovery.lapse =
		(struct kr_lapse){.kind = KR_LAPSE_KNOWN, .epoch = F.server.files->epoch};
	assert_int_equal(node_call(b, KR_MSG_RECLAIM, &held), 0);
	assert_false(verdict.told);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	F.server.sessions->grace.ends_ns = F.server.sessions->grace.latest_ns = 1;
	wait_until(b->recalls == 1);
	assert_false(verdict.told);
	assert_int_equal(kr_sfile_find(&F.server, &reclaim.file)->opens, 0);
}

static unsigned all_seven(uint64_t offset)
{
	(void)offset;
	return 7;
}

/* A has one round of PIECE more to replay than are collected. */
static void replay_too_many(struct node *a, struct kr_reclaim_request *reclaim, const struct kr_range *piece)
{
	reclaim->file = create_file(a, "file");
	begin_replays(reclaim->file);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, reclaim), 0);
	for (uint64_t i = 1; i <= KR_ROUND_REPLAYS_PER_NODE; i++)
		send_replay(a, i, piece, 5);
	a->flushed = false;
	send_replay(a, reclaim->newest, piece, 5);
	wait_until(a->flushed);
	assert_int_equal(a->flush_err, -EAGAIN);
}

/* Also what is asked for while there is no room for it. */
static void a_replay_beyond_those_that_are_collected_is_judged(void **state)
{
	static const struct kr_range five = {0, 100};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_reclaim_request reclaim = {.replay_first = 1,
		.replay_last = KR_ROUND_REPLAYS_PER_NODE + 1,
		.oldest = 1,
		.newest = KR_ROUND_REPLAYS_PER_NODE + 1};

	(void)state;
	replay_too_many(a, &reclaim, &five);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.conflict, 0);
	send_replay(b, 2000, &five, 7);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	wait_until(b->flushed && !F.server.sessions->grace.active);
	a->flushed = false;
	send_replay(a, reclaim.newest, &five, 5);
	wait_until(a->flushed);
	assert_int_equal(a->flush_err, -EAGAIN);
	assert_content("file", 100, all_seven);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.conflict, KR_CONFLICT_REPLAYS);
}

static void after_one_that_there_was_no_room_for_none_is_taken(void **state)
{
	static const struct kr_range five = {0, 120};
	struct node *a = node_start("a");
	struct kr_reclaim_request reclaim = {.kinds = KR_LEASE_WRITE,
		.replay_first = 1,
		.replay_last = 2000,
		.oldest = UINT64_MAX / 2,
		.newest = UINT64_MAX / 2 + 2000,
		.since = {.sec = (int64_t)(kr_clock_real_ns() / KR_NS_PER_S) + 1}};
	struct kr_flush_request msg = {
		.flags = 2, .seq = 1, .bytes = 120, .replay_round = UINT64_MAX / 2, .replay_order = 1};
	struct kr_sfile *file;

	(void)state;
	reclaim.file = msg.file = a->file = create_file(a, "file");
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.conflict, 0);
	file = kr_sfile_find(&F.server, &msg.file);
	assert_true(kr_attachment_find(file, kr_session_find(&F.server, a->session))->replays);
	a->extents = &five;
	a->extent_count = 1;
	a->generation = 5;
	a->round_err = 1;
	node_ask(a, KR_MSG_FLUSH, &msg, NULL, 0, flush_answered);
	for (uint64_t i = 1; i < KR_ROUND_REPLAYS_PER_NODE; i++)
		send_replay_of(a, UINT64_MAX / 2 + i, i + 1, &five, 5);
	a->flushed = false;
	send_replay_of(a, UINT64_MAX / 2 + 1024, 1025, &five, 5);
	wait_until(a->flushed);
	assert_int_equal(a->flush_err, -EAGAIN);
	assert_false(kr_attachment_find(file, kr_session_find(&F.server, a->session))->replays);
	a->round_err = 0;
	kr_conn_reply(a->control, KR_MSG_ROUND, a->round_id, 0, -ENOENT, NULL, NULL, 0);
	wait_until(F.server.data->replays == 0);
}

/* Nobody else has changed it since, but what was collected has gone in: A's is older. */
static void a_node_that_was_away_does_not_cover_what_was_replayed(void **state)
{
	static const struct kr_range seven = {50, 100};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_reclaim_request reclaim = {.kinds = KR_LEASE_WRITE,
		.replay_first = 1,
		.replay_last = 5,
		.oldest = 5,
		.newest = 5,
		.since = {.sec = (int64_t)(kr_clock_real_ns() / KR_NS_PER_S) - 3600}};

	(void)state;
	reclaim.file = create_file(a, "file");
	boot_anew();
	for (int i = 0; i < 2; i++) {
		F.nodes[i].manual_reclaim = true;
		F.nodes[i].file = reclaim.file;
	}
	node_begin(b);
	wait_until(b->live);
	send_replay(b, 7, &seven, 7);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	F.server.sessions->grace.ends_ns = F.server.sessions->grace.latest_ns = 1;
	wait_until(b->flushed && !F.server.sessions->grace.active);
	assert_int_equal(b->flush_err, 0);
	node_begin(a);
	wait_until(a->live);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	assert_true(the_answer.reply.reclaim_reply.conflict & KR_CONFLICT_REPLAYS);
	assert_content("file", 150, only_seven);
}

/* Also when the others' are on stable storage, and whatever the node has seen of the file meanwhile. */
static void what_missed_its_turn_comes_after_what_has_been_synced_since(void **state)
{
	static const struct kr_range five = {0, 100};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_reclaim_request reclaim = {.replay_first = 1,
		.replay_last = KR_ROUND_REPLAYS_PER_NODE + 1,
		.oldest = 1,
		.newest = KR_ROUND_REPLAYS_PER_NODE + 1};

	(void)state;
	replay_too_many(a, &reclaim, &five);
	send_replay(b, 2000, &five, 7);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM_DONE, NULL), 0);
	assert_int_equal(node_call(b, KR_MSG_RECLAIM_DONE, NULL), 0);
	wait_until(b->flushed && !F.server.sessions->grace.active);
	wait_until(b->stable >= b->flush_reply.round);
	reclaim.since = (struct kr_time){.sec = (int64_t)(kr_clock_real_ns() / KR_NS_PER_S) + 1};
	reclaim.oldest = reclaim.newest;
	reclaim.replay_first = reclaim.replay_last;
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.conflict, KR_CONFLICT_REPLAYS);
	assert_content("file", 100, all_seven);
}

static unsigned nine_before_seven(uint64_t offset)
{
	return offset < 20 ? 9 : offset < 50 ? 5 : 7;
}

/* A's bytes are on stable storage, as is known when it asks. What B has synced since is all that is known when they
 * come. */
static void what_was_known_to_be_synced_is_not_taken_when_that_is_forgotten(void **state)
{
	static const struct kr_range five = {0, 100}, seven = {50, 100}, nine = {0, 20};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_reclaim_request reclaim = {.replay_first = 5, .replay_last = 5};

	(void)state;
	reclaim.file = a->file = b->file = create_file(a, "file");
	a->inlined = b->inlined = a->manual_reclaim = true;
	a->extent_count = b->extent_count = 1;
	a->extents = &five;
	b->extents = &seven;
	a->generation = 5;
	b->generation = 7;
	flush_and_wait(a);
	reclaim.oldest = reclaim.newest = a->flush_reply.round;
	flush_and_wait(b);
	wait_until(b->stable >= b->flush_reply.round);
	boot_anew();
	F.server.data->synced.lost = F.server.data->last_round; /* its log was of another boot */
	node_begin(b);
	wait_until(b->live);
	F.server.sessions->grace.ends_ns = F.server.sessions->grace.latest_ns = 1;
	wait_until(!F.server.sessions->grace.active);
	node_begin(a);
	wait_until(a->live);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.conflict, 0);
	b->extents = &nine;
	b->generation = 9;
	flush_and_wait(b);
	wait_until(b->stable >= b->flush_reply.round);
	assert_int_equal(kr_synced_judge(&F.server.data->synced, &reclaim.file, reclaim.oldest, reclaim.newest),
		KR_SYNCED_OVERTAKEN);
	a->flushed = false;
	send_replay(a, reclaim.newest, &five, 5);
	wait_until(a->flushed);
	assert_int_equal(a->flush_err, -EAGAIN);
	assert_content("file", 150, nine_before_seven);
}

/* B has synced what came later, before the power failed; A has missed its turn, and nobody has written since. */
static void what_later_ones_have_overtaken_before_the_boot_is_in_conflict(void **state)
{
	static const struct kr_range five = {0, 100}, seven = {50, 100};
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_reclaim_request reclaim = {.replay_first = 5, .replay_last = 5};

	(void)state;
	reclaim.file = a->file = b->file = create_file(a, "file");
	a->inlined = b->inlined = a->manual_reclaim = true;
	a->extent_count = b->extent_count = 1;
	a->extents = &five;
	b->extents = &seven;
	a->generation = 5;
	b->generation = 7;
	flush_and_wait(a);
	reclaim.oldest = reclaim.newest = a->flush_reply.round;
	node_die(a);
	F.server.data->synced.lost = reclaim.newest; /* it may be lost */
	flush_and_wait(b);
	wait_until(b->stable >= b->flush_reply.round);
	boot_anew();
	assert_int_equal(kr_synced_judge(&F.server.data->synced, &reclaim.file, reclaim.oldest, reclaim.newest),
		KR_SYNCED_OVERTAKEN);
	node_begin(b);
	wait_until(b->live);
	F.server.sessions->grace.ends_ns = F.server.sessions->grace.latest_ns = 1;
	wait_until(!F.server.sessions->grace.active);
	node_begin(a);
	wait_until(a->live);
	assert_int_equal(node_call(a, KR_MSG_RECLAIM, &reclaim), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.conflict, KR_CONFLICT_REPLAYS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_may_not_have_been_replayed_is_judged_at_the_next_start_in_the_same_boot),
		TEST(what_was_refused_in_its_turn_is_judged_when_it_comes_again),
		TEST(a_copy_that_was_given_up_does_not_keep_the_other_from_being_judged),
		TEST(what_is_asked_for_while_the_collected_go_in_waits_for_them),
		TEST(what_was_refused_is_judged_when_the_grace_period_is_over),
		TEST(who_is_made_late_while_its_reclaim_runs_has_the_file_for_itself_when_it_is_judged),
		TEST(a_replay_beyond_those_that_are_collected_is_judged),
		TEST(after_one_that_there_was_no_room_for_none_is_taken),
		TEST(a_node_that_was_away_does_not_cover_what_was_replayed),
		TEST(what_missed_its_turn_comes_after_what_has_been_synced_since),
		TEST(what_was_known_to_be_synced_is_not_taken_when_that_is_forgotten),
		TEST(what_later_ones_have_overtaken_before_the_boot_is_in_conflict),
	};

	prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Replays over a start of the server in the boot in which others' later ones went in: what comes out of its turn then
 * is judged, and only that. */
#include "server/session/request.h"
#include "test/unit/server/flush/data_fixture.h"

#include <stdlib.h>

#include "server/flush/data_state.h"
#include "server/base/state_priv.h"

static const struct kr_range five = {0, 120}, seven = {50, 100}, nine = {100, 100};

/* What A says that it has to replay, from ORDER on. */
static struct kr_reclaim_request claim_of(struct kr_fid file, uint64_t order)
{
	return (struct kr_reclaim_request){.file = file,
		.replay_first = order,
		.replay_last = 9,
		.oldest = order,
		.newest = 9,
		.since = {.sec = (int64_t)(kr_clock_real_ns() / KR_NS_PER_S) + 1}}; /* the times tell nothing */
}

static unsigned only_seven(uint64_t offset)
{
	return offset >= 50 ? 7 : 0;
}

static unsigned all_in_turn(uint64_t offset)
{
	return offset >= 100 ? 9 : offset >= 50 ? 7 : 5;
}

static void begin(struct node *node, struct kr_fid file)
{
	node->manual_reclaim = true;
	node->file = file;
	node_begin(node);
	wait_until(node->live);
}

/* The server is killed before the state directory says that the grace period of this boot has ended, and before
 * anything was synced. */
static void start_anew(struct kr_fid file)
{
	server_stop();
	change_state(true, true);
	server_start();
	begin(node_new("a"), file);
	begin(node_new("b"), file);
	assert_true(F.server.data->collecting);
}

static int replay(struct node *node, uint64_t order, const struct kr_range *extent)
{
	node->flushed = false;
	send_replay(node, order, extent, (unsigned)order);
	wait_until(node->flushed);
	return node->flush_err;
}

static void claim(struct node *node, struct kr_fid file, uint64_t order, uint8_t conflict)
{
	const struct kr_reclaim_request msg = claim_of(file, order);

	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &msg), 0);
	assert_int_equal(the_answer.reply.reclaim_reply.conflict, conflict);
}

/* What A brings is older than what B has replayed: neither that nor what is behind it goes in. */
static void try_to_cover(struct node *a, struct kr_fid file)
{
	claim(a, file, 5, 0);
	assert_int_equal(replay(a, 5, &five), -EAGAIN);
	assert_int_equal(replay(a, 9, &nine), -EAGAIN);
	claim(a, file, 5, KR_CONFLICT_REPLAYS);
	assert_int_equal(replay(a, 9, &nine), -EAGAIN);
}

static void done(struct node *node)
{
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL), 0);
}

/* What has not been written down when the server is killed. */
static void forget_changes(void)
{
	struct kr_link *link;

	while ((link = kr_list_pop(&F.server.state->changes)))
		free(link); /* the removal of a record */
	F.server.state->changing = false;
}

/* A comes only when the server has ended before it had forgotten A. */
static void who_was_away_does_not_cover_what_was_replayed_before_the_servers_end(void **state)
{
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_fid file = create_file(a, "file");

	(void)state;
	boot_anew();
	begin(b, file);
	send_replay(b, 7, &seven, 7);
	done(b);
	F.server.state->changing = true; /* the disk is slow: A's record stays */
	F.server.sessions->grace.ends_ns = F.server.sessions->grace.latest_ns = 1;
	wait_until(F.server.sessions->forgetting && b->flushed);
	assert_int_equal(b->flush_err, 0);
	forget_changes();
	start_anew(file);
	try_to_cover(a, file);
	done(a);
	done(b);
	wait_until(!F.server.sessions->grace.active);
	claim(a, file, 5, KR_CONFLICT_REPLAYS);
	assert_content("file", 150, only_seven);
}

/* The same of what B has flushed that is no replay. */
static void who_was_away_does_not_cover_what_was_flushed_before_the_servers_end(void **state)
{
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_fid file = create_file(a, "file");

	(void)state;
	boot_anew();
	begin(b, file);
	done(b);
	F.server.state->changing = true; /* A's record stays */
	F.server.sessions->grace.ends_ns = F.server.sessions->grace.latest_ns = 1;
	wait_until(F.server.sessions->forgetting);
	b->extents = &seven;
	b->extent_count = 1;
	b->inlined = true;
	b->generation = 7;
	flush_and_wait(b);
	assert_int_equal(b->flush_err, 0);
	assert_true(F.server.sessions->grace.active);
	forget_changes();
	start_anew(file);
	try_to_cover(a, file);
	assert_content("file", 150, only_seven);
}

/* Five is refused in its turn (it is damaged), seven goes in, nine is refused with five. */
static void refuse_five(struct node *a, struct node *b, struct kr_fid file)
{
	begin_replays(file);
	a->damaged = true;
	send_replay(a, 5, &five, 5);
	send_replay(a, 9, &nine, 9);
	send_replay(b, 7, &seven, 7);
	done(a);
	done(b);
	wait_until(!F.server.sessions->grace.active && F.server.jobs == 0);
	a->damaged = false;
	assert_content("file", 150, only_seven);
}

/* The times do not tell it, and that the power was lost is over; but that B has replayed is known. */
static void what_was_refused_in_its_turn_is_judged_also_when_that_boot_is_no_news(void **state)
{
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_fid file = create_file(a, "file");

	(void)state;
	refuse_five(a, b, file);
	server_stop();
	change_state(false, true);
	server_start();
	begin(node_new("a"), file);
	begin(node_new("b"), file);
	assert_false(F.server.data->collecting);
	claim(a, file, 5, KR_CONFLICT_REPLAYS);
	assert_content("file", 150, only_seven);
}

static void what_was_refused_in_its_turn_does_not_cover_what_went_in_then(void **state)
{
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_fid file = create_file(a, "file");

	(void)state;
	refuse_five(a, b, file);
	start_anew(file);
	try_to_cover(a, file);
	/* It asks in another session, when the collected are in. */
	done(a);
	done(b);
	wait_until(!F.server.sessions->grace.active);
	node_die(a);
	node_begin(a);
	wait_until(a->live);
	claim(a, file, 5, KR_CONFLICT_REPLAYS);
	assert_content("file", 150, only_seven);
}

/* Nor what is behind it when the session has as many files as it may: of what is applied, all up to some number counts
 * as there. */
static void what_is_behind_it_is_refused_whatever_the_session_has_open(void **state)
{
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_fid file = create_file(a, "file");

	(void)state;
	refuse_five(a, b, file);
	start_anew(file);
	claim(a, file, 5, 0);
	kr_session_find(&F.server, a->session)->leases.files += KR_SESSION_FILES_MAX;
	assert_int_equal(replay(a, 5, &five), -EAGAIN);
	send_replay(a, 9, &nine, 9);
	done(a);
	done(b);
	wait_until(!F.server.sessions->grace.active && all_flushed());
	assert_int_equal(a->flush_err, -EAGAIN);
	assert_content("file", 150, only_seven);
	kr_session_find(&F.server, a->session)->leases.files -= KR_SESSION_FILES_MAX;
}

/* What was refused is older, and A does not come before the collected are in. */
static void what_was_refused_and_comes_later_is_judged_by_what_went_in_then(void **state)
{
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_fid file = create_file(a, "file");

	(void)state;
	refuse_five(a, b, file);
	start_anew(file);
	done(a);
	done(b);
	wait_until(!F.server.sessions->grace.active);
	claim(a, file, 5, KR_CONFLICT_REPLAYS);
}

/* B has heard of seven, A of nothing: five is there, and nine comes behind both. */
static void what_is_in_its_turn_still_goes_in(void **state)
{
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_fid file = create_file(a, "file");

	(void)state;
	begin_replays(file);
	send_replay(a, 5, &five, 5);
	send_replay(b, 7, &seven, 7);
	done(a);
	done(b);
	wait_until(!F.server.sessions->grace.active && F.server.jobs == 0);
	start_anew(file);
	claim(a, file, 5, 0);
	assert_int_equal(replay(a, 5, &five), 0);
	send_replay(a, 9, &nine, 9);
	done(a);
	done(b);
	wait_until(!F.server.sessions->grace.active && all_flushed());
	assert_int_equal(a->flush_err, 0);
	assert_content("file", 200, all_in_turn);
}

/* Else the next start would collect replays again, and what was refused here would cover, as if in its turn, what
 * others write from now on. */
static void nobody_is_served_before_it_is_written_down_that_no_replays_are_expected(void **state)
{
	struct node *a = node_start("a"), *b = node_start("b");
	struct kr_fid file = create_file(a, "file");
	struct kr_getattr_request look = {.file = file};
	int dir = open(F.state_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	(void)state;
	begin_replays(file);
	assert_int_equal(unlinkat(dir, "boot", 0), 0);
	assert_int_equal(
		mkdirat(dir, "boot", 0700), 0); /* in its place something that cannot be replaced, for a while */
	a->damaged = true;
	send_replay(a, 5, &five, 5);
	done(a);
	done(b);
	the_answer.done = false;
	node_ask(b, KR_MSG_GETATTR, &look, NULL, 0, note_answer);
	wait_until(a->flushed && (F.server.sessions->forget_failed || the_answer.done));
	assert_false(the_answer.done);
	assert_true(F.server.sessions->grace.active);
	assert_int_equal(unlinkat(dir, "boot", AT_REMOVEDIR), 0);
	close(dir);
	F.server.sessions->grace.ends_ns = F.server.sessions->grace.latest_ns =
		1; /* then it is tried again with each tick */
	wait_until(the_answer.done);
	assert_int_equal(the_answer.err, 0);
	server_stop();
	server_start();
	assert_false(F.server.data->collecting);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(who_was_away_does_not_cover_what_was_replayed_before_the_servers_end),
		TEST(who_was_away_does_not_cover_what_was_flushed_before_the_servers_end),
		TEST(what_was_refused_in_its_turn_is_judged_also_when_that_boot_is_no_news),
		TEST(what_was_refused_in_its_turn_does_not_cover_what_went_in_then),
		TEST(what_is_behind_it_is_refused_whatever_the_session_has_open),
		TEST(what_was_refused_and_comes_later_is_judged_by_what_went_in_then),
		TEST(what_is_in_its_turn_still_goes_in),
		TEST(nobody_is_served_before_it_is_written_down_that_no_replays_are_expected),
	};

	prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Journals, or copies of earlier states of them, that somebody replays who is not the node: whom they wait for, what
 * they cover. */
#include "test/unit/server/recovery/late_fixture.h"

#include "common/base/log.h"

/* Who replays the journal of NODE, at a connection of its own. */
static struct node *copy_of(const struct node *node, struct node *copy)
{
	memcpy(copy->node_id, node->node_id, sizeof(copy->node_id));
	copy->flags = KR_HELLO_REPLAY;
	return copy;
}

static void leave(struct node *node)
{
	assert_int_equal(node_call(node, KR_MSG_GOODBYE, NULL, NULL), 0);
	assert_true(node_wait_for(node->loop, node_is_closed, node));
}

static void a_replay_is_refused_while_its_node_is_connected(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *copy = copy_of(node, f->nodes[1]);

	assert_int_equal(node_hello(copy, false), -EBUSY);
	settle(node); /* which has its session */
	assert_false(node->closed);
}

/* It may still use what it has been given. */
static void a_replay_waits_for_the_end_of_a_session_that_is_not_heard(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1), *copy = copy_of(node, f->nodes[2]);
	uint64_t lost = f->server.sessions->lost;

	for (int i = 0; i < 3 * LEASE_MS / MOMENT_MS / 5; i++)
		a_moment_later(f, other);
	assert_int_equal(node_hello(copy, false), -EAGAIN); /* connected, and silent */
	node_disconnect(node);
	assert_int_equal(node_hello(copy, false), -EAGAIN);
	while (f->server.sessions->lost == lost)
		a_moment_later(f, other);
	assert_int_equal(node_hello(copy, false), 0);
	assert_int_equal(copy->hello.late, 1);
}

static void a_replay_comes_back_as_itself(void **state)
{
	struct fixture *f = *state;
	struct node *copy = copy_of(f->nodes[0], f->nodes[1]), *again = copy_of(copy, f->nodes[2]);

	assert_int_equal(node_hello(copy, false), 0);
	again->hello = copy->hello;
	resume(again); /* the server has not noticed that the former connection is gone */
	node_disconnect(again);
	resume(copy);
}

static void a_journal_is_replayed_by_one_at_a_time(void **state)
{
	struct fixture *f = *state;
	struct node *copy = copy_of(f->nodes[0], f->nodes[1]), *second = copy_of(copy, f->nodes[2]);

	assert_int_equal(node_hello(copy, false), 0);
	assert_int_equal(node_hello(second, false), -EBUSY);
	settle(copy);
	node_disconnect(copy); /* killed */
	assert_int_equal(node_hello(second, false), 0);
	assert_int_equal(second->hello.resumed, 0);
	assert_int_equal(node_hello(copy, true), -EBUSY); /* or cut off only */
}

static void a_replay_makes_way_for_its_node(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1), *copy = copy_of(node, f->nodes[2]);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);

	lose(f, node, other);
	assert_int_equal(node_hello(copy, false), 0);
	assert_false(in_conflict(copy, &fid, a_second_later()));
	back(node);
	assert_int_equal(node_hello(copy, true), -EBUSY);
	assert_false(in_conflict(node, &fid, never)); /* nobody has written since IT was lost */
}

/* A former instance had them from the node, and newer ones after them. */
static void old_bytes_of_a_copy_cover_nothing_at_a_server_that_was_restarted(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *copy = copy_of(node, f->nodes[1]);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE), quiet = create(node, "q", KR_LEASE_WRITE);
	struct kr_time since = a_second_later();

	cut(node, &fid, 7);
	restart_server(f);
	joined(f, 0);
	leave(node); /* at this moment, as far as this instance knows, it had nothing left, and nobody has changed
			anything since */
	assert_int_equal(node_hello(copy, false), 0);
	assert_true(in_conflict(copy, &fid, since));
	assert_false(in_conflict(copy, &quiet, since));
}

/* What others changed while the first one was there counts for the second. */
static void a_replay_leaves_the_lapse_of_its_node_as_it_was(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1), *copy = copy_of(node, f->nodes[2]);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);

	lose(f, node, other);
	cut(other, &fid, 7);
	assert_int_equal(node_hello(copy, false), 0);
	assert_int_equal(node_call(copy, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	leave(copy);
	assert_int_equal(node_hello(copy, false), 0);
	assert_true(in_conflict(copy, &fid, just_now()));
}

/* A flush of the file's bytes up to SEQ. */
static void flush(struct node *node, const struct kr_fid *fid, uint64_t seq)
{
	struct kr_flush_request msg = {.file = *fid, .flags = 1, .seq = seq};

	assert_int_equal(node_call(node, KR_MSG_FLUSH, &msg, NULL), 0);
}

static void a_replay_that_was_interrupted_goes_on_in_place(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1), *copy = copy_of(node, f->nodes[2]);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_time since = a_second_later();

	restart_server(f);
	joined(f, 1);
	while (f->server.sessions->grace.active) /* the node is dead */
		a_moment_later(f, other);
	assert_int_equal(node_hello(copy, false), 0);
	assert_false(in_conflict(copy, &fid, since));
	assert_int_equal(node_call(copy, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	flush(copy, &fid, 7);
	node_disconnect(copy);
	assert_int_equal(node_hello(copy, false), 0);
	assert_false(in_conflict(copy, &fid, since));
	lose(f, copy, other);
	cut(other, &fid, 7);
	assert_int_equal(node_hello(copy, false), 0);
	assert_true(in_conflict(copy, &fid, since));
}

/* What is awaited is the node, and not who has its journal. */
static void a_replay_in_the_grace_period_waits_for_its_end(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1), *copy = copy_of(node, f->nodes[2]);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_time since = a_second_later();
	const union kr_any_msg *reply;
	uint64_t id, began_ns;

	restart_server(f);
	joined(f, 1);
	began_ns = kr_clock_ns();
	assert_int_equal(node_hello(copy, false), 0);
	id = send_reclaim(copy, &fid, since);
	while (f->server.sessions->grace.active) {
		assert_false(is_answered(copy, id));
		a_moment_later(f, other);
		settle(copy);
	}
	assert_true(kr_clock_ns() - began_ns < 2 * LEASE_MS * KR_NS_PER_MS);
	assert_int_equal(node_result(copy, id, &reply), 0);
	assert_int_equal(reply->reclaim_reply.conflict, 0);
}

static void a_node_that_is_awaited_keeps_what_it_had_beside_a_replay(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *copy = copy_of(node, f->nodes[1]);

	restart_server(f);
	assert_int_equal(node_hello(copy, false), 0);
	assert_int_equal(node_call(copy, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	assert_true(f->server.sessions->grace.active);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.late, 0);
}

/* The conflict file of FID, which OTHER changes before COPY comes. */
static struct kr_fid begin_conflict(struct node *copy, const struct kr_fid *fid, const char *path)
{
	const struct kr_conflict_request msg = {
		.file = *fid, .first = 5, .last = 9, .path = path, .written.sec = 1000000000, .mode = S_IFREG | 0640};
	const union kr_any_msg *reply;

	assert_true(in_conflict(copy, fid, never));
	assert_int_equal(node_call(copy, KR_MSG_CONFLICT, &msg, &reply), 0);
	return reply->conflict_reply.target;
}

/* Its bytes are of long ago, so what was made for them is not: but nobody has written to that, unless somebody has. */
static void a_replay_that_was_killed_goes_on_with_the_conflict_file_that_it_had_begun(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1), *copy = copy_of(node, f->nodes[2]),
		    *again = copy_of(node, f->nodes[3]);
	struct kr_fid fids[] = {create(node, "empty", KR_LEASE_WRITE), create(node, "used", KR_LEASE_WRITE),
		create(node, "emptied", KR_LEASE_WRITE)};
	struct kr_fid empty, used, emptied;

	lose(f, node, other);
	cut(other, &fids[0], 7);
	cut(other, &fids[1], 7);
	cut(other, &fids[2], 7);
	assert_int_equal(node_hello(copy, false), 0);
	empty = begin_conflict(copy, &fids[0], "empty");
	used = begin_conflict(copy, &fids[1], "used");
	emptied = begin_conflict(copy, &fids[2], "emptied");
	node_disconnect(copy);
	cut(other, &used, 7);
	cut(other, &emptied, 7);
	cut(other, &emptied, 0);
	assert_int_equal(node_hello(again, false), 0);
	assert_false(in_conflict(again, &empty, never));
	assert_true(in_conflict(again, &used, never));
	assert_true(in_conflict(again, &emptied, never));
}

/* Whoever has emptied it did so at a former instance, perhaps. */
static void a_conflict_file_that_others_have_emptied_is_theirs_over_a_restart(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1), *copy = copy_of(node, f->nodes[2]);
	struct kr_fid fids[] = {create(node, "empty", KR_LEASE_WRITE), create(node, "emptied", KR_LEASE_WRITE)}, empty,
		      emptied;
	struct kr_time first;

	lose(f, node, other);
	cut(other, &fids[0], 7);
	cut(other, &fids[1], 7);
	assert_int_equal(node_hello(copy, false), 0);
	empty = begin_conflict(copy, &fids[0], "empty");
	emptied = begin_conflict(copy, &fids[1], "emptied");
	node_disconnect(copy);
	first = right_after_cut(other, &emptied, 7);
	do
		cut(other, &emptied, 7);
	while (kr_time_compare(right_after_cut(other, &emptied, 0), first) == 0); /* times tick */
	restart_server(f);
	joined(f, 1);
	assert_int_equal(node_hello(copy, false), 0);
	assert_false(in_conflict(copy, &empty, never));
	assert_true(in_conflict(copy, &emptied, never));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_replay_is_refused_while_its_node_is_connected),
		TEST(a_replay_waits_for_the_end_of_a_session_that_is_not_heard),
		TEST(a_replay_comes_back_as_itself),
		TEST(a_journal_is_replayed_by_one_at_a_time),
		TEST(a_replay_makes_way_for_its_node),
		TEST(old_bytes_of_a_copy_cover_nothing_at_a_server_that_was_restarted),
		TEST(a_replay_leaves_the_lapse_of_its_node_as_it_was),
		TEST(a_replay_that_was_interrupted_goes_on_in_place),
		TEST(a_replay_that_was_killed_goes_on_with_the_conflict_file_that_it_had_begun),
		TEST(a_conflict_file_that_others_have_emptied_is_theirs_over_a_restart),
		TEST(a_replay_in_the_grace_period_waits_for_its_end),
		TEST(a_node_that_is_awaited_keeps_what_it_had_beside_a_replay),
	};

	kr_log_init("test_late_copies", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

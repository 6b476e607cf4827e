/* Bytes that the server refused: when their node has given a lease back they do not go over what others have written
 * since. */
#include "test/unit/server/recovery/late_fixture.h"

#include "common/base/log.h"
#include "server/names/delayed_unlink.h"

/* The server's disk is full in the middle of it, as it were. */
static void refuse_flush(struct node *node, const struct kr_fid *fid)
{
	struct kr_flush_request flush = {.file = *fid, .seq = 9, .bytes = 5};
	const uint64_t id = node_send(node, KR_MSG_FLUSH, &flush);
	struct node_asked *round = node_asked(node, KR_MSG_ROUND);

	round->answered = true;
	kr_conn_reply(node->conn, KR_MSG_ROUND, round->id, 0, -ENOSPC, NULL, NULL, 0);
	assert_int_equal(node_result(node, id, NULL), -ENOSPC);
}

static void take_lease(struct node *node, const struct kr_fid *fid, uint8_t kinds, struct node *holder)
{
	const uint64_t id = send_lease(node, fid, kinds);

	node_reply(holder, node_asked(holder, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(node, id, NULL), 0);
}

/* NODE's bytes of FID are refused; it has closed the file, and OTHER reads it. */
static struct kr_fid refused(struct node *node, struct node *other)
{
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_close_request close = {.file = fid, .count = 1};

	refuse_flush(node, &fid);
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close, NULL), 0);
	take_lease(other, &fid, KR_LEASE_READ, node);
	return fid;
}

static void give_back(struct node *node, const struct kr_fid *fid, uint8_t kinds)
{
	struct kr_return_request msg = {.file = *fid, .kinds = kinds};

	assert_int_equal(node_call(node, KR_MSG_RETURN, &msg, NULL), 0);
}

/* The node owes what it has had judged.  It gives the lease back before it has sent that. */
static void who_gives_up_with_refused_bytes_lets_others_go_on(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = refused(node, other);
	struct kr_reclaim_request msg = {.file = fid,
		.kinds = KR_LEASE_WRITE | KR_RECLAIM_UNCOVERED,
		.first = 5,
		.last = 9,
		.resend = 9,
		.since = never};
	const union kr_any_msg *reply;
	uint64_t id;

	give_back(other, &fid, KR_LEASE_READ);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &msg, &reply), 0);
	assert_int_equal(reply->reclaim_reply.kinds, KR_LEASE_ALL);
	id = send_lease(other, &fid, KR_LEASE_ALL);
	node_reply(node, node_asked(node, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(other, id, NULL), 0);
}

/* Asks as a node does that knows what it has. */
static uint8_t judged(struct node *node, const struct kr_fid *fid, struct kr_time since, uint8_t *ret_kinds)
{
	struct kr_reclaim_request msg = {
		.file = *fid, .kinds = KR_LEASE_WRITE | KR_RECLAIM_UNCOVERED, .first = 5, .last = 9, .since = since};
	const union kr_any_msg *reply;

	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &msg, &reply), 0);
	*ret_kinds = reply->reclaim_reply.kinds;
	return reply->reclaim_reply.conflict;
}

/* Its own attempts, whatever they have left in the file, are nobody else's changes. */
static void bytes_that_were_refused_may_go_in_when_nobody_has_written_since(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = refused(node, other);
	uint8_t kinds;

	give_back(other, &fid, KR_LEASE_READ);
	assert_int_equal(judged(node, &fid, never, &kinds), 0);
	assert_int_equal(kinds, KR_LEASE_ALL);
	refuse_flush(node, &fid);
	take_lease(other, &fid, KR_LEASE_READ, node);
	give_back(other, &fid, KR_LEASE_READ);
	assert_int_equal(judged(node, &fid, never, &kinds), 0);
}

/* Who had the file for writing all the time writes at the same time; who comes later comes later. */
static void who_begins_to_write_does_so_after_refused_bytes(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *beside = joined(f, 1), *later = joined(f, 2);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	uint8_t kinds;

	assert_int_equal(node_result(beside, send_lease(beside, &fid, KR_LEASE_WRITE), NULL), 0);
	refuse_flush(node, &fid);
	assert_int_equal(node_result(beside, send_lease(beside, &fid, KR_LEASE_WRITE), NULL), 0);
	settle(node);
	assert_int_equal(node->asked_count, 1); /* ROUND */
	take_lease(later, &fid, KR_LEASE_WRITE, node);
	give_back(beside, &fid, KR_LEASE_WRITE);
	cut(later, &fid, 7);
	give_back(later, &fid, KR_LEASE_WRITE);
	assert_int_equal(judged(node, &fid, just_now(), &kinds), 1);
}

static void bytes_that_were_refused_do_not_go_over_what_others_have_written_since(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = refused(node, other);
	uint8_t kinds;

	cut(other, &fid, 7);
	give_back(other, &fid, KR_LEASE_READ);
	assert_int_equal(judged(node, &fid, just_now(), &kinds), 1);
	assert_int_equal(kinds, 0);
}

/* They all get what they ask for one after the other, and nobody is in conflict because others ask as well. */
static void two_nodes_with_refused_bytes_wait_for_each_other(void **state)
{
	struct fixture *f = *state;
	struct node *one = joined(f, 0), *two = joined(f, 1), *reader = joined(f, 2);
	struct kr_fid fid = create(one, "f", KR_LEASE_WRITE);
	struct kr_reclaim_request msg = {
		.file = fid, .kinds = KR_LEASE_WRITE | KR_RECLAIM_UNCOVERED, .first = 5, .last = 9};
	const union kr_any_msg *reply;
	uint8_t kinds;
	uint64_t id;

	assert_int_equal(node_result(two, send_lease(two, &fid, KR_LEASE_WRITE), NULL), 0);
	refuse_flush(one, &fid);
	refuse_flush(two, &fid);
	id = send_lease(reader, &fid, KR_LEASE_READ);
	node_reply(one, node_asked(one, KR_MSG_RECALL), NULL);
	node_reply(two, node_asked(two, KR_MSG_RECALL), NULL);
	assert_int_equal(node_result(reader, id, NULL), 0);
	give_back(reader, &fid, KR_LEASE_READ);
	assert_int_equal(judged(one, &fid, never, &kinds), 0);
	id = node_send(two, KR_MSG_RECLAIM, &msg);
	settle(two);
	assert_false(is_answered(two, id));
	node_reply(one, node_asked(one, KR_MSG_RECALL), NULL); /* nothing has gone in */
	assert_int_equal(node_result(two, id, &reply), 0);
	assert_int_equal(reply->reclaim_reply.conflict, 0);
}

/* Its daemon is killed, and finds no more than unflushed bytes in its journal. */
static void a_daemon_that_is_started_anew_does_not_bring_refused_bytes_over_newer_ones(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = refused(node, other);

	cut(other, &fid, 7);
	give_back(other, &fid, KR_LEASE_READ);
	node_disconnect(node);
	assert_int_equal(node_hello(node, false), 0);
	assert_int_equal(node->hello.late, 0);
	assert_true(in_conflict(node, &fid, just_now()));
}

/* ... and gives its lease back before anybody else begins to write. */
static void who_begins_to_write_does_so_after_refused_bytes_of_a_daemon_that_is_started_anew(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	uint64_t id;

	refuse_flush(node, &fid);
	node_disconnect(node);
	assert_int_equal(node_hello(node, false), 0);
	assert_false(in_conflict(node, &fid, just_now()));
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	id = send_lease(other, &fid, KR_LEASE_WRITE);
	node_reply(node, node_asked(node, KR_MSG_RECALL), NULL); /* it is asked */
	assert_int_equal(node_result(other, id, NULL), 0);
}

/* ... after the lease time. */
static void a_late_node_does_not_bring_refused_bytes_over_what_came_before_it_was_lost(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = refused(node, other);

	cut(other, &fid, 7);
	give_back(other, &fid, KR_LEASE_READ);
	lose(f, node, other);
	back(node);
	assert_true(in_conflict(node, &fid, never));
}

static void restart(struct fixture *f, struct node *node)
{
	restart_server(f);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.late, 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	joined(f, 1);
}

/* A new server knows the times only. */
static void after_a_restart_the_time_decides_of_refused_bytes(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = refused(node, other);
	struct kr_time since = a_second_later();
	uint8_t kinds;

	restart(f, node);
	assert_int_equal(judged(node, &fid, since, &kinds), 0);
	give_back(node, &fid, KR_LEASE_ALL);
	cut(other, &fid, 7);
	assert_int_equal(judged(node, &fid, since, &kinds), 1);
}

/* ... which tick: what was changed just after that can show a time just before. */
static void a_change_of_the_same_second_counts_as_a_later_one(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = refused(node, other);
	uint8_t kinds;

	restart(f, node);
	assert_int_equal(judged(node, &fid, right_after_cut(other, &fid, 7), &kinds), 1);
}

/* The node is lost after the restart, and what others changed before that is nothing to this instance. */
static void a_lost_node_has_refused_bytes_of_before_it_was_lost(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = refused(node, other), quiet = create(node, "q", KR_LEASE_WRITE);
	struct kr_time since = a_second_later();
	uint8_t kinds;

	restart(f, node);
	cut(other, &fid, 7);
	lose(f, node, other);
	back(node);
	assert_int_equal(judged(node, &fid, since, &kinds), 1);
	assert_int_equal(judged(node, &quiet, since, &kinds), 0);
}

static void remove_it(struct node *node)
{
	assert_int_equal(node_call(node, KR_MSG_REMOVE,
				 &(struct kr_remove_request){.parent = node->hello.root, .name = "f"}, NULL),
		0);
}

static bool is_gone(void *context)
{
	return ((const struct kr_sfile *)context)->gone;
}

static void let_go(struct fixture *f, const struct kr_fid *fid)
{
	kr_delayed_unlink_end(&f->server);
	assert_true(node_wait_for(&f->loop, is_gone, kr_sfile_find(&f->server, fid)));
}

static int reclaim(struct node *node, const struct kr_fid *fid, const union kr_any_msg **ret_reply)
{
	struct kr_reclaim_request msg = {
		.file = *fid, .kinds = KR_LEASE_WRITE | KR_RECLAIM_UNCOVERED, .first = 5, .last = 9};

	return node_call(node, KR_MSG_RECLAIM, &msg, ret_reply);
}

static bool may_discard(struct node *node, const struct kr_fid *fid)
{
	const union kr_any_msg *reply;

	assert_int_equal(reclaim(node, fid, &reply), 0);
	return !reply->reclaim_reply.conflict && reply->reclaim_reply.durable_seq == 9;
}

/* Also if the node was away once, before they were refused. */
static void refused_bytes_of_a_removed_file_are_discarded(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = refused(node, other);
	const union kr_any_msg *reply;

	give_back(other, &fid, KR_LEASE_READ);
	remove_it(other);
	assert_int_equal(reclaim(node, &fid, &reply), 0); /* a program of another node may have it open still */
	assert_int_equal(reply->reclaim_reply.conflict, 0);
	give_back(node, &fid, KR_LEASE_ALL);
	let_go(f, &fid);
	assert_true(may_discard(node, &fid));
	lose(f, node, other);
	back(node);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	fid = refused(node, other);
	give_back(other, &fid, KR_LEASE_READ);
	remove_it(other);
	let_go(f, &fid);
	assert_true(may_discard(node, &fid));
}

static void refused_bytes_of_a_file_that_was_removed_while_the_node_was_away_are_not(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = refused(node, other);

	give_back(other, &fid, KR_LEASE_READ);
	lose(f, node, other);
	remove_it(other);
	let_go(f, &fid);
	back(node);
	assert_int_equal(reclaim(node, &fid, NULL), -ESTALE);
	node_disconnect(node); /* its daemon is killed before the conflict file has them */
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(reclaim(node, &fid, NULL), -ESTALE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(who_gives_up_with_refused_bytes_lets_others_go_on),
		TEST(bytes_that_were_refused_may_go_in_when_nobody_has_written_since),
		TEST(who_begins_to_write_does_so_after_refused_bytes),
		TEST(bytes_that_were_refused_do_not_go_over_what_others_have_written_since),
		TEST(two_nodes_with_refused_bytes_wait_for_each_other),
		TEST(a_daemon_that_is_started_anew_does_not_bring_refused_bytes_over_newer_ones),
		TEST(who_begins_to_write_does_so_after_refused_bytes_of_a_daemon_that_is_started_anew),
		TEST(a_late_node_does_not_bring_refused_bytes_over_what_came_before_it_was_lost),
		TEST(after_a_restart_the_time_decides_of_refused_bytes),
		TEST(a_change_of_the_same_second_counts_as_a_later_one),
		TEST(a_lost_node_has_refused_bytes_of_before_it_was_lost),
		TEST(refused_bytes_of_a_removed_file_are_discarded),
		TEST(refused_bytes_of_a_file_that_was_removed_while_the_node_was_away_are_not),
	};

	kr_log_init("test_late_refused", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* RECLAIM: what of a node's bytes is durable, what it sends again, and who waits for that. */
#include "test/unit/server/recovery/late_fixture.h"

#include "common/base/log.h"
#include "server/base/state_priv.h"

static uint64_t send_open(struct node *node, const struct kr_fid *fid)
{
	return node_send(node, KR_MSG_OPEN, &(struct kr_open_request){.file = *fid, .flags = KR_OPEN_READ});
}

/* RECLAIM of bytes 1 to LAST of FID, all of which a former FLUSH may have applied. */
static struct kr_reclaim_reply reclaim(struct node *node, const struct kr_fid *fid, uint64_t last)
{
	const struct kr_reclaim_request msg = {
		.file = *fid, .kinds = KR_LEASE_WRITE, .first = 1, .last = last, .resend = last};
	const union kr_any_msg *reply;

	assert_int_equal(node_call(node, KR_MSG_RECLAIM, &msg, &reply), 0);
	return reply->reclaim_reply;
}

/* The daemon is killed, and started anew. */
static void what_a_former_session_has_applied_is_dropped_and_the_rest_is_waited_for(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_reclaim_reply reply;
	uint64_t id;

	node->keeps_stable = true;
	flush_text(node, &fid, 5, "first");
	node_disconnect(node);
	assert_int_equal(node_hello(node, false), 0);
	assert_int_equal(node->hello.late, 0);
	reply = reclaim(node, &fid, 9);
	assert_int_equal(reply.durable_seq, 5);
	assert_int_equal(reply.conflict, 0);
	assert_int_equal(reply.kinds, KR_LEASE_WRITE);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	id = send_open(other, &fid);
	settle(other);
	assert_false(is_answered(other, id));
	flush_text(node, &fid, 9, "second");
	node_asked(node, KR_MSG_STABLE);
	settle(other);
	assert_false(is_answered(other, id));
	node_reply(node, node_asked(node, KR_MSG_STABLE), NULL);
	assert_int_equal(node_result(other, id, NULL), 0);
}

/* The daemon is killed before it hears of that. */
static void what_is_of_a_file_removed_meanwhile_is_dropped(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	const struct kr_close_request close = {.file = fid, .count = 1};
	const struct kr_remove_request remove = {.parent = other->hello.root, .name = "f"};
	struct kr_reclaim_reply reply;

	assert_int_equal(node_call(other, KR_MSG_REMOVE, &remove, NULL), 0);
	node_reply(node, node_asked(node, KR_MSG_RECALL), NULL); /* it has no name any more */
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close, NULL), 0);
	node_asked(node, KR_MSG_RECALL);
	node_disconnect(node);
	assert_int_equal(node_hello(node, false), 0);
	reply = reclaim(node, &fid, 9);
	assert_int_equal(reply.durable_seq, 9);
	assert_int_equal(reply.conflict, 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
}

static void after_a_restart_others_wait_for_what_is_sent_again(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	uint64_t id;

	node->keeps_stable = true;
	flush_text(node, &fid, 5, "bytes");
	restart_server(f);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(reclaim(node, &fid, 5).durable_seq, 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	joined(f, 1);
	id = send_open(other, &fid);
	settle(other);
	assert_false(is_answered(other, id));
	node->keeps_stable = false;
	flush_text(node, &fid, 5, "bytes");
	assert_int_equal(node_result(other, id, NULL), 0);
}

#ifdef KR_FAULTS
/* Runs one test of this program again, with FAULT in the environment (it is read once per process). */
static void run_with_fault(const char *filter, const char *fault)
{
	char self[256], command[512];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

	assert_true(length > 0);
	self[length] = 0;
	snprintf(command, sizeof(command), "KR_FAULT=%s KR_TEST_FILTER='%s' timeout -s KILL 300 '%s' > /dev/null 2>&1",
		fault, filter, self);
	assert_int_equal(system(command), 0);
}
#endif

static void what_a_failed_sync_may_have_lost_is_not_dropped(void **state)
{
#ifdef KR_FAULTS
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	uint64_t id;

	if (!getenv("KR_FAULT")) {
		run_with_fault("what_a_failed*", "stable.before:eio:1");
		return;
	}
	flush_text(node, &fid, 5, "bytes");
	node_asked(node, KR_MSG_UNSTABLE);
	node_disconnect(node); /* killed before it has answered */
	assert_int_equal(node_hello(node, false), 0);
	id = send_open(other, &fid);
	assert_int_equal(reclaim(node, &fid, 5).durable_seq, 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	settle(other);
	assert_false(is_answered(other, id));
	flush_text(node, &fid, 5, "bytes");
	assert_int_equal(node_result(other, id, NULL), 0);
#else
	(void)state;
#endif
}

/* The node has flushed later bytes without those that are in conflict, which only its journal has. */
static void bytes_in_a_declared_conflict_are_not_dropped(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_reclaim_reply reply;

	node->keeps_stable = true;
	flush_text(node, &fid, 9, "later");
	kr_conflicts_put(&f->server.recovery->conflicts,
		kr_conflict_new(kr_session_find_node(&f->server, node->hello.node)->node_id, NULL, "n", &fid, 1, 3));
	node_disconnect(node);
	assert_int_equal(node_hello(node, false), 0);
	reply = reclaim(node, &fid, 9);
	assert_int_equal(reply.durable_seq, 0);
	assert_int_equal(reply.conflict, 1);
}

static void bytes_that_were_applied_are_not_late(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	struct kr_reclaim_reply reply;

	node->keeps_stable = true;
	flush_text(node, &fid, 5, "bytes");
	overtake(f, node, other, &fid);
	reply = reclaim(node, &fid, 5);
	assert_int_equal(reply.durable_seq, 5);
	assert_int_equal(reply.conflict, 0);
	reply = reclaim(node, &fid, 9);
	assert_int_equal(reply.durable_seq, 5);
	assert_int_equal(reply.conflict, 1);
	assert_int_equal(reply.kinds, 0);
	/* It does not send them to the file, so nobody waits for that. */
	assert_int_equal(node_result(other, send_open(other, &fid), NULL), 0);
}

static void lose_power(struct node *node)
{
	node_disconnect(node);
	node->flags = KR_HELLO_POWER_LOST;
}

static void a_node_that_has_lost_power_is_late_and_inherits_nothing(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE), quiet = create(node, "q", KR_LEASE_WRITE);
	struct kr_time since = a_second_later();

	lose_power(node);
	assert_int_equal(node_hello(node, false), 0);
	assert_int_equal(node->hello.late, 1);
	assert_int_equal(node_result(other, send_lease(other, &fid, KR_LEASE_WRITE), NULL), 0);
	cut(other, &fid, 7);
	assert_int_equal(node_call(other, KR_MSG_RETURN,
				 &(struct kr_return_request){.file = fid, .kinds = KR_LEASE_WRITE}, NULL),
		0);
	assert_true(in_conflict(node, &fid, since));
	assert_false(in_conflict(node, &quiet, since));
	restart_server(f); /* it has not reclaimed all */
	assert_int_equal(kr_grace_awaited(&f->server.sessions->grace), 1);
}

/* What it has kept of its journal has been durable for long, and what it wrote later is there. */
static void a_node_that_has_lost_power_does_not_cover_its_own_later_bytes(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);

	flush_text(node, &fid, 9, "later");
	restart_server(f);
	lose_power(node);
	assert_int_equal(node_hello(node, true), 0);
	assert_true(node_wait_for(&f->loop, the_disk_rests, f));
	assert_true(in_conflict(node, &fid, never));
}

static bool grace_is_over(void *context)
{
	return !((struct fixture *)context)->server.sessions->grace.active;
}

static void a_node_that_has_lost_power_does_not_hold_the_grace_period_up(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	uint64_t id;

	restart_server(f);
	lose_power(node);
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.late, 1);
	id = send_reclaim(node, &fid, a_second_later());
	settle(node);
	assert_false(is_answered(node, id));
	assert_int_equal(node_hello(other, true), 0);
	assert_int_equal(node_call(other, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	assert_int_equal(node_result(node, id, NULL), 0);
	assert_true(grace_is_over(f));
}

static void after_a_clean_stop_there_is_no_grace_without_nodes(void **state)
{
	struct fixture *f = *state;

	restart_server(f);
	assert_true(grace_is_over(f));
}

/* What the former instance applied is in the page cache, and its nodes have left. */
static void otherwise_nobody_is_served_before_that_is_on_the_disk(void **state)
{
	struct fixture *f = *state;
	struct node *node = f->nodes[0];
	uint64_t id;

	kr_state_not_clean(f->server.state);
	restart_server(f);
	f->server.sessions->hooks.end_grace(&f->server);
	assert_false(grace_is_over(f)); /* the sync has not ended yet */
	assert_int_equal(node_hello(node, false), 0);
	id = node_send(node, KR_MSG_LOOKUP, &(struct kr_lookup_request){.parent = node->hello.root, .name = "f"});
	assert_int_equal(node_result(node, id, NULL), -ENOENT);
	assert_true(grace_is_over(f));
	assert_false(f->server.sessions->grace.unsynced);
}

/* Else another instance would await it, and take what others wrote meanwhile for older. */
static void a_node_that_leaves_is_no_member_before_others_get_what_it_held(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *other = joined(f, 1);
	struct kr_fid fid = create(node, "f", KR_LEASE_WRITE);
	const uint8_t nobody[16] = {0};
	uint64_t left, id;

	f->server.state->changing = true; /* the disk is slow */
	left = node_send(node, KR_MSG_GOODBYE, NULL);
	id = send_lease(other, &fid, KR_LEASE_READ);
	settle(other);
	assert_false(is_answered(node, left));
	assert_false(is_answered(other, id));
	f->server.state->changing = false;
	kr_state_forget_node(&f->server, nobody, NULL, NULL);
	assert_int_equal(node_result(node, left, NULL), 0);
	assert_int_equal(node_result(other, id, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(what_a_former_session_has_applied_is_dropped_and_the_rest_is_waited_for),
		TEST(what_is_of_a_file_removed_meanwhile_is_dropped),
		TEST(after_a_restart_others_wait_for_what_is_sent_again),
		TEST(what_a_failed_sync_may_have_lost_is_not_dropped),
		TEST(bytes_that_were_applied_are_not_late),
		TEST(bytes_in_a_declared_conflict_are_not_dropped),
		TEST(a_node_that_has_lost_power_is_late_and_inherits_nothing),
		TEST(a_node_that_has_lost_power_does_not_cover_its_own_later_bytes),
		TEST(a_node_that_has_lost_power_does_not_hold_the_grace_period_up),
		TEST(after_a_clean_stop_there_is_no_grace_without_nodes),
		TEST(otherwise_nobody_is_served_before_that_is_on_the_disk),
		TEST(a_node_that_leaves_is_no_member_before_others_get_what_it_held),
	};

	kr_log_init("test_reclaim", KR_LOG_ERROR);
	if (getenv("KR_TEST_FILTER"))
		cmocka_set_test_filter(getenv("KR_TEST_FILTER"));
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* STAGE at the server: who is asked to BRING the file, and what is made of the answers. */
#include "test/unit/server_fixture.h"

#include <signal.h>

#include "common/log.h"
#include "server/session.h"

/* Scripted nodes have no ring listener; these are taken to have one. */
static struct node *in_ring(struct fixture *f, int i)
{
	struct node *node = joined(f, i);

	kr_session_find(&f->server, node->hello.session)->ring_port = 1;
	return node;
}

static uint64_t send_stage(struct node *node, const struct kr_fid *fid)
{
	struct kr_stage_request msg = {.file = *fid, .ms = 100};

	return node_send(node, KR_MSG_STAGE, &msg);
}

static void answer_bring(struct node *node, uint64_t size, uint64_t bytes, uint64_t room)
{
	struct kr_bring_reply reply = {.done = bytes == size, .size = size, .bytes = bytes, .room = room};

	node_reply(node, node_asked(node, KR_MSG_BRING), &reply);
}

static void all_nodes_are_asked_and_their_answers_added_up(void **state)
{
	struct fixture *f = *state;
	struct node *a = in_ring(f, 0), *b = in_ring(f, 1), *outside = joined(f, 2);
	struct kr_fid fid = create(a, "f", 0);
	const union kr_any_msg *reply;
	uint64_t id = send_stage(a, &fid);

	answer_bring(a, 1000, 1000, 9000);
	settle(b);
	assert_false(is_answered(a, id));
	answer_bring(b, 1000, 400, 5000);
	assert_int_equal(node_result(a, id, &reply), 0);
	assert_int_equal(reply->stage_reply.nodes, 2);
	assert_int_equal(reply->stage_reply.done, 1);
	assert_int_equal(reply->stage_reply.failed, 0);
	assert_int_equal(reply->stage_reply.size, 1000);
	assert_int_equal(reply->stage_reply.bytes, 1400);
	assert_int_equal(reply->stage_reply.room, 5000);
	settle(outside);
	assert_int_equal(outside->asked_count, 0);
}

static void what_does_not_fit_into_a_cache_has_failed(void **state)
{
	struct fixture *f = *state;
	struct node *a = in_ring(f, 0);
	struct kr_fid fid = create(a, "f", 0);
	const union kr_any_msg *reply;
	uint64_t id = send_stage(a, &fid);

	answer_bring(a, 1000, 0, 999);
	assert_int_equal(node_result(a, id, &reply), 0);
	assert_int_equal(reply->stage_reply.failed, 1);
	assert_int_equal(kr_status_to_errno(reply->stage_reply.error), -EFBIG);
	assert_int_equal(reply->stage_reply.room, 999);
}

static void a_node_that_leaves_has_failed(void **state)
{
	struct fixture *f = *state;
	struct node *a = in_ring(f, 0), *b = in_ring(f, 1);
	struct kr_fid fid = create(a, "f", 0);
	const union kr_any_msg *reply;
	uint64_t id = send_stage(a, &fid);

	answer_bring(a, 10, 10, 100);
	node_asked(b, KR_MSG_BRING);
	assert_int_equal(node_call(b, KR_MSG_GOODBYE, NULL, NULL), 0);
	assert_int_equal(node_result(a, id, &reply), 0);
	assert_int_equal(reply->stage_reply.nodes, 2);
	assert_int_equal(reply->stage_reply.done, 1);
	assert_int_equal(reply->stage_reply.failed, 1);
}

static void who_asks_may_leave_or_change_his_mind(void **state)
{
	struct fixture *f = *state;
	struct node *a = in_ring(f, 0), *b = in_ring(f, 1);
	struct kr_fid fid = create(a, "f", 0);
	struct kr_cancel_request cancel = {.request = send_stage(b, &fid)};
	struct node_asked *asked = node_asked(a, KR_MSG_BRING);

	assert_int_equal(node_call(b, KR_MSG_CANCEL, &cancel, NULL), 0);
	assert_int_equal(node_result(b, cancel.request, NULL), -EINTR);
	send_stage(b, &fid);
	settle(b);
	assert_int_equal(node_call(b, KR_MSG_GOODBYE, NULL, NULL), 0);
	node_reply(a, asked, &(struct kr_bring_reply){0}); /* nobody wants to know any more */
	settle(a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(all_nodes_are_asked_and_their_answers_added_up),
		TEST(what_does_not_fit_into_a_cache_has_failed),
		TEST(a_node_that_leaves_has_failed),
		TEST(who_asks_may_leave_or_change_his_mind),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_staging", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* STAGE at the server: who is asked to PREFETCH the file, and what is made of the answers. */
#include "test/unit/server/session/server_fixture.h"

#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "server/session/session.h"
#include "server/pipelines/staging.h"

/* Scripted nodes have no ring listener; these are taken to have one. */
static struct node *in_ring(struct fixture *f, int i)
{
	struct node *node = joined(f, i);

	kr_session_find(&f->server, node->hello.session)->ring.port = 1;
	return node;
}

static uint64_t send_stage(struct node *node, const struct kr_fid *fid)
{
	struct kr_stage_request msg = {.file = *fid, .ms = 100};

	return node_send(node, KR_MSG_STAGE, &msg);
}

static void answer_bring(struct node *node, uint64_t size, uint64_t bytes, uint64_t room)
{
	struct kr_prefetch_reply reply = {.done = bytes == size, .size = size, .bytes = bytes, .room = room};

	node_reply(node, node_asked(node, KR_MSG_PREFETCH), &reply);
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
	node_asked(b, KR_MSG_PREFETCH);
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
	struct node_asked *asked = node_asked(a, KR_MSG_PREFETCH);

	assert_int_equal(node_call(b, KR_MSG_CANCEL, &cancel, NULL), 0);
	assert_int_equal(node_result(b, cancel.request, NULL), -EINTR);
	send_stage(b, &fid);
	settle(b);
	assert_int_equal(node_call(b, KR_MSG_GOODBYE, NULL, NULL), 0);
	node_reply(a, asked, &(struct kr_prefetch_reply){0}); /* nobody wants to know any more */
	settle(a);
}

/* How often the node has been asked. */
static size_t brought(const struct node *node)
{
	size_t count = 0;

	for (size_t i = 0; i < node->asked_count; i++)
		count += node->asked[i].type == KR_MSG_PREFETCH;
	return count;
}

static void one_session_has_so_many_questions_asked_at_a_time(void **state)
{
	struct fixture *f = *state;
	struct node *greedy = in_ring(f, 0), *other = in_ring(f, 1);
	struct kr_session *session = kr_session_find(&f->server, greedy->hello.session);
	struct kr_fid fid = create(greedy, "f", 0), mine = create(other, "mine", 0);
	uint64_t first, second, its_own;

	session->staging.asked += KR_SESSION_PREFETCHES - 1;
	first = send_stage(greedy, &fid);
	second = send_stage(greedy, &fid);
	settle(greedy);
	settle(other);
	assert_int_equal(brought(greedy), 1);
	assert_int_equal(brought(other), 1);
	its_own = send_stage(other, &mine);
	settle(other);
	assert_int_equal(brought(other), 2); /* it is not held up */
	for (int i = 0; i < 2; i++) {
		assert_false(is_answered(greedy, second));
		answer_bring(greedy, 10, 10, 100);
		answer_bring(other, 10, 10, 100);
	}
	assert_int_equal(node_result(greedy, first, NULL), 0);
	assert_int_equal(node_result(other, its_own, NULL), 0);
	answer_bring(greedy, 10, 10, 100);
	answer_bring(other, 10, 10, 100);
	assert_int_equal(node_result(greedy, second, NULL), 0);
	session->staging.asked -= KR_SESSION_PREFETCHES - 1;
	assert_int_equal(session->staging.asked + f->server.staging->prefetches + f->server.staging->waiting, 0);
}

/* When a turn is free it is that of who has waited longest since its last. */
static void all_sessions_have_so_many_questions_asked_at_a_time(void **state)
{
	struct fixture *f = *state;
	struct node *greedy = in_ring(f, 0), *other = in_ring(f, 1);
	struct kr_fid fid = create(greedy, "f", 0), mine = create(other, "mine", 0);
	uint64_t ids[3], its_own;

	f->server.staging->prefetches += KR_SERVER_PREFETCHES - 1;
	for (int i = 0; i < 3; i++)
		ids[i] = send_stage(greedy, &fid);
	settle(greedy);
	its_own = send_stage(other, &mine);
	settle(other);
	assert_int_equal(brought(other), 1);
	answer_bring(greedy, 10, 10, 100);
	answer_bring(other, 10, 10, 100);
	assert_int_equal(node_result(greedy, ids[0], NULL), 0);
	assert_true(kr_fid_equal(&node_asked(greedy, KR_MSG_PREFETCH)->msg.prefetch_request.file, &mine));
	answer_bring(greedy, 10, 10, 100);
	answer_bring(other, 10, 10, 100);
	assert_int_equal(node_result(other, its_own, NULL), 0);
	node_asked(other, KR_MSG_PREFETCH);
	assert_int_equal(brought(other), 3);
	f->server.staging->prefetches -= KR_SERVER_PREFETCHES - 1;
	assert_int_equal(f->server.staging->waiting, 1);
}

static void who_waits_for_a_turn_may_leave_or_change_his_mind(void **state)
{
	struct fixture *f = *state;
	struct node *a = in_ring(f, 0), *b = in_ring(f, 1);
	struct kr_fid fid = create(a, "f", 0);
	struct kr_cancel_request cancel;

	f->server.staging->prefetches += KR_SERVER_PREFETCHES;
	cancel.request = send_stage(b, &fid);
	send_stage(b, &fid);
	settle(b);
	assert_int_equal(node_call(b, KR_MSG_CANCEL, &cancel, NULL), 0);
	assert_int_equal(node_result(b, cancel.request, NULL), -EINTR);
	assert_int_equal(f->server.staging->waiting, 1);
	assert_int_equal(node_call(b, KR_MSG_GOODBYE, NULL, NULL), 0);
	settle(a);
	assert_int_equal(f->server.staging->waiting, 0);
	assert_int_equal(brought(a) + brought(b), 0);
	f->server.staging->prefetches -= KR_SERVER_PREFETCHES;
}

/* What a withdrawn one was asked for makes room at once. */
static void a_turn_that_is_given_up_is_anothers(void **state)
{
	struct fixture *f = *state;
	struct node *a = in_ring(f, 0), *b = in_ring(f, 1);
	struct kr_fid fid = create(a, "f", 0);
	struct kr_cancel_request cancel;
	uint64_t id;

	f->server.staging->prefetches += KR_SERVER_PREFETCHES - 1;
	cancel.request = send_stage(b, &fid);
	node_asked(a, KR_MSG_PREFETCH)->answered = true;
	id = send_stage(b, &fid);
	settle(b);
	node_asked(b, KR_MSG_PREFETCH)->answered = true;
	assert_int_equal(node_call(b, KR_MSG_CANCEL, &cancel, NULL), 0);
	answer_bring(a, 10, 10, 100);
	answer_bring(b, 10, 10, 100);
	assert_int_equal(node_result(b, id, NULL), 0);
	f->server.staging->prefetches -= KR_SERVER_PREFETCHES - 1;
	assert_int_equal(f->server.staging->prefetches, 0);
}

/* --- WHERE --- */

static uint64_t send_where(struct node *node, const struct kr_fid *fid, uint32_t uid)
{
	struct kr_where_request msg = {.file = *fid, .cred = {.uid = uid, .gid = uid}};

	return node_send(node, KR_MSG_WHERE, &msg);
}

static void answer_holds(struct node *node, uint64_t cached, uint64_t unflushed)
{
	struct kr_holds_reply reply = {.cached = cached, .unflushed = unflushed};

	node_reply(node, node_asked(node, KR_MSG_HOLDS), &reply);
}

static void where_lists_the_nodes_that_hold_something(void **state)
{
	struct fixture *f = *state;
	struct node *a = in_ring(f, 0), *b = in_ring(f, 1), *c = in_ring(f, 2), *outside = joined(f, 3);
	struct kr_fid fid = create(a, "f", 0);
	const union kr_any_msg *reply;
	struct node_asked *old;
	uint64_t id = send_where(a, &fid, 0);

	answer_holds(b, 0, 7);
	answer_holds(a, 0, 0);
	settle(c);
	assert_false(is_answered(a, id));
	old = node_asked(c, KR_MSG_HOLDS);
	old->answered = true;
	kr_conn_reply(c->conn, old->type, old->id, 0, -EPROTO, NULL, NULL, 0);
	assert_int_equal(node_result(a, id, &reply), 0);
	assert_int_equal(reply->where_reply.size, 0);
	assert_int_equal(reply->where_reply.nodes.length, 1 + strlen("node") + 16);
	settle(outside);
	assert_int_equal(outside->asked_count, 0);
}

static void where_needs_the_right_to_read_and_a_regular_file(void **state)
{
	struct fixture *f = *state;
	struct node *a = in_ring(f, 0);
	struct kr_fid fid = create(a, "f", 0);
	char path[128];

	snprintf(path, sizeof(path), "%s/f", f->export_path);
	assert_int_equal(chmod(path, 0600), 0);
	assert_int_equal(node_result(a, send_where(a, &a->hello.root, 0), NULL), -ENODATA);
	if (geteuid() == 0)
		assert_int_equal(node_result(a, send_where(a, &fid, 1234), NULL), -EACCES);
	settle(a);
	assert_int_equal(a->asked_count, 0);
}

static void who_asks_where_may_leave(void **state)
{
	struct fixture *f = *state;
	struct node *a = in_ring(f, 0), *b = in_ring(f, 1);
	struct kr_fid fid = create(a, "f", 0);
	struct node_asked *asked;

	send_where(b, &fid, 0);
	asked = node_asked(a, KR_MSG_HOLDS);
	assert_int_equal(node_call(b, KR_MSG_GOODBYE, NULL, NULL), 0);
	node_reply(a, asked, &(struct kr_holds_reply){0});
	settle(a);
	assert_int_equal(f->server.staging->prefetches + f->server.staging->waiting, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(all_nodes_are_asked_and_their_answers_added_up),
		TEST(what_does_not_fit_into_a_cache_has_failed),
		TEST(a_node_that_leaves_has_failed),
		TEST(who_asks_may_leave_or_change_his_mind),
		TEST(one_session_has_so_many_questions_asked_at_a_time),
		TEST(all_sessions_have_so_many_questions_asked_at_a_time),
		TEST(who_waits_for_a_turn_may_leave_or_change_his_mind),
		TEST(a_turn_that_is_given_up_is_anothers),
		TEST(where_lists_the_nodes_that_hold_something),
		TEST(where_needs_the_right_to_read_and_a_regular_file),
		TEST(who_asks_where_may_leave),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_staging", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

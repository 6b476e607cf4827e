/* Requests that come twice, and over another connection. */
#include "test/unit/server_fixture.h"

#include <signal.h>

#include "common/log.h"
#include "server/request.h"
#include "server/session.h"

static void a_repeated_request_gets_the_same_answer(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_make_request make = {.parent = node->hello.root, .name = "dir", .mode = S_IFDIR | 0755, .target = ""};
	struct kr_remove_request remove_dir = {.parent = node->hello.root, .name = "dir", .directory = 1};
	const union kr_any_msg *reply;
	struct kr_fid first;
	uint64_t made, removed;

	made = node_send(node, KR_MSG_MAKE, &make);
	assert_int_equal(node_result(node, made, &reply), 0);
	first = reply->make_reply.file;
	assert_int_equal(node_call(node, KR_MSG_MAKE, &make, NULL), -EEXIST);
	removed = node_send(node, KR_MSG_REMOVE, &remove_dir);
	assert_int_equal(node_result(node, removed, NULL), 0);
	node_disconnect(node);
	resume(node);
	node_answer(node, made)->replies = node_answer(node, removed)->replies = 0;
	node_send_as(node, made, KR_FRAME_RESEND, KR_MSG_MAKE, &make);
	node_send_as(node, removed, KR_FRAME_RESEND, KR_MSG_REMOVE, &remove_dir);
	assert_int_equal(node_result(node, made, &reply), 0);
	assert_true(kr_fid_equal(&reply->make_reply.file, &first));
	assert_int_equal(node_result(node, removed, NULL), 0);
	assert_int_equal(lookup(node, "dir", NULL), -ENOENT); /* it was not made again */
}

static void a_repeated_open_counts_once_and_grants_nothing(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_create_request msg = {.parent = node->hello.root, .name = "f", .mode = 0644, .want = KR_LEASE_WRITE};
	struct kr_close_request close_msg = {.count = 1};
	const union kr_any_msg *reply;
	uint64_t id = node_send(node, KR_MSG_CREATE, &msg);

	assert_int_equal(node_result(node, id, &reply), 0);
	assert_int_equal(reply->create_reply.granted, KR_LEASE_WRITE);
	close_msg.file = reply->create_reply.file;
	node_disconnect(node);
	resume(node);
	node_answer(node, id)->replies = 0;
	node_send_as(node, id, KR_FRAME_RESEND, KR_MSG_CREATE, &msg);
	assert_int_equal(node_result(node, id, &reply), 0);
	assert_int_equal(reply->create_reply.granted, 0);
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close_msg, NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_CLOSE, &close_msg, NULL), -EBADF);
}

struct wait_for_sync {
	const struct kr_session *session;
	uint64_t id;
};

static bool waits_for_a_sync(void *context)
{
	const struct wait_for_sync *wait = context;
	const struct kr_request *request = kr_request_find(wait->session, wait->id);

	return request && request->committed && !request->in_pool;
}

/* Before the cut is made what nodes could bring back is synced, and meanwhile the session ends. */
static void a_cut_that_was_not_made_is_made_when_it_is_asked_for_again(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0);
	struct kr_flush_request flush = {.file = create(node, "f", KR_LEASE_WRITE), .flags = 1, .seq = 1};
	struct kr_create_request msg = {.parent = node->hello.root, .name = "f", .mode = 0644, .flags = KR_OPEN_BOTH | KR_OPEN_TRUNC};
	struct kr_session *session = kr_session_find(&f->server, node->hello.session);
	struct wait_for_sync wait = {.session = session};

	assert_int_equal(node_call(node, KR_MSG_FLUSH, &flush, NULL), 0);
	wait.id = node_send(node, KR_MSG_CREATE, &msg);
	assert_true(node_wait_for(&f->loop, waits_for_a_sync, &wait));
	kr_session_end(session, KR_SESSION_LOST);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	assert_true(node_wait_for(&f->loop, the_disk_rests, f));
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.resumed, 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	node_send_as(node, wait.id, KR_FRAME_RESEND, KR_MSG_CREATE, &msg);
	assert_int_equal(node_result(node, wait.id, NULL), 0);
}

/* Its answer has the file's attributes, and so waits for a node that writes it. */
static void what_was_done_is_not_withdrawn_when_it_is_asked_for_again(void **state)
{
	struct fixture *f = *state;
	struct node *node = joined(f, 0), *writer = joined(f, 1);
	struct kr_setattr_request set = {.file = create(writer, "f", KR_LEASE_WRITE), .valid = KR_SET_MODE, .mode = 0600};
	struct kr_cancel_request cancel = {0};
	struct kr_query_reply clean = {0};

	cancel.request = node_send(node, KR_MSG_SETATTR, &set);
	node_asked(writer, KR_MSG_QUERY)->answered = true; /* as far as it is concerned */
	kr_session_end(kr_session_find(&f->server, node->hello.session), KR_SESSION_LOST);
	assert_true(node_wait_for(&f->loop, node_is_closed, node));
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node_call(node, KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	node_send_as(node, cancel.request, KR_FRAME_RESEND, KR_MSG_SETATTR, &set);
	node_asked(writer, KR_MSG_QUERY);
	assert_int_equal(node_call(node, KR_MSG_CANCEL, &cancel, NULL), 0);
	settle(node);
	assert_false(is_answered(node, cancel.request));
	node_reply(writer, node_asked(writer, KR_MSG_QUERY), &clean);
	assert_int_equal(node_result(node, cancel.request, NULL), 0);
}

static void a_parked_request_survives_its_connection(void **state)
{
	struct fixture *f = *state;
	struct node *writer = joined(f, 0), *reader = joined(f, 1);
	struct kr_fid fid = create(writer, "f", KR_LEASE_WRITE);
	struct kr_lease_request msg = {.file = fid, .kinds = KR_LEASE_READ};
	uint64_t id = send_lease(reader, &fid, KR_LEASE_READ);
	struct node_asked *recall = node_asked(writer, KR_MSG_RECALL);

	node_disconnect(reader);
	resume(reader);
	node_send_as(reader, id, KR_FRAME_RESEND, KR_MSG_LEASE, &msg);
	settle(reader);
	assert_false(is_answered(reader, id));
	node_reply(writer, recall, NULL);
	assert_int_equal(node_result(reader, id, NULL), 0);
	settle(reader); /* a second answer would have come before this one's */
	assert_int_equal(node_answer(reader, id)->replies, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_repeated_request_gets_the_same_answer),
		TEST(a_repeated_open_counts_once_and_grants_nothing),
		TEST(a_cut_that_was_not_made_is_made_when_it_is_asked_for_again),
		TEST(what_was_done_is_not_withdrawn_when_it_is_asked_for_again),
		TEST(a_parked_request_survives_its_connection),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_server_repeats", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

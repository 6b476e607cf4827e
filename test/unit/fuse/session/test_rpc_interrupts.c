/* Calls whose programs are interrupted. */
#include "test/unit/fuse/session/rpc_fixture.h"

static uint64_t ask_getattr(struct answer *answer)
{
	struct kr_getattr_request msg = {.file = {.length = 1}};

	return kr_rpc_call(mount.rpc, KR_MSG_GETATTR, &msg, NULL, 0, KR_RPC_READ_ONLY, on_answer, answer);
}

static void an_interrupted_question_is_given_up_at_once_and_the_server_told(void **state)
{
	struct answer answer = {0};
	uint64_t id;

	(void)state;
	kr_rpc_open(mount.rpc);
	id = ask_getattr(&answer);
	UNTIL(server.count == 1);
	kr_rpc_cancel(mount.rpc, id);
	assert_int_equal(answer.err, -EINTR);
	UNTIL(server.count == 2);
	assert_int_equal(server.seen[1].type, KR_MSG_CANCEL);
	assert_int_equal(server.seen[1].msg.cancel_request.request, id);
	reply(&server.seen[0], -EINTR, NULL); /* nobody waits for it any more */
	for (int i = 0; i < 3; i++)
		turn();
	assert_int_equal(answer.count, 1);
}

static void an_interrupted_change_has_the_answer_of_the_server(void **state)
{
	struct answer begun = {0}, waiting = {0};
	uint64_t first, second;

	(void)state;
	kr_rpc_open(mount.rpc);
	first = ask_remove(&begun, 0);
	second = ask_remove(&waiting, 0);
	UNTIL(server.count == 2);
	kr_rpc_cancel(mount.rpc, first);
	kr_rpc_cancel(mount.rpc, second);
	assert_int_equal(begun.count + waiting.count, 0);
	reply_nothing(&server.seen[0]);
	reply(&server.seen[1], -EINTR, NULL);
	UNTIL(begun.count && waiting.count);
	assert_int_equal(begun.err, 0);
	assert_int_equal(waiting.err, -EINTR);
}

static void an_interrupted_change_does_not_wait_for_a_server_that_is_away(void **state)
{
	struct answer cut = {0}, silent = {0};
	uint64_t id;

	(void)state;
	kr_rpc_open(mount.rpc);
	id = ask_remove(&cut, 0);
	UNTIL(server.count == 1);
	break_connection();
	kr_rpc_cancel(mount.rpc, id);
	assert_int_equal(cut.err, -EINTR);
	server.count = 0;
	kr_rpc_open(mount.rpc);
	id = ask_remove(&silent, 0);
	UNTIL(server.count == 1); /* the first is not sent again */
	kr_rpc_cancel(mount.rpc, id);
	UNTIL(silent.count); /* after a second or two */
	assert_int_equal(silent.err, -EINTR);
}

static const struct kr_fid opened_file = {.length = 3, .bytes = "abc"};

/* An OPEN whose program is interrupted while the server is away: it is sent again, because it may count already, and
 * then taken back by a CLOSE, which the server has got. */
static void give_up_open(void)
{
	const struct kr_open_request msg = {.file = opened_file};
	const struct kr_open_reply opened = {0};
	struct answer answer = {0};
	uint64_t id;

	kr_rpc_open(mount.rpc);
	id = kr_rpc_call(mount.rpc, KR_MSG_OPEN, &msg, NULL, 0, 0, on_answer, &answer);
	UNTIL(server.count == 1);
	break_connection();
	kr_rpc_cancel(mount.rpc, id);
	assert_int_equal(answer.err, -EINTR);
	server.count = 0;
	kr_rpc_open(mount.rpc);
	UNTIL(server.count == 1);
	assert_int_equal(server.seen[0].type, KR_MSG_OPEN);
	reply(&server.seen[0], 0, &opened);
	UNTIL(server.count == 2);
	assert_int_equal(server.seen[1].type, KR_MSG_CLOSE);
	assert_int_equal(answer.count, 1);
}

static void an_open_that_nobody_waits_for_is_closed_again(void **state)
{
	(void)state;
	give_up_open();
	assert_true(kr_fid_equal(&server.seen[1].msg.close_request.file, &opened_file));
}

static void the_end_of_a_session_is_that_of_an_open_that_nobody_waits_for(void **state)
{
	struct answer other = {0};

	(void)state;
	give_up_open();
	server.count = 0;
	break_connection();
	kr_rpc_set_session(mount.rpc, 1); /* it goes on: the CLOSE is owed */
	kr_rpc_open(mount.rpc);
	UNTIL(server.count == 1);
	assert_int_equal(server.seen[0].type, KR_MSG_CLOSE);
	server.count = 0;
	break_connection();
	kr_rpc_set_session(mount.rpc, 2);
	kr_rpc_open(mount.rpc);
	ask_remove(&other, 0);
	UNTIL(server.count == 1);
	assert_int_equal(server.seen[0].type, KR_MSG_REMOVE);
	reply_nothing(&server.seen[0]);
	UNTIL(other.count);
	assert_int_equal(kr_rpc_pending(mount.rpc), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(an_interrupted_question_is_given_up_at_once_and_the_server_told),
		TEST(an_interrupted_change_has_the_answer_of_the_server),
		TEST(an_interrupted_change_does_not_wait_for_a_server_that_is_away),
		TEST(an_open_that_nobody_waits_for_is_closed_again),
		TEST(the_end_of_a_session_is_that_of_an_open_that_nobody_waits_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

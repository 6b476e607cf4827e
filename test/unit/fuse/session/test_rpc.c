/* Calls of a node, and requests of its server, over connections that come and go. */
#include "test/unit/fuse/session/rpc_fixture.h"

static void calls_wait_for_the_session(void **state)
{
	struct answer late = {0};

	(void)state;
	ask_remove(&late, 0);
	kr_rpc_open_answers(mount.rpc);
	for (int i = 0; i < 5; i++)
		turn();
	assert_int_equal(server.count, 0);
	assert_false(kr_rpc_connected(mount.rpc));
	kr_rpc_open(mount.rpc);
	UNTIL(server.count == 1);
	reply(&server.seen[0], -ENOTEMPTY, NULL);
	UNTIL(late.count);
	assert_int_equal(late.err, -ENOTEMPTY);
}

static void unanswered_calls_are_sent_again_in_order_with_their_ids(void **state)
{
	struct answer answers[3] = {0};
	uint64_t ids[3];

	(void)state;
	kr_rpc_open(mount.rpc);
	for (int i = 0; i < 3; i++)
		ids[i] = ask_remove(&answers[i], 0);
	UNTIL(server.count == 3);
	reply_nothing(&server.seen[1]);
	UNTIL(answers[1].count);
	server.count = 0;
	break_connection();
	assert_int_equal(answers[0].count, 0);
	assert_int_equal(heard.disconnected, 1);
	kr_rpc_open(mount.rpc);
	UNTIL(server.count == 2);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(server.seen[i].id, ids[i * 2]);
		assert_true(server.seen[i].flags & KR_FRAME_RESEND);
		reply_nothing(&server.seen[i]);
	}
	UNTIL(answers[0].count && answers[2].count);
	assert_int_equal(answers[0].err, 0);
	assert_int_equal(kr_rpc_pending(mount.rpc), 0);
}

struct watched {
	unsigned waits, answers;
	bool silent;
};

static bool on_watched(void *context, uint16_t type, const struct kr_fid *file, uint64_t waited_ns, bool answered)
{
	struct watched *watched = context;

	assert_int_equal(type, KR_MSG_LEASE);
	assert_int_equal(file->length, 3);
	assert_true(waited_ns > 0);
	watched->waits += !answered;
	watched->answers += answered;
	return !watched->silent;
}

static void a_lease_that_is_not_answered_is_told_once_and_its_end(void **state)
{
	struct kr_lease_request msg = {.file = {.length = 3}, .kinds = KR_LEASE_READ};
	struct kr_lease_reply granted = {0};
	struct answer answer = {0}, other = {0};
	struct watched watched = {.silent = true};

	(void)state;
	kr_rpc_watch(mount.rpc, 1, on_watched, &watched);
	kr_rpc_open(mount.rpc);
	ask_remove(&other, 0); /* is not watched */
	kr_rpc_call(mount.rpc, KR_MSG_LEASE, &msg, NULL, 0, 0, on_answer, &answer);
	UNTIL(server.count == 2);
	UNTIL(watched.waits >= 2); /* as long as nobody says it */
	watched = (struct watched){0};
	UNTIL(watched.waits == 1);
	for (int i = 0; i < 50; i++) /* more than a tick */
		turn();
	assert_int_equal(watched.waits, 1);
	reply(&server.seen[1], 0, &granted);
	reply_nothing(&server.seen[0]);
	UNTIL(answer.count && other.count);
	assert_int_equal(watched.waits, 1);
	assert_int_equal(watched.answers, 1);
}

/* What the hooks have seen of calls. */
static struct {
	int begun, answered, ended, err;
	uint16_t type;
} seen;

static void *on_begun(struct kr_mount *unused, uint16_t type, const union kr_any_msg *asked)
{
	(void)unused, (void)asked;
	seen.begun++;
	seen.type = type;
	return &seen;
}

static void on_answered(struct kr_mount *unused, uint16_t type, const union kr_any_msg *asked, int err,
	const void *message, uint16_t flags, uint64_t asked_ns, uint64_t heard_ns)
{
	(void)unused, (void)type, (void)asked, (void)message, (void)flags;
	assert_true(asked_ns <= heard_ns);
	assert_int_equal(seen.ended, seen.answered + 1); /* it has not ended yet; another was canceled */
	seen.answered++;
	seen.err = err;
}

static void on_ended(struct kr_mount *unused, void *change)
{
	(void)unused;
	assert_ptr_equal(change, &seen);
	seen.ended++;
}

static void hooks_hear_of_each_call_until_it_has_ended(void **state)
{
	static const struct kr_rpc_hooks hooks = {.begun = on_begun, .answered = on_answered, .ended = on_ended};
	struct answer answer = {0}, canceled = {0};
	uint64_t id;

	(void)state;
	kr_rpc_set_hooks(mount.rpc, &hooks);
	id = ask_remove(&canceled, 0); /* waits for the session */
	assert_int_equal(seen.begun, 1);
	assert_int_equal(seen.type, KR_MSG_REMOVE);
	assert_int_equal(seen.ended, 0);
	kr_rpc_cancel(mount.rpc, id);
	assert_int_equal(canceled.err, -EINTR);
	assert_int_equal(seen.ended, 1);
	kr_rpc_open(mount.rpc);
	ask_remove(&answer, 0);
	UNTIL(server.count == 1);
	assert_int_equal(seen.begun, 2);
	assert_int_equal(seen.ended, 1);
	reply(&server.seen[0], -EBUSY, NULL);
	UNTIL(answer.count);
	assert_int_equal(seen.answered, 1);
	assert_int_equal(seen.err, -EBUSY);
	assert_int_equal(seen.ended, 2);
	kr_rpc_set_hooks(mount.rpc, NULL);
}

static void soft_calls_end_when_the_server_is_silent_and_hard_ones_wait(void **state)
{
	struct answer soft = {0}, hard = {0};

	(void)state;
	options.soft = true;
	kr_rpc_open(mount.rpc);
	ask_remove(&hard, KR_RPC_HARD);
	ask_remove(&soft, 0);
	UNTIL(soft.count);
	assert_int_equal(soft.err, -ETIMEDOUT);
	assert_int_equal(hard.count, 0);
}

static struct kr_down last_down;
static int downs;

static void on_recall(struct kr_mount *from, const struct kr_down *down, const void *msg, struct kr_buf *data)
{
	const struct kr_recall_request *recall = msg;

	(void)data;
	assert_ptr_equal(from, &mount);
	assert_int_equal(recall->kinds, KR_LEASE_READ);
	last_down = *down;
	downs++;
}

static struct answer recalled;
static void on_recalled(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	(void)context, (void)message, (void)data, (void)more;
	recalled.count++;
	recalled.err = err;
}

static void recall(uint64_t id, uint16_t flags)
{
	struct kr_recall_request msg = {.file = {.length = 1}, .kinds = KR_LEASE_READ};

	assert_int_equal(
		kr_conn_request_as(server.conn, id, flags, KR_MSG_RECALL, &msg, NULL, 0, on_recalled, NULL), 0);
}

/* The server asks for something, and the node has it. */
static void begin_recall(void)
{
	downs = 0;
	recalled = (struct answer){0};
	kr_rpc_on(mount.rpc, KR_MSG_RECALL, on_recall);
	kr_rpc_open(mount.rpc);
	recall(5, 0);
	UNTIL(downs == 1);
}

static void a_request_of_the_server_is_delivered_once_while_it_is_unanswered(void **state)
{
	struct kr_recall_reply nothing = {};

	(void)state;
	begin_recall();
	break_connection();
	recalled = (struct answer){0};
	kr_rpc_open(mount.rpc);
	recall(5, KR_FRAME_RESEND);
	recall(6, 0);
	UNTIL(downs == 2);
	assert_int_equal(last_down.id, 6);
	last_down.id = 5;
	kr_rpc_answer(mount.rpc, &last_down, 0, &nothing);
	UNTIL(recalled.count == 1);
	assert_int_equal(recalled.err, 0);
}

static void answers_for_an_ended_session_are_dropped(void **state)
{
	struct kr_recall_reply nothing = {};
	struct kr_down old;

	(void)state;
	begin_recall();
	old = last_down;
	kr_rpc_set_session(mount.rpc, 2);
	recall(7, 0);
	UNTIL(downs == 2);
	kr_rpc_answer(mount.rpc, &old, 0, &nothing);
	kr_rpc_answer(mount.rpc, &last_down, 0, &nothing);
	UNTIL(recalled.count == 1);
	for (int i = 0; i < 3; i++)
		turn();
	assert_int_equal(recalled.count, 1);
}

static void what_cannot_be_encoded_is_reported_later(void **state)
{
	struct kr_remove_request msg = {.parent = {.length = 1}, .name = "a/b"};
	struct answer answer = {0};

	(void)state;
	kr_rpc_open(mount.rpc);
	kr_rpc_call(mount.rpc, KR_MSG_REMOVE, &msg, NULL, 0, 0, on_answer, &answer);
	assert_int_equal(answer.count, 0);
	UNTIL(answer.count);
	assert_int_equal(answer.err, -EINVAL);
}

/* --- calls that nobody waits for ---------------------------------------------------------------- */

static void answer_all(struct answer *answers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		reply_nothing(&server.seen[i]);
	for (size_t i = 0; i < count; i++)
		UNTIL(answers[i].count);
}

static void a_call_that_may_wait_goes_with_the_next_in_order(void **state)
{
	struct answer answers[3] = {0};
	uint64_t ids[3];

	(void)state;
	kr_rpc_open(mount.rpc);
	ids[0] = ask_remove(&answers[0], KR_RPC_LATER);
	ids[1] = ask_remove(&answers[1], KR_RPC_LATER);
	ids[2] = ask_remove(&answers[2], 0);
	UNTIL(server.count == 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(server.seen[i].id, ids[i]);
	answer_all(answers, 3);
}

static void a_call_that_may_wait_goes_by_itself(void **state)
{
	struct answer answers[3] = {0};

	(void)state;
	kr_rpc_open(mount.rpc);
	for (size_t i = 0; i < 3; i++) { /* also when the last one is long ago */
		ask_remove(&answers[i], KR_RPC_LATER);
		assert_int_equal(server.count, i);
		UNTIL(server.count == i + 1);
		for (int j = 0; j < 3; j++)
			turn();
	}
	answer_all(answers, 3);
}

/* Else the server could grant a lease anew for which the RETURN comes then. */
static void an_answer_does_not_overtake_a_call_that_waits(void **state)
{
	struct kr_recall_reply nothing = {};
	struct answer answer = {0};

	(void)state;
	begin_recall();
	ask_remove(&answer, KR_RPC_LATER);
	kr_rpc_answer(mount.rpc, &last_down, 0, &nothing);
	UNTIL(recalled.count == 1);
	assert_int_equal(server.count, 1);
	answer_all(&answer, 1);
}

static void a_call_that_waits_survives_the_connection(void **state)
{
	struct answer answer = {0};

	(void)state;
	kr_rpc_open(mount.rpc);
	ask_remove(&answer, KR_RPC_LATER);
	kr_rpc_reset(mount.rpc, "a test");
	UNTIL(server.connections == 2 && server.conn);
	assert_int_equal(server.count, 0);
	kr_rpc_open(mount.rpc);
	UNTIL(server.count == 1);
	assert_int_equal(server.seen[0].flags & KR_FRAME_RESEND, 0);
	answer_all(&answer, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(calls_wait_for_the_session),
		TEST(unanswered_calls_are_sent_again_in_order_with_their_ids),
		TEST(a_lease_that_is_not_answered_is_told_once_and_its_end),
		TEST(hooks_hear_of_each_call_until_it_has_ended),
		TEST(soft_calls_end_when_the_server_is_silent_and_hard_ones_wait),
		TEST(a_request_of_the_server_is_delivered_once_while_it_is_unanswered),
		TEST(answers_for_an_ended_session_are_dropped),
		TEST(what_cannot_be_encoded_is_reported_later),
		TEST(a_call_that_may_wait_goes_with_the_next_in_order),
		TEST(a_call_that_may_wait_goes_by_itself),
		TEST(an_answer_does_not_overtake_a_call_that_waits),
		TEST(a_call_that_waits_survives_the_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

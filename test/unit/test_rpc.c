/* Calls to a server that comes and goes: the server is played by the test, over loopback, in the same event loop. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/util.h"
#include "fuse/loop.h"
#include "fuse/notes.h"
#include "fuse/options.h"
#include "fuse/rpc.h"

enum { FRAMES = 64, WAIT_S = 30 };

struct seen {
	uint16_t type, flags;
	uint64_t id;
	union kr_any_msg msg; /* strings are gone */
};
static struct {
	uv_loop_t loop;
	uv_tcp_t listener;
	struct kr_conn *conn; /* the server's end */
	struct seen seen[FRAMES];
	size_t count;
	int connections;
	uv_timer_t waker;
	bool listener_closed;
} server;
static struct kr_mount_options options;
static struct kr_mount mount;
static struct kr_list tasks;

/* --- the node's loop, without a thread ------------------------------------------------------------------------------- */

bool kr_loop_here(const struct kr_loop *loop)
{
	(void)loop;
	return true;
}
void kr_loop_post(struct kr_loop *loop, struct kr_task *task)
{
	(void)loop;
	if (!kr_link_linked(&task->link))
		kr_list_append(&tasks, &task->link);
}

static void turn(void)
{
	struct kr_link *link;

	while ((link = kr_list_pop(&tasks))) {
		struct kr_task *task = KR_LIST_ENTRY(link, struct kr_task, link);

		task->fn(task);
	}
	uv_run(&server.loop, UV_RUN_ONCE); /* the waker ends it at the latest */
}

#define UNTIL(condition) \
	do { \
		uint64_t deadline_ = kr_clock_ns() + WAIT_S * KR_NS_PER_S; \
		while (!(condition)) { \
			assert_true(kr_clock_ns() < deadline_); \
			turn(); \
		} \
	} while (0)

/* --- the server ------------------------------------------------------------------------------------------------------ */

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct seen *seen = &server.seen[server.count++];
	struct kr_arena arena = {0};

	(void)conn;
	assert_true(server.count <= FRAMES);
	seen->type = frame->header.type;
	seen->flags = frame->header.flags;
	seen->id = frame->header.id;
	assert_int_equal(kr_msg_decode(seen->type, false, frame->fields, frame->header.fields_length, &seen->msg, &arena), 0);
	kr_arena_fini(&arena);
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	(void)err, (void)reason;
	if (server.conn == conn)
		server.conn = NULL;
}

static void on_connection(uv_stream_t *listener, int status)
{
	static const struct kr_conn_handler handler = {.on_frame = on_frame, .on_closed = on_closed};

	assert_int_equal(status, 0);
	assert_int_equal(kr_conn_accept(listener, &handler, NULL, &server.conn), 0);
	server.connections++;
}

static void reply(const struct seen *seen, int err, const void *msg)
{
	kr_conn_reply(server.conn, seen->type, seen->id, 0, err, msg, NULL, 0);
}

static void reply_nothing(const struct seen *seen)
{
	struct kr_remove_reply nothing = {};

	reply(seen, 0, &nothing);
}

static void break_connection(void)
{
	int before = server.connections;

	kr_conn_close(server.conn, false);
	UNTIL(server.connections > before && server.conn);
}

static void on_waker(uv_timer_t *timer)
{
	(void)timer;
}

/* --- the node -------------------------------------------------------------------------------------------------------- */

static struct {
	int connecting, disconnected;
} heard;

static void on_connecting(void *context, const struct sockaddr *address)
{
	(void)context, (void)address;
	heard.connecting++;
}
static void on_disconnected(void *context, int err, const char *reason)
{
	(void)context, (void)err, (void)reason;
	heard.disconnected++;
}
static const struct kr_rpc_events events = {.on_connecting = on_connecting, .on_disconnected = on_disconnected};

struct answer {
	int count, err;
};
static void on_answer(void *context, int err, const void *message, struct kr_buf *data)
{
	struct answer *answer = context;

	(void)data;
	assert_true((message != NULL) == (err == 0));
	answer->count++;
	answer->err = err;
}

static int set_up(void **state)
{
	struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct kr_endpoint endpoint = {.host = "127.0.0.1"};
	int length = sizeof(address);

	(void)state;
	memset(&server, 0, sizeof(server));
	memset(&mount, 0, sizeof(mount));
	memset(&heard, 0, sizeof(heard));
	kr_list_init(&tasks);
	uv_loop_init(&server.loop);
	uv_tcp_init(&server.loop, &server.listener);
	uv_tcp_bind(&server.listener, (struct sockaddr *)&address, 0);
	assert_int_equal(uv_listen((uv_stream_t *)&server.listener, 8, on_connection), 0);
	uv_tcp_getsockname(&server.listener, (struct sockaddr *)&address, &length);
	uv_timer_init(&server.loop, &server.waker);
	uv_timer_start(&server.waker, on_waker, 20, 20);
	endpoint.port = ntohs(address.sin_port);
	options = (struct kr_mount_options){.server = endpoint, .timeo = 300};
	mount.options = &options;
	mount.loop = &server.loop;
	assert_int_equal(kr_rpc_new(&mount, &endpoint, &mount.rpc), 0);
	kr_rpc_start(mount.rpc, &events, NULL);
	UNTIL(server.conn && heard.connecting);
	kr_rpc_set_session(mount.rpc, 1);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kr_rpc_stop(mount.rpc);
	kr_rpc_free(mount.rpc);
	UNTIL(!server.conn);
	uv_close((uv_handle_t *)&server.listener, NULL);
	uv_close((uv_handle_t *)&server.waker, NULL);
	while (uv_loop_alive(&server.loop))
		turn();
	assert_int_equal(uv_loop_close(&server.loop), 0);
	return 0;
}

static uint64_t ask_remove(struct answer *answer, unsigned flags)
{
	struct kr_remove_request msg = {.parent = {.length = 1}, .name = "name"};

	return kr_rpc_call(mount.rpc, KR_MSG_REMOVE, &msg, NULL, 0, flags, on_answer, answer);
}

static uint64_t ask_getattr(struct answer *answer)
{
	struct kr_getattr_request msg = {.file = {.length = 1}};

	return kr_rpc_call(mount.rpc, KR_MSG_GETATTR, &msg, NULL, 0, KR_RPC_READ_ONLY, on_answer, answer);
}

/* --- tests ----------------------------------------------------------------------------------------------------------- */

static void calls_wait_for_the_session_and_early_ones_do_not(void **state)
{
	struct answer late = {0}, early = {0};

	(void)state;
	ask_remove(&late, 0);
	ask_remove(&early, KR_RPC_EARLY);
	for (int i = 0; i < 5; i++)
		turn();
	assert_int_equal(server.count, 0);
	kr_rpc_open_early(mount.rpc);
	UNTIL(server.count == 1);
	reply_nothing(&server.seen[0]);
	UNTIL(early.count);
	assert_false(kr_rpc_connected(mount.rpc));
	kr_rpc_open(mount.rpc);
	UNTIL(server.count == 2);
	reply(&server.seen[1], -ENOTEMPTY, NULL);
	UNTIL(late.count);
	assert_int_equal(early.err, 0);
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

static void an_open_that_nobody_waits_for_is_closed_again(void **state)
{
	struct kr_open_request msg = {.file = {.length = 3, .bytes = "abc"}};
	struct kr_open_reply opened = {0};
	struct answer answer = {0};
	uint64_t id;

	(void)state;
	kr_rpc_open(mount.rpc);
	id = kr_rpc_call(mount.rpc, KR_MSG_OPEN, &msg, NULL, 0, 0, on_answer, &answer);
	UNTIL(server.count == 1);
	break_connection();
	kr_rpc_cancel(mount.rpc, id);
	assert_int_equal(answer.err, -EINTR);
	server.count = 0;
	kr_rpc_open(mount.rpc);
	UNTIL(server.count == 1); /* sent again, because it may count already */
	assert_int_equal(server.seen[0].type, KR_MSG_OPEN);
	reply(&server.seen[0], 0, &opened);
	UNTIL(server.count == 2);
	assert_int_equal(server.seen[1].type, KR_MSG_CLOSE);
	assert_true(kr_fid_equal(&server.seen[1].msg.close_request.file, &msg.file));
	assert_int_equal(answer.count, 1);
}

static void the_end_of_a_session_is_that_of_an_open_that_nobody_waits_for(void **state)
{
	struct kr_open_request msg = {.file = {.length = 3, .bytes = "abc"}};
	struct kr_open_reply opened = {0};
	struct answer answer = {0}, other = {0};
	uint64_t id;

	(void)state;
	kr_rpc_open(mount.rpc);
	id = kr_rpc_call(mount.rpc, KR_MSG_OPEN, &msg, NULL, 0, 0, on_answer, &answer);
	UNTIL(server.count == 1);
	break_connection();
	kr_rpc_cancel(mount.rpc, id);
	server.count = 0;
	kr_rpc_open(mount.rpc);
	UNTIL(server.count == 1);
	reply(&server.seen[0], 0, &opened);
	UNTIL(server.count == 2);
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

static void note_absence(const struct kr_fid *dir, const char *name)
{
	struct kr_lookup_request msg = {.parent = *dir, .name = name};
	struct kr_writer w;

	kr_writer_init(&w);
	assert_int_equal(kr_msg_encode(KR_MSG_LOOKUP, false, &msg, &w), 0);
	kr_notes_learn(&mount, KR_MSG_LOOKUP, w.bytes, w.length, -ENOENT, NULL, KR_FRAME_NOTE, kr_clock_ns(), kr_clock_ns());
	kr_writer_fini(&w);
}

static bool is_noted(const struct kr_fid *dir, const char *name)
{
	return kr_notes_has(&mount, &(struct kr_cred){0}, dir, name);
}

static void what_a_call_changes_is_not_known_until_it_has_ended(void **state)
{
	const struct kr_fid dir = {.length = 1};
	struct answer answer = {0}, canceled = {0};
	uint64_t id;

	(void)state;
	mount.notes = kr_notes_new();
	atomic_store(&mount.fence_at_ns, UINT64_MAX);
	note_absence(&dir, "name");
	assert_true(is_noted(&dir, "name"));
	id = ask_remove(&canceled, 0); /* waits for the session */
	assert_false(is_noted(&dir, "name"));
	kr_rpc_cancel(mount.rpc, id);
	assert_int_equal(canceled.err, -EINTR);
	assert_true(is_noted(&dir, "name"));
	kr_rpc_open(mount.rpc);
	ask_remove(&answer, 0);
	UNTIL(server.count == 1);
	assert_false(is_noted(&dir, "name"));
	reply(&server.seen[0], -EBUSY, NULL);
	UNTIL(answer.count);
	assert_false(is_noted(&dir, "name")); /* forgotten with the answer */
	note_absence(&dir, "name");
	assert_true(is_noted(&dir, "name"));
	kr_notes_free(mount.notes);
	mount.notes = NULL;
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

	assert_int_equal(kr_conn_request_as(server.conn, id, flags, KR_MSG_RECALL, &msg, NULL, 0, on_recalled, NULL), 0);
}

static void a_request_of_the_server_is_delivered_once_while_it_is_unanswered(void **state)
{
	struct kr_recall_reply nothing = {};

	(void)state;
	downs = 0;
	recalled = (struct answer){0};
	kr_rpc_on(mount.rpc, KR_MSG_RECALL, on_recall);
	kr_rpc_open(mount.rpc);
	recall(5, 0);
	UNTIL(downs == 1);
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
	downs = 0;
	recalled = (struct answer){0};
	kr_rpc_on(mount.rpc, KR_MSG_RECALL, on_recall);
	kr_rpc_open(mount.rpc);
	recall(5, 0);
	UNTIL(downs == 1);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(calls_wait_for_the_session_and_early_ones_do_not),
		TEST(unanswered_calls_are_sent_again_in_order_with_their_ids),
		TEST(a_lease_that_is_not_answered_is_told_once_and_its_end),
		TEST(an_interrupted_question_is_given_up_at_once_and_the_server_told),
		TEST(an_interrupted_change_has_the_answer_of_the_server),
		TEST(an_interrupted_change_does_not_wait_for_a_server_that_is_away),
		TEST(an_open_that_nobody_waits_for_is_closed_again),
		TEST(the_end_of_a_session_is_that_of_an_open_that_nobody_waits_for),
		TEST(what_a_call_changes_is_not_known_until_it_has_ended),
		TEST(soft_calls_end_when_the_server_is_silent_and_hard_ones_wait),
		TEST(a_request_of_the_server_is_delivered_once_while_it_is_unanswered),
		TEST(answers_for_an_ended_session_are_dropped),
		TEST(what_cannot_be_encoded_is_reported_later),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

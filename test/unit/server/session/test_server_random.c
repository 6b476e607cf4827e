/* Random histories of nodes whose connections break at any moment: every request ends with exactly one answer, and what
 * nodes believe to hold never conflicts.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/rpc/conn.h"
#include "common/base/log.h"
#include "server/export/export.h"
#include "server/session/listen.h"
#include "server/base/options.h"
#include "server/daemon/life.h"
#include "server/flush/flush.h"
#include "server/leases/file_table.h"
#include "server/leases/invalidation.h"
#include "server/pipelines/staging.h"
#include "server/recovery/recovery.h"
#include "server/session/session.h"
#include "test/unit/directory.h"

enum { NODES = 4, FILES = 3, STEPS = 4000, SEEDS = 6, ASKED_MAX = 64, UNANSWERED_MAX = 24, WAIT_S = 60 };

struct node;

struct call {
	struct kr_link link; /* node->unanswered, in order of sending */
	struct node *node;
	uint64_t id;
	uint16_t type;
	int file;
	union kr_any_msg msg;
};
struct asked {
	uint16_t type;
	uint64_t id;
	union kr_any_msg msg;
};
struct node {
	struct world *world;
	struct kr_conn *conn;
	bool live; /* HELLO answered on this connection */
	uint8_t number;
	uint64_t session, next_id, answers;
	struct kr_fid root;
	struct kr_list unanswered;
	size_t unanswered_count;
	struct asked asked[ASKED_MAX];
	size_t asked_count;
	uint8_t believed[FILES];
	uint32_t opens[FILES];
};
struct world {
	uv_loop_t loop;
	uv_timer_t pulse; /* so that a turn of the loop never waits long */
	struct kr_server server;
	struct node nodes[NODES];
	struct kr_fid files[FILES];
	uint64_t random;
};

static uint32_t random_below(struct world *world, uint32_t limit)
{
	world->random = world->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(world->random >> 33) % limit;
}

/* --- what nodes believe ----------------------------------------------------------------------- */

static void check(const struct world *world)
{
	for (int file = 0; file < FILES; file++) {
		int read = 0;

		for (int i = 0; i < NODES; i++)
			read += (world->nodes[i].believed[file] & KR_LEASE_READ) != 0;
		for (int i = 0; i < NODES; i++) { /* a writer has no other reader beside it */
			const struct node *node = &world->nodes[i];

			if (node->believed[file] & KR_LEASE_WRITE)
				assert_int_equal(read, (node->believed[file] & KR_LEASE_READ) != 0);
		}
	}
}

static int file_of(const struct world *world, const struct kr_fid *fid)
{
	for (int i = 0; i < FILES; i++) {
		if (kr_fid_equal(&world->files[i], fid))
			return i;
	}
	fail_msg("a file that nobody has named");
	return -1;
}

/* --- frames ----------------------------------------------------------------------------------- */

static void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct node *node = kr_conn_context(conn);
	struct kr_arena arena = {0};
	struct asked *asked;

	assert_true(node->asked_count < ASKED_MAX);
	asked = &node->asked[node->asked_count++];
	asked->type = frame->header.type;
	asked->id = frame->header.id;
	assert_int_equal(
		kr_msg_decode(asked->type, false, frame->fields, frame->header.fields_length, &asked->msg, &arena), 0);
	kr_arena_fini(&arena);
}

static void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct node *node = kr_conn_context(conn);

	(void)err;
	(void)reason;
	if (node && node->conn == conn) {
		node->conn = NULL;
		node->live = false;
		node->asked_count = 0; /* asked again on the next connection */
	}
}

static const struct kr_conn_handler handler = {on_frame, NULL, on_closed};

static void answer_oldest(struct node *node)
{
	struct asked asked;
	int file;

	if (!node->live || node->asked_count == 0)
		return;
	asked = node->asked[0];
	memmove(node->asked, node->asked + 1, --node->asked_count * sizeof(asked));
	if (asked.type == KR_MSG_QUERY) {
		kr_conn_reply(node->conn, asked.type, asked.id, 0, 0, &(struct kr_query_reply){.dirty = 1, .end = 5},
			NULL, 0);
		return;
	}
	if (asked.type == KR_MSG_RECALL) {
		file = file_of(node->world, &asked.msg.recall_request.file);
		node->believed[file] &= (uint8_t)~asked.msg.recall_request.kinds;
	}
	kr_conn_reply(node->conn, asked.type, asked.id, 0, 0, NULL, NULL, 0);
}

static void on_reply(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct call *call = context;
	struct node *node = call->node;
	uint8_t granted = 0;

	(void)data;
	assert_false(more);
	if (err == -ECONNRESET)
		return;
	if (err == 0 && call->type == KR_MSG_LEASE)
		granted = call->msg.lease_request.kinds;
	if (err == 0 && call->type == KR_MSG_OPEN) {
		granted = ((const struct kr_open_reply *)reply)->granted;
		node->opens[call->file]++;
	}
	if (call->type == KR_MSG_CLOSE)
		assert_int_equal(err, 0);
	else
		assert_true(err == 0 || err == -EINTR);
	node->believed[call->file] |= granted;
	check(node->world);
	kr_list_remove(&call->link);
	node->unanswered_count--;
	node->answers++;
	free(call);
}

static struct call *send_new(struct node *node, uint16_t type, int file, const void *msg, size_t size)
{
	struct call *call = calloc(1, sizeof(*call));

	call->node = node;
	call->id = node->next_id++;
	call->type = type;
	call->file = file;
	memcpy(&call->msg, msg, size);
	kr_list_append(&node->unanswered, &call->link);
	node->unanswered_count++;
	assert_int_equal(kr_conn_request_as(node->conn, call->id, 0, type, &call->msg, NULL, 0, on_reply, call), 0);
	return call;
}

/* --- connections ------------------------------------------------------------------------------ */

static void on_done(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	(void)context;
	(void)message;
	(void)data;
	(void)more;
	assert_true(err == 0 || err == -ECONNRESET);
}

static void on_hello(void *context, int err, const void *message, struct kr_buf *data, bool more)
{
	struct node *node = context;
	const struct kr_hello_reply *reply = message;
	struct call *call;

	(void)data;
	(void)more;
	if (err == -ECONNRESET)
		return;
	assert_int_equal(err, 0);
	if (node->session)
		assert_int_equal(reply->resumed, 1);
	node->session = reply->session;
	node->root = reply->root;
	node->live = true;
	/* Its first HELLO may have made a session, whose answer it has not seen: this one replaced it. */
	assert_int_equal(
		kr_conn_request_as(node->conn, UINT64_MAX - 1, 0, KR_MSG_RECLAIM_DONE, NULL, NULL, 0, on_done, node),
		0);
	KR_LIST_FOR_EACH(call, &node->unanswered, link)
		assert_int_equal(kr_conn_request_as(node->conn, call->id, KR_FRAME_RESEND, call->type, &call->msg, NULL,
					 0, on_reply, call),
			0);
}

static void connect_node(struct node *node)
{
	struct sockaddr_in address = {.sin_family = AF_INET,
		.sin_port = htons(kr_listen_port(&node->world->server)),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct kr_hello_request hello = {.proto_min = KR_PROTO_VERSION,
		.proto_max = KR_PROTO_VERSION,
		.node_name = "n",
		.node_id = {node->number},
		.ring_address = "",
		.subdir = "",
		.ring = "",
		.session = node->session};

	assert_int_equal(
		kr_conn_connect(&node->world->loop, (const struct sockaddr *)&address, &handler, node, &node->conn), 0);
	assert_int_equal(
		kr_conn_request_as(node->conn, UINT64_MAX, 0, KR_MSG_HELLO, &hello, NULL, 0, on_hello, node), 0);
}

/* --- events ----------------------------------------------------------------------------------- */

static void random_call(struct node *node)
{
	struct world *world = node->world;
	int file = (int)random_below(world, FILES);
	const struct kr_fid *fid = &world->files[file];
	uint8_t kinds = (uint8_t)(1 + random_below(world, 3));

	switch (random_below(world, 8)) {
	case 0:
	case 1:
	case 2:
		send_new(node, KR_MSG_LEASE, file, &(struct kr_lease_request){.file = *fid, .kinds = kinds},
			sizeof(struct kr_lease_request));
		break;
	case 3:
		send_new(node, KR_MSG_OPEN, file,
			&(struct kr_open_request){.file = *fid, .want = kinds, .flags = random_below(world, 4) ? 2 : 6},
			sizeof(struct kr_open_request));
		break;
	case 4:
		if (!node->opens[file])
			break;
		node->opens[file]--;
		send_new(node, KR_MSG_CLOSE, file, &(struct kr_close_request){.file = *fid, .count = 1},
			sizeof(struct kr_close_request));
		break;
	case 5:
		send_new(node, KR_MSG_GETATTR, file, &(struct kr_getattr_request){.file = *fid},
			sizeof(struct kr_getattr_request));
		break;
	case 6:
		send_new(node, KR_MSG_SETATTR, file,
			&(struct kr_setattr_request){
				.file = *fid, .valid = KR_SET_SIZE, .size = random_below(world, 1000)},
			sizeof(struct kr_setattr_request));
		break;
	default:
		send_new(node, KR_MSG_COPY, file,
			&(struct kr_copy_request){.from = *fid,
				.to = world->files[random_below(world, FILES)],
				.to_offset = 1000,
				.length = 100},
			sizeof(struct kr_copy_request));
	}
}

static void cancel_oldest(struct node *node)
{
	struct call *call;

	if (kr_list_empty(&node->unanswered))
		return;
	call = KR_LIST_ENTRY(node->unanswered.head.next, struct call, link);
	send_new(node, KR_MSG_CANCEL, 0, &(struct kr_cancel_request){.request = call->id},
		sizeof(struct kr_cancel_request));
}

static void random_event(struct world *world)
{
	struct node *node = &world->nodes[random_below(world, NODES)];

	if (!node->conn) {
		connect_node(node);
		return;
	}
	switch (random_below(world, 16)) {
	case 0:
		if (random_below(world, 4) == 0)
			kr_conn_close(node->conn, false);
		break;
	case 1:
		if (node->live)
			cancel_oldest(node);
		break;
	case 2:
	case 3:
	case 4:
	case 5:
	case 6:
	case 7:
		if (node->live && node->unanswered_count < UNANSWERED_MAX)
			random_call(node);
		break;
	default:
		answer_oldest(node);
	}
	uv_run(&world->loop, random_below(world, 3) ? UV_RUN_NOWAIT : UV_RUN_ONCE);
}

static void drain(struct world *world)
{
	uint64_t deadline = kr_clock_ns() + WAIT_S * KR_NS_PER_S;
	size_t left;

	do {
		left = 0;
		for (int i = 0; i < NODES; i++) {
			struct node *node = &world->nodes[i];

			if (!node->conn)
				connect_node(node);
			answer_oldest(node);
			left += node->unanswered_count + node->asked_count;
		}
		if (kr_clock_ns() > deadline)
			fail_msg("%zu requests have not been answered", left);
		uv_run(&world->loop, UV_RUN_ONCE);
	} while (left);
}

/* --- the history ------------------------------------------------------------------------------ */

static void on_pulse(uv_timer_t *timer)
{
	(void)timer;
}

static void make_files(struct world *world)
{
	struct kr_cred cred = {0};
	struct kr_create create = {.mode = 0644, .flags = KR_OPEN_BOTH, .exclusive = true};
	static const char *const names[FILES] = {"a", "b", "c"};
	struct kr_fid root;
	struct kr_attr attr;
	bool created;

	assert_int_equal(kr_export_walk(world->server.export, NULL, "", &root, &attr), 0);
	for (int i = 0; i < FILES; i++) {
		create.name = names[i];
		assert_int_equal(kr_export_create(world->server.export, &cred, &root, &create, &created,
					 &world->files[i], &attr),
			0);
		kr_export_release(world->server.export, &world->files[i], 1);
	}
}

/* On a slow machine that takes more steps. */
static bool all_have_answers(const struct world *world)
{
	for (int i = 0; i < NODES; i++) {
		if (world->nodes[i].answers <= STEPS / 40)
			return false;
	}
	return true;
}

static void run_history(uint64_t seed)
{
	struct world *world = calloc(1, sizeof(*world));
	uint64_t deadline;
	char directory[] = "/tmp/kr-test-random-XXXXXX", export_path[64], state_path[64], any[] = "127.0.0.1:0",
	     *listen[] = {any};
	struct kr_server_options options = {
		.listen = {listen, 1}, .state = state_path, .lease = 120000, .export_path = export_path};

	assert_non_null(mkdtemp(directory));
	snprintf(export_path, sizeof(export_path), "%s/export", directory);
	snprintf(state_path, sizeof(state_path), "%s/state", directory);
	assert_int_equal(mkdir(export_path, 0755), 0);
	world->random = seed;
	uv_loop_init(&world->loop);
	uv_timer_init(&world->loop, &world->pulse);
	uv_timer_start(&world->pulse, on_pulse, 1, 1);
	assert_int_equal(kr_server_init(&world->server, &world->loop, &options), 0);
	assert_int_equal(kr_server_listen(&world->server), 0);
	make_files(world);
	for (uint8_t i = 0; i < NODES; i++) {
		world->nodes[i] = (struct node){.world = world, .number = (uint8_t)(i + 1), .next_id = 1};
		kr_list_init(&world->nodes[i].unanswered);
	}
	deadline = kr_clock_ns() + WAIT_S * KR_NS_PER_S;
	for (int step = 0; step < STEPS || !all_have_answers(world); step++) {
		assert_true(step < STEPS || kr_clock_ns() < deadline);
		random_event(world);
		check(world);
	}
	drain(world);
	for (int i = 0; i < NODES; i++)
		kr_conn_close(world->nodes[i].conn, false);
	uv_close((uv_handle_t *)&world->pulse, NULL);
	kr_server_stop(&world->server);
	uv_run(&world->loop, UV_RUN_DEFAULT);
	kr_server_fini(&world->server);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	directory_remove(directory);
	free(world);
}

static void every_request_has_one_answer_and_leases_never_conflict(void **state)
{
	const char *chosen = getenv("KR_TEST_SEED");

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t used = chosen ? strtoull(chosen, NULL, 10) : seed;

		print_message("seed %llu (set KR_TEST_SEED to repeat it)\n", (unsigned long long)used);
		run_history(used);
		if (chosen)
			break;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_request_has_one_answer_and_leases_never_conflict),
	};

	signal(SIGPIPE, SIG_IGN); /* as the daemon does */
	kr_log_init("test_server_random", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

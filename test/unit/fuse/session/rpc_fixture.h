/* The node's calls, and a server that comes and goes: it is played by the test, over loopback, in the same event loop.
 */
#ifndef KR_TEST_RPC_FIXTURE_H
#define KR_TEST_RPC_FIXTURE_H

#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/util.h"
#include "fuse/base/loop.h"
#include "fuse/base/options.h"
#include "fuse/session/rpc.h"

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

/* --- the node's loop, without a thread -------------------------------------------------------- */

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

static inline void turn(void)
{
	struct kr_task *task;

	while ((task = KR_LIST_POP(&tasks, struct kr_task, link)))
		task->fn(task);
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

/* --- the server ------------------------------------------------------------------------------- */

static inline void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct seen *seen = &server.seen[server.count++];
	struct kr_arena arena = {0};

	(void)conn;
	assert_true(server.count <= FRAMES);
	seen->type = frame->header.type;
	seen->flags = frame->header.flags;
	seen->id = frame->header.id;
	assert_int_equal(
		kr_msg_decode(seen->type, false, frame->fields, frame->header.fields_length, &seen->msg, &arena), 0);
	kr_arena_fini(&arena);
}

static inline void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	(void)err, (void)reason;
	if (server.conn == conn)
		server.conn = NULL;
}

static inline void on_connection(uv_stream_t *listener, int status)
{
	static const struct kr_conn_handler handler = {.on_frame = on_frame, .on_closed = on_closed};

	assert_int_equal(status, 0);
	assert_int_equal(kr_conn_accept(listener, &handler, NULL, &server.conn), 0);
	server.connections++;
}

static inline void reply(const struct seen *seen, int err, const void *msg)
{
	kr_conn_reply(server.conn, seen->type, seen->id, 0, err, msg, NULL, 0);
}

static inline void reply_nothing(const struct seen *seen)
{
	struct kr_remove_reply nothing = {};

	reply(seen, 0, &nothing);
}

static inline void break_connection(void)
{
	int before = server.connections;

	kr_conn_close(server.conn, false);
	UNTIL(server.connections > before && server.conn);
}

static inline void on_waker(uv_timer_t *timer)
{
	(void)timer;
}

/* --- the node --------------------------------------------------------------------------------- */

static struct {
	int connecting, disconnected;
} heard;

static inline void on_connecting(void *context, const struct sockaddr *address)
{
	(void)context, (void)address;
	heard.connecting++;
}
static inline void on_disconnected(void *context, int err, const char *reason)
{
	(void)context, (void)err, (void)reason;
	heard.disconnected++;
}
static const struct kr_rpc_events events = {.on_connecting = on_connecting, .on_disconnected = on_disconnected};

struct answer {
	int count, err;
};
static inline void on_answer(void *context, int err, const void *message, struct kr_buf *data)
{
	struct answer *answer = context;

	(void)data;
	assert_true((message != NULL) == (err == 0));
	answer->count++;
	answer->err = err;
}

static inline int set_up(void **state)
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

static inline int tear_down(void **state)
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

static inline uint64_t ask_remove(struct answer *answer, unsigned flags)
{
	struct kr_remove_request msg = {.parent = {.length = 1}, .name = "name"};

	return kr_rpc_call(mount.rpc, KR_MSG_REMOVE, &msg, NULL, 0, flags, on_answer, answer);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

#endif

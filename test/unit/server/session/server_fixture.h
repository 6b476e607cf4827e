/* A server in the test's own event loop, on an export of its own, with scripted nodes.  Time passes when the test says
 * so. */
#ifndef KR_TEST_SERVER_FIXTURE_H
#define KR_TEST_SERVER_FIXTURE_H

#include "test/unit/directory.h"
#include "test/unit/moved_clock.h"
#include "test/unit/server/session/scripted_node.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* MOMENT_MS: less than what the server takes for a sleep of its own (it is patient then). */
enum { NODES = 4, LEASE_MS = 20000, MOMENT_MS = 500 };

struct fixture {
	uv_loop_t loop;
	struct kr_server server;
	struct kr_server_options options;
	char *listen[1];
	char directory[64], export_path[80], state_path[80];
	struct node *nodes[NODES];
};

/* --- fixture ---------------------------------------------------------------------------------- */

/* Nodes note nothing unless a test allows it. */
static inline void start_server(struct fixture *f)
{
	assert_int_equal(kr_server_init(&f->server, &f->loop, &f->options), 0);
	assert_int_equal(kr_server_listen(&f->server), 0);
	kr_invalidation_allow(&f->server, false);
	for (int i = 0; i < NODES; i++) {
		if (f->nodes[i])
			f->nodes[i]->port = kr_listen_port(&f->server);
	}
}

static inline bool server_has_ended(void *context)
{
	struct fixture *f = context;

	return f->server.daemon->end.ended && !uv_is_active((uv_handle_t *)&f->server.daemon->tick);
}

static inline void stop_server(struct fixture *f)
{
	kr_server_stop(&f->server);
	assert_true(node_wait_for(&f->loop, server_has_ended, f));
	for (int i = 0; i < 20; i++)
		uv_run(&f->loop, UV_RUN_NOWAIT); /* closed handles go */
	kr_server_fini(&f->server);
}

/* Until all nodes have heard that the former instance is gone. */
static inline void restart_server(struct fixture *f)
{
	stop_server(f);
	start_server(f);
	for (int i = 0; i < NODES; i++)
		if (f->nodes[i]->conn)
			assert_true(node_wait_for(&f->loop, node_is_closed, f->nodes[i]));
}

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->directory, "/tmp/kr-test-server-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	snprintf(f->export_path, sizeof(f->export_path), "%s/export", f->directory);
	snprintf(f->state_path, sizeof(f->state_path), "%s/state", f->directory);
	assert_int_equal(mkdir(f->export_path, 0755), 0);
	f->listen[0] = strdup("127.0.0.1:0");
	f->options = (struct kr_server_options){.listen = {f->listen, 1},
		.state = f->state_path,
		.lease = LEASE_MS,
		.user_sessions = 64,
		.export_path = f->export_path};
	uv_loop_init(&f->loop);
	start_server(f);
	for (uint8_t i = 0; i < NODES; i++)
		f->nodes[i] = node_new(&f->loop, kr_listen_port(&f->server), (uint8_t)(i + 1));
	*state = f;
	return 0;
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	for (int i = 0; i < NODES; i++)
		node_free(f->nodes[i]);
	stop_server(f);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	directory_remove(f->directory);
	free(f->listen[0]);
	free(f);
	return 0;
}

/* A node with a session that has nothing to reclaim. */
static inline struct node *joined(struct fixture *f, int i)
{
	assert_int_equal(node_hello(f->nodes[i], false), 0);
	assert_int_equal(node_call(f->nodes[i], KR_MSG_RECLAIM_DONE, NULL, NULL), 0);
	return f->nodes[i];
}

static inline void resume(struct node *node)
{
	assert_int_equal(node_hello(node, true), 0);
	assert_int_equal(node->hello.resumed, 1);
}

static inline struct kr_fid create(struct node *node, const char *name, uint8_t want)
{
	struct kr_create_request msg = {
		.parent = node->hello.root, .name = name, .mode = 0644, .flags = KR_OPEN_BOTH, .want = want};
	const union kr_any_msg *reply;

	assert_int_equal(node_call(node, KR_MSG_CREATE, &msg, &reply), 0);
	assert_int_equal(reply->create_reply.granted, want);
	return reply->create_reply.file;
}

static inline int lookup(struct node *node, const char *name, const union kr_any_msg **ret)
{
	struct kr_lookup_request msg = {.parent = node->hello.root, .name = name};

	return node_call(node, KR_MSG_LOOKUP, &msg, ret);
}

static inline uint64_t send_lease(struct node *node, const struct kr_fid *fid, uint8_t kinds)
{
	struct kr_lease_request msg = {.file = *fid, .kinds = kinds};

	return node_send(node, KR_MSG_LEASE, &msg);
}

/* FLUSH of TEXT, the bytes of FID up to SEQ, which a former FLUSH may have brought. */
static inline void flush_text(struct node *node, const struct kr_fid *fid, uint64_t seq, const char *text)
{
	const struct kr_range extent = {0, strlen(text)};
	struct kr_buf *buf = kr_buf_new(extent.length);
	struct kr_slice slice = {.buf = buf, .length = extent.length};
	struct kr_flush_request msg = {.file = *fid,
		.flags = KR_FLUSH_INLINE | KR_FLUSH_RESEND,
		.seq = seq,
		.bytes = extent.length,
		.mtime = {.sec = 1000000000},
		.checksum = kr_checksum(text, extent.length),
		.extents = {&extent, 1}};
	struct node_answer *answer = &node->answers[node->answer_count++];

	memcpy(buf->data, text, extent.length);
	buf->length = extent.length;
	*answer = (struct node_answer){.id = node->next_id++};
	assert_int_equal(
		kr_conn_request_as(node->conn, answer->id, 0, KR_MSG_FLUSH, &msg, &slice, 1, node_on_reply, answer), 0);
	kr_buf_put(buf);
	assert_int_equal(node_result(node, answer->id, NULL), 0);
}

/* The server has seen everything that the node sent before. */
static inline void settle(struct node *node)
{
	enum { PING_ID = 1 << 20 };

	if (node_answer(node, PING_ID))
		node_answer(node, PING_ID)->replies = 0;
	node_send_as(node, PING_ID, 0, KR_MSG_PING, NULL);
	assert_int_equal(node_result(node, PING_ID, NULL), 0);
}

static inline bool the_disk_rests(void *context)
{
	return ((struct fixture *)context)->server.jobs == 0;
}

/* A moment passes, but not for the disk, and what is due happens. */
static inline void pass_a_moment(struct fixture *f)
{
	assert_true(node_wait_for(&f->loop, the_disk_rests, f));
	move_clock(MOMENT_MS);
}

/* ... and NODE says that it lives. */
static inline void a_moment_later(struct fixture *f, struct node *node)
{
	pass_a_moment(f);
	settle(node);
}

static inline bool is_answered(struct node *node, uint64_t id)
{
	return node_answer(node, id)->replies > 0;
}

static inline bool no_orphans(void *context)
{
	struct kr_export_info info;

	kr_export_info(((struct fixture *)context)->server.export, &info);
	return info.orphans == 0;
}

#endif

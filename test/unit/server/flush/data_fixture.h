/* A whole server and simulated nodes in one process and one event loop, over real loopback connections: what the tests
 * of the server's data side stand on.
 *
 * A simulated node has a control connection, a ring listener, bytes to flush (a function of offset and generation, in
 * given extents), and plays its part in chains (data_ring.h).  It can die in the middle of a stream and come back as a
 * new session of the same journal.
 */
#ifndef KR_TEST_UNIT_DATA_FIXTURE_H
#define KR_TEST_UNIT_DATA_FIXTURE_H

#include "test/unit/directory.h"
#include "test/unit/server/flush/data_ring.h"

#include <signal.h>

/* --- the loop --------------------------------------------------------------------------------- */

static void node_begin(struct node *node);
static inline void node_die(struct node *node);
static inline void node_flush(struct node *node);

static inline void on_heartbeat(uv_timer_t *timer)
{
	(void)timer;
	for (size_t i = 0; i < F.node_count; i++) {
		struct node *node = &F.nodes[i];

		if (node->dying) {
			node->dying = false;
			node_die(node);
			node_begin(node);
		}
		if (node->live && node->wants_flush && !node->flushing)
			node_flush(node);
	}
}

/* Runs the loop until CONDITION holds; fails after a minute. */
#define wait_until(condition) \
	do { \
		uint64_t wait_deadline = kr_clock_ns() + WAIT_S * KR_NS_PER_S; \
		while (!(condition)) { \
			if (kr_clock_ns() > wait_deadline) \
				fail_msg("line %d: waited too long for: %s", __LINE__, #condition); \
			uv_run(&F.loop, UV_RUN_ONCE); \
		} \
	} while (0)

/* --- control ---------------------------------------------------------------------------------- */

/* What the server asks of the node. */
static inline void control_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct node *node = kr_conn_context(conn);
	struct kr_round_reply round_reply = {.seq = 0};
	struct kr_query_reply query_reply = {.dirty = node ? node->dirty : 0};
	const void *reply = NULL;
	struct kr_arena arena = {0};
	union kr_any_msg msg;

	if (!node)
		return;
	assert_int_equal(
		kr_msg_decode(frame->header.type, false, frame->fields, frame->header.fields_length, &msg, &arena), 0);
	if (F.on_request && F.on_request(node, frame->header.type, frame->header.id, &msg)) {
		kr_arena_fini(&arena);
		return;
	}
	switch (frame->header.type) {
	case KR_MSG_ROUND:
		node->round_id = frame->header.id;
		if (node->round_err)
			break;
		chain_begin(node, &msg.round_request);
		round_reply = (struct kr_round_reply){.seq = node->generation, .mtime = node->mtime};
		reply = &round_reply;
		break;
	case KR_MSG_ROUND_ABORT:
		node->aborts++;
		if (node->chain && node->chain->round == msg.round_abort_request.round)
			chain_drop(node->chain);
		break;
	case KR_MSG_STABLE:
		node->stable = KR_MAX(node->stable, msg.stable_request.round);
		node->stable_id = frame->header.id;
		break;
	case KR_MSG_UNSTABLE:
		node->unstable++;
		node->unstable_id = frame->header.id;
		node->lost = msg.unstable_request.last;
		break;
	case KR_MSG_RECALL:
		node->recalls++;
		break;
	case KR_MSG_QUERY:
		node->queries++;
		reply = &query_reply;
		break;
	case KR_MSG_UPSTREAM:
		node->upstreams++;
		node->upstream = msg.upstream_request.upstream;
		node->last = msg.upstream_request.last;
		break;
	default:
		fail_msg("unexpected request %s", kr_msg_name(frame->header.type));
	}
	if (node->keeps_stable && frame->header.type == KR_MSG_STABLE)
		;
	else if (frame->header.type == KR_MSG_ROUND ?
			node->round_err <= 0 :
			!node->deaf || (frame->header.type != KR_MSG_QUERY && frame->header.type != KR_MSG_UNSTABLE))
		kr_conn_reply(conn, frame->header.type, frame->header.id, 0,
			frame->header.type == KR_MSG_ROUND ? node->round_err : 0, reply, NULL, 0);
	kr_arena_fini(&arena);
}

static inline void control_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct node *node = kr_conn_context(conn);

	(void)err;
	(void)reason;
	if (node) {
		node->control = NULL;
		node->live = false;
	}
}
static const struct kr_conn_handler control_handler = {.on_frame = control_frame, .on_closed = control_closed};

/* An answer that counts only if the node has not died meanwhile. */
struct call {
	struct node *node;
	uint64_t epoch;
	void (*fn)(struct node *node, int err, const void *reply);
};

static inline void call_answered(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct call *call = context;

	(void)data;
	(void)more;
	if (call->epoch == call->node->epoch)
		call->fn(call->node, err, reply);
	free(call);
}

static inline void node_ask(struct node *node, uint16_t type, const void *msg, const struct kr_slice *slices,
	size_t count, void (*fn)(struct node *node, int err, const void *reply))
{
	struct call *call = kr_xcalloc(1, sizeof *call);

	*call = (struct call){.node = node, .epoch = node->epoch, .fn = fn};
	assert_true(kr_conn_request(node->control, type, msg, slices, count, call_answered, call) > 0);
}

static inline void reclaimed(struct node *node, int err, const void *reply)
{
	(void)reply;
	assert_int_equal(err, 0);
	node->live = true;
}

static inline void welcomed(struct node *node, int err, const void *reply_pointer)
{
	const struct kr_hello_reply *reply = reply_pointer;

	assert_int_equal(err, 0);
	node->session = reply->session;
	node->number = reply->node;
	node->root = reply->root;
	memcpy(node->ring_key, reply->ring_key, KR_RING_KEY);
	if (node->manual_reclaim)
		node->live = true;
	else
		node_ask(node, KR_MSG_RECLAIM_DONE, NULL, NULL, 0, reclaimed);
}

static inline void node_begin(struct node *node)
{
	struct kr_hello_request hello = {.proto_min = KR_PROTO_VERSION,
		.proto_max = KR_PROTO_VERSION,
		.node_name = node->name,
		.ring_address = "127.0.0.1",
		.ring_port = node->ring_port,
		.subdir = "",
		.flags = node->hello_flags,
		.ring = node->ring ? node->ring : ""};
	struct sockaddr_in address;

	memcpy(hello.node_id, node->node_id, 16);
	assert_int_equal(uv_ip4_addr("127.0.0.1", kr_listen_port(&F.server), &address), 0);
	assert_int_equal(
		kr_conn_connect(&F.loop, (struct sockaddr *)&address, &control_handler, node, &node->control), 0);
	node_ask(node, KR_MSG_HELLO, &hello, NULL, 0, welcomed);
}

/* Everything of it ends at once, as with kill -9. */
static inline void node_die(struct node *node)
{
	struct inbound *inbound;

	node->epoch++;
	node->live = node->flushing = false;
	chain_drop(node->chain);
	KR_LIST_FOR_EACH(inbound, &node->inbounds, link)
		kr_conn_close(inbound->conn, false);
	if (node->control) {
		kr_conn_set_context(node->control, NULL);
		kr_conn_close(node->control, false);
		node->control = NULL;
	}
}

static inline struct node *node_new(const char *name)
{
	struct node *node = &F.nodes[F.node_count++];
	struct sockaddr_in address;
	struct sockaddr_storage bound;
	int size = sizeof bound;

	memset(node, 0, sizeof *node);
	snprintf(node->name, sizeof node->name, "%s", name);
	memcpy(node->node_id, node->name, 16);
	node->mtime = (struct kr_time){.sec = 1000000000, .nsec = 5};
	kr_list_init(&node->inbounds);
	uv_tcp_init(&F.loop, &node->listener);
	node->listener.data = node;
	uv_ip4_addr("127.0.0.1", 0, &address);
	assert_int_equal(uv_tcp_bind(&node->listener, (struct sockaddr *)&address, 0), 0);
	assert_int_equal(uv_listen((uv_stream_t *)&node->listener, 16, on_connection), 0);
	uv_tcp_getsockname(&node->listener, (struct sockaddr *)&bound, &size);
	node->ring_port = ntohs(((struct sockaddr_in *)&bound)->sin_port);
	return node;
}

static inline struct node *node_start(const char *name)
{
	struct node *node = node_new(name);

	node_begin(node);
	wait_until(node->live);
	return node;
}

static struct {
	bool done;
	int err;
	union kr_any_msg reply;
} the_answer;

static inline void note_answer(struct node *node, int err, const void *reply)
{
	(void)node;
	the_answer.done = true;
	the_answer.err = err;
	if (reply)
		memcpy(&the_answer.reply, reply, sizeof the_answer.reply);
}

/* Asks and waits; the reply is in the_answer.reply, without what it borrows. */
static inline int node_call(struct node *node, uint16_t type, const void *msg)
{
	the_answer.done = false;
	node_ask(node, type, msg, NULL, 0, note_answer);
	wait_until(the_answer.done);
	return the_answer.err;
}

static inline struct kr_fid create_file(struct node *node, const char *name)
{
	struct kr_create_request msg = {.parent = node->root, .name = name, .mode = S_IFREG | 0644, .flags = 2};

	assert_int_equal(node_call(node, KR_MSG_CREATE, &msg), 0);
	return the_answer.reply.create_reply.file;
}

/* --- flushes ---------------------------------------------------------------------------------- */

static inline void flush_answered(struct node *node, int err, const void *reply)
{
	chain_drop(node->chain); /* all of it has been taken */
	node->flushing = false;
	node->wants_flush = false;
	node->flushed = true;
	node->flush_err = err;
	if (err == 0)
		node->flush_reply = *(const struct kr_flush_reply *)reply;
}

static inline struct kr_buf *gather(const struct node *node)
{
	size_t bytes = 0, position = 0;
	struct kr_buf *buf;

	for (size_t i = 0; i < node->extent_count; i++)
		bytes += node->extents[i].length;
	buf = kr_buf_new(bytes + 1);
	assert_non_null(buf);
	for (size_t i = 0; i < node->extent_count; i++) {
		fill(buf->data + position, node->extents[i].offset, node->extents[i].length, node->generation);
		position += node->extents[i].length;
	}
	buf->length = bytes;
	return buf;
}

/* The node holds WRITE, as if it had asked for it. */
static inline void node_hold(const struct node *node, const struct kr_fid *fid)
{
	struct kr_session *session = kr_session_find(&F.server, node->session);
	struct kr_sfile *file = kr_sfile_get(&F.server, fid);

	if (session && kr_leases_try(file, session, KR_LEASE_WRITE))
		kr_leases_announced(file, session);
	kr_sfile_put(file);
}

/* Sends FLUSH; node->flushed when it is answered. */
static inline void node_flush(struct node *node)
{
	struct kr_flush_request msg = {
		.file = node->file, .seq = node->generation, .flags = node->inlined, .mtime = node->mtime};

	msg.flags |= node->resend ? KR_FLUSH_RESEND : 0;
	if (!node->bare)
		node_hold(node, &node->file);
	node->flushing = node->wants_flush = true;
	node->flushed = false;
	if (node->inlined) {
		struct kr_buf *buf = gather(node);
		struct kr_slice slice = {.buf = buf, .length = buf->length};

		msg.checksum = kr_checksum(buf->data, buf->length);
		msg.extents = (struct kr_ranges){node->extents, (uint32_t)node->extent_count};
		node_ask(node, KR_MSG_FLUSH, &msg, &slice, 1, flush_answered);
		kr_buf_put(buf);
	} else {
		node_ask(node, KR_MSG_FLUSH, &msg, NULL, 0, flush_answered);
	}
}

static inline bool all_flushed(void)
{
	for (size_t i = 0; i < F.node_count; i++) {
		if (F.nodes[i].wants_flush)
			return false;
	}
	return true;
}

/* The file's bytes as they are on the server. */
static inline uint8_t *server_bytes(const char *name, size_t *ret_length)
{
	char path[160];
	char *text;
	int err;

	snprintf(path, sizeof path, "%s/%s", F.export_path, name);
	err = kr_read_file(AT_FDCWD, path, 1 << 27, &text, ret_length);
	assert_int_equal(err, 0);
	return (uint8_t *)text;
}

/* --- server ----------------------------------------------------------------------------------- */

static inline void server_start(void)
{
	F.listen[0] = (char *)(uintptr_t) "127.0.0.1:0";
	F.options = (struct kr_server_options){
		.listen = {F.listen, 1}, .state = F.state_path, .lease = 600000, .export_path = F.export_path};
	if (kr_server_init(&F.server, &F.loop, &F.options) < 0 || kr_server_listen(&F.server) < 0)
		fail_msg("the server does not start: %s", kr_fail_reason());
	kr_invalidation_allow(&F.server, false); /* nodes note nothing */
}

static inline void server_stop(void)
{
	kr_server_stop(&F.server);
	uv_timer_stop(&F.heartbeat);
	for (size_t i = 0; i < F.node_count; i++) {
		node_die(&F.nodes[i]);
		if (!uv_is_closing((uv_handle_t *)&F.nodes[i].listener))
			uv_close((uv_handle_t *)&F.nodes[i].listener, NULL);
	}
	uv_run(&F.loop, UV_RUN_DEFAULT);
	kr_server_fini(&F.server);
	uv_timer_start(&F.heartbeat, on_heartbeat, 5, 5);
	F.node_count = 0;
}

static inline int setup(void **state)
{
	(void)state;
	memset(&F, 0, sizeof F);
	snprintf(F.base, sizeof F.base, "/tmp/kairan-data-XXXXXX");
	if (!mkdtemp(F.base))
		return -1;
	snprintf(F.export_path, sizeof F.export_path, "%s/export", F.base);
	snprintf(F.state_path, sizeof F.state_path, "%s/state", F.base);
	if (mkdir(F.export_path, 0755) < 0 || mkdir(F.state_path, 0700) < 0)
		return -1;
	uv_loop_init(&F.loop);
	uv_timer_init(&F.loop, &F.heartbeat);
	uv_timer_start(&F.heartbeat, on_heartbeat, 5, 5);
	server_start();
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	server_stop();
	uv_close((uv_handle_t *)&F.heartbeat, NULL);
	uv_run(&F.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&F.loop), 0);
	directory_remove(F.base);
	return 0;
}

/* --- helpers of tests ------------------------------------------------------------------------- */

static inline void assert_content(const char *name, uint64_t size, unsigned (*generation)(uint64_t offset))
{
	size_t length;
	uint8_t *bytes = server_bytes(name, &length);

	assert_int_equal(length, size);
	for (size_t i = 0; i < length; i++) {
		unsigned g = generation(i);

		if (bytes[i] != (g ? content(i, g) : 0))
			fail_msg("%s differs at %zu: %02x, not generation %u", name, i, bytes[i], g);
	}
	free(bytes);
}

static inline void flush_and_wait(struct node *node)
{
	node_flush(node);
	wait_until(node->flushed);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static inline void prepare(void)
{
	signal(SIGPIPE, SIG_IGN);
	setenv("UV_THREADPOOL_SIZE", "16", 1);
	kr_log_init("test", getenv("KR_TEST_VERBOSE") ? KR_LOG_DEBUG : KR_LOG_ERROR);
	if (getenv("KR_TEST_FILTER"))
		cmocka_set_test_filter(getenv("KR_TEST_FILTER"));
}

#endif

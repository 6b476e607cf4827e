/* A whole server and simulated nodes in one process and one event loop, over real loopback connections: what the tests of
 * the server's data side stand on.
 *
 * A simulated node has a control connection, a ring listener, bytes to flush (a function of offset and generation, in
 * given extents), and plays its part in chains with ring/merge.h as a real node does.  It can die in the middle of a
 * stream and come back as a new session of the same journal.
 */
#ifndef KR_TEST_UNIT_DATA_FIXTURE_H
#define KR_TEST_UNIT_DATA_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/conn.h"
#include "common/fail.h"
#include "common/list.h"
#include "common/log.h"
#include "common/pair_conn.h"
#include "ring/merge.h"
#include "server/data.h"
#include "server/files.h"
#include "server/leases.h"
#include "server/listen.h"
#include "server/options.h"
#include "server/server.h"
#include "server/session.h"

enum { NODES_MAX = 6, WAIT_S = 60 };

struct chain;
struct node;

/* A ring connection that has come in. */
struct inbound {
	struct kr_link link;
	struct node *node;
	struct kr_conn *conn;
	struct chain *chain;
	uint64_t stream, round;
	bool waits; /* paused: its ROUND has not come yet */
	bool full;  /* paused: much is queued */
	struct kr_pair pair;
};

/* This node's part in one round. */
struct chain {
	struct node *node;
	uint64_t round, stream, extents, bytes;
	struct kr_conn *down;
	struct inbound *up;
	struct kr_merge merge;
	size_t own;
	bool end_sent;
};

struct node {
	char name[16];
	uint8_t node_id[16];
	uint32_t number;
	uint64_t session, epoch; /* the epoch ascends with each death */
	struct kr_conn *control;
	uv_tcp_t listener;
	uint16_t ring_port;
	uint8_t ring_key[KR_RING_KEY];
	struct kr_list inbounds;
	struct chain *chain;
	bool live, dying, manual_reclaim;

	/* What it has to flush: EXTENTS of FILE, as of GENERATION. */
	struct kr_fid file;
	const struct kr_range *extents;
	size_t extent_count;
	unsigned generation;
	bool wants_flush, flushing, flushed, inlined;
	int flush_err;
	struct kr_flush_reply flush_reply;
	struct kr_time mtime;
	unsigned deaths_left, die_after; /* extents sent in a stream before the next death */

	uint64_t stable, unstable;
	unsigned aborts, upstreams;
	struct kr_hop_address upstream;
	char upstream_address[64];
	struct kr_fid root;
};

struct fixture {
	char base[64];
	char export_path[80], state_path[80];
	uv_loop_t loop;
	uv_timer_t heartbeat;
	struct kr_server server;
	struct kr_server_options options;
	char *listen[1];
	struct node nodes[NODES_MAX];
	size_t node_count;
};
static struct fixture F;

/* --- content -------------------------------------------------------------------------------------------------------- */

static uint8_t content(uint64_t offset, unsigned generation)
{
	uint64_t x = (offset / 8 + 1) * UINT64_C(0x9e3779b97f4a7c15) + generation * UINT64_C(0xbf58476d1ce4e5b9);

	x ^= x >> 29;
	return (uint8_t)(x >> (offset % 8 * 8));
}

static void fill(uint8_t *bytes, uint64_t offset, size_t length, unsigned generation)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = content(offset + i, generation);
}

/* --- the loop ------------------------------------------------------------------------------------------------------- */

static void node_begin(struct node *node);
static void node_die(struct node *node);
static void node_flush(struct node *node);

static void on_heartbeat(uv_timer_t *timer)
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

/* --- chains --------------------------------------------------------------------------------------------------------- */

static void chain_drop(struct chain *chain)
{
	if (!chain)
		return;
	if (chain->down) {
		kr_conn_set_context(chain->down, NULL);
		kr_conn_close(chain->down, false);
	}
	if (chain->up) {
		chain->up->chain = NULL;
		kr_conn_close(chain->up->conn, false);
	}
	kr_merge_fini(&chain->merge);
	chain->node->chain = NULL;
	free(chain);
}

static void push_own(struct chain *chain)
{
	struct node *node = chain->node;
	const struct kr_range *extent;
	struct kr_buf *buf;

	if (chain->own == node->extent_count) {
		kr_merge_end(&chain->merge, KR_MERGE_HIGH);
		return;
	}
	extent = &node->extents[chain->own++];
	buf = kr_buf_new(extent->length);
	assert_non_null(buf);
	buf->length = extent->length;
	fill(buf->data, extent->offset, extent->length, node->generation);
	assert_int_equal(kr_merge_push(&chain->merge, KR_MERGE_HIGH, extent->offset, buf, 0, extent->length), 0);
	kr_buf_put(buf);
}

static void send_piece(struct chain *chain, const struct kr_piece *piece)
{
	struct kr_extent_request msg = { .stream = chain->stream, .offset = piece->offset,
		.checksum = kr_checksum(piece->buf->data + piece->start, piece->length) };
	struct kr_slice slice = { .buf = piece->buf, .offset = piece->start, .length = piece->length };

	kr_conn_oneway(chain->down, KR_MSG_EXTENT, &msg, &slice, 1);
	chain->extents++;
	chain->bytes += piece->length;
}

static void relieve_upstream(struct chain *chain)
{
	struct inbound *up = chain->up;
	bool full = up && kr_merge_queued(&chain->merge, KR_MERGE_LOW) > 1 << 20;

	if (!up || full == up->full)
		return;
	up->full = full;
	if (full)
		kr_conn_pause(up->conn);
	else
		kr_conn_resume(up->conn);
}

static void chain_pump(struct chain *chain)
{
	struct node *node = chain->node;
	struct kr_piece piece;

	while (chain->down && !chain->end_sent && kr_conn_queued(chain->down) < 1 << 20) {
		int got = kr_merge_pop(&chain->merge, &piece);

		assert_true(got >= 0);
		if (got) {
			send_piece(chain, &piece);
			kr_buf_put(piece.buf);
			if (node->deaths_left && chain->extents > node->die_after) {
				node->deaths_left--;
				node->dying = true;
				return;
			}
		} else if (kr_merge_done(&chain->merge)) {
			struct kr_stream_end_request end = { .stream = chain->stream, .extents = chain->extents, .bytes = chain->bytes };

			kr_conn_oneway(chain->down, KR_MSG_STREAM_END, &end, NULL, 0);
			chain->end_sent = true;
		} else if (kr_merge_wants(&chain->merge, KR_MERGE_HIGH)) {
			push_own(chain);
		} else {
			break;
		}
	}
	relieve_upstream(chain);
}

static void down_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	(void)conn;
	(void)frame;
}

static void down_drain(struct kr_conn *conn)
{
	struct chain *chain = kr_conn_context(conn);

	if (chain)
		chain_pump(chain);
}

static void down_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct chain *chain = kr_conn_context(conn);

	(void)err;
	(void)reason;
	if (chain) {
		chain->down = NULL;
		chain_drop(chain);
	}
}
static const struct kr_conn_handler down_handler = { .on_frame = down_frame, .on_drain = down_drain, .on_closed = down_closed };

static struct kr_pair_caller as_caller(const struct node *node)
{
	struct kr_pair_caller self = { .node = node->number, .session = node->session };

	memcpy(self.ring_key, node->ring_key, KR_RING_KEY);
	return self;
}

static void ignore_reply(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	(void)context;
	(void)err;
	(void)reply;
	(void)data;
	(void)more;
}

static void dial(const struct kr_hop_address *hop, const struct node *node, const struct kr_conn_handler *handler, void *context,
	struct kr_conn **ret_conn)
{
	struct kr_pair_caller self = as_caller(node);
	struct sockaddr_in address;

	assert_int_equal(uv_ip4_addr(hop->address, hop->port, &address), 0);
	assert_int_equal(kr_conn_connect(&F.loop, (struct sockaddr *)&address, handler, context, ret_conn), 0);
	kr_pair_open(*ret_conn, hop, &self, NULL, NULL);
}

/* A stream that came before or after its ROUND meets it. */
static void join_stream(struct chain *chain, struct inbound *inbound)
{
	inbound->chain = chain;
	chain->up = inbound;
	if (inbound->waits) {
		inbound->waits = false;
		kr_conn_resume(inbound->conn);
	}
}

static void chain_begin(struct node *node, const struct kr_round_request *round)
{
	struct chain *chain = kr_xcalloc(1, sizeof *chain);
	struct kr_stream_request stream = { .file = round->file, .round = round->round };
	struct inbound *inbound;

	assert_null(node->chain);
	node->chain = chain;
	chain->node = node;
	chain->round = round->round;
	kr_merge_init(&chain->merge);
	if (!round->has_upstream)
		kr_merge_end(&chain->merge, KR_MERGE_LOW);
	dial(&round->downstream, node, &down_handler, chain, &chain->down);
	chain->stream = kr_conn_request(chain->down, KR_MSG_STREAM, &stream, NULL, 0, ignore_reply, NULL);
	KR_LIST_FOR_EACH(inbound, &node->inbounds, link) {
		if (inbound->waits && inbound->round == round->round)
			join_stream(chain, inbound);
	}
	chain_pump(chain);
}

/* --- ring connections that come in ---------------------------------------------------------------------------------- */

static void inbound_stream(struct inbound *inbound, const struct kr_frame *frame, const struct kr_stream_request *msg)
{
	struct chain *chain = inbound->node->chain;

	inbound->stream = frame->header.id;
	inbound->round = msg->round;
	if (chain && chain->round == msg->round) {
		join_stream(chain, inbound);
	} else {
		inbound->waits = true;
		kr_conn_pause(inbound->conn);
	}
}

static void inbound_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct inbound *inbound = kr_conn_context(conn);
	struct chain *chain = inbound->chain;
	struct kr_hop_hello_reply hello;
	struct kr_seal_keys keys;
	struct kr_fresh fresh;
	struct kr_arena arena = { 0 };
	union kr_any_msg msg;

	assert_int_equal(kr_msg_decode(frame->header.type, false, frame->fields, frame->header.fields_length, &msg, &arena), 0);
	switch (frame->header.type) {
	case KR_MSG_HOP_HELLO:
		kr_fresh_make(&fresh);
		assert_int_equal(kr_pair_challenge(&inbound->pair, &msg.hop_hello_request, inbound->node->ring_key, KR_SECURITY_INTEGRITY,
			&fresh, &hello), 0);
		kr_conn_reply(conn, KR_MSG_HOP_HELLO, frame->header.id, 0, 0, &hello, NULL, 0);
		break;
	case KR_MSG_HOP_PROVE:
		if (kr_pair_verify(&inbound->pair, &msg.hop_prove_request, &keys)) {
			kr_conn_close(conn, false); /* it was meant for a session that has ended */
			break;
		}
		kr_conn_seal(conn, &keys);
		kr_conn_reply(conn, KR_MSG_HOP_PROVE, frame->header.id, 0, 0, NULL, NULL, 0);
		break;
	case KR_MSG_STREAM:
		inbound_stream(inbound, frame, &msg.stream_request);
		break;
	case KR_MSG_EXTENT:
		if (!chain)
			break;
		assert_int_equal(kr_checksum(frame->data->data, frame->data->length), msg.extent_request.checksum);
		assert_int_equal(kr_merge_push(&chain->merge, KR_MERGE_LOW, msg.extent_request.offset, frame->data, 0,
			frame->data->length), 0);
		chain_pump(chain);
		break;
	case KR_MSG_STREAM_END:
		if (!chain)
			break;
		kr_merge_end(&chain->merge, KR_MERGE_LOW);
		kr_conn_reply(conn, KR_MSG_STREAM, inbound->stream, 0, 0, NULL, NULL, 0);
		inbound->chain = NULL;
		chain->up = NULL;
		chain_pump(chain);
		break;
	default:
		fail_msg("unexpected frame %s", kr_msg_name(frame->header.type));
	}
	kr_arena_fini(&arena);
}

static void inbound_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct inbound *inbound = kr_conn_context(conn);

	(void)err;
	(void)reason;
	if (inbound->chain) {
		inbound->chain->up = NULL;
		chain_drop(inbound->chain);
	}
	kr_list_remove(&inbound->link);
	free(inbound);
}
static const struct kr_conn_handler inbound_handler = { .on_frame = inbound_frame, .on_closed = inbound_closed };

static void on_connection(uv_stream_t *listener, int status)
{
	struct node *node = listener->data;
	struct inbound *inbound = kr_xcalloc(1, sizeof *inbound);

	inbound->node = node;
	if (status < 0 || kr_conn_accept(listener, &inbound_handler, inbound, &inbound->conn) < 0) {
		free(inbound);
		return;
	}
	kr_list_append(&node->inbounds, &inbound->link);
}

/* --- control -------------------------------------------------------------------------------------------------------- */

/* What the server asks of the node. */
static void control_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct node *node = kr_conn_context(conn);
	struct kr_round_reply round_reply = { .seq = 0 };
	const void *reply = NULL;
	struct kr_arena arena = { 0 };
	union kr_any_msg msg;

	if (!node)
		return;
	assert_int_equal(kr_msg_decode(frame->header.type, false, frame->fields, frame->header.fields_length, &msg, &arena), 0);
	switch (frame->header.type) {
	case KR_MSG_ROUND:
		chain_begin(node, &msg.round_request);
		round_reply = (struct kr_round_reply){ .seq = node->generation, .mtime = node->mtime };
		reply = &round_reply;
		break;
	case KR_MSG_ROUND_ABORT:
		node->aborts++;
		if (node->chain && node->chain->round == msg.round_abort_request.round)
			chain_drop(node->chain);
		break;
	case KR_MSG_STABLE:
		node->stable = KR_MAX(node->stable, msg.stable_request.round);
		break;
	case KR_MSG_UNSTABLE:
		node->unstable++;
		break;
	case KR_MSG_UPSTREAM:
		node->upstreams++;
		node->upstream = msg.upstream_request.upstream;
		break;
	default:
		fail_msg("unexpected request %s", kr_msg_name(frame->header.type));
	}
	kr_conn_reply(conn, frame->header.type, frame->header.id, 0, 0, reply, NULL, 0);
	kr_arena_fini(&arena);
}

static void control_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct node *node = kr_conn_context(conn);

	(void)err;
	(void)reason;
	if (node) {
		node->control = NULL;
		node->live = false;
	}
}
static const struct kr_conn_handler control_handler = { .on_frame = control_frame, .on_closed = control_closed };

/* An answer that counts only if the node has not died meanwhile. */
struct call {
	struct node *node;
	uint64_t epoch;
	void (*fn)(struct node *node, int err, const void *reply);
};

static void call_answered(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct call *call = context;

	(void)data;
	(void)more;
	if (call->epoch == call->node->epoch)
		call->fn(call->node, err, reply);
	free(call);
}

static void node_ask(struct node *node, uint16_t type, const void *msg, const struct kr_slice *slices, size_t count,
	void (*fn)(struct node *node, int err, const void *reply))
{
	struct call *call = kr_xcalloc(1, sizeof *call);

	*call = (struct call){ .node = node, .epoch = node->epoch, .fn = fn };
	assert_true(kr_conn_request(node->control, type, msg, slices, count, call_answered, call) > 0);
}

static void reclaimed(struct node *node, int err, const void *reply)
{
	(void)reply;
	assert_int_equal(err, 0);
	node->live = true;
}

static void welcomed(struct node *node, int err, const void *reply_pointer)
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

static void node_begin(struct node *node)
{
	struct kr_hello_request hello = { .proto_min = KR_PROTO_VERSION, .proto_max = KR_PROTO_VERSION, .node_name = node->name, .ring_address = "127.0.0.1",
		.ring_port = node->ring_port, .subdir = "" };
	struct sockaddr_in address;

	memcpy(hello.node_id, node->node_id, 16);
	assert_int_equal(uv_ip4_addr("127.0.0.1", kr_listen_port(&F.server), &address), 0);
	assert_int_equal(kr_conn_connect(&F.loop, (struct sockaddr *)&address, &control_handler, node, &node->control), 0);
	node_ask(node, KR_MSG_HELLO, &hello, NULL, 0, welcomed);
}

/* Everything of it ends at once, as with kill -9. */
static void node_die(struct node *node)
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

static struct node *node_new(const char *name)
{
	struct node *node = &F.nodes[F.node_count++];
	struct sockaddr_in address;
	struct sockaddr_storage bound;
	int size = sizeof bound;

	memset(node, 0, sizeof *node);
	snprintf(node->name, sizeof node->name, "%s", name);
	memcpy(node->node_id, node->name, 16);
	node->mtime = (struct kr_time){ .sec = 1000000000, .nsec = 5 };
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

static struct node *node_start(const char *name)
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

static void note_answer(struct node *node, int err, const void *reply)
{
	(void)node;
	the_answer.done = true;
	the_answer.err = err;
	if (reply)
		memcpy(&the_answer.reply, reply, sizeof the_answer.reply);
}

/* Asks and waits; the reply is in the_answer.reply, without what it borrows. */
static int node_call(struct node *node, uint16_t type, const void *msg)
{
	the_answer.done = false;
	node_ask(node, type, msg, NULL, 0, note_answer);
	wait_until(the_answer.done);
	return the_answer.err;
}

static struct kr_fid create_file(struct node *node, const char *name)
{
	struct kr_create_request msg = { .parent = node->root, .name = name, .mode = S_IFREG | 0644, .flags = 2 };

	assert_int_equal(node_call(node, KR_MSG_CREATE, &msg), 0);
	return the_answer.reply.create_reply.file;
}

/* --- flushes -------------------------------------------------------------------------------------------------------- */

static void flush_answered(struct node *node, int err, const void *reply)
{
	chain_drop(node->chain); /* all of it has been taken */
	node->flushing = false;
	node->wants_flush = false;
	node->flushed = true;
	node->flush_err = err;
	if (err == 0)
		node->flush_reply = *(const struct kr_flush_reply *)reply;
}

static struct kr_buf *gather(const struct node *node)
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
static void node_hold(const struct node *node, const struct kr_fid *fid)
{
	struct kr_session *session = kr_session_find(&F.server, node->session);
	struct kr_sfile *file = kr_sfile_get(&F.server, fid);

	if (session && kr_leases_try(file, session, KR_LEASE_WRITE))
		kr_leases_announced(file, session);
	kr_sfile_put(file);
}

/* Sends FLUSH; node->flushed when it is answered. */
static void node_flush(struct node *node)
{
	struct kr_flush_request msg = { .file = node->file, .seq = node->generation, .flags = node->inlined, .mtime = node->mtime };

	node_hold(node, &node->file);
	node->flushing = node->wants_flush = true;
	node->flushed = false;
	if (node->inlined) {
		struct kr_buf *buf = gather(node);
		struct kr_slice slice = { .buf = buf, .length = buf->length };

		msg.checksum = kr_checksum(buf->data, buf->length);
		msg.extents = (struct kr_ranges){ node->extents, (uint32_t)node->extent_count };
		node_ask(node, KR_MSG_FLUSH, &msg, &slice, 1, flush_answered);
		kr_buf_put(buf);
	} else {
		node_ask(node, KR_MSG_FLUSH, &msg, NULL, 0, flush_answered);
	}
}

static bool all_flushed(void)
{
	for (size_t i = 0; i < F.node_count; i++) {
		if (F.nodes[i].wants_flush)
			return false;
	}
	return true;
}

/* The file's bytes as they are on the server. */
static uint8_t *server_bytes(const char *name, size_t *ret_length)
{
	char path[160];
	char *text;
	int err;

	snprintf(path, sizeof path, "%s/%s", F.export_path, name);
	err = kr_read_file(AT_FDCWD, path, 1 << 27, &text, ret_length);
	assert_int_equal(err, 0);
	return (uint8_t *)text;
}

/* --- server --------------------------------------------------------------------------------------------------------- */

static void server_start(void)
{
	F.listen[0] = (char *)(uintptr_t)"127.0.0.1:0";
	F.options = (struct kr_server_options){ .listen = { F.listen, 1 }, .state = F.state_path, .lease = 600000,
		.export_path = F.export_path };
	if (kr_server_init(&F.server, &F.loop, &F.options) < 0 || kr_server_listen(&F.server) < 0)
		fail_msg("the server does not start: %s", kr_fail_reason());
}

static void server_stop(void)
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

static int setup(void **state)
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

static int teardown(void **state)
{
	char command[128];

	(void)state;
	server_stop();
	uv_close((uv_handle_t *)&F.heartbeat, NULL);
	uv_run(&F.loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&F.loop), 0);
	snprintf(command, sizeof command, "rm -rf '%s'", F.base);
	return system(command) == 0 ? 0 : -1;
}

#endif

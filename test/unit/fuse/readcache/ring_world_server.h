/* The world of ring_world.h, and its server; the control connection, the files and the journal are stubs. */
#ifndef KR_TEST_RING_WORLD_SERVER_H
#define KR_TEST_RING_WORLD_SERVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/util.h"
#include "fuse/readcache/cache.h"
#include "fuse/readcache/cache_format.h"
#include "fuse/readcache/hops_priv.h"
#include "fuse/journal/journal.h"
#include "fuse/base/options.h"
#include "fuse/session/rpc.h"
#include "fuse/readcache/stage_priv.h"
#include "ring/pipeline.h"
#include "test/unit/directory.h"

enum { NODES = 6, LANES = 4, BLOCK = KR_BLOCK_SIZE, DEADLINE_S = 60, READ_SIZE = 300 * 1000 };

struct node {
	struct kr_mount mount;
	struct kr_stage *stage;
	uint32_t number;
	char name[8], path[64];
	uint8_t ring_key[KR_RING_KEY];
	uint16_t port;
	bool up, done, stale;
	uint64_t position;       /* of the sequential reader */
	uint64_t reads, changed; /* changed: calls of the hook */
	int error;               /* what a read failed with */
	int patching;            /* whether the file is kept for patches */
	uint8_t *buffer;
};

struct call {
	struct kr_link link;
	struct node *node;
	uint16_t type;
	uint32_t failed;
	uint8_t complaint; /* of REPARENT */
	kr_rpc_fn callback;
	void *context;
};

static struct world {
	uv_loop_t loop;
	uv_timer_t timer;
	uv_tcp_t listener;
	uint16_t port;
	struct kr_pipeline pipeline;
	struct node nodes[NODES + 1];
	struct kr_list calls, tasks, conns;
	kr_down_fn on_upstream;
	uint64_t size, version;
	uint64_t bad_block; /* the server can't read it; UINT64_MAX: none */
	uint64_t corrupt;   /* so many blocks are sent damaged */
	bool stale, silent; /* the server says that the version is gone; answers no PULL */
	bool no_other;      /* who finds its upstream slow gets no other: a slow machine makes all so */
	int unanswered;
	int disturbances;
	uint32_t lanes;        /* the most connections to one upstream */
	uint64_t blocks_sent;  /* by the server */
	uint64_t journal_used; /* of 100 */
	unsigned random;
	uint8_t *content; /* the file's bytes */
} * world;

struct served {
	struct kr_link link;
	struct kr_conn *conn;
	struct kr_pair pair;
};

static inline void make_content(void)
{
	world->content = malloc(world->size);
	for (uint64_t i = 0; i < world->size; i++)
		world->content[i] = (uint8_t)((i * 13) ^ (i >> 9) ^ (i / BLOCK * 77));
}

/* --- stubs ------------------------------------------------------------------------------------ */

static inline struct node *node_of(struct kr_rpc *rpc)
{
	return (struct node *)(void *)rpc;
}

uint64_t kr_rpc_call(struct kr_rpc *rpc, uint16_t type, const void *msg, const struct kr_slice *slices, size_t count,
	unsigned flags, kr_rpc_fn callback, void *context)
{
	struct call *call = calloc(1, sizeof(*call));

	(void)slices, (void)count, (void)flags;
	*call = (struct call){.node = node_of(rpc), .type = type, .callback = callback, .context = context};
	if (type == KR_MSG_REPARENT) {
		call->failed = ((const struct kr_reparent_request *)msg)->node;
		call->complaint = ((const struct kr_reparent_request *)msg)->complaint;
	}
	kr_list_append(&world->calls, &call->link);
	return 1;
}
void kr_rpc_on(struct kr_rpc *rpc, uint16_t type, kr_down_fn handler)
{
	(void)rpc, (void)type;
	world->on_upstream = handler;
}
void kr_rpc_answer(struct kr_rpc *rpc, const struct kr_down *down, int err, const void *msg)
{
	(void)rpc, (void)down, (void)err, (void)msg;
}
bool kr_rpc_connected(const struct kr_rpc *rpc)
{
	(void)rpc;
	return true;
}
const struct sockaddr *kr_rpc_address(const struct kr_rpc *rpc)
{
	static struct sockaddr_in address;

	(void)rpc;
	uv_ip4_addr("127.0.0.1", world->port, &address);
	return (const struct sockaddr *)&address;
}
static void on_changed(struct kr_file *file)
{
	((struct node *)(void *)file)->changed++;
}
static void on_outdated(struct kr_file *file)
{
	((struct node *)(void *)file)->stale = true;
}
static inline void on_patching(struct kr_file *file, bool begins)
{
	((struct node *)(void *)file)->patching += begins ? 1 : -1;
}

static const struct kr_stage_hooks stage_hooks = {
	.changed = on_changed, .outdated = on_outdated, .patching = on_patching};
void kr_loop_post(struct kr_loop *loop, struct kr_task *task)
{
	(void)loop;
	if (!task->queued)
		kr_list_append(&world->tasks, &task->link);
	task->queued = true;
}
void kr_loop_forget(struct kr_loop *loop, struct kr_task *task)
{
	(void)loop;
	kr_list_remove(&task->link);
	task->queued = false;
}
void kr_journal_pin(struct kr_journal *journal, const struct kr_extent *piece)
{
	(void)journal, (void)piece;
}
void kr_journal_unpin(struct kr_journal *journal, const struct kr_extent *piece)
{
	(void)journal, (void)piece;
}
int kr_journal_read(struct kr_journal *journal, uint64_t position, void *buffer, size_t length)
{
	(void)journal;
	memcpy(buffer, world->content + position, length);
	return 0;
}

void kr_journal_usage(struct kr_journal *journal, struct kr_journal_usage *ret_usage)
{
	(void)journal;
	*ret_usage = (struct kr_journal_usage){.used = world->journal_used, .max = 100};
}

/* The way of CALLER to node NUMBER. */
static inline struct kr_hop_address address_of(uint32_t caller, uint32_t number)
{
	struct kr_hop_address to = {
		.node = number, .address = "192.0.2.1", .session = 1}; /* the server's is not used */

	if (number != 0) {
		to.address = "127.0.0.1";
		to.port = world->nodes[number].port;
		to.session = number;
	}
	kr_pair_secret(world->nodes[number].ring_key, caller, caller, to.ticket);
	kr_pair_mask(world->nodes[caller].ring_key, to.session, number, to.ticket);
	return to;
}

/* CONTEXT: the number of the node that is the last; NULL: none. */
static inline void tell_upstream(void *context, uint32_t number, uint32_t upstream)
{
	struct kr_upstream_request request = {.file = {.length = 1},
		.last = context ? *(uint32_t *)context : 0,
		.upstream = address_of(number, upstream)};

	if (world->nodes[number].up)
		world->on_upstream(&world->nodes[number].mount, NULL, &request, NULL);
}

static inline uint32_t answer_reparent(const struct call *call)
{
	uint32_t number = call->node->number, other = call->failed, upstream = 0;

	if (call->complaint == KR_COMPLAINT_FAILED) {
		kr_pipeline_reparent(&world->pipeline, number, other, &upstream);
		return upstream;
	}
	upstream = kr_pipeline_upstream(&world->pipeline, number);
	if (world->no_other)
		return upstream;
	if (call->complaint == KR_COMPLAINT_SLOW)
		kr_pipeline_put_last(&world->pipeline, number, other, tell_upstream, &other, &upstream);
	else
		kr_pipeline_beside(&world->pipeline, number, other, &upstream);
	return upstream;
}

static inline void answer_call(struct call *call)
{
	struct kr_join_reply reply;
	uint32_t upstream = 0;

	if (!call->node->up) {
		call->callback(call->context, -ECANCELED, NULL, NULL);
		return;
	}
	if (call->type == KR_MSG_JOIN)
		assert_int_equal(kr_pipeline_join(&world->pipeline, call->node->number, call->node->name, tell_upstream,
					 NULL, &upstream),
			0);
	else
		upstream = answer_reparent(call);
	reply.upstream = address_of(call->node->number, upstream);
	call->callback(call->context, 0, &reply, NULL);
}

static inline void feed(struct kr_conn *conn, uint64_t id, uint64_t block)
{
	uint32_t length = kr_cache_block_length(world->size, block);
	struct kr_buf *buf = kr_buf_new(BLOCK);
	struct kr_pull_reply reply = {.block = block};
	struct kr_slice slice = {buf, 0, length};

	assert_true(length > 0);
	buf->length = length;
	memcpy(buf->data, world->content + block * BLOCK, length);
	reply.checksum = kr_checksum(buf->data, length);
	if (world->corrupt > 0 && world->corrupt-- > 0)
		buf->data[length / 2] ^= 1;
	kr_conn_reply(conn, KR_MSG_PULL, id, KR_FRAME_MORE, 0, &reply, &slice, 1);
	kr_buf_put(buf);
	world->blocks_sent++;
}

static inline void serve_pull(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct kr_arena arena = {0};
	struct kr_pull_request request;
	int err = 0;

	if (world->silent) {
		world->unanswered++;
		return;
	}
	assert_int_equal(
		kr_msg_decode(KR_MSG_PULL, false, frame->fields, frame->header.fields_length, &request, &arena), 0);
	if (world->stale || (request.version != world->version && request.version != 0))
		err = -ESTALE;
	for (uint32_t i = 0; i < request.blocks.count && err == 0; i++) {
		for (uint64_t n = 0; n < request.blocks.ranges[i].length && err == 0; n++) {
			uint64_t block = request.blocks.ranges[i].offset + n;

			if (block == world->bad_block)
				err = -EIO;
			else
				feed(conn, frame->header.id, block);
		}
	}
	kr_conn_reply(conn, KR_MSG_PULL, frame->header.id, 0, err, err ? NULL : &(struct kr_pull_reply){0}, NULL, 0);
	kr_arena_fini(&arena);
}

/* A message of the handshake, by the server. */
static inline void shake_hands(struct served *served, const struct kr_frame *frame)
{
	struct kr_conn *conn = served->conn;
	struct kr_arena arena = {0};
	struct kr_hop_hello_reply reply;
	struct kr_seal_keys keys;
	struct kr_fresh fresh;
	union kr_any_msg msg;

	assert_int_equal(
		kr_msg_decode(frame->header.type, false, frame->fields, frame->header.fields_length, &msg, &arena), 0);
	kr_arena_fini(&arena);
	if (frame->header.type == KR_MSG_HOP_HELLO) {
		kr_fresh_make(&fresh);
		assert_int_equal(kr_pair_challenge(&served->pair, &msg.hop_hello_request, world->nodes[0].ring_key,
					 KR_SECURITY_AUTH, &fresh, &reply),
			0);
		kr_conn_reply(conn, KR_MSG_HOP_HELLO, frame->header.id, 0, 0, &reply, NULL, 0);
		return;
	}
	assert_int_equal(kr_pair_verify(&served->pair, &msg.hop_prove_request, &keys), 0);
	kr_conn_seal(conn, &keys);
	kr_conn_reply(conn, KR_MSG_HOP_PROVE, frame->header.id, 0, 0, NULL, NULL, 0);
}

static inline void on_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	if (frame->header.type == KR_MSG_HOP_HELLO || frame->header.type == KR_MSG_HOP_PROVE)
		shake_hands(kr_conn_context(conn), frame);
	else
		serve_pull(conn, frame);
}

static inline void on_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct served *served = kr_conn_context(conn);

	(void)err, (void)reason;
	kr_list_remove(&served->link);
	free(served);
}

static const struct kr_conn_handler server_handler = {.on_frame = on_frame, .on_closed = on_closed};

static inline void on_connection(uv_stream_t *listener, int status)
{
	struct served *served = calloc(1, sizeof(*served));

	assert_int_equal(status, 0);
	assert_int_equal(kr_conn_accept(listener, &server_handler, served, &served->conn), 0);
	kr_list_append(&world->conns, &served->link);
}

static inline void break_server_connections(void)
{
	struct served *served, *after;

	KR_LIST_FOR_EACH_SAFE(served, after, &world->conns, link)
		kr_conn_close(served->conn, false);
}

#endif

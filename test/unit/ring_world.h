/* For tests: a server and several nodes in one process.  Stages, caches and ring connections are real (TCP over
 * loopback); the control connection, the files and the journal are stubs.  Every byte that a node reads is compared
 * with the file's.  Included by one test program each.
 */
#ifndef KR_TEST_RING_WORLD_H
#define KR_TEST_RING_WORLD_H

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

#include "common/util.h"
#include "fuse/cache.h"
#include "fuse/cache_format.h"
#include "fuse/file.h"
#include "fuse/hops_priv.h"
#include "fuse/journal.h"
#include "fuse/rpc.h"
#include "fuse/stage_priv.h"
#include "ring/pipeline.h"
#include "test/unit/directory.h"

enum { NODES = 6, BLOCK = KR_BLOCK_SIZE, DEADLINE_S = 60, READ_SIZE = 300 * 1000 };

struct node {
	struct kr_mount mount;
	struct kr_file file;
	uint32_t number;
	char name[8], path[64];
	uint8_t ring_key[KR_RING_KEY];
	uint16_t port;
	bool up, done;
	uint64_t position;  /* of the sequential reader */
	uint64_t reads;
	int error;          /* what a read failed with */
	uint8_t *buffer;
};

struct call {
	struct kr_link link;
	struct node *node;
	uint16_t type;
	uint32_t failed;
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
	uint64_t bad_block;   /* the server can't read it; UINT64_MAX: none */
	uint64_t corrupt;     /* so many blocks are sent damaged */
	bool stale, silent;   /* the server says that the version is gone; answers no PULL */
	int unanswered;
	int disturbances;
	uint64_t blocks_sent; /* by the server */
	unsigned random;
	uint8_t *content;     /* the file's bytes */
} *world;

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

/* --- stubs -------------------------------------------------------------------------------------------------------- */

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
	if (type == KR_MSG_REPARENT)
		call->failed = ((const struct kr_reparent_request *)msg)->node;
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
struct kr_file *kr_file_find(struct kr_mount *mount, const struct kr_fid *fid)
{
	(void)fid;
	return &KR_CONTAINER_OF(mount, struct node, mount)->file;
}
void kr_file_put(struct kr_file *file)
{
	(void)file;
}
void kr_file_step(struct kr_file *file)
{
	(void)file;
}
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
void kr_journal_hold(struct kr_journal *journal, const struct kr_extent *piece)
{
	(void)journal, (void)piece;
}
void kr_journal_release(void *journal, const struct kr_extent *piece)
{
	(void)journal, (void)piece;
}
int kr_journal_read(struct kr_journal *journal, uint64_t position, void *buffer, size_t length)
{
	(void)journal;
	memcpy(buffer, world->content + position, length);
	return 0;
}

/* --- the server --------------------------------------------------------------------------------------------------- */

/* The way of CALLER to node NUMBER. */
static inline struct kr_hop_address address_of(uint32_t caller, uint32_t number)
{
	struct kr_hop_address to = {.node = number, .address = "192.0.2.1", .session = 1}; /* the server's is not used */

	if (number != 0) {
		to.address = "127.0.0.1";
		to.port = world->nodes[number].port;
		to.session = number;
	}
	kr_pair_secret(world->nodes[number].ring_key, caller, caller, to.ticket);
	kr_pair_mask(world->nodes[caller].ring_key, to.session, number, to.ticket);
	return to;
}

static inline void tell_upstream(void *context, uint32_t number, uint32_t upstream)
{
	struct kr_upstream_request request = {.upstream = address_of(number, upstream)};

	(void)context;
	if (world->nodes[number].up)
		world->on_upstream(&world->nodes[number].mount, NULL, &request, NULL);
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
		assert_int_equal(kr_pipeline_join(&world->pipeline, call->node->number, call->node->name,
			tell_upstream, NULL, &upstream), 0);
	else
		kr_pipeline_reparent(&world->pipeline, call->node->number, call->failed, &upstream);
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
	assert_int_equal(kr_msg_decode(KR_MSG_PULL, false, frame->fields, frame->header.fields_length, &request,
		&arena), 0);
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

	assert_int_equal(kr_msg_decode(frame->header.type, false, frame->fields, frame->header.fields_length, &msg, &arena), 0);
	kr_arena_fini(&arena);
	if (frame->header.type == KR_MSG_HOP_HELLO) {
		kr_fresh_make(&fresh);
		assert_int_equal(kr_pair_challenge(&served->pair, &msg.hop_hello_request, world->nodes[0].ring_key, KR_SECURITY_AUTH,
			&fresh, &reply), 0);
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

/* --- nodes -------------------------------------------------------------------------------------------------------- */

static inline void start_node(uint32_t number, uint64_t cache_max)
{
	static const uint8_t export_id[16] = "export";
	struct node *node = &world->nodes[number];
	int fd;

	node->number = number;
	node->file.mount = &node->mount;
	pthread_mutex_init(&node->file.lock, NULL);
	snprintf(node->name, sizeof(node->name), "n%u", number);
	memset(node->ring_key, (int)number, sizeof(node->ring_key));
	if (!node->path[0]) {
		strcpy(node->path, "/tmp/kairan-stage-XXXXXX");
		assert_non_null(mkdtemp(node->path));
	}
	fd = open(node->path, O_RDONLY | O_DIRECTORY);
	node->mount.loop = &world->loop;
	node->mount.rpc = (struct kr_rpc *)(void *)node;
	atomic_store(&node->mount.fence_at_ns, UINT64_MAX);
	assert_int_equal(kr_cache_new(fd, export_id, cache_max, &node->mount.cache), 0);
	close(fd);
	assert_int_equal(kr_hops_new(&node->mount, &node->mount.hops), 0);
	assert_int_equal(kr_hops_listen(node->mount.hops, "127.0.0.1", &node->port), 0);
	kr_hops_identify(node->mount.hops, number, number, node->ring_key, KR_SECURITY_INTEGRITY, 60000);
	assert_int_equal(kr_stages_init(&node->mount), 0);
	node->file.stage = kr_stage_new(&node->mount, &node->file, &(struct kr_fid){.length = 1});
	node->buffer = malloc(READ_SIZE);
	node->up = true;
	kr_stage_set(node->file.stage, world->version, world->size);
}

/* One turn of the loop and of what the stubs have queued. */
static inline void turn(void)
{
	struct kr_link *link;

	uv_run(&world->loop, UV_RUN_ONCE);
	while ((link = kr_list_pop(&world->tasks))) {
		struct kr_task *task = KR_LIST_ENTRY(link, struct kr_task, link);

		task->queued = false;
		task->fn(task);
	}
	while ((link = kr_list_pop(&world->calls))) {
		struct call *call = KR_LIST_ENTRY(link, struct call, link);

		answer_call(call);
		free(call);
	}
}

static inline void stop_node(uint32_t number)
{
	struct node *node = &world->nodes[number];

	if (!node->up)
		return;
	node->up = false;
	kr_pipeline_leave(&world->pipeline, number, tell_upstream, NULL);
	kr_hops_close(node->mount.hops);
	while (!kr_hops_closed(node->mount.hops))
		turn();
	kr_stage_free(node->file.stage);
	kr_hops_free(node->mount.hops);
	kr_cache_free(node->mount.cache);
	pthread_mutex_destroy(&node->file.lock);
	free(node->buffer);
	node->file.stage = NULL;
}

/* Reads if the bytes are here, else wants them. 1: read; 0: not yet; else an error. */
static inline int try_read(struct node *node, uint64_t offset, size_t length)
{
	struct kr_stage *stage = node->file.stage;
	int err = kr_stage_pread(stage, world->version, offset, node->buffer, length);

	kr_stage_hint(stage, offset, length);
	if (err == 0) {
		assert_memory_equal(node->buffer, world->content + offset, length);
		node->reads++;
		return 1;
	}
	if (err != -ENODATA)
		return err;
	assert_true(kr_stage_want(stage, offset, length) >= 0);
	return 0;
}

/* Goes on reading in sequence, AT_MOST so many times. */
static inline void read_on(struct node *node, int at_most)
{
	while (node->up && !node->done && at_most-- > 0) {
		size_t length = (size_t)KR_MIN((uint64_t)READ_SIZE, world->size - node->position);
		int got = try_read(node, node->position, length);

		if (got == 0)
			return;
		if (got < 0)
			node->error = got;
		else
			node->position += length;
		node->done = got < 0 || node->position == world->size;
	}
}

/* Until every node has read the whole file; EVENT may disturb. */
static inline void read_all(void (*event)(uint64_t turns))
{
	uint64_t until_ns = kr_clock_ns() + DEADLINE_S * KR_NS_PER_S, turns = 0;
	bool busy = true;

	while (busy) {
		busy = false;
		turn();
		for (uint32_t i = 1; i <= NODES; i++) {
			read_on(&world->nodes[i], event ? 1 : 1000);
			busy = busy || (world->nodes[i].up && !world->nodes[i].done);
		}
		if (event)
			event(turns++);
		assert_true(kr_clock_ns() < until_ns);
	}
}

static inline void on_timer(uv_timer_t *timer)
{
	(void)timer; /* only to turn */
}

static inline int setup(void **state)
{
	struct sockaddr_in address;
	int size = sizeof(address);

	(void)state;
	world = calloc(1, sizeof(*world));
	world->size = 20 * 1024 * 1024 + 777;
	world->version = 1;
	make_content();
	world->bad_block = UINT64_MAX;
	world->random = 4;
	kr_list_init(&world->calls);
	kr_list_init(&world->tasks);
	kr_list_init(&world->conns);
	kr_pipeline_init(&world->pipeline);
	uv_loop_init(&world->loop);
	uv_timer_init(&world->loop, &world->timer);
	uv_timer_start(&world->timer, on_timer, 1, 1);
	uv_tcp_init(&world->loop, &world->listener);
	uv_ip4_addr("127.0.0.1", 0, &address);
	uv_tcp_bind(&world->listener, (struct sockaddr *)&address, 0);
	uv_listen((uv_stream_t *)&world->listener, 64, on_connection);
	uv_tcp_getsockname(&world->listener, (struct sockaddr *)&address, &size);
	world->port = ntohs(address.sin_port);
	return 0;
}

static inline int teardown(void **state)
{
	(void)state;
	for (uint32_t i = 1; i <= NODES; i++) {
		stop_node(i);
		if (world->nodes[i].path[0])
			directory_remove(world->nodes[i].path);
	}
	break_server_connections();
	uv_close((uv_handle_t *)&world->listener, NULL);
	uv_close((uv_handle_t *)&world->timer, NULL);
	uv_run(&world->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&world->loop), 0);
	kr_pipeline_fini(&world->pipeline);
	free(world->content);
	free(world);
	assert_int_equal(kr_buf_bytes_in_use(), 0);
	return 0;
}

static inline void start_all(uint64_t cache_max)
{
	for (uint32_t i = 1; i <= NODES; i++)
		start_node(i, cache_max);
}

static inline uint64_t file_blocks(void)
{
	return kr_cache_block_count(world->size);
}

#define LARGE (UINT64_C(1) << 30)
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif

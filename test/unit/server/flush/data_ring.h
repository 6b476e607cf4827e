/* The ring half of a simulated node (data_fixture.h): its part in chains, with ring/merge.h as a real node plays it,
 * and the ring connections that come in.
 */
#ifndef KR_TEST_UNIT_DATA_RING_H
#define KR_TEST_UNIT_DATA_RING_H

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

#include "common/rpc/conn.h"
#include "common/base/fail.h"
#include "common/base/list.h"
#include "common/base/log.h"
#include "common/auth/pair_conn.h"
#include "ring/merge.h"
#include "server/flush/data.h"
#include "server/leases/file_table.h"
#include "server/leases/leases.h"
#include "server/session/listen.h"
#include "server/base/options.h"
#include "server/daemon/life.h"
#include "server/session/session.h"
#include "server/flush/flush.h"
#include "server/leases/invalidation.h"
#include "server/pipelines/staging.h"
#include "server/recovery/recovery.h"

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
	const char *ring; /* NULL: the one without a name */
	uint8_t ring_key[KR_RING_KEY];
	struct kr_list inbounds;
	struct chain *chain;
	bool live, dying, manual_reclaim;
	uint32_t hello_flags; /* KR_HELLO_* */

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
	uint64_t unstable_id, lost; /* of the latest UNSTABLE: to be answered; the last round that it names */
	uint64_t stable_id;         /* of the latest STABLE */
	bool keeps_stable;          /* it does not answer that */
	bool resend, bare;          /* FLUSHes have RESEND; it has not asked for WRITE */
	bool dirty, deaf;           /* what it answers to QUERY; it does not, nor to UNSTABLE */
	unsigned queries;
	int round_err;     /* what it answers to ROUND, when it does not take part; > 0: nothing yet ... */
	uint64_t round_id; /* ... to this one */
	unsigned aborts, upstreams, recalls;
	uint32_t last; /* named by UPSTREAM */
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
	/* Of a test that looks at what the server asks of nodes; true: it answers the request ID itself, if that is to
	 * be answered. NULL: none. */
	bool (*on_request)(struct node *node, uint16_t type, uint64_t id, const union kr_any_msg *msg);
};
static struct fixture F;

/* --- content ---------------------------------------------------------------------------------- */

static inline uint8_t content(uint64_t offset, unsigned generation)
{
	uint64_t x = (offset / 8 + 1) * UINT64_C(0x9e3779b97f4a7c15) + generation * UINT64_C(0xbf58476d1ce4e5b9);

	x ^= x >> 29;
	return (uint8_t)(x >> (offset % 8 * 8));
}

static inline void fill(uint8_t *bytes, uint64_t offset, size_t length, unsigned generation)
{
	for (size_t i = 0; i < length; i++)
		bytes[i] = content(offset + i, generation);
}

/* --- chains ----------------------------------------------------------------------------------- */

static inline void chain_drop(struct chain *chain)
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

static inline void push_own(struct chain *chain)
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

static inline void send_piece(struct chain *chain, const struct kr_piece *piece)
{
	struct kr_extent_request msg = {.stream = chain->stream,
		.offset = piece->offset,
		.checksum = kr_checksum(piece->buf->data + piece->start, piece->length)};
	struct kr_slice slice = {.buf = piece->buf, .offset = piece->start, .length = piece->length};

	kr_conn_oneway(chain->down, KR_MSG_EXTENT, &msg, &slice, 1);
	chain->extents++;
	chain->bytes += piece->length;
}

static inline void relieve_upstream(struct chain *chain)
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

static inline void chain_pump(struct chain *chain)
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
			struct kr_stream_end_request end = {
				.stream = chain->stream, .extents = chain->extents, .bytes = chain->bytes};

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

static inline void down_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	(void)conn;
	(void)frame;
}

static inline void down_drain(struct kr_conn *conn)
{
	struct chain *chain = kr_conn_context(conn);

	if (chain)
		chain_pump(chain);
}

static inline void down_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct chain *chain = kr_conn_context(conn);

	(void)err;
	(void)reason;
	if (chain) {
		chain->down = NULL;
		chain_drop(chain);
	}
}
static const struct kr_conn_handler down_handler = {
	.on_frame = down_frame, .on_drain = down_drain, .on_closed = down_closed};

static inline struct kr_pair_caller as_caller(const struct node *node)
{
	struct kr_pair_caller self = {.node = node->number, .session = node->session};

	memcpy(self.ring_key, node->ring_key, KR_RING_KEY);
	return self;
}

static inline void ignore_reply(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	(void)context;
	(void)err;
	(void)reply;
	(void)data;
	(void)more;
}

static inline void dial(const struct kr_hop_address *hop, const struct node *node,
	const struct kr_conn_handler *handler, void *context, struct kr_conn **ret_conn)
{
	struct kr_pair_caller self = as_caller(node);
	struct sockaddr_in address;

	assert_int_equal(uv_ip4_addr(hop->address, hop->port, &address), 0);
	assert_int_equal(kr_conn_connect(&F.loop, (struct sockaddr *)&address, handler, context, ret_conn), 0);
	kr_pair_open(*ret_conn, hop, &self, NULL, NULL);
}

/* A stream that came before or after its ROUND meets it. */
static inline void join_stream(struct chain *chain, struct inbound *inbound)
{
	inbound->chain = chain;
	chain->up = inbound;
	if (inbound->waits) {
		inbound->waits = false;
		kr_conn_resume(inbound->conn);
	}
}

static inline void chain_begin(struct node *node, const struct kr_round_request *round)
{
	struct chain *chain = kr_xcalloc(1, sizeof *chain);
	struct kr_stream_request stream = {.file = round->file, .round = round->round};
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

/* --- ring connections that come in ------------------------------------------------------------ */

static inline void inbound_stream(
	struct inbound *inbound, const struct kr_frame *frame, const struct kr_stream_request *msg)
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

static inline void inbound_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	struct inbound *inbound = kr_conn_context(conn);
	struct chain *chain = inbound->chain;
	struct kr_hop_hello_reply hello;
	struct kr_seal_keys keys;
	struct kr_fresh fresh;
	struct kr_arena arena = {0};
	union kr_any_msg msg;

	assert_int_equal(
		kr_msg_decode(frame->header.type, false, frame->fields, frame->header.fields_length, &msg, &arena), 0);
	switch (frame->header.type) {
	case KR_MSG_HOP_HELLO:
		kr_fresh_make(&fresh);
		assert_int_equal(kr_pair_challenge(&inbound->pair, &msg.hop_hello_request, inbound->node->ring_key,
					 KR_SECURITY_INTEGRITY, &fresh, &hello),
			0);
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
					 frame->data->length),
			0);
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

static inline void inbound_closed(struct kr_conn *conn, int err, const char *reason)
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
static const struct kr_conn_handler inbound_handler = {.on_frame = inbound_frame, .on_closed = inbound_closed};

static inline void on_connection(uv_stream_t *listener, int status)
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

#endif

/* Ring connections of nodes that do not play by the rules: tickets of others, blocks of files that are not theirs,
 * streams of rounds that they are not in, and streams that are no streams.
 */
#include "test/unit/server/session/hostile_fixture.h"

#include <fcntl.h>

#include "common/rpc/conn_priv.h"
#include "common/auth/pair_conn.h"
#include "server/flush/data_state.h"
#include "server/pipelines/block_server.h"
#include "server/flush/hop.h"
#include "server/flush/round.h"

/* --- ring connections ------------------------------------------------------------------------- */

struct call {
	int err;
	bool ended;
};

static void call_ended(void *context, int err)
{
	*(struct call *)context = (struct call){err, true};
}

static bool call_has_ended(void *context)
{
	return ((struct call *)context)->ended;
}

/* Opens a ring connection of who has the session of HELLO and RING_KEY, with the ticket of HOP. */
static int open_ring(struct node *lane, const struct kr_hello_reply *hello, const uint8_t ring_key[KR_RING_KEY],
	const struct kr_hop_address *hop)
{
	struct kr_pair_caller self = {.node = hello->node, .session = hello->session};
	struct kr_hop_address to = *hop;
	struct call call = {0};

	memcpy(self.ring_key, ring_key, sizeof(self.ring_key));
	to.address = "127.0.0.1"; /* its own borrowed */
	node_connect(lane);
	kr_pair_open(lane->conn, &to, &self, call_ended, &call);
	assert_true(node_wait_for(lane->loop, call_has_ended, &call));
	if (call.err)
		node_disconnect(lane);
	return call.err;
}

static struct node *new_lane(struct fixture *f)
{
	return node_new(&f->loop, kr_listen_port(&f->server), 9);
}

/* The way to the server that JOIN names. */
static struct kr_hop_address way_to_server(struct node *node, const struct kr_fid *fid)
{
	const union kr_any_msg *reply;

	assert_int_equal(node_result(node, send_lease(node, fid, KR_LEASE_READ), NULL), 0);
	assert_int_equal(node_call(node, KR_MSG_JOIN, &(struct kr_join_request){.file = *fid}, &reply), 0);
	assert_int_equal(reply->join_reply.upstream.node, 0);
	return reply->join_reply.upstream;
}

static int pull(struct node *lane, const struct kr_fid *fid)
{
	const struct kr_range block = {0, 1};

	return node_call(lane, KR_MSG_PULL, &(struct kr_pull_request){.file = *fid, .blocks = {&block, 1}}, NULL);
}

static void a_ticket_is_good_for_its_session_only(void **state)
{
	struct fixture *f = with_a_user(state);
	const struct kr_hello_reply *honest = &f->nodes[HONEST]->hello, *hostile = &f->nodes[HOSTILE]->hello;
	struct kr_hop_address own = way_to_server(f->nodes[HOSTILE], &own_file), seen;
	struct node *lane = new_lane(f);

	node_result(f->nodes[HONEST], send_lease(f->nodes[HONEST], &secret_file, KR_LEASE_WRITE | KR_LEASE_READ), NULL);
	seen = way_to_server(f->nodes[HONEST], &secret_file);
	assert_true(open_ring(lane, honest, hostile->ring_key, &seen) < 0);
	assert_true(open_ring(lane, hostile, hostile->ring_key, &seen) < 0);
	assert_true(open_ring(lane, honest, hostile->ring_key, &own) < 0);
	assert_int_equal(open_ring(lane, hostile, hostile->ring_key, &own), 0);
	node_free(lane);
	undisturbed(f);
}

static void a_user_pulls_only_what_it_has_opened(void **state)
{
	struct fixture *f = with_a_user(state);
	struct kr_hop_address hop = way_to_server(f->nodes[HOSTILE], &own_file);
	struct kr_fid forged = own_file;
	struct node *lane = new_lane(f);

	assert_int_equal(open_ring(lane, &f->nodes[HOSTILE]->hello, f->nodes[HOSTILE]->hello.ring_key, &hop), 0);
	assert_int_equal(pull(lane, &own_file), -ESTALE); /* it is empty */
	assert_int_equal(pull(lane, &secret_file), -EACCES);
	forged.bytes[forged.length - 1] ^= 1;
	assert_int_equal(pull(lane, &forged), -EACCES);
	assert_int_equal(pull(lane, &f->nodes[HOSTILE]->hello.root), -EACCES);
	/* When its session ends the connection does. */
	kr_session_end(kr_session_find(&f->server, f->nodes[HOSTILE]->hello.session), KR_SESSION_LOST);
	assert_true(node_wait_for(&f->loop, node_is_closed, lane));
	node_free(lane);
	undisturbed(f);
}

/* What another session of the user has counts; but each may have some. */
static void the_connections_of_a_user_are_limited(void **state)
{
	struct fixture *f = with_a_user(state);
	struct kr_list *hops = &f->server.data->hops;
	struct kr_hop_address hop = way_to_server(f->nodes[HOSTILE], &own_file);
	const struct kr_hello_reply *hostile = &f->nodes[HOSTILE]->hello;
	struct kr_hop *others = calloc(KR_HOPS_PER_USER, sizeof(*others));
	struct node *lanes[KR_HOPS_ALWAYS + 1], *second = joined(f, 2);

	confine(f, second);
	for (int i = 0; i < KR_HOPS_PER_USER; i++) {
		others[i] = (struct kr_hop){
			.data = f->server.data, .node = second->hello.node, .session = second->hello.session};
		kr_list_append(hops, &others[i].link);
	}
	for (int i = 0; i <= KR_HOPS_ALWAYS; i++) {
		lanes[i] = new_lane(f);
		assert_int_equal(
			open_ring(lanes[i], hostile, hostile->ring_key, &hop), i < KR_HOPS_ALWAYS ? 0 : -EAGAIN);
	}
	kr_list_remove(&others[0].link);
	assert_int_equal(open_ring(lanes[KR_HOPS_ALWAYS], hostile, hostile->ring_key, &hop), -EAGAIN);
	for (int i = 1; i <= KR_HOPS_ALWAYS; i++)
		kr_list_remove(&others[i].link);
	assert_int_equal(open_ring(lanes[KR_HOPS_ALWAYS], hostile, hostile->ring_key, &hop), 0);
	for (int i = KR_HOPS_ALWAYS + 1; i < KR_HOPS_PER_USER; i++)
		kr_list_remove(&others[i].link);
	for (int i = 0; i <= KR_HOPS_ALWAYS; i++)
		node_free(lanes[i]);
	free(others);
	undisturbed(f);
}

/* --- streams ---------------------------------------------------------------------------------- */

static struct kr_slice bytes_of(const char *text)
{
	struct kr_slice slice = {.buf = kr_buf_new(strlen(text)), .length = strlen(text)};

	memcpy(slice.buf->data, text, slice.length);
	slice.buf->length = slice.length;
	return slice;
}

static void extent(struct node *lane, uint64_t stream, uint64_t offset, const char *text, uint64_t wrong)
{
	struct kr_slice slice = bytes_of(text);
	struct kr_extent_request msg = {
		.stream = stream, .offset = offset, .checksum = kr_checksum(slice.buf->data, slice.length) + wrong};

	kr_conn_oneway(lane->conn, KR_MSG_EXTENT, &msg, &slice, 1);
	kr_buf_put(slice.buf);
}

static void stream_end(struct node *lane, uint64_t stream, uint64_t extents, uint64_t bytes)
{
	struct kr_stream_end_request msg = {.stream = stream, .extents = extents, .bytes = bytes};

	kr_conn_oneway(lane->conn, KR_MSG_STREAM_END, &msg, NULL, 0);
}

static uint64_t begin_stream(struct node *lane, const struct kr_fid *fid, uint64_t round)
{
	return node_send(lane, KR_MSG_STREAM, &(struct kr_stream_request){.file = *fid, .round = round});
}

/* A whole stream that is right but for its round. */
static int whole_stream(struct node *lane, const struct kr_fid *fid, uint64_t round, const char *text)
{
	uint64_t stream = begin_stream(lane, fid, round);

	extent(lane, stream, 0, text, 0);
	stream_end(lane, stream, 1, strlen(text));
	return node_result(lane, stream, NULL);
}

static void assert_secret(struct fixture *f, const char *text)
{
	char path[100], bytes[100] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/secret", f->export_path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0 && read(fd, bytes, sizeof(bytes) - 1) >= 0);
	close(fd);
	assert_string_equal(bytes, text);
}

/* Both are nodes here: who holds a node key may be in rounds. */
static void who_is_not_in_a_round_has_no_part_in_it(void **state)
{
	struct fixture *f = *state;
	struct node *honest = f->nodes[HONEST], *hostile = f->nodes[HOSTILE], *lane = new_lane(f),
		    *true_lane = new_lane(f);
	struct kr_fid other = create_as(hostile, "other", 0, KR_LEASE_READ);
	struct kr_hop_address hop = way_to_server(hostile, &other);
	struct node_asked *asked;
	uint64_t flush, round;

	secret_file = create_as(honest, "secret", 0, KR_LEASE_WRITE);
	assert_int_equal(open_ring(lane, &hostile->hello, hostile->hello.ring_key, &hop), 0);
	flush = node_send(honest, KR_MSG_FLUSH, &(struct kr_flush_request){.file = secret_file, .seq = 1, .bytes = 5});
	asked = node_asked(honest, KR_MSG_ROUND);
	round = asked->msg.round_request.round;
	for (uint64_t guess = round - 2; guess <= round + 2; guess++) {
		assert_int_equal(whole_stream(lane, &secret_file, guess, "false"), -ESTALE);
		assert_int_equal(whole_stream(lane, &other, guess, "false"), -ESTALE);
	}
	assert_int_equal(
		open_ring(true_lane, &honest->hello, honest->hello.ring_key, &asked->msg.round_request.downstream), 0);
	node_reply(honest, asked, &(struct kr_round_reply){.seq = 1});
	begin_stream(true_lane, &secret_file, round);
	/* Streams belong to their connection: the other's number is nobody's here. */
	for (uint64_t stream = 0; stream < 20; stream++) {
		extent(lane, stream, 0, "false", 0);
		stream_end(lane, stream, 1, 5);
	}
	assert_true(pull(lane, &hostile->hello.root) < 0); /* it has all been looked at */
	assert_int_equal(whole_stream(true_lane, &secret_file, round, "again"), -ESTALE); /* nor twice the own */
	extent(true_lane, 1, 0, "truth", 0);
	stream_end(true_lane, 1, 1, 5);
	assert_int_equal(node_result(true_lane, 1, NULL), 0);
	assert_int_equal(node_result(honest, flush, NULL), 0);
	assert_secret(f, "truth");
	node_free(lane);
	node_free(true_lane);
}

enum { DESCENDS, BEHIND_THE_END, DAMAGED, ONE_MISSING, FEWER_BYTES, HANGS_UP, MALICES };

static void spoil(struct node *lane, int malice, uint64_t stream)
{
	if (malice == BEHIND_THE_END)
		extent(lane, stream, INT64_MAX - 2, "false", 0);
	else
		extent(lane, stream, 10, "false", malice == DAMAGED);
	if (malice == DESCENDS)
		extent(lane, stream, 14, "false", 0);
	if (malice == HANGS_UP)
		node_disconnect(lane);
	else
		stream_end(lane, stream, malice == ONE_MISSING ? 2 : 1, malice == FEWER_BYTES ? UINT64_MAX : 5);
}

/* Whose streams are broken each time is told so after some rounds; what it had asked before it counts. */
static void who_never_sends_a_whole_stream_fails_alone(void **state)
{
	struct fixture *f = with_a_user(state);
	struct node *hostile = f->nodes[HOSTILE], *lane = new_lane(f);
	uint64_t flush, attempts = 0;

	assert_int_equal(node_result(hostile, send_lease(hostile, &own_file, KR_LEASE_WRITE), NULL), 0);
	flush = node_send(hostile, KR_MSG_FLUSH, &(struct kr_flush_request){.file = own_file, .seq = 1, .bytes = 5});
	while (attempts < KR_ROUND_ATTEMPTS) {
		struct node_asked *asked = node_asked(hostile, KR_MSG_ROUND);

		if (!lane->conn)
			assert_int_equal(open_ring(lane, &hostile->hello, hostile->hello.ring_key,
						 &asked->msg.round_request.downstream),
				0);
		node_reply(hostile, asked, &(struct kr_round_reply){.seq = 1});
		spoil(lane, (int)(attempts++ % MALICES), begin_stream(lane, &own_file, asked->msg.round_request.round));
	}
	assert_int_equal(node_result(hostile, flush, NULL), -EIO);
	node_free(lane);
	undisturbed(f);
}

/* --- floods ----------------------------------------------------------------------------------- */

enum { FLOOD = 400000, FLOOD_AT_ONCE = 2000, UNSENT_MAX = 4 << 20 };

/* Of the one ring connection that there is. */
static struct kr_hop *server_hop(struct fixture *f)
{
	return KR_LIST_ENTRY(f->server.data->hops.head.next, struct kr_hop, link);
}

/* Its end at the server; NULL when it has been closed. */
static struct kr_conn *server_end(struct fixture *f)
{
	return kr_list_empty(&f->server.data->hops) ? NULL : server_hop(f)->conn;
}

static void nothing(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	(void)context, (void)err, (void)reply, (void)data, (void)more;
}

/* The kernel takes few frames of a paused connection, whose ends these are. */
static void use_small_buffers(const struct kr_conn *one, const struct kr_conn *other)
{
	const struct kr_conn *ends[] = {one, other};
	const int small = 4096;

	for (int i = 0; i < 2; i++) {
		int fd;

		assert_int_equal(uv_fileno((const uv_handle_t *)&ends[i]->stream, &fd), 0);
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
		assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof(small)), 0);
	}
}

/* Sends the same request until it is cut off, takes no answer, and never makes the server keep more than UNSENT_MAX for
 * it. */
static void flood(struct fixture *f, struct node *lane, uint16_t type, const void *msg)
{
	kr_conn_pause(lane->conn);
	use_small_buffers(lane->conn, server_end(f));
	for (uint64_t id = 1 << 20; id < (1 << 20) + FLOOD && lane->conn; id += FLOOD_AT_ONCE) {
		for (uint64_t i = 0; i < FLOOD_AT_ONCE && lane->conn; i++)
			kr_conn_request_as(lane->conn, id + i, 0, type, msg, NULL, 0, nothing, NULL);
		for (int i = 0; i < 20; i++)
			uv_run(&f->loop, UV_RUN_NOWAIT);
		if (server_end(f))
			assert_in_range(kr_conn_queued(server_end(f)), 0, UNSENT_MAX);
		else
			return;                                                 /* cut off */
		assert_true(ping(f->nodes[HOSTILE]) && ping(f->nodes[HONEST])); /* on a slow machine, too */
	}
}

/* Refusals are answers, too. */
static void refusals_that_nobody_takes_are_not_kept(void **state)
{
	struct fixture *f = with_a_user(state);
	struct kr_hop_address hop = way_to_server(f->nodes[HOSTILE], &own_file);
	const struct kr_range block = {0, 1};
	const struct kr_pull_request foreign = {.file = secret_file, .blocks = {&block, 1}};
	const struct kr_stream_request stale = {.file = own_file, .round = 99};
	struct node *lane = new_lane(f);

	assert_int_equal(open_ring(lane, &f->nodes[HOSTILE]->hello, f->nodes[HOSTILE]->hello.ring_key, &hop), 0);
	flood(f, lane, KR_MSG_PULL, &foreign);
	node_disconnect(lane);
	assert_int_equal(open_ring(lane, &f->nodes[HOSTILE]->hello, f->nodes[HOSTILE]->hello.ring_key, &hop), 0);
	flood(f, lane, KR_MSG_STREAM, &stale);
	node_disconnect(lane);
	node_free(lane);
	undisturbed(f);
}

enum { RANGES = 8192, PULLS = 16, BUFFERS_MAX = 16 << 20 };

static void pull_often(struct node *lane, const struct kr_fid *fid, uint64_t version)
{
	struct kr_range ranges[RANGES];
	struct kr_pull_request msg = {.file = *fid, .version = version, .blocks = {ranges, RANGES}};

	for (uint32_t i = 0; i < RANGES; i++)
		ranges[i] = (struct kr_range){0, 1};
	for (uint64_t id = 1; id <= PULLS; id++)
		assert_int_equal(kr_conn_request_as(lane->conn, id, 0, KR_MSG_PULL, &msg, NULL, 0, nothing, NULL), 0);
}

/* The sessions go on meanwhile, however slow the machine is. */
static void wait_for_as_many_frames_as_may_be(struct fixture *f)
{
	const uint64_t until_ns = kr_clock_ns() + 60 * KR_NS_PER_S;

	do {
		assert_true(kr_clock_ns() < until_ns); /* else it refuses what is asked */
		assert_true(ping(f->nodes[HOSTILE]) && ping(f->nodes[HONEST]));
		assert_non_null(server_end(f));
	} while (kr_conn_queued_frames(server_end(f)) <= KR_BLOCK_SERVER_FRAMES);
}

/* A file of one byte, asked for again and again: neither the blocks nor the questions take much memory while nobody
 * takes the answers. */
static void a_short_block_takes_no_whole_one(void **state)
{
	struct fixture *f = with_a_user(state);
	struct kr_hop_address hop = way_to_server(f->nodes[HOSTILE], &own_file);
	const union kr_any_msg *reply;
	struct node *lane = new_lane(f);
	const size_t before = kr_buf_bytes_in_use();
	const struct kr_setattr_request cut = {
		.cred = {.uid = USER, .gid = USER}, .file = own_file, .valid = KR_SET_SIZE, .size = 1};

	assert_int_equal(node_call(f->nodes[HOSTILE], KR_MSG_SETATTR, &cut, NULL), 0);
	assert_int_equal(
		node_call(f->nodes[HOSTILE], KR_MSG_GETATTR, &(struct kr_getattr_request){.file = own_file}, &reply),
		0);
	assert_int_equal(open_ring(lane, &f->nodes[HOSTILE]->hello, f->nodes[HOSTILE]->hello.ring_key, &hop), 0);
	kr_conn_pause(lane->conn);
	use_small_buffers(lane->conn, server_end(f));
	pull_often(lane, &own_file, reply->getattr_reply.attr.version);
	wait_for_as_many_frames_as_may_be(f);
	for (uint64_t until_ns = kr_clock_ns() + 300 * KR_NS_PER_MS; kr_clock_ns() < until_ns;)
		uv_run(&f->loop, UV_RUN_NOWAIT);
	assert_non_null(server_end(f));
	assert_in_range(kr_conn_queued_frames(server_end(f)), 0, KR_CONN_UNTAKEN_MAX);
	assert_in_range(kr_buf_bytes_in_use() - before, 0, BUFFERS_MAX);
	assert_in_range(server_hop(f)->range_count, RANGES, 2 * RANGES);
	node_disconnect(lane);
	node_free(lane);
	undisturbed(f);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup_two, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_ticket_is_good_for_its_session_only),
		TEST(a_user_pulls_only_what_it_has_opened),
		TEST(the_connections_of_a_user_are_limited),
		TEST(who_is_not_in_a_round_has_no_part_in_it),
		TEST(who_never_sends_a_whole_stream_fails_alone),
		TEST(a_short_block_takes_no_whole_one),
		TEST(refusals_that_nobody_takes_are_not_kept),
	};

	signal(SIGPIPE, SIG_IGN);
	kr_log_init("test_hostile_ring", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Pipelines and the feed: what the server gives to readers, and whom it names as their upstreams. */
#include "test/unit/server/flush/data_fixture.h"

#include "server/flush/data_state.h"

/* A ring connection of a reader, and what has come over it. */
struct reader {
	struct kr_conn *conn;
	int hello_err;
	bool greeted, closed, ended;
	int err;
	unsigned generation;
	uint64_t blocks, bytes;
};

static void reader_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	(void)conn;
	(void)frame;
}
static void reader_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct reader *reader = kr_conn_context(conn);

	(void)err;
	(void)reason;
	reader->closed = true;
}
static const struct kr_conn_handler reader_handler = {.on_frame = reader_frame, .on_closed = reader_closed};

static void reader_greeted(void *context, int err)
{
	struct reader *reader = context;

	reader->greeted = true;
	reader->hello_err = err;
}

static void reader_open(struct reader *reader, const struct kr_hop_address *hop, const struct node *node)
{
	struct kr_pair_caller self = as_caller(node);
	struct sockaddr_in address;

	memset(reader, 0, sizeof *reader);
	assert_int_equal(uv_ip4_addr("127.0.0.1", hop->port, &address), 0);
	assert_int_equal(
		kr_conn_connect(&F.loop, (struct sockaddr *)&address, &reader_handler, reader, &reader->conn), 0);
	kr_pair_open(reader->conn, hop, &self, reader_greeted, reader);
	wait_until(reader->greeted);
}

static void reader_close(struct reader *reader)
{
	kr_conn_close(reader->conn, false);
	wait_until(reader->closed);
}

static void pulled(void *context, int err, const void *reply_pointer, struct kr_buf *data, bool more)
{
	struct reader *reader = context;
	const struct kr_pull_reply *reply = reply_pointer;

	if (more) {
		assert_int_equal(kr_checksum(data->data, data->length), reply->checksum);
		for (size_t i = 0; i < data->length; i++)
			assert_int_equal(data->data[i], content(reply->block * KR_BLOCK_SIZE + i, reader->generation));
		reader->blocks++;
		reader->bytes += data->length;
		return;
	}
	reader->ended = true;
	reader->err = err;
}

static void reader_pull(struct reader *reader, const struct kr_fid *file, uint64_t version,
	const struct kr_range *blocks, uint32_t count)
{
	struct kr_pull_request msg = {.file = *file, .version = version, .blocks = {blocks, count}};

	reader->ended = false;
	assert_true(kr_conn_request(reader->conn, KR_MSG_PULL, &msg, NULL, 0, pulled, reader) > 0);
}

/* NODE has flushed EXTENT of a new file, and asks whom to pull it from: the address borrows. */
static struct kr_hop_address write_and_join(
	struct node *node, const struct kr_range *extent, struct kr_join_request *ret_join)
{
	node->file = create_file(node, "file");
	node->extents = extent;
	node->extent_count = 1;
	node->generation = 1;
	flush_and_wait(node);
	assert_int_equal(node->flush_err, 0);
	*ret_join = (struct kr_join_request){.file = node->file, .version = node->flush_reply.attr.version};
	assert_int_equal(node_call(node, KR_MSG_JOIN, ret_join), 0);
	return the_answer.reply.join_reply.upstream;
}

static void server_feeds_blocks_of_the_asked_version_only(void **state)
{
	static const struct kr_range extents[] = {{0, 5000000}}, all[] = {{30, 9}, {0, 30}}, none[] = {{39, 1}};
	struct node *node = node_start("n1");
	struct kr_join_request join;
	struct kr_hop_address hop;
	struct reader reader, pending_conn;
	char address[64];

	(void)state;
	hop = write_and_join(node, extents, &join);
	assert_int_equal(hop.node, 0);
	assert_int_equal(hop.port, kr_listen_port(&F.server));
	hop.address = address; /* it borrowed */
	reader_open(&reader, &hop, node);
	assert_int_equal(reader.hello_err, 0);
	reader.generation = 1;
	reader_pull(&reader, &node->file, join.version, all, 2);
	wait_until(reader.ended);
	assert_int_equal(reader.err, 0);
	assert_int_equal(reader.blocks, 39);
	assert_int_equal(reader.bytes, 5000000);
	reader_pull(&reader, &node->file, join.version, none, 1);
	wait_until(reader.ended);
	assert_int_equal(reader.err, -EINVAL);
	reader_pull(&reader, &node->file, 0, none, 1); /* who asks without one may be too late */
	wait_until(reader.ended);
	assert_int_equal(reader.err, -ESTALE);
	reader_pull(&reader, &node->file, join.version + 1, all, 2);
	wait_until(reader.ended);
	assert_int_equal(reader.err, -ESTALE);
	hop.ticket[3] ^= 1;
	reader_open(&pending_conn, &hop, node);
	assert_int_equal(pending_conn.hello_err, -EKEYREJECTED);
	wait_until(pending_conn.closed);
	reader_close(&reader);
}

static void reader_that_takes_nothing_holds_up_nobody(void **state)
{
	static const struct kr_range extents[] = {{0, 64 << 20}}, all[] = {{0, 512}};
	struct node *node = node_start("n1");
	struct kr_join_request join;
	struct kr_hop_address hop;
	struct reader stuck, brisk;

	(void)state;
	hop = write_and_join(node, extents, &join);
	reader_open(&stuck, &hop, node);
	reader_open(&brisk, &hop, node);
	stuck.generation = brisk.generation = 1;
	kr_conn_pause(stuck.conn);
	for (int i = 0; i < 8; i++)
		reader_pull(&stuck, &node->file, join.version, all, 1);
	reader_pull(&brisk, &node->file, join.version, all, 1);
	wait_until(brisk.ended);
	assert_int_equal(brisk.err, 0);
	assert_int_equal(brisk.blocks, 512);
	assert_true(kr_buf_bytes_in_use() < 64 << 20);
	reader_close(&stuck);
	reader_close(&brisk);
}

/* Connections that nobody reads from cost a node's share, however many they are; and others are served. */
static void many_connections_that_take_nothing_share_what_one_node_may_hold(void **state)
{
	enum { STUCK = 40 };
	static const struct kr_range extents[] = {{0, 64 << 20}}, all[] = {{0, 512}};
	struct kr_buf *others = kr_buf_new(KR_SESSION_MEMORY); /* never touched: it only counts */
	struct node *node = node_start("n1"), *honest = node_start("n2");
	struct kr_join_request join;
	struct kr_hop_address hop;
	struct reader stuck[STUCK], brisk;
	size_t before, most = 0;

	(void)state;
	hop = write_and_join(node, extents, &join);
	before = kr_buf_bytes_in_use();
	for (int i = 0; i < STUCK; i++) {
		reader_open(&stuck[i], &hop, node);
		stuck[i].generation = 1;
		kr_conn_pause(stuck[i].conn);
		reader_pull(&stuck[i], &node->file, join.version, all, 1);
	}
	assert_int_equal(node_call(honest, KR_MSG_JOIN, &join), 0);
	hop = the_answer.reply.join_reply.upstream;
	reader_open(&brisk, &hop, honest);
	brisk.generation = 1;
	reader_pull(&brisk, &node->file, join.version, all, 1);
	while (!brisk.ended) {
		uv_run(&F.loop, UV_RUN_ONCE);
		most = KR_MAX(most, kr_buf_bytes_in_use());
	}
	assert_int_equal(brisk.err, 0);
	assert_int_equal(brisk.blocks, 512);
	assert_true(most - before < 24 << 20);
	for (int i = 0; i < STUCK; i++)
		reader_close(&stuck[i]);
	reader_close(&brisk);
	kr_buf_put(others);
}

static uint32_t upstream_at_join(struct node *node)
{
	struct kr_join_request join = {.file = F.nodes[0].file, .version = 1};

	assert_int_equal(node_call(node, KR_MSG_JOIN, &join), 0);
	return the_answer.reply.join_reply.upstream.node;
}

/* All nodes hold READ of the first one's file. */
static struct kr_fid begin_reading(void)
{
	struct kr_fid fid = F.nodes[0].file = create_file(&F.nodes[0], "file");

	for (size_t i = 0; i < F.node_count; i++) {
		struct kr_lease_request lease = {.file = fid, .kinds = KR_LEASE_READ};

		assert_int_equal(upstream_at_join(&F.nodes[i]), 0); /* not a member: it has no READ */
		assert_int_equal(node_call(&F.nodes[i], KR_MSG_LEASE, &lease), 0);
	}
	return fid;
}

static void pipeline_names_upstreams_as_members_come_and_go(void **state)
{
	struct node *n1 = node_start("n1"), *n2 = node_start("n2"), *n3 = node_start("n3");
	struct kr_reparent_request reparent;
	struct kr_return_request given_back = {.kinds = KR_LEASE_READ};
	uint8_t secret[KR_SECRET];

	(void)state;
	reparent.file = given_back.file = begin_reading();
	assert_int_equal(upstream_at_join(n1), 0);
	assert_int_equal(upstream_at_join(n3), n1->number);
	assert_int_equal(upstream_at_join(n2), n1->number);
	wait_until(n3->upstreams == 1);
	assert_int_equal(n3->upstream.node, n2->number);
	assert_int_equal(n3->upstream.port, n2->ring_port);
	/* The secret of the pair: both can make it, n3 with its own key only. */
	kr_pair_secret(n2->ring_key, n3->session, n3->number, secret);
	kr_pair_mask(n3->ring_key, n3->upstream.session, n2->number, n3->upstream.ticket);
	assert_memory_equal(n3->upstream.ticket, secret, sizeof secret);
	reparent.node = n2->number;
	assert_int_equal(node_call(n3, KR_MSG_REPARENT, &reparent), 0);
	assert_int_equal(the_answer.reply.reparent_reply.upstream.node, n1->number);
	node_die(n2); /* its session is replaced */
	node_begin(n2);
	wait_until(n2->live);
	assert_int_equal(node_call(n1, KR_MSG_RETURN, &given_back), 0);
	wait_until(n3->upstreams >= 2);
	assert_int_equal(n3->upstream.node, 0);
	assert_int_equal(n3->upstream.port, kr_listen_port(&F.server));
}

static void hold_read(struct node *node)
{
	struct kr_lease_request lease = {.file = F.nodes[0].file, .kinds = KR_LEASE_READ};

	assert_int_equal(node_call(node, KR_MSG_LEASE, &lease), 0);
}

/* The first node makes the file with LENGTH bytes, or lets it grow to that. */
static void write_bytes(uint64_t length)
{
	struct node *node = &F.nodes[0];
	const struct kr_range extent = {0, length};

	if (node->generation++ == 0)
		node->file = create_file(node, "file");
	node->extents = &extent;
	node->extent_count = 1;
	flush_and_wait(node);
	assert_int_equal(node->flush_err, 0);
}

/* NODE gets the bytes with the answer. */
static void open_small(struct node *node)
{
	struct kr_open_request open = {.file = F.nodes[0].file, .want = KR_LEASE_READ};

	hold_read(node);
	assert_int_equal(node_call(node, KR_MSG_OPEN, &open), 0);
	assert_int_equal(the_answer.reply.open_reply.has_data, 1);
}

static void a_small_file_is_pulled_from_the_latest_node_that_got_it(void **state)
{
	struct node *n1 = node_start("n1"), *n2 = node_start("n2"), *n3 = node_start("n3"), *n4 = node_start("n4");
	struct kr_return_request given_back = {.kinds = KR_LEASE_READ};

	(void)state;
	write_bytes(10000);
	given_back.file = n1->file;
	open_small(n1);
	open_small(n2);
	hold_read(n3);
	hold_read(n4);
	assert_int_equal(upstream_at_join(n3), n2->number);
	assert_int_equal(upstream_at_join(n4), n3->number);
	assert_int_equal(upstream_at_join(n2), 0); /* it has lost its copy */
	assert_int_equal(node_call(n3, KR_MSG_RETURN, &given_back), 0);
	assert_int_equal(node_call(n4, KR_MSG_RETURN, &given_back), 0);
	hold_read(n4);
	assert_int_equal(upstream_at_join(n4), n2->number);
	assert_int_equal(node_call(n2, KR_MSG_RETURN, &given_back), 0); /* it has the file open still */
	assert_int_equal(node_call(n4, KR_MSG_RETURN, &given_back), 0);
	hold_read(n4);
	assert_int_equal(upstream_at_join(n4), n1->number);
}

static void a_file_that_has_grown_goes_through_a_pipeline(void **state)
{
	struct node *n1 = node_start("n1"), *n2 = node_start("n2");

	(void)state;
	write_bytes(10000);
	open_small(n1);
	write_bytes(100000);
	hold_read(n2);
	assert_int_equal(upstream_at_join(n2), 0); /* n1, which has the former bytes, has not joined */
}

/* COUNT nodes that have read the file; the file. */
static struct kr_fid start_readers(size_t count)
{
	struct kr_fid fid;

	for (size_t i = 0; i < count; i++) {
		char name[] = {'n', (char)('1' + i), '\0'};
		struct node *node = node_new(name);

		node_begin(node);
		wait_until(node->live);
	}
	fid = begin_reading();
	for (size_t i = 0; i < count; i++)
		assert_int_equal(upstream_at_join(&F.nodes[i]), i ? F.nodes[i - 1].number : 0);
	return fid;
}

static uint32_t upstream_after(
	struct node *node, const struct kr_fid *fid, const struct node *other, enum kr_complaint complaint)
{
	struct kr_reparent_request msg = {.file = *fid, .node = other->number, .complaint = (uint8_t)complaint};

	assert_int_equal(node_call(node, KR_MSG_REPARENT, &msg), 0);
	return the_answer.reply.reparent_reply.upstream.node;
}

static void a_slow_member_becomes_the_last(void **state)
{
	struct node *const n = F.nodes;
	struct kr_fid fid = start_readers(4);

	(void)state;
	assert_int_equal(upstream_after(&n[2], &fid, &n[1], KR_COMPLAINT_SILENT), n[0].number);
	assert_int_equal(upstream_after(&n[1], &fid, &n[0], KR_COMPLAINT_SILENT), 0);
	assert_int_equal(upstream_after(&n[3], &fid, &n[1], KR_COMPLAINT_SLOW),
		n[2].number); /* not its upstream: nothing changes */
	assert_int_equal(upstream_after(&n[2], &fid, &n[1], KR_COMPLAINT_SLOW), n[0].number);
	wait_until(n[1].upstreams == 1);
	assert_int_equal(n[1].upstream.node, n[3].number);
	assert_int_equal(n[1].last, n[1].number);
	assert_int_equal(n[0].upstreams + n[2].upstreams + n[3].upstreams, 0);
	/* And a slow one complains of no other. */
	assert_int_equal(upstream_after(&n[1], &fid, &n[3], KR_COMPLAINT_SLOW), n[3].number);
	assert_int_equal(n[3].upstreams, 0);
}

static void nodes_of_different_rings_pull_from_each_other_in_no_case(void **state)
{
	static const char *const rings[] = {"red", "blue", "red", NULL};
	struct node *const n = F.nodes;
	struct kr_reparent_request reparent;
	struct kr_return_request given_back = {.kinds = KR_LEASE_READ};

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(rings); i++) {
		char name[] = {'n', (char)('1' + i), '\0'};
		struct node *node = node_new(name);

		node->ring = rings[i];
		node_begin(node);
		wait_until(node->live);
	}
	reparent.file = given_back.file = begin_reading();
	assert_int_equal(upstream_at_join(&n[0]), 0);
	assert_int_equal(upstream_at_join(&n[1]), 0);
	assert_int_equal(upstream_at_join(&n[2]), n[0].number);
	assert_int_equal(upstream_at_join(&n[3]), 0);
	assert_int_equal(node_call(&n[0], KR_MSG_RETURN, &given_back), 0);
	wait_until(n[2].upstreams == 1);
	assert_int_equal(n[2].upstream.node, 0);
	assert_int_equal(upstream_at_join(&n[0]), 0);
	reparent.node = n[0].number;
	assert_int_equal(node_call(&n[2], KR_MSG_REPARENT, &reparent), 0);
	assert_int_equal(the_answer.reply.reparent_reply.upstream.node, 0);
	assert_int_equal(n[1].upstreams + n[3].upstreams, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(nodes_of_different_rings_pull_from_each_other_in_no_case),
		TEST(server_feeds_blocks_of_the_asked_version_only),
		TEST(reader_that_takes_nothing_holds_up_nobody),
		TEST(many_connections_that_take_nothing_share_what_one_node_may_hold),
		TEST(a_slow_member_becomes_the_last),
		TEST(pipeline_names_upstreams_as_members_come_and_go),
		TEST(a_small_file_is_pulled_from_the_latest_node_that_got_it),
		TEST(a_file_that_has_grown_goes_through_a_pipeline),
	};

	prepare();
	return cmocka_run_group_tests(tests, NULL, NULL);
}

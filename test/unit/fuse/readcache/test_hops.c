/* Ring connections as strangers, vandals and slow peers see them. */
#include "common/base/fail.h"
#include "test/unit/fuse/readcache/ring_world.h"

/* A peer of node 1 made by hand. */
struct visitor {
	struct kr_conn *conn;
	uint64_t blocks; /* received, all right */
	int err;         /* of the last final reply */
	int opened;      /* what became of its handshake */
	bool answered, closed;
};

static void on_visitor_frame(struct kr_conn *conn, const struct kr_frame *frame)
{
	(void)conn, (void)frame;
	fail();
}

static void on_visitor_closed(struct kr_conn *conn, int err, const char *reason)
{
	struct visitor *visitor = kr_conn_context(conn);

	(void)err, (void)reason;
	visitor->closed = true;
	visitor->conn = NULL;
}

static const struct kr_conn_handler visitor_handler = {.on_frame = on_visitor_frame, .on_closed = on_visitor_closed};

static void on_visitor_reply(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct visitor *visitor = context;
	const struct kr_pull_reply *block = reply;

	if (more) {
		assert_int_equal(data->length, kr_cache_block_length(world->size, block->block));
		assert_memory_equal(data->data, world->content + block->block * BLOCK, data->length);
		assert_int_equal(block->checksum, kr_checksum(data->data, data->length));
		visitor->blocks++;
		return;
	}
	visitor->answered = true;
	visitor->err = err;
}

static void on_challenge(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	(void)context, (void)reply, (void)data, (void)more;
	assert_int_equal(err, 0);
}

static void visit(struct visitor *visitor)
{
	struct sockaddr_in address;

	*visitor = (struct visitor){0};
	uv_ip4_addr("127.0.0.1", world->nodes[1].port, &address);
	assert_int_equal(
		kr_conn_connect(&world->loop, (struct sockaddr *)&address, &visitor_handler, visitor, &visitor->conn),
		0);
}

static void on_visitor_opened(void *context, int err)
{
	struct visitor *visitor = context;

	visitor->answered = true;
	visitor->opened = err;
}

/* The way from node 2 to node 1 (if that has SESSION), as the server would have told it; the visitor is what it wants
 * to be. */
static void open_as(
	struct visitor *visitor, uint64_t session, uint32_t node, uint64_t caller, const uint8_t ring_key[KR_RING_KEY])
{
	struct kr_hop_address to = {
		.node = 1, .address = "127.0.0.1", .port = world->nodes[1].port, .session = session};
	struct kr_pair_caller self = {.node = node, .session = caller, .least = KR_SECURITY_INTEGRITY};

	memset(world->nodes[2].ring_key, 2, KR_RING_KEY);
	kr_pair_secret(world->nodes[1].ring_key, 2, 2, to.ticket);
	kr_pair_mask(world->nodes[2].ring_key, session, 1, to.ticket);
	memcpy(self.ring_key, ring_key, KR_RING_KEY);
	kr_pair_open(visitor->conn, &to, &self, on_visitor_opened, visitor);
}

static void say_hello(struct visitor *visitor)
{
	uint8_t own[KR_RING_KEY];

	memset(own, 2, sizeof(own));
	open_as(visitor, 1, 2, 2, own);
}

static void ask(struct visitor *visitor, uint64_t version, uint64_t from, uint64_t count)
{
	struct kr_range range = {from, count};
	struct kr_pull_request request = {.file = {.length = 1}, .version = version, .blocks = {&range, 1}};

	assert_true(kr_conn_request(visitor->conn, KR_MSG_PULL, &request, NULL, 0, on_visitor_reply, visitor) > 0);
}

static void wait_for(const bool *flag)
{
	uint64_t until_ns = kr_clock_ns() + DEADLINE_S * KR_NS_PER_S;

	while (!*flag) {
		turn();
		assert_true(kr_clock_ns() < until_ns);
	}
}

static void leave(struct visitor *visitor)
{
	if (visitor->conn)
		kr_conn_close(visitor->conn, false);
	wait_for(&visitor->closed);
}

static void expect_refusal(uint64_t session, uint32_t node, uint64_t caller, uint8_t own, int err)
{
	uint8_t ring_key[KR_RING_KEY];
	struct visitor visitor;

	memset(ring_key, own, sizeof(ring_key));
	visit(&visitor);
	open_as(&visitor, session, node, caller, ring_key);
	ask(&visitor, 1, 0, 1);
	wait_for(&visitor.closed);
	assert_int_equal(visitor.blocks, 0);
	assert_int_equal(visitor.opened, err);
}

static void who_does_not_know_the_secret_of_the_pair_is_refused(void **state)
{
	(void)state;
	start_node(1, LARGE);
	expect_refusal(1, 2, 2, 99, -EKEYREJECTED); /* a listener who knows the ticket, and not node 2's ring key */
	expect_refusal(1, 3, 2, 2, -EKEYREJECTED);  /* node 2 says that it is node 3 */
	expect_refusal(1, 2, 3, 2, -EKEYREJECTED);  /* ... or another session */
	expect_refusal(7, 2, 2, 2, -ENOTCONN);      /* a session of node 1 that has ended */
}

/* The server has taken a key away: what it has told anybody of the ring before is worth nothing. */
static void a_new_ring_key_ends_what_was_opened_with_the_old_one(void **state)
{
	struct visitor visitor;
	uint8_t own[KR_RING_KEY], fresh[KR_RING_KEY];

	(void)state;
	start_node(1, LARGE);
	memset(own, 2, sizeof(own));
	memset(fresh, 7, sizeof(fresh));
	visit(&visitor);
	say_hello(&visitor);
	wait_for(&visitor.answered);
	assert_int_equal(visitor.opened, 0);
	kr_hops_identify(world->nodes[1].mount.hops, 1, 1, world->nodes[1].ring_key, KR_SECURITY_INTEGRITY, 60000);
	visitor.answered = false;
	ask(&visitor, 1, 0, 1);
	wait_for(&visitor.answered); /* connected to the server anew, and nothing else */
	kr_hops_identify(world->nodes[1].mount.hops, 1, 1, fresh, KR_SECURITY_INTEGRITY, 60000);
	wait_for(&visitor.closed);
	visit(&visitor);
	open_as(&visitor, 1, 2, 2, own);
	wait_for(&visitor.closed);
	assert_int_equal(visitor.opened, -EKEYREJECTED);
}

/* The whole handshake of an honest caller, recorded, comes again. */
static void a_recorded_handshake_opens_nothing(void **state)
{
	struct kr_hop_address to = {.node = 1, .address = "127.0.0.1", .session = 1};
	struct kr_hop_hello_request hello;
	struct kr_hop_prove_request prove;
	struct kr_hop_hello_reply reply;
	struct kr_pair caller, called = {0};
	struct kr_seal_keys keys;
	struct kr_fresh fresh;
	struct visitor visitor;
	uint8_t own[KR_RING_KEY];

	(void)state;
	start_node(1, LARGE);
	memset(own, 2, sizeof(own));
	kr_pair_secret(world->nodes[1].ring_key, 2, 2, to.ticket);
	kr_pair_mask(own, 1, 1, to.ticket);
	kr_fresh_make(&fresh);
	kr_pair_call(&caller, &to, own, 2, 2, KR_SECURITY_INTEGRITY, &fresh, &hello);
	kr_fresh_make(&fresh);
	assert_int_equal(
		kr_pair_challenge(&called, &hello, world->nodes[1].ring_key, KR_SECURITY_INTEGRITY, &fresh, &reply), 0);
	assert_int_equal(kr_pair_prove(&caller, &reply, &prove, &keys), 0);
	assert_int_equal(kr_pair_verify(&called, &prove, &keys), 0); /* it was a good one */
	visit(&visitor);
	assert_true(kr_conn_request(visitor.conn, KR_MSG_HOP_HELLO, &hello, NULL, 0, on_challenge, &visitor) > 0);
	assert_true(kr_conn_request(visitor.conn, KR_MSG_HOP_PROVE, &prove, NULL, 0, on_visitor_reply, &visitor) > 0);
	wait_for(&visitor.closed);
	assert_int_equal(visitor.err, -EKEYREJECTED);
}

static void nothing_is_served_between_hello_and_proof(void **state)
{
	struct kr_hop_hello_request hello = {.proto = KR_PROTO_VERSION,
		.node = 2,
		.caller = 2,
		.session = 1,
		.ciphers = KR_CIPHER_CHACHA20_POLY1305};
	struct visitor visitor;

	(void)state;
	start_node(1, LARGE);
	visit(&visitor);
	assert_true(kr_conn_request(visitor.conn, KR_MSG_HOP_HELLO, &hello, NULL, 0, on_challenge, &visitor) > 0);
	ask(&visitor, 1, 0, 1);
	wait_for(&visitor.closed);
	assert_int_equal(visitor.err, -EPROTO);
	assert_int_equal(visitor.blocks, 0);
}

static void nothing_is_served_before_hello(void **state)
{
	struct visitor visitor;

	(void)state;
	start_node(1, LARGE);
	visit(&visitor);
	ask(&visitor, 1, 0, 1);
	wait_for(&visitor.closed);
	assert_int_equal(visitor.err, -EPROTO);
	assert_int_equal(visitor.blocks, 0);
}

static void garbage_ends_that_connection_only(void **state)
{
	static const char noise[] = "GET / HTTP/1.0\r\n\r\nand so on and so on and so on";
	struct sockaddr_in address;
	struct visitor visitor;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	(void)state;
	start_node(1, LARGE);
	visit(&visitor);
	say_hello(&visitor);
	uv_ip4_addr("127.0.0.1", world->nodes[1].port, &address);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	assert_int_equal(write(fd, noise, sizeof(noise)), sizeof(noise));
	ask(&visitor, 1, 0, 3);
	visitor.answered = false;
	while (visitor.blocks < 3)
		turn();
	while (world->nodes[1].mount.hops->incoming_count > 1)
		turn();
	close(fd);
	leave(&visitor);
}

static void another_version_is_stale_and_senseless_requests_are_refused(void **state)
{
	struct visitor visitor;

	(void)state;
	start_node(1, LARGE);
	visit(&visitor);
	say_hello(&visitor);
	wait_for(&visitor.answered);
	visitor.answered = false;
	ask(&visitor, 8, 0, 1);
	wait_for(&visitor.answered);
	assert_int_equal(visitor.err, -ESTALE);
	visitor.answered = false;
	ask(&visitor, 1, 0, UINT64_C(1) << 46);
	wait_for(&visitor.answered);
	assert_int_equal(visitor.err, -ECANCELED);
	visitor.answered = false;
	ask(&visitor, 1, UINT64_MAX / BLOCK, 1);
	wait_for(&visitor.answered);
	assert_int_equal(visitor.err, -EINVAL);
	assert_int_equal(visitor.blocks, 0);
	leave(&visitor);
}

static void on_have(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct visitor *visitor = context;

	(void)data, (void)more;
	assert_int_equal(err, 0);
	visitor->answered = true;
	visitor->blocks = ((const struct kr_have_reply *)reply)->count;
}

/* How many blocks of [FROM, FROM + COUNT) node 1 says it has. */
static uint64_t have(struct visitor *visitor, uint64_t version, uint64_t from, uint64_t count)
{
	struct kr_range range = {from, count};
	struct kr_have_request request = {.file = {.length = 1}, .version = version, .blocks = {&range, 1}};

	visitor->answered = false;
	assert_true(kr_conn_request(visitor->conn, KR_MSG_HAVE, &request, NULL, 0, on_have, visitor) > 0);
	wait_for(&visitor->answered);
	return visitor->blocks;
}

static void a_peer_says_which_blocks_it_has(void **state)
{
	struct node *node = &world->nodes[1];
	struct visitor visitor;

	(void)state;
	start_node(1, LARGE);
	visit(&visitor);
	say_hello(&visitor);
	wait_for(&visitor.answered);
	assert_int_equal(have(&visitor, 1, 0, file_blocks()), 0);
	while (try_read(node, UINT64_C(40) * BLOCK, READ_SIZE) != 1)
		turn();
	assert_int_equal(have(&visitor, 1, 40, 1), 1);
	assert_in_range(have(&visitor, 1, 0, file_blocks()), 3, file_blocks() - 1);
	assert_int_equal(have(&visitor, 8, 40, 1), 0);
	assert_int_equal(have(&visitor, 1, UINT64_MAX / BLOCK, 1000), 0);
	assert_int_equal(have(&visitor, 1, 0, UINT64_C(1) << 46) > 0, true);
	leave(&visitor);
}

static void a_peer_that_does_not_read_costs_little_and_delays_nobody(void **state)
{
	struct visitor slow, quick;
	uint64_t blocks;

	(void)state;
	start_node(1, LARGE);
	blocks = file_blocks();
	visit(&slow);
	say_hello(&slow);
	wait_for(&slow.answered);
	kr_conn_pause(slow.conn);
	slow.answered = false;
	for (int i = 0; i < 4; i++)
		ask(&slow, 1, 0, blocks);
	visit(&quick);
	say_hello(&quick);
	wait_for(&quick.answered);
	quick.answered = false;
	ask(&quick, 1, 0, blocks);
	wait_for(&quick.answered);
	assert_int_equal(quick.blocks, blocks);
	while (world->nodes[1].mount.hops->charged > 0)
		turn(); /* what the disk has not got yet is in memory, whoever wants it */
	/* Four times the file is wanted; one connection's queue and its socket hold some of it. */
	assert_true(kr_buf_bytes_in_use() <= KR_HOP_QUEUE + 40 * BLOCK);
	kr_conn_resume(slow.conn);
	while (slow.blocks < 4 * blocks)
		turn();
	leave(&slow);
	leave(&quick);
}

static void who_says_nothing_takes_nobodys_place(void **state)
{
	enum { MANY = KR_HOPS_STRANGERS + 20 };
	static struct visitor silent[MANY];
	struct visitor honest;

	(void)state;
	start_node(1, LARGE);
	visit(&honest);
	say_hello(&honest);
	wait_for(&honest.answered);
	for (int i = 0; i < MANY; i++)
		visit(&silent[i]);
	for (int i = 0; i < MANY - KR_HOPS_STRANGERS; i++)
		wait_for(&silent[i].closed); /* the oldest, and long before they are too slow */
	assert_int_equal(world->nodes[1].mount.hops->incoming_count, 1 + KR_HOPS_STRANGERS);
	honest.answered = false;
	ask(&honest, 1, 0, 1);
	wait_for(&honest.answered);
	assert_int_equal(honest.blocks, 1);
	leave(&honest);
	for (int i = 0; i < MANY; i++)
		leave(&silent[i]);
}

static void one_node_has_a_bounded_number_of_connections(void **state)
{
	static struct visitor visitors[KR_HOPS_PER_NODE];
	struct visitor next;

	(void)state;
	start_node(1, LARGE);
	for (int i = 0; i < KR_HOPS_PER_NODE; i++) {
		visit(&visitors[i]);
		say_hello(&visitors[i]);
		wait_for(&visitors[i].answered);
		assert_int_equal(visitors[i].opened, 0);
	}
	visit(&next);
	say_hello(&next);
	wait_for(&next.closed);
	assert_int_equal(next.opened, -EAGAIN);
	leave(&visitors[0]);
	visit(&next);
	say_hello(&next);
	wait_for(&next.answered);
	assert_int_equal(next.opened, 0);
	leave(&next);
	for (int i = 1; i < KR_HOPS_PER_NODE; i++)
		leave(&visitors[i]);
}

static void answers_that_nobody_takes_are_not_kept(void **state)
{
	struct visitor visitor;

	(void)state;
	start_node(1, LARGE);
	visit(&visitor);
	say_hello(&visitor);
	wait_for(&visitor.answered);
	kr_conn_pause(visitor.conn);
	for (int i = 0; i < 400 && visitor.conn; i++) {
		for (int j = 0; j < 1000 && visitor.conn; j++)
			ask(&visitor, 2, 0, 1); /* a version that is not */
		turn();
	}
	wait_for(&visitor.closed);
}

/* The last block of a file, short as it may be, comes from the disk for each answer. */
static void short_blocks_that_nobody_takes_cost_little(void **state)
{
	struct visitor visitor;
	size_t most = 0;

	(void)state;
	world->size = KR_BLOCK_SIZE + 1;
	start_node(1, LARGE);
	read_all(NULL);
	while (world->nodes[1].mount.hops->charged > 0 || world->nodes[1].mount.hops->jobs > 0)
		turn();
	assert_int_equal(kr_buf_bytes_in_use(), 0); /* it is on the disk alone */
	visit(&visitor);
	say_hello(&visitor);
	wait_for(&visitor.answered);
	kr_conn_pause(visitor.conn);
	for (int i = 0; i < 400 && visitor.conn; i++) {
		for (int j = 0; j < 1000 && visitor.conn; j++)
			ask(&visitor, 1, 1, 1);
		turn();
		most = KR_MAX(most, kr_buf_bytes_in_use());
	}
	while (!visitor.closed) {
		turn();
		most = KR_MAX(most, kr_buf_bytes_in_use());
	}
	assert_true(most <= KR_HOP_QUEUE);
}

/* What a node may be told in rings only, and how much of it is taken in before that is known. */
static void other_requests_end_a_ring_connection(void **state)
{
	struct visitor visitor;

	(void)state;
	start_node(1, LARGE);
	visit(&visitor);
	say_hello(&visitor);
	wait_for(&visitor.answered);
	assert_true(kr_conn_request(visitor.conn, KR_MSG_PING, NULL, NULL, 0, on_visitor_reply, &visitor) > 0);
	wait_for(&visitor.closed);
}

static void a_port_of_the_range_is_taken_that_is_free(void **state)
{
	struct kr_port_range any = {0}, taken, range;
	struct kr_hops_counters counters;
	struct kr_hops *hops;
	uint16_t port;

	(void)state;
	start_node(1, LARGE);
	start_node(2, LARGE);
	hops = world->nodes[2].mount.hops;
	taken = (struct kr_port_range){world->nodes[1].port, world->nodes[1].port};
	range = (struct kr_port_range){taken.low, (uint16_t)(taken.low + 100)};
	assert_int_equal(kr_hops_listen(hops, "127.0.0.2", &any, &port), 0);
	assert_int_equal(kr_hops_listen(hops, "127.0.0.1", &taken, &port), -EADDRINUSE);
	assert_non_null(strstr(kr_fail_reason(), "is in use"));
	kr_hops_counters(hops, &counters);
	assert_int_equal(counters.port, 0);
	assert_int_equal(kr_hops_listen(hops, "127.0.0.1", &range, &port), 0);
	assert_in_range(port, range.low + 1, range.high);
	kr_hops_counters(hops, &counters);
	assert_int_equal(counters.port, port);
	/* It stays there. */
	port = 0;
	assert_int_equal(kr_hops_listen(hops, "127.0.0.1", &taken, &port), 0);
	assert_int_equal(port, counters.port);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(who_does_not_know_the_secret_of_the_pair_is_refused),
		TEST(a_new_ring_key_ends_what_was_opened_with_the_old_one),
		TEST(a_recorded_handshake_opens_nothing),
		TEST(nothing_is_served_between_hello_and_proof),
		TEST(nothing_is_served_before_hello),
		TEST(garbage_ends_that_connection_only),
		TEST(a_peer_says_which_blocks_it_has),
		TEST(another_version_is_stale_and_senseless_requests_are_refused),
		TEST(a_peer_that_does_not_read_costs_little_and_delays_nobody),
		TEST(who_says_nothing_takes_nobodys_place),
		TEST(one_node_has_a_bounded_number_of_connections),
		TEST(answers_that_nobody_takes_are_not_kept),
		TEST(short_blocks_that_nobody_takes_cost_little),
		TEST(other_requests_end_a_ring_connection),
		TEST(a_port_of_the_range_is_taken_that_is_free),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* What a connection promises whatever moves its data: the same tests over the stream alone, an in-memory pair, and
 * verbs.  A program names its kinds, and lists CONFORMANCE(kind) for each. */
#ifndef KR_TEST_CARRIER_CONFORMANCE_H
#define KR_TEST_CARRIER_CONFORMANCE_H

#include <signal.h>
#include <sodium.h>

#include "common/rpc/carrier.h"
#include "test/unit/common/rpc/conn_fixture.h"

enum { POOL = 8 << 20 };

struct kind {
	const char *name;
	bool carries;
	/* Both connections are there: they get what moves their data.  The client receives if CLIENT_RECEIVES, else the
	 * server. */
	void (*attach)(bool client_receives);
	void (*detach)(void); /* the connections are gone; may be NULL */
};
static const struct kind *kind;

static inline int set_up_kind(void **state)
{
	void *base;
	size_t length;

	kind = *state;
	signal(SIGPIPE, SIG_IGN); /* as the daemons */
	assert_int_equal(kr_buf_pool_open(POOL, &base, &length), 0);
	return set_up(state);
}

static inline void close_both(void)
{
	if (client.conn)
		kr_conn_close(client.conn, false);
	if (server.conn)
		kr_conn_close(server.conn, false);
	RUN_UNTIL(!client.conn && !server.conn);
}

static inline int tear_down_kind(void **state)
{
	close_both();
	if (kind->detach)
		kind->detach();
	return tear_down(state);
}

/* Frames go from FROM to TO. */
static inline void connect_kind(struct side *to)
{
	connect_both();
	kind->attach(to == &client);
	assert_string_equal(kr_conn_transport(client.conn), kind->name);
	assert_string_equal(kr_conn_transport(server.conn), kind->name);
}

static inline void expect_extents(const struct side *side, uint64_t count)
{
	assert_int_equal(side->extents, count);
	for (uint64_t i = 0; i < count; i++)
		assert_int_equal(side->offsets[i], i);
}

/* Large and small data, in one piece and in several, from all kinds of buffers. */
static inline void send_mixture(struct side *side, uint64_t count)
{
	unsigned seed = 11;

	for (uint64_t i = 0; i < count; i++) {
		size_t length = i % 3 == 0 ? (size_t)rand_r(&seed) % 64 :
			i % 3 == 1         ? (size_t)rand_r(&seed) % (KR_BLOCK_SIZE + 1) :
					     KR_BLOCK_SIZE;

		send_extent(side, i, length, 1 + i % 7);
	}
}

static inline bool carried(const struct side *side)
{
	for (size_t i = 0; i < side->frames; i++)
		if (side->headers[i].flags & KR_FRAME_CARRIED)
			return true;
	return false;
}

static void all_sizes_arrive_whole_and_in_order_at_the_called_peer(void **state)
{
	(void)state;
	connect_kind(&server);
	send_mixture(&client, 400);
	RUN_UNTIL(server.extents == 400);
	expect_extents(&server, 400);
	assert_int_equal(carried(&server), kind->carries);
	assert_int_equal(kr_conn_queued(client.conn), 0);
}

static void all_sizes_arrive_whole_and_in_order_at_the_caller(void **state)
{
	(void)state;
	connect_kind(&client);
	send_mixture(&server, 400);
	send_mixture(&client, 100); /* the other way round meanwhile */
	RUN_UNTIL(client.extents == 400 && server.extents == 100);
	expect_extents(&client, 400);
	expect_extents(&server, 100);
	assert_int_equal(carried(&client), kind->carries);
}

static void a_paused_receiver_holds_the_sender_up(void **state)
{
	(void)state;
	connect_kind(&server);
	kr_conn_pause(server.conn);
	for (uint64_t i = 0; i < 300; i++)
		send_extent(&client, i, KR_BLOCK_SIZE, 1);
	run_a_little();
	assert_true(kr_conn_queued(client.conn) > (size_t)10 << 20);
	assert_int_equal(server.extents, 0);
	kr_conn_resume(server.conn);
	RUN_UNTIL(server.extents == 300);
	expect_extents(&server, 300);
	RUN_UNTIL(client.drains == 1);
}

static struct kr_buf *kept[256];
static size_t kept_count;

static inline void keep(struct side *side, const struct kr_frame *frame)
{
	(void)side;
	kept[kept_count++] = kr_buf_get(frame->data);
}

/* More blocks than the pool has buffers. */
static void a_receiver_may_keep_all_data(void **state)
{
	(void)state;
	connect_kind(&server);
	server.hook = keep;
	for (uint64_t i = 0; i < 200; i++)
		send_extent(&client, i, KR_BLOCK_SIZE, 1);
	RUN_UNTIL(server.extents == 200);
	expect_extents(&server, 200);
	for (size_t i = 0; i < kept_count; i++) {
		assert_int_equal(kr_checksum(kept[i]->data, kept[i]->length), server.checksums[i]);
		kr_buf_put(kept[i]);
	}
	kept_count = 0;
	send_extent(&client, 200, KR_BLOCK_SIZE, 1);
	server.hook = NULL;
	RUN_UNTIL(server.extents == 201);
}

static void closing_with_flush_delivers_all(void **state)
{
	(void)state;
	connect_kind(&server);
	send_mixture(&client, 200);
	kr_conn_close(client.conn, true);
	RUN_UNTIL(server.closed && client.closed);
	assert_int_equal(server.err, 0);
	expect_extents(&server, 200);
}

static void closing_in_the_middle_leaves_nothing(void **state)
{
	(void)state;
	connect_kind(&client);
	send_mixture(&server, 200);
	RUN_UNTIL(client.extents > 20);
	kr_conn_close(client.conn, false);
	RUN_UNTIL(server.closed && client.closed);
}

static inline void seal_both(enum kr_security security)
{
	struct kr_seal_keys keys = {.security = security, .cipher = KR_CIPHER_CHACHA20_POLY1305};
	struct kr_seal_keys other;

	assert_true(sodium_init() >= 0);
	memset(keys.send, 1, sizeof(keys.send));
	memset(keys.receive, 2, sizeof(keys.receive));
	other = keys;
	memcpy(other.send, keys.receive, sizeof(keys.send));
	memcpy(other.receive, keys.send, sizeof(keys.send));
	kr_conn_seal(client.conn, &keys);
	kr_conn_seal(server.conn, &other);
}

static inline void arrive_sealed(enum kr_security security)
{
	connect_kind(&server);
	seal_both(security);
	send_mixture(&client, 200);
	RUN_UNTIL(server.extents == 200);
	expect_extents(&server, 200);
	assert_int_equal(carried(&server), kind->carries);
}

static void data_is_sealed_with_integrity(void **state)
{
	(void)state;
	arrive_sealed(KR_SECURITY_INTEGRITY);
}

static void data_is_sealed_with_privacy(void **state)
{
	(void)state;
	arrive_sealed(KR_SECURITY_PRIVACY);
}

#define TEST_OF(test, kind) \
	cmocka_unit_test_prestate_setup_teardown(test, set_up_kind, tear_down_kind, (void *)(uintptr_t)(kind))
#define CONFORMANCE(kind) \
	TEST_OF(all_sizes_arrive_whole_and_in_order_at_the_called_peer, kind), \
		TEST_OF(all_sizes_arrive_whole_and_in_order_at_the_caller, kind), \
		TEST_OF(a_paused_receiver_holds_the_sender_up, kind), TEST_OF(a_receiver_may_keep_all_data, kind), \
		TEST_OF(closing_with_flush_delivers_all, kind), TEST_OF(closing_in_the_middle_leaves_nothing, kind), \
		TEST_OF(data_is_sealed_with_integrity, kind), TEST_OF(data_is_sealed_with_privacy, kind)

#endif

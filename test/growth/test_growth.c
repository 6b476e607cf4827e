/* The simulator's links, and what it says where the answer can be calculated. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "common/base/types.h"
#include "test/growth/workloads.h"

/* 100 MB/s: 10 ns for a byte. */
enum { BYTE_NS = 10, BLOCK_NS = (KR_BLOCK_SIZE + KR_MESSAGE_BYTES) * BYTE_NS };

static const struct kr_workload plain = {
	.model = {.link = 100, .server_link = 100, .latency_us = 0},
	.nodes = 1,
	.rings = 1,
	.all = true,
	.size = 512 * KR_BLOCK_SIZE,
	.record = KR_BLOCK_SIZE,
	.records = 64,
	.requests = 2,
};

static struct kr_workload on_nodes(uint32_t nodes)
{
	struct kr_workload workload = plain;

	workload.nodes = nodes;
	return workload;
}

static void assert_between(double value, double low, double high)
{
	if (value < low || value > high)
		fail_msg("%g is not between %g and %g", value, low, high);
}

static void assert_within_1_percent(double value, double expected)
{
	assert_between(value, expected * 0.99, expected * 1.01);
}

static void note_time(void *context, uint64_t value)
{
	struct kr_world *world = context;

	((uint64_t *)(uintptr_t)value)[0] = world->events.now_ns;
}

static void transfers_of_one_host_follow_each_other_and_messages_overtake(void **state)
{
	struct kr_world world = {.model = plain.model};
	uint64_t first = 0, second = 0, third = 0, message = 0;
	struct kr_host a, b, c;

	(void)state;
	world.model.latency_us = 5;
	kr_host_init(&a, &world.model, false);
	kr_host_init(&b, &world.model, false);
	kr_host_init(&c, &world.model, false);
	kr_send_data(&world, &a, &b, 1000000, note_time, &world, (uintptr_t)&first);
	kr_send_data(&world, &a, &c, 1000000, note_time, &world, (uintptr_t)&second);
	kr_send_data(&world, &c, &a, 1000000, note_time, &world, (uintptr_t)&third);
	kr_send_message(&world, &a, &b, note_time, &world, (uintptr_t)&message);
	kr_events_run(&world.events);
	assert_int_equal(first, 10000000 + 5000);
	assert_int_equal(second, 20000000 + 5000);
	assert_int_equal(third, 10000000 + 5000); /* the other direction */
	/* A block at each of both ends, and itself. */
	assert_int_equal(message, 2 * (KR_BLOCK_SIZE + KR_MESSAGE_BYTES) * BYTE_NS + 5000);
	kr_world_fini(&world);
}

static void a_node_reads_at_the_rate_of_its_link(void **state)
{
	(void)state;
	assert_within_1_percent(kr_growth_read(&plain).seconds, 512e-9 * BLOCK_NS);
}

static void each_further_node_is_later_by_one_block(void **state)
{
	struct kr_workload workload = on_nodes(8);
	double one = kr_growth_read(&plain).seconds;
	struct kr_outcome eight = kr_growth_read(&workload);

	(void)state;
	assert_within_1_percent(eight.seconds, 519e-9 * BLOCK_NS);
	assert_within_1_percent(eight.server_bytes, 512.0 * (KR_BLOCK_SIZE + KR_MESSAGE_BYTES));
	/* Requests meet blocks on their way, until windows are open. */
	workload = on_nodes(300);
	assert_between(kr_growth_read(&workload).seconds - one, 299e-9 * BLOCK_NS, 1.25 * 299e-9 * BLOCK_NS);
}

static void a_server_feeds_each_ring_once(void **state)
{
	struct kr_workload workload = on_nodes(12);
	double all;

	(void)state;
	workload.rings = 3;
	all = kr_growth_read(&workload).seconds;
	assert_within_1_percent(all, (3 * 512 + 3) * 1e-9 * BLOCK_NS);
	workload.all = false;
	assert_within_1_percent(kr_growth_read(&workload).seconds, all);
}

static void a_gateway_feeds_its_ring_and_the_next_gateway(void **state)
{
	struct kr_workload workload = on_nodes(12);
	double all;

	(void)state;
	workload.rings = 3;
	workload.gateways = true;
	all = kr_growth_read(&workload).seconds;
	/* Twice over its link; a window of each is sent in one go. */
	assert_between(all, 2 * 512e-9 * BLOCK_NS, 2 * (512 + 2 * 20) * 1e-9 * BLOCK_NS);
	workload.all = false;
	assert_between(kr_growth_read(&workload).seconds, 0.98 * all, 1.02 * all);
}

static void a_chain_of_writers_fills_the_servers_link(void **state)
{
	struct kr_workload workload = on_nodes(8);
	struct kr_outcome eight = kr_growth_flush(&workload);

	(void)state;
	assert_within_1_percent(kr_growth_flush(&plain).seconds, 64e-9 * BLOCK_NS);
	/* The first to ask has a round of its own. */
	assert_within_1_percent(eight.seconds, (8 * 64 + 6) * 1e-9 * BLOCK_NS);
	assert_within_1_percent(eight.server_bytes, 8.0 * 64 * (KR_BLOCK_SIZE + KR_MESSAGE_BYTES));
}

static void a_slow_disk_of_the_server_is_what_a_chain_waits_for(void **state)
{
	struct kr_workload workload = on_nodes(8);

	(void)state;
	workload.records = 640;
	workload.model.server_disk = 50;
	assert_within_1_percent(kr_growth_flush(&workload).seconds, 8 * 640e-9 * 20 * KR_BLOCK_SIZE);
}

static void a_writer_costs_two_messages_for_each_reader(void **state)
{
	struct kr_workload workload = on_nodes(100);

	(void)state;
	assert_int_equal((int)kr_growth_recall(&workload).server_messages, 2 * 100 + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(transfers_of_one_host_follow_each_other_and_messages_overtake),
		cmocka_unit_test(a_node_reads_at_the_rate_of_its_link),
		cmocka_unit_test(each_further_node_is_later_by_one_block),
		cmocka_unit_test(a_server_feeds_each_ring_once),
		cmocka_unit_test(a_gateway_feeds_its_ring_and_the_next_gateway),
		cmocka_unit_test(a_chain_of_writers_fills_the_servers_link),
		cmocka_unit_test(a_slow_disk_of_the_server_is_what_a_chain_waits_for),
		cmocka_unit_test(a_writer_costs_two_messages_for_each_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The lease machine of one file, and nodes behind ordered channels that announce, hear and answer when the test says
 * so. */
#ifndef KR_TEST_LEASE_TABLE_FIXTURE_H
#define KR_TEST_LEASE_TABLE_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/util.h"
#include "server/leases/lease_table.h"

enum { NODES = 6, ASKS = 64, MESSAGES = 4096 };

struct ask {
	struct kr_lease_waiter waiter;
	bool used, waiting, granted;
	uint64_t asked; /* moment of asking */
};
/* A frame on its way to a node: a grant, or a recall. */
struct message {
	bool recall;
	uint8_t kinds;
	uint64_t number;
};
struct world {
	struct kr_lease_table table;
	struct ask asks[ASKS];
	struct message sent[NODES + 1][MESSAGES];
	size_t sent_count[NODES + 1], delivered[NODES + 1];
	uint8_t believed[NODES + 1]; /* what the node thinks it holds */
	uint32_t unannounced[NODES + 1];
	uint8_t unannounced_kinds[NODES + 1];
	uint8_t held_before[NODES + 1]; /* at the beginning of the event */
	uint64_t now, grants, recalls;
	uint64_t rounds;
	uint64_t first[NODES + 1]; /* of the nodes' uncommitted bytes; 0: none */
};

static inline bool conflict(uint8_t a, uint8_t b)
{
	return ((a & KR_LEASE_READ) && (b & KR_LEASE_WRITE)) || ((a & KR_LEASE_WRITE) && (b & KR_LEASE_READ));
}

/* Whether they do not exclude each other because they are of one node. */
static inline bool same(const struct kr_lease_waiter *a, const struct kr_lease_waiter *b)
{
	return a->node == b->node && !(a->operation && b->operation);
}

/* Whether WAITER may be granted before OTHER, who asked earlier and excludes it. */
static inline bool may_overtake(
	const struct world *world, const struct kr_lease_waiter *waiter, const struct kr_lease_waiter *other)
{
	if (!waiter->operation)
		return (world->held_before[waiter->node] & waiter->kinds) == waiter->kinds;
	/* Its node is alone with the file. Of the operations for that node each waits for those that were asked before
	 * it. */
	return kr_lease_table_held(&world->table, waiter->node) == KR_LEASE_ALL && other->node != waiter->node;
}

/* READ, opens and operations wait for other nodes' bytes. */
static inline void check_commitment(const struct world *world, const struct kr_lease_waiter *waiter)
{
	if (waiter->commitment == KR_COMMITTED_NONE || (!waiter->operation && !(waiter->kinds & KR_LEASE_READ)) ||
		(!waiter->operation && (world->held_before[waiter->node] & waiter->kinds) == waiter->kinds))
		return;
	for (uint32_t node = 0; node <= NODES; node++) {
		bool own = node == waiter->node && node != 0 && waiter->commitment != KR_COMMITTED_ALL;

		if (world->first[node] && !own)
			assert_true(waiter->kinds == 0 && world->first[node] > waiter->mark);
	}
}

static inline void on_grant(void *context, struct kr_lease_waiter *waiter)
{
	struct world *world = context;
	struct ask *ask = KR_CONTAINER_OF(waiter, struct ask, waiter);

	assert_true(ask->waiting);
	ask->waiting = false;
	ask->granted = true;
	world->grants++;
	check_commitment(world, waiter);
	for (size_t i = 0; i < ASKS; i++) { /* first come, first served, among those that exclude each other */
		const struct ask *other = &world->asks[i];

		if (other->waiting && other->asked < ask->asked && !same(&other->waiter, waiter) &&
			conflict(other->waiter.kinds, waiter->kinds))
			assert_true(may_overtake(world, waiter, &other->waiter));
	}
	if (!waiter->operation) {
		world->held_before[waiter->node] |= waiter->kinds;
		world->unannounced[waiter->node]++;
		world->unannounced_kinds[waiter->node] |= waiter->kinds;
		ask->used = false;
	}
}

static inline void on_recall(void *context, uint32_t node, uint8_t kinds, uint64_t number)
{
	struct world *world = context;

	assert_int_equal(world->unannounced[node], 0);
	assert_int_equal(kr_lease_table_held(&world->table, node) & kinds, kinds);
	assert_true(world->sent_count[node] < MESSAGES);
	world->sent[node][world->sent_count[node]++] =
		(struct message){.recall = true, .kinds = kinds, .number = number};
	world->recalls++;
}

static inline void on_awaited(void *context, struct kr_lease_await *await)
{
	(void)context;
	assert_false(kr_link_linked(&await->link));
	await->node = 0; /* told */
}

static const struct kr_lease_actions actions = {on_grant, on_recall, on_awaited};

static inline int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	kr_lease_table_init(&world->table, &actions, world);
	*state = world;
	return 0;
}

static inline int teardown(void **state)
{
	struct world *world = *state;

	for (size_t i = 0; i < ASKS; i++) {
		if (world->asks[i].used) {
			world->asks[i].used = false;
			kr_list_remove(&world->asks[i].waiter.link);
		}
	}
	kr_lease_table_fini(&world->table);
	free(world);
	return 0;
}

static inline void remember(struct world *world)
{
	for (uint32_t node = 1; node <= NODES; node++)
		world->held_before[node] = kr_lease_table_held(&world->table, node);
}

static inline struct ask *ask_committed(
	struct world *world, uint32_t node, uint8_t kinds, bool operation, enum kr_lease_commitment commitment)
{
	for (size_t i = 0; i < ASKS; i++) {
		struct ask *ask = &world->asks[i];

		if (ask->used)
			continue;
		remember(world);
		*ask = (struct ask){.used = true,
			.waiting = true,
			.asked = ++world->now,
			.waiter = {.node = node, .kinds = kinds, .operation = operation, .commitment = commitment}};
		kr_lease_table_ask(&world->table, &ask->waiter);
		return ask;
	}
	return NULL;
}

static inline struct ask *ask_as(struct world *world, uint32_t node, uint8_t kinds, bool operation)
{
	return ask_committed(world, node, kinds, operation, KR_COMMITTED_OTHERS);
}

/* A round with bytes of NODE is applied. */
static inline uint64_t apply_round(struct world *world, uint32_t node)
{
	uint64_t round = ++world->rounds;

	if (!world->first[node])
		world->first[node] = round;
	kr_lease_table_uncommitted(&world->table, node, round);
	return round;
}

/* NODE has heard of the rounds before NEXT; 0: of all. */
static inline void commit(struct world *world, uint32_t node, uint64_t next)
{
	world->first[node] = next && world->first[node] ? KR_MAX(world->first[node], next) : 0;
	remember(world);
	kr_lease_table_committed(&world->table, node, next);
}

static inline void announce(struct world *world, uint32_t node)
{
	while (world->unannounced[node]) {
		world->unannounced[node]--;
		if (world->unannounced[node] == 0) {
			world->sent[node][world->sent_count[node]++] =
				(struct message){.kinds = world->unannounced_kinds[node]};
			world->unannounced_kinds[node] = 0;
		}
		kr_lease_table_announced(&world->table, node);
	}
}

/* Takes the next frame at the node; a recall is answered. */
static inline bool deliver(struct world *world, uint32_t node)
{
	struct message message;

	if (world->delivered[node] == world->sent_count[node])
		return false;
	message = world->sent[node][world->delivered[node]++];
	if (!message.recall) {
		world->believed[node] |= message.kinds;
		return true;
	}
	world->believed[node] &= (uint8_t)~message.kinds;
	kr_lease_table_recalled(&world->table, node, message.kinds, message.number);
	return true;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif

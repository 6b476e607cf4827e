/* The lease machine: its rules one by one, then random histories against nodes that answer late. */
#include "server/lease_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/util.h"

/* --- a world of nodes behind ordered channels ----------------------------------------------------------------------- */

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
	uint8_t believed[NODES + 1];      /* what the node thinks it holds */
	uint32_t unannounced[NODES + 1];
	uint8_t unannounced_kinds[NODES + 1];
	uint8_t held_before[NODES + 1];   /* at the beginning of the event */
	uint64_t now, grants, recalls;
};

static bool conflict(uint8_t a, uint8_t b)
{
	return ((a & KR_LEASE_READ) && (b & KR_LEASE_WRITE)) || ((a & KR_LEASE_WRITE) && (b & KR_LEASE_READ));
}

static void on_grant(void *context, struct kr_lease_waiter *waiter)
{
	struct world *world = context;
	struct ask *ask = KR_CONTAINER_OF(waiter, struct ask, waiter);

	assert_true(ask->waiting);
	ask->waiting = false;
	ask->granted = true;
	world->grants++;
	for (size_t i = 0; i < ASKS; i++) { /* first come, first served, among those that exclude each other */
		const struct ask *other = &world->asks[i];
		bool same = other->waiter.node == waiter->node && !(other->waiter.operation && waiter->operation);

		if (other->waiting && other->asked < ask->asked && !same && conflict(other->waiter.kinds, waiter->kinds))
			assert_true(!waiter->operation && (world->held_before[waiter->node] & waiter->kinds) == waiter->kinds);
	}
	if (!waiter->operation) {
		world->held_before[waiter->node] |= waiter->kinds;
		world->unannounced[waiter->node]++;
		world->unannounced_kinds[waiter->node] |= waiter->kinds;
		ask->used = false;
	}
}

static void on_recall(void *context, uint32_t node, uint8_t kinds, uint64_t number)
{
	struct world *world = context;

	assert_int_equal(world->unannounced[node], 0);
	assert_int_equal(kr_lease_table_held(&world->table, node) & kinds, kinds);
	assert_true(world->sent_count[node] < MESSAGES);
	world->sent[node][world->sent_count[node]++] = (struct message){.recall = true, .kinds = kinds, .number = number};
	world->recalls++;
}

static void on_awaited(void *context, struct kr_lease_await *await)
{
	(void)context;
	assert_false(kr_link_linked(&await->link));
	await->node = 0; /* told */
}

static const struct kr_lease_actions actions = {on_grant, on_recall, on_awaited};

static int setup(void **state)
{
	struct world *world = calloc(1, sizeof(*world));

	kr_lease_table_init(&world->table, &actions, world);
	*state = world;
	return 0;
}

static int teardown(void **state)
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

static void remember(struct world *world)
{
	for (uint32_t node = 1; node <= NODES; node++)
		world->held_before[node] = kr_lease_table_held(&world->table, node);
}

static struct ask *ask_as(struct world *world, uint32_t node, uint8_t kinds, bool operation)
{
	for (size_t i = 0; i < ASKS; i++) {
		struct ask *ask = &world->asks[i];

		if (ask->used)
			continue;
		remember(world);
		*ask = (struct ask){.used = true, .waiting = true, .asked = ++world->now,
			.waiter = {.node = node, .kinds = kinds, .operation = operation}};
		kr_lease_table_ask(&world->table, &ask->waiter);
		return ask;
	}
	return NULL;
}

static void announce(struct world *world, uint32_t node)
{
	while (world->unannounced[node]) {
		world->unannounced[node]--;
		if (world->unannounced[node] == 0) {
			world->sent[node][world->sent_count[node]++] = (struct message){.kinds = world->unannounced_kinds[node]};
			world->unannounced_kinds[node] = 0;
		}
		kr_lease_table_announced(&world->table, node);
	}
}

/* Takes the next frame at the node; a recall is answered. */
static bool deliver(struct world *world, uint32_t node)
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

static void check(struct world *world)
{
	const struct kr_lease_waiter *operation;

	for (uint32_t a = 1; a <= NODES; a++) {
		for (uint32_t b = a + 1; b <= NODES; b++) {
			assert_false(conflict(world->believed[a], world->believed[b]));
			assert_false(conflict(kr_lease_table_held(&world->table, a), kr_lease_table_held(&world->table, b)));
		}
		KR_LIST_FOR_EACH(operation, &world->table.operations, link) {
			if (operation->node != a) {
				assert_false(conflict(operation->kinds, kr_lease_table_held(&world->table, a)));
				assert_false(conflict(operation->kinds, world->believed[a]));
			}
		}
	}
}

/* --- rules ---------------------------------------------------------------------------------------------------------- */

static void readers_share_a_file(void **state)
{
	struct world *world = *state;

	for (uint32_t node = 1; node <= NODES; node++)
		assert_true(ask_as(world, node, KR_LEASE_READ, false)->granted);
	assert_int_equal(world->recalls, 0);
}

static void writers_share_a_file(void **state)
{
	struct world *world = *state;

	for (uint32_t node = 1; node <= NODES; node++)
		assert_true(ask_as(world, node, KR_LEASE_WRITE, false)->granted);
	assert_int_equal(world->recalls, 0);
}

static void a_reader_waits_until_the_writer_has_answered(void **state)
{
	struct world *world = *state;
	struct ask *reader;

	ask_as(world, 1, KR_LEASE_WRITE, false);
	announce(world, 1);
	reader = ask_as(world, 2, KR_LEASE_READ, false);
	assert_false(reader->granted);
	assert_true(deliver(world, 1)); /* the grant */
	assert_false(reader->granted);
	assert_true(deliver(world, 1)); /* the recall */
	assert_true(reader->granted);
	assert_int_equal(kr_lease_table_held(&world->table, 1), 0);
}

static void a_recall_is_sent_only_after_the_grant_was_announced(void **state)
{
	struct world *world = *state;

	ask_as(world, 1, KR_LEASE_READ, false);
	ask_as(world, 2, KR_LEASE_WRITE, false);
	assert_int_equal(world->recalls, 0);
	announce(world, 1);
	assert_int_equal(world->recalls, 1);
	assert_false(world->sent[1][0].recall);
	assert_true(world->sent[1][1].recall);
}

static void a_node_keeps_both_kinds_to_itself(void **state)
{
	struct world *world = *state;

	assert_true(ask_as(world, 1, KR_LEASE_ALL, false)->granted);
	assert_false(ask_as(world, 2, KR_LEASE_WRITE, false)->granted);
	announce(world, 1);
	while (deliver(world, 1))
		;
	assert_int_equal(kr_lease_table_held(&world->table, 1), KR_LEASE_WRITE);
	assert_int_equal(kr_lease_table_held(&world->table, 2), KR_LEASE_WRITE);
}

static void an_expired_node_sets_its_leases_free(void **state)
{
	struct world *world = *state;
	struct ask *writer;

	ask_as(world, 1, KR_LEASE_READ, false);
	announce(world, 1);
	writer = ask_as(world, 2, KR_LEASE_WRITE, false);
	assert_false(writer->granted);
	kr_lease_table_expire(&world->table, 1);
	assert_true(writer->granted);
	kr_lease_table_announced(&world->table, 1); /* of a node that is no more: nothing happens */
}

static void an_heir_holds_what_was_held_and_is_recalled_when_it_knows(void **state)
{
	struct world *world = *state;
	struct ask *reader;

	ask_as(world, 1, KR_LEASE_ALL, false);
	announce(world, 1);
	reader = ask_as(world, 2, KR_LEASE_READ, false);
	assert_int_equal(world->recalls, 1); /* and the node dies before it answers */
	kr_lease_table_inherit(&world->table, 1, 3);
	assert_int_equal(kr_lease_table_held(&world->table, 1), 0);
	assert_int_equal(kr_lease_table_held(&world->table, 3), KR_LEASE_ALL);
	assert_int_equal(world->recalls, 1);
	assert_false(reader->granted);
	kr_lease_table_announced(&world->table, 3);
	assert_int_equal(world->recalls, 2);
	assert_false(reader->granted);
	while (deliver(world, 3))
		;
	assert_true(reader->granted);
	kr_lease_table_inherit(&world->table, 1, 4); /* nothing is left there */
	assert_false(kr_lease_table_known(&world->table, 4));
}

static void an_operation_spares_the_leases_of_its_node(void **state)
{
	struct world *world = *state;
	struct ask *operation, *later;

	ask_as(world, 1, KR_LEASE_ALL, false);
	announce(world, 1);
	operation = ask_as(world, 1, KR_LEASE_ALL, true);
	assert_true(operation->granted);
	assert_int_equal(world->recalls, 0);
	later = ask_as(world, 1, KR_LEASE_ALL, true);
	assert_false(later->granted); /* operations exclude each other, whoever they are for */
	assert_false(ask_as(world, 2, KR_LEASE_READ, false)->granted);
	kr_lease_table_end(&world->table, &operation->waiter);
	operation->used = false;
	assert_true(later->granted);
	kr_lease_table_end(&world->table, &later->waiter);
	later->used = false;
	while (deliver(world, 1))
		;
	assert_int_equal(kr_lease_table_held(&world->table, 2), KR_LEASE_READ);
}

static void an_old_answer_does_not_count_for_a_new_recall(void **state)
{
	struct world *world = *state;
	struct message old;

	ask_as(world, 1, KR_LEASE_READ, false);
	announce(world, 1);
	ask_as(world, 2, KR_LEASE_WRITE, false);
	old = world->sent[1][1];
	kr_lease_table_release(&world->table, 1, KR_LEASE_READ); /* crosses the recall */
	announce(world, 2);
	ask_as(world, 1, KR_LEASE_READ, false);
	while (deliver(world, 2))
		;
	announce(world, 1);
	assert_int_equal(kr_lease_table_held(&world->table, 1), KR_LEASE_READ);
	kr_lease_table_recalled(&world->table, 1, old.kinds, old.number);
	assert_int_equal(kr_lease_table_held(&world->table, 1), KR_LEASE_READ);
	ask_as(world, 3, KR_LEASE_WRITE, false);
	kr_lease_table_recalled(&world->table, 1, old.kinds, old.number);
	assert_int_equal(kr_lease_table_held(&world->table, 1), KR_LEASE_READ);
}

static void try_neither_recalls_nor_overtakes(void **state)
{
	struct world *world = *state;

	ask_as(world, 1, KR_LEASE_READ, false);
	announce(world, 1);
	assert_int_equal(kr_lease_table_try(&world->table, 2, KR_LEASE_ALL), KR_LEASE_READ);
	kr_lease_table_announced(&world->table, 2);
	assert_int_equal(world->recalls, 0);
	ask_as(world, 3, KR_LEASE_WRITE, false);
	assert_int_equal(kr_lease_table_try(&world->table, 4, KR_LEASE_READ), 0);
	assert_int_equal(kr_lease_table_try(&world->table, 1, KR_LEASE_READ), 0); /* under recall */
}

static void what_an_operation_leaves_to_its_node_comes_before_all_that_wait(void **state)
{
	struct world *world = *state;
	struct ask *operation = ask_as(world, 1, KR_LEASE_ALL, true), *reader = ask_as(world, 2, KR_LEASE_READ, false);

	assert_true(operation->granted && reader->waiting);
	assert_int_equal(kr_lease_table_try(&world->table, 1, KR_LEASE_WRITE), 0);
	assert_int_equal(kr_lease_table_leave(&world->table, &operation->waiter, KR_LEASE_WRITE), KR_LEASE_WRITE);
	kr_lease_table_end(&world->table, &operation->waiter);
	operation->used = false;
	assert_true(reader->waiting);
	assert_int_equal(world->recalls, 0); /* the node does not know yet */
	kr_lease_table_announced(&world->table, 1);
	assert_int_equal(world->recalls, 1);
	assert_int_equal(kr_lease_table_recalling(&world->table, 1), KR_LEASE_WRITE);
	kr_lease_table_recalled(&world->table, 1, KR_LEASE_WRITE, world->sent[1][0].number);
	assert_true(reader->granted);
	announce(world, 2);
}

/* --- random histories ----------------------------------------------------------------------------------------------- */

static uint64_t random_state;
static uint32_t random_below(uint32_t limit)
{
	random_state = random_state * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(random_state >> 33) % limit;
}

static void random_event(struct world *world)
{
	uint32_t node = 1 + random_below(NODES);
	uint8_t kinds = (uint8_t)(1 + random_below(3));
	struct ask *ask = &world->asks[random_below(ASKS)];

	remember(world);
	switch (random_below(10)) {
	case 0: case 1: case 2:
		ask_as(world, node, kinds, false);
		break;
	case 3:
		ask_as(world, random_below(NODES + 1), kinds | KR_LEASE_READ, true);
		break;
	case 4:
		if (ask->used && ask->waiting && random_below(3) == 0) {
			ask->used = ask->waiting = false;
			kr_lease_table_withdraw(&world->table, &ask->waiter);
		}
		break;
	case 5:
		if (ask->used && ask->granted) {
			ask->used = false;
			kr_lease_table_end(&world->table, &ask->waiter);
		}
		break;
	case 6:
		/* A node gives back by itself only what it knows to hold, when no grant is on its way to it. */
		if (!world->unannounced[node] && world->delivered[node] == world->sent_count[node] && random_below(2)) {
			world->believed[node] &= (uint8_t)~kinds;
			kr_lease_table_release(&world->table, node, kinds);
		}
		break;
	case 7:
		announce(world, node);
		break;
	case 8:
		if (random_below(4) == 0)
			kr_lease_table_revoke(&world->table, kinds);
		break;
	default:
		deliver(world, node);
	}
}

static void drain(struct world *world)
{
	bool again;

	do {
		again = false;
		for (size_t i = 0; i < ASKS; i++) {
			struct ask *ask = &world->asks[i];

			if (ask->used && ask->granted) {
				ask->used = false;
				remember(world);
				kr_lease_table_end(&world->table, &ask->waiter);
				again = true;
			}
		}
		for (uint32_t node = 1; node <= NODES; node++) {
			announce(world, node);
			remember(world);
			again |= deliver(world, node);
		}
		check(world);
	} while (again);
}

static void what_is_revoked_is_asked_back_once_from_everybody(void **state)
{
	struct world *world = *state;

	for (uint32_t node = 1; node <= NODES; node++)
		ask_as(world, node, KR_LEASE_READ, false);
	for (uint32_t node = 2; node <= NODES; node++)
		announce(world, node);
	kr_lease_table_revoke(&world->table, KR_LEASE_READ);
	kr_lease_table_revoke(&world->table, KR_LEASE_READ);
	assert_int_equal(world->recalls, NODES - 1); /* node 1 has not heard of its grant yet */
	announce(world, 1);
	assert_int_equal(world->recalls, NODES);
	for (uint32_t node = 1; node <= NODES; node++) {
		assert_false(kr_lease_table_try(&world->table, node, KR_LEASE_READ));
		while (deliver(world, node))
			;
		assert_int_equal(kr_lease_table_held(&world->table, node), 0);
	}
	assert_true(kr_lease_table_try(&world->table, 1, KR_LEASE_READ));
	kr_lease_table_announced(&world->table, 1);
}

static void revoking_spares_the_other_kind(void **state)
{
	struct world *world = *state;

	ask_as(world, 1, KR_LEASE_ALL, false);
	announce(world, 1);
	kr_lease_table_revoke(&world->table, KR_LEASE_READ);
	while (deliver(world, 1))
		;
	assert_int_equal(kr_lease_table_held(&world->table, 1), KR_LEASE_WRITE);
}

static void who_waits_for_readers_of_old_bytes_waits_for_those_alone(void **state)
{
	struct world *world = *state;
	struct kr_lease_await first, second;

	for (uint32_t node = 1; node <= 3; node++)
		ask_as(world, node, KR_LEASE_READ, false);
	announce(world, 1);
	announce(world, 2);
	assert_true(kr_lease_table_await(&world->table, 1, &first)); /* nothing has changed yet */
	kr_lease_table_outdate(&world->table);
	assert_int_equal(world->recalls, 2); /* 3 has not heard of its grant yet */
	assert_false(kr_lease_table_await(&world->table, 1, &first));
	while (deliver(world, 2))
		;
	assert_int_equal(first.node, 1);
	announce(world, 3);
	ask_as(world, 2, KR_LEASE_READ, false);
	announce(world, 2);
	kr_lease_table_outdate(&world->table); /* what 2 has now is older than this, but younger than the first */
	assert_false(kr_lease_table_await(&world->table, 1, &second));
	while (deliver(world, 3))
		;
	assert_int_equal(first.node, 0);
	assert_int_equal(second.node, 1);
	kr_lease_table_expire(&world->table, 2);
	assert_int_equal(second.node, 0);
	assert_int_equal(kr_lease_table_held(&world->table, 1), KR_LEASE_READ); /* one's own does not matter */
}

static void an_heir_is_asked_for_what_was_outdated(void **state)
{
	struct world *world = *state;
	struct kr_lease_await await;
	uint64_t recalls;

	ask_as(world, 1, KR_LEASE_ALL, false);
	announce(world, 1);
	kr_lease_table_outdate(&world->table);
	recalls = world->recalls;
	assert_false(kr_lease_table_await(&world->table, 2, &await));
	kr_lease_table_inherit(&world->table, 1, 3);
	assert_false(await.node == 0);
	kr_lease_table_announced(&world->table, 3);
	assert_int_equal(world->recalls, recalls + 1);
	while (deliver(world, 3))
		;
	assert_int_equal(await.node, 0);
	assert_int_equal(kr_lease_table_held(&world->table, 3), KR_LEASE_WRITE);
}

static void random_histories_neither_mix_holders_nor_lose_waiters(void **state)
{
	struct world *world = *state;

	for (uint64_t seed = 1; seed <= 400; seed++) {
		random_state = seed;
		for (int step = 0; step < 600; step++) {
			random_event(world);
			check(world);
		}
		drain(world);
		for (size_t i = 0; i < ASKS; i++) {
			if (world->asks[i].used)
				fail_msg("seed %lu: ask %zu still waits", (unsigned long)seed, i);
		}
		for (uint32_t node = 1; node <= NODES; node++) {
			kr_lease_table_expire(&world->table, node);
			world->believed[node] = 0;
			world->sent_count[node] = world->delivered[node] = 0;
		}
		assert_true(kr_list_empty(&world->table.holders));
		assert_true(kr_list_empty(&world->table.operations));
		assert_true(kr_list_empty(&world->table.waiting));
		assert_true(kr_list_empty(&world->table.awaits));
	}
	assert_true(world->grants > 10000 && world->recalls > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_reader_waits_until_the_writer_has_answered),
		TEST(an_expired_node_sets_its_leases_free),
		TEST(random_histories_neither_mix_holders_nor_lose_waiters),
		TEST(readers_share_a_file),
		TEST(writers_share_a_file),
		TEST(a_recall_is_sent_only_after_the_grant_was_announced),
		TEST(a_node_keeps_both_kinds_to_itself),
		TEST(an_heir_holds_what_was_held_and_is_recalled_when_it_knows),
		TEST(an_operation_spares_the_leases_of_its_node),
		TEST(an_old_answer_does_not_count_for_a_new_recall),
		TEST(try_neither_recalls_nor_overtakes),
		TEST(what_an_operation_leaves_to_its_node_comes_before_all_that_wait),
		TEST(what_is_revoked_is_asked_back_once_from_everybody),
		TEST(revoking_spares_the_other_kind),
		TEST(who_waits_for_readers_of_old_bytes_waits_for_those_alone),
		TEST(an_heir_is_asked_for_what_was_outdated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

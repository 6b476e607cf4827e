/* Random histories of the lease machine, against nodes that answer late. */
#include "test/unit/server/leases/lease_table_fixture.h"

static void check(struct world *world)
{
	const struct kr_lease_waiter *operation;

	for (uint32_t a = 1; a <= NODES; a++) {
		for (uint32_t b = a + 1; b <= NODES; b++) {
			assert_false(conflict(world->believed[a], world->believed[b]));
			assert_false(
				conflict(kr_lease_table_held(&world->table, a), kr_lease_table_held(&world->table, b)));
		}
		KR_LIST_FOR_EACH(operation, &world->table.operations, link) {
			if (operation->node != a) {
				assert_false(conflict(operation->kinds, kr_lease_table_held(&world->table, a)));
				assert_false(conflict(operation->kinds, world->believed[a]));
			}
		}
	}
}

/* --- who waits until others have given old bytes back ----------------------------------------- */

enum { AWAITS = 8 };
static struct {
	uint32_t old; /* nodes, by bits, that have had READ since before the file last changed */
	struct {
		struct kr_lease_await await; /* node 0: it has happened */
		bool used;
		uint32_t old; /* of those: who has not given it back yet */
	} awaits[AWAITS];
} reads;

static void change(struct world *world)
{
	for (uint32_t node = 1; node <= NODES; node++)
		reads.old |= kr_lease_table_held(&world->table, node) & KR_LEASE_READ ? 1u << node : 0;
	kr_lease_table_outdate(&world->table);
}

static void begin_await(struct world *world, uint32_t node, size_t i)
{
	bool happened;

	if (reads.awaits[i].used)
		return;
	reads.awaits[i].old = reads.old & ~(1u << node);
	happened = kr_lease_table_await(&world->table, node, &reads.awaits[i].await);
	assert_int_equal(happened, reads.awaits[i].old == 0);
	reads.awaits[i].used = !happened;
}

/* NODE is about to give KINDS back. */
static void lets_go(uint32_t node, uint8_t kinds)
{
	if (!(kinds & KR_LEASE_READ))
		return;
	reads.old &= ~(1u << node);
	for (size_t i = 0; i < AWAITS; i++)
		reads.awaits[i].old &= ~(1u << node);
}

static void check_awaits(void)
{
	for (size_t i = 0; i < AWAITS; i++) {
		if (!reads.awaits[i].used)
			continue;
		assert_int_equal(reads.awaits[i].await.node == 0, reads.awaits[i].old == 0);
		reads.awaits[i].used = reads.awaits[i].old != 0;
	}
}

static void deliver_next(struct world *world, uint32_t node)
{
	size_t next = world->delivered[node];

	if (next < world->sent_count[node] && world->sent[node][next].recall)
		lets_go(node, world->sent[node][next].kinds);
	deliver(world, node);
}

/* --- dice ------------------------------------------------------------------------------------- */

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
	switch (random_below(14)) {
	case 0:
	case 1:
	case 2:
		ask_as(world, node, kinds, false);
		break;
	case 3:
		ask_committed(world, random_below(NODES + 1), random_below(4) ? kinds | KR_LEASE_READ : 0, true,
			(enum kr_lease_commitment)random_below(3));
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
			lets_go(node, kinds);
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
	case 9:
		if (random_below(4) == 0)
			change(world);
		break;
	case 11: /* by a holder of WRITE, or what is sent again */
		if (kr_lease_table_held(&world->table, node) & KR_LEASE_WRITE || world->first[node])
			apply_round(world, node);
		break;
	case 12:
		node = random_below(NODES + 1);
		commit(world, node, random_below(3) ? 0 : world->rounds - random_below(5));
		break;
	case 10:
		begin_await(world, node, random_below(AWAITS));
		break;
	default:
		deliver_next(world, node);
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
			again |= world->first[node] != 0;
			commit(world, node, 0);
			again |= world->delivered[node] < world->sent_count[node];
			deliver_next(world, node);
		}
		check(world);
		check_awaits();
	} while (again);
}

static void random_histories_neither_mix_holders_nor_lose_waiters(void **state)
{
	struct world *world = *state;

	for (uint64_t seed = 1; seed <= 400; seed++) {
		random_state = seed;
		for (int step = 0; step < 600; step++) {
			random_event(world);
			check(world);
			check_awaits();
		}
		drain(world);
		for (size_t i = 0; i < ASKS; i++) {
			if (world->asks[i].used)
				fail_msg("seed %lu: ask %zu still waits", (unsigned long)seed, i);
		}
		for (size_t i = 0; i < AWAITS; i++)
			assert_false(reads.awaits[i].used); /* all that was asked back has been given */
		for (uint32_t node = 1; node <= NODES; node++) {
			lets_go(node, KR_LEASE_ALL);
			kr_lease_table_expire(&world->table, node);
			world->first[node] = 0;
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
		TEST(random_histories_neither_mix_holders_nor_lose_waiters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Notes: the server's table of who may have them against nodes that answer late, and a node's store of them. */
#include "server/leases/invalidation_table.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "common/rpc/attr_cache.h"
#include "common/base/util.h"
#include "fuse/names/attr_cache_store.h"

/* --- the table -------------------------------------------------------------------------------- */

static struct kr_invalidation_table table;

static int set_up(void **state)
{
	(void)state;
	kr_invalidation_table_init(&table);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kr_invalidation_table_fini(&table);
	return 0;
}

static bool others_cache(uint32_t bucket, uint32_t node, uint64_t now_ms)
{
	return kr_invalidation_table_holders(&table, bucket, now_ms) & ~kr_attr_cache_node_bit(node);
}

static void what_was_looked_up_before_a_change_ended_is_not_noted(void **state)
{
	uint64_t before = table.moment;

	(void)state;
	assert_int_equal(kr_invalidation_table_begin(&table, 7, 0), 0);
	assert_false(kr_invalidation_table_grant(&table, 7, 1, table.moment, 0, 0));
	assert_true(kr_invalidation_table_grant(&table, 8, 1, table.moment, 0, 0));
	kr_invalidation_table_end(&table, 7);
	assert_false(kr_invalidation_table_grant(&table, 7, 1, before, 0, 0));
	assert_true(kr_invalidation_table_grant(&table, 7, 1, table.moment, 0, 0));
	before = table.moment;
	kr_invalidation_table_end_all(&table);
	assert_false(kr_invalidation_table_grant(&table, 8, 1, before, 0, 0));
}

static void who_changes_may_note_what_it_made_if_it_is_alone(void **state)
{
	(void)state;
	kr_invalidation_table_begin(&table, 7, 0);
	assert_true(kr_invalidation_table_grant(&table, 7, 1, table.moment, 1, 0));
	kr_invalidation_table_begin(&table, 7, 0);
	assert_false(kr_invalidation_table_grant(&table, 7, 1, table.moment, 1, 0));
}

static void holders_are_known_until_they_forgot_or_it_is_long_ago(void **state)
{
	(void)state;
	assert_true(kr_invalidation_table_grant(&table, 7, 1, table.moment, 0, 1000));
	assert_true(kr_invalidation_table_grant(&table, 7, 2, table.moment, 0, 2000));
	assert_true(others_cache(7, 1, 2000));
	assert_int_equal(
		kr_invalidation_table_begin(&table, 7, 2000), kr_attr_cache_node_bit(1) | kr_attr_cache_node_bit(2));
	kr_invalidation_table_answered(&table, 7, kr_attr_cache_node_bit(2));
	kr_invalidation_table_end(&table, 7);
	assert_false(others_cache(7, 1, 2000));
	assert_true(others_cache(7, 3, 2000 + KR_ATTR_CACHE_GRANT_MS));
	assert_false(others_cache(7, 3, 2001 + KR_ATTR_CACHE_GRANT_MS));
}

static void who_is_told_is_told_once_for_each_grant(void **state)
{
	(void)state;
	kr_invalidation_table_grant(&table, 7, 1, table.moment, 0, 0);
	assert_int_equal(kr_invalidation_table_notify(&table, 7, kr_attr_cache_node_bit(2)), 0);
	assert_int_equal(kr_invalidation_table_notify(&table, 7, UINT64_MAX), kr_attr_cache_node_bit(1));
	assert_int_equal(kr_invalidation_table_notify(&table, 7, UINT64_MAX), 0);
	assert_true(others_cache(7, 2, 0)); /* it has not answered: others still have to ask */
	kr_invalidation_table_grant(&table, 7, 1, table.moment, 0, 0);
	assert_int_equal(kr_invalidation_table_notify(&table, 7, UINT64_MAX), kr_attr_cache_node_bit(1));
}

static void who_makes_others_forget_is_alone_for_a_while(void **state)
{
	(void)state;
	kr_invalidation_table_begin(&table, 7, 0);
	kr_invalidation_table_defer(&table, 7, 1, 1000);
	kr_invalidation_table_end(&table, 7);
	assert_true(kr_invalidation_table_grant(&table, 7, 1, table.moment, 0, 1001));
	assert_false(kr_invalidation_table_grant(&table, 7, 2, table.moment, 0, 1001));
	assert_true(kr_invalidation_table_grant(&table, 7, 2, table.moment, 0, 1000 + KR_ATTR_CACHE_DEFER_MS));
}

/* A world of nodes behind ordered channels: one slot, whose value grows with each change.  Nobody may say a value from
 * a note that is older than what anybody, or whoever changed it, has been told before. */
enum { NODES = 5, CHANNEL = 256, CHANGES = 4, STEPS = 400000 };

struct frame {
	enum { NOTE, INVALIDATE, TELL, FOUND, ANSWER } what; /* FOUND: not to be noted; ANSWER: to a change */
	uint64_t value;                                      /* NOTE, FOUND, ANSWER */
	int change;                                          /* INVALIDATE: asked for this one */
};

static struct {
	struct frame frames[NODES][CHANNEL];
	unsigned first[NODES], count[NODES];
	bool noted[NODES];
	uint64_t note[NODES];
	unsigned changing[NODES]; /* changes of its own under way: it says nothing from notes */
	/* Lookups under way: value and moment as they were read. */
	bool looking[NODES];
	uint64_t looked[NODES], since[NODES];
	struct {
		bool used, made;
		int node;
		unsigned unanswered;
		uint64_t asked, value;
	} changes[CHANGES];
	uint64_t value;    /* in the file */
	uint64_t promised; /* the latest that anybody has been told */
	uint64_t said;
} world;

static uint64_t random_state = 42;

static unsigned roll(unsigned sides)
{
	random_state = random_state * 6364136223846793005U + 1442695040888963407U;
	return (unsigned)(random_state >> 33) % sides;
}

static void send(int node, struct frame frame)
{
	assert_true(world.count[node] < CHANNEL);
	world.frames[node][(world.first[node] + world.count[node]++) % CHANNEL] = frame;
}

static void begin_change(int node, int number)
{
	uint64_t holders = kr_invalidation_table_begin(&table, 0, 0);

	world.changing[node]++;
	world.changes[number].used = true;
	world.changes[number].made = false;
	world.changes[number].node = node;
	world.changes[number].unanswered = 0;
	world.changes[number].asked = holders & ~kr_attr_cache_node_bit((uint32_t)node);
	for (int other = 0; other < NODES; other++) {
		if (other == node || !(holders & kr_attr_cache_node_bit((uint32_t)other)))
			continue;
		send(other, (struct frame){INVALIDATE, 0, number});
		world.changes[number].unanswered++;
	}
}

static void go_on_with(int number)
{
	int node = world.changes[number].node;

	if (world.changes[number].unanswered)
		return;
	if (!world.changes[number].made) {
		kr_invalidation_table_answered(&table, 0, world.changes[number].asked);
		world.changes[number].value = ++world.value;
		world.changes[number].made = true;
		return;
	}
	if (kr_invalidation_table_notify(&table, 0, kr_attr_cache_node_bit((uint32_t)node)))
		send(node, (struct frame){TELL, 0, 0});
	kr_invalidation_table_end(&table, 0);
	world.changes[number].used = false;
	send(node, (struct frame){ANSWER, world.changes[number].value, 0});
}

static void receive(int node)
{
	struct frame frame;

	if (!world.count[node])
		return;
	frame = world.frames[node][world.first[node]++ % CHANNEL];
	world.first[node] %= CHANNEL;
	world.count[node]--;
	switch (frame.what) {
	case NOTE:
		world.noted[node] = true;
		world.note[node] = frame.value;
		__attribute__((fallthrough));
	case FOUND:
		world.promised = KR_MAX(world.promised, frame.value);
		break;
	case INVALIDATE:
		world.changes[frame.change].unanswered--;
		__attribute__((fallthrough));
	case TELL:
		world.noted[node] = false;
		break;
	case ANSWER:
		world.changing[node]--;
		world.promised = KR_MAX(world.promised, frame.value);
		break;
	}
}

static void look(int node)
{
	if (!world.looking[node]) {
		world.looking[node] = true;
		world.since[node] = table.moment;
		world.looked[node] = UINT64_MAX;
	} else if (world.looked[node] == UINT64_MAX) {
		world.looked[node] = world.value; /* the job in the pool */
	} else {
		world.looking[node] = false;
		bool grant = kr_invalidation_table_grant(&table, 0, (uint32_t)node, world.since[node], 0, 0);

		send(node, (struct frame){grant ? NOTE : FOUND, world.looked[node], 0});
	}
}

static void no_node_ever_says_what_is_older_than_what_another_has_seen(void **state)
{
	(void)state;
	memset(&world, 0, sizeof(world));
	for (int step = 0; step < STEPS; step++) {
		int node = (int)roll(NODES), number = (int)roll(CHANGES);

		switch (roll(8)) {
		case 0:
			if (!world.changes[number].used && roll(8) == 0)
				begin_change(node, number);
			break;
		case 1:
			if (world.changes[number].used)
				go_on_with(number);
			break;
		case 2:
		case 3:
			look(node);
			break;
		default:
			receive(node);
		}
		table.buckets[0].deferred_ms = 0; /* the deferral is for speed only */
		for (int other = 0; other < NODES; other++) {
			if (world.noted[other] && !world.changing[other]) {
				assert_true(world.note[other] >= world.promised);
				world.said++;
			}
		}
	}
	assert_true(world.value > 1000 && world.said > 1000);
}

/* --- the store -------------------------------------------------------------------------------- */

static void notes_are_found_by_key_and_forgotten_by_slot(void **state)
{
	struct kr_attr_cache_store store;
	const struct kr_attr_cache_entry *note;

	(void)state;
	kr_attr_cache_store_init(&store);
	kr_attr_cache_store_put(&store, 1, "a", 1, 0, 0, "first", 6);
	kr_attr_cache_store_put(&store, 1, "b", 1, 0, -2, NULL, 0);
	kr_attr_cache_store_put(&store, 2, "c", 1, 0, 0, "third", 6);
	kr_attr_cache_store_put(&store, 1, "a", 1, 0, 0, "again", 6);
	note = kr_attr_cache_store_get(&store, "a", 1, 0);
	assert_non_null(note);
	assert_string_equal(kr_note_value(note), "again");
	note = kr_attr_cache_store_get(&store, "b", 1, 0);
	assert_non_null(note);
	assert_int_equal(note->err, -2);
	assert_null(kr_attr_cache_store_get(&store, "ab", 2, 0));
	kr_attr_cache_store_forget(&store, 1);
	assert_null(kr_attr_cache_store_get(&store, "a", 1, 0));
	assert_null(kr_attr_cache_store_get(&store, "b", 1, 0));
	assert_non_null(kr_attr_cache_store_get(&store, "c", 1, 0));
	kr_attr_cache_store_forget(&store, KR_ATTR_CACHE_ALL);
	assert_null(kr_attr_cache_store_get(&store, "c", 1, 0));
	assert_int_equal(store.bytes, 0);
	assert_int_equal(store.by_slot.count, 0);
	kr_attr_cache_store_fini(&store);
}

static void a_note_ends_with_its_age(void **state)
{
	struct kr_attr_cache_store store;
	const uint64_t age_ns = KR_ATTR_CACHE_MS * KR_NS_PER_MS;

	(void)state;
	kr_attr_cache_store_init(&store);
	store.life_ns = age_ns;
	kr_attr_cache_store_put(&store, 1, "a", 1, 1000, 0, "x", 1);
	assert_non_null(kr_attr_cache_store_get(&store, "a", 1, 1000 + age_ns));
	assert_null(kr_attr_cache_store_get(&store, "a", 1, 1001 + age_ns));
	kr_attr_cache_store_put(&store, 1, "b", 1, 1001 + age_ns, 0, "y", 1);
	assert_int_equal(store.by_key.count, 1); /* what is too old makes room */
	kr_attr_cache_store_fini(&store);
}

static void the_store_does_not_grow_without_bound(void **state)
{
	struct kr_attr_cache_store store;
	static char bytes[65536];

	(void)state;
	kr_attr_cache_store_init(&store);
	for (uint32_t i = 0; i < KR_ATTR_CACHE_MAX + 1000; i++)
		kr_attr_cache_store_put(&store, 3, &i, sizeof(i), i, 0, NULL, 0);
	assert_int_equal(store.by_key.count, KR_ATTR_CACHE_MAX);
	assert_null(kr_attr_cache_store_get(&store, &(uint32_t){0}, 4, KR_ATTR_CACHE_MAX));
	assert_non_null(kr_attr_cache_store_get(&store, &(uint32_t){KR_ATTR_CACHE_MAX}, 4, KR_ATTR_CACHE_MAX));
	for (uint32_t i = 0; i < 2000; i++)
		kr_attr_cache_store_put(&store, i, &i, sizeof(i), KR_ATTR_CACHE_MAX, 0, bytes, sizeof(bytes));
	assert_true(store.bytes <= KR_ATTR_CACHE_BYTES_MAX);
	kr_attr_cache_store_fini(&store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			what_was_looked_up_before_a_change_ended_is_not_noted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_changes_may_note_what_it_made_if_it_is_alone, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			holders_are_known_until_they_forgot_or_it_is_long_ago, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_is_told_is_told_once_for_each_grant, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_makes_others_forget_is_alone_for_a_while, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			no_node_ever_says_what_is_older_than_what_another_has_seen, set_up, tear_down),
		cmocka_unit_test(notes_are_found_by_key_and_forgotten_by_slot),
		cmocka_unit_test(a_note_ends_with_its_age),
		cmocka_unit_test(the_store_does_not_grow_without_bound),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

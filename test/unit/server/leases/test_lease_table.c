/* The rules of the lease machine, one by one. */
#include "test/unit/server/leases/lease_table_fixture.h"

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

/* What the node writes back before it gives its leases up may wait for the operation. */
static void an_operation_for_a_node_that_is_alone_goes_before_who_asks_the_node(void **state)
{
	struct world *world = *state;
	struct ask *reader, *operation, *another;

	ask_as(world, 1, KR_LEASE_ALL, false);
	announce(world, 1);
	reader = ask_as(world, 2, KR_LEASE_READ, false);
	assert_int_equal(world->recalls, 1);
	another = ask_as(world, 2, KR_LEASE_ALL, true);
	operation = ask_as(world, 1, KR_LEASE_ALL, true);
	assert_true(operation->granted && reader->waiting && another->waiting);
	kr_lease_table_end(&world->table, &operation->waiter);
	operation->used = false;
	assert_true(reader->waiting);
	while (deliver(world, 1))
		;
	assert_true(reader->granted);
	kr_lease_table_withdraw(&world->table, &another->waiter);
	another->used = another->waiting = false;
}

static void operations_for_a_node_that_is_alone_are_granted_in_the_order_of_asking(void **state)
{
	struct world *world = *state;
	struct ask *first, *second, *third;

	ask_as(world, 1, KR_LEASE_ALL, false);
	announce(world, 1);
	first = ask_as(world, 1, KR_LEASE_READ, true);
	second = ask_as(world, 1, KR_LEASE_ALL, true);
	third = ask_as(world, 1, KR_LEASE_READ, true); /* could go beside the first */
	assert_true(first->granted && second->waiting && third->waiting);
	kr_lease_table_end(&world->table, &first->waiter);
	first->used = false;
	assert_true(second->granted && third->waiting);
	kr_lease_table_end(&world->table, &second->waiter);
	second->used = false;
	assert_true(third->granted);
	kr_lease_table_end(&world->table, &third->waiter);
	third->used = false;
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

/* Since then it has old bytes, whatever changes later. */
static void who_reads_on_through_two_changes_is_waited_for_since_the_first(void **state)
{
	struct world *world = *state;
	struct kr_lease_await first, second;

	ask_as(world, 1, KR_LEASE_READ, false);
	announce(world, 1);
	kr_lease_table_outdate(&world->table);
	assert_false(kr_lease_table_await(&world->table, 2, &first));
	kr_lease_table_outdate(&world->table);
	ask_as(world, 3, KR_LEASE_READ, false);
	announce(world, 3);
	kr_lease_table_release(&world->table, 3, KR_LEASE_READ);
	assert_int_equal(first.node, 2);
	assert_false(kr_lease_table_await(&world->table, 2, &second));
	while (deliver(world, 1))
		;
	assert_int_equal(first.node, 0);
	assert_int_equal(second.node, 0);
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

/* --- uncommitted bytes ------------------------------------------------------------------------ */

static void a_reader_waits_until_others_are_committed_and_a_writer_does_not(void **state)
{
	struct world *world = *state;
	struct ask *reader;

	apply_round(world, 1);
	assert_true(ask_as(world, 1, KR_LEASE_ALL, false)->granted);
	kr_lease_table_announced(&world->table, 1);
	world->unannounced[1] = 0;
	kr_lease_table_release(&world->table, 1, KR_LEASE_ALL);
	assert_true(ask_as(world, 2, KR_LEASE_WRITE, false)->granted);
	kr_lease_table_expire(&world->table, 2);
	reader = ask_as(world, 3, KR_LEASE_READ, false);
	assert_false(reader->granted);
	assert_int_equal(kr_lease_table_try(&world->table, 4, KR_LEASE_ALL), 0); /* behind the reader */
	commit(world, 1, 0);
	assert_true(reader->granted);
}

static void try_leaves_read_out_while_others_are_uncommitted(void **state)
{
	struct world *world = *state;

	apply_round(world, 1);
	assert_int_equal(kr_lease_table_try(&world->table, 2, KR_LEASE_ALL), KR_LEASE_WRITE);
	assert_int_equal(kr_lease_table_try(&world->table, 1, KR_LEASE_WRITE), KR_LEASE_WRITE);
}

static void a_node_waits_for_its_own_bytes_only_among_those_of_others(void **state)
{
	struct world *world = *state;
	struct ask *reader;

	apply_round(world, 1);
	apply_round(world, 2);
	commit(world, 2, 0);
	reader = ask_as(world, 1, KR_LEASE_READ, false);
	assert_false(reader->granted);
	commit(world, 1, 0);
	assert_true(reader->granted);
	apply_round(world, 1);
	assert_true(ask_as(world, 1, KR_LEASE_READ, false)->granted);
}

static void an_operation_may_ask_for_the_nodes_own_bytes_or_for_none(void **state)
{
	struct world *world = *state;
	struct ask *all, *others, *none;

	apply_round(world, 1);
	others = ask_committed(world, 1, KR_LEASE_ALL, true, KR_COMMITTED_OTHERS);
	assert_true(others->granted);
	kr_lease_table_end(&world->table, &others->waiter);
	others->used = false;
	none = ask_committed(world, 0, KR_LEASE_ALL, true, KR_COMMITTED_NONE);
	assert_true(none->granted);
	kr_lease_table_end(&world->table, &none->waiter);
	none->used = false;
	all = ask_committed(world, 1, KR_LEASE_ALL, true, KR_COMMITTED_ALL);
	assert_false(all->granted);
	commit(world, 1, 0);
	assert_true(all->granted);
}

static void a_wait_without_kinds_is_for_what_is_applied_now(void **state)
{
	struct world *world = *state;
	uint64_t second;
	struct ask *open;

	apply_round(world, 1);
	second = apply_round(world, 1);
	open = ask_as(world, 2, 0, true);
	apply_round(world, 1);
	assert_false(open->granted);
	commit(world, 1, second);
	assert_false(open->granted);
	commit(world, 1, second + 1);
	assert_true(open->granted);
	assert_true(ask_as(world, 1, 0, true)->granted); /* its own */
	assert_int_equal(world->recalls, 0);
}

static void bytes_of_an_ended_session_are_uncommitted_still(void **state)
{
	struct world *world = *state;
	struct ask *reader;

	apply_round(world, 1);
	kr_lease_table_expire(&world->table, 1);
	world->first[0] = world->first[1];
	world->first[1] = 0;
	reader = ask_as(world, 2, KR_LEASE_READ, false);
	assert_false(reader->granted);
	commit(world, 0, 0);
	assert_true(reader->granted);
}

static void an_heir_without_write_inherits_what_is_uncommitted_and_no_lease(void **state)
{
	struct world *world = *state;
	struct ask *reader;

	assert_int_equal(kr_lease_table_try(&world->table, 1, KR_LEASE_READ), KR_LEASE_READ);
	kr_lease_table_announced(&world->table, 1);
	apply_round(world, 1);
	kr_lease_table_inherit(&world->table, 1, 5);
	world->first[5] = world->first[1];
	world->first[1] = 0;
	assert_int_equal(kr_lease_table_held(&world->table, 5), 0);
	reader = ask_as(world, 2, KR_LEASE_READ, false);
	assert_false(reader->granted);
	commit(world, 5, 0);
	assert_true(reader->granted);
	assert_false(kr_lease_table_known(&world->table, 5));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_reader_waits_until_the_writer_has_answered),
		TEST(an_expired_node_sets_its_leases_free),
		TEST(readers_share_a_file),
		TEST(writers_share_a_file),
		TEST(a_recall_is_sent_only_after_the_grant_was_announced),
		TEST(a_node_keeps_both_kinds_to_itself),
		TEST(an_heir_holds_what_was_held_and_is_recalled_when_it_knows),
		TEST(an_operation_spares_the_leases_of_its_node),
		TEST(an_old_answer_does_not_count_for_a_new_recall),
		TEST(try_neither_recalls_nor_overtakes),
		TEST(an_operation_for_a_node_that_is_alone_goes_before_who_asks_the_node),
		TEST(operations_for_a_node_that_is_alone_are_granted_in_the_order_of_asking),
		TEST(what_an_operation_leaves_to_its_node_comes_before_all_that_wait),
		TEST(what_is_revoked_is_asked_back_once_from_everybody),
		TEST(revoking_spares_the_other_kind),
		TEST(who_waits_for_readers_of_old_bytes_waits_for_those_alone),
		TEST(who_reads_on_through_two_changes_is_waited_for_since_the_first),
		TEST(an_heir_is_asked_for_what_was_outdated),
		TEST(a_reader_waits_until_others_are_committed_and_a_writer_does_not),
		TEST(try_leaves_read_out_while_others_are_uncommitted),
		TEST(a_node_waits_for_its_own_bytes_only_among_those_of_others),
		TEST(an_operation_may_ask_for_the_nodes_own_bytes_or_for_none),
		TEST(a_wait_without_kinds_is_for_what_is_applied_now),
		TEST(bytes_of_an_ended_session_are_uncommitted_still),
		TEST(an_heir_without_write_inherits_what_is_uncommitted_and_no_lease),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

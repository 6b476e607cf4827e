/* The node's half of leases, run against the server's lease table: random operations, delays, broken connections, lost
 * sessions.  Frames of one connection stay in order; everything else may happen in any.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/util.h"
#include "fuse/holder.h"
#include "server/lease_table.h"

enum { NODES = 3, OPS = 5, FRAMES = 64, STEPS = 5000, QUIET = 20000 };
enum frame_type { LEASE, RETURN, ANSWER, LEASE_REPLY, RETURN_REPLY, RECALL };

struct frame {
	enum frame_type type;
	uint8_t kinds;
	uint64_t number; /* of a request, or of a recall */
};
struct channel {
	struct frame frames[FRAMES];
	unsigned count;
};
/* What a node asks: at most one LEASE and one RETURN at a time. */
struct request {
	bool open, executed, waiting;
	struct frame frame;
	uint32_t generation;
	struct kr_lease_waiter waiter;
};
struct op {
	bool used, inside, page, through;
	uint8_t kinds;
	uint32_t epoch;
};
struct node {
	struct kr_holder holder;
	struct channel up, down;
	struct request lease, give;
	struct frame recall[2]; /* the server's, unanswered as far as it knows; by kind */
	struct frame heard[8];  /* those that have arrived and are not answered */
	unsigned heard_count;
	struct op ops[OPS];
	bool pages, page_dirty, flushing;
	bool fenced, lost;
	bool late; /* it gave WRITE up with bytes that the server had refused */
	uint8_t reclaiming;
	uint32_t generation;
	int base, known; /* the file's version under the lease; when pages were read */
};
struct world {
	struct kr_lease_table table;
	struct node node[NODES];
	int version; /* of the server's bytes */
	bool quiet, breaks;
	uint64_t next_number, served;
	uint64_t seed;
};

static uint32_t dice(struct world *world, uint32_t sides)
{
	world->seed = world->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(world->seed >> 33) % sides;
}

static void push(struct channel *channel, struct frame frame)
{
	assert_true(channel->count < FRAMES);
	channel->frames[channel->count++] = frame;
}

static struct frame shift(struct channel *channel)
{
	struct frame frame = channel->frames[0];

	memmove(&channel->frames[0], &channel->frames[1], --channel->count * sizeof(frame));
	return frame;
}

static unsigned index_of(const struct world *world, const struct node *node)
{
	return (unsigned)(node - world->node);
}

/* --- what must hold ------------------------------------------------------------------------------------------------------- */

static void check_write(struct world *world, struct node *writer)
{
	for (unsigned i = 0; i < NODES; i++) {
		struct node *other = &world->node[i];

		if (other == writer || other->fenced)
			continue;
		assert_false(other->pages);
		assert_int_equal(other->holder.readers, 0);
	}
}

static void check_read(struct world *world, struct node *reader)
{
	for (unsigned i = 0; i < NODES; i++) {
		const struct kr_holder *other = &world->node[i].holder;

		if (&world->node[i] == reader || world->node[i].fenced || world->node[i].lost)
			continue;
		assert_false(other->dirty && !other->mapped && !world->node[i].late);
	}
}

/* --- the server -------------------------------------------------------------------------------------------------------------- */

static void on_grant(void *context, struct kr_lease_waiter *waiter)
{
	struct world *world = context;
	struct node *node = &world->node[waiter->node - 1];

	node->lease.waiting = false;
	node->lease.executed = true;
	push(&node->down, (struct frame){ LEASE_REPLY, node->lease.frame.kinds, node->lease.frame.number });
}

static void on_recall(void *context, uint32_t number, uint8_t kinds, uint64_t recall)
{
	struct world *world = context;
	struct node *node = &world->node[number - 1];
	struct frame frame = { RECALL, kinds, recall };

	if (kinds & KR_LEASE_READ)
		node->recall[0] = frame;
	if (kinds & KR_LEASE_WRITE)
		node->recall[1] = frame;
	push(&node->down, frame);
}

static void announce(struct world *world, struct node *node)
{
	uint32_t number = index_of(world, node) + 1;
	struct kr_lease_holder *holder;

	/* The loop hands every reply to the connection before anything else happens. */
	for (bool again = true; again;) {
		again = false;
		KR_LIST_FOR_EACH(holder, &world->table.holders, link) {
			if (holder->node == number && holder->announcing) {
				kr_lease_table_announced(&world->table, number);
				again = true;
				break;
			}
		}
	}
}

static void announce_all(struct world *world)
{
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < NODES; i++)
			announce(world, &world->node[i]);
}

static void server_takes(struct world *world, struct node *node, struct frame frame)
{
	uint32_t number = index_of(world, node) + 1;

	switch (frame.type) {
	case LEASE:
		if (node->lease.executed || frame.number != node->lease.frame.number) { /* the reply cache */
			push(&node->down, (struct frame){ LEASE_REPLY, frame.kinds, frame.number });
		} else if (!node->lease.waiting) {
			node->lease.waiting = true;
			node->lease.waiter = (struct kr_lease_waiter){ .node = number, .kinds = frame.kinds };
			kr_lease_table_ask(&world->table, &node->lease.waiter);
		}
		break;
	case RETURN:
		if (!node->give.executed && frame.number == node->give.frame.number)
			kr_lease_table_release(&world->table, number, frame.kinds);
		node->give.executed |= frame.number == node->give.frame.number;
		push(&node->down, (struct frame){ RETURN_REPLY, 0, frame.number });
		break;
	case ANSWER:
		for (unsigned i = 0; i < 2; i++) {
			if (node->recall[i].number == frame.number)
				node->recall[i].number = 0;
		}
		kr_lease_table_recalled(&world->table, number, frame.kinds, frame.number);
		break;
	default:
		fail();
	}
	announce_all(world);
}

/* --- a node ------------------------------------------------------------------------------------------------------------------ */

static void act(struct world *world, struct node *node);

static void try_op(struct node *node, struct op *op)
{
	struct kr_holder *holder = &node->holder;

	if (op->inside && op->epoch == holder->epoch)
		return;
	op->inside = false;
	if (node->lost)
		return;
	/* Through also while fenced: that ends long before the server gives the lease away. */
	if ((node->fenced || !kr_holder_enter(holder, op->kinds)) &&
	    !(op->through && op->kinds == KR_LEASE_READ && kr_holder_enter_through(holder)))
		return;
	op->inside = true;
	op->epoch = holder->epoch;
	if (op->page)
		kr_holder_cached(holder);
}

static void step(struct world *world, struct node *node)
{
	uint8_t want = 0;

	act(world, node);
	for (unsigned i = 0; i < OPS; i++) {
		struct op *op = &node->ops[i];

		if (!op->used)
			continue;
		try_op(node, op);
		if (!op->inside)
			want |= op->kinds;
	}
	kr_holder_want(&node->holder, want);
	act(world, node);
}

static void send_request(struct world *world, struct node *node, struct request *request, enum frame_type type, uint8_t kinds)
{
	assert_false(request->open);
	*request = (struct request){ .open = true, .frame = { type, kinds, ++world->next_number }, .generation = node->generation };
	push(&node->up, request->frame);
}

static void answer_recalls(struct node *node)
{
	for (unsigned i = 0; i < node->heard_count; i++)
		push(&node->up, (struct frame){ ANSWER, node->heard[i].kinds, node->heard[i].number });
	node->heard_count = 0;
}

/* The rpc does not deliver again what is still to be answered. */
static bool hear(struct node *node, struct frame frame)
{
	for (unsigned i = 0; i < node->heard_count; i++) {
		if (node->heard[i].number == frame.number)
			return false;
	}
	assert_true(node->heard_count < KR_ARRAY_SIZE(node->heard));
	node->heard[node->heard_count++] = frame;
	return true;
}

static void note_late(struct node *node, uint8_t kinds)
{
	if ((kinds & KR_LEASE_WRITE) && node->holder.dirty) {
		assert_true(node->holder.refused);
		node->late = true;
	}
}

static void act(struct world *world, struct node *node)
{
	uint8_t kinds;

	if (node->lost)
		return;
	for (;;) {
		switch (kr_holder_next(&node->holder, &kinds)) {
		case KR_HOLDER_NOTHING:
			return;
		case KR_HOLDER_ASK:
			send_request(world, node, &node->lease, LEASE, kinds);
			break;
		case KR_HOLDER_FLUSH:
			assert_true(kr_holder_may_flush(&node->holder));
			node->flushing = true;
			break;
		case KR_HOLDER_DROP:
			break;
		case KR_HOLDER_ANSWER:
			if (kinds & KR_LEASE_READ)
				assert_false(node->pages);
			note_late(node, kinds);
			answer_recalls(node);
			break;
		case KR_HOLDER_RETURN:
			if (kinds & KR_LEASE_READ)
				assert_false(node->pages);
			note_late(node, kinds);
			send_request(world, node, &node->give, RETURN, kinds);
			break;
		}
	}
}

static void node_takes(struct world *world, struct node *node, struct frame frame)
{
	switch (frame.type) {
	case LEASE_REPLY:
		if (!node->lease.open || node->lease.frame.number != frame.number)
			return; /* answered twice, as a RESEND may be */
		node->lease.open = false;
		kr_holder_granted(&node->holder, node->lease.generation == node->generation);
		node->base = world->version;
		break;
	case RETURN_REPLY:
		if (!node->give.open || node->give.frame.number != frame.number)
			return;
		node->give.open = false;
		kr_holder_returned(&node->holder);
		break;
	case RECALL:
		if (hear(node, frame))
			kr_holder_recalled(&node->holder, frame.kinds);
		break;
	default:
		fail();
	}
	step(world, node);
}

static void serve(struct world *world, struct node *node, struct op *op)
{
	if (op->kinds & KR_LEASE_WRITE) {
		check_write(world, node);
		kr_holder_dirtied(&node->holder, false);
	}
	if (op->kinds & KR_LEASE_READ) {
		check_read(world, node);
		if (op->page) {
			node->pages = true;
			node->known = world->version;
		}
	}
	kr_holder_leave(&node->holder, op->kinds, op->epoch);
	*op = (struct op){ 0 };
	world->served++;
	step(world, node);
}

static void new_op(struct world *world, struct node *node)
{
	static const uint8_t kinds[] = { KR_LEASE_READ, KR_LEASE_WRITE, KR_LEASE_ALL };
	struct op *op = &node->ops[dice(world, OPS)];

	if (op->used)
		return;
	*op = (struct op){ .used = true, .kinds = kinds[dice(world, 3)] };
	op->page = op->kinds == KR_LEASE_READ && dice(world, 2);
	step(world, node);
}

static void end_flush(struct world *world, struct node *node)
{
	bool ok = world->quiet || dice(world, 8);

	node->flushing = false;
	if (ok) {
		node->base = ++world->version;
		node->late = false;
	}
	kr_holder_flushed(&node->holder, ok, ok);
	step(world, node);
}

/* The pages go when no parked read locks one of them; dirty ones come out as writes. */
static void end_drop(struct world *world, struct node *node)
{
	for (unsigned i = 0; i < OPS; i++) {
		struct op *op = &node->ops[i];

		if (op->used && op->page && !op->inside && !op->through && dice(world, 3)) {
			op->through = true; /* the timer */
			step(world, node);
			return;
		}
		if (op->used && op->page && op->through)
			return;
	}
	if (node->page_dirty)
		kr_holder_dirtied(&node->holder, true);
	node->pages = node->page_dirty = false;
	kr_holder_dropped(&node->holder);
	step(world, node);
}

/* --- broken connections, lost sessions ----------------------------------------------------------------------------------------- */

static void resend(struct node *node, struct request *a, struct request *b)
{
	if (a->open && b->open && a->frame.number > b->frame.number) {
		resend(node, b, a);
		return;
	}
	if (a->open)
		push(&node->up, a->frame);
	if (b->open)
		push(&node->up, b->frame);
}

static void reconnect(struct world *world, struct node *node)
{
	node->up.count = node->down.count = 0;
	node->generation++;
	if (node->recall[0].number)
		push(&node->down, node->recall[0]);
	if (node->recall[1].number && node->recall[1].number != node->recall[0].number)
		push(&node->down, node->recall[1]);
	resend(node, &node->lease, &node->give);
	(void)world;
}

/* First the node fences itself, much later the server lets its leases go. */
static void lose_session(struct world *world, struct node *node)
{
	uint32_t number = index_of(world, node) + 1;

	node->up.count = node->down.count = 0;
	if (node->lease.waiting)
		kr_lease_table_withdraw(&world->table, &node->lease.waiter);
	node->lease.waiting = node->lease.executed = node->give.executed = false;
	memset(node->recall, 0, sizeof(node->recall));
	node->heard_count = 0;
	kr_lease_table_expire(&world->table, number);
	announce_all(world);
	node->lost = true;
}

static void new_session(struct world *world, struct node *node)
{
	uint32_t number = index_of(world, node) + 1;
	uint8_t kinds = kr_holder_lost(&node->holder), got;

	got = kinds ? kr_lease_table_try(&world->table, number, kinds) : 0;
	announce_all(world);
	if (!(got & KR_LEASE_WRITE))
		node->late = node->holder.dirty;
	kr_holder_reclaimed(&node->holder, got, node->known == world->version);
	node->lost = node->fenced = false;
	node->generation++;
	resend(node, &node->lease, &node->give);
	step(world, node);
}

static void break_something(struct world *world, struct node *node)
{
	if (node->lost) {
		new_session(world, node);
	} else if (node->fenced) {
		if (dice(world, 2) == 0)
			node->fenced = false;
		else if (!node->pages) /* what the time between fencing and expiry is for */
			lose_session(world, node);
		step(world, node);
	} else if (dice(world, 4) == 0) {
		node->fenced = true;
		kr_holder_distrust(&node->holder);
		step(world, node);
	} else {
		reconnect(world, node);
	}
}

/* --- the runs -------------------------------------------------------------------------------------------------------------------- */

static void random_event(struct world *world)
{
	struct node *node = &world->node[dice(world, NODES)];
	struct op *op = &node->ops[dice(world, OPS)];

	switch (dice(world, 10)) {
	case 0:
	case 1:
		if (node->up.count && !node->lost)
			server_takes(world, node, shift(&node->up));
		break;
	case 2:
	case 3:
		if (node->down.count && !node->lost)
			node_takes(world, node, shift(&node->down));
		break;
	case 4:
		if (op->used && op->inside && op->epoch == node->holder.epoch && (!node->fenced || op->through) && !node->lost)
			serve(world, node, op);
		break;
	case 5:
		if (!world->quiet)
			new_op(world, node);
		break;
	case 6:
		if (node->flushing && !node->lost && !node->fenced)
			end_flush(world, node);
		break;
	case 7:
		if (node->holder.dropping)
			end_drop(world, node);
		break;
	case 8:
		if (!world->quiet && node->pages && !node->holder.suspect && dice(world, 4) == 0)
			node->page_dirty = true;
		else if (!world->quiet && dice(world, 10) == 0)
			kr_holder_release(&node->holder, KR_LEASE_ALL);
		else if (node->holder.refused && dice(world, 4) == 0)
			kr_holder_retry(&node->holder);
		step(world, node);
		break;
	default:
		/* Everybody flushes now and then. */
		if (node->holder.dirty && !node->flushing && !node->lost && !node->fenced && !node->holder.refused &&
		    kr_holder_may_flush(&node->holder))
			node->flushing = true;
		if (world->breaks && (node->fenced || node->lost || (!world->quiet && dice(world, 10) == 0)))
			break_something(world, node);
	}
}

static void assert_quiet(const struct world *world)
{
	for (unsigned i = 0; i < NODES; i++) {
		const struct node *node = &world->node[i];

		for (unsigned k = 0; k < OPS; k++)
			assert_false(node->ops[k].used);
		assert_false(node->holder.recall_open);
		assert_false(node->holder.asked);
		assert_false(node->holder.returning);
		assert_false(node->holder.dropping);
		assert_false(node->holder.dirty && !(node->holder.held & KR_LEASE_WRITE) && !node->holder.refused);
		assert_int_equal(node->holder.held, kr_lease_table_held(&world->table, i + 1));
	}
	assert_true(kr_list_empty(&world->table.waiting));
}

static void run(uint64_t seed, bool breaks)
{
	static const struct kr_lease_actions actions = { .grant = on_grant, .recall = on_recall };
	struct world *world = calloc(1, sizeof(*world));

	world->seed = seed;
	world->breaks = breaks;
	kr_lease_table_init(&world->table, &actions, world);
	for (unsigned i = 0; i < NODES; i++)
		kr_holder_init(&world->node[i].holder);
	for (unsigned i = 0; i < STEPS; i++)
		random_event(world);
	world->quiet = true;
	for (unsigned i = 0; i < QUIET; i++)
		random_event(world);
	assert_true(world->served > 10);
	if (!breaks)
		assert_quiet(world);
	else
		for (unsigned i = 0; i < NODES; i++)
			for (unsigned k = 0; k < OPS; k++)
				assert_false(world->node[i].ops[k].used);
	for (unsigned i = 0; i < NODES; i++)
		kr_lease_table_expire(&world->table, i + 1);
	kr_lease_table_fini(&world->table);
	free(world);
}

static void every_operation_is_served_and_none_under_a_lost_lease(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++)
		run(seed, false);
}

static void broken_connections_and_lost_sessions_change_nothing_of_that(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++)
		run(seed, true);
}

/* --- single rules ------------------------------------------------------------------------------------------------------------------ */

static enum kr_holder_action next(struct kr_holder *holder, uint8_t *kinds)
{
	return kr_holder_next(holder, kinds);
}

static void a_recall_of_what_is_not_held_is_answered_at_once(void **state)
{
	struct kr_holder holder;
	uint8_t kinds;

	(void)state;
	kr_holder_init(&holder);
	kr_holder_recalled(&holder, KR_LEASE_WRITE);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_ANSWER);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_NOTHING);
}

static void a_recall_of_write_waits_for_writers_and_the_flush(void **state)
{
	struct kr_holder holder;
	uint8_t kinds;

	(void)state;
	kr_holder_init(&holder);
	kr_holder_gained(&holder, KR_LEASE_WRITE);
	assert_true(kr_holder_enter(&holder, KR_LEASE_WRITE));
	kr_holder_dirtied(&holder, false);
	kr_holder_recalled(&holder, KR_LEASE_WRITE);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_NOTHING);
	assert_false(kr_holder_enter(&holder, KR_LEASE_WRITE));
	kr_holder_leave(&holder, KR_LEASE_WRITE, 0);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_FLUSH);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_NOTHING);
	kr_holder_flushed(&holder, true, true);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_ANSWER);
	assert_int_equal(holder.held, 0);
}

static void a_refused_flush_does_not_hold_a_recall_up(void **state)
{
	struct kr_holder holder;
	uint8_t kinds;

	(void)state;
	kr_holder_init(&holder);
	kr_holder_gained(&holder, KR_LEASE_WRITE);
	kr_holder_dirtied(&holder, false);
	kr_holder_recalled(&holder, KR_LEASE_WRITE);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_FLUSH);
	kr_holder_flushed(&holder, false, false);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_ANSWER);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_NOTHING);
	kr_holder_retry(&holder);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_ASK);
	assert_int_equal(kinds, KR_LEASE_WRITE);
}

static void pages_that_a_mapping_wrote_are_flushed_before_read_goes(void **state)
{
	struct kr_holder holder;
	uint8_t kinds;

	(void)state;
	kr_holder_init(&holder);
	kr_holder_gained(&holder, KR_LEASE_READ);
	assert_true(kr_holder_enter(&holder, KR_LEASE_READ));
	kr_holder_cached(&holder);
	kr_holder_leave(&holder, KR_LEASE_READ, 0);
	kr_holder_recalled(&holder, KR_LEASE_READ);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_DROP);
	kr_holder_dirtied(&holder, true);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_NOTHING);
	kr_holder_dropped(&holder);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_FLUSH);
	kr_holder_flushed(&holder, true, true);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_ANSWER);
}

static void a_read_let_through_makes_the_dropping_start_again(void **state)
{
	struct kr_holder holder;
	uint8_t kinds;

	(void)state;
	kr_holder_init(&holder);
	kr_holder_gained(&holder, KR_LEASE_READ);
	kr_holder_cached(&holder);
	kr_holder_recalled(&holder, KR_LEASE_READ);
	assert_false(kr_holder_enter_through(&holder));
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_DROP);
	assert_true(kr_holder_enter_through(&holder));
	kr_holder_dropped(&holder);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_NOTHING);
	kr_holder_leave(&holder, KR_LEASE_READ, 0);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_DROP);
	kr_holder_dropped(&holder);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_ANSWER);
}

static void a_grant_from_before_the_connection_broke_does_not_count(void **state)
{
	struct kr_holder holder;
	uint8_t kinds;

	(void)state;
	kr_holder_init(&holder);
	kr_holder_want(&holder, KR_LEASE_READ);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_ASK);
	kr_holder_granted(&holder, false);
	assert_int_equal(holder.held, 0);
	assert_int_equal(next(&holder, &kinds), KR_HOLDER_ASK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_recall_of_what_is_not_held_is_answered_at_once),
		cmocka_unit_test(a_recall_of_write_waits_for_writers_and_the_flush),
		cmocka_unit_test(a_refused_flush_does_not_hold_a_recall_up),
		cmocka_unit_test(pages_that_a_mapping_wrote_are_flushed_before_read_goes),
		cmocka_unit_test(a_read_let_through_makes_the_dropping_start_again),
		cmocka_unit_test(a_grant_from_before_the_connection_broke_does_not_count),
		cmocka_unit_test(every_operation_is_served_and_none_under_a_lost_lease),
		cmocka_unit_test(broken_connections_and_lost_sessions_change_nothing_of_that),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

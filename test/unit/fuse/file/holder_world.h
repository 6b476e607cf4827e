/* Nodes' halves of leases, run against the server's lease table: operations, delays, broken connections, lost sessions.
 * Frames of one connection stay in order; everything else may happen in any, by the dice of a seed.  (All orders of a
 * few deeds on two nodes: lease_world.h.)
 */
#ifndef KR_TEST_UNIT_HOLDER_WORLD_H
#define KR_TEST_UNIT_HOLDER_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/base/util.h"
#include "fuse/file/lease_state.h"
#include "server/leases/lease_table.h"

enum { NODES = 3, OPS = 5, FRAMES = 64, STEPS = 5000, QUIET = 20000 };
enum frame_type { LEASE, RETURN, ANSWER, LEASE_REPLY, RETURN_REPLY, RECALL };

struct frame {
	enum frame_type type;
	uint8_t kinds;
	uint64_t number; /* of a request, or of a recall */
};
#include "test/unit/fuse/file/lease_channel.h"
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
	struct kr_lease_state holder;
	struct channel up, down;
	struct request lease, give;
	struct frame recall[2]; /* the server's, unanswered as far as it knows; by kind */
	struct frame heard[8];  /* those that have arrived and are not answered */
	unsigned heard_count;
	struct op ops[OPS];
	bool pages, page_dirty, flushing;
	bool mappable; /* programs store into its pages: they come under both kinds */
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

static inline uint32_t dice(struct world *world, uint32_t sides)
{
	world->seed = world->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (uint32_t)(world->seed >> 33) % sides;
}

static inline unsigned index_of(const struct world *world, const struct node *node)
{
	return (unsigned)(node - world->node);
}

/* --- what must hold --------------------------------------------------------------------------- */

static inline void check_write(struct world *world, struct node *writer)
{
	for (unsigned i = 0; i < NODES; i++) {
		struct node *other = &world->node[i];

		if (other == writer || other->fenced)
			continue;
		assert_false(other->pages);
		assert_int_equal(other->holder.readers, 0);
	}
}

static inline void check_read(struct world *world, struct node *reader)
{
	for (unsigned i = 0; i < NODES; i++) {
		const struct kr_lease_state *other = &world->node[i].holder;

		if (&world->node[i] == reader || world->node[i].fenced || world->node[i].lost)
			continue;
		assert_false(other->dirty && !other->mapped && !world->node[i].late);
		assert_false(world->node[i].page_dirty && world->node[i].mappable && !other->suspect);
	}
}

/* A program stores into a page that is there: without a word to anybody. */
static inline void check_store(struct world *world, struct node *node)
{
	if (!node->mappable || node->lost || node->fenced)
		return;
	assert_int_equal(node->holder.held & KR_LEASE_ALL, KR_LEASE_ALL);
	check_write(world, node);
	check_read(world, node);
}

/* --- the server ------------------------------------------------------------------------------- */

static inline void on_grant(void *context, struct kr_lease_waiter *waiter)
{
	struct world *world = context;
	struct node *node = &world->node[waiter->node - 1];

	node->lease.waiting = false;
	node->lease.executed = true;
	push(&node->down, (struct frame){LEASE_REPLY, node->lease.frame.kinds, node->lease.frame.number});
}

static inline void on_recall(void *context, uint32_t number, uint8_t kinds, uint64_t recall)
{
	struct world *world = context;
	struct node *node = &world->node[number - 1];
	struct frame frame = {RECALL, kinds, recall};

	if (kinds & KR_LEASE_READ)
		node->recall[0] = frame;
	if (kinds & KR_LEASE_WRITE)
		node->recall[1] = frame;
	push(&node->down, frame);
}

static inline void announce(struct world *world, struct node *node)
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

static inline void announce_all(struct world *world)
{
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < NODES; i++)
			announce(world, &world->node[i]);
}

static inline void server_takes(struct world *world, struct node *node, struct frame frame)
{
	uint32_t number = index_of(world, node) + 1;

	switch (frame.type) {
	case LEASE:
		if (node->lease.executed || frame.number != node->lease.frame.number) { /* the reply cache */
			push(&node->down, (struct frame){LEASE_REPLY, frame.kinds, frame.number});
		} else if (!node->lease.waiting) {
			node->lease.waiting = true;
			node->lease.waiter = (struct kr_lease_waiter){.node = number, .kinds = frame.kinds};
			kr_lease_table_ask(&world->table, &node->lease.waiter);
		}
		break;
	case RETURN:
		if (!node->give.executed && frame.number == node->give.frame.number)
			kr_lease_table_release(&world->table, number, frame.kinds);
		node->give.executed |= frame.number == node->give.frame.number;
		push(&node->down, (struct frame){RETURN_REPLY, 0, frame.number});
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

/* --- a node ----------------------------------------------------------------------------------- */

static inline void act(struct world *world, struct node *node);

static inline void try_op(struct node *node, struct op *op)
{
	struct kr_lease_state *holder = &node->holder;

	if (op->inside && op->epoch == holder->epoch)
		return;
	op->inside = false;
	if (node->lost)
		return;
	/* Through also while fenced: that ends long before the server gives the lease away. */
	if ((node->fenced || !kr_lease_state_enter(holder, op->kinds)) &&
		!(op->through && kr_lease_state_enter_through(holder, op->kinds)))
		return;
	op->inside = true;
	op->epoch = holder->epoch;
	if (op->page && (op->kinds & KR_LEASE_WRITE))
		kr_lease_state_stored(holder);
	else if (op->page)
		kr_lease_state_cached(holder);
}

static inline void step(struct world *world, struct node *node)
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
	kr_lease_state_want(&node->holder, want);
	act(world, node);
}

static inline void send_request(
	struct world *world, struct node *node, struct request *request, enum frame_type type, uint8_t kinds)
{
	assert_false(request->open);
	*request = (struct request){
		.open = true, .frame = {type, kinds, ++world->next_number}, .generation = node->generation};
	push(&node->up, request->frame);
}

static inline void answer_recalls(struct node *node)
{
	for (unsigned i = 0; i < node->heard_count; i++)
		push(&node->up, (struct frame){ANSWER, node->heard[i].kinds, node->heard[i].number});
	node->heard_count = 0;
}

/* The rpc does not deliver again what is still to be answered. */
static inline bool hear(struct node *node, struct frame frame)
{
	for (unsigned i = 0; i < node->heard_count; i++) {
		if (node->heard[i].number == frame.number)
			return false;
	}
	assert_true(node->heard_count < KR_ARRAY_SIZE(node->heard));
	node->heard[node->heard_count++] = frame;
	return true;
}

static inline void note_late(struct node *node, uint8_t kinds)
{
	if ((kinds & KR_LEASE_WRITE) && node->holder.dirty) {
		assert_true(node->holder.refused);
		node->late = true;
	}
}

static inline void act(struct world *world, struct node *node)
{
	uint8_t kinds;

	if (node->lost)
		return;
	for (;;) {
		switch (kr_lease_state_next(&node->holder, &kinds)) {
		case KR_LEASE_STATE_NOTHING:
			return;
		case KR_LEASE_STATE_ASK:
			send_request(world, node, &node->lease, LEASE, kinds);
			break;
		case KR_LEASE_STATE_FLUSH:
			assert_true(kr_lease_state_may_flush(&node->holder));
			node->flushing = true;
			break;
		case KR_LEASE_STATE_DROP:
			break;
		case KR_LEASE_STATE_ANSWER:
			if (kinds & (node->mappable ? KR_LEASE_ALL : KR_LEASE_READ))
				assert_false(node->pages);
			note_late(node, kinds);
			answer_recalls(node);
			break;
		case KR_LEASE_STATE_RETURN:
			if (kinds & (node->mappable ? KR_LEASE_ALL : KR_LEASE_READ))
				assert_false(node->pages);
			note_late(node, kinds);
			send_request(world, node, &node->give, RETURN, kinds);
			break;
		}
	}
}

static inline void node_takes(struct world *world, struct node *node, struct frame frame)
{
	switch (frame.type) {
	case LEASE_REPLY:
		if (!node->lease.open || node->lease.frame.number != frame.number)
			return; /* answered twice, as a RESEND may be */
		node->lease.open = false;
		kr_lease_state_granted(&node->holder, node->lease.generation == node->generation);
		node->base = world->version;
		break;
	case RETURN_REPLY:
		if (!node->give.open || node->give.frame.number != frame.number)
			return;
		node->give.open = false;
		kr_lease_state_returned(&node->holder);
		break;
	case RECALL:
		if (hear(node, frame))
			kr_lease_state_recalled(&node->holder, frame.kinds);
		break;
	default:
		fail();
	}
	step(world, node);
}

static inline void serve(struct world *world, struct node *node, struct op *op)
{
	if ((op->kinds & KR_LEASE_WRITE) && !op->page) {
		check_write(world, node);
		kr_lease_state_dirtied(&node->holder, false);
	}
	if (op->kinds & KR_LEASE_READ) {
		check_read(world, node);
		if (op->page) {
			node->pages = true;
			node->known = world->version;
		}
	}
	kr_lease_state_leave(&node->holder, op->kinds, op->epoch);
	*op = (struct op){0};
	world->served++;
	step(world, node);
}

static inline void new_op(struct world *world, struct node *node)
{
	static const uint8_t kinds[] = {KR_LEASE_READ, KR_LEASE_WRITE, KR_LEASE_ALL};
	struct op *op = &node->ops[dice(world, OPS)];

	if (op->used)
		return;
	*op = (struct op){.used = true, .kinds = kinds[dice(world, 3)]};
	op->page = op->kinds == (node->mappable ? KR_LEASE_ALL : KR_LEASE_READ) && dice(world, 2);
	step(world, node);
}

static inline void end_flush(struct world *world, struct node *node)
{
	bool ok = world->quiet || dice(world, 8);

	node->flushing = false;
	if (ok) {
		node->base = ++world->version;
		node->late = false;
	}
	kr_lease_state_flushed(&node->holder, ok, ok);
	step(world, node);
}

/* The pages go when no parked read locks one of them; dirty ones come out as writes. */
static inline void end_drop(struct world *world, struct node *node)
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
		kr_lease_state_dirtied(&node->holder, true);
	node->pages = node->page_dirty = false;
	kr_lease_state_dropped(&node->holder);
	step(world, node);
}

/* --- broken connections, lost sessions -------------------------------------------------------- */

static inline void resend(struct node *node, struct request *a, struct request *b)
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

static inline void reconnect(struct world *world, struct node *node)
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
static inline void lose_session(struct world *world, struct node *node)
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

static inline void new_session(struct world *world, struct node *node)
{
	uint32_t number = index_of(world, node) + 1;
	uint8_t kinds = kr_lease_state_lost(&node->holder), got;

	got = kinds ? kr_lease_table_try(&world->table, number, kinds) : 0;
	announce_all(world);
	if (!(got & KR_LEASE_WRITE))
		node->late = node->holder.dirty;
	kr_lease_state_reclaimed(&node->holder, got, node->known == world->version);
	node->lost = node->fenced = false;
	node->generation++;
	resend(node, &node->lease, &node->give);
	step(world, node);
}

static inline void break_something(struct world *world, struct node *node)
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
		kr_lease_state_distrust(&node->holder);
		step(world, node);
	} else {
		reconnect(world, node);
	}
}

#endif

/* Two nodes and a server in miniature: the node's half of leases (fuse/holder.h) and the server's lease table, with one connection
 * in each direction between them.  Everything that can happen is an event: a deed of a program, a frame taken, a job of the server's
 * pool that ends, a step of a node.  The server answers LEASE, OPEN, CREATE as server/leases.c, opens.c and creates.c do, the node does
 * what fuse/lease.c, file.c, op_open.c and recall.c do.
 */
#ifndef KR_TEST_LEASE_WORLD_H
#define KR_TEST_LEASE_WORLD_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/util.h"
#include "fuse/holder.h"
#include "server/lease_table.h"

enum { NODES = 2, FRAMES = 16, REQUESTS = 12, RECALLS = 8, EVENTS = 64 };
enum frame_type { LEASE, RETURN, OPEN, CREATE, FLUSH, OPERATE, ANSWER, REPLY, RECALL };
/* What programs do, each as often as the scenario allows; SHRINK: an idle file's lease is returned; DROP: READ is, by command;
 * BREAK: of the connection; LOSE: the server forgets WRITE, by a bug. */
enum deed { DO_OPEN, DO_CREATE, DO_CLOSE, DO_WRITE, DO_READ, DO_OPERATE, DO_SHRINK, DO_DROP, DO_BREAK, DO_LOSE, DEEDS };
enum event_type { DEED, STEP, SEND_FLUSH, SERVER_TAKES, NODE_TAKES, JOB, DROPPED };

struct event {
	enum event_type type;
	unsigned node, what;
};
struct frame {
	enum frame_type type;
	uint8_t kinds;
	uint64_t number; /* of the request in its node, or of a recall */
	bool failed, resent;
};
struct channel {
	struct frame frames[FRAMES];
	unsigned count;
};
struct request {
	bool open;       /* at the node: unanswered */
	enum frame_type type;
	uint8_t kinds;
	uint32_t generation;
	/* at the server */
	enum { AWAY, PARKED, IN_POOL, WAITING, ANSWERED } state;
	uint8_t granted;
	bool failed;
	struct kr_lease_waiter waiter;
};
struct node {
	struct kr_holder holder;
	struct channel up, down;
	struct request requests[REQUESTS];
	struct frame asked[RECALLS], heard[RECALLS]; /* recalls: unanswered as the server knows; to be answered */
	unsigned asked_count, heard_count;
	unsigned left[DEEDS];
	unsigned handles, opening, writes, reads; /* writes and reads that wait */
	unsigned refused; /* flushes */
	uint32_t generation;
	bool stepping, flushing, written_since, dropping;
};
struct world {
	struct kr_lease_table table;
	struct node node[NODES];
};
static unsigned index_of(const struct world *world, const struct node *node)
{
	return (unsigned)(node - world->node);
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

/* --- the server --------------------------------------------------------------------------------------------------------- */

static void reply(struct node *node, struct request *request, uint8_t granted)
{
	request->state = ANSWERED;
	push(&node->down, (struct frame){ .type = REPLY, .kinds = granted, .number = (uint64_t)(request - node->requests),
		.failed = request->failed });
}

static void on_grant(void *context, struct kr_lease_waiter *waiter)
{
	(void)context;
	KR_CONTAINER_OF(waiter, struct request, waiter)->state = IN_POOL;
}

static void on_recall(void *context, uint32_t number, uint8_t kinds, uint64_t recall)
{
	struct node *node = &((struct world *)context)->node[number - 1];
	struct frame frame = { .type = RECALL, .kinds = kinds, .number = recall };

	assert_true(node->asked_count < RECALLS);
	node->asked[node->asked_count++] = frame;
	push(&node->down, frame);
}

static void recall_answered(struct world *world, struct node *node, uint64_t number)
{
	for (unsigned i = 0; i < node->asked_count; i++) {
		uint8_t kinds = node->asked[i].kinds;

		if (node->asked[i].number != number)
			continue;
		memmove(&node->asked[i], &node->asked[i + 1], (--node->asked_count - i) * sizeof(node->asked[0]));
		kr_lease_table_recalled(&world->table, index_of(world, node) + 1, kinds, number);
		return;
	}
}

static bool may_flush(const struct world *world, uint32_t number)
{
	return kr_lease_table_held(&world->table, number) & KR_LEASE_WRITE ||
		kr_lease_table_recalling(&world->table, number) & KR_LEASE_READ;
}

/* Its reply was kept: said again, without leases; a LEASE is executed again. */
static bool repeated(struct node *node, struct request *request)
{
	if (request->state == AWAY || (request->state == ANSWERED && request->type == LEASE))
		return false;
	if (request->state == ANSWERED)
		reply(node, request, 0);
	return true;
}

static void server_takes(struct world *world, struct node *node, struct frame frame)
{
	uint32_t number = index_of(world, node) + 1;
	struct request *request = &node->requests[frame.number];

	if (frame.type == ANSWER) {
		recall_answered(world, node, frame.number);
		return;
	}
	if (frame.resent && repeated(node, request))
		return;
	switch (frame.type) {
	case LEASE:
	case OPERATE:
		request->state = PARKED;
		request->waiter = (struct kr_lease_waiter){ .node = number, .kinds = frame.kinds, .operation = frame.type == OPERATE };
		kr_lease_table_ask(&world->table, &request->waiter);
		break;
	case RETURN:
		reply(node, request, 0);
		kr_lease_table_release(&world->table, number, frame.kinds);
		break;
	case FLUSH:
		request->failed = !may_flush(world, number);
		reply(node, request, 0);
		break;
	default:
		request->state = IN_POOL;
	}
}

/* A job in the pool has ended, or what an OPEN waited for when it had. */
static void job_done(struct world *world, struct node *node, struct request *request)
{
	uint32_t number = index_of(world, node) + 1;
	bool tried = request->granted != 0;

	switch (request->type) {
	case LEASE:
		reply(node, request, 0);
		kr_lease_table_announced(&world->table, number);
		break;
	case OPERATE:
		kr_lease_table_end(&world->table, &request->waiter);
		reply(node, request, 0);
		break;
	default:
		if (request->state == IN_POOL)
			request->granted = kr_lease_table_try(&world->table, number, KR_LEASE_ALL);
		if (request->state == IN_POOL && request->type == OPEN) {
			request->state = WAITING;
			return;
		}
		tried = request->granted != 0;
		reply(node, request, request->granted & kr_lease_table_held(&world->table, number));
		if (tried)
			kr_lease_table_announced(&world->table, number);
	}
}

/* --- a node ------------------------------------------------------------------------------------------------------------- */

static bool refers_to(const struct channel *channel, unsigned request)
{
	for (unsigned i = 0; i < channel->count; i++) {
		const struct frame *frame = &channel->frames[i];

		if (frame->type != RECALL && frame->type != ANSWER && frame->number == request)
			return true;
	}
	return false;
}

/* Also one that was answered, and sent again before. */
static bool in_use(const struct node *node, unsigned i)
{
	const struct request *request = &node->requests[i];

	return request->open || (request->state != AWAY && request->state != ANSWERED) || refers_to(&node->up, i) ||
		refers_to(&node->down, i);
}

static void ask(struct node *node, enum frame_type type, uint8_t kinds)
{
	unsigned i = 0;

	while (in_use(node, i))
		i++;
	assert_true(i < REQUESTS);
	node->requests[i] = (struct request){ .open = true, .type = type, .kinds = kinds, .generation = node->generation };
	push(&node->up, (struct frame){ .type = type, .kinds = kinds, .number = i });
}

static void act(struct node *node)
{
	uint8_t kinds;

	for (;;) {
		switch (kr_holder_next(&node->holder, &kinds)) {
		case KR_HOLDER_NOTHING:
			return;
		case KR_HOLDER_ASK:
			ask(node, LEASE, kinds);
			break;
		case KR_HOLDER_RETURN:
			ask(node, RETURN, kinds);
			break;
		case KR_HOLDER_ANSWER:
			for (unsigned i = 0; i < node->heard_count; i++)
				push(&node->up, (struct frame){ .type = ANSWER, .number = node->heard[i].number });
			node->heard_count = 0;
			break;
		case KR_HOLDER_DROP:
			node->dropping = true;
			break;
		case KR_HOLDER_FLUSH: /* sent as soon as it may */
			break;
		}
	}
}

static void try_operations(struct node *node)
{
	if (node->reads && kr_holder_has(&node->holder, KR_LEASE_READ)) {
		node->reads = 0;
		kr_holder_cached(&node->holder);
	}
	if (node->writes && kr_holder_has(&node->holder, KR_LEASE_WRITE)) {
		node->writes = 0;
		node->written_since = true;
		kr_holder_dirtied(&node->holder, false);
	}
}

static void run(struct node *node)
{
	struct kr_holder *holder = &node->holder;

	act(node);
	try_operations(node);
	kr_holder_want(holder, (node->reads ? KR_LEASE_READ : 0) | (node->writes ? KR_LEASE_WRITE : 0));
	act(node);
	if (!node->handles && !node->opening && !holder->want && !holder->dirty && (holder->held & KR_LEASE_WRITE) && !holder->leaving) {
		kr_holder_release(holder, KR_LEASE_WRITE);
		node->stepping = true;
	}
}

static void replied(struct node *node, struct frame frame)
{
	struct request *request = &node->requests[frame.number];
	bool valid = request->generation == node->generation;

	if (!request->open)
		return;
	request->open = false;
	switch (request->type) {
	case LEASE:
		kr_holder_granted(&node->holder, valid);
		run(node);
		return;
	case RETURN:
		kr_holder_returned(&node->holder);
		run(node);
		return;
	case FLUSH:
		node->flushing = false;
		node->refused += frame.failed;
		if (frame.failed)
			kr_holder_doubt(&node->holder);
		else if (!node->written_since)
			kr_holder_flushed(&node->holder, true, true);
		break;
	case OPERATE:
		break;
	default:
		node->opening -= request->type == OPEN;
		node->handles++;
		if (valid)
			kr_holder_gained(&node->holder, frame.kinds);
	}
	node->stepping = true;
}

static void node_takes(struct node *node, struct frame frame)
{
	if (frame.type == REPLY) {
		replied(node, frame);
		return;
	}
	for (unsigned i = 0; i < node->heard_count; i++) {
		if (node->heard[i].number == frame.number)
			return; /* it is being answered */
	}
	assert_true(node->heard_count < RECALLS);
	node->heard[node->heard_count++] = frame;
	kr_holder_recalled(&node->holder, frame.kinds);
	run(node);
}

/* The connection breaks, and the session goes on. */
static void reconnect(struct node *node)
{
	node->up.count = node->down.count = 0;
	node->generation++;
	for (unsigned i = 0; i < node->asked_count; i++)
		push(&node->down, node->asked[i]);
	for (unsigned i = 0; i < REQUESTS; i++) {
		struct request *request = &node->requests[i];

		if (request->open)
			push(&node->up, (struct frame){ .type = request->type, .kinds = request->kinds, .number = i, .resent = true });
	}
}

static void do_deed(struct world *world, struct node *node, enum deed deed)
{
	node->left[deed]--;
	switch (deed) {
	case DO_OPEN:
		node->opening++;
		ask(node, OPEN, 0);
		return;
	case DO_CREATE:
		ask(node, CREATE, 0);
		return;
	case DO_OPERATE:
		ask(node, OPERATE, KR_LEASE_ALL);
		return;
	case DO_CLOSE:
		node->handles--;
		break;
	case DO_WRITE:
		node->writes = 1;
		break;
	case DO_READ:
		node->reads = 1;
		break;
	case DO_SHRINK:
		kr_holder_release(&node->holder, KR_LEASE_ALL);
		break;
	case DO_DROP:
		kr_holder_release(&node->holder, KR_LEASE_READ);
		break;
	case DO_BREAK:
		reconnect(node);
		break;
	default:
		kr_lease_table_release(&world->table, index_of(world, node) + 1, KR_LEASE_WRITE);
	}
	node->stepping = true;
}

/* A program writes and closes one thing after the other. */
static bool may_do(const struct world *world, const struct node *node, enum deed deed)
{
	const struct kr_holder *holder = &node->holder;
	bool waits = node->writes || node->reads;

	if (!node->left[deed])
		return false;
	switch (deed) {
	case DO_CLOSE:
	case DO_WRITE:
	case DO_READ:
		return node->handles && !waits;
	case DO_OPERATE:
		return !holder->dirty;
	case DO_SHRINK: /* file.c: only_held, and not used */
		return holder->held && !holder->leaving && !holder->recalled && !holder->returning && !node->handles && !node->opening &&
			!waits && !holder->dirty;
	case DO_LOSE:
		return kr_lease_table_held(&world->table, index_of(world, node) + 1) & KR_LEASE_WRITE &&
			!(kr_lease_table_recalling(&world->table, index_of(world, node) + 1)) && !holder->asked;
	default:
		return true;
	}
}

/* --- events ------------------------------------------------------------------------------------------------------------- */

static unsigned list_events(const struct world *world, struct event *events, bool *ret_at_rest)
{
	unsigned count = 0;

	for (unsigned n = 0; n < NODES; n++) {
		const struct node *node = &world->node[n];

		if (node->stepping)
			events[count++] = (struct event){ STEP, n, 0 };
		if (node->up.count)
			events[count++] = (struct event){ SERVER_TAKES, n, 0 };
		if (node->down.count)
			events[count++] = (struct event){ NODE_TAKES, n, 0 };
		if (node->holder.dirty && !node->flushing && kr_holder_may_flush(&node->holder))
			events[count++] = (struct event){ SEND_FLUSH, n, 0 };
		if (node->dropping)
			events[count++] = (struct event){ DROPPED, n, 0 };
		for (unsigned i = 0; i < REQUESTS; i++) {
			if (node->requests[i].state == IN_POOL || node->requests[i].state == WAITING)
				events[count++] = (struct event){ JOB, n, i };
		}
	}
	*ret_at_rest = count == 0;
	for (unsigned n = 0; n < NODES; n++) {
		for (unsigned deed = 0; deed < DEEDS; deed++) {
			if (may_do(world, &world->node[n], deed))
				events[count++] = (struct event){ DEED, n, deed };
		}
	}
	return count;
}

static void execute(struct world *world, struct event event)
{
	struct node *node = &world->node[event.node];

	switch (event.type) {
	case DEED:
		do_deed(world, node, event.what);
		break;
	case STEP:
		node->stepping = false;
		run(node);
		break;
	case SEND_FLUSH:
		node->flushing = true;
		node->written_since = false;
		ask(node, FLUSH, 0);
		break;
	case SERVER_TAKES:
		server_takes(world, node, shift(&node->up));
		break;
	case NODE_TAKES:
		node_takes(node, shift(&node->down));
		break;
	case DROPPED:
		node->dropping = false;
		kr_holder_dropped(&node->holder);
		run(node);
		break;
	case JOB:
		job_done(world, node, &node->requests[event.what]);
		break;
	}
}

#endif

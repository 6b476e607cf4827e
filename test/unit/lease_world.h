/* Two nodes and a server in miniature: the node's half of leases (fuse/holder.h) and the server's lease table, with one connection
 * in each direction between them.  Everything that can happen is an event: a deed of a program, a frame taken, a job of the server's
 * pool that ends, a step of a node.  The server answers LEASE, OPEN, CREATE as server/leases.c, opens.c and creates.c do, the node does
 * what fuse/lease.c, file.c, op_open.c and recall.c do.
 *
 * A session can be lost: its time is over (EXPIRE: the node is fenced by then, and late when it comes back), or the node begins another
 * one while the server still has it (REPLACE), which inherits.  Either way it claims again what it held, as fuse/reclaim.c and
 * server/reclaims.c do, and what nobody has answered is sent anew.
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
enum frame_type { LEASE, RETURN, OPEN, CREATE, FLUSH, OPERATE, RECLAIM, DONE, ANSWER, REPLY, RECALL };
/* What programs do, each as often as the scenario allows; SHRINK: an idle file's lease is returned; DROP: READ is, by command;
 * BREAK: of the connection; LOSE: the server forgets WRITE, by a bug; EXPIRE, REPLACE: of the session. */
enum deed { DO_OPEN, DO_CREATE, DO_CLOSE, DO_WRITE, DO_READ, DO_OPERATE, DO_SHRINK, DO_DROP, DO_BREAK, DO_LOSE, DO_EXPIRE, DO_REPLACE, DEEDS };
enum event_type { DEED, STEP, SEND_FLUSH, SERVER_TAKES, NODE_TAKES, JOB, DROPPED, RETURNS };

struct event {
	enum event_type type;
	unsigned node, what;
};
struct frame {
	enum frame_type type;
	uint8_t kinds;
	uint64_t number; /* of the request in its node, or of a recall */
	bool failed, resent;
	bool claims; /* of a RECLAIM: there are bytes not flushed */
	bool applied, same; /* of its answer: the last FLUSH is there; nobody has written */
};
struct channel {
	struct frame frames[FRAMES];
	unsigned count;
};
struct request {
	bool open;       /* at the node: unanswered */
	bool waits;      /* ... and not sent yet: there is no session */
	bool applied;    /* a FLUSH of a session that is lost */
	enum frame_type type;
	uint8_t kinds;
	uint32_t generation;
	/* at the server */
	bool claims;
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
	unsigned aside;   /* times that bytes had to go to a conflict file */
	uint32_t generation;
	uint32_t number;   /* of its session at the server */
	uint8_t reclaiming, inherited; /* kinds; as the node says; as the server knows */
	bool lost, recovering; /* the session, and it has not come back; it has, and waits for the server's answers */
	bool late, overtaken; /* at the server: it was lost; another node has flushed since */
	bool unjudged;     /* bytes of before that */
	bool astray;       /* such bytes went into the file */
	bool stepping, flushing, written_since, dropping;
};
struct world {
	struct kr_lease_table table;
	struct node node[NODES];
	uint32_t last_number;
};
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

static struct node *node_of(struct world *world, uint32_t number)
{
	unsigned n = 0;

	while (world->node[n].number != number)
		assert_true(++n < NODES);
	return &world->node[n];
}

/* --- the server --------------------------------------------------------------------------------------------------------- */

static bool was_applied(const struct node *node)
{
	bool applied = false;

	for (unsigned i = 0; i < REQUESTS; i++)
		applied |= node->requests[i].applied;
	return applied;
}

static void reply(struct node *node, struct request *request, uint8_t granted)
{
	request->state = ANSWERED;
	push(&node->down, (struct frame){ .type = REPLY, .kinds = granted, .number = (uint64_t)(request - node->requests),
		.failed = request->failed, .same = !node->overtaken, .applied = request->type == RECLAIM && was_applied(node) });
}

static void on_grant(void *context, struct kr_lease_waiter *waiter)
{
	(void)context;
	KR_CONTAINER_OF(waiter, struct request, waiter)->state = IN_POOL;
}

static void on_recall(void *context, uint32_t number, uint8_t kinds, uint64_t recall)
{
	struct node *node = node_of(context, number);
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
		kr_lease_table_recalled(&world->table, node->number, kinds, number);
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

/* What the session inherited and does not keep others may have. */
static void settle_inherited(struct world *world, struct node *node, uint8_t kept)
{
	uint8_t inherited = node->inherited;

	node->inherited = 0;
	if (inherited & (uint8_t)~kept)
		kr_lease_table_release(&world->table, node->number, inherited & (uint8_t)~kept);
	if (inherited)
		kr_lease_table_announced(&world->table, node->number);
}

/* Bytes of a late node: nobody else has the file while it is found out whether anybody has written. */
static void reclaim(struct world *world, struct node *node, struct request *request, const struct frame *frame)
{
	request->kinds = frame->kinds;
	request->claims = frame->claims;
	request->state = IN_POOL;
	if (!node->late || !frame->claims)
		return;
	request->state = PARKED;
	request->waiter = (struct kr_lease_waiter){ .node = node->number, .kinds = KR_LEASE_ALL, .operation = true };
	kr_lease_table_ask(&world->table, &request->waiter);
}

static void reclaim_judged(struct world *world, struct node *node, struct request *request)
{
	bool judged = node->late && request->claims;
	uint8_t granted = request->kinds, tried;

	node->unjudged = false;
	request->failed = judged && node->overtaken; /* its bytes leave the file */
	if (request->failed)
		granted = 0;
	granted &= (uint8_t)~node->inherited;
	tried = judged ? kr_lease_table_leave(&world->table, &request->waiter, granted) :
		kr_lease_table_try(&world->table, node->number, granted);
	granted = tried | (request->failed ? 0 : request->kinds & node->inherited);
	reply(node, request, granted);
	if (tried)
		kr_lease_table_announced(&world->table, node->number);
	settle_inherited(world, node, granted);
	if (judged)
		kr_lease_table_end(&world->table, &request->waiter);
}

static void server_takes(struct world *world, struct node *node, struct frame frame)
{
	uint32_t number = node->number;
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
		node->astray |= !request->failed && node->unjudged;
		for (unsigned n = 0; n < NODES && !request->failed; n++)
			world->node[n].overtaken |= &world->node[n] != node;
		reply(node, request, 0);
		break;
	case RECLAIM:
		reclaim(world, node, request, &frame);
		break;
	case DONE:
		settle_inherited(world, node, 0);
		node->late = false;
		reply(node, request, 0);
		break;
	default:
		request->state = IN_POOL;
	}
}

/* A job in the pool has ended, or what an OPEN waited for when it had. */
static void job_done(struct world *world, struct node *node, struct request *request)
{
	uint32_t number = node->number;
	bool tried = request->granted != 0;

	switch (request->type) {
	case RECLAIM:
		reclaim_judged(world, node, request);
		break;
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
	node->requests[i] = (struct request){ .open = true, .type = type, .kinds = kinds, .generation = node->generation,
		.waits = (node->lost || node->recovering) && type != RECLAIM && type != DONE };
	if (!node->requests[i].waits)
		push(&node->up, (struct frame){ .type = type, .kinds = kinds, .number = i, .claims = type == RECLAIM && node->holder.dirty });
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
	if (node->lost)
		return; /* fenced */
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

static void forget_flush(struct node *node)
{
	for (unsigned i = 0; i < REQUESTS; i++) {
		struct request *request = &node->requests[i];

		request->open &= request->type != FLUSH;
		request->applied = false;
	}
	node->flushing = false;
}

/* RECLAIM's answer: what of a FLUSH whose own answer was lost is there is so; what is in conflict is not sent any more. */
static void reclaimed(struct node *node, struct frame frame)
{
	if (frame.applied) {
		forget_flush(node);
		if (!node->written_since)
			kr_holder_flushed(&node->holder, true, true);
	}
	if (frame.failed && node->holder.dirty) {
		forget_flush(node);
		kr_holder_cleaned(&node->holder);
		node->aside++;
	}
	kr_holder_reclaimed(&node->holder, frame.kinds, frame.same);
	node->reclaiming = 0;
	ask(node, DONE, 0);
}

/* The session is there: what waits is sent, and what has not been answered is sent anew. */
static void resume(struct node *node)
{
	node->recovering = false;
	node->generation++;
	for (unsigned i = 0; i < REQUESTS; i++) {
		struct request *request = &node->requests[i];

		if (!request->open)
			continue;
		push(&node->up, (struct frame){ .type = request->type, .kinds = request->kinds, .number = i, .resent = !request->waits });
		request->waits = false;
	}
}

/* It reaches the server again, which knows nothing of its session. */
static void come_back(struct node *node)
{
	node->lost = false;
	node->recovering = true;
	node->heard_count = 0;
	node->reclaiming |= kr_holder_lost(&node->holder);
	if (node->reclaiming)
		ask(node, RECLAIM, node->reclaiming);
	else
		ask(node, DONE, 0);
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
	case RECLAIM:
		reclaimed(node, frame);
		break;
	case DONE:
		resume(node);
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

/* The server ends the session: nothing that it has of it, or that is on its way, counts. */
static void end_session(struct world *world, struct node *node)
{
	for (unsigned i = 0; i < REQUESTS; i++) {
		struct request *request = &node->requests[i];
		bool operation = request->type == OPERATE || (request->type == RECLAIM && node->late && request->claims);

		if (request->state == PARKED)
			kr_lease_table_withdraw(&world->table, &request->waiter);
		else if (request->state == IN_POOL && operation)
			kr_lease_table_end(&world->table, &request->waiter);
		/* How far a flush got is kept, by the journal's number. */
		request->applied |= request->type == FLUSH && request->open && request->state == ANSWERED && !request->failed;
		request->state = AWAY;
		if (request->type == RECLAIM || request->type == DONE)
			request->open = false;
	}
	node->up.count = node->down.count = 0;
	node->asked_count = 0;
	node->lost = true;
}

static void expire(struct world *world, struct node *node)
{
	uint32_t number = node->number;

	end_session(world, node);
	node->inherited = 0;
	node->overtaken &= node->late;
	node->late = true;
	node->unjudged |= node->holder.dirty;
	node->number = ++world->last_number;
	kr_lease_table_expire(&world->table, number);
}

/* The node's daemon is started anew, and finds its journal. */
static void replace(struct world *world, struct node *node)
{
	uint32_t number = node->number;
	bool dirty = node->holder.dirty;

	end_session(world, node);
	for (unsigned i = 0; i < REQUESTS; i++)
		node->requests[i].open = false;
	kr_holder_init(&node->holder);
	if (dirty)
		kr_holder_dirtied(&node->holder, false);
	node->handles = node->opening = node->writes = node->reads = 0;
	node->dropping = node->flushing = false;
	node->reclaiming = 0;
	node->inherited = kr_lease_table_held(&world->table, number);
	if (!(node->inherited & KR_LEASE_WRITE))
		node->inherited = 0;
	node->number = ++world->last_number;
	if (node->inherited)
		kr_lease_table_inherit(&world->table, number, node->number);
	else
		kr_lease_table_expire(&world->table, number);
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
	case DO_EXPIRE:
		expire(world, node);
		break;
	case DO_REPLACE:
		replace(world, node);
		break;
	default:
		kr_lease_table_release(&world->table, node->number, KR_LEASE_WRITE);
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
		return kr_lease_table_held(&world->table, node->number) & KR_LEASE_WRITE &&
			!(kr_lease_table_recalling(&world->table, node->number)) && !holder->asked;
	case DO_BREAK:
		return !node->lost && !node->recovering;
	case DO_EXPIRE:
		return !node->lost;
	case DO_REPLACE: /* hello.c: one that was late and has not reclaimed yet is late again */
		return !node->lost && !node->late;
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
		if (node->lost)
			events[count++] = (struct event){ RETURNS, n, 0 };
		if (node->holder.dirty && !node->flushing && !node->lost && !node->recovering && kr_holder_may_flush(&node->holder))
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
	case RETURNS:
		come_back(node);
		break;
	case JOB:
		job_done(world, node, &node->requests[event.what]);
		break;
	}
}

#endif

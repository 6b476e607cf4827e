/* The server of lease_world.h: answers LEASE, OPEN, CREATE as server/leases/leases.c, open.c and create.c do, and
 * RECLAIM as reclaim.c does, with the real lease table.  Of a request it keeps the answer, so that one sent again is
 * executed once.
 */
#ifndef KR_TEST_UNIT_LEASE_WORLD_SERVER_H
#define KR_TEST_UNIT_LEASE_WORLD_SERVER_H

#include "test/unit/fuse/file/lease_world_state.h"

static inline bool was_applied(const struct node *node)
{
	bool applied = false;

	for (unsigned i = 0; i < REQUESTS; i++)
		applied |= node->requests[i].applied;
	return applied;
}

static inline void reply(struct node *node, struct request *request, uint8_t granted)
{
	request->state = ANSWERED;
	push(&node->down,
		(struct frame){.type = REPLY,
			.kinds = granted,
			.number = (uint64_t)(request - node->requests),
			.failed = request->failed,
			.same = !node->overtaken,
			.applied = request->type == RECLAIM && was_applied(node)});
}

static inline void on_grant(void *context, struct kr_lease_waiter *waiter)
{
	(void)context;
	KR_CONTAINER_OF(waiter, struct request, waiter)->state = IN_POOL;
}

static inline void on_recall(void *context, uint32_t number, uint8_t kinds, uint64_t recall)
{
	struct node *node = node_of(context, number);
	struct frame frame = {.type = RECALL, .kinds = kinds, .number = recall};

	assert_true(node->asked_count < RECALLS);
	node->asked[node->asked_count++] = frame;
	push(&node->down, frame);
}

static inline void recall_answered(struct world *world, struct node *node, uint64_t number)
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

static inline bool may_flush(const struct world *world, uint32_t number)
{
	return kr_lease_table_held(&world->table, number) & KR_LEASE_WRITE ||
		kr_lease_table_recalling(&world->table, number) & KR_LEASE_READ;
}

/* Its reply was kept: said again, without leases; a LEASE is executed again. */
static inline bool repeated(struct node *node, struct request *request)
{
	if (request->state == AWAY || (request->state == ANSWERED && request->type == LEASE))
		return false;
	if (request->state == ANSWERED)
		reply(node, request, 0);
	return true;
}

/* What the session inherited and does not keep others may have. */
static inline void settle_inherited(struct world *world, struct node *node, uint8_t kept)
{
	uint8_t inherited = node->inherited;

	node->inherited = 0;
	if (inherited & (uint8_t)~kept)
		kr_lease_table_release(&world->table, node->number, inherited & (uint8_t)~kept);
	if (inherited)
		kr_lease_table_announced(&world->table, node->number);
}

/* Bytes of a late node: nobody else has the file while it is found out whether anybody has written. */
static inline void reclaim(struct world *world, struct node *node, struct request *request, const struct frame *frame)
{
	request->kinds = frame->kinds;
	request->claims = frame->claims;
	request->state = IN_POOL;
	if (!node->late || !frame->claims)
		return;
	request->state = PARKED;
	request->waiter = (struct kr_lease_waiter){.node = node->number, .kinds = KR_LEASE_ALL, .operation = true};
	kr_lease_table_ask(&world->table, &request->waiter);
}

static inline void reclaim_judged(struct world *world, struct node *node, struct request *request)
{
	bool judged = node->late && request->claims;
	uint8_t keep = request->claims ? node->inherited : 0, granted = request->kinds | (judged ? KR_LEASE_ALL : keep),
		tried, whole;

	node->unjudged = false;
	request->failed = judged && node->overtaken; /* its bytes leave the file */
	node->judged |= judged && !request->failed;
	if (request->failed)
		granted = 0;
	whole = granted;
	granted &= (uint8_t)~node->inherited;
	tried = judged ? kr_lease_table_leave(&world->table, &request->waiter, granted) :
			 kr_lease_table_try(&world->table, node->number, granted);
	granted = tried | (whole & node->inherited);
	reply(node, request, granted);
	if (tried)
		kr_lease_table_announced(&world->table, node->number);
	settle_inherited(world, node, granted);
	if (judged)
		kr_lease_table_end(&world->table, &request->waiter);
}

static inline void server_takes(struct world *world, struct node *node, struct frame frame)
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
		request->waiter = (struct kr_lease_waiter){
			.node = number, .kinds = frame.kinds, .operation = frame.type == OPERATE};
		kr_lease_table_ask(&world->table, &request->waiter);
		break;
	case RETURN:
		reply(node, request, 0);
		kr_lease_table_release(&world->table, number, frame.kinds);
		break;
	case FLUSH:
		request->failed = !may_flush(world, number);
		node->astray |= !request->failed && node->unjudged;
		for (unsigned n = 0; n < NODES && !request->failed; n++) {
			struct node *other = &world->node[n];

			other->overtaken |= other != node;
			other->outrun |= other != node && other->judged;
			other->judged &= other != node;
		}
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
static inline void job_done(struct world *world, struct node *node, struct request *request)
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

#endif

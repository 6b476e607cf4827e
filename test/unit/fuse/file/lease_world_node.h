/* A node of lease_world.h: does what fuse/file/lease.c, file.c, open.c, recall.c and reclaim.c do, with the real half
 * of leases. */
#ifndef KR_TEST_UNIT_LEASE_WORLD_NODE_H
#define KR_TEST_UNIT_LEASE_WORLD_NODE_H

#include "test/unit/fuse/file/lease_world_state.h"

static inline bool refers_to(const struct channel *channel, unsigned request)
{
	for (unsigned i = 0; i < channel->count; i++) {
		const struct frame *frame = &channel->frames[i];

		if (frame->type != RECALL && frame->type != ANSWER && frame->number == request)
			return true;
	}
	return false;
}

/* Also one that was answered, and sent again before. */
static inline bool in_use(const struct node *node, unsigned i)
{
	const struct request *request = &node->requests[i];

	return request->open || (request->state != AWAY && request->state != ANSWERED) || refers_to(&node->up, i) ||
		refers_to(&node->down, i);
}

static inline void ask(struct node *node, enum frame_type type, uint8_t kinds)
{
	unsigned i = 0;

	while (in_use(node, i))
		i++;
	assert_true(i < REQUESTS);
	node->requests[i] = (struct request){.open = true,
		.type = type,
		.kinds = kinds,
		.generation = node->generation,
		.waits = (node->lost || node->recovering) && type != RECLAIM && type != DONE};
	if (!node->requests[i].waits)
		push(&node->up,
			(struct frame){.type = type,
				.kinds = kinds,
				.number = i,
				.claims = type == RECLAIM && node->holder.dirty});
}

static inline void act(struct node *node)
{
	uint8_t kinds;

	for (;;) {
		switch (kr_lease_state_next(&node->holder, &kinds)) {
		case KR_LEASE_STATE_NOTHING:
			return;
		case KR_LEASE_STATE_ASK:
			ask(node, LEASE, kinds);
			break;
		case KR_LEASE_STATE_RETURN:
			ask(node, RETURN, kinds);
			break;
		case KR_LEASE_STATE_ANSWER:
			for (unsigned i = 0; i < node->heard_count; i++)
				push(&node->up, (struct frame){.type = ANSWER, .number = node->heard[i].number});
			node->heard_count = 0;
			break;
		case KR_LEASE_STATE_DROP:
			node->dropping = true;
			break;
		case KR_LEASE_STATE_FLUSH: /* sent as soon as it may */
			break;
		}
	}
}

static inline void try_operations(struct node *node)
{
	if (node->lost)
		return; /* fenced */
	if (node->reads && kr_lease_state_has(&node->holder, KR_LEASE_READ)) {
		node->reads = 0;
		kr_lease_state_cached(&node->holder);
	}
	if (node->writes && kr_lease_state_has(&node->holder, KR_LEASE_WRITE)) {
		node->writes = 0;
		node->written_since = true;
		kr_lease_state_dirtied(&node->holder, false);
	}
}

static inline void run(struct node *node)
{
	struct kr_lease_state *holder = &node->holder;

	act(node);
	try_operations(node);
	kr_lease_state_want(holder, (node->reads ? KR_LEASE_READ : 0) | (node->writes ? KR_LEASE_WRITE : 0));
	act(node);
	if (!node->handles && !node->opening && !holder->want && !holder->dirty && (holder->held & KR_LEASE_WRITE) &&
		!holder->leaving) {
		kr_lease_state_release(holder, KR_LEASE_WRITE);
		node->stepping = true;
	}
}

static inline void forget_flush(struct node *node)
{
	for (unsigned i = 0; i < REQUESTS; i++) {
		struct request *request = &node->requests[i];

		request->open &= request->type != FLUSH;
		request->applied = false;
	}
	node->flushing = false;
}

/* RECLAIM's answer: what of a FLUSH whose own answer was lost is there is so; what is in conflict is not sent any more.
 */
static inline void reclaimed(struct node *node, struct frame frame)
{
	if (frame.applied) {
		forget_flush(node);
		if (!node->written_since)
			kr_lease_state_flushed(&node->holder, true, true);
	}
	if (frame.failed && node->holder.dirty) {
		forget_flush(node);
		kr_lease_state_cleaned(&node->holder);
		node->aside++;
	}
	node->judged &= node->holder.dirty;
	kr_lease_state_reclaimed(&node->holder, frame.kinds, frame.same);
	node->reclaiming = 0;
	ask(node, DONE, 0);
}

/* The session is there: what waits is sent, and what has not been answered is sent anew. */
static inline void resume(struct node *node)
{
	node->recovering = false;
	node->generation++;
	for (unsigned i = 0; i < REQUESTS; i++) {
		struct request *request = &node->requests[i];

		if (!request->open)
			continue;
		push(&node->up,
			(struct frame){.type = request->type,
				.kinds = request->kinds,
				.number = i,
				.resent = !request->waits});
		request->waits = false;
	}
}

/* It reaches the server again, which knows nothing of its session. */
static inline void come_back(struct node *node)
{
	node->lost = false;
	node->recovering = true;
	node->heard_count = 0;
	node->reclaiming |= kr_lease_state_lost(&node->holder);
	if (node->reclaiming)
		ask(node, RECLAIM, node->reclaiming);
	else
		ask(node, DONE, 0);
}

static inline void replied(struct node *node, struct frame frame)
{
	struct request *request = &node->requests[frame.number];
	bool valid = request->generation == node->generation;

	if (!request->open)
		return;
	request->open = false;
	switch (request->type) {
	case LEASE:
		kr_lease_state_granted(&node->holder, valid);
		run(node);
		return;
	case RETURN:
		kr_lease_state_returned(&node->holder);
		run(node);
		return;
	case FLUSH:
		node->flushing = false;
		node->refused += frame.failed;
		if (frame.failed)
			kr_lease_state_confirm_write(&node->holder);
		else if (!node->written_since)
			kr_lease_state_flushed(&node->holder, true, true);
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
			kr_lease_state_gained(&node->holder, frame.kinds);
	}
	node->stepping = true;
}

static inline void node_takes(struct node *node, struct frame frame)
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
	kr_lease_state_recalled(&node->holder, frame.kinds);
	run(node);
}

#endif

/* Two nodes and a server in miniature: the node's half of leases (fuse/file/lease_state.h) and the server's lease
 * table, with one connection in each direction between them.  Everything that can happen is an event: a deed of a
 * program, a frame taken, a job of the server's pool that ends, a step of a node.
 *
 * A session can be lost: its time is over (EXPIRE: the node is fenced by then, and late when it comes back), or the
 * node begins another one while the server still has it (REPLACE), which inherits.  Either way it claims again what it
 * held, and what nobody has answered is sent anew.
 */
#ifndef KR_TEST_UNIT_LEASE_WORLD_H
#define KR_TEST_UNIT_LEASE_WORLD_H

#include "test/unit/fuse/file/lease_world_node.h"
#include "test/unit/fuse/file/lease_world_server.h"

/* --- sessions --------------------------------------------------------------------------------- */

/* The server ends the session: nothing that it has of it, or that is on its way, counts. */
static inline void end_session(struct world *world, struct node *node)
{
	for (unsigned i = 0; i < REQUESTS; i++) {
		struct request *request = &node->requests[i];
		bool operation =
			request->type == OPERATE || (request->type == RECLAIM && node->late && request->claims);

		if (request->state == PARKED)
			kr_lease_table_withdraw(&world->table, &request->waiter);
		else if (request->state == IN_POOL && operation)
			kr_lease_table_end(&world->table, &request->waiter);
		/* How far a flush got is kept, by the journal's number. */
		request->applied |=
			request->type == FLUSH && request->open && request->state == ANSWERED && !request->failed;
		request->state = AWAY;
		if (request->type == RECLAIM || request->type == DONE)
			request->open = false;
	}
	node->up.count = node->down.count = 0;
	node->asked_count = 0;
	node->lost = true;
}

static inline void expire(struct world *world, struct node *node)
{
	uint32_t number = node->number;

	end_session(world, node);
	node->inherited = 0;
	node->overtaken &= node->late;
	node->late = true;
	node->judged = false;
	node->unjudged |= node->holder.dirty;
	node->number = ++world->last_number;
	kr_lease_table_expire(&world->table, number);
}

/* The node's daemon is started anew, and finds its journal. */
static inline void replace(struct world *world, struct node *node)
{
	uint32_t number = node->number;
	bool dirty = node->holder.dirty;

	end_session(world, node);
	for (unsigned i = 0; i < REQUESTS; i++)
		node->requests[i].open = false;
	kr_lease_state_init(&node->holder);
	if (dirty)
		kr_lease_state_dirtied(&node->holder, false);
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
static inline void reconnect(struct node *node)
{
	node->up.count = node->down.count = 0;
	node->generation++;
	for (unsigned i = 0; i < node->asked_count; i++)
		push(&node->down, node->asked[i]);
	for (unsigned i = 0; i < REQUESTS; i++) {
		struct request *request = &node->requests[i];

		if (request->open)
			push(&node->up,
				(struct frame){
					.type = request->type, .kinds = request->kinds, .number = i, .resent = true});
	}
}

/* --- events ----------------------------------------------------------------------------------- */

static inline void do_deed(struct world *world, struct node *node, enum deed deed)
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
		kr_lease_state_release(&node->holder, KR_LEASE_ALL);
		break;
	case DO_DROP:
		kr_lease_state_release(&node->holder, KR_LEASE_READ);
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
static inline bool may_do(const struct world *world, const struct node *node, enum deed deed)
{
	const struct kr_lease_state *holder = &node->holder;
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
		return holder->held && !holder->leaving && !holder->recalled && !holder->returning && !node->handles &&
			!node->opening && !waits && !holder->dirty;
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

static inline unsigned list_events(const struct world *world, struct event *events, bool *ret_at_rest)
{
	unsigned count = 0;

	for (unsigned n = 0; n < NODES; n++) {
		const struct node *node = &world->node[n];

		if (node->stepping)
			events[count++] = (struct event){STEP, n, 0};
		if (node->up.count)
			events[count++] = (struct event){SERVER_TAKES, n, 0};
		if (node->down.count)
			events[count++] = (struct event){NODE_TAKES, n, 0};
		if (node->lost)
			events[count++] = (struct event){RETURNS, n, 0};
		if (node->holder.dirty && !node->flushing && !node->lost && !node->recovering &&
			kr_lease_state_may_flush(&node->holder))
			events[count++] = (struct event){SEND_FLUSH, n, 0};
		if (node->dropping)
			events[count++] = (struct event){DROPPED, n, 0};
		for (unsigned i = 0; i < REQUESTS; i++) {
			if (node->requests[i].state == IN_POOL || node->requests[i].state == WAITING)
				events[count++] = (struct event){JOB, n, i};
		}
	}
	*ret_at_rest = count == 0;
	for (unsigned n = 0; n < NODES; n++) {
		for (unsigned deed = 0; deed < DEEDS; deed++) {
			if (may_do(world, &world->node[n], deed))
				events[count++] = (struct event){DEED, n, deed};
		}
	}
	return count;
}

static inline void execute(struct world *world, struct event event)
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
		kr_lease_state_dropped(&node->holder);
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

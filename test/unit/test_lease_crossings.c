/* Every order in which the frames of two nodes and the server can cross: the node's half of leases against the server's lease
 * table.  Programs open, create, write, read and close a file a few times; each frame, job of the server's pool and step of a
 * node is an event, and all orders of them that one connection in each direction allows are gone through (a depth-first search
 * that executes each path anew and stops at states it has seen).
 *
 * In each state a node holds nothing that the server does not count for it.  Where nothing is on its way any more, nobody waits,
 * and everything written is flushed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "common/util.h"
#include "fuse/holder.h"
#include "server/lease_table.h"

enum { NODES = 2, FRAMES = 16, REQUESTS = 12, RECALLS = 8, PATH_MAX_EVENTS = 120, EVENTS = 64 };
enum frame_type { LEASE, RETURN, OPEN, CREATE, FLUSH, OPERATE, ANSWER, REPLY, RECALL };
/* What programs do, each as often as the scenario allows; SHRINK: an idle file's lease is returned; DROP: READ is, by command;
 * BREAK: of the connection; LOSE: the server forgets WRITE, by a bug. */
enum deed { DO_OPEN, DO_CREATE, DO_CLOSE, DO_WRITE, DO_READ, DO_OPERATE, DO_SHRINK, DO_DROP, DO_BREAK, DO_LOSE, DEEDS };
enum event_type { DEED, STEP, SEND_FLUSH, SERVER_TAKES, NODE_TAKES, JOB };

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
	bool stepping, flushing, written_since;
};
struct world {
	struct kr_lease_table table;
	struct node node[NODES];
};
struct search {
	const unsigned (*left)[DEEDS]; /* of each node */
	bool may_refuse;               /* one flush, for want of the lease */
	unsigned path[PATH_MAX_EVENTS], length;
	uint64_t *seen;
	size_t seen_count, seen_capacity, ends;
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
		default: /* KR_HOLDER_FLUSH: sent as soon as it may; there are no pages to drop */
			break;
		}
	}
}

static void try_operations(struct node *node)
{
	if (node->reads && kr_holder_has(&node->holder, KR_LEASE_READ))
		node->reads = 0;
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

/* --- the search --------------------------------------------------------------------------------------------------------- */

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
	case JOB:
		job_done(world, node, &node->requests[event.what]);
		break;
	}
}

/* What is wrong in this state; NULL: nothing. */
static const char *check(const struct search *search, const struct world *world)
{
	for (unsigned n = 0; n < NODES; n++) {
		const struct node *node = &world->node[n];
		uint8_t counted = kr_lease_table_held(&world->table, n + 1);

		if (search->may_refuse)
			counted |= KR_LEASE_WRITE;
		if (node->holder.held & ~counted)
			return "a node believes that it holds what the server does not count for it";
		if (node->refused > search->may_refuse)
			return "a flush was refused";
	}
	return NULL;
}

static const char *check_rest(const struct world *world)
{
	for (unsigned n = 0; n < NODES; n++) {
		const struct node *node = &world->node[n];
		const struct kr_holder *holder = &node->holder;

		if (holder->dirty)
			return "a write is never flushed";
		if (node->writes || node->reads)
			return "an operation waits for ever";
		if (holder->recall_open)
			return "a recall is not answered";
		if (holder->asked || holder->returning || holder->leaving)
			return "a node waits for an answer that does not come";
		for (unsigned i = 0; i < REQUESTS; i++)
			if (node->requests[i].open)
				return "a request is not answered";
	}
	return kr_list_empty(&world->table.waiting) ? NULL : "somebody waits at the server";
}

struct print {
	uint64_t hash;
};

static void add(struct print *print, uint64_t value)
{
	print->hash = (print->hash ^ value) * UINT64_C(0x100000001b3);
	print->hash ^= print->hash >> 29;
}

/* A recall's number counts only as far as it is the latest of its kinds. */
static void add_recall(struct print *print, const struct world *world, unsigned n, const struct frame *frame)
{
	const struct kr_lease_holder *holder;
	unsigned latest = 0;

	KR_LIST_FOR_EACH(holder, &world->table.holders, link) {
		if (holder->node == n + 1)
			latest = (holder->recalls[0] == frame->number) | (unsigned)(holder->recalls[1] == frame->number) << 1;
	}
	add(print, latest << 8 | frame->kinds);
	/* Equal ones are told apart by their age. */
	for (unsigned i = 0; i < world->node[n].asked_count; i++)
		add(print, world->node[n].asked[i].number == frame->number);
}

static void add_channel(struct print *print, const struct world *world, unsigned n, const struct channel *channel)
{
	add(print, channel->count);
	for (unsigned i = 0; i < channel->count; i++) {
		const struct frame *frame = &channel->frames[i];

		add(print, (uint64_t)frame->type << 16 | frame->kinds << 8 | (unsigned)frame->failed << 1 | frame->resent);
		if (frame->type == RECALL || frame->type == ANSWER)
			add_recall(print, world, n, frame);
		else
			add(print, frame->number);
	}
}

static void add_node(struct print *print, const struct world *world, unsigned n)
{
	const struct node *node = &world->node[n];
	const struct kr_holder *h = &node->holder;

	add(print, h->held | h->want << 2 | h->asked << 4 | h->recalled << 6 | h->leaving << 8 | h->returning << 10 |
		h->recall_open << 12 | h->dirty << 13 | h->owed << 14 | h->flushing << 15 | h->refused << 16 | h->doubted << 17 |
		node->stepping << 18 | node->flushing << 19 | node->written_since << 20);
	add(print, node->handles | node->opening << 4 | node->writes << 8 | node->reads << 12 | node->refused << 16);
	for (unsigned i = 0; i < DEEDS; i++)
		add(print, node->left[i]);
	for (unsigned i = 0; i < REQUESTS; i++) {
		const struct request *request = &node->requests[i];

		if (request->open || request->state == IN_POOL || request->state == WAITING || request->state == PARKED)
			add(print, i << 16 | request->type << 12 | request->kinds << 8 | (unsigned)request->state << 4 | request->granted << 1 |
				(request->generation == node->generation));
	}
	add_channel(print, world, n, &node->up);
	add_channel(print, world, n, &node->down);
	add(print, node->asked_count << 8 | node->heard_count);
	for (unsigned i = 0; i < node->asked_count; i++)
		add_recall(print, world, n, &node->asked[i]);
	for (unsigned i = 0; i < node->heard_count; i++)
		add_recall(print, world, n, &node->heard[i]);
}

static uint64_t fingerprint(const struct world *world)
{
	struct print print = { UINT64_C(0xcbf29ce484222325) };
	const struct kr_lease_holder *holder;
	const struct kr_lease_waiter *waiter;

	for (unsigned n = 0; n < NODES; n++)
		add_node(&print, world, n);
	KR_LIST_FOR_EACH(holder, &world->table.holders, link)
		add(&print, holder->node | holder->kinds << 4 | holder->recalling << 8 | holder->unsent << 12 | holder->announcing << 16);
	KR_LIST_FOR_EACH(waiter, &world->table.waiting, link)
		add(&print, UINT64_C(1) << 40 | waiter->node << 8 | waiter->kinds << 1 | waiter->operation);
	KR_LIST_FOR_EACH(waiter, &world->table.operations, link)
		add(&print, UINT64_C(1) << 41 | waiter->node);
	return print.hash ? print.hash : 1;
}

/* Whether it is new. */
static bool remember(struct search *search, uint64_t hash)
{
	size_t i;

	if (search->seen_count * 2 >= search->seen_capacity) {
		struct search larger = { .seen_capacity = search->seen_capacity ? search->seen_capacity * 2 : 1 << 12 };

		larger.seen = calloc(larger.seen_capacity, sizeof(*larger.seen));
		assert_non_null(larger.seen);
		for (i = 0; i < search->seen_capacity; i++)
			if (search->seen[i])
				remember(&larger, search->seen[i]);
		free(search->seen);
		search->seen = larger.seen;
		search->seen_capacity = larger.seen_capacity;
	}
	for (i = hash & (search->seen_capacity - 1); search->seen[i]; i = (i + 1) & (search->seen_capacity - 1))
		if (search->seen[i] == hash)
			return false;
	search->seen[i] = hash;
	search->seen_count++;
	return true;
}

static void begin(const struct search *search, struct world *world)
{
	static const struct kr_lease_actions actions = { .grant = on_grant, .recall = on_recall };

	memset(world, 0, sizeof(*world));
	kr_lease_table_init(&world->table, &actions, world);
	for (unsigned n = 0; n < NODES; n++) {
		kr_holder_init(&world->node[n].holder);
		memcpy(world->node[n].left, search->left[n], sizeof(world->node[n].left));
	}
}

static void end(struct world *world)
{
	kr_list_init(&world->table.waiting); /* the requests are the world's */
	kr_list_init(&world->table.operations);
	kr_lease_table_fini(&world->table);
}

/* The state after the path; its events. */
static unsigned replay(const struct search *search, struct world *world, struct event *events, bool *ret_at_rest)
{
	unsigned count;

	begin(search, world);
	count = list_events(world, events, ret_at_rest);
	for (unsigned i = 0; i < search->length; i++) {
		assert_true(search->path[i] < count);
		execute(world, events[search->path[i]]);
		count = list_events(world, events, ret_at_rest);
	}
	return count;
}

/* How it came to this. */
static void print_path(const struct search *search)
{
	static const char *const deeds[] = { "OPEN", "CREATE", "CLOSE", "WRITE", "READ", "OPERATE", "SHRINK", "DROP", "BREAK", "LOSE" };
	static const char *const frames[] = { "LEASE", "RETURN", "OPEN", "CREATE", "FLUSH", "OPERATE", "ANSWER", "REPLY", "RECALL" };
	struct event events[EVENTS];
	struct search shorter = *search;
	struct world world;
	bool at_rest;

	for (shorter.length = 0; shorter.length < search->length; shorter.length++) {
		struct event event;
		const struct node *node;

		replay(&shorter, &world, events, &at_rest);
		event = events[search->path[shorter.length]];
		node = &world.node[event.node];
		print_error("node %u held %u: ", event.node + 1, node->holder.held);
		switch (event.type) {
		case DEED:
			print_error("does %s\n", deeds[event.what]);
			break;
		case STEP:
			print_error("steps\n");
			break;
		case SEND_FLUSH:
			print_error("flushes\n");
			break;
		case SERVER_TAKES:
			print_error("server takes its %s%s\n", frames[node->up.frames[0].type], node->up.frames[0].resent ? ", resent" : "");
			break;
		case NODE_TAKES:
			print_error("takes %s%u of kinds %u\n", frames[node->down.frames[0].type], (unsigned)node->down.frames[0].number,
				node->down.frames[0].kinds);
			break;
		case JOB:
			print_error("server goes on with its %s\n", frames[node->requests[event.what].type]);
			break;
		}
		end(&world);
	}
}

static void explore(struct search *search)
{
	struct event events[EVENTS];
	struct world *world = malloc(sizeof(*world));
	const char *wrong;
	unsigned count;
	bool at_rest, new;

	assert_non_null(world);
	count = replay(search, world, events, &at_rest);
	wrong = check(search, world);
	if (!wrong && at_rest)
		wrong = check_rest(world);
	if (wrong) {
		print_path(search);
		fail_msg("%s", wrong);
	}
	search->ends += count == 0;
	new = remember(search, fingerprint(world));
	end(world);
	free(world);
	if (!new)
		return;
	assert_true(search->length < PATH_MAX_EVENTS);
	for (unsigned i = 0; i < count; i++) {
		search->path[search->length++] = i;
		explore(search);
		search->length--;
	}
}

static void explore_all(const unsigned (*left)[DEEDS], bool may_refuse)
{
	struct search search = { .left = left, .may_refuse = may_refuse };

	explore(&search);
	assert_true(search.ends > 0);
	print_message("%zu states\n", search.seen_count);
	free(search.seen);
}

#define SCENARIO(name, refusals, ...) \
	static void name(void **state) \
	{ \
		static const unsigned left[NODES][DEEDS] = { __VA_ARGS__ }; \
	\
		(void)state; \
		explore_all(left, refusals); \
	}

SCENARIO(a_file_is_created_closed_opened_and_written, false,
	{ [DO_CREATE] = 1, [DO_OPEN] = 1, [DO_CLOSE] = 2, [DO_WRITE] = 1 }, { [DO_OPEN] = 1, [DO_READ] = 1 })
SCENARIO(several_programs_create_the_same_file, false,
	{ [DO_CREATE] = 2, [DO_CLOSE] = 2, [DO_WRITE] = 1 }, { [DO_CREATE] = 1, [DO_WRITE] = 1 })
SCENARIO(idle_files_return_what_others_ask_back, false,
	{ [DO_CREATE] = 1, [DO_CLOSE] = 1, [DO_SHRINK] = 1, [DO_OPEN] = 1, [DO_WRITE] = 1 }, { [DO_OPEN] = 1, [DO_WRITE] = 1 })
SCENARIO(one_return_comes_after_the_other, false,
	{ [DO_CREATE] = 2, [DO_CLOSE] = 1, [DO_DROP] = 2, [DO_READ] = 1 }, { [DO_OPEN] = 1 })
SCENARIO(operations_of_one_node_among_writers, false,
	{ [DO_OPEN] = 1, [DO_CLOSE] = 1, [DO_WRITE] = 1 }, { [DO_OPEN] = 1, [DO_OPERATE] = 1, [DO_READ] = 1 })
SCENARIO(a_connection_breaks, false,
	{ [DO_CREATE] = 1, [DO_CLOSE] = 1, [DO_WRITE] = 1, [DO_BREAK] = 1 }, { [DO_OPEN] = 1, [DO_READ] = 1 })
SCENARIO(a_lease_that_only_the_node_believes_in_is_asked_again, true,
	{ [DO_OPEN] = 1, [DO_WRITE] = 2, [DO_LOSE] = 1 }, { [DO_OPEN] = 1, [DO_READ] = 1 })

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_created_closed_opened_and_written),
		cmocka_unit_test(several_programs_create_the_same_file),
		cmocka_unit_test(idle_files_return_what_others_ask_back),
		cmocka_unit_test(one_return_comes_after_the_other),
		cmocka_unit_test(operations_of_one_node_among_writers),
		cmocka_unit_test(a_connection_breaks),
		cmocka_unit_test(a_lease_that_only_the_node_believes_in_is_asked_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

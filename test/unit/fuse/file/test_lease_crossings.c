/* Every order in which the frames of two nodes and the server can cross: the node's half of leases against the server's
 * lease table.  Programs open, create, write, read and close a file a few times; each frame, job of the server's pool
 * and step of a node is an event, and all orders of them that one connection in each direction allows are gone through
 * (a depth-first search that executes each path anew and stops at states it has seen).
 *
 * In each state a node holds nothing that the server does not count for it.  Where nothing is on its way any more,
 * nobody waits, and everything written is flushed.
 */
#include <limits.h>

#include "test/unit/effort.h"
#include "test/unit/fuse/file/lease_world.h"

enum { PATH_MAX_EVENTS = 120, STATES_MAX = KR_EFFORT(INT_MAX, 4000) /* of each scenario */ };

struct search {
	const unsigned (*left)[DEEDS]; /* of each node */
	bool may_refuse;               /* one flush, for want of the lease */
	unsigned path[PATH_MAX_EVENTS], length;
	uint64_t *seen;
	size_t seen_count, seen_capacity, ends;
};

/* What is wrong in this state; NULL: nothing. */
static const char *check(const struct search *search, const struct world *world)
{
	for (unsigned n = 0; n < NODES; n++) {
		const struct node *node = &world->node[n];
		uint8_t counted = kr_lease_table_held(&world->table, node->number);

		if (node->astray)
			return "late bytes went into the file unjudged";
		if (node->outrun)
			return "between the judgement and the late bytes others' went into the file";
		if (node->lost)
			continue; /* and fenced */

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
		const struct kr_lease_state *holder = &node->holder;

		if (holder->dirty)
			return "a write is never flushed";
		if (node->writes || node->reads)
			return "an operation waits for ever";
		if (holder->recall_open)
			return "a recall is not answered";
		if (node->recovering || node->reclaiming || node->inherited || node->late)
			return "a session is not taken up again";
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
		if (holder->node == world->node[n].number)
			latest = (holder->recalls[0] == frame->number) |
				(unsigned)(holder->recalls[1] == frame->number) << 1;
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

		add(print,
			(uint64_t)frame->type << 16 | frame->kinds << 8 | (unsigned)frame->failed << 1 | frame->resent |
				(unsigned)frame->claims << 2 | (unsigned)frame->applied << 3 |
				(unsigned)frame->same << 4);
		if (frame->type == RECALL || frame->type == ANSWER)
			add_recall(print, world, n, frame);
		else
			add(print, frame->number);
	}
}

static void add_node(struct print *print, const struct world *world, unsigned n)
{
	const struct node *node = &world->node[n];
	const struct kr_lease_state *h = &node->holder;

	add(print,
		h->held | h->want << 2 | h->asked << 4 | h->recalled << 6 | h->leaving << 8 | h->returning << 10 |
			h->recall_open << 12 | h->dirty << 13 | h->flush_before_giving_read << 14 | h->flushing << 15 |
			h->refused << 16 | h->write_unconfirmed << 17 | node->stepping << 18 | node->flushing << 19 |
			node->written_since << 20 | h->pages << 21 | h->dropping << 22 | h->drop_again << 23);
	add(print,
		node->lost | (unsigned)node->recovering << 1 | (unsigned)node->late << 2 |
			(unsigned)node->overtaken << 3 | (unsigned)node->unjudged << 4 | (unsigned)node->judged << 15 |
			node->reclaiming << 5 | node->inherited << 7 | node->aside << 9);
	add(print, node->handles | node->opening << 4 | node->writes << 8 | node->reads << 12 | node->refused << 16);
	for (unsigned i = 0; i < DEEDS; i++)
		add(print, node->left[i]);
	for (unsigned i = 0; i < REQUESTS; i++) {
		const struct request *request = &node->requests[i];

		if (request->open || request->state == IN_POOL || request->state == WAITING || request->state == PARKED)
			add(print,
				i << 16 | request->type << 12 | request->kinds << 8 | (unsigned)request->state << 4 |
					request->granted << 1 | (request->generation == node->generation));
		add(print,
			request->open | (unsigned)request->waits << 1 | (unsigned)request->claims << 2 |
				(unsigned)request->applied << 3);
	}
	add_channel(print, world, n, &node->up);
	add_channel(print, world, n, &node->down);
	add(print, node->asked_count << 8 | node->heard_count);
	for (unsigned i = 0; i < node->asked_count; i++)
		add_recall(print, world, n, &node->asked[i]);
	for (unsigned i = 0; i < node->heard_count; i++)
		add_recall(print, world, n, &node->heard[i]);
}

static unsigned index_of(const struct world *world, uint32_t number)
{
	unsigned n = 0;

	while (n < NODES && world->node[n].number != number)
		n++;
	return n;
}

static uint64_t fingerprint(const struct world *world)
{
	struct print print = {UINT64_C(0xcbf29ce484222325)};
	const struct kr_lease_holder *holder;
	const struct kr_lease_waiter *waiter;

	for (unsigned n = 0; n < NODES; n++)
		add_node(&print, world, n);
	KR_LIST_FOR_EACH(holder, &world->table.holders, link)
		add(&print,
			index_of(world, holder->node) | holder->kinds << 4 | holder->recalling << 8 |
				holder->unsent << 12 | holder->announcing << 16);
	KR_LIST_FOR_EACH(waiter, &world->table.waiting, link)
		add(&print,
			UINT64_C(1) << 40 | index_of(world, waiter->node) << 8 | waiter->kinds << 1 |
				waiter->operation);
	KR_LIST_FOR_EACH(waiter, &world->table.operations, link)
		add(&print, UINT64_C(1) << 41 | index_of(world, waiter->node));
	return print.hash ? print.hash : 1;
}

/* Whether it is new. */
static bool remember(struct search *search, uint64_t hash)
{
	size_t i;

	if (search->seen_count * 2 >= search->seen_capacity) {
		struct search larger = {.seen_capacity = search->seen_capacity ? search->seen_capacity * 2 : 1 << 12};

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
	static const struct kr_lease_actions actions = {.grant = on_grant, .recall = on_recall};

	memset(world, 0, sizeof(*world));
	kr_lease_table_init(&world->table, &actions, world);
	for (unsigned n = 0; n < NODES; n++) {
		kr_lease_state_init(&world->node[n].holder);
		world->node[n].number = ++world->last_number;
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
	static const char *const deeds[] = {"OPEN", "CREATE", "CLOSE", "WRITE", "READ", "OPERATE", "SHRINK", "DROP",
		"BREAK", "LOSE", "EXPIRE", "REPLACE"};
	static const char *const frames[] = {"LEASE", "RETURN", "OPEN", "CREATE", "FLUSH", "OPERATE", "RECLAIM", "DONE",
		"ANSWER", "REPLY", "RECALL"};
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
			print_error("server takes its %s%s\n", frames[node->up.frames[0].type],
				node->up.frames[0].resent ? ", resent" : "");
			break;
		case NODE_TAKES:
			print_error("takes %s%u of kinds %u\n", frames[node->down.frames[0].type],
				(unsigned)node->down.frames[0].number, node->down.frames[0].kinds);
			break;
		case RETURNS:
			print_error("comes back\n");
			break;
		case DROPPED:
			print_error("has dropped its pages\n");
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
	if (!new || search->seen_count > (size_t)STATES_MAX)
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
	struct search search = {.left = left, .may_refuse = may_refuse};

	explore(&search);
	assert_true(search.ends > 0);
	print_message("%zu states\n", search.seen_count);
	free(search.seen);
}

#define SCENARIO(name, refusals, ...) \
	static void name(void **state) \
	{ \
		static const unsigned left[NODES][DEEDS] = {__VA_ARGS__}; \
\
		(void)state; \
		explore_all(left, refusals); \
	}

SCENARIO(a_file_is_created_closed_opened_and_written, false,
	{[DO_CREATE] = 1, [DO_OPEN] = 1, [DO_CLOSE] = 2, [DO_WRITE] = 1}, {[DO_OPEN] = 1, [DO_READ] = 1})
SCENARIO(several_programs_create_the_same_file, false, {[DO_CREATE] = 2, [DO_CLOSE] = 2, [DO_WRITE] = 1},
	{[DO_CREATE] = 1, [DO_WRITE] = 1})
SCENARIO(idle_files_return_what_others_ask_back, false,
	{[DO_CREATE] = 1, [DO_CLOSE] = 1, [DO_SHRINK] = 1, [DO_OPEN] = 1, [DO_WRITE] = 1},
	{[DO_OPEN] = 1, [DO_WRITE] = 1})
SCENARIO(one_return_comes_after_the_other, false, {[DO_CREATE] = 2, [DO_CLOSE] = 1, [DO_DROP] = 2, [DO_READ] = 1},
	{[DO_OPEN] = 1})
SCENARIO(operations_of_one_node_among_writers, false, {[DO_OPEN] = 1, [DO_CLOSE] = 1, [DO_WRITE] = 1},
	{[DO_OPEN] = 1, [DO_OPERATE] = 1, [DO_READ] = 1})
SCENARIO(a_file_is_opened_while_its_pages_are_dropped, false,
	{[DO_OPEN] = 2, [DO_READ] = 1, [DO_CLOSE] = 1, [DO_SHRINK] = 1, [DO_WRITE] = 1},
	{[DO_CREATE] = 1, [DO_WRITE] = 1})
SCENARIO(a_connection_breaks, false, {[DO_CREATE] = 1, [DO_CLOSE] = 1, [DO_WRITE] = 1, [DO_BREAK] = 1},
	{[DO_OPEN] = 1, [DO_READ] = 1})
SCENARIO(a_lease_that_only_the_node_believes_in_is_asked_again, true, {[DO_OPEN] = 1, [DO_WRITE] = 2, [DO_LOSE] = 1},
	{[DO_OPEN] = 1, [DO_READ] = 1})

SCENARIO(a_session_is_lost_and_the_file_claimed_again, false,
	{[DO_CREATE] = 1, [DO_WRITE] = 1, [DO_CLOSE] = 1, [DO_EXPIRE] = 1}, {[DO_OPEN] = 1, [DO_READ] = 1})
SCENARIO(late_bytes_are_judged_before_they_go_in, false, {[DO_OPEN] = 1, [DO_WRITE] = 1, [DO_EXPIRE] = 1},
	{[DO_OPEN] = 1, [DO_WRITE] = 1})
SCENARIO(a_session_is_lost_again_while_it_is_claimed, false, {[DO_CREATE] = 1, [DO_WRITE] = 1, [DO_EXPIRE] = 2},
	{[DO_OPEN] = 1, [DO_WRITE] = 1})
SCENARIO(nobody_comes_between_the_judgement_and_the_late_bytes, false, {[DO_OPEN] = 1, [DO_WRITE] = 1, [DO_EXPIRE] = 1},
	{[DO_OPEN] = 1, [DO_WRITE] = 1, [DO_READ] = 1})
SCENARIO(a_daemon_that_is_started_anew_brings_the_late_bytes, false,
	{[DO_CREATE] = 1, [DO_WRITE] = 1, [DO_EXPIRE] = 1, [DO_REPLACE] = 1}, {[DO_OPEN] = 1, [DO_WRITE] = 1})
SCENARIO(a_daemon_that_is_started_anew_inherits, false, {[DO_CREATE] = 1, [DO_WRITE] = 1, [DO_REPLACE] = 1},
	{[DO_OPEN] = 1, [DO_READ] = 1})

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_is_created_closed_opened_and_written),
		cmocka_unit_test(several_programs_create_the_same_file),
		cmocka_unit_test(idle_files_return_what_others_ask_back),
		cmocka_unit_test(one_return_comes_after_the_other),
		cmocka_unit_test(operations_of_one_node_among_writers),
		cmocka_unit_test(a_file_is_opened_while_its_pages_are_dropped),
		cmocka_unit_test(a_connection_breaks),
		cmocka_unit_test(a_lease_that_only_the_node_believes_in_is_asked_again),
		cmocka_unit_test(a_session_is_lost_and_the_file_claimed_again),
		cmocka_unit_test(late_bytes_are_judged_before_they_go_in),
		cmocka_unit_test(a_session_is_lost_again_while_it_is_claimed),
		cmocka_unit_test(nobody_comes_between_the_judgement_and_the_late_bytes),
		cmocka_unit_test(a_daemon_that_is_started_anew_brings_the_late_bytes),
		cmocka_unit_test(a_daemon_that_is_started_anew_inherits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

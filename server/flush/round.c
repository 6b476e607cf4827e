/* The round machine (see round.h).  State changes only in the event functions, and in start() and abandon(), which they
 * call.
 */
#include "server/flush/round.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/ring_order.h"

struct asked {
	struct kr_link link;
	struct kr_round_ask ask;
	unsigned attempts;   /* broken rounds with it */
	bool sent, accepted; /* in the running chain */
	bool answered;       /* its node was lost during the write of its bytes */
};

struct queued_action {
	struct kr_link link;
	struct kr_round_action action;
};

static void push(struct kr_rounds *rounds, struct kr_round_action action)
{
	struct queued_action *item = kr_xcalloc(1, sizeof *item);

	action.round = rounds->round;
	item->action = action;
	kr_list_append(&rounds->actions, &item->link);
}

bool kr_rounds_action(struct kr_rounds *rounds, struct kr_round_action *ret_action)
{
	struct queued_action *item = KR_LIST_POP(&rounds->actions, struct queued_action, link);

	if (!item)
		return false;
	*ret_action = item->action;
	free(item);
	return true;
}

void kr_rounds_init(struct kr_rounds *rounds, uint64_t (*number)(void *context), void *context)
{
	memset(rounds, 0, sizeof *rounds);
	kr_list_init(&rounds->waiting);
	kr_list_init(&rounds->current);
	kr_list_init(&rounds->actions);
	rounds->number = number;
	rounds->number_context = context;
}

static void free_asks(struct kr_list *list)
{
	struct asked *asked;

	while ((asked = KR_LIST_POP(list, struct asked, link)))
		free(asked);
}

void kr_rounds_fini(struct kr_rounds *rounds)
{
	struct kr_round_action action;

	if (!rounds->number)
		return;
	free_asks(&rounds->waiting);
	free_asks(&rounds->current);
	while (kr_rounds_action(rounds, &action))
		continue;
}

bool kr_rounds_idle(const struct kr_rounds *rounds)
{
	return rounds->state == KR_ROUND_IDLE && kr_list_empty(&rounds->waiting) && kr_list_empty(&rounds->actions);
}

size_t kr_rounds_waiting(const struct kr_rounds *rounds)
{
	struct asked *asked;
	size_t count = 0;

	KR_LIST_FOR_EACH(asked, &rounds->waiting, link)
		count++;
	return count;
}

static bool has_ask_of(const struct kr_list *asks, uint32_t node)
{
	const struct asked *asked;

	KR_LIST_FOR_EACH(asked, asks, link) {
		if (asked->ask.node == node)
			return true;
	}
	return false;
}

bool kr_rounds_asked_by(const struct kr_rounds *rounds, uint32_t node)
{
	return has_ask_of(&rounds->waiting, node) || has_ask_of(&rounds->current, node);
}

/* Takes ASKED out of its list and answers it. */
static void answer(struct kr_rounds *rounds, struct asked *asked, int err, bool alone)
{
	if (!asked->answered)
		push(rounds,
			(struct kr_round_action){.kind = KR_ROUND_REPLY,
				.node = asked->ask.node,
				.token = asked->ask.token,
				.err = err,
				.alone = alone});
	kr_list_remove(&asked->link);
	free(asked);
}

static struct asked *find_current(struct kr_rounds *rounds, uint32_t node)
{
	return KR_LIST_FIND(struct asked, asked, &rounds->current, link, asked->ask.node == node);
}

static void send_round(struct kr_rounds *rounds, struct asked *asked)
{
	struct kr_link *next = asked->link.next;
	bool last = next == &rounds->current.head;

	asked->sent = true;
	asked->accepted = false;
	push(rounds,
		(struct kr_round_action){.kind = KR_ROUND_SEND,
			.node = asked->ask.node,
			.token = asked->ask.token,
			.downstream = last ? 0 : KR_LIST_ENTRY(next, struct asked, link)->ask.node,
			.has_upstream = asked->link.prev != &rounds->current.head});
}

static void insert_in_ring_order(struct kr_list *list, struct asked *asked)
{
	struct asked *other;

	KR_LIST_FOR_EACH(other, list, link) {
		if (kr_ring_order(asked->ask.order, asked->ask.node, other->ask.order, other->ask.node) < 0)
			break;
	}
	kr_list_insert_before(&other->link, &asked->link);
}

static bool may_chain(const struct asked *asked)
{
	return !asked->ask.inlined && !asked->ask.single && asked->attempts < KR_ROUND_CHAIN_ATTEMPTS;
}

static void start_chain(struct kr_rounds *rounds, struct asked *first)
{
	struct asked *asked, *after;
	struct kr_link *link;

	kr_list_remove(&first->link);
	kr_list_append(&rounds->current, &first->link);
	if (may_chain(first)) {
		KR_LIST_FOR_EACH_SAFE(asked, after, &rounds->waiting, link) {
			if (!may_chain(asked) || strcmp(asked->ask.ring, first->ask.ring) != 0 ||
				find_current(rounds, asked->ask.node))
				continue;
			kr_list_remove(&asked->link);
			insert_in_ring_order(&rounds->current, asked);
		}
	}
	asked = KR_LIST_ENTRY(rounds->current.head.prev, struct asked, link);
	push(rounds, (struct kr_round_action){.kind = KR_ROUND_BEGIN, .node = asked->ask.node});
	for (link = &asked->link; link != &rounds->current.head; link = link->prev)
		send_round(rounds, KR_LIST_ENTRY(link, struct asked, link));
}

static void start(struct kr_rounds *rounds)
{
	struct asked *first;

	if (rounds->held || rounds->state != KR_ROUND_IDLE)
		return;
	if (kr_list_empty(&rounds->waiting))
		return;
	first = KR_LIST_ENTRY(rounds->waiting.head.next, struct asked, link);
	rounds->round = rounds->number(rounds->number_context);
	rounds->received = false;
	if (first->ask.inlined) {
		kr_list_remove(&first->link);
		kr_list_append(&rounds->current, &first->link);
		rounds->state = KR_ROUND_INLINE;
		push(rounds,
			(struct kr_round_action){
				.kind = KR_ROUND_WRITE, .node = first->ask.node, .token = first->ask.token});
	} else {
		rounds->state = KR_ROUND_CHAIN;
		start_chain(rounds, first);
	}
}

/* Ends the running chain: ROUND_ABORT to all nodes that were sent ROUND.  Its writes are drained before anything else
 * starts. */
static void abandon(struct kr_rounds *rounds)
{
	struct asked *asked;

	KR_LIST_FOR_EACH(asked, &rounds->current, link) {
		if (asked->sent)
			push(rounds, (struct kr_round_action){.kind = KR_ROUND_ABORT, .node = asked->ask.node});
	}
	push(rounds, (struct kr_round_action){.kind = KR_ROUND_DISCARD});
	rounds->state = KR_ROUND_DRAINING;
	rounds->aborted++;
}

/* Puts the unanswered flushes of an aborted round before all that wait. */
static void ask_again(struct kr_rounds *rounds)
{
	struct asked *asked, *after;
	struct kr_link *position = rounds->waiting.head.next; /* stays: a flush that takes others along was alone */

	KR_LIST_FOR_EACH_SAFE(asked, after, &rounds->current, link) {
		if (asked->answered) {
			answer(rounds, asked, 0, false);
			continue;
		}
		if (++asked->attempts >= KR_ROUND_ATTEMPTS) {
			answer(rounds, asked, -EIO, false);
			continue;
		}
		kr_list_remove(&asked->link);
		kr_list_insert_before(position, &asked->link);
	}
}

int kr_rounds_ask(struct kr_rounds *rounds, const struct kr_round_ask *ask)
{
	struct asked *asked;
	unsigned count = 0;

	KR_LIST_FOR_EACH(asked, &rounds->waiting, link)
		count += asked->ask.node == ask->node;
	if (find_current(rounds, ask->node))
		count++;
	if (count >= KR_ROUND_ASKS_PER_NODE)
		return -EAGAIN;
	asked = kr_xcalloc(1, sizeof *asked);
	asked->ask = *ask;
	kr_list_append(&rounds->waiting, &asked->link);
	start(rounds);
	return 0;
}

void kr_rounds_hold(struct kr_rounds *rounds, bool held)
{
	rounds->held = held;
	start(rounds);
}

static void finish_when_complete(struct kr_rounds *rounds)
{
	struct asked *asked;

	if (!rounds->received)
		return;
	KR_LIST_FOR_EACH(asked, &rounds->current, link) {
		if (!asked->accepted)
			return;
	}
	rounds->state = KR_ROUND_FINISHING;
	push(rounds, (struct kr_round_action){.kind = KR_ROUND_FINISH});
}

static bool chain_runs(const struct kr_rounds *rounds, uint64_t round)
{
	return rounds->state == KR_ROUND_CHAIN && rounds->round == round;
}

void kr_rounds_accepted(struct kr_rounds *rounds, uint64_t round, uint32_t node, int err)
{
	struct asked *asked;

	if (!chain_runs(rounds, round))
		return;
	asked = find_current(rounds, node);
	if (!asked || !asked->sent || asked->accepted)
		return;
	if (err < 0) {
		asked->sent = false; /* nothing to abort there */
		abandon(rounds);
		answer(rounds, asked, err, false);
		ask_again(rounds);
		return;
	}
	asked->accepted = true;
	finish_when_complete(rounds);
}

void kr_rounds_received(struct kr_rounds *rounds, uint64_t round)
{
	if (!chain_runs(rounds, round))
		return;
	rounds->received = true;
	finish_when_complete(rounds);
}

void kr_rounds_broken(struct kr_rounds *rounds, uint64_t round)
{
	if (!chain_runs(rounds, round))
		return;
	abandon(rounds);
	ask_again(rounds);
}

static void settle_current(struct kr_rounds *rounds, int err)
{
	struct asked *asked, *after;
	bool alone = rounds->current.head.next == rounds->current.head.prev;

	KR_LIST_FOR_EACH_SAFE(asked, after, &rounds->current, link)
		answer(rounds, asked, err, alone);
}

void kr_rounds_failed(struct kr_rounds *rounds, uint64_t round, int err)
{
	if (!chain_runs(rounds, round))
		return;
	abandon(rounds);
	settle_current(rounds, err);
}

void kr_rounds_finished(struct kr_rounds *rounds, uint64_t round, int err)
{
	if ((rounds->state != KR_ROUND_INLINE && rounds->state != KR_ROUND_FINISHING) || rounds->round != round)
		return;
	settle_current(rounds, err);
	rounds->state = KR_ROUND_IDLE;
	start(rounds);
}

void kr_rounds_drained(struct kr_rounds *rounds, uint64_t round)
{
	if (rounds->state != KR_ROUND_DRAINING || rounds->round != round)
		return;
	rounds->state = KR_ROUND_IDLE;
	start(rounds);
}

void kr_rounds_lost(struct kr_rounds *rounds, uint32_t node)
{
	struct asked *asked, *after;

	KR_LIST_FOR_EACH_SAFE(asked, after, &rounds->waiting, link) {
		if (asked->ask.node == node)
			answer(rounds, asked, -ENOTCONN, false);
	}
	asked = find_current(rounds, node);
	if (!asked || asked->answered)
		return;
	if (rounds->state == KR_ROUND_CHAIN) {
		asked->sent = false;
		abandon(rounds);
		answer(rounds, asked, -ENOTCONN, false);
		ask_again(rounds);
		return;
	}
	push(rounds,
		(struct kr_round_action){
			.kind = KR_ROUND_REPLY, .node = node, .token = asked->ask.token, .err = -ENOTCONN});
	asked->answered = true;
}

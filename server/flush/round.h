/* The flush rounds of one file: which nodes have asked, which round runs, what to send to whom.  PURE: no sockets,
 * clocks or threads.
 *
 * A flush is *inline* (the server has its bytes) or *chained* (the node streams them in the round).  One round of a
 * file runs at a time.  An inline flush is a round of its own, in the order asked.  All waiting chained flushes of a
 * ring form one round, a chain in ring order: natural order of the host names, then node number.  The first node
 * streams to the second, the last to the server.  ROUND goes to all at once: a node lets a stream wait that comes
 * before its own ROUND.  Later flushes are in a later round.
 *
 * When a participant is lost or a stream breaks, the round is aborted.  Its bytes are drained (no write is under way)
 * and the other flushes are asked again.  After KR_ROUND_CHAIN_ATTEMPTS broken rounds a flush goes on alone, straight
 * to the server: two nodes may not reach each other.  After KR_ROUND_ATTEMPTS it fails with -EIO: the bytes are in the
 * node's journal.  A participant that the caller names as the cause (kr_rounds_accepted with an error) fails at once.
 *
 * Every ask gets exactly one KR_ROUND_REPLY.  Events are functions.  What they cause waits in a queue of actions,
 * which the caller empties with kr_rounds_action after each event.  An action may cause events in turn.
 */
#ifndef KR_SERVER_ROUND_H
#define KR_SERVER_ROUND_H

#include "common/base/list.h"

enum {
	KR_ROUND_ASKS_PER_NODE = 4, /* unanswered flushes on one file; our nodes have one */
	KR_ROUND_CHAIN_ATTEMPTS = 2,
	KR_ROUND_ATTEMPTS = 6,
};

enum kr_round_state {
	KR_ROUND_IDLE,
	KR_ROUND_INLINE,    /* KR_ROUND_WRITE given out; waits for kr_rounds_finished */
	KR_ROUND_CHAIN,     /* ROUNDs and streams are under way */
	KR_ROUND_FINISHING, /* all bytes written; KR_ROUND_FINISH given out; waits for kr_rounds_finished */
	KR_ROUND_DRAINING,  /* aborted; waits for kr_rounds_drained */
};

enum kr_round_action_kind {
	KR_ROUND_WRITE,   /* apply the inline flush TOKEN as round ROUND, then kr_rounds_finished */
	KR_ROUND_BEGIN,   /* be ready for the stream of ROUND from NODE, the last participant */
	KR_ROUND_SEND,    /* send ROUND to NODE (asked as TOKEN), DOWNSTREAM 0: the server; then kr_rounds_accepted */
	KR_ROUND_FINISH,  /* all participants accepted and the stream is written: set times, then kr_rounds_finished */
	KR_ROUND_ABORT,   /* send ROUND_ABORT to NODE */
	KR_ROUND_DISCARD, /* drop the stream of ROUND; kr_rounds_drained when no write of it is under way */
	KR_ROUND_REPLY,   /* answer TOKEN: ERR (-errno), or applied in ROUND if 0; ALONE: the only participant */
};

struct kr_round_action {
	enum kr_round_action_kind kind;
	uint64_t round;
	uint32_t node, downstream;
	bool has_upstream, alone;
	int err;
	void *token;
};

/* One asked flush. ORDER and RING are borrowed until its reply (the session's host name, and its ring's). */
struct kr_round_ask {
	uint32_t node;
	const char *order;
	const char *ring;
	bool inlined;
	bool single; /* no node can connect to it: a round of its own */
	void *token;
};

struct kr_rounds {
	struct kr_list waiting; /* struct asked, in the order asked */
	struct kr_list current; /* struct asked, of the running round, in ring order */
	struct kr_list actions;
	enum kr_round_state state;
	bool held;
	bool received;                     /* the stream of the running round is complete and written */
	uint64_t round;                    /* number of the running round */
	uint64_t (*number)(void *context); /* returns the next round number, ascending */
	void *number_context;
	uint64_t aborted; /* number of aborted rounds, for tests */
};

/* NUMBER gives out ascending numbers, > 0. */
void kr_rounds_init(struct kr_rounds *rounds, uint64_t (*number)(void *context), void *context);
/* Drops everything without replies. */
void kr_rounds_fini(struct kr_rounds *rounds);
/* Nothing is asked, runs or is queued. */
bool kr_rounds_idle(const struct kr_rounds *rounds);
/* How many flushes wait for their round. */
size_t kr_rounds_waiting(const struct kr_rounds *rounds);
/* NODE has an unanswered flush. */
bool kr_rounds_asked_by(const struct kr_rounds *rounds, uint32_t node);
/* A node asks. 0, or -EAGAIN: it has too many unanswered ones on this file (no reply action follows). */
int kr_rounds_ask(struct kr_rounds *rounds, const struct kr_round_ask *ask);
/* Holds or releases the start of rounds (a running one goes on). */
void kr_rounds_hold(struct kr_rounds *rounds, bool held);
/* NODE answered ROUND: ERR 0, or why it refused.  Late answers are ignored. */
void kr_rounds_accepted(struct kr_rounds *rounds, uint64_t round, uint32_t node, int err);
/* The stream of ROUND is complete and all of it is written. */
void kr_rounds_received(struct kr_rounds *rounds, uint64_t round);
/* The stream of ROUND broke or stalled: rerun. */
void kr_rounds_broken(struct kr_rounds *rounds, uint64_t round);
/* Writing failed with ERR: the round ends, every participant is told. */
void kr_rounds_failed(struct kr_rounds *rounds, uint64_t round, int err);
/* The answer to KR_ROUND_WRITE (ERR: of the write) or KR_ROUND_FINISH. */
void kr_rounds_finished(struct kr_rounds *rounds, uint64_t round, int err);
/* The answer to KR_ROUND_DISCARD. */
void kr_rounds_drained(struct kr_rounds *rounds, uint64_t round);
/* The session of NODE has ended: its flushes are answered with -ENOTCONN, its chain is aborted. */
void kr_rounds_lost(struct kr_rounds *rounds, uint32_t node);

/* Takes the next action out; false when there is none. */
bool kr_rounds_action(struct kr_rounds *rounds, struct kr_round_action *ret_action);

#endif

/* The flush rounds of one file: who has asked, which round runs, what to tell whom.  PURE: no sockets, clocks or
 * threads.
 *
 * A flush is asked *inline* (the server has its bytes) or *chained* (the node will stream them when told).  One round
 * of a file runs at a time.  Inline flushes are rounds of their own, in the order asked; when a chained one's turn
 * comes, all chained ones of its ring that wait form one round, a chain in ring order (natural order of the host names,
 * then node number): the first streams to the second, ..., the last to the server.  ROUND goes to all at once: a node
 * lets a stream wait that comes before its own ROUND.  Who asks meanwhile is in a later round.
 *
 * When a participant is lost or a stream breaks, the round is aborted: its bytes are drained (no write of it is under
 * way any more) and the rest are asked again.  After KR_ROUND_CHAIN_ATTEMPTS broken rounds a flush goes on alone,
 * straight to the server (two nodes may not reach each other), after KR_ROUND_ATTEMPTS it fails with -EIO: the bytes
 * are in the node's journal.  A participant that the caller names as the cause (kr_rounds_accepted with an error) fails
 * at once.
 *
 * Replays (flushes of rounds that a machine crash may have undone) run one by one before everything else, by the
 * ascending numbers of the rounds that they were at first, and nothing runs while the machine is held (the server still
 * collects them). So do flushes of rounds that a failed sync may have undone. One that fails takes the later ones of
 * its node along, so that what is applied of a journal is all up to some number.
 *
 * Every ask gets exactly one KR_ROUND_REPLY.  Events are functions; what they cause waits in a queue of actions, which
 * the caller takes out with kr_rounds_action after each event (an action's execution may cause events in turn).
 */
#ifndef KR_SERVER_ROUND_H
#define KR_SERVER_ROUND_H

#include "common/base/list.h"

enum {
	KR_ROUND_ASKS_PER_NODE = 4,       /* unanswered ones on one file; a node of ours has one */
	KR_ROUND_REPLAYS_PER_NODE = 1024, /* ... and while replays are collected, one per round it replays */
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
	KR_ROUND_SEND,    /* ROUND to NODE (it asked as TOKEN): its downstream is DOWNSTREAM (0 = the server),
			   * HAS_UPSTREAM; then    kr_rounds_accepted */
	KR_ROUND_FINISH,  /* all participants accepted and the stream is written: set times, then kr_rounds_finished */
	KR_ROUND_ABORT,   /* ROUND_ABORT to NODE */
	KR_ROUND_DISCARD, /* drop the round stream of ROUND; kr_rounds_drained when nothing of it is under way */
	KR_ROUND_REPLY,   /* answer TOKEN: error ERR (negative errno), or applied in ROUND when 0; ALONE: no other
			     participant */
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
	bool single;           /* cannot be a link of a chain (nobody can connect to it): a round of its own */
	uint64_t replay_round; /* that it was applied in at first; 0: not a replay */
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
	uint64_t (*number)(void *context); /* gives the next round number, ascending */
	void *number_context;
	uint64_t aborted; /* rounds, so far: how tests see that one was */
};

/* NUMBER gives out ascending numbers, > 0. */
void kr_rounds_init(struct kr_rounds *rounds, uint64_t (*number)(void *context), void *context);
/* Forgets everything without replies. */
void kr_rounds_fini(struct kr_rounds *rounds);
/* Nothing asked, running or to be done. */
bool kr_rounds_idle(const struct kr_rounds *rounds);
/* How many flushes wait for their turn. */
size_t kr_rounds_waiting(const struct kr_rounds *rounds);
/* NODE has asked for a flush that is not answered. */
bool kr_rounds_asked_by(const struct kr_rounds *rounds, uint32_t node);
/* Replays wait for their turn. */
bool kr_rounds_replaying(const struct kr_rounds *rounds);
/* Replays are not answered. */
bool kr_rounds_replay(const struct kr_rounds *rounds);
/* NODE has asked for replays that are not answered. */
bool kr_rounds_replayed_by(const struct kr_rounds *rounds, uint32_t node);

/* A node asks. 0, or -EAGAIN: it has too many unanswered ones on this file (no reply action follows). */
int kr_rounds_ask(struct kr_rounds *rounds, const struct kr_round_ask *ask);
/* Holds or releases the start of rounds (a running one goes on). */
void kr_rounds_hold(struct kr_rounds *rounds, bool held);
/* NODE answered ROUND: ERR 0, or the status with which it refused. Late answers are ignored. */
void kr_rounds_accepted(struct kr_rounds *rounds, uint64_t round, uint32_t node, int err);
/* The stream of ROUND is complete and all of it is written. */
void kr_rounds_received(struct kr_rounds *rounds, uint64_t round);
/* The stream of ROUND broke or stalled: rerun. */
void kr_rounds_broken(struct kr_rounds *rounds, uint64_t round);
/* Writing failed with ERR: the round ends, every participant is told. */
void kr_rounds_failed(struct kr_rounds *rounds, uint64_t round, int err);
/* The answer to KR_ROUND_WRITE (ERR: of the write) or KR_ROUND_FINISH. */
void kr_rounds_finished(struct kr_rounds *rounds, uint64_t round, int err);
/* The same of a round that has been taken away again by other means, and is to be run once more when its turn comes. */
void kr_rounds_undone(struct kr_rounds *rounds, uint64_t round);
/* The answer to KR_ROUND_DISCARD. */
void kr_rounds_drained(struct kr_rounds *rounds, uint64_t round);
/* NODE's session is gone: what it asked is answered with -ENOTCONN, a chain with it is aborted. */
void kr_rounds_lost(struct kr_rounds *rounds, uint32_t node);

/* Takes the next action out; false when there is none. */
bool kr_rounds_action(struct kr_rounds *rounds, struct kr_round_action *ret_action);

#endif

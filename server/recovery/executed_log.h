/* Which requests were executed, remembered beyond the end of the process.  So neither the next instance nor the node's
 * next session executes a request again whose answer was lost.  Nor does it take a request for executed because another
 * request has had the same effect.
 *
 * A file of KR_EXECUTED_SLOTS records in the state directory: what was written survives kill -9.  It counts for one
 * boot of the machine only, because nothing is synced.  The oldest record is overwritten.  Native byte order.  Any
 * thread.
 *
 * The file also has an intent record of each change of names under way, from before its phase INTENT until after its
 * end.  So a start that finds a request in the phase INTENT also finds the record, and checks whether the change was
 * made (kr_executed_settle).
 */
#ifndef KR_SERVER_EXECUTED_LOG_H
#define KR_SERVER_EXECUTED_LOG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct kr_executed;
struct kr_intent_change;

/* INTENTS: more than there are threads that change names.  A further one would have no record. */
enum { KR_EXECUTED_SLOTS = 16384, KR_EXECUTED_INTENTS = 64 };

enum kr_executed_phase {
	KR_EXECUTED_UNKNOWN, /* never begun, or forgotten */
	KR_EXECUTED_BEGUN, /* begun, and the process ended before it was done: a change of a name was not made, another
			      effect may have been */
	KR_EXECUTED_DONE,
	KR_EXECUTED_DOUBT,  /* as UNKNOWN, when it was begun */
	KR_EXECUTED_INTENT, /* the process ended during the change (intent.h), and the next one could not tell whether
			       it was made; no later change of that directory was made by that process */
};

struct kr_executed_key {
	uint8_t node_id[16];
	uint64_t incarnation; /* of the node's daemon: request ids ascend within one */
	uint64_t request;
};

/* Prints the records of DIR/executed, the oldest first. Prints nothing if there is no such file, or one of another
 * version. 0 or -errno with a reason. Blocks. */
int kr_executed_print(int dir, FILE *to);
/* Opens or makes DIR/executed; forgets requests of another boot than BOOT_ID, or of another version of kairand. 0
 * or -errno with a reason. */
int kr_executed_open(int dir, const uint8_t boot_id[16], struct kr_executed **ret_executed);
void kr_executed_close(struct kr_executed *executed);
/* KEY is about to be executed.  One in the phase INTENT stays in it. */
void kr_executed_begin(struct kr_executed *executed, const struct kr_executed_key *key);
/* ... and was sent before.  DOUBTFUL: it may have been executed then, and forgotten. */
void kr_executed_begin_again(struct kr_executed *executed, const struct kr_executed_key *key, bool doubtful);
/* KEY makes CHANGE now.  And: the change was not made, and KEY is in PHASE again, as it was before. */
void kr_executed_intent(
	struct kr_executed *executed, const struct kr_executed_key *key, const struct kr_intent_change *change);
void kr_executed_no_intent(
	struct kr_executed *executed, const struct kr_executed_key *key, enum kr_executed_phase phase);
/* Settles the changes during which the former instance ended.  JUDGE returns for each: DONE, with *RET_VALUE, which is
 * part of its answer; BEGUN: the change was not made; INTENT: nothing tells.  To be called once, before the first
 * request.  The records are given up afterwards.  Borrows CONTEXT. */
void kr_executed_settle(struct kr_executed *executed,
	enum kr_executed_phase (*judge)(void *context, const struct kr_intent_change *change, uint64_t *ret_value),
	void *context);
/* KEY was executed with ERR; VALUE is part of its answer.  Does nothing if it was not begun, or is forgotten. */
void kr_executed_end(struct kr_executed *executed, const struct kr_executed_key *key, int err, uint64_t value);
/* Whether KEY, which is not found, was never in the memory.  True if no record was ever overwritten.  True also if an
 * earlier request of the same daemon, begun on its first arrival, is still there: a record of KEY would be younger. */
bool kr_executed_never(struct kr_executed *executed, const struct kr_executed_key *key);
/* The grace period is over: all requests that nodes send again from now on were begun in this boot. */
void kr_executed_complete(struct kr_executed *executed);
/* Whether a former instance of this boot has called kr_executed_complete: then the memory is older than all requests
 * that nodes send again. */
bool kr_executed_was_complete(const struct kr_executed *executed);
/* Whether another request than KEY has been executed with VALUE. */
bool kr_executed_by_other(struct kr_executed *executed, const struct kr_executed_key *key, uint64_t value);
/* *RET_VALUE: of kr_executed_end, or kr_executed_intent. */
enum kr_executed_phase kr_executed_find(
	struct kr_executed *executed, const struct kr_executed_key *key, int *ret_err, uint64_t *ret_value);

#endif

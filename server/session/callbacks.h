/* Requests to the nodes: each is answered exactly once, by the node over whatever connection its session has, or by the
 * session's end.  And for how long we are patient with those that are not answered.  Loop thread only.
 */
#ifndef KR_SERVER_CALLBACKS_H
#define KR_SERVER_CALLBACKS_H

#include <stdbool.h>
#include <stdint.h>

struct kr_session;

/* Answer of the node: ERR 0 with REPLY (borrowed), the node's status as -errno, or -ENOTCONN when the session ended. */
typedef void (*kr_ask_fn)(struct kr_session *session, void *context, int err, const void *reply);
/* Sends a request (direction DOWN) to the node and repeats it after each reconnection until it is answered; asks of one
 * session arrive in the order in which they were made. MSG is copied. FN is called exactly once, never from inside this
 * call, unless FN is NULL. Returns a number for kr_callback_abandon; 0 when the session is dead already (FN is not
 * called). */
uint64_t kr_callback_send(struct kr_session *session, uint16_t type, const void *msg, kr_ask_fn fn, void *context);
/* The same for what takes the node time: WORKING (may be NULL), given CONTEXT, says whether the node is at work on it
 * or waits for us (now), and else since when it has not been (*RET_SINCE_NS; 0: since it was asked).  SINCE_NS: since
 * when it owes the answer, in its former sessions too. */
typedef bool (*kr_ask_working_fn)(struct kr_session *session, const void *context, uint64_t *ret_since_ns);
uint64_t kr_callback_send_long(struct kr_session *session, uint16_t type, const void *msg, kr_ask_fn fn,
	kr_ask_working_fn working, void *context, uint64_t since_ns);
/* Forgets FN and CONTEXT of an ask that was made for a request of ASKER; the node's answer is dropped, but until it is
 * there, or ASKER has ended, it counts as one of ASKER's unanswered requests: who asks and withdraws all the time would
 * flood others with questions. */
void kr_callback_abandon(struct kr_session *session, uint64_t ask, struct kr_session *asker);

/* --- for session.c ---------------------------------------------------------------------------- */

/* The session's connection is about to be nobody's. */
void kr_callbacks_forget(const struct kr_session *session);
/* The session has a new connection: what is unanswered is repeated on it. */
void kr_callbacks_connected(struct kr_session *session);
/* The node has taken most of what was queued for it: what was withheld is asked. */
void kr_callbacks_drained(struct kr_session *session);
/* The node knows now what it has inherited: what had to wait for that is asked. */
void kr_callbacks_inherited(struct kr_session *session);
/* The session has ended: what its node was asked fails, and what others were asked for its requests, and withdrawn, is
 * forgotten. */
void kr_callbacks_fail(struct kr_session *session);
/* Every tick: whether the node has left a question unanswered, without working on it, for the lease time on one
 * connection, or for KR_SESSION_ASK_LEASES of them since it was asked.  As long as a QUERY waits for
 * kr_callbacks_inherited its time does not count, but for KR_SESSION_CLAIM_LEASES in all. */
bool kr_callbacks_neglected(struct kr_session *session, uint64_t now_ns);

#endif

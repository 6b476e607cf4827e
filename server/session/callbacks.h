/* Callbacks: requests of the server to a node. Each gets exactly one answer: from the node over whatever connection its
 * session has, or from the session's end. This file also says how long the server waits for an answer. Loop thread
 * only. */
#ifndef KR_SERVER_CALLBACKS_H
#define KR_SERVER_CALLBACKS_H

#include <stdbool.h>
#include <stdint.h>

struct kr_session;

/* The answer: ERR 0 with REPLY (borrowed); the node's status as -errno; or -ENOTCONN when the session ended. */
typedef void (*kr_callback_fn)(struct kr_session *session, void *context, int err, const void *reply);
/* Sends a request (direction DOWN) and repeats it after each reconnection until the node answers. Callbacks of one
 * session arrive in the order of the calls, but QUERY waits while the node reclaims. MSG is copied. FN (may be NULL)
 * is called exactly once, never from inside this call. Returns a number for kr_callback_abandon; 0 when the session is
 * dead (FN is not called). */
uint64_t kr_callback_send(struct kr_session *session, uint16_t type, const void *msg, kr_callback_fn fn, void *context);
/* The same for an answer that takes the node time. WORKING (may be NULL) gets CONTEXT and returns whether the node
 * works on the answer, or waits for the server, now. Else *RET_SINCE_NS is when that ended (0: when the callback was
 * sent). SINCE_NS: since when the node owes the answer, in its former sessions too. */
typedef bool (*kr_callback_working_fn)(struct kr_session *session, const void *context, uint64_t *ret_since_ns);
uint64_t kr_callback_send_long(struct kr_session *session, uint16_t type, const void *msg, kr_callback_fn fn,
	kr_callback_working_fn working, void *context, uint64_t since_ns);
/* Forgets FN and CONTEXT of a callback that a request of ASKER needed; the node's answer is dropped. Until that answer,
 * or ASKER's end, the callback counts as one of ASKER's unanswered requests. Otherwise a client that asks and withdraws
 * in a loop could flood other nodes. */
void kr_callback_abandon(struct kr_session *session, uint64_t ask, struct kr_session *asker);

/* --- for session.c and expiry.c ----------------------------------------------------------------- */

/* The session is about to lose its connection. */
void kr_callbacks_forget(const struct kr_session *session);
/* The session has a new connection: the server repeats unanswered callbacks on it. */
void kr_callbacks_connected(struct kr_session *session);
/* The node has taken most of its queue: the server sends the withheld callbacks. */
void kr_callbacks_drained(struct kr_session *session);
/* The node knows now what it has inherited: the server sends the QUERYs that waited for that. */
void kr_callbacks_inherited(struct kr_session *session);
/* The session has ended: its node's callbacks fail, and those that its requests gave up are forgotten. */
void kr_callbacks_fail(struct kr_session *session);
/* Every tick: whether the node, without working on it, has left a callback unanswered for too long. That is the lease
 * time on one connection, or KR_SESSION_CALLBACK_LEASES in all. Time in which a QUERY waits for kr_callbacks_inherited
 * does not count, up to KR_SESSION_CLAIM_LEASES.
 */
bool kr_callbacks_neglected(struct kr_session *session, uint64_t now_ns);

#endif

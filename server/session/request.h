/* One request of a node, from its frame to its one reply.
 *
 * A handler gets a decoded request and must see to it that kr_request_reply is called exactly once, at once or later:
 *  - after a blocking call:  kr_request_run(request, run, done);
 *  - after waiting for something: put `wait` into a list of yours, set `cancel`, and go on when it happened.
 * The request survives its connection (the reply goes to the session's connection at that time) and its session's end:
 * then a parked one (with `cancel` set) is withdrawn and freed by itself; one in the pool, or one that has had its
 * effect, goes on, and its reply is dropped.
 */
#ifndef KR_SERVER_REQUEST_H
#define KR_SERVER_REQUEST_H

#include <uv.h>

#include "common/base/buf.h"
#include "common/rpc/conn.h"
#include "common/base/list.h"
#include "common/rpc/msg.h"
#include "common/base/table.h"
#include "server/export/intent.h"
#include "server/export/last_stat.h"
#include "server/session/hooks.h"

struct kr_server;
struct kr_session;

struct kr_request {
	struct kr_server *server;
	struct kr_session *session; /* reference */
	struct kr_table_link by_id; /* kr_session.requests */
	struct kr_link of_all;      /* kr_sessions.unanswered */
	uint64_t arrived_ns;
	uint64_t connection; /* session->connections when it came: on another one the node need not know of it any more
			      */
	bool said;           /* of slow_requests.c: the log says that it waits for long */
	uint16_t type;
	bool maybe_done; /* resent from an earlier session: it may have been executed */
	bool again;      /* resent from an earlier session, whatever is known of it (request_cache.c) */
	uint64_t made;   /* hash of what it made then, as far as that is remembered; 0 */
	bool remembered; /* in executed.h, and what of it since kr_request_cache_end: */
	bool executed;
	int executed_err;
	struct kr_intent turn; /* of its change of names (request_cache.c) */
	bool had_turn;         /* in a former instance, which ended in it */
	uint64_t executed_value;
	bool outlives; /* its session has ended before it: in kr_sessions.outliving, by ... */
	struct kr_table_link by_key;
	struct kr_list
		repetitions; /* `wait` of those that the node's next sessions have sent meanwhile (request_cache.h) */
	bool in_pool;
	uint64_t id;
	union kr_any_msg msg; /* decoded; strings borrow from `fields` and `arena` */
	struct kr_arena arena;
	uint8_t *fields;
	uint32_t fields_length;
	struct kr_buf *data; /* reference; NULL when there is none */
	size_t held;         /* bytes counted in the session's: its own, of fields and data */

	/* While parked. CANCEL must take the request out of whatever it waits in; then it is answered with -EINTR
	 * (node's CANCEL) or freed (session's end). NULL: it cannot be withdrawn now. */
	void (*cancel)(struct kr_request *request);
	struct kr_link wait;
	/* While it waits for other nodes after it has had its effect, which its own node is to learn of only then.  At
	 * the session's end: goes on without them (that is cleared before). NULL: it does not wait so. */
	void (*hurry)(struct kr_request *request);

	struct kr_list behind;     /* of a FLUSH: `wait` of what came behind it (after_flush.c), and ... */
	struct kr_link of_flushes; /* ... kr_session.flushes */
	void (*after_flush)(struct kr_request *request); /* of what waits there */

	/* For the handler: one job at a time. */
	uv_work_t work;
	void (*run)(struct kr_request *request);
	void (*done)(struct kr_request *request);
	int err;                /* of the job */
	union kr_any_msg reply; /* filled by the job */
	void *state;            /* the handler's own, freed by `free_state` (may be NULL) with the request */
	void (*free_state)(void *state);
	void *job_state;                   /* of attrs.c, while kr_attrs_get is under way, and of shrink_notice.c */
	bool committed;                    /* it has had an effect: it cannot be withdrawn any more */
	bool folds;                        /* the names that it has changed are others as well */
	bool syncs_cut;                    /* of truncate_barrier.c */
	bool shorter;                      /* of shrink_notice.c: it makes its file shorter */
	bool bare;                         /* what is answered is a file without extended attributes */
	struct kr_invalidation_set change; /* of invalidation.c */
	struct kr_own_change own;          /* of a file's attributes or names (watch.h) */
};

/* RUN in a pool thread: may read msg and data, writes err, reply, what `state` points to and what it finds out of the
 * change (bare, shorter, syncs_cut, executed, own), nothing else of the request. DONE in the loop, also when the
 * session has ended meanwhile (its reply is then dropped). Clears `cancel`. */
void kr_request_run(struct kr_request *request, void (*run)(struct kr_request *), void (*done)(struct kr_request *));

/* Bytes of all requests, but for their data. */
size_t kr_request_bytes(void);
/* Its bytes are counted by somebody else from now on. */
void kr_request_unhold(struct kr_request *request);

/* Answers and frees the request. ERR 0 with MSG (NULL where the reply has no fields), or -errno. SLICES as
 * kr_conn_reply. */
void kr_request_reply(
	struct kr_request *request, int err, const void *msg, const struct kr_slice *slices, size_t count);
/* The same with request->err and request->reply: the usual DONE. */
void kr_request_reply_job(struct kr_request *request);

/* Frees a request that has been answered by other means. */
void kr_request_drop(struct kr_request *request);

/* --- for the session, the server and what parks requests ------------------------------- */

/* A frame of a session: finds out whether it is a repetition, decodes, and dispatches. */
void kr_request_arrived(struct kr_session *session, const struct kr_frame *frame);
/* Gives a decoded request to its handler, or parks it while the grace period lasts. */
void kr_request_dispatch(struct kr_request *request);
/* Gives it to its handler, if it has not been executed before and is not being executed now. */
void kr_request_handle(struct kr_request *request);
/* Parks it; when the grace period is over it goes to its handler again. */
void kr_request_wait_for_grace(struct kr_request *request);
/* The session's unanswered request of that id; NULL. */
struct kr_request *kr_request_find(const struct kr_session *session, uint64_t id);
/* The node's CANCEL, or the session's end (ENDED): withdraws it if that can be. */
void kr_request_withdraw(struct kr_request *request, bool ended);

#endif

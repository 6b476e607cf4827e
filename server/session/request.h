/* One request of a node, from its frame to its one reply.
 *
 * A handler gets a decoded request and must see to it that kr_request_reply is called exactly once, now or later. For a
 * blocking call it uses kr_request_run(request, run, done). To wait, it puts `wait` into a list, sets `cancel`, and
 * goes on later.
 *
 * The request survives its connection (the reply goes to the session's then) and its session's end. A parked request
 * (with `cancel` set) is withdrawn and freed at the session's end. A request in the pool, or one that has had its
 * effect, goes on, and the server drops its reply. */
#ifndef KR_SERVER_REQUEST_H
#define KR_SERVER_REQUEST_H

#include "common/base/buf.h"
#include "common/rpc/conn.h"
#include "common/base/list.h"
#include "common/rpc/msg.h"
#include "common/base/table.h"
#include "server/export/intent.h"
#include "server/base/last_stat.h"
#include "server/base/brief.h"
#include "server/session/hooks.h"

struct kr_server;
struct kr_session;

/* The request's fields, and the memory that the session's flow control counts. */
struct kr_request_memory {
	struct kr_arena arena;
	uint8_t *fields;
	uint32_t fields_length;
	size_t held; /* counted in kr_session_flow.held: own bytes, fields and data */
};

/* The blocking call (kr_request_run): one at a time. */
struct kr_request_job {
	struct kr_brief brief;
	void (*run)(struct kr_request *request);
	void (*done)(struct kr_request *request);
	bool running;
};

/* Waiting behind a FLUSH (request.c). */
struct kr_request_after_flush {
	struct kr_list waiting;    /* of a FLUSH: `wait` of the requests behind it */
	struct kr_link of_flushes; /* of a FLUSH: kr_session.flushes */
	void (*next)(struct kr_request *request);
};

/* The duplicate request cache's part (recovery/request_cache.c). */
struct kr_request_duplicate {
	bool resent;         /* from an earlier session, whatever is known of it */
	bool maybe_executed; /* resent, and an earlier session may have executed it */
	uint64_t made;       /* hash of the fid that the first execution made, if remembered; 0 */
	bool remembered;     /* executed_log.h has it; the rest is known since kr_request_cache_end: */
	bool executed;
	int executed_err;
	uint64_t executed_value;
	struct kr_intent intent; /* of its change of names */
	bool had_intent;         /* a former instance ended while it changed names */
	bool outlives;           /* its session has ended before it: in kr_sessions.outliving */
	struct kr_table_link by_key;
	struct kr_list repetitions; /* `wait` of the same request, sent by the node's next sessions meanwhile */
};

enum { KR_NAMES_OF_REQUEST = 2 }; /* a rename's */
struct kr_name_run;

/* The effects of the request on its file. */
struct kr_request_effect {
	bool committed;           /* it has had an effect: nothing can withdraw it any more */
	bool folds;               /* the export ignores case: the changed names have other spellings */
	bool syncs_truncation;    /* truncate_barrier.c */
	bool shorter;             /* the file becomes shorter (shrink_notice.c) */
	bool no_xattrs;           /* the reply's file has no extended attributes */
	struct kr_own_change own; /* of a file's attributes or names (leases/watch.h) */
	void (*after_names)(struct kr_request *request); /* these two: names/name_sync.c */
	struct kr_name_run *name_runs[KR_NAMES_OF_REQUEST];
};

struct kr_request {
	struct kr_server *server;
	struct kr_session *session; /* reference */
	struct kr_table_link by_id; /* kr_session.requests */
	struct kr_link of_all;      /* kr_sessions.unanswered */
	uint64_t id;
	uint16_t type;
	uint64_t arrived_ns;
	uint64_t connection;  /* kr_session.connections on arrival */
	bool logged_slow;     /* leases/slow_requests.c */
	union kr_any_msg msg; /* decoded; strings borrow from `memory` */
	struct kr_buf *data;  /* reference; NULL when there is none */
	struct kr_request_memory memory;

	/* While parked. CANCEL takes the request out of its list; then the request is answered with -EINTR (node's
	 * CANCEL) or freed (session's end). NULL: the request cannot be withdrawn now. */
	void (*cancel)(struct kr_request *request);
	struct kr_link wait;
	/* Set while the request has had its effect and its reply waits for other nodes. At the session's end the
	 * server clears and calls it: the request goes on without them. */
	void (*hurry)(struct kr_request *request);

	int err;                /* of the job */
	union kr_any_msg reply; /* filled by the job */
	void *state;            /* the handler's own, freed by `free_state` (may be NULL) with the request */
	void (*free_state)(void *state);
	void *job_state; /* of leases/attrs.c during kr_attrs_get, of names/shrink_notice.c and names/name_sync.c */

	struct kr_request_job job;
	struct kr_request_after_flush after_flush;
	struct kr_request_duplicate duplicate;
	struct kr_request_effect effect;
	struct kr_invalidation_set invalidation;
};

/* RUN in a pool thread: may read msg and data, and write err, reply, what `state` points to, `effect` and
 * `duplicate.executed`, nothing else of the request. DONE in the loop, also after the session's end (the reply is then
 * dropped). Clears `cancel`. */
void kr_request_run(struct kr_request *request, void (*run)(struct kr_request *), void (*done)(struct kr_request *));

/* Bytes of all requests without their data. */
size_t kr_request_bytes(void);

/* Answers and frees the request. ERR 0 with MSG (NULL for a reply without fields), or -errno. SLICES as kr_conn_reply.
 */
void kr_request_reply(
	struct kr_request *request, int err, const void *msg, const struct kr_slice *slices, size_t count);
/* The same with request->err and request->reply: the usual DONE. */
void kr_request_reply_job(struct kr_request *request);

/* Frees a request without an answer. */
void kr_request_drop(struct kr_request *request);

/* --- for the session, the server and what parks requests ------------------------------- */

/* A frame of a session: recognises repetitions, decodes, dispatches. */
void kr_request_arrived(struct kr_session *session, const struct kr_frame *frame);
/* Gives a decoded request to its handler, or parks it during the grace period. */
void kr_request_dispatch(struct kr_request *request);
/* Gives the request to its handler, unless the duplicate request cache answers it. */
void kr_request_handle(struct kr_request *request);
/* Parks the request until the end of the grace period, then dispatches it. */
void kr_request_wait_for_grace(struct kr_request *request);
/* The session's unanswered request with that id; NULL. */
struct kr_request *kr_request_find(const struct kr_session *session, uint64_t id);
/* The node's CANCEL, or the session's end (ENDED): withdraws the request if possible. */
void kr_request_withdraw(struct kr_request *request, bool ended);

#endif

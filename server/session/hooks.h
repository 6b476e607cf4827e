/* What higher rooms do for sessions and requests. Each room registers its hooks once, before the server listens. */
#ifndef KR_SERVER_HOOKS_H
#define KR_SERVER_HOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/list.h"
#include "common/rpc/conn.h"
#include "common/rpc/msg.h"

struct kr_key;
struct kr_pending_conn;
struct kr_request;
struct kr_server;
struct kr_session;

/* The duplicate request cache around each request (recovery/request_cache.h). */
struct kr_request_cache_hooks {
	/* REQUEST, sent before in another session, is about to be handled.  True: REQUEST was executed, and is answered
	 * now or soon; or it still runs for that session, and goes on when that is over.  False: the caller handles it;
	 * a truncation that was made already is taken out of it. */
	bool (*settled)(struct kr_request *request);
	/* Before the first job of REQUEST. */
	void (*begin)(struct kr_request *request);
	/* Executes REQUEST, in the pool. */
	void (*run)(struct kr_request *request);
	/* Before the reply to REQUEST.  Where the reply waits for other nodes: before they can build on the effect. */
	void (*end)(struct kr_request *request, int err);
	/* The session of REQUEST has ended while REQUEST cannot be withdrawn.  Repetitions in the node's next session
	 * wait for REQUEST, so from here on it must not wait for its own node: only for the disk, and for a bounded
	 * time for INVALIDATE. */
	void (*outlives)(struct kr_request *request);
	/* REQUEST is being freed. */
	void (*over)(struct kr_request *request);
};

enum { KR_ATTR_CACHE_CHANGE_MAX = 6 };

/* Whose attribute caches one request invalidates: the request's part of leases/invalidation.c. */
struct kr_invalidation_set {
	uint64_t since; /* the table's moment when the request came */
	uint32_t buckets[KR_ATTR_CACHE_CHANGE_MAX], count;
	uint32_t also;                            /* bits by index: a change there beyond the names in the request */
	uint64_t asked[KR_ATTR_CACHE_CHANGE_MAX]; /* bits per bucket */
	struct kr_list unanswered;                /* struct sent of invalidation.c */
	void (*next)(struct kr_request *request);
};

/* The invalidation of other nodes' attribute caches around each request (leases/invalidation.h). */
struct kr_invalidation_hooks {
	void (*wait)(struct kr_request *request, void (*next)(struct kr_request *request));
	uint16_t (*reply)(struct kr_request *request, int err, const void *msg);
	void (*drop)(struct kr_request *request);
};

struct kr_session_hooks {
	struct kr_request_cache_hooks request_cache;
	struct kr_invalidation_hooks invalidation;
	/* The request is being freed (leases/slow_requests.h). */
	void (*request_ended)(struct kr_request *request);

	/* The session's key was removed: its ring connections to the server end. */
	void (*ring_cut)(struct kr_session *session);
	/* A session ends, in this order. SUCCESSOR: the session of the same node that inherits its leases, or NULL.
	 * RELEASE: the server closes its open files; otherwise the node reclaims them from the next instance. */
	void (*flushes_end)(struct kr_session *session);
	void (*locks_end)(struct kr_session *session);
	void (*files_end)(struct kr_session *session, struct kr_session *successor, bool release);
	/* RECLAIM_DONE: the server releases what the session has inherited and not reclaimed. */
	void (*reclaimed)(struct kr_session *session);
	/* The epoch of changes of any file's bytes (leases/file_table.h). */
	uint64_t (*epoch)(const struct kr_server *server);
	/* Up to which epoch the leases of the session covered its node's bytes: at most EPOCH. */
	uint64_t (*covered_until)(const struct kr_session *session, uint64_t epoch);
	/* The grace period may be due to end. */
	void (*end_grace)(struct kr_server *server);

	/* First frames of a pending connection: of ring connections (flush/hop.c; false: drop it), and STATUS. KEY: the
	 * peer's, or NULL where the server has no keys; a user key gets that user's part only. */
	bool (*hop_hello)(struct kr_server *server, struct kr_pending_conn *pending_conn, const struct kr_frame *frame);
	bool (*hop_prove)(struct kr_server *server, struct kr_pending_conn *pending_conn, const struct kr_frame *frame);
	void (*status)(struct kr_server *server, struct kr_conn *conn, uint64_t id, const struct kr_status_request *msg,
		const struct kr_key *key);
};

#endif

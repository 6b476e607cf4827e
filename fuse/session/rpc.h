/* Requests to the server that outlive its connection.
 *
 * A call is kept encoded until it is answered.  When the connection breaks, the rpc reconnects (50 ms to 2 s apart, for
 * ever) and sends unanswered calls again in their order, with RESEND, as soon as session.c says that the session goes
 * on.  With `soft`, calls fail with -ETIMEDOUT when the server has not answered for `timeo` seconds; hard ones wait
 * (and the operations that wait for them give up by kr_op_given_up). Loop thread only, except kr_call_new and
 * kr_call_free.
 */
#ifndef KR_FUSE_RPC_H
#define KR_FUSE_RPC_H

#include "common/rpc/conn.h"
#include "common/rpc/resolve.h"
#include "fuse/base/mount.h"

struct kr_rpc;
struct kr_call;

enum kr_rpc_flag {
	KR_RPC_EARLY =
		1,       /* part of the recovery of the session: goes out before others may (RECLAIM, replayed FLUSH) */
	KR_RPC_HARD = 2, /* never times out, whatever the mount says (FLUSH, CLOSE, LEASE...) */
	KR_RPC_READ_ONLY = 4,  /* changes nothing: an interrupt may give up at once and the request is just forgotten */
	KR_RPC_OF_SESSION = 8, /* undoes what only this session has: with it the request ends, -ECANCELED */
};

/* ERR: 0, the server's status, -EINTR after kr_rpc_cancel (then possibly from inside it), -ETIMEDOUT (soft), -ECANCELED
 * when the mount ends.  REPLY (decoded struct kr_<name>_reply; NULL unless ERR is 0) and DATA (or NULL) are borrowed
 * until the callback returns. */
typedef void (*kr_rpc_fn)(void *context, int err, const void *reply, struct kr_buf *data);

/* Encodes a request (MSG: struct kr_<name>_request); takes references of the slices' buffers.  Any thread.  NULL with
 * *RET_ERR: -EINVAL what the protocol cannot hold, -ENOMEM. */
struct kr_call *kr_call_new(uint16_t type, const void *msg, const struct kr_slice *slices, size_t count, int *ret_err);
/* Frees a call that was never submitted (NULL is fine). */
void kr_call_free(struct kr_call *call);
/* Takes CALL; CALLBACK runs exactly once, never from inside this call. Returns the call's id (> 0) for kr_rpc_cancel.
 */
uint64_t kr_rpc_submit(struct kr_rpc *rpc, struct kr_call *call, unsigned flags, kr_rpc_fn callback, void *context);
/* kr_call_new and kr_rpc_submit in one, for messages made in the loop thread. A message that cannot be encoded is
 * reported to the callback. CALLBACK may be NULL when nobody wants to know. */
uint64_t kr_rpc_call(struct kr_rpc *rpc, uint16_t type, const void *msg, const struct kr_slice *slices, size_t count,
	unsigned flags, kr_rpc_fn callback, void *context);

/* The program behind call ID was interrupted.  Its callback gets -EINTR: at once for a call not yet sent, for a
 * READ_ONLY one, and when the server cannot be reached; else when the server has answered the CANCEL (or its real
 * answer when it was too late), at most a second or two later.  What the server may have opened for a given-up OPEN or
 * CREATE is closed again here.  An unknown ID (already answered) is ignored. */
void kr_rpc_cancel(struct kr_rpc *rpc, uint64_t id);

/* As kr_rpc_cancel, but the callback gets what the server made of it, at whatever later time (and CANCEL is said again
 * after each reconnection): for calls whose late success has to be dealt with. */
void kr_rpc_withdraw(struct kr_rpc *rpc, uint64_t id);

/* FN is called once for each LEASE, FLUSH and FSYNC that has been on the present connection for LIMIT_NS without an
 * answer, and again when it is answered; it returns whether it has said so (else it is asked again soon). Loop thread.
 */
typedef bool (*kr_rpc_watch_fn)(
	void *context, uint16_t type, const struct kr_fid *file, uint64_t waited_ns, bool answered);
void kr_rpc_watch(struct kr_rpc *rpc, uint64_t limit_ns, kr_rpc_watch_fn fn, void *context);

/* A request of the server (RECALL, QUERY, ROUND...) that must be answered once with kr_rpc_answer, at any later time.
 */
struct kr_down {
	uint16_t type;
	uint64_t id;      /* 0: ONEWAY, an answer is dropped */
	uint64_t session; /* answers for a session that has ended are dropped */
};
/* MSG decoded and borrowed.  Copy *DOWN to answer later.  Handlers are idempotent: if a connection breaks before the
 * answer has arrived, the server asks again (while the first is still unanswered here, the second is not delivered). */
typedef void (*kr_down_fn)(struct kr_mount *mount, const struct kr_down *down, const void *msg, struct kr_buf *data);
void kr_rpc_on(struct kr_rpc *rpc, uint16_t type, kr_down_fn handler);
/* MSG: struct kr_<name>_reply when ERR is 0 (NULL for one without fields), else ERR is the -errno to tell. */
void kr_rpc_answer(struct kr_rpc *rpc, const struct kr_down *down, int err, const void *msg);

/* Whether a connection with a live session exists now. */
bool kr_rpc_connected(const struct kr_rpc *rpc);
/* The server's address that was last connected to, which need not be the one it knows of itself. Loop thread. */
const struct sockaddr *kr_rpc_address(const struct kr_rpc *rpc);

/* --- for session.c, serve.c and status only --------------------------------------------------- */

struct kr_rpc_events {
	/* A connection to ADDRESS is being made: say HELLO with kr_rpc_direct, it is queued. */
	void (*on_connecting)(void *context, const struct sockaddr *address);
	/* ERR and REASON of a connection that ended or could not be made; the next attempt is already scheduled. */
	void (*on_disconnected)(void *context, int err, const char *reason);
};
/* What a higher room wants to know of every request of ours.  Loop thread. */
struct kr_rpc_hooks {
	/* A request of TYPE, encoded in FIELDS, is about to be sent.  Returns what `ended` is to get; NULL: nothing. */
	void *(*begun)(struct kr_mount *mount, uint16_t type, const void *fields, size_t length);
	/* The server has answered it with ERR and REPLY in a frame with FLAGS.  The request was submitted at ASKED_NS,
	 * the reply heard at HEARD_NS. */
	void (*answered)(struct kr_mount *mount, uint16_t type, const void *fields, size_t length, int err,
		const void *reply, uint16_t flags, uint64_t asked_ns, uint64_t heard_ns);
	/* The request has been answered, or never will be.  Takes over what `begun` returned; not called for NULL. */
	void (*ended)(struct kr_mount *mount, void *change);
};
/* Before the first call.  HOOKS is borrowed until kr_rpc_free. */
void kr_rpc_set_hooks(struct kr_rpc *rpc, const struct kr_rpc_hooks *hooks);
/* SERVER is copied, and resolved anew for each attempt. Connects at kr_rpc_start. */
int kr_rpc_new(struct kr_mount *mount, const struct kr_endpoint *server, struct kr_rpc **ret_rpc);
/* After kr_rpc_stop; takes effect when the connection has closed. */
void kr_rpc_free(struct kr_rpc *rpc);
void kr_rpc_start(struct kr_rpc *rpc, const struct kr_rpc_events *events, void *context);
/* Ends everything: callbacks of calls get -ECANCELED, no reconnection any more. */
void kr_rpc_stop(struct kr_rpc *rpc);
/* One request on the present connection, outside the queue (HELLO, PING): fails with it. */
int kr_rpc_direct(struct kr_rpc *rpc, uint16_t type, const void *msg, kr_rpc_fn callback, void *context);
/* What follows on the present connection is sealed (see kr_conn_seal). */
void kr_rpc_seal(struct kr_rpc *rpc, const struct kr_seal_keys *keys);
/* From now on answers belong to SESSION; calls sent on another session may not be known to the server, and those that
 * are KR_RPC_OF_SESSION end. */
void kr_rpc_set_session(struct kr_rpc *rpc, uint64_t session);
/* Opens the gate for EARLY calls (after HELLO), then for all (resends what is unanswered). Both close on disconnect. */
void kr_rpc_open_early(struct kr_rpc *rpc);
void kr_rpc_open(struct kr_rpc *rpc);
/* Drops the connection (the peer is silent) and reconnects. */
void kr_rpc_reset(struct kr_rpc *rpc, const char *reason);
/* When the last frame of the server came (kr_clock_ns), 0: never. */
uint64_t kr_rpc_heard_ns(const struct kr_rpc *rpc);
/* `soft` only: who has waited since SINCE_NS has waited for a silent server for longer than `timeo`. */
bool kr_rpc_silent(const struct kr_rpc *rpc, uint64_t since_ns, uint64_t now_ns);
size_t kr_rpc_pending(const struct kr_rpc *rpc);
void kr_rpc_counters(const struct kr_rpc *rpc, uint64_t *ret_received, uint64_t *ret_sent);

#endif

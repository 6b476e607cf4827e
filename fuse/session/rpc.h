/* Requests to the server that outlive its connection.
 *
 * The rpc keeps a call encoded until its reply comes.  When the connection breaks, the rpc reconnects, 50 ms to 2 s
 * apart, for ever.  As soon as session.c says that the session goes on, the rpc sends unanswered calls again in their
 * order, with RESEND.
 *
 * With `soft`, a call fails with -ETIMEDOUT when the server has been silent for `timeo` seconds.  Hard calls wait; the
 * ops that wait for them give up by kr_op_given_up.  Loop thread only, except kr_call_new and kr_call_free.
 */
#ifndef KR_FUSE_RPC_H
#define KR_FUSE_RPC_H

#include "common/rpc/conn.h"
#include "common/rpc/resolve.h"
#include "fuse/base/mount.h"

struct kr_rpc;
struct kr_call;

enum kr_rpc_flag {
	KR_RPC_HARD = 2,       /* never times out, whatever the mount says (FLUSH, CLOSE, LEASE...) */
	KR_RPC_READ_ONLY = 4,  /* changes nothing: after an interrupt the rpc forgets the request at once */
	KR_RPC_OF_SESSION = 8, /* undoes state of this session only, and ends with it: -ECANCELED */
	KR_RPC_LATER = 16, /* no program waits: goes with the node's next call or answer, or after KR_RPC_LATER_MS */
};

/* ERR: 0; the server's status; -EINTR after kr_rpc_cancel (possibly from inside that call); -ETIMEDOUT (soft);
 * -ECANCELED when the mount ends.  REPLY is a decoded struct kr_<name>_reply, NULL unless ERR is 0.  REPLY and DATA (or
 * NULL) are borrowed until the callback returns. */
typedef void (*kr_rpc_fn)(void *context, int err, const void *reply, struct kr_buf *data);

/* Encodes a request (MSG: struct kr_<name>_request) and takes references of the slices' buffers.  Any thread.  NULL
 * with *RET_ERR: -EINVAL when the protocol cannot hold the message, -ENOMEM. */
struct kr_call *kr_call_new(uint16_t type, const void *msg, const struct kr_slice *slices, size_t count, int *ret_err);
/* Frees a call that was never submitted (NULL is fine). */
void kr_call_free(struct kr_call *call);
/* Takes CALL; CALLBACK runs exactly once, never from inside this call. Returns the call's id (> 0) for kr_rpc_cancel.
 */
uint64_t kr_rpc_submit(struct kr_rpc *rpc, struct kr_call *call, unsigned flags, kr_rpc_fn callback, void *context);
/* kr_call_new and kr_rpc_submit in one, for messages of the loop thread.  A message that cannot be encoded is an error
 * for the callback.  CALLBACK may be NULL. */
uint64_t kr_rpc_call(struct kr_rpc *rpc, uint16_t type, const void *msg, const struct kr_slice *slices, size_t count,
	unsigned flags, kr_rpc_fn callback, void *context);

/* The program behind call ID was interrupted: its callback gets -EINTR.  That happens at once for a call not yet sent,
 * for a READ_ONLY call, and when the server cannot be reached.  Else it happens when the server has answered the
 * CANCEL, at most a second or two later.  If CANCEL came too late, the callback gets the real reply.  If the server did
 * execute a given-up OPEN or CREATE, the rpc sends CLOSE.  An unknown ID (already answered) is ignored. */
void kr_rpc_cancel(struct kr_rpc *rpc, uint64_t id);

/* As kr_rpc_cancel, but the callback gets the server's verdict on the call, however late.  CANCEL is sent again after
 * each reconnection.  For calls whose late success the caller has to handle. */
void kr_rpc_withdraw(struct kr_rpc *rpc, uint64_t id);

/* Loop thread.  FN is called once for each LEASE, FLUSH and FSYNC that has had no reply on the present connection for
 * LIMIT_NS.  FN is called again when the reply comes.  FN returns whether it has reported the call; if not, it is
 * called again soon. */
typedef bool (*kr_rpc_watch_fn)(
	void *context, uint16_t type, const struct kr_fid *file, uint64_t waited_ns, bool answered);
void kr_rpc_watch(struct kr_rpc *rpc, uint64_t limit_ns, kr_rpc_watch_fn fn, void *context);

/* A request of the server (RECALL, QUERY, ROUND...).  The node answers it once with kr_rpc_answer, at any later time.
 */
struct kr_down {
	uint16_t type;
	uint64_t id;      /* 0: ONEWAY, the rpc drops an answer */
	uint64_t session; /* the rpc drops answers for a session that has ended */
};
/* MSG is decoded and borrowed.  Copy *DOWN to answer later.  Handlers are idempotent: if a connection breaks before the
 * answer has arrived, the server asks again.  While the node has not answered the first one, the second is not
 * delivered. */
typedef void (*kr_down_fn)(struct kr_mount *mount, const struct kr_down *down, const void *msg, struct kr_buf *data);
void kr_rpc_on(struct kr_rpc *rpc, uint16_t type, kr_down_fn handler);
/* ERR 0: MSG is a struct kr_<name>_reply (NULL for one without fields).  Else ERR is the -errno for the server. */
void kr_rpc_answer(struct kr_rpc *rpc, const struct kr_down *down, int err, const void *msg);

/* Whether a connection with a live session exists now. */
bool kr_rpc_connected(const struct kr_rpc *rpc);
/* The server address of the latest connection; the server itself may know another one.  Loop thread. */
const struct sockaddr *kr_rpc_address(const struct kr_rpc *rpc);

/* --- for session.c, serve.c and status only --------------------------------------------------- */

struct kr_rpc_events {
	/* A connection to ADDRESS is being made.  Send HELLO with kr_rpc_direct; the connection queues it. */
	void (*on_connecting)(void *context, const struct sockaddr *address);
	/* A connection has ended or could not be made, with ERR and REASON.  The next attempt is already scheduled. */
	void (*on_disconnected)(void *context, int err, const char *reason);
};
/* A higher room's hooks into every request of this node.  Loop thread. */
struct kr_rpc_hooks {
	/* The request ASKED, of TYPE, is about to be sent.  Returns the context for `ended`, or NULL. */
	void *(*begun)(struct kr_mount *mount, uint16_t type, const union kr_any_msg *asked);
	/* The server has answered ASKED with ERR and REPLY in a frame with FLAGS.  The request was submitted at
	 * ASKED_NS; the reply came at HEARD_NS. */
	void (*answered)(struct kr_mount *mount, uint16_t type, const union kr_any_msg *asked, int err,
		const void *reply, uint16_t flags, uint64_t asked_ns, uint64_t heard_ns);
	/* The request has its reply, or will never have one.  Takes the context that `begun` returned; not called for
	 * NULL. */
	void (*ended)(struct kr_mount *mount, void *change);
};
/* Before the first call.  HOOKS is borrowed until kr_rpc_free. */
void kr_rpc_set_hooks(struct kr_rpc *rpc, const struct kr_rpc_hooks *hooks);
/* SERVER is copied; each attempt resolves its name anew.  Connects at kr_rpc_start. */
int kr_rpc_new(struct kr_mount *mount, const struct kr_endpoint *server, struct kr_rpc **ret_rpc);
/* After kr_rpc_stop; takes effect when the connection has closed. */
void kr_rpc_free(struct kr_rpc *rpc);
void kr_rpc_start(struct kr_rpc *rpc, const struct kr_rpc_events *events, void *context);
/* Ends everything: callbacks of calls get -ECANCELED, no reconnection any more. */
void kr_rpc_stop(struct kr_rpc *rpc);
/* Sends one request on the present connection, outside the queue (HELLO, PING).  If the connection fails, so does the
 * request. */
int kr_rpc_direct(struct kr_rpc *rpc, uint16_t type, const void *msg, kr_rpc_fn callback, void *context);
/* The present connection; NULL: there is none. */
struct kr_conn *kr_rpc_conn(const struct kr_rpc *rpc);
/* From now on answers belong to SESSION.  The server may not know calls that were sent in another session; those that
 * are KR_RPC_OF_SESSION end. */
void kr_rpc_set_session(struct kr_rpc *rpc, uint64_t session);
/* Opens the gate for answers to the server's requests (after HELLO), then for calls, and sends unanswered ones again.
 * A disconnect closes both. */
void kr_rpc_open_answers(struct kr_rpc *rpc);
void kr_rpc_open(struct kr_rpc *rpc);
/* Drops the connection (the server is silent) and reconnects.  No HELLO that the server has not got yet arrives behind
 * a later one, where it would end the session that the node uses. */
void kr_rpc_reset(struct kr_rpc *rpc, const char *reason);
/* When the last frame of the server came (kr_clock_ns), 0: never. */
uint64_t kr_rpc_heard_ns(const struct kr_rpc *rpc);
/* `soft` only: whether a call that waits since SINCE_NS has waited for a silent server for longer than `timeo`. */
bool kr_rpc_silent(const struct kr_rpc *rpc, uint64_t since_ns, uint64_t now_ns);
size_t kr_rpc_pending(const struct kr_rpc *rpc);
/* The shortest round trip to the server in the last minutes, in microseconds; 0: not known. */
uint64_t kr_rpc_rtt_us(const struct kr_rpc *rpc);
void kr_rpc_counters(const struct kr_rpc *rpc, uint64_t *ret_received, uint64_t *ret_sent);

#endif

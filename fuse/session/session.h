/* The node's session with the server: HELLO, PINGs, and fencing by the node's own clock.  A server may not know the
 * session any more; then the node reclaims its opens, leases and unflushed bytes.  Loop thread only.
 */
#ifndef KR_FUSE_SESSION_H
#define KR_FUSE_SESSION_H

#include "common/base/types.h"
#include "fuse/base/mount.h"

struct kr_session;
struct kr_backlog_request;
struct kr_reclaim_reply;
struct kr_restore_request;

/* Which bytes of a file this node has for the server: the lowest and the highest sequence number, and the highest that
 * the server may have already.  0: none. */
struct kr_claims {
	uint64_t first, last, resend;
};

/* One file to reclaim (see RECLAIM in msgs.def). */
struct kr_reclaim_item {
	struct kr_fid file;
	uint32_t opens;
	uint8_t kinds;
	struct kr_claims claims;
	struct kr_time since;
};
typedef void (*kr_reclaim_add_fn)(void *add_context, const struct kr_reclaim_item *item);

typedef void (*kr_restore_add_fn)(void *add_context, const struct kr_restore_request *request);

/* Hooks of higher rooms into a session; the owner of the files does most of a recovery. */
struct kr_session_hooks {
	/* Before each HELLO: tells the ring listener's port on HOST, the node's address towards the server. */
	void (*listen)(struct kr_mount *mount, const char *host, uint16_t *ret_port);
	/* After each HELLO: the facts are known. */
	void (*welcomed)(struct kr_mount *mount);
	/* Before `collect`: calls ADD for each name that the server's loss of power may have undone.  May be NULL. */
	void (*restore)(struct kr_mount *mount, kr_restore_add_fn add, void *add_context);
	/* Calls ADD for each file to reclaim.  Such a file has opens, leases, or bytes that are not known to be
	 * durable.
	 */
	void (*collect)(struct kr_mount *mount, kr_reclaim_add_fn add, void *add_context);
	/* The reply for one such file; ERR -ESTALE: the file is gone. */
	void (*reclaimed)(
		struct kr_mount *mount, const struct kr_fid *file, int err, const struct kr_reclaim_reply *reply);
	/* All replies are there: sends RECLAIM_LOCK by kr_rpc_direct for each lock.  RECLAIM_DONE follows. */
	void (*reclaim_locks)(struct kr_mount *mount);
	/* Tells the node's unflushed bytes, and how many of them the server refused; may be NULL. */
	void (*backlog)(struct kr_mount *mount, struct kr_backlog_request *ret);
	/* With each PING, five times per lease time.  May be NULL. */
	void (*heartbeat)(struct kr_mount *mount);
	/* The server refuses a replay that had begun: the node itself has come back, or another daemon replays.  There
	 * will be no session any more. */
	void (*refused)(struct kr_mount *mount);
	/* The server's machine has booted during the session; the node had last heard of it at HEARD_NS.  Returns how
	 * many directories may have lost changes that no fsync has confirmed.  May be NULL. */
	size_t (*booted)(struct kr_mount *mount, uint64_t heard_ns, uint64_t now_ns);
	/* The connection has ended: all that depends on the server's notices is void.  May be NULL. */
	void (*disconnected)(struct kr_mount *mount);
	/* Of a mount with options->head: that kairand has ENDED, and none will come back there; or it has not been
	 * reached for `timeo`.  Runs again with each further attempt to reach it. */
	void (*gone)(struct kr_mount *mount, bool ended);
	/* The session goes on, no longer fenced, with the old leases or with the reclaimed ones: step everything. */
	void (*resumed)(struct kr_mount *mount);
};

int kr_session_new(struct kr_mount *mount, struct kr_session **ret_session);
void kr_session_free(struct kr_session *session);
/* Before kr_session_start; HOOKS is borrowed for ever. */
void kr_session_set_hooks(struct kr_session *session, const struct kr_session_hooks *hooks);
/* Connects and sends HELLO.  ON_HELLO runs once, in the loop.  It gets 0 when kr_session_facts is filled.  Else it gets
 * the server's refusal, or the error that kept the server out of reach for TIMEOUT_MS (reason in kr_fail_reason).
 * Until then the rpc tries again and again, and the log says what the mount waits for.  The session is kept alive, but
 * no call goes out before kr_session_begin. */
void kr_session_start(
	struct kr_session *session, uint64_t timeout_ms, void (*on_hello)(void *context, int err), void *context);
/* The journal and the files are there: reclaims, then goes live.  ON_LIVE (may be NULL) runs once. */
void kr_session_begin(struct kr_session *session, void (*on_live)(void *context), void *context);
/* Sends GOODBYE if connected (nothing is left to flush).  DONE runs after its reply, or after a second. */
void kr_session_goodbye(struct kr_session *session, void (*done)(void *context), void *context);

/* Facts of the present session (zeros before the first HELLO). */
struct kr_session_facts {
	uint64_t id;
	uint32_t node;       /* this node's number in HOPs */
	uint8_t boot_id[16]; /* another one: what the server had not synced may be lost (msgs.def) */
	uint64_t instance;   /* of the server process */
	uint8_t export_id[16];
	uint8_t ring_key[32]; /* see common/auth/pair.h */
	int security;         /* enum kr_security of the connection: the least for ring connections */
	uint32_t lease_ms, grace_ms;
	struct kr_fid root;
	struct kr_attr root_attr; /* as of the first HELLO */
	bool late;                /* other nodes may have got the leases of the former session */
	bool live;
};
const struct kr_session_facts *kr_session_facts(const struct kr_session *session);
/* Why there is no session now; valid until the next attempt. */
const char *kr_session_obstacle(const struct kr_session *session);

#endif

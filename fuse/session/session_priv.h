/* The inside of the session.  session.c: its clock, its recovery, its life.  session_hello.c: from a connection to a
 * reply to HELLO.  Loop thread.
 *
 *   DOWN --connection--> GREETING --HELLO's reply--> resumed: LIVE
 *                                                    else:    (first time: READY until kr_session_begin) RESTORING
 *   RESTORING --all RESTOREs answered--> RECLAIMING
 *   RECLAIMING --all RECLAIMs answered--> FINISHING --RECLAIM_DONE--> LIVE
 *   any --connection lost--> DOWN
 *
 * A lost connection breaks a recovery off; the recovery starts over with the next session.
 */
#ifndef KR_FUSE_SESSION_PRIV_H
#define KR_FUSE_SESSION_PRIV_H

#include "common/base/list.h"
#include "common/rpc/msg.h"
#include "fuse/session/rpc.h"
#include "fuse/session/session.h"

struct kr_login;

enum kr_session_state {
	KR_SESSION_DOWN,
	KR_SESSION_GREETING,
	KR_SESSION_READY,
	KR_SESSION_RESTORING,
	KR_SESSION_RECLAIMING,
	KR_SESSION_FINISHING,
	KR_SESSION_LIVE,
};

struct kr_session {
	struct kr_mount *mount;
	const struct kr_session_hooks *hooks;
	struct kr_login *login; /* NULL without a key */
	char own_host[64];      /* this node's address towards the server */
	struct kr_session_facts facts;
	enum kr_session_state state;
	uint64_t epoch;            /* counts connections: late replies of an earlier one are ignored */
	bool begun;                /* kr_session_begin has been called */
	bool recovered;            /* the present session has been through its recovery */
	size_t restores, reclaims; /* without a reply yet, plus one while they are being sent */
	uv_timer_t tick, deadline;
	bool complained, refused;          /* in this outage: of the connection, of the server's refusal */
	char obstacle[512];                /* why there is no session now */
	uint64_t heard_ns;                 /* when the last frame of the lost connection came */
	uint64_t lost_ns;                  /* when the connection of a live session ended; 0: not yet */
	uint64_t said_ns;                  /* when the log last named the obstacle; 0: not yet */
	struct kr_backlog_request backlog; /* as the server was last told */
	bool told;                         /* the server was told, on this connection */
	bool postponed;                    /* the server takes this node later: the node asks again */
	bool waits_for_end;                /* ... of a session that is in the way of a replay */
	bool parting;                      /* GOODBYE was sent: no session any more */
	void (*on_hello)(void *context, int err);
	void *hello_context;
	void (*on_live)(void *context);
	void *live_context;
	struct kr_list pending; /* struct kr_pending; freed with the session if no reply comes */
	int closing;            /* timers not yet closed */
};

/* A reply counts only if it matches this. */
struct kr_pending {
	struct kr_link link;
	struct kr_session *session;
	uint64_t epoch, sent_ns;
	struct kr_fid file;
};

/* --- session.c --- */
/* Sends a request outside the rpc's queue.  CALLBACK's context is a struct kr_pending of this connection, which
 * kr_pending_end frees.  FILE: the file of the request, or NULL.  Returns whether the request is on its way.  If it
 * cannot even be queued, the connection ends, and all starts over with the next. */
bool kr_session_direct(
	struct kr_session *session, uint16_t type, const void *msg, kr_rpc_fn callback, const struct kr_fid *file);
/* Frees it. Whether its connection is still the present one. */
bool kr_pending_end(struct kr_pending *pending);
/* The server's clock showed NOW when the server answered a request sent at SENT_NS. */
void kr_session_set_clock(struct kr_session *session, struct kr_time now, uint64_t sent_ns);
/* The server knows the session, or has it again, by a reply to a request sent at SENT_NS. */
void kr_session_go_live(struct kr_session *session, uint64_t sent_ns);
void kr_session_start_recovery(struct kr_session *session);
/* A session exists, live or to be recovered: PINGs begin. */
void kr_session_start_tick(struct kr_session *session);

/* --- session_hello.c --- */
extern const struct kr_rpc_events kr_session_events;
/* There is no first session in time: reports -ETIMEDOUT. */
void kr_session_on_deadline(uv_timer_t *timer);
/* The server has been silent for so long that the log must say what the mount waits for. */
void kr_session_on_silence(uv_timer_t *timer);

#endif

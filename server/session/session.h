/* Sessions: what the server knows about one connected (or briefly disconnected) node.
 *
 * A session outlives its connection for the lease time. While it lives, the server answers every request of the node
 * exactly once, over whatever connection there is then. Every callback (callbacks.h) is answered by the node, or fails
 * when the session ends. Loop thread only. */
#ifndef KR_SERVER_SESSION_H
#define KR_SERVER_SESSION_H

#include "common/rpc/conn.h"
#include "common/auth/key.h"
#include "common/base/histogram.h"
#include "common/base/list.h"
#include "common/base/table.h"
#include "server/session/callbacks.h"
#include "server/base/server.h"
#include "server/session/grace.h"
#include "server/session/hooks.h"
#include "server/session/lapses.h"
#include "server/session/open_rights.h"
#include "server/session/reply_cache.h"

struct kr_introductions;
struct kr_request;
struct kr_server;

enum {
	KR_SERVER_SESSIONS_MAX = 65536, /* above: HELLO gets AGAIN */
	/* a user may have --user-sessions from one address, and so many times that from all */
	KR_SERVER_USER_ADDRESSES = 64,
	KR_SESSION_REQUESTS_MAX = 16384, /* unanswered at a time; above: the server closes the connection */
	KR_SESSION_FILES_MAX = 1 << 18,  /* open or leased at a time; above: NFILE */
	KR_SESSION_RUNNING_MAX = 256,    /* in the pool at a time; above: the connection is paused */
	KR_SESSION_DELIVERY = 1 << 20, /* bytes that a node must take per lease time while callbacks wait behind them */
	KR_SESSION_CLAIM_LEASES = 15,  /* lease times for which the server waits for a reclaiming node */
	/* lease times for which others wait for an unanswered callback; then the node is ignored until lease expiry */
	KR_SESSION_CALLBACK_LEASES = 4,
	/* bytes of replies that the kernel has not taken; above: the connection is paused */
	KR_SESSION_QUEUE_MAX = 8 << 20,
	KR_SESSION_HELD_MAX = 64 << 20, /* bytes of unanswered requests; above: the same */
	/* The same three while all sessions and ring connections together hold more than KR_SESSION_MEMORY. */
	KR_SESSION_RUNNING_TIGHT = 16,
	KR_SESSION_QUEUE_TIGHT = KR_CONN_LOW_WATER,
	KR_SESSION_HELD_TIGHT = 4 << 20,
	KR_SESSION_HELD_TIGHT_USER = 1 << 20, /* for a session of a user key */
	KR_SESSION_MEMORY = 256 << 20,
	KR_USER_FILES_MAX = 1 << 18, /* open or leased by all sessions of a user; but each session may have: */
	KR_SESSION_FILES_ALWAYS = 1 << 10,
};

struct kr_former_groups {
	struct kr_former_groups *next;
	uint32_t *groups;
};

/* The session's key, and what the key allows (trust.h). */
struct kr_session_trust {
	struct kr_key *key; /* reference; NULL on a server without keys */
	char host[64];      /* the address of the latest connection */
	/* Of a user key: the user's groups, and those of earlier handshakes, which requests may borrow. */
	uint32_t *groups, group_count;
	struct kr_former_groups *former_groups;
	struct kr_open_rights open_rights; /* of a confined session */
};

/* How other nodes reach the node's ring listener. */
struct kr_session_ring {
	char *name;      /* the node shares blocks and pipelines with nodes of the same ring only */
	char *address;   /* the connection's address when HELLO named none */
	uint16_t port;   /* 0: no listener, so no node can pull from this one */
	uint8_t key[32]; /* common/auth/pair.h */
	uint64_t served_bytes, flushed_bytes; /* blocks sent to the node; rounds that came from it */
};

/* Signs of life (expiry.c). */
struct kr_session_expiry {
	uint64_t begun_ns;
	uint64_t hello_ns;   /* arrival of the HELLO that began the session; several may be under way */
	uint64_t heard_ns;   /* when the latest frame came */
	uint64_t sent_bytes; /* at the latest tick: a peer that takes bytes is alive */
	bool unresponsive;   /* a callback stayed unanswered: the server ignores the node until lease expiry */
};

/* Limits above which the server stops reading the connection (kr_session_pressure). */
struct kr_session_flow {
	size_t running;                    /* requests in the pool */
	size_t held;                       /* bytes of unanswered requests */
	bool paused_running, paused_queue; /* because of running or held; because of queued replies */
};

/* Requests to the node (callbacks.c). */
struct kr_session_callbacks {
	struct kr_list unanswered; /* oldest first */
	struct kr_table by_id;     /* the same */
	uint64_t last_id;
	bool withheld;            /* the latest are not sent: too much is queued before them */
	bool older;               /* one may date from before the session */
	struct kr_list abandoned; /* callbacks to other nodes that this session's requests gave up: callback.of_asker */
	size_t abandoned_count;
	/* The latest delivery of KR_SESSION_DELIVERY bytes: no callback counts as waiting since before. */
	uint64_t delivered_ns;
	uint64_t delivered_bytes; /* sent by then on this connection */
};

/* Where the session stands between its node's former session and the next. */
struct kr_session_recovery {
	bool reclaiming; /* between a HELLO that did not resume a session and RECLAIM_DONE */
	bool inheriting; /* as successor of a session that still held leases */
	bool successor;  /* the node had a session before, which may have executed what the node resends */
	bool replay;     /* a client that replays the node's journal, not the node: leaves the node's state alone */
	/* REPLAY or POWER_LOST: its journal is a copy, or lacks records, and may have bytes that are durable for
	 * long */
	bool old_journal;
	bool unjudged;          /* the node's journal holds late bytes: a successor session is late, too */
	bool recorded;          /* the state directory names the node: a restarted server awaits it */
	bool recording;         /* that is being changed */
	uint64_t inheriting_ns; /* since when this session, or the first of a chain of successors, inherits */
	uint64_t claimed_ns;    /* when a RECLAIM last waited, or RECLAIM_DONE came; 0: never */
	struct kr_lapse lapse;  /* between the node's former session and this one */
	uint64_t fresh_id;      /* of the first new request: smaller ids were sent to the former session */
	uint64_t conflict_turn; /* of the latest CONFLICT (names/conflict_request.c) */
};

/* The node's opens, leases and locks (leases/). */
struct kr_session_leases {
	struct kr_list attachments; /* kr_attachment.of_session: files open or leased */
	struct kr_list uncommitted; /* kr_attachment.uncommitted */
	size_t files;               /* how many */
	size_t locks, lock_waits;   /* held and asked for */
};

/* STAGEs and WHEREs of the node (pipelines/staging.c). */
struct kr_session_staging {
	struct kr_list waiting;
	size_t asked;  /* callbacks to nodes for those that no longer wait */
	uint64_t turn; /* kr_staging.turn of the latest callback */
};

/* The node's latest BACKLOG, in bytes. */
struct kr_session_backlog {
	uint64_t unflushed, refused;
	uint64_t since_ns; /* when it first reported unflushed bytes after none; 0: it has none */
};

struct kr_session {
	struct kr_server *server;
	struct kr_link link; /* kr_sessions.living */
	struct kr_table_link by_id;
	uint32_t references; /* requests, callbacks and the server's table hold one each */
	uint64_t id;
	uint32_t node;       /* > 0, never used twice by one server process */
	uint8_t node_id[16]; /* of the node's local directory */
	uint64_t incarnation;
	char *name;                    /* host name, for logs and ring order */
	struct kr_fid root;            /* of the mounted directory */
	struct kr_conn *conn;          /* NULL while disconnected */
	uint64_t connections;          /* so far */
	bool dead;                     /* ended: only references keep it */
	struct kr_table requests;      /* unanswered, by id */
	struct kr_list flushes;        /* the FLUSHes among them, in order of arrival */
	struct kr_reply_cache replies; /* for RESENDs */

	struct kr_session_trust trust;
	struct kr_session_ring ring;
	struct kr_session_expiry expiry;
	struct kr_session_flow flow;
	struct kr_session_callbacks callbacks;
	struct kr_session_recovery recovery;
	struct kr_session_leases leases;
	struct kr_session_staging staging;
	struct kr_session_backlog backlog;
};

/* All sessions of the server and their requests. */
struct kr_sessions {
	struct kr_list living; /* kr_session.link */
	struct kr_table by_id; /* the same */
	size_t count;
	uint32_t last_node;    /* of the latest session; 0 is the server itself */
	uint64_t lost;         /* sessions whose leases expired */
	uint64_t copy_said_ns; /* of two nodes with one node id */
	struct kr_session_hooks hooks;
	struct kr_grace grace;
	struct kr_lapses lapses;                /* of nodes that lost their leases */
	struct kr_introductions *introductions; /* introduce.h */
	size_t forgetting;                      /* jobs at the end of the grace period: removals of node records */
	bool forget_failed;                     /* one of these jobs failed */
	struct kr_list unanswered;              /* kr_request.of_all, in order of arrival */
	/* those of ended sessions that may still have an effect: kr_request_duplicate.by_key */
	struct kr_table outliving;
	uint64_t requests;                         /* answered */
	uint64_t arrived[KR_SERVER_TYPES];         /* requests of nodes, by type */
	struct kr_histogram took[KR_SERVER_TYPES]; /* from a request's arrival to its reply */
};

void kr_sessions_init(struct kr_server *server);
void kr_sessions_fini(struct kr_server *server);

/* The living session with that id, node number or node id; NULL. Borrowed. */
struct kr_session *kr_session_find(struct kr_server *server, uint64_t id);
struct kr_session *kr_session_find_node(struct kr_server *server, uint32_t node);
struct kr_session *kr_session_find_node_id(struct kr_server *server, const uint8_t node_id[16]);
struct kr_session *kr_session_get(struct kr_session *session);
void kr_session_put(struct kr_session *session);

/* The lapse of a node that begins a session now. */
struct kr_lapse kr_session_lapse(struct kr_server *server, const uint8_t node_id[16]);
/* Records the node durably, so that a restarted server awaits it; then DONE in the loop. */
void kr_session_record(struct kr_session *session, void (*done)(void *context, int err), void *context);
/* Removes the record, then calls DONE (may be NULL) in the loop; after an error session->recovery.recorded stays. */
void kr_session_unrecord(struct kr_session *session, void (*done)(void *context, int err), void *context);
/* A new session without a connection; the caller attaches one. NULL: too many sessions. */
struct kr_session *kr_session_new(struct kr_server *server, const struct kr_hello_request *hello);
/* Makes CONN the session's connection, closes the old one and repeats unanswered callbacks. */
void kr_session_attach(struct kr_session *session, struct kr_conn *conn);
/* RECLAIM_DONE has come: the server releases inherited leases that the node did not reclaim, and sends withheld QUERYs.
 */
void kr_session_reclaimed(struct kr_session *session);
/* Ends the session: its opens, leases, pipelines, rounds and parked requests go at once. */
enum kr_session_end {
	KR_SESSION_LEFT,     /* GOODBYE */
	KR_SESSION_LOST,     /* lease expiry */
	KR_SESSION_REPLACED, /* its node has begun another session */
	KR_SESSION_STOPPED,  /* the server stops; the node comes back to the next instance */
};
void kr_session_end(struct kr_session *session, enum kr_session_end why);
/* Ends it because its node has begun SUCCESSOR, which inherits its WRITE leases until RECLAIM_DONE. So a killed
 * client's journal is flushed before others read the file. */
void kr_session_replace(struct kr_session *session, struct kr_session *successor);
/* Whether all sessions and ring connections together hold so much memory that each gets less. */
bool kr_session_memory_tight(void);
/* Pauses or resumes reading the connection. */
void kr_session_pressure(struct kr_session *session);

#endif

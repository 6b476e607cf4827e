/* Sessions: what the server knows about one connected (or briefly disconnected) node.
 *
 * A session outlives its connection for the lease time.  While it lives every request of its node is answered exactly
 * once, over whatever connection it has then, and every request to the node (callbacks.h) is answered by the node or
 * fails when the session ends.  Loop thread only.
 */
#ifndef KR_SERVER_SESSION_H
#define KR_SERVER_SESSION_H

#include "common/rpc/conn.h"
#include "common/auth/key.h"
#include "common/base/list.h"
#include "common/base/table.h"
#include "server/session/callbacks.h"
#include "server/base/server.h"
#include "server/session/grace.h"
#include "server/session/hooks.h"
#include "server/session/lapses.h"
#include "server/session/open_rights.h"
#include "server/session/reply_cache.h"

struct kr_request;
struct kr_server;

enum {
	KR_SERVER_SESSIONS_MAX = 65536,  /* a HELLO above is refused with AGAIN */
	KR_SERVER_USER_ADDRESSES = 64,   /* --user_sessions of one user from one address, so many times that from all */
	KR_SESSION_REQUESTS_MAX = 16384, /* unanswered at a time; a node that sends more is disconnected */
	KR_SESSION_FILES_MAX = 1 << 18,  /* open or leased at a time: above, NFILE */
	KR_SESSION_RUNNING_MAX =
		256, /* in the pool at a time: above, its connection is paused (parked ones do not count) */
	KR_SESSION_DELIVERY =
		1 << 20, /* bytes that a node must take within the lease time when questions to it wait behind more */
	KR_SESSION_CLAIM_LEASES =
		15, /* lease times for which a reclaiming node is waited for, while we owe it answers */
	KR_SESSION_ASK_LEASES =
		4, /* ... and for which others wait for an answer to what a node does not work on, however often it
		    * connects or begins anew: then it is not heard any more, and lost after another one */
	KR_SESSION_QUEUE_MAX = 8 << 20, /* bytes of replies not taken by the kernel: above, its connection is paused */
	KR_SESSION_HELD_MAX = 64 << 20, /* bytes of its unanswered requests, fields and data: above, the same */
	/* The same three while all sessions and ring connections together hold more than KR_SESSION_MEMORY. */
	KR_SESSION_RUNNING_TIGHT = 16,
	KR_SESSION_QUEUE_TIGHT = KR_CONN_LOW_WATER,
	KR_SESSION_HELD_TIGHT = 4 << 20,
	KR_SESSION_HELD_TIGHT_USER = 1 << 20, /* of one of a user's sessions */
	KR_SESSION_MEMORY = 256 << 20,
	KR_USER_FILES_MAX = 1 << 18, /* open or leased by all sessions of a user; but each may have ... */
	KR_SESSION_FILES_ALWAYS = 1 << 10,
};

struct kr_former_groups {
	struct kr_former_groups *next;
	uint32_t *groups;
};

struct kr_session {
	struct kr_server *server;
	struct kr_link link; /* kr_sessions.living */
	struct kr_table_link by_id;
	uint32_t references; /* requests, asks and the server's table hold one each */
	uint64_t id;
	uint32_t node;       /* > 0, never used twice by one server process */
	uint8_t node_id[16]; /* of the node's local directory */
	uint64_t incarnation;
	char *name;           /* host name, for logs and ring order */
	char host[64];        /* the address that it came from the last time */
	char *ring_address;   /* where its ring listener is reached; the connection's address when it gave none */
	uint16_t ring_port;   /* 0: it has none, nobody can pull from it */
	char *ring;           /* its ring's name: it shares blocks and chains with others of that ring only */
	uint8_t ring_key[32]; /* see common/auth/pair.h */
	struct kr_conn *conn; /* NULL while disconnected */
	struct kr_key *key;   /* reference: of the one that opened it; NULL on a server without keys */
	uint32_t *groups, group_count;          /* of a user key: what it may have, see trust.h */
	struct kr_former_groups *former_groups; /* as they were at former handshakes: requests may borrow them */
	bool unresponsive;   /* it left a question unanswered: nothing of it is heard until it is lost */
	bool dead;           /* ended: only references keep it */
	bool reclaiming;     /* between a HELLO that was not resumed and RECLAIM_DONE */
	uint64_t begun_ns;   /* when it began */
	uint64_t claimed_ns; /* when we owed it the answer to a RECLAIM, or it replayed, the last time, or when it said
				that this was all; 0: never */
	bool inheriting;     /* ... of one that replaced another */
	uint64_t looked_ns;  /* when it was last found out whether others wait for what it has inherited */
	uint64_t
		inheriting_ns; /* ... since when, or the first of those that were replaced before they had got so far */
	uint64_t replayed_ns;  /* when a round that it replays went in the last time; 0: never */
	struct kr_lapse lapse; /* what was between its node's former session and this one */
	bool replay;   /* not the node, but somebody who has its journal, or a copy of an earlier state of it. It leaves
			* alone what is known   of the node: that is the node's, and counts when it comes back, and for
			* other copies */
	bool unjudged; /* it has bytes in its journal that must not go in as if it had never been away: whoever takes
			  its place is late */
	bool recorded; /* the state directory has its node: a restarted server waits for it */
	bool recording;           /* that is just being changed */
	struct kr_fid root;       /* of what it mounts */
	uint64_t heard_ns;        /* of the latest frame */
	uint64_t sent_bytes;      /* at the latest tick: a peer that takes bytes is alive */
	uint64_t patient_ns;      /* no question counts as waiting since before */
	uint64_t patient_bytes;   /* sent by then on this connection */
	bool notes;               /* the node takes notes, and obeys INVALIDATE */
	uint64_t connections;     /* that it has had */
	bool own_names;           /* forgets by itself what its requests change of the directories that they name */
	bool hears_gone;          /* wants to hear with RECALL that a file is gone */
	bool successor;           /* its node had another session before, which may have executed what is resent */
	uint64_t fresh_id;        /* the first new request's id on this session: smaller ones were sent to the former */
	struct kr_table requests; /* unanswered, by id */
	struct kr_list flushes;   /* of these, the FLUSHes, as they came */
	size_t strays;            /* what was asked of other nodes for requests that were withdrawn, unanswered ... */
	struct kr_list stray_asks;         /* ... ask.of_strays */
	size_t running;                    /* of these, in the pool */
	size_t held;                       /* bytes of these, but for replays */
	bool paused_running, paused_queue; /* running or held; queued */
	struct kr_reply_cache replies;     /* kept for RESENDs */
	struct kr_list asks;               /* unanswered requests to the node, oldest first */
	struct kr_table asks_by_id;
	uint64_t last_ask;
	bool withheld;                /* the latest of them are not sent: too much is queued before them */
	bool owing;                   /* one of them may be of before the session */
	struct kr_open_rights grants; /* of a confined session */
	uint64_t conflict_turn;       /* of its latest CONFLICT: kr_server.conflict_turn */
	struct kr_list stagings;      /* its STAGEs that wait for their turn ... */
	size_t brings;                /* ... what is asked of nodes for the others ... */
	uint64_t staging_turn;        /* ... and kr_server.staging_turn of the latest of these */
	uint64_t unflushed,
		refused; /* bytes that it still has for us, and how many of these it could not bring, as it said last */
	size_t locks, lock_waits;   /* held and asked for */
	struct kr_list attachments; /* kr_attachment.of_session: files it has open or leased ... */
	size_t files;               /* ... and how many these are */
};

/* All sessions of the server and their requests. */
struct kr_sessions {
	struct kr_list living; /* kr_session.link */
	struct kr_table by_id; /* the same */
	size_t count;
	uint32_t last_node; /* number given to the latest session; 0 is the server itself */
	uint64_t lost;      /* sessions whose lease expired */
	struct kr_session_hooks hooks;
	struct kr_grace grace;
	struct kr_lapses lapses; /* of nodes that lost their leases */
	size_t forgetting;       /* at the end of the grace period: records of nodes that are being removed, and what is
	                          * written down then */
	bool forget_failed;      /* one of these jobs failed */
	struct kr_list unanswered; /* kr_request.of_all, in the order of their arrival */
	struct kr_table
		outliving; /* of these, requests of ended sessions that go on and may have an effect: kr_request.by_key */
	uint64_t requests;                 /* answered */
	uint64_t arrived[KR_SERVER_TYPES]; /* requests of nodes, by type */
};

void kr_sessions_init(struct kr_server *server);
void kr_sessions_fini(struct kr_server *server);

/* The living session of that id or node number; NULL. Borrowed. */
struct kr_session *kr_session_find(struct kr_server *server, uint64_t id);
struct kr_session *kr_session_find_node(struct kr_server *server, uint32_t node);
struct kr_session *kr_session_find_node_id(struct kr_server *server, const uint8_t node_id[16]);
struct kr_session *kr_session_get(struct kr_session *session);
void kr_session_put(struct kr_session *session);

/* What lies between the former session of a node and one that it begins now. */
struct kr_lapse kr_session_lapse(struct kr_server *server, const uint8_t node_id[16]);
/* Has the node recorded, so that a restarted server waits for it; then DONE in the loop. */
void kr_session_record(struct kr_session *session, void (*done)(void *context, int err), void *context);
/* The opposite, when nobody waits for it: tried again as long as session->recorded. */
void kr_session_unrecord(struct kr_session *session);
/* A new session without a connection. NULL: too many. The caller attaches a connection. */
struct kr_session *kr_session_new(struct kr_server *server, const struct kr_hello_request *hello);
/* Makes CONN the session's connection (the old one is closed) and repeats unanswered asks on it. */
void kr_session_attach(struct kr_session *session, struct kr_conn *conn);
/* RECLAIM_DONE has come: what was inherited and not reclaimed is free, and the node can be asked anything. */
void kr_session_reclaimed(struct kr_session *session);
/* Ends the session: opens, leases, pipelines, rounds and parked requests go at once. */
enum kr_session_end {
	KR_SESSION_LEFT,     /* GOODBYE */
	KR_SESSION_LOST,     /* silent for the lease time */
	KR_SESSION_REPLACED, /* its node has begun another one */
	KR_SESSION_STOPPED,  /* the server stops: the node will come back to the next instance */
};
void kr_session_end(struct kr_session *session, enum kr_session_end why);
/* Ends it because its node, started anew, has begun SUCCESSOR, which inherits its WRITE leases until RECLAIM_DONE: what
 * a killed daemon left in its journal is flushed before anybody reads past it. */
void kr_session_replace(struct kr_session *session, struct kr_session *successor);
/* Whether all sessions and ring connections together hold much memory, so that each gets less. */
bool kr_session_memory_tight(void);
/* Re-evaluates whether the connection should be paused. */
void kr_session_pressure(struct kr_session *session);

#endif

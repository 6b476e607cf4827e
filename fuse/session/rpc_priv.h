/* Shared by rpc.c (calls) and rpc_link.c (the connection). */
#ifndef KR_FUSE_RPC_PRIV_H
#define KR_FUSE_RPC_PRIV_H

#include "common/base/table.h"
#include "fuse/session/rpc.h"

enum {
	KR_RPC_BACKOFF_MIN_MS = 50,
	KR_RPC_BACKOFF_MAX_MS = 2000,
	KR_RPC_ATTEMPT_MS = 10000,
	KR_RPC_TICK_MS = 250,
	KR_RPC_CANCEL_MS = 1500,
	KR_RPC_LATER_MS = 2,
	KR_RPC_TYPES = 128
};

/* Whether the node's calls, or only its answers, may go out. */
enum kr_rpc_gate { KR_RPC_SHUT, KR_RPC_ANSWERS_ONLY, KR_RPC_OPEN };

struct kr_call {
	struct kr_rpc *rpc;
	uint16_t type;
	uint64_t id;
	unsigned flags;
	struct kr_writer fields; /* the encoded request */
	union kr_any_msg asked;  /* the same, decoded; borrows from FIELDS */
	struct kr_arena arena;   /* of ASKED */
	struct kr_slice *slices;
	size_t count;
	kr_rpc_fn callback; /* NULL: none, or the program gave the call up */
	void *context;
	struct kr_link link; /* rpc->calls, ascending ids */
	struct kr_table_link by_id;
	void *change; /* of hooks->begun, for hooks->ended */
	uint64_t submitted_ns, canceled_ns;
	uint64_t sent_ns; /* on the present connection, or the latest */
	bool said;        /* the watch has reported the call */
	bool sent;        /* on some connection */
	bool on_wire;     /* on the present one */
	bool withdrawn;   /* CANCEL follows it on each connection */
	bool given_up;    /* its program has been answered without the server */
};

struct kr_rpc_down_link {
	struct kr_table_link by_id;
	uint64_t id;
};

struct kr_rpc_watch {
	uint64_t limit_ns;
	kr_rpc_watch_fn fn; /* NULL: no watch */
	void *context;
};

struct kr_rpc {
	struct kr_mount *mount;
	struct kr_endpoint server;
	const struct kr_rpc_hooks *hooks; /* NULL: none */
	const struct kr_rpc_events *events;
	void *events_context;
	struct kr_list calls;
	struct kr_table by_id; /* struct kr_call */
	struct kr_table downs; /* struct kr_rpc_down_link: delivered, not answered */
	uint64_t last_id, session;
	enum kr_rpc_gate gate;
	kr_down_fn handlers[KR_RPC_TYPES];

	struct kr_conn *conn;
	const char *reset_reason; /* why the rpc closes the connection; NULL: it does not */
	struct kr_resolve *resolving;
	uv_timer_t retry, tick;
	uv_timer_t later; /* repeats until a tick finds nothing to send, so the timer is seldom started */
	bool has_later;   /* calls wait to be sent with others (KR_RPC_LATER) */
	uint64_t backoff_ms, attempt_ns, heard_ns;
	size_t next_address;             /* among the addresses of the server's name */
	struct sockaddr_storage address; /* of the present connection, or the latest */
	struct kr_rpc_watch watch;
	uint64_t received, sent; /* by connections that have ended */
	bool started, stopped, freed;
	int timers; /* not yet closed */
};

/* rpc.c for rpc_link.c */
void kr_rpc_connection_lost(struct kr_rpc *rpc);
void kr_rpc_watch_tick(struct kr_rpc *rpc, uint64_t now_ns);
/* There is a call, or a connection without an answer to HELLO: looks a few times a second, until there is neither. */
void kr_rpc_start_tick(struct kr_rpc *rpc);
void kr_rpc_check_deadlines(struct kr_rpc *rpc);
void kr_rpc_deliver_down(struct kr_rpc *rpc, const struct kr_frame *frame);
void kr_rpc_destroy(struct kr_rpc *rpc);

#endif

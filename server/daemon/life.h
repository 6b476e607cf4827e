/* The server's whole state.  The loop thread owns everything here: no locks.
 *
 * Blocking filesystem calls run in libuv's pool as a request's job (request.h) or a kr_job; what they touch is their
 * own until they are done.  Whatever waits for a node is parked: a request in somebody's list, never a thread.
 */
#ifndef KR_SERVER_SERVER_H
#define KR_SERVER_SERVER_H

#include <uv.h>

#include "common/rpc/conn.h"
#include "common/base/list.h"
#include "common/base/lock_table.h"
#include "common/base/table.h"
#include "server/recovery/conflicts.h"
#include "server/export/doubts.h"
#include "server/session/grace.h"
#include "server/session/lapses.h"
#include "server/names/delayed_unlink.h"
#include "server/recovery/setbacks.h"
#include "server/daemon/shutdown.h"

struct kr_data;
struct kr_executed;
struct kr_export;
struct kr_keyring;
struct kr_listen;
struct kr_invalidation;
struct kr_request;
struct kr_server_options;
struct kr_session;
struct kr_state;
struct kr_watch;
struct kr_watch_names;

enum {
	KR_SERVER_TYPES = 128,          /* message numbers are below */
	KR_SERVER_SESSIONS_MAX = 65536, /* a HELLO above is refused with AGAIN */
	KR_SERVER_USER_ADDRESSES = 64,  /* --user_sessions of one user from one address, so many times that from all */
	KR_SERVER_PENDING_CONNS_MAX = 1024, /* connections that have not said HELLO yet; the oldest goes */
	KR_SERVER_IDLE_FILES_MAX = 16384,
};

enum kr_handler_flag {
	KR_HANDLER_IN_GRACE = 1,      /* served during the grace period; everything else waits for its end */
	KR_HANDLER_KEEP_REPLY = 2,    /* not idempotent: the reply is kept for a RESEND instead of running it again */
	KR_HANDLER_CHANGES_NAMES = 8, /* the node knows what it changes of what it names: invalidation.h */
	KR_HANDLER_CHANGES_ALL = 4,   /* makes a name that nobody asked for, wherever: all notes are forgotten */
};
struct kr_handler {
	void (*handle)(struct kr_request *request); /* NULL: answered with PROTO */
	unsigned flags;
	void (*changes)(struct kr_request *request); /* these two: kr_invalidation_on in invalidation.h */
	uint16_t (*grants)(struct kr_request *request, int err, const void *reply);
};

struct kr_server {
	uv_loop_t *loop;
	const struct kr_server_options *options;
	struct kr_export *export;
	struct kr_state *state;
	struct kr_executed *executed;
	struct kr_keyring *keyring;         /* NULL: no keys, see trust.h */
	struct kr_data *data;               /* of flush rounds, pipelines and the feed: server/flush/data.h */
	struct kr_watch *watch;             /* of changes by others: server/leases/watch.h */
	struct kr_watch_names *watch_names; /* NULL: not listening */
	struct kr_invalidation *notes; /* what nodes remember of names and attributes: server/leases/invalidation.h */
	struct kr_listen *listen;      /* listeners and connections that are nobody's session yet */
	struct kr_handler handlers[KR_SERVER_TYPES];

	uint8_t boot_id[16];   /* changes with a loss of the machine's power (state.h) */
	uint8_t export_id[16]; /* of this export, from the state directory */
	uint64_t instance;     /* ascends with every start of the server on this state directory */
	uint32_t lease_ms;     /* a session that is silent for so long is lost */

	struct kr_lock_world lock_world;
	struct kr_list locked_files; /* of locks.c */
	struct kr_list sessions;     /* kr_session.link: the living ones */
	struct kr_table sessions_by_id;
	size_t session_count;
	uint32_t last_node; /* number given to the latest session; 0 is the server itself */
	uv_timer_t tick;    /* expiry of sessions and pending conns, grace */
	uint64_t ticked_ns;
	uint64_t woke_ns; /* when it slept the last time: what nodes did not do meanwhile does not count; 0: never */

	struct kr_delayed_unlink linger; /* files that were replaced just now: server/names/delayed_unlink.h */
	struct kr_table files;           /* kr_sfile by fid */
	struct kr_list idle_files;       /* kr_sfile.idle: unused, kept for their change counters, oldest first */
	size_t idle_file_count;
	uint64_t epoch;           /* ascends with every start and end of a change of any file's bytes */
	uint64_t forgotten_epoch; /* the latest `changed_epoch` among files dropped from the table */

	struct kr_grace grace;
	size_t forgetting;       /* records of nodes that are being removed at its end, and what is written down then */
	bool forget_failed;      /* one of them could not be, or that could not */
	struct kr_lapses lapses; /* of nodes that lost their leases */
	struct kr_setbacks setbacks; /* of the machine's clock */
	struct kr_doubts doubts;
	struct kr_conflicts conflicts;  /* what was in conflict of them */
	struct kr_list conflicts_asked; /* CONFLICTs, answered one by one, in turn */
	uint64_t conflict_turn;         /* how many turns there were */
	bool making_conflict;
	size_t stagings, brings; /* STAGEs that wait, and what is asked of nodes for the others (staging.c) */
	uint64_t staging_turn;   /* how many have begun */
	bool stopping;           /* the orderly end has begun */
	struct kr_shutdown end;
	bool export_lost, ticking_export;
	uint64_t export_ticked_ns;
	struct kr_list unanswered; /* kr_request.of_all, in the order of their arrival */
	struct kr_table
		outliving; /* of these, those of ended sessions that go on and may have an effect: kr_request.by_key */
	size_t jobs;       /* in the pool now */
	uint64_t requests_served, started_ns;
	struct kr_time started;            /* by the wall clock */
	uint64_t arrived[KR_SERVER_TYPES]; /* requests of nodes, by type */
	uint64_t sessions_lost;
};

/* Fills and starts everything but the listeners, in this order: state, export, handlers, data, grace. LOOP and OPTIONS
 * are borrowed until kr_server_fini. 0 or -errno with kr_fail's reason, then nothing is left behind. */
int kr_server_init(struct kr_server *server, uv_loop_t *loop, const struct kr_server_options *options);
/* Binds the addresses of the options and accepts. Reason by kr_fail. */
int kr_server_listen(struct kr_server *server);
/* Begins the orderly end: no new connections, running jobs finish, what was applied is synced, connections close; then
 * the loop has nothing left to do and uv_run returns. Bounded by twice KR_SERVER_STOP_MS (shutdown.h). Node records
 * stay, so that the next start lets them reclaim. */
void kr_server_stop(struct kr_server *server);
/* Frees the rest; the loop has ended. */
void kr_server_fini(struct kr_server *server);

/* The grace period is over: what waited for it goes on. */
void kr_server_end_grace(struct kr_server *server);

/* Registers the handler of a message type, once, at start. */
void kr_server_on(struct kr_server *server, uint16_t type, void (*handle)(struct kr_request *), unsigned flags);

/* A blocking call in the pool that belongs to no request. The caller embeds it; RUN in a pool thread, then DONE in the
 * loop (always, in any order relative to other jobs), which may free it. */
struct kr_job {
	uv_work_t work;
	struct kr_server *server;
	void (*run)(struct kr_job *job);
	void (*done)(struct kr_job *job);
};
void kr_job_start(
	struct kr_server *server, struct kr_job *job, void (*run)(struct kr_job *), void (*done)(struct kr_job *));

#endif

/* The server: what every room has in common, and where each room keeps its own part.
 *
 * The loop thread owns everything here: no locks. Blocking calls run in libuv's pool, as the job of a request
 * (session/request.h) or as a kr_job; a job's memory is its own until the job is done. A request that waits for a node
 * is parked in a list, never in a thread. */
#ifndef KR_SERVER_SERVER_H
#define KR_SERVER_SERVER_H

#include <uv.h>

#include "common/base/list.h"
#include "common/base/types.h"
#include "server/base/brief.h"

struct kr_daemon;
struct kr_data;
struct kr_delayed_unlink;
struct kr_export;
struct kr_fid_aliases;
struct kr_file_table;
struct kr_invalidation;
struct kr_keyring;
struct kr_listen;
struct kr_name_sync;
struct kr_server_recovery;
struct kr_request;
struct kr_server_locks;
struct kr_server_options;
struct kr_sessions;
struct kr_staging;
struct kr_state;
struct kr_watch;
struct kr_watch_names;

enum { KR_SERVER_TYPES = 128 }; /* message numbers are smaller */

enum kr_handler_flag {
	KR_HANDLER_IN_GRACE = 1,      /* served during the grace period; all others wait for its end */
	KR_HANDLER_KEEP_REPLY = 2,    /* not idempotent: a RESEND gets the kept reply */
	KR_HANDLER_CHANGES_NAMES = 8, /* the node invalidates the names in the request itself (leases/invalidation.h) */
	KR_HANDLER_CHANGES_ALL = 4,   /* changes names beyond the request: all attribute caches are invalidated */
};
struct kr_handler {
	void (*handle)(struct kr_request *request); /* NULL: answered with PROTO */
	unsigned flags;
	void (*changes)(struct kr_request *request); /* these two: kr_invalidation_on */
	uint16_t (*grants)(struct kr_request *request, int err, const void *reply);
	size_t changed_fids[2]; /* kr_invalidation_changes */
	unsigned changed_fid_count;
};

struct kr_server {
	uv_loop_t *loop;
	const struct kr_server_options *options;
	struct kr_state *state;                   /* base/state.h */
	struct kr_export *export;                 /* export/export.h */
	struct kr_fid_aliases *aliases;           /* export/fid_aliases.h */
	struct kr_keyring *keyring;               /* session/trust.h; NULL: no keys */
	struct kr_listen *listen;                 /* session/listen.h */
	struct kr_sessions *sessions;             /* session/session.h */
	struct kr_file_table *files;              /* leases/file_table.h */
	struct kr_server_locks *locks;            /* leases/locks.c */
	struct kr_invalidation *invalidation;     /* leases/invalidation.h */
	struct kr_watch *watch;                   /* leases/watch.h */
	struct kr_watch_names *watch_names;       /* leases/watch_names.c; NULL: not listening */
	struct kr_data *data;                     /* flush/data.h */
	struct kr_server_recovery *recovery;      /* recovery/recovery.h */
	struct kr_delayed_unlink *delayed_unlink; /* names/delayed_unlink.h */
	struct kr_name_sync *name_sync;           /* names/name_sync.h */
	struct kr_staging *staging;               /* pipelines/staging.h */
	struct kr_daemon *daemon;                 /* daemon/life.c */
	struct kr_handler handlers[KR_SERVER_TYPES];

	uint8_t boot_id[16];   /* new after a loss of power (base/state.h) */
	uint8_t export_id[16]; /* of this export, from the state directory */
	uint64_t instance;     /* ascends with every start of the server on this state directory */
	uint32_t lease_ms;     /* lease expiry after so long a silence */
	uint64_t started_ns;
	uint64_t woke_ns; /* the machine's last resume from sleep: silence before does not count; 0: never */
	size_t jobs;      /* in the pool now */
	bool export_lost; /* the export's directory has vanished */
	bool stopping;    /* the orderly end has begun */
	bool ended;       /* all sessions have ended by it */
};

/* Registers a message type's handler, once, at start. */
void kr_server_on(struct kr_server *server, uint16_t type, void (*handle)(struct kr_request *), unsigned flags);

/* A blocking call that belongs to no request; the caller embeds it. RUN runs in a pool thread, or if it IS_BRIEF as
 * brief.h says, then always DONE in the loop, which may free it. Jobs finish in any order. */
struct kr_job {
	struct kr_brief brief;
	bool is_brief;
	struct kr_server *server;
	void (*run)(struct kr_job *job);
	void (*done)(struct kr_job *job);
};
void kr_job_start(
	struct kr_server *server, struct kr_job *job, void (*run)(struct kr_job *), void (*done)(struct kr_job *));

#endif

/* The state directory: what outlives the server's process besides the export itself.
 *
 *   lock        held by the running server
 *   identity    32 bytes: the export's id, then the secret of its file identities
 *   export      inode number and birth time of the exported directory, a newline, its path
 *   instance    how often a server was started on it, in decimal
 *   peace       whether the latest stop was a clean shutdown (clean_shutdown.h)
 *   executed    requests that were executed in this boot (recovery/executed_log.h)
 *   nodes/ID    a symbolic link per node that the server awaits after a restart, to "OWNER NAME"; OWNER: of its key
 *               ("node", "user-UID", "any" without one); NAME: its host, for people
 *   failed      files whose sync failed and has not succeeded since (flush/failed_syncs.h)
 *   conflicts   which late bytes are in conflict (recovery/conflict_log.h)
 *   clock       when the machine's clock was set back, and its latest time (recovery/clock_setbacks.h)
 *   doubts      times around the ends of former instances (export/doubtful_times.h)
 *   aliases     identities of restored files (export/fid_aliases.h)
 *
 * Without the directory all file identities, caches and journals of nodes are foreign: back it up. Opening blocks
 * (main, before the loop runs); later changes run in the pool, one after the other. */
#ifndef KR_SERVER_STATE_H
#define KR_SERVER_STATE_H

#include "common/auth/key.h"
#include "server/base/server.h"

struct kr_state;
struct kr_state_node;

struct kr_state_facts {
	uint8_t export_id[16], secret[16];
	uint8_t boot_id[16];    /* new after a loss of power, but not after a clean shutdown (clean_shutdown.h) */
	uint8_t machine_id[16]; /* new with each boot of the machine */
	bool clean;             /* the former instance's stop was a clean shutdown, or there was none */
	uint64_t instance;
	struct kr_state_node *nodes; /* nodes that had sessions; owned by the state */
	size_t node_count;
};

struct kr_state_node {
	uint8_t id[16];
	struct kr_key_owner owner; /* kind 0: unknown, or a node without a key */
};

/* DIR NULL: /var/lib/kairan/<hash of the export's path>; for other users than root below $XDG_STATE_HOME or
 * ~/.local/state. Locks it and the export (GATEWAY: with others). -EBUSY: another server runs on it; -EEXIST: another
 * export's state. The reason says what to do. */
int kr_state_open(const char *dir, const char *export_path, bool gateway, struct kr_state **ret_state);
void kr_state_close(struct kr_state *state);
const struct kr_state_facts *kr_state_facts(const struct kr_state *state);
/* For other rooms' small files (kr_write_file): borrowed. */
int kr_state_dir(const struct kr_state *state);
const char *kr_state_path(const struct kr_state *state);

/* syncfs of the export's filesystem; blocks, any thread. 0 or -errno, logged. */
int kr_state_sync_export(struct kr_state *state);
/* A sync has failed: this instance has no clean shutdown, and the next one gets a new boot id. Blocks, any thread.
 * kr_state_sync_export calls it. */
void kr_state_not_clean(struct kr_state *state);
/* Clean shutdown: the last call of an instance, when it applies and records nothing any more. If all is on the disk,
 * the state directory says so (clean_shutdown.h).  Whether the last sync succeeded.  Blocks. */
bool kr_state_shut_down_cleanly(struct kr_state *state);

/* Records durably that a node has a session, by a key of OWNER (NULL: none); then DONE in the loop with 0 or -errno. */
void kr_state_add_node(struct kr_server *server, const uint8_t node_id[16], const struct kr_key_owner *owner,
	const char *name, void (*done)(void *context, int err), void *context);
/* Whether records of nodes can be written. 0, or -errno with a reason: the directory was removed, its disk is full...
 * Blocks, any thread. */
int kr_state_check(const struct kr_state *state);
/* Removes the node's record: the next instance does not await it. Then DONE (may be NULL). A later add wins. */
void kr_state_forget_node(
	struct kr_server *server, const uint8_t node_id[16], void (*done)(void *context, int err), void *context);

#endif

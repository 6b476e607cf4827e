/* The state directory: what outlives the server's process besides the export itself.
 *
 *   lock        held by the running server
 *   identity    32 bytes: the export's id, then the secret of its file identities
 *   export      inode number and birth time of the exported directory, a newline, its path
 *   instance    how often a server was started on it, in decimal
 *   boot        boot id at the latest start whose grace period ended, 32 hex digits
 *   peace       whether the server was stopped in peace, and its boot id goes on (clean_shutdown.h)
 *   executed    requests that were executed in this boot (executed.h)
 *   nodes/ID    a symbolic link per node whose leases count (or did, when the server ended), to "OWNER NAME": of its
 *               key ("node", or "user-UID"; "any" without a key), and its host name, for people. A link is made and
 *               lasts as a whole
 *   synced      which flush rounds are on stable storage (synced.h)
 *   replayed    which rounds of a former boot have been replayed in this one (replayed.h)
 *   conflicts   which late bytes are in conflict (conflicts.h)
 *   clock       when the machine's clock was set back, and what it showed last (setbacks.h)
 *   doubts      times around the ends of former instances (doubts.h)
 *
 * Losing the directory makes all file identities, caches and journals of nodes foreign: it belongs into the backup.
 * Opening blocks (main, before the loop runs); changes later run in the pool, one after the other.
 */
#ifndef KR_SERVER_STATE_H
#define KR_SERVER_STATE_H

#include "common/auth/key.h"
#include "server/base/server.h"

struct kr_state;
struct kr_state_node;

struct kr_state_facts {
	uint8_t export_id[16], secret[16];
	uint8_t boot_id[16];    /* changes with a loss of the machine's power, not with its boot after a stop in peace
				   (clean_shutdown.h) */
	uint8_t machine_id[16]; /* changes with each boot of the machine: its clocks begin anew */
	bool new_boot;          /* the machine went down, and what nodes replay after it may not be all here yet */
	uint64_t instance;
	struct kr_state_node *nodes; /* those that had sessions; owned by the state */
	size_t node_count;
};

struct kr_state_node {
	uint8_t id[16];
	struct kr_key_owner owner; /* kind 0: not known, or it came without a key */
};

/* DIR NULL: /var/lib/kairan/<hash of the export's path>, or below $XDG_STATE_HOME or ~/.local/state for others than
 * root. Locks it and the export. -EBUSY: another server runs on it; -EEXIST:
 * the state is of another export. The reason says what to do. */
int kr_state_open(const char *dir, const char *export_path, struct kr_state **ret_state);
void kr_state_close(struct kr_state *state);
const struct kr_state_facts *kr_state_facts(const struct kr_state *state);
/* For small files of others (kr_write_file): borrowed. */
int kr_state_dir(const struct kr_state *state);
const char *kr_state_path(const struct kr_state *state);

/* The grace period ends: a later start in this boot of the machine has no replays to expect. 0 or -errno, logged.
 * Blocks, any thread. */
int kr_state_note_boot(const struct kr_state *state);
/* syncfs of the export's filesystem; blocks, any thread. 0 or -errno, logged. */
int kr_state_sync_export(struct kr_state *state);
/* A sync has failed: this instance does not stop in peace, and the next one says that nothing is there. Blocks, any
 * thread; as when kr_state_sync_export fails. */
void kr_state_not_clean(struct kr_state *state);
/* The last that an instance does: nothing is applied, or noted, any more. When all of it is on the disk that is written
 * down (clean_shutdown.h). Blocks. */
void kr_state_shut_down_cleanly(struct kr_state *state);

/* Keeps that a node has a session, by a key of OWNER (NULL: none), durably; then DONE in the loop with 0 or -errno. */
void kr_state_add_node(struct kr_server *server, const uint8_t node_id[16], const struct kr_key_owner *owner,
	const char *name, void (*done)(void *context, int err), void *context);
/* The node will not come back to reclaim anything, or comes back late; then DONE (may be NULL). A later add of the same
 * node wins. */
void kr_state_forget_node(
	struct kr_server *server, const uint8_t node_id[16], void (*done)(void *context, int err), void *context);

#endif

/* Clean shutdown: whether the machine's page cache has, in effect, outlived its boot.
 *
 * A node asks by boot id whether unsynced bytes at the server are still there. After a clean shutdown they are,
 * whatever happens to the machine then, so the next start keeps the id, and no program hears of a loss
 * (fuse/names/dir_fsync.h).
 *
 * The file says `stopped` only while no server runs and all bytes that servers of this id applied are on the disk. A
 * server writes `stopped` after a successful sync, and writes nothing to the export after that. A start revokes it,
 * durably, before it serves. A start that finds another state follows a killed server, whose last sync may have failed:
 * with this id no server writes `stopped` again.
 *
 * A failed sync is recorded at once, before nodes hear of it (UNSTABLE in msgs.def). The next server's sync may succeed
 * without what that lost. So the next server has a new id, as after a loss of power.
 *
 * A new id is random, and not the machine's boot id: an export can move to another machine, lose what that has not
 * synced, and move back to this one, which was up all the time.
 *
 * `peace` in the state directory is one line, MACHINE BOOT STATE: the machine's boot id, the one that nodes see (32 hex
 * digits each), and `stopped`, `serving`, `killed` or `failed`. A damaged line, or a missing file that a former server
 * must have written, counts as `killed`. */
#ifndef KR_SERVER_CLEAN_SHUTDOWN_H
#define KR_SERVER_CLEAN_SHUTDOWN_H

#include <stdbool.h>
#include <stdint.h>

enum kr_clean_shutdown_state {
	KR_CLEAN_SHUTDOWN_UNKNOWN,
	KR_CLEAN_SHUTDOWN_KILLED,  /* a server of this id was killed, or may have been */
	KR_CLEAN_SHUTDOWN_FAILED,  /* a sync of a server of this id has failed */
	KR_CLEAN_SHUTDOWN_SERVING, /* every former server of this id had a clean shutdown */
	KR_CLEAN_SHUTDOWN_STOPPED,
};

struct kr_clean_shutdown {
	uint8_t machine[16], boot[16];
	enum kr_clean_shutdown_state state;
};

/* The state and boot id of a start, possibly the FIRST of all, from what it finds. MACHINE: the machine's boot id.
 * FRESH: a new random id. */
struct kr_clean_shutdown kr_clean_shutdown_start(
	const struct kr_clean_shutdown *found, const uint8_t machine[16], const uint8_t fresh[16], bool first);

/* Reads DIR/peace; a missing or damaged file is UNKNOWN. 0 or -errno with a reason. Blocks. */
int kr_clean_shutdown_read(int dir, struct kr_clean_shutdown *ret_shutdown);
/* Durable when it returns 0; else -errno with a reason. Blocks. */
int kr_clean_shutdown_write(int dir, const struct kr_clean_shutdown *shutdown);

#endif

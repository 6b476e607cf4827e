/* Whether the machine's page cache has outlived its boot, in effect: because the server was stopped in peace, with
 * everything on the disk.
 *
 * Nodes ask by a boot id whether what was applied at the server, and not synced, is still there.  After a stop in peace
 * it is, whatever happens to the machine then, so the next start goes on with the id of the last one: for the nodes the
 * server was merely started anew.  They replay nothing, and no program hears of a loss that there was not
 * (fuse/names/dir_fsync.h).
 *
 * The rule: the file says `stopped` only while no server runs and all that those of this id have applied is on the
 * disk. It does not say so before a sync of all has succeeded, after which nothing is written to the export; and a
 * start takes it back, durably, before it serves.  A start that finds anything else follows a server that was killed,
 * perhaps after a sync that failed and that nobody remembers: with this id it is never said again.
 *
 * A sync that has failed is written down as soon as it has, before nodes are told (UNSTABLE in msgs.def).  What it has
 * lost they send again; but who has not heard of it when this server ends would be told by the next one, of which the
 * kernel says that its sync succeeds, that all is on the disk. So the next one has an id of its own, as after a loss of
 * power: everybody sends again what is not known to be synced.
 *
 * `peace` in the state directory is one line, MACHINE BOOT STATE: the machine's boot id, the one told to nodes (32 hex
 * digits each), and `stopped`, `serving`, `killed` or `failed`.  What is no such line, or not there although a server
 * has been started before, is as if one had been killed.
 */
#ifndef KR_SERVER_CLEAN_SHUTDOWN_H
#define KR_SERVER_CLEAN_SHUTDOWN_H

#include <stdbool.h>
#include <stdint.h>

enum kr_clean_shutdown_state {
	KR_CLEAN_SHUTDOWN_UNKNOWN,
	KR_CLEAN_SHUTDOWN_KILLED,  /* a server of this id has ended without a word, or may have */
	KR_CLEAN_SHUTDOWN_FAILED,  /* a sync of one of this id has failed */
	KR_CLEAN_SHUTDOWN_SERVING, /* all before this one were stopped in peace */
	KR_CLEAN_SHUTDOWN_STOPPED,
};

struct kr_clean_shutdown {
	uint8_t machine[16], boot[16];
	enum kr_clean_shutdown_state state;
};

/* What a start, which may be the FIRST of all, makes of what it finds, on a machine whose boot id is MACHINE. FRESH: an
 * id that there was never before. */
struct kr_clean_shutdown kr_clean_shutdown_start(
	const struct kr_clean_shutdown *found, const uint8_t machine[16], const uint8_t fresh[16], bool first);

/* Reads DIR/peace; what is not there, or damaged, is unknown. 0 or -errno with a reason. Blocks. */
int kr_clean_shutdown_read(int dir, struct kr_clean_shutdown *ret_peace);
/* Durable when it returns 0; else -errno with a reason. Blocks. */
int kr_clean_shutdown_write(int dir, const struct kr_clean_shutdown *peace);

#endif

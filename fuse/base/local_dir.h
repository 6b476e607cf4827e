/* The node's local directory: its lock, its identity, and the places of journal, cache, control socket and log.
 *
 *   lock       held (flock) by the one daemon that uses the directory; not empty: that one's mount has ended, and it
 *              flushes
 *   identity   JSON: node_id (made once, 16 bytes in hex), incarnation (counts the starts), export_id, source; replaced
 *              as a whole, or on a full disk overwritten
 *   journal/ cache/ control log
 *
 * Mode 0700, the caller's own.  Main thread; read-only after kr_local_bind.
 */
#ifndef KR_FUSE_LOCAL_DIR_H
#define KR_FUSE_LOCAL_DIR_H

#include <stdint.h>

struct kr_local;
struct kr_mount_options;

/* Makes and locks the directory and counts a start. Waits for a mount before that has ended and still flushes, as
 * `umount` followed by `mount` finds it. -EBUSY: another mount uses it; each with a sentence in kr_fail_reason that
 * says what to do. */
int kr_local_open(const struct kr_mount_options *options, struct kr_local **ret_local);
/* Binds it to the export that HELLO told; -EXDEV: its journal holds bytes for another export. */
int kr_local_bind(struct kr_local *local, const uint8_t export_id[16]);
/* The mount has ended, and what is left is flushed: who mounts now may wait for that. */
void kr_local_leaving(struct kr_local *local);
/* Unlocks.  A directory that kr_local_open has made and that was never bound goes again. */
void kr_local_free(struct kr_local *local);

const char *kr_local_path(const struct kr_local *local);
/* A descriptor of the directory. */
int kr_local_fd(const struct kr_local *local);
/* "PATH/journal": exists. */
const char *kr_local_journal(const struct kr_local *local);
const uint8_t *kr_local_node_id(const struct kr_local *local);
uint64_t kr_local_incarnation(const struct kr_local *local);
const char *kr_local_node_name(const struct kr_local *local);

#endif

/* The node's local directory: its lock, its identity, and the places of journal, cache, control socket and log.
 *
 *   lock       the one daemon that uses the directory holds it (flock).  Not empty: that daemon's mount has ended, and
 *              the daemon flushes.
 *   identity   JSON: node_id (made once, 16 bytes in hex), incarnation (counts the starts), export_id, source.
 *              Replaced as a whole; overwritten in place on a full disk.
 *   journal/ cache/ control log trace
 *   kairan-view/  instead of identity, journal and cache: what a mount with view=node holds (fuse/view)
 *   kairan-job/   likewise, of view=job (fuse/daemon/serve_job.h)
 *
 * Mode 0700, owned by the daemon's user.  Main thread; read-only after kr_local_bind.
 */
#ifndef KR_FUSE_LOCAL_DIR_H
#define KR_FUSE_LOCAL_DIR_H

#include <stdint.h>

struct kr_local;
struct kr_mount_options;

/* Makes and locks the directory, and counts a start.  If a former mount has ended and its daemon still flushes, waits
 * for that, so that `umount` followed by `mount` works.  -EBUSY: another mount uses the directory.  Each error comes
 * with a sentence in kr_fail_reason that says what to do. */
int kr_local_open(const struct kr_mount_options *options, struct kr_local **ret_local);
/* Binds the directory to the export that HELLO told.  -EXDEV: its journal holds bytes for another export. */
int kr_local_bind(struct kr_local *local, const uint8_t export_id[16]);
/* The mount has ended, and the daemon flushes the rest: a new mount may now wait for that. */
void kr_local_leaving(struct kr_local *local);
/* kr_local_free removes nothing: something of the mount stays for the next one. */
void kr_local_keep(struct kr_local *local);
/* Unlocks.  If kr_local_open has made the directory, and it was never bound, removes it.  A view's directory goes with
 * all that the mount has made in it, unless something else is left there. */
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

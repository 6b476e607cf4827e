/* The mount's control socket (LOCAL/control): STATUS messages of the kairan command, answered also when the server is
 * away. Loop thread.
 *
 *   what      argument   does
 *   status    -          nothing
 *   flush     a path, or a file's identity in hex, or empty: all files    starts to flush, the refused files too
 *   drain     milliseconds   the end of the mount shall not drain longer than this from now
 *   end       -          drains and ends, as SIGTERM does: also when copies of the mount in other namespaces keep it
 *             alive
 *   discard   as flush, not empty   drops the unflushed bytes of that file for good
 *
 * Each answers with the status as JSON (mount_status.h).
 */
#ifndef KR_FUSE_CONTROL_H
#define KR_FUSE_CONTROL_H

#include "fuse/base/mount.h"

struct kr_control;

/* Listens, and writes down where (control_address.h) for the mount on this device. */
int kr_control_new(struct kr_mount *mount, unsigned dev_major, unsigned dev_minor, struct kr_control **ret_control);
/* NULL is fine. The rest goes when the loop has run. */
void kr_control_free(struct kr_control *control);

#endif

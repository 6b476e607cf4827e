/* Where a path lies on mounts of kairanfs, found without touching them: so it works when a mount hangs.
 */
#ifndef KR_TOOLS_PLACE_H
#define KR_TOOLS_PLACE_H

#include "fuse/daemon/mountpoint.h"

/* The mount that PATH (any path on it, or a mount point; it need not be there) lies on. Symbolic links are followed up
 * to the mount; what lies on it is taken by its letters, without "." and "..": *RET_BELOW (owned; may be NULL: not
 * asked for) is relative to the mount point, "" for that itself.  -errno with a reason. */
int kr_find_place(const char *path, struct kr_mounted *ret_mounted, char **ret_below);

#endif

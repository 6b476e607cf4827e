/* Finds the kairanfs mount of a path without touching the mount: so it works when the mount hangs. */
#ifndef KR_TOOLS_FIND_MOUNT_H
#define KR_TOOLS_FIND_MOUNT_H

#include "fuse/daemon/mountpoint.h"

/* The mount of PATH: a mount point or any path on a mount, which need not exist.  Symbolic links are resolved up to the
 * mount; the part on the mount is taken literally, without "." and "..".  *RET_BELOW (owned; RET_BELOW may be NULL) is
 * relative to the mount point, "" for the mount point itself.  -errno with a reason. */
int kr_find_mount(const char *path, struct kr_mounted *ret_mounted, char **ret_below);
/* Whether a command's argument names a mount: an absolute or dotted path, or an existing name.  All else is a host. */
bool kr_looks_like_path(const char *text);

#endif

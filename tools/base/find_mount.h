/* Finds the kairanfs mount of a path, or all mounts, without touching them: so it works when a mount hangs. */
#ifndef KR_TOOLS_FIND_MOUNT_H
#define KR_TOOLS_FIND_MOUNT_H

#include "fuse/daemon/mountpoint.h"

/* The mount of PATH: a mount point or any path on a mount, which need not exist.  Symbolic links are resolved up to the
 * mount; the part on the mount is taken literally, without "." and "..".  *RET_BELOW (owned; RET_BELOW may be NULL) is
 * relative to the mount point, "" for the mount point itself.  -errno with a reason. */
int kr_find_mount(const char *path, struct kr_mounted *ret_mounted, char **ret_below);
/* Calls VISIT for each mount here whose daemon the caller may ask: root's and his own, and for root all of them.  0, or
 * -errno with a reason. */
int kr_for_each_mount(void (*visit)(const struct kr_mounted *mounted, void *context), void *context);
/* Whether a command's argument names a mount: an absolute or dotted path, or an existing name.  All else is a host. */
bool kr_looks_like_path(const char *text);

#endif

/* Notices that the mount has gone from this mount namespace while the kernel's session goes on, because programs have
 * files of it open, or another mount namespace holds a copy.  An unmount means "to the server, now": so unflushed bytes
 * do not wait for their age any more (mount->unmounted), and the log says why the daemon does not end.
 *
 * Loop thread. */
#ifndef KR_FUSE_UNMOUNT_WATCH_H
#define KR_FUSE_UNMOUNT_WATCH_H

#include "fuse/base/mount.h"

struct kr_unmount_watch;

/* Of the mount with this device number, which is there.  NULL, with a line in the log: the kernel does not tell. */
struct kr_unmount_watch *kr_unmount_watch_new(struct kr_mount *mount, unsigned dev_major, unsigned dev_minor);
/* NULL is fine.  The memory goes when the loop has run. */
void kr_unmount_watch_free(struct kr_unmount_watch *watch);

#endif

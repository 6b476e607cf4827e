/* mount -o remount: what the kernel keeps of a mount's options is changed in place; the daemon goes on as it was
 * started. */
#ifndef KR_FUSE_REMOUNT_H
#define KR_FUSE_REMOUNT_H

#include "fuse/base/options.h"

/* The mount on options->mount_point becomes ro or rw, and suid, dev, exec, sync, dirsync and their opposites, as the
 * options say (what they do not say is as for a new mount). -errno with a sentence: nothing of ours there, another
 * source, files open for writing (EBUSY), not root. Never touches what is mounted, so it does not wait for the daemon,
 * but for the kernel's own flush of it. */
int kr_remount(const struct kr_mount_options *options);

#endif

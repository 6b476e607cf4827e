/* A limit that the disk keeps by itself: a project's quota of ext4 or XFS (mounted with prjquota).  Then nobody has to
 * count what is written, and the kernel can write past the daemon. */
#ifndef KR_FUSE_VIEW_PROJECT_H
#define KR_FUSE_VIEW_PROJECT_H

#include <stdint.h>

/* Makes the empty directory NAME of PARENT a project of its own, for all that will be in it, with these limits.  0;
 * -errno: the disk, the kernel or this user cannot, and the directory is as it was.  Linux 5.14 and later. */
int kr_project_limit(int parent, const char *name, uint64_t bytes, uint64_t inodes);
/* Gives the limits of such a directory back; nothing, if it is none. */
void kr_project_drop(int parent, const char *name);

#endif

/* The directory that is mounted on, and what the kernel says about mounts (/proc/self/mountinfo: reading it never
 * touches the mount itself, so it works when that hangs).  Also used by the kairan command.
 */
#ifndef KR_FUSE_MOUNTPOINT_H
#define KR_FUSE_MOUNTPOINT_H

#include <stdbool.h>

/* A mount of ours. */
struct kr_mounted {
	unsigned dev_major, dev_minor;
	char *path;   /* owned */
	char *source; /* owned; HOST[:PORT]:/[SUBDIR] */
	unsigned uid; /* who mounted it */
};
void kr_mounted_fini(struct kr_mounted *mounted);
/* Calls VISIT for each kairanfs mount in this mount namespace, later mounts last. 0, or -errno. */
int kr_mounted_for_each(void (*visit)(const struct kr_mounted *mounted, void *context), void *context);
/* PATH made absolute and free of "." and "..", by its letters alone, which touches nothing; owned. */
char *kr_plain_path(const char *path);
/* The kairanfs mount that PATH (absolute, made of real directories) lies on or in: the topmost. -ENOENT: none. */
int kr_mounted_find(const char *path, bool exact, struct kr_mounted *ret_mounted);

/* Checks that *PATH can be mounted on and replaces it by its absolute, real form. -errno with a sentence; at once also
 * where a mount that hangs is there already. */
int kr_mount_point_check(char **path, bool nonempty);

#endif

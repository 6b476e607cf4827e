/* The mount point, and the kernel's list of mounts (/proc/self/mountinfo).  Reading that list never touches the mount
 * itself, so it works when the mount hangs.  The kairan command uses it, too.
 */
#ifndef KR_FUSE_MOUNTPOINT_H
#define KR_FUSE_MOUNTPOINT_H

#include <stdbool.h>

/* A mount of kairanfs. */
struct kr_mounted {
	unsigned dev_major, dev_minor;
	char *path;   /* owned */
	char *source; /* owned; HOST[:PORT]:/[SUBDIR] */
	unsigned uid; /* the user that mounted it */
};
void kr_mounted_fini(struct kr_mounted *mounted);
/* Calls VISIT for each kairanfs mount in this mount namespace, later mounts last. 0, or -errno. */
int kr_mounted_for_each(void (*visit)(const struct kr_mounted *mounted, void *context), void *context);
/* PATH made absolute and free of "." and "..", by its letters alone, without any access to files; owned. */
char *kr_plain_path(const char *path);
/* Whether a kairanfs of this device is mounted in this namespace; -errno with a reason. */
int kr_mounted_has(unsigned dev_major, unsigned dev_minor);
/* The topmost kairanfs mount at or above PATH (absolute, made of real directories).  -ENOENT: none. */
int kr_mounted_find(const char *path, bool exact, struct kr_mounted *ret_mounted);

/* Unmounts PATH, as fusermount3 does for users; LAZY: also while programs use it.  0, or -errno with a reason.  Blocks.
 */
int kr_unmount(const char *path, bool lazy);
/* Checks that SOURCE, or JOB unless that is NULL, can be mounted on *PATH, and replaces *PATH by its absolute, real
 * form.  *RET_DEAD: a mount of it whose daemon has ended is there.  -errno with a sentence.  Does not wait for
 * a mount that hangs; waits for a daemon that is just ending. */
int kr_mount_point_check(char **path, const char *source, const char *job, bool nonempty, bool *ret_dead);
/* Unmounts the dead mount on PATH.  Until then programs get ENOTCONN there, and write nothing below; those that use it
 * go on to get that.  -errno with a sentence. */
int kr_mount_point_free(const char *path);

#endif

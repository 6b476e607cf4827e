/* From identities and names to descriptors and back: the steps that every operation is made of.
 *
 * Descriptors are O_PATH (they can name anything, and block on nothing) where they are not kept open.  Any thread.
 */
#ifndef KR_SERVER_ENTRY_H
#define KR_SERVER_ENTRY_H

#include "server/export/export.h"
#include "server/export/fd_cache.h"

/* 0, -EINVAL or -ENAMETOOLONG; HIDDEN_ERR for the server's own directory in the root. */
int kr_entry_check(const struct kr_export *export, const struct kr_fid *parent, const char *name, int hidden_err);

int kr_entry_open(struct kr_export *export, const struct kr_fid *fid, int *ret_fd);

/* A descriptor of a file for a while: one that the cache keeps, or else an O_PATH one. */
struct kr_entry {
	struct kr_export *export;
	struct kr_fd *kept; /* NULL: FD is its own */
	int fd;
};
#define KR_NO_ENTRY ((struct kr_entry){.fd = -1})
#define KR_AUTO_ENTRY __attribute__((cleanup(kr_entry_put))) struct kr_entry

int kr_entry_get(struct kr_export *export, const struct kr_fid *fid, struct kr_entry *ret_entry);
/* The same for a directory in which names will change, one after the other as a rule: its descriptor is kept. */
int kr_entry_get_dir(struct kr_export *export, const struct kr_fid *fid, struct kr_entry *ret_entry);
void kr_entry_put(struct kr_entry *entry);
/* ERR of an operation on a name in DIR.  A directory that a program on the server has removed is gone, also where its
 * descriptor was kept: -ESTALE instead of -ENOENT. */
int kr_entry_error_in(const struct kr_entry *dir, int err);
/* NAME below DIRFD, itself: neither links nor mounts are followed (-EXDEV: something is mounted there). */
int kr_entry_child(int dirfd, const char *name, int *ret_fd);
/* A kept descriptor on the data of a regular file (or on a directory), to be put back with kr_fd_cache_put. */
int kr_entry_data(
	struct kr_export *export, const struct kr_fid *fid, enum kr_fd_cache_mode mode, struct kr_fd **ret_fd);

/* The identity of FD, found as NAME in PARENT (NULL for both: not by a name). */
int kr_entry_identify(
	struct kr_export *export, int fd, const struct kr_fid *parent, const char *name, struct kr_fid *ret_fid);
/* FID has lost NAME in PARENT; OTHERS: it has further names. */
void kr_entry_forget(
	struct kr_export *export, const struct kr_fid *fid, const struct kr_fid *parent, const char *name, bool others);
/* What distinguishes the subvolume of FD from others of its filesystem, also after a restart; 0: not known. */
uint64_t kr_entry_volume(int fd);
/* The inode numbers that nodes see of the subvolume of FD, whose st_dev is DEV, are the kernel's XOR this.  Subvolumes
 * of btrfs number their files alike.  Programs would take a directory with the number of one above it for a loop. */
uint64_t kr_entry_numbering(const struct kr_export *export, int fd, dev_t dev);
int kr_entry_attr(struct kr_export *export, int fd, const struct kr_fid *fid, struct kr_attr *ret_attr);
/* child, identify and attr in one. */
int kr_entry_meet(struct kr_export *export, int dirfd, const struct kr_fid *parent, const char *name,
	struct kr_fid *ret_fid, struct kr_attr *ret_attr);
/* Whether FD's file has no extended attributes, thus no ACL, on a filesystem that could have them. By the server
 * itself. */
bool kr_entry_bare(struct kr_export *export, int fd);
/* Inode number and birth time of FD. */
int kr_entry_inode(int fd, struct kr_identity *ret_identity);

/* "N" of FD, as a name below export->proc_fd: the way to what an O_PATH descriptor cannot do itself. */
struct kr_proc_name {
	char text[16];
};
struct kr_proc_name kr_entry_proc_name(int fd);

#endif

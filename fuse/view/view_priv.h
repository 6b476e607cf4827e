/* Shared by the files of the view. */
#ifndef KR_FUSE_VIEW_PRIV_H
#define KR_FUSE_VIEW_PRIV_H

#include <stdatomic.h>
#include <stdio.h>

#include "common/base/util.h"
#include "fuse/view/inodes.h"
#include "fuse/view/space.h"
#include "fuse/view/view.h"

/* Only the kernel changes names and attributes, and it knows its own changes. */
#define KR_VIEW_FOREVER (86400.0 * 365)

/* The operations that the kernel does past the daemon. */
enum kr_view_passthrough {
	KR_VIEW_PASS_NOTHING, /* it cannot, or may not for this daemon */
	KR_VIEW_PASS_READS,   /* of files that no program had open for writing: the daemon counts written bytes */
	KR_VIEW_PASS_ALL,     /* no limit, or the disk's own */
};

struct kr_view {
	struct kr_mount *mount;
	int local, root; /* descriptors; root: of LOCAL/kairan-view */
	struct kr_view_inodes *inodes;
	struct kr_space space;      /* the inodes' lock guards it, and the next */
	struct kr_list files, dirs; /* open ones */
	uint64_t opens;             /* files */
	_Atomic int passthrough;    /* enum kr_view_passthrough */
	bool quota;                 /* the disk keeps the limit, and space.limit is 0 */
	bool passthrough_tried;     /* the kernel has said whether it can; the lock, too */
};

static inline struct kr_view *kr_view_of(fuse_req_t req)
{
	return ((struct kr_mount *)fuse_req_userdata(req))->view;
}

/* Errors of the disk as programs shall see them; ERR is an errno, positive. */
int kr_view_error(int err);
/* Fills the reply for an inode that was found or made. */
void kr_view_entry(const struct kr_view *view, const struct kr_view_inode *inode, const struct stat *stat,
	struct fuse_entry_param *ret);
/* Takes what the disk says of FD's file as the charge of its inode. */
void kr_view_settle(struct kr_view *view, struct kr_view_inode *inode, int fd);
/* Waits for a moment for space of removed files, which the kernel forgets a moment after their end.  True: try again.
 */
bool kr_view_wait_for_space(struct kr_view *view, unsigned *tries);

/* Whether a block is free, for a name or an attribute. */
bool kr_view_admit_block(struct kr_view *view);
/* An inode was not made after all. */
void kr_view_dismiss_inode(struct kr_view *view);
/* The inode with its descriptor, until kr_view_inode_put.  NULL: REQ has its error. */
struct kr_view_inode *kr_view_enter(fuse_req_t req, fuse_ino_t ino);
/* The same of a directory, with an inode counted that is to be made in it.  NULL: REQ has its error. */
struct kr_view_inode *kr_view_enter_to_make(fuse_req_t req, fuse_ino_t parent_ino);

void kr_view_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void kr_view_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups);
void kr_view_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets);
void kr_view_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device);
void kr_view_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void kr_view_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void kr_view_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name);
void kr_view_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void kr_view_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void kr_view_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent, const char *new_name,
	unsigned flags);
void kr_view_readlink(fuse_req_t req, fuse_ino_t ino);

void kr_view_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void kr_view_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int which, struct fuse_file_info *fi);
void kr_view_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags);
void kr_view_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void kr_view_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void kr_view_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);
void kr_view_statfs(fuse_req_t req, fuse_ino_t ino);

void kr_view_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void kr_view_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void kr_view_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void kr_view_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);

void kr_view_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void kr_view_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
#ifdef KR_FUSE_TMPFILE
void kr_view_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *fi);
#endif
void kr_view_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void kr_view_write(
	fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size, off_t offset, struct fuse_file_info *fi);
void kr_view_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void kr_view_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void kr_view_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi);
void kr_view_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length, struct fuse_file_info *fi);
void kr_view_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi);
void kr_view_copy_file_range(fuse_req_t req, fuse_ino_t from, off_t from_offset, struct fuse_file_info *from_fi,
	fuse_ino_t to, off_t to_offset, struct fuse_file_info *to_fi, size_t length, int flags);
/* Sets the size; with the descriptor of an open file, or -1.  0 or -errno. */
int kr_view_truncate(struct kr_view *view, struct kr_view_inode *inode, int open_fd, uint64_t size);

#endif

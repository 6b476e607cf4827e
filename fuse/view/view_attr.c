/* Attributes of a view's files, extended ones too (with them ACLs, which the kernel checks), and what the disk has. */
#include "fuse/view/view_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "fuse/view/as_caller.h"
#include "fuse/view/view_file.h"

/* How long the kernel may keep STAT. */
static double attr_timeout_of(const struct stat *stat)
{
	/* The disk clears these bits when the file is written to, without a word to the kernel. */
	return S_ISREG(stat->st_mode) && stat->st_mode & (S_ISUID | S_ISGID) ? 0 : KR_VIEW_FOREVER;
}

void kr_view_entry(const struct kr_view *view, const struct kr_view_inode *inode, const struct stat *stat,
	struct fuse_entry_param *ret)
{
	*ret = (struct fuse_entry_param){.ino = kr_view_nodeid(view->inodes, inode),
		.attr = *stat,
		.attr_timeout = attr_timeout_of(stat),
		.entry_timeout = KR_VIEW_FOREVER};
}

static void reply_attr(fuse_req_t req, int fd)
{
	struct stat stat;

	if (fstat(fd, &stat) < 0)
		fuse_reply_err(req, kr_view_error(errno));
	else
		fuse_reply_attr(req, &stat, attr_timeout_of(&stat));
}

void kr_view_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_inode *inode = kr_view_enter(req, ino);

	(void)fi;
	if (!inode)
		return;
	reply_attr(req, inode->fd);
	kr_view_inode_put(view->inodes, inode);
}

/* --- changes ---------------------------------------------------------------------------------- */

static int set_times(int fd, const struct stat *attr, int which)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};

	if (which & FUSE_SET_ATTR_ATIME_NOW)
		times[0].tv_nsec = UTIME_NOW;
	else if (which & FUSE_SET_ATTR_ATIME)
		times[0] = attr->st_atim;
	if (which & FUSE_SET_ATTR_MTIME_NOW)
		times[1].tv_nsec = UTIME_NOW;
	else if (which & FUSE_SET_ATTR_MTIME)
		times[1] = attr->st_mtim;
	/* A symbolic link's descriptor: the link itself. */
	return utimensat(AT_FDCWD, kr_fd_path(fd).text, times, 0) < 0 ? -errno : 0;
}

static int set_owner(int fd, const struct stat *attr, int which)
{
	uid_t uid = which & FUSE_SET_ATTR_UID ? attr->st_uid : (uid_t)-1;
	gid_t gid = which & FUSE_SET_ATTR_GID ? attr->st_gid : (gid_t)-1;

	return fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0 ? -errno : 0;
}

static int set_mode(int fd, mode_t mode)
{
	int err;

	kr_as_owner();
	err = chmod(kr_fd_path(fd).text, mode) < 0 ? -errno : 0;
	kr_as_daemon();
	return err;
}

static int change(struct kr_view *view, struct kr_view_inode *inode, const struct stat *attr, int which, int open_fd)
{
	int err = 0;

	if (which & (FUSE_SET_ATTR_UID | FUSE_SET_ATTR_GID))
		err = set_owner(inode->fd, attr, which);
	if (err == 0 && which & FUSE_SET_ATTR_MODE)
		err = set_mode(inode->fd, attr->st_mode & 07777);
	if (err == 0 && which & FUSE_SET_ATTR_SIZE)
		err = kr_view_truncate(view, inode, open_fd, (uint64_t)attr->st_size);
	if (err == 0 &&
		which & (FUSE_SET_ATTR_ATIME | FUSE_SET_ATTR_MTIME | FUSE_SET_ATTR_ATIME_NOW | FUSE_SET_ATTR_MTIME_NOW))
		err = set_times(inode->fd, attr, which);
	return err;
}

void kr_view_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *attr, int which, struct fuse_file_info *fi)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_inode *inode = kr_view_enter(req, ino);
	int err;

	if (!inode)
		return;
	err = change(view, inode, attr, which, fi ? kr_view_file(fi)->fd : -1);
	if (err < 0)
		fuse_reply_err(req, kr_view_error(-err));
	else
		reply_attr(req, inode->fd);
	kr_view_inode_put(view->inodes, inode);
}

/* --- extended attributes ------------------------------------------------------------------------ */

/* How many bytes the attributes of PATH's file have; with the new one of NAME, which has SIZE. */
static size_t xattr_bytes(const char *path, const char *name, size_t size)
{
	char names[XATTR_LIST_MAX];
	ssize_t length = listxattr(path, names, sizeof(names));
	size_t bytes = strlen(name) + size;

	for (ssize_t at = 0; at < length; at += (ssize_t)strlen(names + at) + 1) {
		ssize_t one = strcmp(names + at, name) == 0 ? -1 : getxattr(path, names + at, NULL, 0);

		bytes += one < 0 ? 0 : strlen(names + at) + (size_t)one;
	}
	return bytes;
}

/* The errno of setxattr where there is no room: errors that FLAGS ask for come first. */
static int no_room_error(const char *path, const char *name, int flags)
{
	bool exists = getxattr(path, name, NULL, 0) >= 0;

	if (exists && (flags & XATTR_CREATE))
		return EEXIST;
	if (!exists && (flags & XATTR_REPLACE))
		return ENODATA;
	return ENOSPC;
}

/* The daemon counts no more than a block for them, which is what ext4 gives. */
static int set_xattr(struct kr_view *view, int fd, const char *name, const char *value, size_t size, int flags)
{
	struct kr_fd_path path = kr_fd_path(fd);

	if (view->space.limit && (!kr_view_admit_block(view) || xattr_bytes(path.text, name, size) > KR_SPACE_BLOCK))
		return no_room_error(path.text, name, flags);
	return setxattr(path.text, name, value, size, flags) < 0 ? errno : 0;
}

void kr_view_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_inode *inode = kr_view_enter(req, ino);
	int err;

	if (!inode)
		return;
	kr_as_owner(); /* an ACL may change the mode, and keeps a set-group-ID bit */
	err = set_xattr(view, inode->fd, name, value, size, flags);
	kr_as_daemon();
	kr_view_settle(view, inode, inode->fd);
	fuse_reply_err(req, kr_view_error(err));
	kr_view_inode_put(view->inodes, inode);
}

void kr_view_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_inode *inode = kr_view_enter(req, ino);
	int err;

	if (!inode)
		return;
	err = removexattr(kr_fd_path(inode->fd).text, name) < 0 ? errno : 0;
	kr_view_settle(view, inode, inode->fd);
	fuse_reply_err(req, kr_view_error(err));
	kr_view_inode_put(view->inodes, inode);
}

static void reply_xattr(fuse_req_t req, const char *value, ssize_t length, size_t size)
{
	if (length < 0)
		fuse_reply_err(req, kr_view_error(errno));
	else if (size == 0)
		fuse_reply_xattr(req, (size_t)length);
	else if ((size_t)length > size)
		fuse_reply_err(req, ERANGE);
	else
		fuse_reply_buf(req, value, (size_t)length);
}

void kr_view_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_inode *inode = kr_view_enter(req, ino);
	char value[XATTR_SIZE_MAX];

	if (!inode)
		return;
	reply_xattr(req, value,
		getxattr(kr_fd_path(inode->fd).text, name, value, size ? KR_MIN(size, sizeof(value)) : 0), size);
	kr_view_inode_put(view->inodes, inode);
}

/* Leaves out what only root may see. */
static ssize_t without_trusted(char *names, ssize_t length)
{
	ssize_t kept = 0;

	for (ssize_t at = 0; at < length;) {
		ssize_t one = (ssize_t)strlen(names + at) + 1;

		if (strncmp(names + at, "trusted.", strlen("trusted.")) != 0) {
			memmove(names + kept, names + at, (size_t)one);
			kept += one;
		}
		at += one;
	}
	return kept;
}

void kr_view_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_inode *inode = kr_view_enter(req, ino);
	char names[XATTR_LIST_MAX];
	ssize_t length;

	if (!inode)
		return;
	length = listxattr(kr_fd_path(inode->fd).text, names, sizeof(names));
	if (length > 0 && fuse_req_ctx(req)->uid != 0)
		length = without_trusted(names, length);
	reply_xattr(req, names, length, size);
	kr_view_inode_put(view->inodes, inode);
}

/* --- the disk ----------------------------------------------------------------------------------- */

/* Under a limit: what the view has of it, but no more than the disk. */
static void limit_space(struct kr_view *view, struct statvfs *disk)
{
	uint64_t unit = disk->f_frsize, room, free_inodes;

	KR_SCOPED_LOCK(kr_view_inodes_lock(view->inodes));
	if (!view->space.limit)
		return;
	room = KR_MIN(kr_space_room(&view->space) / unit, disk->f_bavail);
	free_inodes = kr_space_inodes_max(&view->space) - view->space.inodes;
	disk->f_blocks = view->space.limit / unit;
	disk->f_bfree = disk->f_bavail = KR_MIN(room, disk->f_blocks);
	disk->f_files = kr_space_inodes_max(&view->space);
	disk->f_ffree = disk->f_favail = disk->f_favail ? KR_MIN(free_inodes, disk->f_favail) : free_inodes;
}

void kr_view_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct kr_view *view = kr_view_of(req);
	struct statvfs disk;

	(void)ino;
	if (fstatvfs(view->root, &disk) < 0) {
		fuse_reply_err(req, kr_view_error(errno));
		return;
	}
	limit_space(view, &disk);
	fuse_reply_statfs(req, &disk);
}

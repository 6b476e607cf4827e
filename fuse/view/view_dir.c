/* Listing a view's directories.  Offsets are the disk's, so telldir and seekdir hold while a directory
 * changes.  Libfuse may run several requests for one open directory at the same time. */
#include "fuse/view/view_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "fuse/view/view_file.h"

struct dir {
	struct kr_link link; /* in kr_view.dirs */
	pthread_mutex_t lock;
	DIR *stream;
	off_t offset;         /* of the next entry that readdir brings */
	struct dirent *entry; /* it was read and did not fit */
};

static struct dir *dir_of(const struct fuse_file_info *fi)
{
	return (struct dir *)(uintptr_t)fi->fh;
}

static void add_dir(struct kr_view *view, struct dir *dir)
{
	KR_SCOPED_LOCK(kr_view_inodes_lock(view->inodes));
	kr_list_append(&view->dirs, &dir->link);
}

static void free_dir(struct kr_view *view, struct dir *dir)
{
	pthread_mutex_lock(kr_view_inodes_lock(view->inodes));
	kr_list_remove(&dir->link);
	pthread_mutex_unlock(kr_view_inodes_lock(view->inodes));
	closedir(dir->stream);
	pthread_mutex_destroy(&dir->lock);
	free(dir);
}

void kr_view_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_inode *inode = kr_view_enter(req, ino);
	DIR *stream = NULL;
	struct dir *dir;
	int err;

	if (!inode)
		return;
	stream = kr_opendir_at(inode->fd, ".");
	err = stream ? 0 : errno == EMFILE ? -ENFILE : -errno;
	kr_view_inode_put(view->inodes, inode);
	if (err < 0) {
		fuse_reply_err(req, kr_view_error(-err));
		return;
	}
	dir = kr_xcalloc(1, sizeof(*dir));
	dir->stream = stream;
	pthread_mutex_init(&dir->lock, NULL);
	add_dir(view, dir);
	fi->fh = (uint64_t)(uintptr_t)dir;
	if (fuse_reply_open(req, fi) == -ENOENT)
		free_dir(view, dir);
}

void kr_view_dirs_end(struct kr_view *view)
{
	struct dir *dir, *after;

	KR_LIST_FOR_EACH_SAFE(dir, after, &view->dirs, link)
		free_dir(view, dir);
}

static void seek(struct dir *dir, off_t offset)
{
	if (dir->offset == offset)
		return;
	if (offset == 0)
		rewinddir(dir->stream); /* also shows what has come since */
	else
		seekdir(dir->stream, offset);
	dir->offset = offset;
	dir->entry = NULL;
}

/* The bytes filled; -errno if there is nothing but an error. */
static ssize_t fill(fuse_req_t req, struct dir *dir, char *bytes, size_t size)
{
	size_t filled = 0;

	for (;;) {
		struct stat stat = {0};
		size_t length;

		errno = 0;
		if (!dir->entry)
			dir->entry = readdir(dir->stream);
		if (!dir->entry)
			return errno && !filled ? -errno : (ssize_t)filled;
		stat.st_ino = dir->entry->d_ino;
		stat.st_mode = (mode_t)DTTOIF(dir->entry->d_type);
		length = fuse_add_direntry(
			req, bytes + filled, size - filled, dir->entry->d_name, &stat, dir->entry->d_off);
		if (length > size - filled)
			return (ssize_t)filled;
		filled += length;
		dir->offset = dir->entry->d_off;
		dir->entry = NULL;
	}
}

void kr_view_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct dir *dir = dir_of(fi);
	KR_AUTO_FREE char *bytes = malloc(size);
	ssize_t filled;

	(void)ino;
	if (!bytes) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	pthread_mutex_lock(&dir->lock);
	seek(dir, offset);
	filled = fill(req, dir, bytes, size);
	pthread_mutex_unlock(&dir->lock);
	if (filled < 0)
		fuse_reply_err(req, kr_view_error((int)-filled));
	else
		fuse_reply_buf(req, bytes, (size_t)filled);
}

void kr_view_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	(void)ino;
	free_dir(kr_view_of(req), dir_of(fi));
	fuse_reply_err(req, 0);
}

void kr_view_fsyncdir(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	int fd = dirfd(dir_of(fi)->stream);

	(void)ino;
	fuse_reply_err(req, (datasync ? fdatasync(fd) : fsync(fd)) < 0 ? kr_view_error(errno) : 0);
}

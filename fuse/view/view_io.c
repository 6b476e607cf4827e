/* Open files of a view, and their bytes.
 *
 * How the kernel does a file's I/O is the same for all who have it open, from the first open to the last close:
 *
 *   passthrough  to the disk's file.  If the daemon must see what is written (KR_VIEW_PASS_READS), handles that may
 *                write are direct as well: their reads and writes come to the daemon, and only mappings go past it.
 *                Stores into a mapping can fill holes then.  So the file is charged as if it had none, as long as a
 *                program has it open for reading and writing.
 *   direct       The daemon reads and writes, the kernel keeps no pages.  Counted files that were opened first by a
 *                program that may write.
 *   cached       Where there is no passthrough: the kernel keeps pages, and writes them through to the daemon.
 *
 * Direct and cached handles of one file do not go together: the kernel may keep a page that it has read beside a
 * direct write.
 */
#include "fuse/view/view_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "fuse/base/shim.h"
#include "fuse/view/as_caller.h"
#include "fuse/view/passthrough.h"
#include "fuse/view/view_file.h"

enum { SECTOR = 512 };

/* --- opening ---------------------------------------------------------------------------------- */

/* [lock]  The first open of all tells whether the kernel lets this daemon do it. */
static void try_passthrough(struct kr_view *view, int fd)
{
	uint32_t backing;
	int err = kr_shim_passthrough() ? kr_passthrough_register(view->mount->fuse, fd, &backing) : -EOPNOTSUPP;

	view->passthrough_tried = true;
	if (err == 0) {
		kr_passthrough_forget(view->mount->fuse, backing);
		return;
	}
	kr_log_info("no passthrough to the disk (%s): reads and writes go through the daemon", strerror(-err));
	atomic_store(&view->passthrough, KR_VIEW_PASS_NOTHING);
}

/* [lock]  The first open of the file. */
static void choose_mode(struct kr_view *view, struct kr_view_inode *inode, const struct kr_view_file *file)
{
	int passthrough;

	if (!view->passthrough_tried)
		try_passthrough(view, file->fd);
	passthrough = atomic_load(&view->passthrough);
	inode->mode = passthrough == KR_VIEW_PASS_NOTHING ? KR_VIEW_CACHED : KR_VIEW_DIRECT;
	if (passthrough == KR_VIEW_PASS_NOTHING || (passthrough == KR_VIEW_PASS_READS && file->writes))
		return;
	if (kr_passthrough_register(view->mount->fuse, file->fd, &inode->backing) == 0)
		inode->mode = KR_VIEW_PASSTHROUGH;
}

/* [lock]  0; -ENOSPC: the file without its holes has no room. */
static int charge_whole(struct kr_view *view, struct kr_view_inode *inode, struct kr_view_file *file)
{
	struct stat stat;
	uint64_t charge;

	if (fstat(file->fd, &stat) < 0)
		return -errno;
	charge = kr_space_charge(&view->space, &stat, true);
	if (charge > inode->charge && charge - inode->charge > kr_space_room(&view->space))
		return -ENOSPC;
	kr_space_settle(&view->space, inode->charge, charge);
	inode->charge = charge;
	inode->wholes++;
	file->whole = true;
	return 0;
}

static uint32_t open_flags(
	const struct kr_view *view, const struct kr_view_inode *inode, const struct kr_view_file *file)
{
	switch (inode->mode) {
	case KR_VIEW_PASSTHROUGH:
		return KR_OPEN_PASSTHROUGH | (file->maps ? 0 : KR_OPEN_NO_FLUSH) |
			(file->writes && view->space.limit ? KR_OPEN_DIRECT | KR_OPEN_PARALLEL_WRITES : 0);
	case KR_VIEW_DIRECT:
		return KR_OPEN_DIRECT | KR_OPEN_PARALLEL_WRITES | KR_OPEN_NO_FLUSH;
	default:
		return KR_OPEN_KEEP_CACHE | KR_OPEN_NO_FLUSH;
	}
}

/* INODE is got, and FD belongs to the file from now on.  0 and the kernel's flags, or -errno. */
static int begin(struct kr_view *view, struct kr_view_inode *inode, int fd, int flags, struct kr_view_file **ret_file,
	uint32_t *ret_flags)
{
	struct kr_view_file *file = kr_xcalloc(1, sizeof(*file));
	int err = 0;

	*file = (struct kr_view_file){.inode = inode, .fd = fd, .writes = (flags & O_ACCMODE) != O_RDONLY};
	pthread_mutex_lock(kr_view_inodes_lock(view->inodes));
	if (inode->opens == 0)
		choose_mode(view, inode, file);
	file->maps = inode->mode == KR_VIEW_PASSTHROUGH && (flags & O_ACCMODE) == O_RDWR;
	if (file->maps && view->space.limit)
		err = charge_whole(view, inode, file);
	if (err == 0) {
		inode->opens++;
		view->opens++;
		kr_list_append(&view->files, &file->link);
		inode->busy++; /* the file's */
		*ret_flags = open_flags(view, inode, file);
		*ret_file = file;
	} else if (inode->opens == 0) {
		inode->mode = KR_VIEW_CLOSED;
	}
	pthread_mutex_unlock(kr_view_inodes_lock(view->inodes));
	if (err < 0) {
		kr_close(fd);
		free(file);
	}
	return err;
}

/* [lock] */
static void settle(struct kr_view *view, struct kr_view_inode *inode, int fd)
{
	struct stat stat;
	uint64_t charge;

	if (!view->space.limit || fstat(fd, &stat) < 0)
		return;
	charge = kr_space_charge(&view->space, &stat, inode->wholes > 0);
	kr_space_settle(&view->space, inode->charge, charge);
	inode->charge = charge;
}

static void end(struct kr_view *view, struct kr_view_file *file)
{
	struct kr_view_inode *inode = file->inode;
	uint32_t backing = 0;

	kr_close(file->fd);
	pthread_mutex_lock(kr_view_inodes_lock(view->inodes));
	inode->wholes -= file->whole;
	view->opens--;
	kr_list_remove(&file->link);
	if (--inode->opens == 0) {
		inode->mode = KR_VIEW_CLOSED;
		backing = inode->backing;
		inode->backing = 0;
	}
	if (file->writes)
		settle(view, inode, inode->fd);
	pthread_mutex_unlock(kr_view_inodes_lock(view->inodes));
	if (backing)
		kr_passthrough_forget(view->mount->fuse, backing);
	kr_view_inode_put(view->inodes, inode);
	free(file);
}

void kr_view_files_end(struct kr_view *view)
{
	struct kr_view_file *file, *after;

	KR_LIST_FOR_EACH_SAFE(file, after, &view->files, link)
		end(view, file);
}

/* The kernel gives the daemon offsets, also for O_APPEND, and buffers that O_DIRECT does not like. */
static int disk_flags(int flags)
{
	return (flags & ~(O_NOFOLLOW | O_APPEND | O_DIRECT | O_CREAT | O_EXCL | O_NOCTTY)) | O_CLOEXEC;
}

void kr_view_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_inode *inode = kr_view_enter(req, ino);
	struct kr_view_file *file = NULL;
	uint32_t flags = 0;
	int fd, err;

	if (!inode)
		return;
	fd = open(kr_fd_path(inode->fd).text, disk_flags(fi->flags));
	err = fd < 0 ? -errno : begin(view, inode, fd, fi->flags, &file, &flags);
	if (err == 0 && fi->flags & O_TRUNC)
		kr_view_settle(view, inode, fd);
	if (err < 0)
		fuse_reply_err(req, kr_view_error(-err));
	else if (kr_passthrough_reply_open(req, (uint64_t)(uintptr_t)file, flags, inode->backing) == -ENOENT)
		end(view, file); /* the caller was interrupted: no RELEASE comes */
	kr_view_inode_put(view->inodes, inode);
}

/* Makes the file; without NAME, one that has none.  Its descriptor, or -errno. */
static int make(fuse_req_t req, int directory, const char *name, mode_t mode, int flags)
{
	int fd;

	kr_as_caller(req);
	if (name)
		fd = openat(directory, name, disk_flags(flags) | O_CREAT | O_EXCL, mode);
	else
		fd = openat(directory, ".", disk_flags(flags) | O_TMPFILE, mode);
	fd = fd < 0 ? -errno : fd;
	kr_as_daemon();
	return fd;
}

/* Its inode, got; NULL: *RET_ERR tells why. */
static struct kr_view_inode *made(struct kr_view *view, struct kr_view_inode *parent, const char *name, int fd,
	const struct stat *stat, int *ret_err)
{
	struct kr_view_inode *inode = NULL;
	int path_fd = name ? -1 : open(kr_fd_path(fd).text, O_PATH | O_CLOEXEC);

	*ret_err = !name && path_fd < 0 ? -errno : 0;
	if (*ret_err < 0)
		kr_view_dismiss_inode(view);
	if (name)
		inode = kr_view_inode_found(view->inodes, parent, name, stat, true);
	else if (path_fd >= 0)
		inode = kr_view_inode_nameless(view->inodes, path_fd, stat);
	if (!inode)
		return NULL;
	*ret_err = KR_MIN(kr_view_inode_get(view->inodes, inode), 0);
	if (*ret_err == 0)
		return inode;
	kr_view_inode_forget(view->inodes, inode, 1);
	return NULL;
}

static int reply_made(fuse_req_t req, struct kr_view_inode *inode, int fd, int flags, const struct stat *stat)
{
	struct kr_view *view = kr_view_of(req);
	struct fuse_entry_param entry;
	struct kr_view_file *file;
	uint32_t how;
	int err = begin(view, inode, fd, flags, &file, &how);

	if (err < 0)
		return err;
	kr_view_entry(view, inode, stat, &entry);
	if (kr_passthrough_reply_create(req, &entry, (uint64_t)(uintptr_t)file, how, inode->backing) == -ENOENT) {
		end(view, file);
		kr_view_inode_forget(view->inodes, inode, 1);
	}
	return 0;
}

/* 0: REQ is answered; -errno. */
static int create(fuse_req_t req, struct kr_view_inode *parent, const char *name, mode_t mode, int flags)
{
	struct kr_view *view = kr_view_of(req);
	int fd = make(req, parent->fd, name, mode, flags), err = 0;
	struct kr_view_inode *inode = NULL;
	struct stat stat;

	if (fd < 0) {
		kr_view_dismiss_inode(view);
		return fd;
	}
	if (fstat(fd, &stat) < 0)
		err = -errno;
	else
		inode = made(view, parent, name, fd, &stat, &err);
	if (name)
		kr_view_settle(view, parent, parent->fd);
	if (!inode) {
		kr_close(fd);
		return err;
	}
	err = reply_made(req, inode, fd, flags, &stat);
	if (err < 0) /* a file with a name stays, as if it had been there before, and counts */
		kr_view_inode_forget(view->inodes, inode, 1);
	kr_view_inode_put(view->inodes, inode);
	return err;
}

void kr_view_create(fuse_req_t req, fuse_ino_t parent_ino, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_inode *parent = kr_view_enter_to_make(req, parent_ino);
	int err;

	if (!parent)
		return;
	err = create(req, parent, name, mode, fi->flags);
	if (err < 0)
		fuse_reply_err(req, kr_view_error(-err));
	kr_view_inode_put(view->inodes, parent);
}

#ifdef KR_FUSE_TMPFILE
void kr_view_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *fi)
{
	kr_view_create(req, parent, NULL, mode, fi);
}
#endif

/* The disk's attributes may have changed past the kernel: it asks anew. */
static void drop_attributes(const struct kr_view *view, fuse_ino_t ino)
{
	fuse_lowlevel_notify_inval_inode(view->mount->fuse, ino, -1, 0);
}

void kr_view_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	if (kr_view_file(fi)->maps)
		drop_attributes(kr_view_of(req), ino);
	fuse_reply_err(req, 0);
}

void kr_view_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_file *file = kr_view_file(fi);

	if (file->maps)
		drop_attributes(view, ino);
	end(view, file);
	fuse_reply_err(req, 0);
}

/* --- room ------------------------------------------------------------------------------------- */

void kr_view_settle(struct kr_view *view, struct kr_view_inode *inode, int fd)
{
	if (!view->space.limit) /* that never changes */
		return;
	KR_SCOPED_LOCK(kr_view_inodes_lock(view->inodes));
	settle(view, inode, fd);
}

/* A change of FD's file is done: the charge takes the place of the RESERVED bytes. */
static void settle_change(struct kr_view *view, struct kr_view_inode *inode, int fd, uint64_t reserved)
{
	KR_SCOPED_LOCK(kr_view_inodes_lock(view->inodes));
	kr_space_release(&view->space, reserved);
	settle(view, inode, fd);
}

/* The bytes of the blocks of holes before the file's end that LENGTH bytes at OFFSET touch. */
static uint64_t holes_in(int fd, const struct stat *stat, uint64_t offset, uint64_t length)
{
	off_t at = (off_t)offset, end = (off_t)KR_MIN(offset + length, (uint64_t)stat->st_size), hole, data;
	uint64_t holes = 0;

	if (stat->st_blocks * SECTOR >= stat->st_size)
		return 0;
	while (at < end && (hole = lseek(fd, at, SEEK_HOLE)) >= 0 && hole < end) {
		data = lseek(fd, hole, SEEK_DATA);
		at = data < 0 || data > end ? end : data;
		holes += kr_space_blocks((uint64_t)hole, (uint64_t)at);
	}
	return holes;
}

/* [lock]  As kr_space_growth; a file that is charged as a whole grows with its size. */
static uint64_t growth(
	const struct kr_view_inode *inode, const struct stat *stat, uint64_t offset, uint64_t length, uint64_t holes)
{
	uint64_t grows = kr_space_growth(stat, offset, length, holes), end = offset + length + KR_SPACE_BLOCK;

	return inode->wholes && end > inode->charge ? KR_MAX(grows, end - inode->charge) : grows;
}

struct looked {
	int fd;
	const struct stat *stat;
};

static uint64_t looked_holes(void *context, uint64_t offset, uint64_t length)
{
	const struct looked *looked = context;

	return holes_in(looked->fd, looked->stat, offset, length);
}

/* Reserves room for LENGTH bytes at OFFSET, or for the first of them.  How many; -ENOSPC: none fits. */
static int64_t reserve(struct kr_view *view, struct kr_view_inode *inode, int fd, uint64_t offset, uint64_t length,
	bool all, uint64_t *ret_reserved)
{
	uint64_t most = length + 3 * (uint64_t)KR_SPACE_BLOCK, holes;
	unsigned tries = 0;
	struct stat stat;

	*ret_reserved = 0;
	if (!view->space.limit)
		return (int64_t)length;
	do {
		if (fstat(fd, &stat) < 0)
			return -errno;
		KR_SCOPED_LOCK(kr_view_inodes_lock(view->inodes));
		if (!inode->wholes && kr_space_reserve(&view->space, most)) {
			*ret_reserved = most;
			return (int64_t)length;
		}
		holes = holes_in(fd, &stat, offset, length);
		*ret_reserved = growth(inode, &stat, offset, length, holes);
		if (kr_space_reserve(&view->space, *ret_reserved))
			return (int64_t)length;
	} while (kr_view_wait_for_space(view, &tries));
	KR_SCOPED_LOCK(kr_view_inodes_lock(view->inodes));
	length = all || inode->wholes ? 0 :
					kr_space_fitting(&stat, offset, length, kr_space_room(&view->space),
						looked_holes, &(struct looked){fd, &stat});
	*ret_reserved = length ? kr_space_growth(&stat, offset, length, holes_in(fd, &stat, offset, length)) : 0;
	if (!length || !kr_space_reserve(&view->space, *ret_reserved))
		return -ENOSPC;
	return (int64_t)length;
}

/* --- bytes ------------------------------------------------------------------------------------ */

void kr_view_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct fuse_bufvec bytes = FUSE_BUFVEC_INIT(size);

	(void)ino;
	bytes.buf[0].flags = FUSE_BUF_IS_FD | FUSE_BUF_FD_SEEK;
	bytes.buf[0].fd = kr_view_file(fi)->fd;
	bytes.buf[0].pos = offset;
	fuse_reply_data(req, &bytes, 0);
}

/* Bytes written, at least one; or -errno. */
static ssize_t write_all(int fd, const char *bytes, size_t size, off_t offset)
{
	size_t done = 0;

	while (done < size) {
		ssize_t one = pwrite(fd, bytes + done, size - done, offset + (off_t)done);

		if (one < 0 && errno != EINTR)
			return done ? (ssize_t)done : -errno;
		done += one > 0 ? (size_t)one : 0;
	}
	return (ssize_t)done;
}

void kr_view_write(
	fuse_req_t req, fuse_ino_t ino, const char *bytes, size_t size, off_t offset, struct fuse_file_info *fi)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_file *file = kr_view_file(fi);
	uint64_t reserved;
	int64_t fits = reserve(view, file->inode, file->fd, (uint64_t)offset, size, false, &reserved);
	ssize_t written = (ssize_t)fits;

	(void)ino;
	if (fits >= 0) {
		if (fi->writepage) /* a page of a mapping: such stores leave set-user-ID bits alone */
			kr_as_owner();
		written = write_all(file->fd, bytes, (size_t)fits, offset);
		if (fi->writepage)
			kr_as_daemon();
	}
	if (fits >= 0)
		settle_change(view, file->inode, file->fd, reserved);
	if (written < 0)
		fuse_reply_err(req, kr_view_error((int)-written));
	else
		fuse_reply_write(req, (size_t)written);
}

void kr_view_fsync(fuse_req_t req, fuse_ino_t ino, int datasync, struct fuse_file_info *fi)
{
	int fd = kr_view_file(fi)->fd;

	(void)ino;
	fuse_reply_err(req, (datasync ? fdatasync(fd) : fsync(fd)) < 0 ? kr_view_error(errno) : 0);
}

int kr_view_truncate(struct kr_view *view, struct kr_view_inode *inode, int open_fd, uint64_t size)
{
	struct kr_fd_path path = kr_fd_path(inode->fd);
	uint64_t reserved = 0;
	int err;

	pthread_mutex_lock(kr_view_inodes_lock(view->inodes));
	if (inode->wholes && size + KR_SPACE_BLOCK > inode->charge) {
		reserved = size + KR_SPACE_BLOCK - inode->charge;
		if (!kr_space_reserve(&view->space, reserved)) {
			pthread_mutex_unlock(kr_view_inodes_lock(view->inodes));
			return -ENOSPC;
		}
	}
	pthread_mutex_unlock(kr_view_inodes_lock(view->inodes));
	err = (open_fd >= 0 ? ftruncate(open_fd, (off_t)size) : truncate(path.text, (off_t)size)) < 0 ? -errno : 0;
	settle_change(view, inode, inode->fd, reserved);
	return err;
}

static bool may_grow(int mode)
{
	return !(mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_COLLAPSE_RANGE));
}

/* 0 or -errno. */
static int allocate(struct kr_view *view, struct kr_view_file *file, int mode, uint64_t offset, uint64_t length)
{
	uint64_t reserved = 0;
	struct stat stat;
	int err = 0;

	if (view->space.limit && view->space.not_behind_end && mode & FALLOC_FL_KEEP_SIZE && may_grow(mode) &&
		fstat(file->fd, &stat) == 0 && offset + length > (uint64_t)stat.st_size)
		return -EOPNOTSUPP;
	if (may_grow(mode))
		err = (int)KR_MIN(
			reserve(view, file->inode, file->fd, mode & FALLOC_FL_INSERT_RANGE ? INT64_MAX / 2 : offset,
				length, true, &reserved),
			INT64_C(0));
	if (err < 0)
		return err;
	err = fallocate(file->fd, mode, (off_t)offset, (off_t)length) < 0 ? -errno : 0;
	settle_change(view, file->inode, file->fd, reserved);
	return err;
}

void kr_view_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length, struct fuse_file_info *fi)
{
	(void)ino;
	fuse_reply_err(req,
		kr_view_error(-allocate(kr_view_of(req), kr_view_file(fi), mode, (uint64_t)offset, (uint64_t)length)));
}

void kr_view_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi)
{
	off_t found = lseek(kr_view_file(fi)->fd, offset, whence);

	(void)ino;
	if (found < 0)
		fuse_reply_err(req, kr_view_error(errno));
	else
		fuse_reply_lseek(req, found);
}

void kr_view_copy_file_range(fuse_req_t req, fuse_ino_t from_ino, off_t from_offset, struct fuse_file_info *from_fi,
	fuse_ino_t to_ino, off_t to_offset, struct fuse_file_info *to_fi, size_t length, int flags)
{
	struct kr_view *view = kr_view_of(req);
	const struct kr_view_file *from = kr_view_file(from_fi);
	struct kr_view_file *to = kr_view_file(to_fi);
	size_t piece = KR_MIN(length, (size_t)1 << 30);
	uint64_t reserved;
	int64_t fits = reserve(view, to->inode, to->fd, (uint64_t)to_offset, piece, false, &reserved);
	ssize_t copied = (ssize_t)fits;

	(void)from_ino, (void)to_ino;
	if (fits >= 0) {
		copied = copy_file_range(from->fd, &from_offset, to->fd, &to_offset, (size_t)fits, (unsigned)flags);
		copied = copied < 0 ? -errno : copied;
		settle_change(view, to->inode, to->fd, reserved);
	}
	if (copied < 0)
		fuse_reply_err(req, kr_view_error((int)-copied));
	else
		fuse_reply_write(req, (size_t)copied);
}

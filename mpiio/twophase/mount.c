/* See mount.h. */
#include "mpiio/twophase/mount.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/util.h"

#ifndef FUSE_SUPER_MAGIC
#define FUSE_SUPER_MAGIC 0x65735546
#endif

/* One request reads two extents that are nearer than READ_GAP_MAX: a few useless bytes cost less than a request.
 * Extents above BATCH_EXTENT_MAX gain nothing from a batch. */
enum { READ_GAP_MAX = 64 * 1024, BATCH_EXTENT_MAX = 128 * 1024 };

struct kr_mount {
	int fd;
	int relaxed_fd; /* -1: no batches can be read */
	int batch_fd;   /* -1: no batches */
	int strict_fd;  /* strict and readable: fd, or another one if fd is write-only; -1: none */
	bool kairan;
	struct kr_mount_info info;
	struct kr_batch_token token, relaxed_token;
	pthread_mutex_t lock; /* guards the packet */
	char *packet;         /* page-aligned, info.batch_max bytes */
};

/* ---- opening ---- */

/* MPI implementations take "driver:path".  One letter would be a drive, and an existing path is taken as it is. */
static const char *without_prefix(const char *path)
{
	const char *p = path;

	while (isalnum((unsigned char)*p) || *p == '_')
		p++;
	return *p == ':' && p - path >= 2 && access(path, F_OK) != 0 ? p + 1 : path;
}

/* The batch file lies in the mount's root: the highest directory above PATH on the file's device. */
static int open_batch_file(const char *path, dev_t device)
{
	char root[PATH_MAX + sizeof(KR_BATCH_FILE) + 1];
	struct stat st;
	size_t length;

	if (!realpath(path, root))
		return -1;
	for (length = strlen(root); length > 1;) {
		char *slash = memrchr(root, '/', length);
		size_t above = slash == root ? 1 : (size_t)(slash - root);
		char saved = root[above];

		root[above] = '\0';
		if (stat(root, &st) < 0 || st.st_dev != device) {
			root[above] = saved;
			break;
		}
		length = above;
	}
	root[length] = '\0';
	strcat(root, "/" KR_BATCH_FILE);
	return open(root, O_RDWR | O_CLOEXEC);
}

/* Batches are optional: without them I/O is only slower. */
static void prepare_batches(struct kr_mount *mount, const char *path, dev_t device)
{
	if (mount->info.batch_max < 65536 || ioctl(mount->fd, KR_IOC_BATCH, &mount->token) < 0)
		return;
	mount->packet = aligned_alloc((size_t)sysconf(_SC_PAGESIZE), mount->info.batch_max);
	if (mount->packet)
		mount->batch_fd = open_batch_file(path, device);
}

static void prepare_relaxed(struct kr_mount *mount, const char *path)
{
	uint32_t on = 1;

	if (mount->batch_fd < 0)
		return;
	mount->relaxed_fd = open(path, O_RDWR | O_DIRECT | O_CLOEXEC); /* the kernel's pages would be strict */
	if (mount->relaxed_fd >= 0 &&
		(ioctl(mount->relaxed_fd, KR_IOC_RELAXED, &on) < 0 ||
			ioctl(mount->relaxed_fd, KR_IOC_BATCH, &mount->relaxed_token) < 0)) {
		close(mount->relaxed_fd);
		mount->relaxed_fd = -1;
	}
}

/* Whether it is a kairan mount of this version; -errno for FUSE that does not tell.  Other filesystems do not know the
 * ioctl. */
static int ask_mount(struct kr_mount *mount, const char *path)
{
	struct statfs fs;

	if (fstatfs(mount->fd, &fs) < 0)
		return kr_fail_errno(-errno, "cannot tell the filesystem of %s", path);
	if (fs.f_type != FUSE_SUPER_MAGIC)
		return 0;
	if (ioctl(mount->fd, KR_IOC_INFO, &mount->info) < 0) {
		if (errno == ENOTCONN || errno == EIO || errno == ETIMEDOUT || errno == EINTR || errno == ENOMEM)
			return kr_fail_errno(-errno, "cannot ask the mount of %s", path);
		return 0;
	}
	return mount->info.version == 2;
}

bool kr_mount_maybe(const char *path)
{
	struct statfs fs;

	return statfs(without_prefix(path), &fs) < 0 || fs.f_type == FUSE_SUPER_MAGIC;
}

int kr_mount_open(const char *path, int flags, struct kr_mount **ret_mount)
{
	struct kr_mount *mount;
	struct stat st;
	int fd, err;

	path = without_prefix(path);
	fd = open(path, flags | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		return kr_fail_errno(-errno, "cannot open %s", path);
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return kr_fail(-ENXIO, "%s is no regular file", path);
	}
	mount = kr_xcalloc(1, sizeof(*mount));
	mount->fd = fd;
	mount->relaxed_fd = mount->batch_fd = -1;
	mount->strict_fd = fd;
	pthread_mutex_init(&mount->lock, NULL);
	err = ask_mount(mount, path);
	if (err < 0) {
		kr_mount_close(mount);
		return err;
	}
	mount->kairan = err;
	if (mount->kairan && (flags & O_ACCMODE) != O_RDONLY)
		prepare_batches(mount, path, st.st_dev);
	if (mount->kairan && (flags & O_ACCMODE) == O_WRONLY)
		mount->strict_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (mount->kairan && (flags & O_ACCMODE) == O_RDWR)
		prepare_relaxed(mount, path);
	*ret_mount = mount;
	return 0;
}

int kr_mount_close(struct kr_mount *mount)
{
	int err;

	if (!mount)
		return 0;
	if (mount->relaxed_fd >= 0)
		close(mount->relaxed_fd);
	if (mount->batch_fd >= 0)
		close(mount->batch_fd);
	if (mount->strict_fd >= 0 && mount->strict_fd != mount->fd)
		close(mount->strict_fd);
	err = kr_close(mount->fd);
	pthread_mutex_destroy(&mount->lock);
	free(mount->packet);
	free(mount);
	return err;
}

const struct kr_mount_info *kr_mount_info(const struct kr_mount *mount)
{
	return mount->kairan ? &mount->info : NULL;
}

/* ---- batches ---- */

/* Extents of one packet: head, extents, bytes. */
struct batch {
	const struct kr_run *first;
	size_t count;
	uint64_t bytes;
};

static uint64_t batch_size(const struct batch *batch)
{
	return sizeof(struct kr_batch_head) + batch->count * sizeof(struct kr_batch_extent) + batch->bytes;
}

/* As many extents as one batch holds; none if the first is so long that it gains nothing from a batch. */
static struct batch take_batch(const struct kr_mount *mount, const struct kr_run *extents, size_t count)
{
	struct batch batch = {.first = extents};

	while (batch.count < count && extents[batch.count].length < BATCH_EXTENT_MAX &&
		batch_size(&batch) + sizeof(struct kr_batch_extent) + extents[batch.count].length <=
			mount->info.batch_max)
		batch.bytes += extents[batch.count++].length;
	return batch;
}

/* Fills in head and extents; returns the place for the bytes. */
static char *fill_packet(
	struct kr_mount *mount, const struct batch *batch, uint32_t magic, const struct kr_batch_token *token)
{
	struct kr_batch_head *head = (struct kr_batch_head *)mount->packet;
	struct kr_batch_extent *extents = (struct kr_batch_extent *)(head + 1);

	*head = (struct kr_batch_head){
		.magic = magic, .count = (uint32_t)batch->count, .token = *token, .data = batch->bytes};
	for (size_t i = 0; i < batch->count; i++)
		extents[i] = (struct kr_batch_extent){
			.offset = (uint64_t)batch->first[i].offset, .length = batch->first[i].length};
	return (char *)(extents + batch->count);
}

/* Writes the packet's first SIZE bytes to the batch file. */
static int send_packet(struct kr_mount *mount, uint64_t size)
{
	ssize_t written;

	do
		written = write(mount->batch_fd, mount->packet, size);
	while (written < 0 && errno == EINTR);
	if (written < 0)
		return kr_fail_errno(-errno, "the mount refuses a batch");
	return (uint64_t)written == size ? 0 : kr_fail(-EIO, "the mount took a part of a batch");
}

/* ---- writing ---- */

static int write_batch(struct kr_mount *mount, const struct batch *batch, const char *buffer, uint64_t base)
{
	char *bytes = fill_packet(mount, batch, KR_BATCH_MAGIC, &mount->token);

	for (size_t i = 0; i < batch->count; i++) {
		memcpy(bytes, buffer + ((uint64_t)batch->first[i].offset - base), batch->first[i].length);
		bytes += batch->first[i].length;
	}
	return send_packet(mount, batch_size(batch));
}

static int write_one(struct kr_mount *mount, const struct kr_run *run, const char *buffer, uint64_t base)
{
	return kr_pwrite_full(mount->fd, buffer + ((uint64_t)run->offset - base), run->length, (uint64_t)run->offset);
}

int kr_mount_write(
	struct kr_mount *mount, const struct kr_run *extents, size_t count, const char *buffer, uint64_t base)
{
	int err = 0;

	if (mount->batch_fd < 0 || count == 1) {
		for (size_t i = 0; i < count && !err; i++)
			err = write_one(mount, &extents[i], buffer, base);
		return err;
	}
	KR_SCOPED_LOCK(&mount->lock);
	while (count > 0 && !err) {
		struct batch batch = take_batch(mount, extents, count);

		err = batch.count <= 1 ? write_one(mount, extents, buffer, base) :
					 write_batch(mount, &batch, buffer, base);
		extents += KR_MAX(batch.count, 1);
		count -= KR_MAX(batch.count, 1);
	}
	return err;
}

/* ---- reading ---- */

/* Reads [offset, offset + length) as far as the file goes: the number of bytes, or -errno. */
static int64_t read_until_end(int fd, char *buffer, uint64_t length, uint64_t offset)
{
	uint64_t done = 0;

	while (done < length) {
		ssize_t n = pread(fd, buffer + done, length - done, (off_t)(offset + done));

		if (n < 0 && errno != EINTR)
			return kr_fail_errno(-errno, "cannot read %zu bytes at %zu", (size_t)length, (size_t)offset);
		if (n == 0)
			break;
		if (n > 0)
			done += (uint64_t)n;
	}
	return (int64_t)done;
}

/* -ENODATA: not all of the bytes are this node's own, unflushed. */
static int read_batch(struct kr_mount *mount, const struct batch *batch, char *buffer, uint64_t base)
{
	const char *bytes = mount->packet;
	int64_t got;
	int err;

	KR_SCOPED_LOCK(&mount->lock);
	fill_packet(mount, batch, KR_BATCH_READ_MAGIC, &mount->relaxed_token);
	err = send_packet(mount, batch_size(batch) - batch->bytes);
	if (err)
		return err;
	got = read_until_end(mount->batch_fd, mount->packet, batch->bytes, 0);
	if (got < 0)
		return (int)got;
	if ((uint64_t)got != batch->bytes)
		return kr_fail(-EIO, "the mount gave a part of a batch");
	for (size_t i = 0; i < batch->count; i++) {
		memcpy(buffer + ((uint64_t)batch->first[i].offset - base), bytes, batch->first[i].length);
		bytes += batch->first[i].length;
	}
	return 0;
}

/* How many extents are near enough to the first one for one common request. */
static size_t near_ones(const struct kr_run *extents, size_t count)
{
	size_t n = 1;

	while (n < count &&
		extents[n].offset - (extents[n - 1].offset + (int64_t)extents[n - 1].length) <= READ_GAP_MAX)
		n++;
	return n;
}

/* Reads COUNT extents and the bytes between them. */
static int64_t read_span(
	int fd, const struct kr_run *extents, size_t count, char *buffer, uint64_t base, uint64_t *ret_end)
{
	const struct kr_run *last = &extents[count - 1];
	uint64_t begin = (uint64_t)extents[0].offset, length = (uint64_t)last->offset + last->length - begin;
	int64_t got = read_until_end(fd, buffer + (begin - base), length, begin);

	if (got >= 0 && (uint64_t)got < length)
		*ret_end = begin + (uint64_t)got;
	return got;
}

int kr_mount_read(struct kr_mount *mount, bool relaxed, const struct kr_run *extents, size_t count, char *buffer,
	uint64_t base, uint64_t *ret_end)
{
	bool own = relaxed && mount->relaxed_fd >= 0;

	*ret_end = UINT64_MAX;
	while (count > 0 && *ret_end == UINT64_MAX) {
		struct batch batch = own ? take_batch(mount, extents, count) : (struct batch){0};
		size_t taken = own ? KR_MAX(batch.count, 1) : near_ones(extents, count);
		int64_t got = batch.count > 1 ?
			read_batch(mount, &batch, buffer, base) :
			read_span(own ? mount->relaxed_fd : mount->fd, extents, taken, buffer, base, ret_end);

		if (got == -ENODATA && own) {
			own = false;
			continue;
		}
		if (got < 0)
			return (int)got;
		extents += taken;
		count -= taken;
	}
	return 0;
}

int kr_mount_sync(struct kr_mount *mount)
{
	return fsync(mount->fd) < 0 ? kr_fail_errno(-errno, "cannot sync") : 0;
}

int kr_mount_flush_all_nodes(struct kr_mount *mount)
{
	char byte;

	if (mount->strict_fd < 0) /* no right to read: then flush at least this node's bytes */
		return kr_mount_sync(mount);
	return pread(mount->strict_fd, &byte, 1, 0) < 0 ? kr_fail_errno(-errno, "cannot read what others wrote") : 0;
}

int kr_mount_preallocate(struct kr_mount *mount, uint64_t size)
{
	int rc;

	if (size == 0)
		return 0;
	do
		rc = fallocate(mount->fd, 0, 0, (off_t)size);
	while (rc < 0 && errno == EINTR);
	return rc < 0 ?
		kr_fail_errno(errno == ENOSYS ? -EOPNOTSUPP : -errno, "cannot make room for %zu bytes", (size_t)size) :
		0;
}

int kr_mount_size(struct kr_mount *mount, uint64_t *ret_size)
{
	struct stat st;

	if (fstat(mount->fd, &st) < 0)
		return kr_fail_errno(-errno, "cannot get the size");
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

/* File data: reading blocks, applying a flush's pieces, syncing, space, copying. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "server/export/export_priv.h"

enum { COPY_BUFFER = 1 << 20 };

static int check_range(uint64_t offset, uint64_t length)
{
	if (offset > INT64_MAX || length > INT64_MAX - offset)
		return kr_fail_errno(-EFBIG, "bytes from %llu", (unsigned long long)offset);
	return 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

static int read_all(
	struct kr_export *export, int fd, uint64_t offset, uint8_t *buffer, size_t length, size_t *ret_length)
{
	size_t done = 0;
	ssize_t n = 1;

	while (done < length && n != 0) {
		n = pread(fd, buffer + done, length - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return kr_fail_errno(-errno, "reading a file of the export");
		atomic_fetch_add(&export->reads, 1);
		done += (size_t)n;
	}
	atomic_fetch_add(&export->read_bytes, done);
	*ret_length = done;
	return 0;
}

int kr_export_pread(struct kr_export *export, const struct kr_fid *fid, uint64_t offset, void *buffer, size_t length,
	size_t *ret_length)
{
	struct kr_fd *data;
	int r;

	r = check_range(offset, length);
	if (r == 0)
		r = kr_entry_data(export, fid, KR_FD_CACHE_READ, &data);
	if (r < 0)
		return r;
	r = read_all(export, data->fd, offset, buffer, length, ret_length);
	kr_fd_cache_put(export->fds, data);
	return r;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Neighbouring pieces on their way to the file. */
struct batch {
	struct iovec parts[IOV_MAX];
	int first, count;
	uint64_t offset, end;
};

static bool joins(const struct batch *batch, const struct kr_write_piece *piece)
{
	return batch->count < IOV_MAX && (batch->count == 0 || piece->offset == batch->end);
}

static void join(struct batch *batch, const struct kr_write_piece *piece)
{
	if (batch->count == 0)
		batch->offset = piece->offset;
	/* writev(2) only reads, although its iovec is not const. */
	batch->parts[batch->count++] = (struct iovec){(void *)(uintptr_t)piece->data, piece->length};
	batch->end = piece->offset + piece->length;
}

static void advance(struct batch *batch, size_t written)
{
	batch->offset += written;
	while (batch->first < batch->count && written >= batch->parts[batch->first].iov_len)
		written -= batch->parts[batch->first++].iov_len;
	if (batch->first < batch->count) {
		struct iovec *part = &batch->parts[batch->first];

		part->iov_base = (uint8_t *)part->iov_base + written;
		part->iov_len -= written;
	}
}

static int write_batch(struct kr_export *export, int fd, struct batch *batch)
{
	ssize_t n;

	while (batch->offset < batch->end) {
		n = pwritev(fd, batch->parts + batch->first, batch->count - batch->first, (off_t)batch->offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return kr_fail_errno(n < 0 ? -errno : -EIO, "writing to a file of the export");
		atomic_fetch_add(&export->writes, 1);
		atomic_fetch_add(&export->write_bytes, (uint64_t)n);
		advance(batch, (size_t)n);
	}
	batch->first = batch->count = 0;
	return 0;
}

static int write_pieces(struct kr_export *export, int fd, const struct kr_write_piece *pieces, size_t count)
{
	struct batch *batch = malloc(sizeof(*batch));
	size_t i;
	int r = 0;

	if (!batch)
		return kr_fail(-ENOMEM, "no memory to write");
	batch->first = batch->count = 0;
	batch->offset = batch->end = 0;
	for (i = 0; i < count && r == 0; i++) {
		r = check_range(pieces[i].offset, pieces[i].length);
		if (r == 0 && !joins(batch, &pieces[i]))
			r = write_batch(export, fd, batch);
		if (r == 0)
			join(batch, &pieces[i]);
	}
	if (r == 0)
		r = write_batch(export, fd, batch);
	free(batch);
	return r;
}

int kr_export_pwritev(
	struct kr_export *export, const struct kr_fid *fid, const struct kr_write_piece *pieces, size_t count)
{
	struct kr_fd *data;
	int r;

	r = kr_export_writable(export);
	if (r == 0)
		r = kr_entry_data(export, fid, KR_FD_CACHE_WRITE, &data);
	if (r < 0)
		return r;
	data->unsynced = true;
	r = write_pieces(export, data->fd, pieces, count);
	kr_fd_cache_put(export->fds, data);
	return r;
}

/* --- syncing ---------------------------------------------------------------------------------- */

/* The descriptor with unsynced writes, if any: it reports failed write-backs. */
static int take_for_sync(struct kr_export *export, const struct kr_fid *fid, struct kr_fd **ret_data)
{
	int r = kr_export_ready(export);

	if (r < 0)
		return r;
	*ret_data = kr_fd_cache_take(export->fds, fid, KR_FD_CACHE_WRITE);
	if (*ret_data)
		return 0;
	r = kr_entry_data(export, fid, KR_FD_CACHE_READ, ret_data);
	return r == -EISDIR ? kr_entry_data(export, fid, KR_FD_CACHE_DIRECTORY, ret_data) : r;
}

int kr_export_fsync(struct kr_export *export, const struct kr_fid *fid, bool data_only)
{
	struct kr_fd *data;
	bool unsynced;
	int r;

	r = take_for_sync(export, fid, &data);
	if (r < 0)
		return r == -ENXIO ? 0 : r; /* a FIFO or the like: the server writes no bytes there */
	/* Before the call: a write during it needs another sync. */
	unsynced = atomic_exchange(&data->unsynced, false);
	r = data_only ? fdatasync(data->fd) : fsync(data->fd);
	if (r < 0) {
		r = kr_fail_errno(-errno, "syncing a file of the export");
		kr_export_failed(export, r);
		if (unsynced)
			data->unsynced = true;
	}
	kr_fd_cache_put(export->fds, data);
	return r;
}

void kr_export_write_back(struct kr_export *export, const struct kr_fid *fid)
{
	struct kr_fd *data = kr_fd_cache_take(export->fds, fid, KR_FD_CACHE_WRITE);

	if (!data)
		return;
	(void)sync_file_range(data->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
	kr_fd_cache_put(export->fds, data);
}

struct kr_fd *kr_export_sync_begins(struct kr_export *export, const struct kr_fid *fid)
{
	struct kr_fd *data = kr_fd_cache_take(export->fds, fid, KR_FD_CACHE_WRITE);

	if (data)
		data->unsynced = false; /* before the call: a write during it needs another sync */
	return data;
}

void kr_export_sync_ends(struct kr_export *export, struct kr_fd *kept, bool failed)
{
	if (kept && failed)
		kept->unsynced = true;
	kr_fd_cache_put(export->fds, kept);
}

/* --- space ------------------------------------------------------------------------------------ */

/* As a write by CRED does; root keeps the bits. */
static int clear_suid_for(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid)
{
	KR_AUTO_FD int fd = -1;
	int r;

	if (!cred || cred->uid == 0)
		return 0;
	r = kr_entry_open(export, fid, &fd);
	return r < 0 ? r : kr_export_clear_suid(export, cred, fd);
}

static bool known_mode(uint32_t mode)
{
	return mode == 0 || mode == FALLOC_FL_KEEP_SIZE || mode == (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE) ||
		mode == FALLOC_FL_ZERO_RANGE || mode == (FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE);
}

static int allocate(int fd, uint32_t mode, uint64_t offset, uint64_t length)
{
	int r;

	while ((r = fallocate(fd, (int)mode, (off_t)offset, (off_t)length)) < 0 && errno == EINTR)
		;
	return r < 0 ? kr_fail_errno(-errno, "fallocate mode %u", mode) : 0;
}

int kr_export_fallocate(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, uint32_t mode,
	uint64_t offset, uint64_t length, struct kr_attr *ret_attr)
{
	struct kr_fd *data;
	int r;

	if (!known_mode(mode))
		return kr_fail_errno(-EOPNOTSUPP, "fallocate mode %u", mode);
	r = check_range(offset, length);
	if (r == 0)
		r = kr_export_writable(export);
	if (r == 0)
		r = kr_entry_data(export, fid, KR_FD_CACHE_WRITE, &data);
	if (r < 0)
		return r;
	data->unsynced = true;
	r = allocate(data->fd, mode, offset, length);
	kr_fd_cache_put(export->fds, data);
	if (r == 0)
		r = clear_suid_for(export, cred, fid);
	return r < 0 ? r : kr_export_getattr(export, fid, ret_attr);
}

int kr_export_seek(
	struct kr_export *export, const struct kr_fid *fid, uint64_t offset, uint32_t whence, uint64_t *ret_offset)
{
	struct kr_fd *data;
	off_t found;
	int r;

	if (whence != SEEK_DATA && whence != SEEK_HOLE)
		return kr_fail(-EINVAL, "seek whence %u", whence);
	if (offset > INT64_MAX)
		return kr_fail_errno(-ENXIO, "seeking");
	r = kr_entry_data(export, fid, KR_FD_CACHE_READ, &data);
	if (r < 0)
		return r;
	/* Threads share the descriptor, but SEEK_DATA and SEEK_HOLE do not use its position. */
	found = lseek(data->fd, (off_t)offset, (int)whence);
	if (found < 0)
		r = kr_fail_errno(-errno, "seeking from %llu", (unsigned long long)offset);
	else
		*ret_offset = (uint64_t)found;
	kr_fd_cache_put(export->fds, data);
	return r;
}

/* --- copying ---------------------------------------------------------------------------------- */

struct copy {
	struct kr_export *export;
	int from, to;
	uint64_t from_offset, to_offset, left, copied;
};

static void copied(struct copy *copy, uint64_t count)
{
	copy->from_offset += count;
	copy->to_offset += count;
	copy->left -= count;
	copy->copied += count;
}

static int copy_in_kernel(struct copy *copy)
{
	off_t from, to;
	ssize_t n = 1;

	while (copy->left > 0 && n > 0) {
		from = (off_t)copy->from_offset;
		to = (off_t)copy->to_offset;
		n = copy_file_range(copy->from, &from, copy->to, &to, copy->left, 0);
		if (n > 0)
			copied(copy, (uint64_t)n);
	}
	return n < 0 ? -errno : 0;
}

static int copy_in_memory(struct copy *copy)
{
	KR_AUTO_FREE uint8_t *buffer = malloc(COPY_BUFFER);
	size_t n = 1;
	int r = 0;

	if (!buffer)
		return kr_fail(-ENOMEM, "no memory to copy");
	while (r == 0 && copy->left > 0 && n > 0) {
		r = read_all(copy->export, copy->from, copy->from_offset, buffer, KR_MIN(copy->left, COPY_BUFFER), &n);
		if (r == 0)
			r = kr_pwrite_full(copy->to, buffer, n, copy->to_offset);
		if (r == 0)
			copied(copy, n);
	}
	return r;
}

/* An error counts only when nothing was copied. */
static int copy_bytes(struct copy *copy)
{
	int r = copy_in_kernel(copy);

	if (r == -EXDEV || r == -EOPNOTSUPP || r == -ENOSYS || r == -EINVAL)
		r = copy_in_memory(copy);
	else if (r < 0)
		kr_fail_errno(r, "copying between files of the export");
	return copy->copied > 0 ? 0 : r;
}

static int copy_between(struct kr_export *export, const struct kr_fid *from, const struct kr_fid *to, struct copy *copy)
{
	struct kr_fd *source, *target;
	int r;

	r = kr_entry_data(export, from, KR_FD_CACHE_READ, &source);
	if (r < 0)
		return r;
	r = kr_entry_data(export, to, KR_FD_CACHE_WRITE, &target);
	if (r == 0) {
		copy->from = source->fd;
		copy->to = target->fd;
		target->unsynced = true;
		r = copy_bytes(copy);
		kr_fd_cache_put(export->fds, target);
	}
	kr_fd_cache_put(export->fds, source);
	return r;
}

int kr_export_copy(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *from,
	uint64_t from_offset, const struct kr_fid *to, uint64_t to_offset, uint64_t length, uint64_t *ret_copied)
{
	struct copy copy = {.export = export, .from_offset = from_offset, .to_offset = to_offset};
	int r;

	r = check_range(from_offset, length);
	if (r == 0)
		r = check_range(to_offset, length);
	if (r == 0)
		r = kr_export_writable(export);
	if (r < 0)
		return r;
	if (kr_fid_equal(from, to) && from_offset < to_offset + length && to_offset < from_offset + length)
		return kr_fail(-EINVAL, "copying a file onto itself");
	copy.left = KR_MIN(length, KR_COPY_MAX);
	r = copy_between(export, from, to, &copy);
	if (r == 0)
		r = clear_suid_for(export, cred, to);
	if (r == 0)
		*ret_copied = copy.copied;
	return r;
}

/* The system calls of the code under test, caught by the linker's --wrap (see meson.build): made, then recorded.
 * A call that fails changes nothing.  Calls by other names (openat2 for directories, open_by_handle_at) make nothing.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "test/crash/disk_priv.h"

#define WRAP(type, name, ...) \
	type __real_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__); \
	type __wrap_##name(__VA_ARGS__)

int __real_openat64(int dirfd, const char *name, int flags, ...);
int __wrap_openat64(int dirfd, const char *name, int flags, ...);

int __wrap_openat64(int dirfd, const char *name, int flags, ...)
{
	mode_t mode = 0;
	bool recorded, there;
	int fd;

	if (flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE) {
		va_list arguments;

		va_start(arguments, flags);
		mode = va_arg(arguments, mode_t);
		va_end(arguments);
	}
	recorded = flags & (O_CREAT | O_TRUNC) && disk_before_call();
	there = recorded && disk_has(dirfd, name);
	fd = __real_openat64(dirfd, name, flags, mode);
	if (fd >= 0 && recorded && !there)
		disk_named(dirfd, name, true);
	if (fd >= 0 && recorded && there && flags & O_TRUNC)
		disk_resized(disk_object(fd), 0);
	return fd;
}

WRAP(ssize_t, pwrite64, int fd, const void *bytes, size_t length, off_t offset)
{
	bool recorded = disk_before_call();
	ssize_t n = __real_pwrite64(fd, bytes, length, offset);

	if (recorded && n > 0)
		disk_wrote(disk_object(fd), (uint64_t)offset, bytes, (size_t)n);
	return n;
}

WRAP(ssize_t, pwritev64, int fd, const struct iovec *parts, int count, off_t offset)
{
	bool recorded = disk_before_call();
	ssize_t n = __real_pwritev64(fd, parts, count, offset), left = n;

	for (int i = 0; i < count && recorded && left > 0; i++) {
		size_t length = (size_t)left < parts[i].iov_len ? (size_t)left : parts[i].iov_len;

		disk_wrote(disk_object(fd), (uint64_t)offset, parts[i].iov_base, length);
		offset += (off_t)length;
		left -= (ssize_t)length;
	}
	return n;
}

WRAP(int, ftruncate64, int fd, off_t size)
{
	bool recorded = disk_before_call();
	int r = __real_ftruncate64(fd, size);

	if (recorded && r == 0)
		disk_resized(disk_object(fd), (uint64_t)size);
	return r;
}

WRAP(int, fallocate64, int fd, int mode, off_t offset, off_t length)
{
	bool recorded = disk_before_call();
	int r = __real_fallocate64(fd, mode, offset, length);
	struct stat st;

	if (!recorded || r < 0)
		return r;
	if (mode & (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_ZERO_RANGE))
		disk_wrote(disk_object(fd), (uint64_t)offset, NULL, (size_t)length);
	if (fstat(fd, &st) == 0)
		disk_resized(disk_object(fd), (uint64_t)st.st_size);
	return r;
}

WRAP(int, posix_fallocate64, int fd, off_t offset, off_t length)
{
	bool recorded = disk_before_call();
	int r = __real_posix_fallocate64(fd, offset, length);
	struct stat st;

	if (recorded && r == 0 && fstat(fd, &st) == 0)
		disk_resized(disk_object(fd), (uint64_t)st.st_size);
	return r;
}

WRAP(int, fsync, int fd)
{
	bool recorded = disk_before_call();
	int r = __real_fsync(fd);

	if (recorded && r == 0)
		disk_synced(disk_object(fd));
	return r;
}

WRAP(int, fdatasync, int fd)
{
	bool recorded = disk_before_call();
	int r = __real_fdatasync(fd);

	if (recorded && r == 0)
		disk_synced(disk_object(fd));
	return r;
}

WRAP(void *, mmap64, void *at, size_t length, int protection, int flags, int fd, off_t offset)
{
	bool recorded = flags & MAP_SHARED && protection & PROT_WRITE && disk_before_call();
	void *map = __real_mmap64(at, length, protection, flags, fd, offset);

	if (recorded && map != MAP_FAILED)
		disk_mapped(fd, map, length);
	return map;
}

WRAP(int, munmap, void *at, size_t length)
{
	if (disk_before_call())
		disk_unmapped(at);
	return __real_munmap(at, length);
}

WRAP(int, msync, void *at, size_t length, int flags)
{
	bool recorded = disk_before_call();
	int r = __real_msync(at, length, flags);

	if (recorded && r == 0 && flags & MS_SYNC)
		disk_synced(disk_mapped_object(at));
	return r;
}

WRAP(int, mkdirat, int dirfd, const char *name, mode_t mode)
{
	bool recorded = disk_before_call();
	int r = __real_mkdirat(dirfd, name, mode);

	if (recorded && r == 0)
		disk_named(dirfd, name, true);
	return r;
}

WRAP(int, mkdir, const char *path, mode_t mode)
{
	bool recorded = disk_before_call();
	int r = __real_mkdir(path, mode);

	if (recorded && r == 0)
		disk_named(AT_FDCWD, path, true);
	return r;
}

WRAP(int, linkat, int from_dirfd, const char *from, int dirfd, const char *name, int flags)
{
	bool recorded = disk_before_call();
	int r = __real_linkat(from_dirfd, from, dirfd, name, flags);

	if (recorded && r == 0)
		disk_named(dirfd, name, false);
	return r;
}

WRAP(int, unlinkat, int dirfd, const char *name, int flags)
{
	bool recorded = disk_before_call();
	int r = __real_unlinkat(dirfd, name, flags);

	if (recorded && r == 0)
		disk_removed(dirfd, name);
	return r;
}

WRAP(int, renameat2, int from_dirfd, const char *from, int dirfd, const char *name, unsigned flags)
{
	bool recorded = disk_before_call();
	int r = __real_renameat2(from_dirfd, from, dirfd, name, flags);

	if (recorded && r == 0)
		disk_renamed(from_dirfd, from, dirfd, name, flags & RENAME_EXCHANGE);
	return r;
}

WRAP(int, renameat, int from_dirfd, const char *from, int dirfd, const char *name)
{
	bool recorded = disk_before_call();
	int r = __real_renameat(from_dirfd, from, dirfd, name);

	if (recorded && r == 0)
		disk_renamed(from_dirfd, from, dirfd, name, false);
	return r;
}

WRAP(int, pthread_mutex_lock, pthread_mutex_t *mutex)
{
	if (disk_looks_at_locks())
		disk_before_call();
	return __real_pthread_mutex_lock(mutex);
}

/* Small helpers without state: see util.h. */
#include "common/base/util.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/magic.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#include "common/base/fail.h"

void kr_auto_free_cleanup(void *pointer_to_pointer)
{
	void *pointer;

	memcpy(&pointer, pointer_to_pointer, sizeof(pointer));
	free(pointer);
}

void kr_auto_fd_cleanup(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

void kr_scoped_lock_cleanup(pthread_mutex_t **lock)
{
	pthread_mutex_unlock(*lock);
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec now;
	int err = clock_gettime(clock, &now);

	assert(!err);
	return (uint64_t)now.tv_sec * KR_NS_PER_S + (uint64_t)now.tv_nsec;
}

uint64_t kr_clock_ns(void)
{
	return clock_ns(CLOCK_BOOTTIME);
}

uint64_t kr_clock_real_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

bool kr_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, struct timespec end)
{
	return pthread_cond_clockwait(cond, lock, CLOCK_MONOTONIC, &end) == 0;
}

struct timespec kr_monotonic_after(uint64_t ns)
{
	uint64_t end_ns = clock_ns(CLOCK_MONOTONIC) + ns;

	return (struct timespec){(time_t)(end_ns / KR_NS_PER_S), (long)(end_ns % KR_NS_PER_S)};
}

void kr_sleep_ms(unsigned ms)
{
	nanosleep(&(struct timespec){ms / 1000, (long)(ms % 1000) * (long)KR_NS_PER_MS}, NULL);
}

int kr_pread_full(int fd, void *buffer, size_t length, uint64_t offset)
{
	uint8_t *bytes = buffer;

	while (length > 0) {
		ssize_t got = pread(fd, bytes, length, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return kr_fail_errno(
				-errno, "cannot read %zu bytes at %llu", length, (unsigned long long)offset);
		if (got == 0)
			return kr_fail(
				-ENODATA, "the file ends %zu bytes early, at %llu", length, (unsigned long long)offset);
		bytes += got;
		length -= (size_t)got;
		offset += (uint64_t)got;
	}
	return 0;
}

int kr_pwrite_full(int fd, const void *buffer, size_t length, uint64_t offset)
{
	const uint8_t *bytes = buffer;

	while (length > 0) {
		ssize_t put = pwrite(fd, bytes, length, (off_t)offset);

		if (put < 0 && errno == EINTR)
			continue;
		if (put < 0)
			return kr_fail_errno(
				-errno, "cannot write %zu bytes at %llu", length, (unsigned long long)offset);
		if (put == 0)
			return kr_fail(-EIO, "write at %llu took no bytes", (unsigned long long)offset);
		bytes += put;
		length -= (size_t)put;
		offset += (uint64_t)put;
	}
	return 0;
}

/* Reads to the end, whatever size the file claims to have (files in /proc claim 0).  The buffer grows with what comes:
 * MAX may be far more. */
static int read_to_end(int fd, const char *name, size_t max, char **ret_text, size_t *ret_length)
{
	KR_AUTO_FREE char *text = NULL;
	size_t length = 0, room = 0;

	for (;;) {
		ssize_t got;

		if (length == room) {
			char *grown;

			room = room ? 2 * room : KR_MIN(max, 4095) + 1;
			if (room > max)
				room = max + 1;
			grown = realloc(text, room);
			if (!grown)
				return kr_fail_errno(-ENOMEM, "cannot read %s", name);
			text = grown;
		}
		got = read(fd, text + length, room - length);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return kr_fail_errno(-errno, "cannot read %s", name);
		if (got == 0)
			break;
		length += (size_t)got;
		if (length > max)
			return kr_fail(-EFBIG, "%s is larger than %zu bytes", name, max);
	}
	text[length] = '\0';
	*ret_text = text;
	text = NULL;
	*ret_length = length;
	return 0;
}

int kr_read_file(int dirfd, const char *name, size_t max, char **ret_text, size_t *ret_length)
{
	KR_AUTO_FD int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	size_t length;
	int err;

	if (fd < 0)
		return kr_fail_errno(-errno, "cannot open %s", name);
	err = read_to_end(fd, name, max, ret_text, &length);
	if (!err && ret_length)
		*ret_length = length;
	return err;
}

int kr_open_standard_fds(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		if (fcntl(fd, F_GETFD) >= 0 || errno != EBADF)
			continue;
		/* The lowest free number is FD: all below are open by now. */
		if (open("/dev/null", O_RDWR) < 0)
			return kr_fail_errno(-errno, "cannot open /dev/null in place of descriptor %d", fd);
	}
	return 0;
}

DIR *kr_opendir_at(int dirfd, const char *name)
{
	int fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW), err;
	DIR *stream = fd < 0 ? NULL : fdopendir(fd);

	if (!stream && fd >= 0) {
		err = errno;
		close(fd);
		errno = err;
	}
	return stream;
}

struct kr_fd_path kr_fd_path(int fd)
{
	struct kr_fd_path path;

	snprintf(path.text, sizeof(path.text), "/proc/self/fd/%d", fd);
	return path;
}

bool kr_is_fuse(int fd)
{
	struct statfs fs;

	return fstatfs(fd, &fs) == 0 && (unsigned long)fs.f_type == FUSE_SUPER_MAGIC;
}

int kr_close(int fd)
{
	/* Linux frees the descriptor even when it reports EINTR: closing again could hit another thread's file. */
	return close(fd) < 0 && errno != EINTR ? -errno : 0;
}

int kr_sync_directory_of(int dirfd, const char *name)
{
	const char *slash = strrchr(name, '/');
	char path[PATH_MAX] = ".";
	KR_AUTO_FD int fd = -1;

	if (slash == name)
		strcpy(path, "/");
	else if (slash)
		snprintf(path, sizeof(path), "%.*s", (int)(slash - name), name);
	fd = openat(dirfd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0 || fsync(fd) < 0)
		return kr_fail_errno(-errno, "cannot sync the directory of %s", name);
	return 0;
}

static int write_and_sync(int dirfd, const char *name, const void *bytes, size_t length, mode_t mode)
{
	int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode), err, close_err;

	if (fd < 0)
		return kr_fail_errno(-errno, "cannot create %s", name);
	err = kr_pwrite_full(fd, bytes, length, 0);
	/* A file that a crash left behind may have another mode. */
	if (!err && (fchmod(fd, mode) < 0 || fsync(fd) < 0))
		err = kr_fail_errno(-errno, "cannot sync %s", name);
	close_err = kr_close(fd);
	if (!err && close_err)
		err = kr_fail_errno(close_err, "cannot close %s", name);
	return err;
}

int kr_write_file(int dirfd, const char *name, const void *bytes, size_t length, mode_t mode)
{
	char temporary[PATH_MAX];
	int err;

	if (snprintf(temporary, sizeof(temporary), "%s.new", name) >= (int)sizeof(temporary))
		return kr_fail_errno(-ENAMETOOLONG, "cannot create %s", name);
	err = write_and_sync(dirfd, temporary, bytes, length, mode);
	if (!err && renameat(dirfd, temporary, dirfd, name) < 0)
		err = kr_fail_errno(-errno, "cannot rename %s", temporary);
	if (err) {
		unlinkat(dirfd, temporary, 0);
		return err;
	}
	return kr_sync_directory_of(dirfd, name);
}

static void *or_abort(void *pointer, size_t size)
{
	if (!pointer && size > 0) {
		fprintf(stderr, "out of memory: cannot allocate %zu bytes\n", size);
		abort();
	}
	return pointer;
}

bool kr_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret_number)
{
	unsigned long long number;

	if (!*text || text[strspn(text, "0123456789")])
		return false;
	errno = 0;
	number = strtoull(text, NULL, 10);
	if (errno || number < min || number > max)
		return false;
	*ret_number = number;
	return true;
}

bool kr_parse_range(const char *text, uint64_t min, uint64_t max, uint64_t *ret_low, uint64_t *ret_high)
{
	KR_AUTO_FREE char *from = kr_xstrdup(text);
	char *dash = strchr(from, '-'), *to = dash ? dash + 1 : from;

	if (dash)
		*dash = '\0';
	return kr_parse_number(from, min, max, ret_low) && kr_parse_number(to, *ret_low, max, ret_high);
}

const char *kr_path_below(const char *path, const char *top)
{
	size_t length = strcmp(top, "/") == 0 ? 0 : strlen(top);

	if (!length)
		return path + (*path == '/');
	if (strncmp(path, top, length) != 0 || (path[length] && path[length] != '/'))
		return NULL;
	return path + length + (path[length] == '/');
}

void *kr_xmalloc(size_t size)
{
	return or_abort(malloc(size), size);
}

void *kr_xcalloc(size_t count, size_t size)
{
	return or_abort(calloc(count, size), count > 0 ? size : 0);
}

char *kr_xstrdup(const char *text)
{
	return or_abort(strdup(text), 1);
}

void kr_keep_freed_memory(void)
{
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 256 << 20);
	mallopt(M_TOP_PAD, 1 << 20);
}

/* Of jemalloc, if it is linked. */
int mallctl(const char *name, void *old, size_t *old_length, void *new, size_t new_length) __attribute__((weak));

void kr_give_back_idle_memory(void)
{
	bool on = true;

	if (mallctl)
		mallctl("background_thread", NULL, NULL, &on, sizeof(on));
}

/* See bench_measure.h.  Every step ends after a few seconds, with the rate of what it has done. */
#include "tools/bench/bench_measure.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/util.h"

enum {
	PIECE = 1 << 20,
	FIRST_SIZE = 1 << 20,
	GROWTH = 8,
	ENOUGH_MS = 500,
	WRITE_MS = 4000,
	READ_MS = 6000,
	FILES_MS = 3000
};

static char piece[PIECE];

/* Random bytes, so that nothing on the way compresses them. */
static int fill_piece(void)
{
	for (size_t done = 0; done < sizeof(piece);) {
		ssize_t count = getrandom(piece + done, sizeof(piece) - done, 0);

		if (count < 0 && errno != EINTR)
			return kr_fail_errno(-errno, "no random bytes");
		done += count > 0 ? (size_t)count : 0;
	}
	return 0;
}

static double seconds_since(uint64_t begin_ns)
{
	return (double)KR_MAX(kr_clock_ns() - begin_ns, UINT64_C(1)) / (double)KR_NS_PER_S;
}

static bool over(uint64_t begin_ns, uint64_t limit_ms)
{
	return kr_clock_ns() - begin_ns > limit_ms * KR_NS_PER_MS;
}

static int failed(const struct kr_bench_place *place, const char *what)
{
	return kr_fail_errno(-errno, "%s: cannot %s", place->name, what);
}

static int interrupted(void)
{
	return kr_fail(-EINTR, "interrupted");
}

/* --- one large file --------------------------------------------------------------------------- */

/* Makes a file, and waits as long as a program would. */
static int write_file(const struct kr_bench_place *place, const char *name, uint64_t size, bool sync, double *ret_rate)
{
	enum kr_bench_rate rate = sync ? KR_BENCH_WRITE_FSYNC : KR_BENCH_WRITE_CLOSE;
	int fd = openat(place->fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), err = 0;
	uint64_t begin_ns = kr_clock_ns();

	if (fd < 0)
		return failed(place, "make a file");
	for (uint64_t at = 0; at < size && err == 0; at += PIECE) {
		memcpy(piece, &at, sizeof(at)); /* no two pieces are the same */
		if (!place->go_on(place, rate, (double)at / (double)size))
			err = interrupted();
		else if (kr_pwrite_full(fd, piece, KR_MIN((uint64_t)PIECE, size - at), at) < 0)
			err = failed(place, "write");
	}
	if (err == 0 && sync && fsync(fd) < 0)
		err = failed(place, "fsync");
	if (kr_close(fd) < 0 && err == 0)
		err = place->go_on(place, rate, 1) ? failed(place, "close") : interrupted();
	*ret_rate = (double)size / seconds_since(begin_ns);
	return err;
}

static int read_file(
	const struct kr_bench_place *place, const char *name, enum kr_bench_rate rate, uint64_t size, double *ret_rate)
{
	KR_AUTO_FD int fd = openat(place->fd, name, O_RDONLY | O_CLOEXEC);
	uint64_t begin_ns = kr_clock_ns(), at = 0;

	if (fd < 0)
		return failed(place, "open a file");
	while (at < size && !over(begin_ns, READ_MS)) {
		ssize_t count;

		if (!place->go_on(place, rate, (double)at / (double)size))
			return interrupted();
		count = read(fd, piece, PIECE);
		if (count < 0 && errno == EINTR)
			continue;
		if (count <= 0) {
			errno = count < 0 ? errno : EIO;
			return failed(place, "read");
		}
		at += (uint64_t)count;
	}
	*ret_rate = (double)at / seconds_since(begin_ns);
	return 0;
}

/* Has the server copy a file.  No byte of the copy is on this node then.  -EOPNOTSUPP and the like: not here. */
static int copy(const struct kr_bench_place *place, const char *from, const char *to, uint64_t size)
{
	KR_AUTO_FD int in = openat(place->fd, from, O_RDONLY | O_CLOEXEC);
	KR_AUTO_FD int out = openat(place->fd, to, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

	if (in < 0 || out < 0)
		return failed(place, "copy a file");
	for (uint64_t done = 0; done < size;) {
		ssize_t count = copy_file_range(in, NULL, out, NULL, KR_MIN(size - done, (uint64_t)PIECE * 16), 0);

		if (!place->go_on(place, KR_BENCH_READ_COLD, 0))
			return interrupted();
		if (count <= 0)
			return failed(place, "copy a file");
		done += (uint64_t)count;
	}
	return 0;
}

static int drop_pages(const struct kr_bench_place *place, const char *name)
{
	KR_AUTO_FD int fd = openat(place->fd, name, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return failed(place, "open a file");
	return -posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
}

static int measure_large(const struct kr_bench_place *place, uint64_t size, double rates[KR_BENCH_RATES])
{
	const char *cold = place->is_mount ? "copied" : "synced";
	int err = write_file(place, "written", size, false, &rates[KR_BENCH_WRITE_CLOSE]);

	unlinkat(place->fd, "written", 0);
	if (err == 0)
		err = write_file(place, "synced", size, true, &rates[KR_BENCH_WRITE_FSYNC]);
	if (err == 0)
		err = place->is_mount ? copy(place, "synced", cold, size) : drop_pages(place, cold);
	if (err == 0)
		err = read_file(place, cold, KR_BENCH_READ_COLD, size, &rates[KR_BENCH_READ_COLD]);
	if (err == 0)
		err = read_file(place, cold, KR_BENCH_READ_WARM, size, &rates[KR_BENCH_READ_WARM]);
	return err;
}

/* --- small files ------------------------------------------------------------------------------ */

static int create_one(const struct kr_bench_place *place, const char *name)
{
	int fd = openat(place->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	ssize_t count = fd < 0 ? -1 : write(fd, piece, KR_BENCH_FILE_BYTES);

	if (fd >= 0 && kr_close(fd) < 0)
		return -1;
	return count == KR_BENCH_FILE_BYTES ? 0 : -1;
}

static int read_one(const struct kr_bench_place *place, const char *name)
{
	KR_AUTO_FD int fd = openat(place->fd, name, O_RDONLY | O_CLOEXEC);

	return fd >= 0 && read(fd, piece, KR_BENCH_FILE_BYTES) == KR_BENCH_FILE_BYTES ? 0 : -1;
}

static int stat_one(const struct kr_bench_place *place, const char *name)
{
	struct stat stat;

	return fstatat(place->fd, name, &stat, AT_SYMLINK_NOFOLLOW);
}

static int remove_one(const struct kr_bench_place *place, const char *name)
{
	return unlinkat(place->fd, name, 0);
}

/* Does one thing to up to COUNT files; *RET_COUNT: to how many. */
static int for_files(const struct kr_bench_place *place, enum kr_bench_rate rate, unsigned count,
	int (*one)(const struct kr_bench_place *place, const char *name), double *ret_rate, unsigned *ret_count)
{
	uint64_t begin_ns = kr_clock_ns();
	char name[32];
	unsigned i;

	for (i = 0; i < count && !over(begin_ns, FILES_MS); i++) {
		snprintf(name, sizeof(name), "small%u", i);
		if (!place->go_on(place, rate, (double)i / count))
			return interrupted();
		if (one(place, name) < 0)
			return failed(place, "create, stat, read or remove a small file");
	}
	*ret_rate = i / seconds_since(begin_ns);
	*ret_count = i;
	return 0;
}

static int measure_small(const struct kr_bench_place *place, double rates[KR_BENCH_RATES])
{
	unsigned made = 0, done;
	int err = for_files(place, KR_BENCH_CREATE, KR_BENCH_FILES, create_one, &rates[KR_BENCH_CREATE], &made);

	if (err == 0)
		err = for_files(place, KR_BENCH_STAT, made, stat_one, &rates[KR_BENCH_STAT], &done);
	if (err == 0)
		err = for_files(place, KR_BENCH_READ, made, read_one, &rates[KR_BENCH_READ], &done);
	if (err == 0)
		err = for_files(place, KR_BENCH_REMOVE, made, remove_one, &rates[KR_BENCH_REMOVE], &done);
	return err;
}

/* --- both ------------------------------------------------------------------------------------- */

int kr_bench_size(const struct kr_bench_place *place, uint64_t limit, uint64_t *ret_size)
{
	uint64_t size = KR_MIN((uint64_t)FIRST_SIZE, limit), fitting;
	double rate = 0;
	int err = fill_piece();

	while (err == 0) {
		err = write_file(place, "written", size, false, &rate);
		if (size == limit || (double)size / rate * 1000 > ENOUGH_MS)
			break;
		size = KR_MIN(size * GROWTH, limit);
	}
	unlinkat(place->fd, "written", 0);
	if (err < 0)
		return err;
	fitting = (uint64_t)(rate * WRITE_MS / 1000) / PIECE * PIECE;
	*ret_size = KR_MAX(KR_MIN(fitting, limit), KR_MIN((uint64_t)FIRST_SIZE, limit));
	return 0;
}

int kr_bench_measure(const struct kr_bench_place *place, uint64_t size, double ret_rates[KR_BENCH_RATES])
{
	double rates[KR_BENCH_RATES] = {0};
	int err = fill_piece();

	if (err == 0)
		err = measure_large(place, size, rates);
	if (err == 0)
		err = measure_small(place, rates);
	if (err == 0)
		memcpy(ret_rates, rates, sizeof(rates));
	return err;
}

void kr_bench_clear(int fd)
{
	DIR *directory = kr_opendir_at(fd, ".");
	const struct dirent *entry;

	while (directory && (entry = readdir(directory)))
		if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
			unlinkat(fd, entry->d_name, 0);
	if (directory)
		closedir(directory);
}

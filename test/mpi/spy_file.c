// See spy_file.h.  The program's symbols are exported, so that the layer's calls come here.
#include "spy_file.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/kairan_ioctl.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of seen
static struct spy_file seen;
static bool watching;
static dev_t device;
static ino_t inode;
static void (*before)(int nth);

void spy_file_begin(const char *path, size_t size)
{
	struct stat st;
	if (stat(path, &st) < 0)
		abort();
	free(seen.read);
	free(seen.written);
	seen = (struct spy_file){.size = size, .read = calloc(size, 1), .written = calloc(size, 1)};
	if (!seen.read || !seen.written)
		abort();
	device = st.st_dev;
	inode = st.st_ino;
	__atomic_store_n(&watching, true, __ATOMIC_RELEASE);
}

const struct spy_file *spy_file_end(void)
{
	__atomic_store_n(&watching, false, __ATOMIC_RELEASE);
	return &seen;
}

void spy_file_before(void (*hook)(int nth))
{
	before = hook;
}

static void mark(unsigned char *bytes, uint64_t offset, uint64_t length)
{
	bool beyond = offset > seen.size || length > seen.size - offset;
	seen.beyond += beyond;
	for (uint64_t i = 0; !beyond && i < length; i++)
		bytes[offset + i] += bytes[offset + i] < 255;
}

// Counts a call; the hook runs without the lock.
static void count(int *calls, bool batch, unsigned char *bytes, const struct kr_batch_extent *extents, uint32_t n)
{
	pthread_mutex_lock(&lock);
	int nth = seen.reads + seen.writes;
	++*calls;
	seen.batches += batch;
	seen.main_calls += gettid() == getpid();
	for (uint32_t i = 0; i < n; i++)
		mark(bytes, extents[i].offset, extents[i].length);
	pthread_mutex_unlock(&lock);
	if (before)
		before(nth);
}

static void note(int fd, bool writing, uint64_t offset, uint64_t length)
{
	struct stat st;
	if (!__atomic_load_n(&watching, __ATOMIC_ACQUIRE) || fstat(fd, &st) < 0 || st.st_dev != device ||
		st.st_ino != inode)
		return;
	count(writing ? &seen.writes : &seen.reads, false, writing ? seen.written : seen.read,
		&(struct kr_batch_extent){offset, length}, 1);
}

// Whether it is a packet for the mount's batch file.
static bool note_batch(int fd, const void *packet, size_t length)
{
	const struct kr_batch_head *head = packet;
	struct stat st;
	if (!__atomic_load_n(&watching, __ATOMIC_ACQUIRE) || length < sizeof *head || fstat(fd, &st) < 0 ||
		st.st_dev != device || st.st_ino == inode)
		return false;
	bool writing = head->magic == KR_BATCH_MAGIC;
	if (!writing && head->magic != KR_BATCH_READ_MAGIC)
		return false;
	count(writing ? &seen.writes : &seen.reads, writing, writing ? seen.written : seen.read,
		(const struct kr_batch_extent *)(head + 1), head->count);
	return true;
}

static void *find(const char *name)
{
	void *real = dlsym(RTLD_NEXT, name);
	if (!real)
		abort();
	return real;
}

// Both names of each, whatever the size of off_t that a caller was built with.
#define SPY_AT(symbol, buffer, writing) \
	ssize_t spy_##symbol(int fd, buffer bytes, size_t length, off_t offset) __asm__(#symbol); \
	ssize_t spy_##symbol(int fd, buffer bytes, size_t length, off_t offset) \
	{ \
		__typeof__(spy_##symbol) *real = (__typeof__(spy_##symbol) *)find(#symbol); \
		note(fd, writing, (uint64_t)offset, length); \
		return real(fd, bytes, length, offset); \
	}
SPY_AT(pread, void *, false)
SPY_AT(pread64, void *, false)
SPY_AT(pwrite, const void *, true)
SPY_AT(pwrite64, const void *, true)

// What optimized builds call instead.
ssize_t spy_pread64_chk(int fd, void *bytes, size_t length, off_t offset, size_t room) __asm__("__pread64_chk");
ssize_t spy_pread64_chk(int fd, void *bytes, size_t length, off_t offset, size_t room)
{
	return length <= room ? spy_pread64(fd, bytes, length, offset) : (abort(), -1);
}

ssize_t spy_read(int fd, void *bytes, size_t length) __asm__("read");
ssize_t spy_read(int fd, void *bytes, size_t length)
{
	__typeof__(spy_read) *real = (__typeof__(spy_read) *)find("read");
	if (__atomic_load_n(&watching, __ATOMIC_ACQUIRE))
		note(fd, false, (uint64_t)lseek(fd, 0, SEEK_CUR), length);
	return real(fd, bytes, length);
}

ssize_t spy_write(int fd, const void *bytes, size_t length) __asm__("write");
ssize_t spy_write(int fd, const void *bytes, size_t length)
{
	__typeof__(spy_write) *real = (__typeof__(spy_write) *)find("write");
	if (__atomic_load_n(&watching, __ATOMIC_ACQUIRE) && !note_batch(fd, bytes, length))
		note(fd, true, (uint64_t)lseek(fd, 0, SEEK_CUR), length);
	return real(fd, bytes, length);
}

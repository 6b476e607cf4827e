/* Small helpers that every folder uses: cleanup attributes, whole-buffer I/O, clocks, rounding.  No state, any thread.
 */
#ifndef KR_COMMON_UTIL_H
#define KR_COMMON_UTIL_H

#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

void kr_auto_free_cleanup(void *pointer_to_pointer);
void kr_auto_fd_cleanup(int *fd);
void kr_scoped_lock_cleanup(pthread_mutex_t **lock);
static inline pthread_mutex_t *kr_scoped_lock_take(pthread_mutex_t *lock)
{
	pthread_mutex_lock(lock);
	return lock;
}

#define KR_AUTO_FREE __attribute__((cleanup(kr_auto_free_cleanup)))
#define KR_AUTO_FD __attribute__((cleanup(kr_auto_fd_cleanup)))
#define KR_CONCAT_(a, b) a##b
#define KR_CONCAT(a, b) KR_CONCAT_(a, b)
/* Holds LOCK until the end of the block. */
#define KR_SCOPED_LOCK(lock) \
	__attribute__((cleanup(kr_scoped_lock_cleanup), unused)) pthread_mutex_t *KR_CONCAT(kr_scoped_, __LINE__) = \
		kr_scoped_lock_take(lock)

#define KR_CONTAINER_OF(pointer, type, member) ((type *)((uintptr_t)(pointer)-offsetof(type, member)))
#define KR_ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
/* Evaluate an argument twice: no calls with effects inside. */
#define KR_MIN(a, b) ((a) < (b) ? (a) : (b))
#define KR_MAX(a, b) ((a) > (b) ? (a) : (b))
/* The ending of a regular noun after the number N. */
#define KR_S(n) ((n) == 1 ? "" : "s")

#define KR_NS_PER_MS UINT64_C(1000000)
#define KR_NS_PER_S UINT64_C(1000000000)

/* Nanoseconds of CLOCK_BOOTTIME: monotonic, and goes on while the machine sleeps, so leases end on time. */
uint64_t kr_clock_ns(void);
/* Nanoseconds since the epoch by CLOCK_REALTIME; only for times that people see and for mtimes. */
uint64_t kr_clock_real_ns(void);
/* The same clocks in milliseconds and in seconds. */
static inline uint64_t kr_clock_ms(void)
{
	return kr_clock_ns() / KR_NS_PER_MS;
}
static inline int64_t kr_clock_real_s(void)
{
	return (int64_t)(kr_clock_real_ns() / KR_NS_PER_S);
}
/* Waits for COND, as pthread_cond_wait, until END of CLOCK_MONOTONIC.  False: the time is over. */
bool kr_cond_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock, struct timespec end);
/* The moment NS from now by CLOCK_MONOTONIC. */
struct timespec kr_monotonic_after(uint64_t ns);
void kr_sleep_ms(unsigned ms);

/* Transfers exactly LENGTH bytes at OFFSET, through short transfers and EINTR.  0 or -errno.  -ENODATA of a read: the
 * file ends before. */
int kr_pread_full(int fd, void *buffer, size_t length, uint64_t offset);
int kr_pwrite_full(int fd, const void *buffer, size_t length, uint64_t offset);
/* The whole of a small file below DIRFD as owned, NUL-terminated memory; -EFBIG above MAX bytes. */
int kr_read_file(int dirfd, const char *name, size_t max, char **ret_text, size_t *ret_length);
/* Replaces a small file atomically and durably: temporary name, fsync, rename, fsync of DIRFD. */
int kr_write_file(int dirfd, const char *name, const void *bytes, size_t length, mode_t mode);
/* Makes the entry NAME below DIRFD durable: syncs the directory that holds it. */
int kr_sync_directory_of(int dirfd, const char *name);
/* Opens /dev/null for each closed descriptor of 0 to 2, so that no file of ours gets such a number.  A main calls it
 * first.  0 or -errno. */
int kr_open_standard_fds(void);
/* A stream of the directory NAME in DIRFD ("." is DIRFD's own, from its first entry on); symbolic links are not
 * followed.  NULL with errno. */
DIR *kr_opendir_at(int dirfd, const char *name);
/* A path that leads to what a descriptor is for, also an O_PATH one. */
struct kr_fd_path {
	char text[32];
};
struct kr_fd_path kr_fd_path(int fd);
/* Whether FD is a file of a FUSE filesystem. */
bool kr_is_fuse(int fd);
/* close(2) whose error counts: 0 or -errno. */
int kr_close(int fd);

/* Whether TEXT is a whole number from MIN to MAX, digits alone; else *RET_NUMBER stays. */
bool kr_parse_number(const char *text, uint64_t min, uint64_t max, uint64_t *ret_number);
/* The same of a range, written LOW-HIGH, or LOW alone. */
bool kr_parse_range(const char *text, uint64_t min, uint64_t max, uint64_t *ret_low, uint64_t *ret_high);

/* What PATH is below TOP, without a slash at its beginning: "" for TOP itself; NULL: it lies elsewhere.  All paths lie
 * below "" and "/". */
const char *kr_path_below(const char *path, const char *top);

/* As malloc and its family, but out of memory aborts the process.  Only for small, bounded objects of our own; never
 * for sizes from outside. */
void *kr_xmalloc(size_t size);
void *kr_xcalloc(size_t count, size_t size);
char *kr_xstrdup(const char *text);

/* Lets glibc keep freed buffers instead of returning them to the kernel at every round (measured: -28 % daemon CPU).
 * Its heap has holes after many small objects: 238 MiB where 29 are used.  So the daemons use jemalloc where the build
 * finds it. */
void kr_keep_freed_memory(void);
/* For a program's `const char *malloc_conf`, which jemalloc reads: as above, but pages that are free for 5 s go. */
#define KR_MALLOC_CONF "narenas:4,dirty_decay_ms:5000,muzzy_decay_ms:0,max_background_threads:1"
/* With jemalloc: threads give back such pages of an idle daemon, too.  To be called after the last fork, and when this
 * thread has no privileges any more that the others must not have. */
void kr_give_back_idle_memory(void);

#endif

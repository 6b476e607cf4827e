/* The cache's beginning and end: what a start finds on disk, least recently used first, and what an end leaves there.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/boot.h"
#include "common/base/fail.h"
#include "common/base/util.h"
#include "fuse/readcache/cache_priv.h"

/* One file found on disk. */
static void found(struct kr_cache *cache, int dirfd, const char *name)
{
	struct kr_cache_entry *entry;
	struct stat st;

	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return;
	if (!S_ISREG(st.st_mode) || strlen(name) != KR_CACHE_NAME ||
		strspn(name, "0123456789abcdef") != KR_CACHE_NAME) {
		unlinkat(dirfd, name, 0);
		return;
	}
	entry = kr_cache_new_entry(cache);
	memcpy(entry->name, name, KR_CACHE_NAME);
	entry->on_disk = true;
	entry->bytes = (uint64_t)st.st_blocks * 512;
	entry->used_ns = (uint64_t)st.st_mtim.tv_sec * KR_NS_PER_S + (uint64_t)st.st_mtim.tv_nsec;
	cache->counters.bytes += entry->bytes;
	cache->counters.files++;
	kr_cache_insert(entry);
}

static int scan_directory(struct kr_cache *cache, const char *name)
{
	int fd = openat(cache->dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	struct dirent *entry;
	DIR *dir;

	if (fd < 0)
		return errno == ENOENT ? 0 : kr_fail_errno(-errno, "cache directory %s", name);
	dir = fdopendir(fd);
	if (!dir) {
		close(fd);
		return -ENOMEM;
	}
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			found(cache, fd, entry->d_name);
	}
	closedir(dir);
	return 0;
}

static int by_use(const void *a, const void *b)
{
	const struct kr_cache_entry *const *left = a, *const *right = b;

	return (*left)->used_ns < (*right)->used_ns ? -1 : (*left)->used_ns > (*right)->used_ns;
}

/* Orders the LRU by the files' mtimes; from now on used_ns is by the other clock, and 0 is long ago. */
static void sort_lru(struct kr_cache *cache)
{
	struct kr_cache_entry **entries =
		reallocarray(NULL, cache->counters.files + 1, sizeof(struct kr_cache_entry *));
	struct kr_link *link;
	size_t count = 0;

	if (!entries)
		return; /* in the order found, then */
	while ((link = kr_list_pop(&cache->lru)))
		entries[count++] = KR_LIST_ENTRY(link, struct kr_cache_entry, lru);
	qsort(entries, count, sizeof(struct kr_cache_entry *), by_use);
	for (size_t i = 0; i < count; i++) {
		entries[i]->used_ns = 0;
		kr_list_append(&cache->lru, &entries[i]->lru);
	}
	free(entries);
}

static void read_boot_id(uint8_t ret_id[16])
{
	uint64_t now = kr_clock_real_ns();

	if (kr_boot_id(ret_id) == 0)
		return;
	/* Every start counts as a boot then: patched files are given up, no more. */
	memset(ret_id, 0, 16);
	memcpy(ret_id, &now, sizeof(now));
}

static uint64_t default_limit(const struct kr_cache *cache)
{
	struct statvfs st;

	if (fstatvfs(cache->dirfd, &st) < 0)
		return 0;
	return (st.f_bavail * st.f_frsize + cache->counters.bytes) / 2;
}

int kr_cache_new(int local_dirfd, const uint8_t export_id[16], uint64_t max_bytes, struct kr_cache **ret_cache)
{
	struct kr_cache *cache = kr_xcalloc(1, sizeof(*cache));
	int err;

	pthread_mutex_init(&cache->lock, NULL);
	pthread_cond_init(&cache->changed, NULL);
	kr_table_init(&cache->entries);
	kr_list_init(&cache->lru);
	kr_list_init(&cache->fds);
	memcpy(cache->export_id, export_id, 16);
	read_boot_id(cache->boot_id);
	cache->target = UINT64_MAX;
	cache->dying_fd = cache->dirfd = -1;
	if (mkdirat(local_dirfd, "cache", 0700) < 0 && errno != EEXIST) {
		err = kr_fail_errno(-errno, "cannot make the cache directory");
		goto fail;
	}
	cache->dirfd = openat(local_dirfd, "cache", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (cache->dirfd < 0) {
		err = kr_fail_errno(-errno, "cannot open the cache directory");
		goto fail;
	}
	for (unsigned i = 0; i < 256; i++) {
		char name[3];

		snprintf(name, sizeof(name), "%02x", i);
		err = scan_directory(cache, name);
		if (err < 0)
			goto fail;
	}
	sort_lru(cache);
	cache->counters.max_bytes = max_bytes ? max_bytes : default_limit(cache);
	*ret_cache = cache;
	return 0;
fail:
	kr_cache_free(cache);
	return err;
}

void kr_cache_free(struct kr_cache *cache)
{
	struct kr_cache_entry *entry, *after;

	if (!cache)
		return;
	KR_LIST_FOR_EACH_SAFE(entry, after, &cache->lru, lru) {
		char path[KR_CACHE_PATH + 4];

		kr_cache_path(entry->name, path);
		if (entry->name[0] == 'x' && entry->on_disk)
			unlinkat(cache->dirfd, path, 0);
		entry->references = entry->users = 0;
		entry->on_disk = entry->busy = false;
		kr_cache_free_if_unused(entry);
	}
	if (cache->dying_fd >= 0)
		close(cache->dying_fd);
	if (cache->dirfd >= 0)
		close(cache->dirfd);
	kr_table_fini(&cache->entries);
	pthread_cond_destroy(&cache->changed);
	pthread_mutex_destroy(&cache->lock);
	free(cache);
}

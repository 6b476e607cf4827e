/* Entries of the cache: names, references, descriptors; what is found at the start, and what goes when it is full. */
#include "fuse/readcache/cache_priv.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/util.h"
#include "common/base/boot.h"
#include "common/base/fail.h"

void kr_cache_path(const char name[KR_CACHE_PATH], char ret_path[KR_CACHE_PATH + 4])
{
	const char *digits = name[0] == 'x' ? name + 1 : name;

	snprintf(ret_path, KR_CACHE_PATH + 4, "%.2s/%s", digits, name);
}

uint64_t kr_cache_cost(uint64_t length)
{
	return (length + 4095) / 4096 * 4096;
}

void kr_cache_note_error(struct kr_cache *cache, int err)
{
	cache->counters.error = err;
	if (err == -ENOSPC || err == -EDQUOT)
		cache->target = KR_MIN(cache->target, cache->counters.bytes / 100 * KR_CACHE_LOW);
}

struct kr_cache_entry *kr_cache_find(struct kr_cache *cache, const char *name)
{
	return KR_TABLE_FIND(struct kr_cache_entry, entry, &cache->entries, kr_hash_bytes(name, strlen(name)), by_name,
		strcmp(entry->name, name) == 0);
}

/* With the lock held, or before another thread has the cache: a new entry, that has no name yet.  An entry with its
 * name goes into the table. */
static struct kr_cache_entry *cache_new_entry(struct kr_cache *cache)
{
	struct kr_cache_entry *entry = kr_xcalloc(1, sizeof(*entry));

	entry->cache = cache;
	entry->fd = -1;
	kr_blockset_init(&entry->present);
	kr_blockset_init(&entry->verified);
	kr_list_append(&cache->lru, &entry->lru);
	return entry;
}

static void cache_insert(struct kr_cache_entry *entry)
{
	kr_table_insert(&entry->cache->entries, &entry->by_name, kr_hash_bytes(entry->name, strlen(entry->name)));
}

void kr_cache_enter(struct kr_cache_entry *entry, uint64_t version)
{
	struct kr_cache *cache = entry->cache;

	/* Volatile ones are never found again: each has a name of its own. */
	entry->version = version;
	if (version == 0)
		entry->name[0] = 'x';
	kr_cache_name(cache->export_id, &entry->fid, version ? version : ++cache->volatile_count,
		version ? entry->name : entry->name + 1);
	cache_insert(entry);
}

void kr_cache_forget_blocks(struct kr_cache_entry *entry)
{
	kr_blockset_clear(&entry->present);
	kr_blockset_clear(&entry->verified);
	kr_buf_put(kr_cache_memory_take(entry));
	entry->cache->counters.bytes -= entry->bytes;
	entry->bytes = 0;
	entry->generation++;
}

bool kr_cache_forget_block(struct kr_cache_entry *entry, uint64_t block)
{
	uint64_t cost = KR_MIN(entry->bytes, kr_cache_cost(kr_cache_block_length(entry->size, block)));

	if (!kr_blockset_remove(&entry->present, block))
		return false;
	kr_blockset_remove(&entry->verified, block);
	if (block == 0)
		kr_buf_put(kr_cache_memory_take(entry));
	entry->bytes -= cost;
	entry->cache->counters.bytes -= cost;
	return true;
}

void kr_cache_drop_fd(struct kr_cache_entry *entry)
{
	if (entry->fd < 0 || entry->users > 0)
		return;
	close(entry->fd); /* nothing depends on it: blocks are checked when read */
	entry->fd = -1;
	kr_list_remove(&entry->fds);
	entry->cache->fd_count--;
}

/* No reader will ask for the entry again once its references are gone. */
static bool is_useless(const struct kr_cache_entry *entry)
{
	return entry->abandoned || entry->detached || entry->name[0] == 'x';
}

void kr_cache_free_if_unused(struct kr_cache_entry *entry)
{
	if (entry->references > 0 || entry->on_disk || entry->busy || entry->users > 0)
		return;
	if (entry->memory && !is_useless(entry))
		return;
	kr_cache_forget_blocks(entry);
	kr_buf_put(entry->replaced_memory);
	kr_cache_drop_fd(entry);
	if (!entry->detached)
		kr_table_remove(&entry->cache->entries, &entry->by_name);
	kr_list_remove(&entry->lru);
	kr_blockset_fini(&entry->present);
	kr_blockset_fini(&entry->verified);
	free(entry);
}

/* --- descriptors ------------------------------------------------------------------------------ */

static void limit_fds(struct kr_cache *cache)
{
	struct kr_cache_entry *entry, *after;

	KR_LIST_FOR_EACH_SAFE(entry, after, &cache->fds, fds) {
		if (cache->fd_count <= KR_CACHE_FDS)
			return;
		kr_cache_drop_fd(entry);
	}
}

void kr_cache_make_header(const struct kr_cache_entry *entry, bool patched, uint8_t bytes[KR_CACHE_HEADER_USED])
{
	struct kr_cache_header header = {.version = entry->version, .size = entry->size, .fid = entry->fid};

	memcpy(header.export_id, entry->cache->export_id, 16);
	if (patched)
		memcpy(header.boot_id, entry->cache->boot_id, 16);
	kr_cache_header_encode(&header, bytes);
}

/* Opens the file, or makes it anew with HEADER. Without the lock: what it needs of the entry, which a rekeying may
 * change meanwhile, was taken before. */
static int open_file(int dirfd, const char *path, const uint8_t header[KR_CACHE_HEADER_USED], bool create)
{
	int flags = O_RDWR | O_CLOEXEC | O_NOFOLLOW | (create ? O_CREAT | O_TRUNC : 0);
	int fd = openat(dirfd, path, flags, 0600), err;

	if (fd < 0 && errno == ENOENT && create) {
		char directory[3] = {path[0], path[1], 0};

		if (mkdirat(dirfd, directory, 0700) == 0 || errno == EEXIST)
			fd = openat(dirfd, path, flags, 0600);
	}
	if (fd < 0)
		return -errno;
	err = create ? kr_pwrite_full(fd, header, KR_CACHE_HEADER_USED, 0) : 0;
	if (err < 0) {
		close(fd);
		unlinkat(dirfd, path, 0);
		return err;
	}
	return fd;
}

/* With the lock held, which is given up meanwhile: ENTRY gets its descriptor; its file is made if there is none. */
static int open_entry(struct kr_cache_entry *entry)
{
	struct kr_cache *cache = entry->cache;
	uint8_t header[KR_CACHE_HEADER_USED];
	char path[KR_CACHE_PATH + 4];
	bool create = !entry->on_disk;
	int fd;

	entry->creating = true;
	kr_cache_path(entry->name, path);
	kr_cache_make_header(entry, false, header);
	pthread_mutex_unlock(&cache->lock);
	fd = open_file(cache->dirfd, path, header, create);
	pthread_mutex_lock(&cache->lock);
	entry->creating = false;
	pthread_cond_broadcast(&cache->changed);
	if (fd < 0)
		return fd;
	if (create) {
		entry->on_disk = entry->loaded = true;
		cache->counters.files++;
	}
	entry->fd = fd;
	cache->fd_count++;
	kr_list_append(&cache->fds, &entry->fds);
	limit_fds(cache);
	return 0;
}

/* With the lock held: ENTRY is used now. */
static void note_use(struct kr_cache_entry *entry)
{
	kr_list_remove(&entry->fds);
	kr_list_append(&entry->cache->fds, &entry->fds);
	kr_list_remove(&entry->lru);
	kr_list_append(&entry->cache->lru, &entry->lru);
	entry->used_ns = kr_clock_ns();
}

int kr_cache_acquire(struct kr_cache_entry *entry, bool create, int *ret_fd)
{
	struct kr_cache *cache = entry->cache;
	int err;

	KR_SCOPED_LOCK(&cache->lock);
	while (entry->creating)
		pthread_cond_wait(&cache->changed, &cache->lock);
	if (entry->busy)
		return -EBUSY;
	if (!entry->on_disk && (!create || entry->detached))
		return create ? -EBUSY : -ENODATA;
	entry->users++;
	err = entry->fd < 0 ? open_entry(entry) : 0;
	if (err < 0) {
		entry->users--;
		pthread_cond_broadcast(&cache->changed);
		return err;
	}
	note_use(entry);
	*ret_fd = entry->fd;
	return 0;
}

void kr_cache_release(struct kr_cache_entry *entry)
{
	KR_SCOPED_LOCK(&entry->cache->lock);
	if (--entry->users == 0)
		pthread_cond_broadcast(&entry->cache->changed);
	/* A removal that came while the descriptor was in use left it open. */
	if (!entry->on_disk && !entry->busy)
		kr_cache_drop_fd(entry);
	if (entry->cache->fd_count > KR_CACHE_FDS)
		limit_fds(entry->cache);
}

/* --- entries ---------------------------------------------------------------------------------- */

struct kr_cache_entry *kr_cache_entry_get(
	struct kr_cache *cache, const struct kr_fid *fid, uint64_t version, uint64_t size)
{
	char name[KR_CACHE_NAME + 1];
	struct kr_cache_entry *entry = NULL;

	kr_cache_name(cache->export_id, fid, version, name);
	KR_SCOPED_LOCK(&cache->lock);
	if (version != 0)
		entry = kr_cache_find(cache, name);
	if (!entry) {
		entry = cache_new_entry(cache);
		entry->fid = *fid;
		entry->size = size;
		kr_cache_enter(entry, version);
	} else if (entry->fid.length == 0) {
		entry->fid = *fid;
		entry->version = version;
		entry->size = size;
	} else if (entry->size != size) {
		/* Versions are hashes: rather forget than serve the wrong one. */
		kr_cache_forget_blocks(entry);
		entry->size = size;
		entry->loaded = true;
	}
	cache->doomed -= kr_cache_is_doomed(entry);
	entry->abandoned = false;
	entry->references++;
	entry->used_ns = kr_clock_ns();
	return entry;
}

struct kr_cache_entry *kr_cache_entry_ref(struct kr_cache_entry *entry)
{
	KR_SCOPED_LOCK(&entry->cache->lock);
	entry->references++;
	return entry;
}

bool kr_cache_is_doomed(const struct kr_cache_entry *entry)
{
	return entry->references == 0 && entry->on_disk && !entry->busy && (entry->abandoned || entry->name[0] == 'x');
}

void kr_cache_entry_abandon(struct kr_cache_entry *entry)
{
	KR_SCOPED_LOCK(&entry->cache->lock);
	entry->abandoned = true;
}

/* With the lock held: an entry that has just become doomed, perhaps. */
static void note_doomed(struct kr_cache_entry *entry)
{
	if (!kr_cache_is_doomed(entry))
		return;
	entry->cache->doomed++;
	kr_list_remove(&entry->lru);
	kr_list_prepend(&entry->cache->lru, &entry->lru);
}

void kr_cache_abandon(struct kr_cache *cache, const struct kr_fid *fid, uint64_t version)
{
	char name[KR_CACHE_NAME + 1];
	struct kr_cache_entry *entry;

	if (version == 0)
		return;
	kr_cache_name(cache->export_id, fid, version, name);
	KR_SCOPED_LOCK(&cache->lock);
	entry = kr_cache_find(cache, name);
	if (!entry || entry->abandoned)
		return;
	entry->abandoned = true;
	note_doomed(entry);
	kr_cache_free_if_unused(entry);
}

bool kr_cache_may_have(struct kr_cache *cache, const struct kr_fid *fid, uint64_t version, uint64_t block)
{
	char name[KR_CACHE_NAME + 1];
	const struct kr_cache_entry *entry;

	if (version == 0)
		return false;
	kr_cache_name(cache->export_id, fid, version, name);
	KR_SCOPED_LOCK(&cache->lock);
	entry = kr_cache_find(cache, name);
	return entry && ((entry->on_disk && !entry->loaded) || kr_blockset_has(&entry->present, block));
}

void kr_cache_entry_put(struct kr_cache_entry *entry)
{
	if (!entry)
		return;
	KR_SCOPED_LOCK(&entry->cache->lock);
	assert(entry->references > 0);
	if (--entry->references > 0)
		return;
	note_doomed(entry);
	kr_cache_free_if_unused(entry);
}

bool kr_cache_needs_load(struct kr_cache_entry *entry)
{
	KR_SCOPED_LOCK(&entry->cache->lock);
	return entry->on_disk && !entry->loaded;
}

uint64_t kr_cache_edition(struct kr_cache_entry *entry)
{
	KR_SCOPED_LOCK(&entry->cache->lock);
	return entry->edition;
}

bool kr_cache_has(struct kr_cache_entry *entry, uint64_t block)
{
	KR_SCOPED_LOCK(&entry->cache->lock);
	return kr_blockset_has(&entry->present, block);
}

uint64_t kr_cache_next_absent(struct kr_cache_entry *entry, uint64_t from, uint64_t end)
{
	KR_SCOPED_LOCK(&entry->cache->lock);
	return kr_blockset_next_absent(&entry->present, from, end);
}

uint64_t kr_cache_present(struct kr_cache_entry *entry)
{
	KR_SCOPED_LOCK(&entry->cache->lock);
	const uint64_t blocks = kr_cache_block_count(entry->size);
	const uint64_t bytes = entry->present.count * KR_BLOCK_SIZE;

	if (blocks == 0 || !kr_blockset_has(&entry->present, blocks - 1))
		return bytes;
	return bytes - KR_BLOCK_SIZE + kr_cache_block_length(entry->size, blocks - 1);
}

void kr_cache_counters(struct kr_cache *cache, struct kr_cache_counters *ret_counters)
{
	KR_SCOPED_LOCK(&cache->lock);
	*ret_counters = cache->counters;
}

/* --- opening and closing ----------------------------------------------------------------------- */

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
	entry = cache_new_entry(cache);
	memcpy(entry->name, name, KR_CACHE_NAME);
	entry->on_disk = true;
	entry->bytes = (uint64_t)st.st_blocks * 512;
	entry->used_ns = (uint64_t)st.st_mtim.tv_sec * KR_NS_PER_S + (uint64_t)st.st_mtim.tv_nsec;
	cache->counters.bytes += entry->bytes;
	cache->counters.files++;
	cache_insert(entry);
}

static int scan_directory(struct kr_cache *cache, const char *name)
{
	DIR *dir = kr_opendir_at(cache->dirfd, name);
	struct dirent *entry;

	if (!dir)
		return errno == ENOENT ? 0 : kr_fail_errno(-errno, "cache directory %s", name);
	while ((entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			found(cache, dirfd(dir), entry->d_name);
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
	struct kr_cache_entry *entry;
	size_t count = 0;

	if (!entries)
		return; /* in the order found, then */
	while ((entry = KR_LIST_POP(&cache->lru, struct kr_cache_entry, lru)))
		entries[count++] = entry;
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
	kr_list_init(&cache->in_memory);
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
		entry->abandoned = true;
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

/* --- evicting ---------------------------------------------------------------------------------- */

/* One cut: of the file's length, so that a step takes milliseconds on ext4 and xfs. */
#define CUT (UINT64_C(1) << 30)

/* URGENT: what was just used, too. */
static bool can_go(const struct kr_cache_entry *entry, uint64_t now_ns, bool urgent)
{
	if (!entry->on_disk || entry->busy || entry->creating || entry->users > 0 || entry->writers > 0)
		return false;
	return urgent || entry->references == 0 || now_ns - entry->used_ns > KR_CACHE_IN_USE_S * KR_NS_PER_S;
}

static bool above(const struct kr_cache *cache, uint64_t percent)
{
	return cache->counters.bytes > KR_MIN(cache->target, cache->counters.max_bytes / 100 * percent);
}

bool kr_cache_wants_eviction(struct kr_cache *cache)
{
	KR_SCOPED_LOCK(&cache->lock);
	if (cache->evicting)
		return false;
	if (cache->doomed > 0 || cache->dying_fd >= 0)
		return true;
	return above(cache, KR_CACHE_HIGH) && kr_clock_ns() >= cache->full_until_ns;
}

static struct kr_cache_entry *choose(struct kr_cache *cache, bool urgent)
{
	uint64_t now_ns = kr_clock_ns();
	struct kr_cache_entry *entry;

	if (cache->doomed == 0 && !above(cache, KR_CACHE_LOW))
		return NULL;
	KR_LIST_FOR_EACH(entry, &cache->lru, lru) {
		if (can_go(entry, now_ns, urgent) && (kr_cache_is_doomed(entry) || above(cache, KR_CACHE_LOW)))
			return entry;
	}
	cache->full_until_ns = now_ns + KR_NS_PER_S;
	return NULL;
}

/* With the lock held, which is given up meanwhile: ENTRY's file goes. */
static void take_away(struct kr_cache *cache, struct kr_cache_entry *entry)
{
	char path[KR_CACHE_PATH + 4];
	struct stat st;
	int fd = -1;

	if (kr_cache_is_doomed(entry))
		cache->doomed--;
	else
		cache->counters.evicted_bytes += entry->bytes;
	entry->busy = true;
	kr_cache_forget_blocks(entry);
	kr_cache_drop_fd(entry);
	kr_cache_path(entry->name, path);
	pthread_mutex_unlock(&cache->lock);
	fd = openat(cache->dirfd, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	unlinkat(cache->dirfd, path, 0);
	if (fd >= 0 && fstat(fd, &st) < 0) {
		close(fd);
		fd = -1;
	}
	pthread_mutex_lock(&cache->lock);
	entry->busy = entry->on_disk = false;
	cache->counters.files--;
	pthread_cond_broadcast(&cache->changed);
	kr_cache_free_if_unused(entry);
	if (fd >= 0) {
		cache->dying_fd = fd;
		cache->dying_size = (uint64_t)st.st_size;
	}
}

/* With the lock held, which is given up meanwhile. */
static void cut(struct kr_cache *cache)
{
	uint64_t size = cache->dying_size > CUT ? cache->dying_size - CUT : 0;
	int fd = cache->dying_fd, err;

	pthread_mutex_unlock(&cache->lock);
	err = ftruncate(fd, (off_t)size);
	if (size == 0 || err < 0)
		close(fd);
	pthread_mutex_lock(&cache->lock);
	cache->dying_size = size;
	if (size == 0 || err < 0)
		cache->dying_fd = -1;
}

/* With the lock held, which is given up meanwhile; no other thread evicts. */
static bool step(struct kr_cache *cache, bool urgent)
{
	struct kr_cache_entry *victim;
	bool more = true;

	cache->evicting = true;
	if (cache->dying_fd >= 0) {
		cut(cache);
	} else if ((victim = choose(cache, urgent))) {
		take_away(cache, victim);
	} else {
		cache->target = UINT64_MAX;
		more = false;
	}
	cache->evicting = false;
	pthread_cond_broadcast(&cache->changed);
	return more;
}

bool kr_cache_evict_step(struct kr_cache *cache)
{
	KR_SCOPED_LOCK(&cache->lock);
	return !cache->evicting && step(cache, false);
}

bool kr_cache_make_room(struct kr_cache *cache, uint64_t bytes)
{
	uint64_t before;
	bool more = true;

	KR_SCOPED_LOCK(&cache->lock);
	before = cache->counters.evicted_bytes;
	cache->target = KR_MIN(cache->target, cache->counters.bytes - KR_MIN(cache->counters.bytes, bytes));
	while (more) {
		while (cache->evicting)
			pthread_cond_wait(&cache->changed, &cache->lock);
		more = step(cache, true);
	}
	return cache->counters.evicted_bytes > before;
}

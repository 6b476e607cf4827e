/* Making room: whole files go, least recently used first; a large one is unlinked and then cut down step by step. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/util.h"
#include "fuse/readcache/cache_priv.h"

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

/* With the lock held, which is given up meanwhile; nobody else is at it. */
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

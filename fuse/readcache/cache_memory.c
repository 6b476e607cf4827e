/* Small files that this node has just written, or read for the first time, in memory: see kr_cache_put_memory.
 *
 * Most such files are read soon or never, and making a file of the cache costs more than all else in writing or reading
 * them. So their bytes stay in memory, and the least recently used are dropped first.  What is wanted after that comes
 * from the server once more, and then gets a file.  An entry has its bytes in memory or a file, never both.
 */
#include <errno.h>
#include <string.h>

#include "common/base/util.h"
#include "fuse/readcache/cache_priv.h"

/* The memory that an entry takes besides its bytes: itself, its buffer, its places in the tables, about. */
enum { OVERHEAD = 768 };

struct kr_buf *kr_cache_memory_take(struct kr_cache_entry *entry)
{
	struct kr_buf *buf = entry->memory;

	if (!buf)
		return NULL;
	entry->memory = NULL;
	kr_list_remove(&entry->in_memory);
	entry->cache->counters.memory_bytes -= buf->capacity + OVERHEAD;
	return buf;
}

struct kr_buf *kr_cache_memory_get(struct kr_cache_entry *entry, uint64_t block, uint64_t *ret_checksum)
{
	struct kr_cache *cache = entry->cache;

	KR_SCOPED_LOCK(&cache->lock);
	if (!entry->memory || block != 0)
		return NULL;
	kr_list_remove(&entry->in_memory);
	kr_list_append(&cache->in_memory, &entry->in_memory);
	*ret_checksum = entry->memory_checksum;
	return kr_buf_get(entry->memory);
}

struct kr_buf *kr_cache_unload_memory(struct kr_cache_entry *entry, uint64_t *ret_checksum)
{
	struct kr_buf *buf;

	KR_SCOPED_LOCK(&entry->cache->lock);
	buf = kr_cache_memory_take(entry);
	if (!buf)
		return NULL;
	*ret_checksum = entry->memory_checksum;
	kr_cache_forget_block(entry, 0);
	return buf;
}

/* With the lock held: the place that has *RET_MARK if the entry's bytes have been dropped, and have not come again
 * since.  Entries share places: the latest one is known. */
static uint32_t *dropped(const struct kr_cache_entry *entry, uint32_t *ret_mark)
{
	uint64_t hash = kr_hash_bytes(entry->name, strlen(entry->name));

	*ret_mark = (uint32_t)(hash >> 32) | 1;
	return &entry->cache->dropped[hash % KR_CACHE_DROPPED];
}

/* With the lock held. */
static void limit(struct kr_cache *cache)
{
	struct kr_cache_entry *oldest;
	uint32_t mark;

	while (cache->counters.memory_bytes > KR_CACHE_MEMORY) {
		oldest = KR_LIST_ENTRY(cache->in_memory.head.next, struct kr_cache_entry, in_memory);
		*dropped(oldest, &mark) = mark;
		kr_cache_forget_block(oldest, 0);
		kr_cache_free_if_unused(oldest);
	}
}

int kr_cache_put_memory(struct kr_cache_entry *entry, uint64_t edition, struct kr_buf *buf, uint64_t checksum)
{
	struct kr_cache *cache = entry->cache;
	uint32_t *place, mark;

	KR_SCOPED_LOCK(&cache->lock);
	if (entry->edition != edition)
		return -ESTALE;
	if (entry->busy || entry->on_disk || entry->creating || entry->writers > 0)
		return -EBUSY;
	if (buf->length != entry->size || buf->length == 0 || buf->capacity > KR_CACHE_MEMORY_FILE)
		return -EINVAL;
	place = dropped(entry, &mark);
	if (*place == mark) {
		*place = 0;
		return -EBUSY;
	}
	kr_cache_forget_block(entry, 0);
	if (kr_blockset_add(&entry->present, 0) < 0 || kr_blockset_add(&entry->verified, 0) < 0) {
		kr_cache_forget_block(entry, 0);
		return -ENOMEM;
	}
	entry->memory = kr_buf_get(buf);
	entry->memory_checksum = checksum;
	kr_list_append(&cache->in_memory, &entry->in_memory);
	cache->counters.memory_bytes += buf->capacity + OVERHEAD;
	limit(cache);
	return 0;
}

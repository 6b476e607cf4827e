/* A cache entry goes on under another version: own flushed bytes made a new one of which only some blocks differ. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/base/util.h"
#include "fuse/readcache/cache_priv.h"

/* With the lock held: the entry that has ENTRY's coming name loses it.  That entry's file may be in use, or on its way
 * out, just now: kr_cache_rekey_disk waits for that, and removes the file. */
static void displace(struct kr_cache_entry *entry, uint64_t version)
{
	struct kr_cache *cache = entry->cache;
	char name[KR_CACHE_NAME + 1];
	struct kr_cache_entry *other;

	kr_cache_name(cache->export_id, &entry->fid, version, name);
	other = version ? kr_cache_find(cache, name) : NULL;
	if (!other)
		return;
	cache->doomed -= kr_cache_is_doomed(other);
	kr_cache_forget_blocks(other);
	kr_table_remove(&cache->entries, &other->by_name);
	other->detached = true;
	other->references++;
	entry->displaced = other;
}

/* With the lock held: the displaced entry, which no thread uses, gives its file up.  Whether it had one. */
static bool give_up_displaced(struct kr_cache_entry *entry)
{
	struct kr_cache_entry *other = entry->displaced;
	bool had_file = other && other->on_disk;

	if (!other)
		return false;
	entry->displaced = NULL;
	kr_cache_forget_blocks(other);
	kr_cache_drop_fd(other);
	entry->cache->counters.files -= had_file;
	other->on_disk = false;
	other->references--;
	kr_cache_free_if_unused(other);
	return had_file;
}

static bool in_use(const struct kr_cache_entry *entry)
{
	return entry->writers > 0 || entry->users > 0 || entry->creating;
}

static bool must_wait(const struct kr_cache_entry *entry)
{
	return in_use(entry) || (entry->displaced && (entry->displaced->busy || in_use(entry->displaced)));
}

/* The former last block, if it is longer now. */
static void drop_if_grown(struct kr_cache_entry *entry, uint64_t size)
{
	uint64_t last = kr_cache_block_count(entry->size) - 1;

	if (kr_cache_block_length(size, last) != kr_cache_block_length(entry->size, last))
		kr_cache_forget_block(entry, last);
}

void kr_cache_rekey(
	struct kr_cache_entry *entry, uint64_t version, uint64_t size, struct kr_cache_replaced *blocks, size_t count)
{
	struct kr_cache *cache = entry->cache;

	KR_SCOPED_LOCK(&cache->lock);
	entry->generation++;
	entry->edition++;
	kr_buf_put(entry->replaced_memory);
	entry->replaced_memory = NULL;
	for (size_t i = 0; i < count; i++) {
		blocks[i].length = kr_blockset_has(&entry->present, blocks[i].block) ?
			kr_cache_block_length(entry->size, blocks[i].block) :
			0;
		if (blocks[i].block == 0)
			entry->replaced_memory = kr_cache_memory_take(entry);
		kr_cache_forget_block(entry, blocks[i].block);
	}
	if (size > entry->size && entry->size > 0)
		drop_if_grown(entry, size);
	/* Bytes that were cut off must not return when the file grows again. */
	entry->discard = size < entry->size;
	if (entry->discard)
		kr_cache_forget_blocks(entry);
	memcpy(entry->old_name, entry->name, sizeof(entry->name));
	entry->replaced = blocks;
	entry->replaced_count = count;
	entry->busy = true;
	if (!entry->detached)
		kr_table_remove(&cache->entries, &entry->by_name);
	displace(entry, version);
	memset(entry->name, 0, sizeof(entry->name));
	entry->size = size;
	entry->detached = false;
	kr_cache_enter(entry, version);
}

/* Notes what the touched blocks were and clears their entries. */
static int clear_entries(struct kr_cache_entry *entry, int fd)
{
	static const uint8_t zeros[KR_CACHE_ENTRY];

	for (size_t i = 0; i < entry->replaced_count; i++) {
		struct kr_cache_replaced *replaced = &entry->replaced[i];
		uint64_t offset = kr_cache_entry_offset(replaced->block);
		struct kr_cache_map_entry mapped = {0};
		uint8_t bytes[KR_CACHE_ENTRY];
		int err = 0;

		if (kr_pread_full(fd, bytes, sizeof(bytes), offset) == 0) {
			bool valid = kr_cache_entry_decode(bytes, replaced->block, &mapped);

			if (!valid || mapped.length != replaced->length)
				replaced->length = 0;
			replaced->checksum = mapped.checksum;
			err = kr_pwrite_full(fd, zeros, sizeof(zeros), offset);
		} else {
			replaced->length = 0; /* beyond what the file has */
		}
		if (err < 0)
			return err;
	}
	return 0;
}

static int move(struct kr_cache_entry *entry)
{
	char from[KR_CACHE_PATH + 4], to[KR_CACHE_PATH + 4];
	char directory[3];
	int dirfd = entry->cache->dirfd;

	kr_cache_path(entry->old_name, from);
	kr_cache_path(entry->name, to);
	memcpy(directory, to, 2);
	directory[2] = '\0';
	if (mkdirat(dirfd, directory, 0700) < 0 && errno != EEXIST)
		return -errno;
	return renameat(dirfd, from, dirfd, to) < 0 ? -errno : 0;
}

static int bring_after(struct kr_cache_entry *entry, int fd)
{
	uint8_t header[KR_CACHE_HEADER_USED];
	int err = clear_entries(entry, fd);

	if (err == 0)
		err = KR_FAULT("cache.rekey");
	kr_cache_make_header(entry, true, header);
	if (err == 0)
		err = kr_pwrite_full(fd, header, sizeof(header), 0);
	return err < 0 ? err : move(entry);
}

/* The file could not be renamed or changed: removes it under both names. */
static void abandon(struct kr_cache_entry *entry)
{
	char path[KR_CACHE_PATH + 4];

	kr_cache_path(entry->old_name, path);
	unlinkat(entry->cache->dirfd, path, 0);
	kr_cache_path(entry->name, path);
	unlinkat(entry->cache->dirfd, path, 0);
}

bool kr_cache_rekey_is_done(struct kr_cache_entry *entry)
{
	KR_SCOPED_LOCK(&entry->cache->lock);
	return !entry->on_disk && !entry->displaced && !must_wait(entry);
}

void kr_cache_rekey_disk(struct kr_cache_entry *entry)
{
	struct kr_cache *cache = entry->cache;
	char path[KR_CACHE_PATH + 4];
	bool on_disk, displaced;
	int fd, err = 0;

	pthread_mutex_lock(&cache->lock);
	while (must_wait(entry))
		pthread_cond_wait(&cache->changed, &cache->lock);
	on_disk = entry->on_disk;
	kr_cache_drop_fd(entry);
	displaced = give_up_displaced(entry);
	pthread_mutex_unlock(&cache->lock);
	if (displaced) {
		kr_cache_path(entry->name, path);
		unlinkat(cache->dirfd, path, 0);
	}
	if (on_disk) {
		kr_cache_path(entry->old_name, path);
		fd = openat(cache->dirfd, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
		err = fd < 0 ? -errno : entry->discard ? -ESTALE : bring_after(entry, fd);
		if (err < 0)
			abandon(entry);
		if (fd >= 0)
			close(fd);
	}
	pthread_mutex_lock(&cache->lock);
	if (on_disk && err < 0) {
		if (err != -ESTALE)
			kr_cache_note_error(cache, err);
		kr_cache_forget_blocks(entry);
		entry->on_disk = false;
		cache->counters.files--;
	}
	entry->loaded = true;
	entry->busy = false;
	entry->replaced = NULL;
	pthread_cond_broadcast(&cache->changed);
	pthread_mutex_unlock(&cache->lock);
}

static struct kr_buf *take_replaced_memory(struct kr_cache_entry *entry, const struct kr_cache_replaced *replaced)
{
	struct kr_buf *memory = NULL;

	KR_SCOPED_LOCK(&entry->cache->lock);
	if (replaced->block == 0) {
		memory = entry->replaced_memory;
		entry->replaced_memory = NULL;
	}
	return memory;
}

int kr_cache_read_replaced(struct kr_cache_entry *entry, const struct kr_cache_replaced *replaced, void *buffer)
{
	struct kr_buf *memory = take_replaced_memory(entry, replaced);
	int fd, err;

	if (memory) {
		memcpy(buffer, memory->data, replaced->length);
		kr_buf_put(memory);
		return 0;
	}
	if (replaced->length == 0 || kr_cache_acquire(entry, false, &fd) < 0)
		return -ENODATA;
	err = kr_pread_full(fd, buffer, replaced->length, kr_cache_block_offset(replaced->block));
	kr_cache_release(entry);
	return err < 0 || kr_checksum(buffer, replaced->length) != replaced->checksum ? -ENODATA : 0;
}

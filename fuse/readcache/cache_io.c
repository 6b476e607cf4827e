/* Blocks of the cache: loading the map, reading with verification, keeping.  Runs in pool threads and FUSE workers.
 *
 * What is on disk may be damaged in any way; a block is believed when its entry is valid and, the first time since the
 * start, its bytes have the entry's checksum. entry->generation tells whether blocks were given up during I/O without
 * the lock.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/base/util.h"
#include "fuse/readcache/cache_priv.h"

/* --- loading ---------------------------------------------------------------------------------- */

static bool header_counts(struct kr_cache_entry *entry, int fd)
{
	static const uint8_t zeros[16];
	uint8_t bytes[KR_CACHE_HEADER_USED];
	struct kr_cache_header header;

	if (kr_pread_full(fd, bytes, sizeof(bytes), 0) < 0 || kr_cache_header_decode(bytes, &header) < 0)
		return false;
	return memcmp(header.export_id, entry->cache->export_id, 16) == 0 && kr_fid_equal(&header.fid, &entry->fid) &&
		header.version == entry->version && header.size == entry->size &&
		(memcmp(header.boot_id, zeros, 16) == 0 || memcmp(header.boot_id, entry->cache->boot_id, 16) == 0);
}

/* Adds the valid entries of one group's map. */
static void learn_group(
	struct kr_cache_entry *entry, const uint8_t *map, size_t length, uint64_t first, uint64_t generation)
{
	KR_SCOPED_LOCK(&entry->cache->lock);
	if (entry->generation != generation)
		return;
	for (size_t i = 0; i < length / KR_CACHE_ENTRY; i++) {
		struct kr_cache_map_entry mapped;

		if (kr_cache_entry_decode(map + i * KR_CACHE_ENTRY, first + i, &mapped) &&
			mapped.length == kr_cache_block_length(entry->size, first + i))
			kr_blockset_add(&entry->present, first + i); /* without memory: not here, then */
	}
}

static void load_groups(struct kr_cache_entry *entry, int fd, uint64_t blocks, uint64_t generation)
{
	KR_AUTO_FREE uint8_t *map = malloc(KR_CACHE_MAP_BYTES);
	uint64_t first = 0;

	while (map && first < blocks) {
		uint64_t offset = kr_cache_entry_offset(first);
		off_t data = lseek(fd, (off_t)offset, SEEK_DATA);
		ssize_t length;

		if (data < 0)
			return; /* nothing behind */
		if ((uint64_t)data >= offset + KR_CACHE_MAP_BYTES) {
			uint64_t group = ((uint64_t)data - KR_BLOCK_SIZE) / KR_CACHE_GROUP_BYTES;

			/* Map before data: a group whose map is a hole has nothing. */
			first = KR_MAX(first + KR_CACHE_GROUP_BLOCKS, group * KR_CACHE_GROUP_BLOCKS);
			continue;
		}
		length = pread(fd, map, KR_CACHE_MAP_BYTES, (off_t)offset);
		if (length > 0)
			learn_group(entry, map, (size_t)length, first, generation);
		first += KR_CACHE_GROUP_BLOCKS;
	}
}

void kr_cache_load(struct kr_cache_entry *entry)
{
	struct kr_cache *cache = entry->cache;
	uint8_t header[KR_CACHE_HEADER_USED];
	uint64_t generation, size;
	int fd;

	if (kr_cache_acquire(entry, false, &fd) < 0)
		return;
	pthread_mutex_lock(&cache->lock);
	kr_cache_make_header(entry, false, header);
	generation = entry->generation;
	size = entry->size;
	pthread_mutex_unlock(&cache->lock);
	if (header_counts(entry, fd)) {
		load_groups(entry, fd, kr_cache_block_count(size), generation);
		futimens(fd, NULL); /* used now: the order of removing at the next start */
	} else if (ftruncate(fd, 0) == 0) {
		int err = kr_pwrite_full(fd, header, sizeof(header), 0);

		KR_SCOPED_LOCK(&cache->lock);
		if (err < 0)
			kr_cache_note_error(cache, err);
		kr_cache_forget_blocks(entry);
	}
	pthread_mutex_lock(&cache->lock);
	entry->loaded = true;
	pthread_mutex_unlock(&cache->lock);
	kr_cache_release(entry);
}

/* --- reading ---------------------------------------------------------------------------------- */

struct state {
	uint64_t generation;
	uint32_t length;
	bool present, verified;
};

static struct state look(struct kr_cache_entry *entry, uint64_t block)
{
	KR_SCOPED_LOCK(&entry->cache->lock);
	return (struct state){
		.generation = entry->generation,
		.length = kr_cache_block_length(entry->size, block),
		.present = kr_blockset_has(&entry->present, block),
		.verified = kr_blockset_has(&entry->verified, block),
	};
}

/* The block's bytes did not come as they should. */
static void give_up(struct kr_cache_entry *entry, uint64_t block, uint64_t generation)
{
	KR_SCOPED_LOCK(&entry->cache->lock);
	/* Else it was replaced meanwhile, and is no damage. */
	if (entry->generation == generation && kr_cache_forget_block(entry, block))
		entry->cache->counters.bad_blocks++;
}

static void believe(struct kr_cache_entry *entry, uint64_t block, uint64_t generation)
{
	KR_SCOPED_LOCK(&entry->cache->lock);
	if (entry->generation == generation && kr_blockset_has(&entry->present, block))
		kr_blockset_add(&entry->verified, block);
}

/* A whole block, compared with its checksum. */
static int read_verified(struct kr_cache_entry *entry, int fd, uint64_t block, const struct state *state, void *buffer,
	uint64_t *ret_checksum)
{
	uint8_t bytes[KR_CACHE_ENTRY];
	struct kr_cache_map_entry mapped;

	if (kr_pread_full(fd, bytes, sizeof(bytes), kr_cache_entry_offset(block)) < 0 ||
		!kr_cache_entry_decode(bytes, block, &mapped) || mapped.length != state->length ||
		kr_pread_full(fd, buffer, state->length, kr_cache_block_offset(block)) < 0 ||
		kr_checksum(buffer, state->length) != mapped.checksum) {
		give_up(entry, block, state->generation);
		return -ENODATA;
	}
	believe(entry, block, state->generation);
	*ret_checksum = mapped.checksum;
	return 0;
}

static int read_part(struct kr_cache_entry *entry, int fd, uint64_t block, size_t start, void *buffer, size_t length)
{
	struct state state = look(entry, block);
	KR_AUTO_FREE uint8_t *whole = NULL;
	uint64_t checksum;
	int err;

	if (!state.present || start > state.length || length > state.length - start)
		return -ENODATA;
	if (state.verified) {
		if (kr_pread_full(fd, buffer, length, kr_cache_block_offset(block) + start) == 0)
			return 0;
		give_up(entry, block, state.generation);
		return -ENODATA;
	}
	whole = malloc(state.length);
	if (!whole)
		return -ENOMEM;
	err = read_verified(entry, fd, block, &state, whole, &checksum);
	if (err == 0)
		memcpy(buffer, whole + start, length);
	return err;
}

/* The descriptor for reading.  When it can't be had nothing of the file is here: no reader tries again at once. */
static int acquire_to_read(struct kr_cache_entry *entry, int *ret_fd)
{
	int err = kr_cache_acquire(entry, false, ret_fd);

	if (err == 0)
		return 0;
	if (err != -EBUSY) {
		KR_SCOPED_LOCK(&entry->cache->lock);
		kr_cache_forget_blocks(entry);
	}
	return -ENODATA;
}

/* The same as read_part, from MEMORY, whose reference is taken over. */
static int read_memory(struct kr_buf *memory, size_t start, void *buffer, size_t length)
{
	bool inside = start <= memory->length && length <= memory->length - start;

	if (inside)
		memcpy(buffer, memory->data + start, length);
	kr_buf_put(memory);
	return inside ? 0 : -ENODATA;
}

int kr_cache_read(struct kr_cache_entry *entry, uint64_t block, size_t start, void *buffer, size_t length)
{
	uint64_t checksum;
	struct kr_buf *memory = kr_cache_memory_get(entry, block, &checksum);
	int fd, err;

	if (memory)
		return read_memory(memory, start, buffer, length);
	if (!kr_cache_has(entry, block) || acquire_to_read(entry, &fd) < 0)
		return -ENODATA;
	err = read_part(entry, fd, block, start, buffer, length);
	kr_cache_release(entry);
	return err;
}

int kr_cache_read_block(struct kr_cache_entry *entry, uint64_t block, struct kr_buf **ret_buf, uint64_t *ret_checksum)
{
	struct kr_buf *buf = kr_cache_memory_get(entry, block, ret_checksum);
	struct state state;
	int fd, err;

	if (buf) {
		*ret_buf = buf;
		return 0;
	}
	state = look(entry, block);
	if (!state.present)
		return -ENODATA;
	if (acquire_to_read(entry, &fd) < 0)
		return -ENODATA;
	buf = kr_buf_new(
		state.length); /* a short one shall not take a whole block of memory while it waits for a slow peer */
	err = buf ? read_verified(entry, fd, block, &state, buf->data, ret_checksum) : -ENOMEM;
	kr_cache_release(entry);
	if (err < 0) {
		if (buf)
			kr_buf_put(buf);
		return err;
	}
	buf->length = state.length;
	*ret_buf = buf;
	return 0;
}

/* --- keeping ---------------------------------------------------------------------------------- */

/* Counts the block's bytes beforehand. 0: go on with *RET_GENERATION; 1: it is here; -ENOSPC: no room. */
static int reserve(
	struct kr_cache_entry *entry, uint64_t edition, uint64_t block, uint64_t length, uint64_t *ret_generation)
{
	struct kr_cache *cache = entry->cache;
	uint64_t cost = kr_cache_cost(length);

	KR_SCOPED_LOCK(&cache->lock);
	if (entry->edition != edition)
		return -ESTALE;
	if (entry->busy || (entry->on_disk && !entry->loaded))
		return -EBUSY;
	if (kr_blockset_has(&entry->verified, block))
		return 1;
	kr_cache_forget_block(entry, block); /* the former bytes may be damaged, these are not */
	if (length != kr_cache_block_length(entry->size, block) || length == 0)
		return -EINVAL;
	if (cost > cache->counters.max_bytes || cache->counters.bytes > cache->counters.max_bytes - cost)
		return -ENOSPC;
	cache->counters.bytes += cost;
	entry->writers++;
	*ret_generation = entry->generation;
	return 0;
}

static int write_block(int fd, uint64_t block, const struct kr_buf *buf, uint64_t checksum)
{
	struct kr_cache_map_entry mapped = {checksum, (uint32_t)buf->length};
	uint8_t bytes[KR_CACHE_ENTRY];
	int err = KR_FAULT("cache.write");

	if (err == 0)
		err = kr_pwrite_full(fd, buf->data, buf->length, kr_cache_block_offset(block));
	if (err == 0)
		err = KR_FAULT("cache.map");
	if (err < 0)
		return err;
	kr_cache_entry_encode(&mapped, block, bytes);
	return kr_pwrite_full(fd, bytes, sizeof(bytes), kr_cache_entry_offset(block));
}

/* The end of a put: the block is here if it was written and the entry has not given its blocks up meanwhile. */
static int settle(struct kr_cache_entry *entry, uint64_t block, uint64_t length, uint64_t generation, int err)
{
	struct kr_cache *cache = entry->cache;
	uint64_t cost = kr_cache_cost(length);

	KR_SCOPED_LOCK(&cache->lock);
	entry->writers--;
	pthread_cond_broadcast(&cache->changed);
	if (err != -EBUSY && err != -EAGAIN)
		kr_cache_note_error(cache, err);
	if (err == 0 && entry->generation != generation)
		err = -EBUSY;
	if (err == 0 && kr_blockset_add(&entry->present, block) < 0)
		err = -ENOMEM;
	if (err == 0) {
		kr_blockset_add(&entry->verified, block);
		entry->bytes += cost;
		return 0;
	}
	cache->counters.bytes -= cost;
	return err;
}

int kr_cache_put(
	struct kr_cache_entry *entry, uint64_t edition, uint64_t block, const struct kr_buf *buf, uint64_t checksum)
{
	uint64_t generation = 0;
	int fd, err = reserve(entry, edition, block, buf->length, &generation);

	if (err != 0)
		return err < 0 ? err : 0;
	err = kr_cache_acquire(entry, true, &fd);
	if (err == 0) {
		err = write_block(fd, block, buf, checksum);
		kr_cache_release(entry);
	}
	return settle(entry, block, buf->length, generation, err);
}

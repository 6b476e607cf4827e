/* Own flushed bytes become part of the staged copy, which goes on under the file's new version.
 *
 * At once (loop): the version is the new one, and the blocks that the flush touched are not here.  Then (pool) the
 * cache file follows (cache_rekey.c).  Each touched block that the old bytes and the flushed ones complete is put.
 * Until then the stage fetches nothing and reads no block from disk; readers and peers wait.  Other touched blocks are
 * fetched again when a reader wants them.  A small file that stays in memory is patched in the loop.
 *
 * A flush that comes while the cache file's map is read, or during an earlier patch, gives the stage its version at
 * once, and its patch waits.  What it has sent stays in the journal meanwhile.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"
#include "fuse/readcache/cache_format.h"
#include "fuse/journal/journal.h"
#include "fuse/readcache/hops_priv.h"
#include "fuse/readcache/stage_priv.h"

struct patch {
	uv_work_t work;
	struct kr_stage *stage;       /* reference */
	struct kr_cache_entry *entry; /* reference */
	struct kr_journal *journal;
	struct kr_extent_map sent; /* its bytes are pinned in the journal */
	struct kr_link link;       /* of those that wait */
	struct kr_cache_replaced *blocks;
	struct kr_buf **old; /* for each block: its former bytes if they were in memory */
	size_t count, room;
	uint64_t old_size, size, version, generation, edition;
	bool failed; /* out of memory: the copy is given up */
};

/* --- which blocks ----------------------------------------------------------------------------- */

static void add_block(struct patch *patch, uint64_t block)
{
	if (patch->failed || (patch->count > 0 && patch->blocks[patch->count - 1].block >= block))
		return;
	if (patch->count == patch->room) {
		size_t room = patch->room ? patch->room * 2 : 64;
		struct kr_cache_replaced *blocks = reallocarray(patch->blocks, room, sizeof(*blocks));

		patch->failed = !blocks;
		if (!blocks)
			return;
		patch->blocks = blocks;
		patch->room = room;
	}
	patch->blocks[patch->count++] = (struct kr_cache_replaced){.block = block};
}

/* The former last block counts as touched when the file has grown. */
static void add_former_last(struct patch *patch, uint64_t before)
{
	uint64_t last = patch->old_size / KR_BLOCK_SIZE;

	if (patch->size > patch->old_size && patch->old_size % KR_BLOCK_SIZE != 0 && last < before)
		add_block(patch, last);
}

static void add_extent(void *context, const struct kr_extent *extent)
{
	struct patch *patch = context;
	uint64_t first = extent->offset / KR_BLOCK_SIZE, last = (extent->offset + extent->length - 1) / KR_BLOCK_SIZE;

	add_former_last(patch, first);
	for (uint64_t block = first; block <= last; block++)
		add_block(patch, block);
}

static void pin(void *context, const struct kr_extent *extent)
{
	kr_journal_pin(context, extent);
}

static void unpin(void *context, const struct kr_extent *extent)
{
	kr_journal_unpin(context, extent);
}

/* --- in the pool ------------------------------------------------------------------------------ */

/* The former bytes of BLOCK that the sent ones don't cover. */
static uint64_t gaps_in(const struct patch *patch, uint64_t block, uint32_t length)
{
	uint64_t at = block * KR_BLOCK_SIZE, end = KR_MIN(at + length, patch->old_size), gaps = 0;
	struct kr_extent extent;

	while (at < end && kr_extent_map_find(&patch->sent, at, &extent) && extent.offset < end) {
		gaps += KR_MAX(extent.offset, at) - at;
		at = extent.offset + extent.length;
	}
	return gaps + KR_MAX(end, at) - at;
}

/* Lays the sent bytes of BLOCK over BUFFER. */
static int overlay(struct patch *patch, uint64_t block, uint32_t length, uint8_t *buffer)
{
	uint64_t start = block * KR_BLOCK_SIZE, at = start, end = at + length;
	struct kr_extent extent;

	while (at < end && kr_extent_map_find(&patch->sent, at, &extent) && extent.offset < end) {
		uint64_t begin = KR_MAX(extent.offset, at), until = KR_MIN(extent.offset + extent.length, end);
		int err = kr_journal_read(patch->journal, extent.position + (begin - extent.offset),
			buffer + (begin - start), until - begin);

		if (err < 0)
			return err;
		at = until;
	}
	return 0;
}

/* The former bytes of block I, if they are here. Returns how many. */
static uint32_t old_bytes(struct patch *patch, size_t i, uint8_t *buffer)
{
	const struct kr_cache_replaced *replaced = &patch->blocks[i];

	if (patch->old[i]) {
		memcpy(buffer, patch->old[i]->data, patch->old[i]->length);
		return (uint32_t)patch->old[i]->length;
	}
	return kr_cache_read_replaced(patch->entry, replaced, buffer) == 0 ? replaced->length : 0;
}

/* BUF as a small file of its own, in no more memory than it needs. */
static bool keep_in_memory(struct patch *patch, const struct kr_buf *buf, uint64_t checksum)
{
	struct kr_buf *copy;
	int err;

	if (patch->size > KR_CACHE_MEMORY_FILE)
		return false;
	copy = kr_buf_new(buf->length);
	if (!copy)
		return false;
	memcpy(copy->data, buf->data, buf->length);
	copy->length = buf->length;
	err = kr_cache_put_memory(patch->entry, patch->edition, copy, checksum);
	kr_buf_put(copy);
	return err == 0;
}

static void patch_block(struct patch *patch, size_t i, struct kr_buf *buf)
{
	uint64_t block = patch->blocks[i].block;
	uint32_t length = kr_cache_block_length(patch->size, block), old;
	uint64_t checksum;

	if (length == 0)
		return;
	old = old_bytes(patch, i, buf->data);
	if (!old && gaps_in(patch, block, length) > 0)
		return;
	if (old < length)
		memset(buf->data + old, 0, length - old);
	if (overlay(patch, block, length, buf->data) < 0)
		return;
	buf->length = length;
	checksum = kr_checksum(buf->data, length);
	if (!keep_in_memory(patch, buf, checksum))
		(void)kr_cache_put(
			patch->entry, patch->edition, block, buf, checksum); /* not kept: fetched when wanted */
}

static void run(uv_work_t *work)
{
	struct patch *patch = KR_CONTAINER_OF(work, struct patch, work);
	struct kr_buf *buf;

	kr_cache_rekey_disk(patch->entry);
	buf = kr_buf_new(KR_BLOCK_SIZE);
	if (!buf)
		return;
	for (size_t i = 0; i < patch->count; i++)
		patch_block(patch, i, buf);
	kr_buf_put(buf);
}

/* --- in the loop ------------------------------------------------------------------------------ */

static void free_patch(struct patch *patch)
{
	for (size_t i = 0; patch->old && i < patch->count; i++) {
		if (patch->old[i])
			kr_buf_put(patch->old[i]);
	}
	kr_extent_map_for_each(&patch->sent, unpin, patch->journal);
	kr_extent_map_fini(&patch->sent);
	free(patch->old);
	free(patch->blocks);
	free(patch);
}

static void done(uv_work_t *work, int status)
{
	struct patch *patch = KR_CONTAINER_OF(work, struct patch, work);
	struct kr_stage *stage = patch->stage;

	(void)status;
	stage->mount->hops->jobs--;
	kr_cache_entry_put(patch->entry);
	if (stage->generation == patch->generation)
		kr_stage_go_on(stage);
	free_patch(patch);
	kr_stage_unref(stage);
}

static struct patch *make(struct kr_stage *stage, uint64_t version, uint64_t size, const struct kr_extent_map *sent)
{
	struct patch *patch = kr_xcalloc(1, sizeof(*patch));

	patch->journal = stage->mount->journal;
	patch->version = version;
	patch->old_size = stage->size;
	patch->size = size;
	kr_extent_map_init(&patch->sent);
	if (kr_extent_map_copy(sent, &patch->sent) < 0)
		patch->failed = true;
	kr_extent_map_for_each(&patch->sent, pin, patch->journal);
	kr_extent_map_for_each(&patch->sent, add_extent, patch);
	add_former_last(patch, UINT64_MAX);
	patch->old = calloc(patch->count + 1, sizeof(struct kr_buf *));
	if (!patch->old)
		patch->failed = true;
	return patch;
}

static void start(struct kr_stage *stage, struct patch *patch)
{
	struct kr_held *held;

	patch->stage = kr_stage_ref(stage);
	patch->entry = kr_cache_entry_ref(stage->entry);
	pthread_mutex_lock(&stage->lock);
	patch->generation = ++stage->generation;
	pthread_mutex_unlock(&stage->lock);
	kr_cache_rekey(stage->entry, patch->version, patch->size, patch->blocks, patch->count);
	patch->edition = kr_cache_edition(stage->entry);
	/* Blocks in memory that were not touched belong to the new version as well; those on their way to disk are
	 * refused there and stay in memory. */
	pthread_mutex_lock(&stage->lock);
	KR_TABLE_FOR_EACH(held, &stage->held, by_block)
		if (!held->storing)
			held->edition = patch->edition;
	pthread_mutex_unlock(&stage->lock);
	stage->mount->hops->jobs++;
	if (patch->size <= KR_CACHE_MEMORY_FILE && kr_cache_rekey_is_done(stage->entry)) {
		run(&patch->work);
		done(&patch->work, 0);
	} else {
		uv_queue_work(stage->mount->loop, &patch->work, run, done);
	}
}

void kr_stage_patch(struct kr_stage *stage, uint64_t version, uint64_t size, const struct kr_extent_map *sent)
{
	struct patch *patch = make(stage, version, size, sent);
	bool must_wait, begins = !stage->patching;

	if (patch->failed || size < stage->size) {
		free_patch(patch);
		kr_stage_flushed(stage, 0, version, size, NULL);
		return;
	}
	for (size_t i = 0; i < patch->count; i++)
		patch->old[i] = kr_stage_take_held(stage, patch->blocks[i].block);
	pthread_mutex_lock(&stage->lock);
	must_wait = stage->loading || !begins;
	stage->patching = true;
	stage->version = version;
	stage->size = size;
	pthread_mutex_unlock(&stage->lock);
	if (begins && stage->file)
		stage->hooks->patching(stage->file, true);
	kr_stage_stop_pulling(stage, -EAGAIN);
	if (must_wait)
		kr_list_append(&stage->patches, &patch->link);
	else
		start(stage, patch);
}

bool kr_stage_patch_next(struct kr_stage *stage)
{
	struct patch *patch = KR_LIST_POP(&stage->patches, struct patch, link);

	if (patch)
		start(stage, patch);
	return patch != NULL;
}

void kr_stage_drop_patches(struct kr_stage *stage)
{
	struct patch *patch;

	if (!kr_list_empty(&stage->patches)) /* it will never be of the version that was to come */
		kr_cache_entry_abandon(stage->entry);
	while ((patch = KR_LIST_POP(&stage->patches, struct patch, link)))
		free_patch(patch);
}

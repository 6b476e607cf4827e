/* A stage's life and the reads from it.  See stage.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "fuse/journal/journal.h"
#include "fuse/readcache/cache_format.h"
#include "fuse/readcache/hops_priv.h"
#include "fuse/readcache/stage_priv.h"

static bool present_fn(void *context, uint64_t block)
{
	return kr_stage_has(context, block);
}

static void on_ahead(struct kr_task *task)
{
	kr_stage_advance(KR_CONTAINER_OF(task, struct kr_stage, ahead_task));
}

struct kr_stage *kr_stage_find(struct kr_hops *hops, const struct kr_fid *fid)
{
	return KR_TABLE_FIND(
		struct kr_stage, stage, &hops->by_fid, kr_fid_hash(fid), by_fid, kr_fid_equal(&stage->fid, fid));
}

struct kr_stage *kr_stage_new(
	struct kr_mount *mount, struct kr_file *file, const struct kr_fid *fid, const struct kr_stage_hooks *hooks)
{
	struct kr_stage *stage = calloc(1, sizeof(*stage));
	struct kr_cache_counters counters;

	if (!stage)
		return NULL;
	stage->mount = mount;
	stage->file = file;
	stage->hooks = hooks;
	stage->fid = *fid;
	stage->references = 1;
	pthread_mutex_init(&stage->lock, NULL);
	kr_table_init(&stage->held);
	kr_list_init(&stage->parked);
	kr_list_init(&stage->patches);
	kr_cache_counters(mount->cache, &counters);
	kr_readahead_init(&stage->readahead, counters.max_bytes / 4);
	kr_hedge_init(&stage->hedge);
	kr_puller_init(&stage->puller, KR_PULL_WINDOW_MIN, present_fn, stage);
	stage->ahead_task.fn = on_ahead;
	kr_list_append(&mount->hops->stages, &stage->link);
	kr_hops_start_tick(mount->hops);
	kr_table_insert(&mount->hops->by_fid, &stage->by_fid, kr_fid_hash(fid));
	return stage;
}

struct kr_stage *kr_stage_ref(struct kr_stage *stage)
{
	stage->references++;
	return stage;
}

void kr_stage_unref(struct kr_stage *stage)
{
	if (--stage->references > 0)
		return;
	kr_puller_fini(&stage->puller);
	kr_table_fini(&stage->held);
	pthread_mutex_destroy(&stage->lock);
	free(stage);
}

/* Gives up the staged blocks: those in memory, and the cache's entry (its file stays, under its version). */
static void let_go(struct kr_stage *stage)
{
	struct kr_cache_entry *entry;
	bool was_patching = stage->patching;

	kr_stage_drop_held(stage);
	kr_stage_drop_patches(stage);
	pthread_mutex_lock(&stage->lock);
	entry = stage->entry;
	stage->entry = NULL;
	stage->known = stage->loading = stage->patching = false;
	stage->failed_count = stage->ahead_count = 0;
	stage->generation++;
	pthread_mutex_unlock(&stage->lock);
	if (was_patching && stage->file)
		stage->hooks->patching(stage->file, false);
	kr_cache_entry_put(entry);
	kr_stage_evict(stage->mount);
}

void kr_stage_free(struct kr_stage *stage)
{
	if (!stage)
		return;
	stage->file = NULL;
	kr_stage_part(stage, -ECANCELED);
	let_go(stage);
	stage->live = false;
	if (stage->ahead_task.queued) /* else the loop may be gone already */
		kr_loop_forget(stage->mount->kr_loop, &stage->ahead_task);
	kr_list_remove(&stage->starved);
	kr_list_remove(&stage->link);
	kr_table_remove(&stage->mount->hops->by_fid, &stage->by_fid);
	kr_stage_unref(stage);
}

/* --- the staged blocks ------------------------------------------------------------------------ */

struct load {
	uv_work_t work;
	struct kr_stage *stage;
	struct kr_cache_entry *entry;
	uint64_t generation;
};

static void load(uv_work_t *work)
{
	kr_cache_load(KR_CONTAINER_OF(work, struct load, work)->entry);
}

/* Drops queued fetches of blocks that have turned out to be here. */
static void settle_queued(struct kr_stage *stage)
{
	struct kr_fetch *fetch, *after;
	struct kr_list waiters;

	kr_list_init(&waiters);
	KR_LIST_FOR_EACH_SAFE(fetch, after, &stage->puller.fetches.demanded, link) {
		if (kr_stage_has(stage, fetch->block))
			kr_puller_arrived(&stage->puller, fetch->block, &waiters);
	}
	kr_stage_tell(&waiters, -EAGAIN, NULL, 0);
}

/* Parked peers ask again, local readers look again. */
static void unpark(struct kr_stage *stage)
{
	struct kr_list parked;

	kr_list_init(&parked);
	kr_list_move(&stage->parked, &parked);
	kr_stage_tell(&parked, -EAGAIN, NULL, 0);
	kr_stage_step(stage);
}

void kr_stage_go_on(struct kr_stage *stage)
{
	bool was_patching = stage->patching;

	pthread_mutex_lock(&stage->lock);
	stage->loading = false;
	stage->patching = !kr_list_empty(&stage->patches);
	pthread_mutex_unlock(&stage->lock);
	if (kr_stage_patch_next(stage))
		return;
	settle_queued(stage);
	unpark(stage);
	kr_stage_advance(stage);
	if (was_patching && stage->file)
		stage->hooks->patching(stage->file, false);
}

static void loaded(uv_work_t *work, int status)
{
	struct load *job = KR_CONTAINER_OF(work, struct load, work);
	struct kr_stage *stage = job->stage;

	(void)status;
	stage->mount->hops->jobs--;
	if (stage->generation == job->generation)
		kr_stage_go_on(stage);
	kr_cache_entry_put(job->entry);
	kr_stage_unref(stage);
	free(job);
}

static void start_load(struct kr_stage *stage)
{
	struct load *job = kr_xcalloc(1, sizeof(*job));

	job->stage = kr_stage_ref(stage);
	job->entry = kr_cache_entry_ref(stage->entry);
	job->generation = stage->generation;
	stage->mount->hops->jobs++;
	uv_queue_work(stage->mount->loop, &job->work, load, loaded);
}

/* The stage is about VERSION from now on. */
static void take_version(struct kr_stage *stage, uint64_t version, uint64_t size)
{
	struct kr_cache_entry *entry = kr_cache_entry_get(stage->mount->cache, &stage->fid, version, size);
	bool loading = kr_cache_needs_load(entry);

	pthread_mutex_lock(&stage->lock);
	stage->entry = entry;
	stage->version = version;
	stage->size = size;
	stage->known = true;
	stage->loading = loading;
	pthread_mutex_unlock(&stage->lock);
	if (loading)
		start_load(stage);
}

static void reset(struct kr_stage *stage, uint64_t version, uint64_t size)
{
	kr_stage_stop_pulling(stage, -ESTALE);
	if (stage->known && stage->version != version)
		kr_cache_entry_abandon(stage->entry);
	let_go(stage);
	take_version(stage, version, size);
}

void kr_stage_set(struct kr_stage *stage, uint64_t version, uint64_t size)
{
	bool was_live = stage->live;

	if (!stage->known || stage->version != version || stage->size != size || (version == 0 && !was_live)) {
		reset(stage, version, size);
		stage->outdated = false;
	}
	if (was_live)
		return;
	pthread_mutex_lock(&stage->lock);
	stage->live = true;
	pthread_mutex_unlock(&stage->lock);
	stage->outdated = false;
	kr_stage_advance(stage);
}

void kr_stage_learn(struct kr_stage *stage, uint64_t version, uint64_t size)
{
	if (!stage->known || stage->version != version || stage->size != size)
		reset(stage, version, size);
}

void kr_stage_suspend(struct kr_stage *stage)
{
	pthread_mutex_lock(&stage->lock);
	stage->live = false;
	stage->ahead_count = 0;
	pthread_mutex_unlock(&stage->lock);
	kr_stage_part(stage, -ECANCELED);
	if (stage->known && stage->version == 0)
		let_go(stage);
	kr_stage_step(stage);
}

/* A patch that must wait keeps its bytes in the journal.  Once that is half full, its room is worth more than a copy.
 */
static bool may_patch(const struct kr_stage *stage)
{
	struct kr_journal_usage usage;

	if (!stage->loading && !stage->patching)
		return true;
	kr_journal_usage(stage->mount->journal, &usage);
	return usage.used <= usage.max / 2;
}

void kr_stage_flushed(struct kr_stage *stage, uint64_t base_version, uint64_t version, uint64_t size,
	const struct kr_extent_map *sent)
{
	bool same = stage->known && version != 0 && version == stage->version && size == stage->size;

	stage->outdated = false;
	if (same)
		kr_stage_advance(stage);
	else if (stage->known && sent && base_version != 0 && base_version == stage->version && may_patch(stage))
		kr_stage_patch(stage, version, size, sent);
	else
		reset(stage, version, size);
	kr_stage_step(stage);
}

void kr_stage_abandon(struct kr_stage *stage)
{
	if (stage && stage->known)
		kr_cache_entry_abandon(stage->entry);
}

int kr_stage_put_inline(struct kr_stage *stage, struct kr_buf *data, uint64_t checksum)
{
	if (!stage->known || data->length != stage->size || data->length > KR_BLOCK_SIZE ||
		kr_checksum(data->data, data->length) != checksum)
		return kr_fail(-EBADMSG, "a file's data that came with its open is damaged");
	if (data->length > 0 && !stage->patching && !kr_stage_has(stage, 0))
		kr_stage_deliver_whole(stage, data, checksum);
	return 0;
}

/* --- looking ---------------------------------------------------------------------------------- */

struct kr_held *kr_stage_find_held(struct kr_stage *stage, uint64_t block)
{
	return KR_TABLE_FIND(struct kr_held, held, &stage->held, kr_hash_u64(block), by_block, held->block == block);
}

bool kr_stage_has(struct kr_stage *stage, uint64_t block)
{
	KR_SCOPED_LOCK(&stage->lock);
	if (!stage->entry || block >= kr_cache_block_count(stage->size))
		return false;
	return kr_stage_find_held(stage, block) || (!stage->patching && kr_cache_has(stage->entry, block));
}

int kr_stage_failure(const struct kr_stage *stage, uint64_t block)
{
	uint64_t now_ns = stage->failed_count ? kr_clock_ns() : 0;

	for (uint32_t i = 0; i < stage->failed_count; i++) {
		const struct kr_failed *failed = &stage->failed[i];

		if ((failed->block == block || failed->block == KR_STAGE_ANY_BLOCK) && now_ns < failed->until_ns)
			return failed->err;
	}
	return 0;
}

void kr_stage_note_failed(struct kr_stage *stage, uint64_t block, int err)
{
	KR_SCOPED_LOCK(&stage->lock);
	if (stage->failed_count == KR_STAGE_FAILED)
		memmove(&stage->failed[0], &stage->failed[1], sizeof(stage->failed[0]) * --stage->failed_count);
	stage->failed[stage->failed_count++] =
		(struct kr_failed){block, kr_clock_ns() + KR_STAGE_FAILED_MS * KR_NS_PER_MS, err};
}

void kr_stage_tell(struct kr_list *waiters, int err, struct kr_buf *buf, uint64_t checksum)
{
	struct kr_stage_waiter *waiter;

	while ((waiter = KR_LIST_POP(waiters, struct kr_stage_waiter, fetch.link)))
		waiter->ready(waiter, err, buf, checksum);
}

void kr_stage_step(struct kr_stage *stage)
{
	if (stage->file)
		stage->hooks->changed(stage->file);
}

uint64_t kr_stage_bytes(struct kr_stage *stage, uint64_t version)
{
	const struct kr_held *held;
	uint64_t bytes;
	KR_SCOPED_LOCK(&stage->lock);

	if (!stage->known || stage->version != version)
		return 0;
	bytes = kr_cache_present(stage->entry);
	KR_TABLE_FOR_EACH(held, &stage->held, by_block)
		if (!kr_cache_has(stage->entry, held->block))
			bytes += held->buf->length;
	return bytes;
}

bool kr_stage_pulls_from_node(const struct kr_stage *stage)
{
	return stage->upstream && stage->upstream->to.node != 0;
}

/* --- reading ---------------------------------------------------------------------------------- */

/* One block's part. */
static int read_part(
	struct kr_stage *stage, uint64_t version, uint64_t block, size_t start, void *buffer, size_t length)
{
	struct kr_cache_entry *entry = NULL;
	struct kr_buf *buf = NULL;
	struct kr_held *held;
	int err;

	pthread_mutex_lock(&stage->lock);
	if (!stage->known || stage->version != version || block * KR_BLOCK_SIZE + start + length > stage->size) {
		pthread_mutex_unlock(&stage->lock);
		return -ESTALE;
	}
	held = kr_stage_find_held(stage, block);
	if (held)
		buf = kr_buf_get(held->buf);
	else if (!stage->patching)
		entry = kr_cache_entry_ref(stage->entry);
	err = kr_stage_failure(stage, block);
	pthread_mutex_unlock(&stage->lock);

	if (buf) {
		memcpy(buffer, buf->data + start, length);
		kr_buf_put(buf);
		return 0;
	}
	if (entry) {
		int got = kr_cache_read(entry, block, start, buffer, length);

		kr_cache_entry_put(entry);
		if (got != -ENODATA)
			return got;
	}
	return err ? err : -ENODATA;
}

int kr_stage_pread(struct kr_stage *stage, uint64_t version, uint64_t offset, void *buffer, size_t length)
{
	uint8_t *to = buffer;

	while (length > 0) {
		size_t start = offset % KR_BLOCK_SIZE, part = KR_MIN(length, KR_BLOCK_SIZE - start);
		int err = read_part(stage, version, offset / KR_BLOCK_SIZE, start, to, part);

		if (err < 0)
			return err;
		offset += part;
		to += part;
		length -= part;
	}
	return 0;
}

static bool has_failed(struct kr_stage *stage, uint64_t block)
{
	KR_SCOPED_LOCK(&stage->lock);
	return kr_stage_failure(stage, block) != 0;
}

int kr_stage_want(struct kr_stage *stage, uint64_t offset, size_t length)
{
	uint64_t block = offset / KR_BLOCK_SIZE, end = (offset + length + KR_BLOCK_SIZE - 1) / KR_BLOCK_SIZE;
	bool coming = false;

	if (!stage->live)
		return -ENOTCONN;
	if (stage->patching || stage->outdated)
		return 0;
	for (; block < end; block++) {
		if (kr_stage_has(stage, block) || has_failed(stage, block))
			continue;
		if (kr_puller_want(&stage->puller, block, NULL) < 0)
			return -ENOMEM;
		coming = true;
	}
	if (coming)
		kr_stage_advance(stage);
	return coming ? 0 : 1;
}

void kr_stage_add_ahead(struct kr_stage *stage, uint64_t from, uint64_t end)
{
	struct kr_range *last = stage->ahead_count ? &stage->ahead[stage->ahead_count - 1] : NULL;

	if (last && from >= last->offset && from <= last->offset + last->length) {
		last->length = KR_MAX(last->offset + last->length, end) - last->offset;
		return;
	}
	if (stage->ahead_count == KR_STAGE_AHEAD)
		memmove(&stage->ahead[0], &stage->ahead[1], sizeof(stage->ahead[0]) * --stage->ahead_count);
	stage->ahead[stage->ahead_count++] = (struct kr_range){from, end - from};
}

void kr_stage_hint(struct kr_stage *stage, uint64_t offset, size_t length)
{
	uint64_t from, end;

	KR_SCOPED_LOCK(&stage->lock);
	if (!stage->live || !kr_readahead_read(&stage->readahead, offset, length, stage->size, &from, &end))
		return;
	kr_stage_add_ahead(stage, from / KR_BLOCK_SIZE, (end + KR_BLOCK_SIZE - 1) / KR_BLOCK_SIZE);
	kr_loop_post(stage->mount->kr_loop, &stage->ahead_task);
}

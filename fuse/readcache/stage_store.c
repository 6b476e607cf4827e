/* Blocks between the network and the disk.
 *
 * A block that has come is held in memory, where reads and peers find it, until a pool job has put it into the cache.
 * If the disk will not keep the block, the block stays in memory as long as there is room. (KR_HOPS_UNKEPT bounds this
 * for the whole mount; the oldest go first.) A reader that wants it later has it fetched again: a full or broken disk
 * costs speed, no read.
 *
 * The budget's share of a block is given back when the block has been put.  So a disk that is slower than the network
 * slows the asking down.  Loop thread, except the jobs.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/base/util.h"
#include "fuse/readcache/hops_priv.h"
#include "fuse/readcache/stage_priv.h"

struct store {
	uv_work_t work;
	struct kr_mount *mount;
	size_t count;
	struct item {
		struct kr_held *held;
		struct kr_cache_entry *entry; /* reference */
		int err;
	} items[KR_STAGE_STORE_BLOCKS];
};

static void start_stores(struct kr_mount *mount);

/* --- blocks in memory ------------------------------------------------------------------------- */

/* HELD is in no table any more. */
static void free_held(struct kr_hops *hops, struct kr_held *held)
{
	if (held->unkept)
		hops->unkept_bytes -= KR_BLOCK_SIZE;
	kr_list_remove(&held->link);
	kr_buf_put(held->buf);
	free(held);
}

/* Takes HELD out of its stage's table; it is freed here, or by the store job that has it. */
static void give_up(struct kr_stage *stage, struct kr_held *held)
{
	kr_table_remove(&stage->held, &held->by_block);
	held->stage = NULL;
}

void kr_stage_drop_held(struct kr_stage *stage)
{
	struct kr_hops *hops = stage->mount->hops;
	struct kr_held *held;
	uint64_t charged = 0;

	pthread_mutex_lock(&stage->lock);
	KR_TABLE_FOR_EACH(held, &stage->held, by_block) {
		give_up(stage, held);
		if (held->storing)
			continue;
		charged += held->charged ? KR_BLOCK_SIZE : 0;
		free_held(hops, held);
	}
	pthread_mutex_unlock(&stage->lock);
	kr_hops_uncharge(hops, charged);
}

struct kr_buf *kr_stage_take_held(struct kr_stage *stage, uint64_t block)
{
	struct kr_hops *hops = stage->mount->hops;
	struct kr_buf *buf;
	struct kr_held *held;

	pthread_mutex_lock(&stage->lock);
	held = kr_stage_find_held(stage, block);
	if (held)
		give_up(stage, held);
	pthread_mutex_unlock(&stage->lock);
	if (!held)
		return NULL;
	buf = kr_buf_get(held->buf);
	if (!held->storing) {
		kr_hops_uncharge(hops, held->charged ? KR_BLOCK_SIZE : 0);
		free_held(hops, held);
	}
	return buf;
}

static void keep_in_memory(struct kr_hops *hops, struct kr_held *held)
{
	held->unkept = true;
	kr_list_append(&hops->unkept, &held->link);
	hops->unkept_bytes += KR_BLOCK_SIZE;
	while (hops->unkept_bytes > KR_HOPS_UNKEPT) {
		struct kr_held *oldest = KR_LIST_ENTRY(hops->unkept.head.next, struct kr_held, link);
		struct kr_stage *stage = oldest->stage;

		pthread_mutex_lock(&stage->lock);
		give_up(stage, oldest);
		pthread_mutex_unlock(&stage->lock);
		free_held(hops, oldest);
	}
}

/* --- to disk ---------------------------------------------------------------------------------- */

static void store(uv_work_t *work)
{
	struct store *job = KR_CONTAINER_OF(work, struct store, work);

	for (size_t i = 0; i < job->count; i++) {
		struct kr_held *held = job->items[i].held;

		job->items[i].err =
			kr_cache_put(job->items[i].entry, held->edition, held->block, held->buf, held->checksum);
	}
}

static void stored_one(struct kr_hops *hops, struct item *item)
{
	struct kr_held *held = item->held;
	struct kr_stage *stage = held->stage, *waiting = stage && stage->whole.waits ? stage : NULL;

	held->storing = false;
	if (stage && item->err < 0 && item->err != -EBUSY && item->err != -EAGAIN && item->err != -ESTALE)
		stage->whole.unkept_err = item->err;
	if (stage && item->err == 0) {
		pthread_mutex_lock(&stage->lock);
		give_up(stage, held);
		pthread_mutex_unlock(&stage->lock);
		stage = NULL;
	}
	kr_hops_uncharge(hops, held->charged ? KR_BLOCK_SIZE : 0);
	held->charged = false;
	if (stage)
		keep_in_memory(hops, held);
	else
		free_held(hops, held);
	if (waiting)
		kr_stage_step(waiting);
	kr_cache_entry_put(item->entry);
}

static void stored(uv_work_t *work, int status)
{
	struct store *job = KR_CONTAINER_OF(work, struct store, work);
	struct kr_mount *mount = job->mount;

	(void)status;
	mount->hops->stores--;
	for (size_t i = 0; i < job->count; i++)
		stored_one(mount->hops, &job->items[i]);
	free(job);
	start_stores(mount);
	kr_stage_evict(mount);
}

static void start_stores(struct kr_mount *mount)
{
	struct kr_hops *hops = mount->hops;

	while (hops->stores < KR_STAGE_STORES && !kr_list_empty(&hops->to_store)) {
		struct store *job = kr_xcalloc(1, sizeof(*job));
		struct kr_held *held;

		job->mount = mount;
		while (job->count < KR_STAGE_STORE_BLOCKS &&
			(held = KR_LIST_POP(&hops->to_store, struct kr_held, link))) {
			held->storing = true;
			job->items[job->count++] = (struct item){held, kr_cache_entry_ref(held->stage->entry), 0};
		}
		hops->stores++;
		uv_queue_work(mount->loop, &job->work, store, stored);
	}
}

void kr_stage_store_again(struct kr_stage *stage)
{
	struct kr_hops *hops = stage->mount->hops;
	struct kr_held *held, *after;

	KR_LIST_FOR_EACH_SAFE(held, after, &hops->unkept, link) {
		if (held->stage != stage)
			continue;
		held->unkept = false;
		held->edition = kr_cache_edition(stage->entry); /* what is in the table is of the present version */
		hops->unkept_bytes -= KR_BLOCK_SIZE;
		kr_list_remove(&held->link);
		kr_list_append(&hops->to_store, &held->link);
	}
	start_stores(stage->mount);
}

/* Readers find BLOCK from now on. */
static void arrived(struct kr_stage *stage, uint64_t block, struct kr_buf *buf, uint64_t checksum)
{
	const struct kr_fetch *fetch = kr_fetches_find(&stage->puller.fetches, block);
	bool demanded = fetch && fetch->why == KR_FETCH_DEMAND;
	struct kr_list waiters;

	kr_list_init(&waiters);
	kr_puller_arrived(&stage->puller, block, &waiters);
	kr_stage_tell(&waiters, 0, buf, checksum);
	if (demanded)
		kr_stage_step(stage);
}

void kr_stage_deliver(struct kr_stage *stage, uint64_t block, struct kr_buf *buf, uint64_t checksum, bool charged)
{
	struct kr_hops *hops = stage->mount->hops;
	struct kr_held *held = kr_xcalloc(1, sizeof(*held));

	*held = (struct kr_held){.stage = stage,
		.buf = kr_buf_get(buf),
		.block = block,
		.checksum = checksum,
		.edition = kr_cache_edition(stage->entry),
		.charged = charged};
	pthread_mutex_lock(&stage->lock);
	kr_table_insert(&stage->held, &held->by_block, kr_hash_u64(block));
	pthread_mutex_unlock(&stage->lock);
	kr_list_append(&hops->to_store, &held->link);
	arrived(stage, block, buf, checksum);
	start_stores(stage->mount);
}

void kr_stage_deliver_whole(struct kr_stage *stage, struct kr_buf *buf, uint64_t checksum)
{
	if (kr_cache_put_memory(stage->entry, kr_cache_edition(stage->entry), buf, checksum) == 0)
		arrived(stage, 0, buf, checksum);
	else
		kr_stage_deliver(stage, 0, buf, checksum, false);
}

void kr_stage_keep(struct kr_stage *stage)
{
	uint64_t checksum;
	struct kr_buf *buf = NULL;

	if (stage->known && !stage->patching)
		buf = kr_cache_unload_memory(stage->entry, &checksum);
	if (buf)
		kr_stage_deliver(stage, 0, buf, checksum, false);
	kr_buf_put(buf);
}

/* --- making room ------------------------------------------------------------------------------ */

struct evict {
	uv_work_t work;
	struct kr_mount *mount;
	bool more;
};

static void evict(uv_work_t *work)
{
	struct evict *job = KR_CONTAINER_OF(work, struct evict, work);

	job->more = kr_cache_evict_step(job->mount->cache);
}

static void evicted(uv_work_t *work, int status)
{
	struct evict *job = KR_CONTAINER_OF(work, struct evict, work);

	(void)status;
	if (job->more && !job->mount->hops->closing) {
		uv_queue_work(job->mount->loop, &job->work, evict, evicted);
		return;
	}
	job->mount->hops->evicting = false;
	free(job);
}

void kr_stage_evict(struct kr_mount *mount)
{
	struct evict *job;

	if (mount->hops->evicting || mount->hops->closing || !kr_cache_wants_eviction(mount->cache))
		return;
	job = kr_xcalloc(1, sizeof(*job));
	job->mount = mount;
	mount->hops->evicting = true;
	uv_queue_work(mount->loop, &job->work, evict, evicted);
}

/* A file that is staged as a whole, for PREFETCH: it comes in passes, until all of its blocks are on the disk.
 *
 * A pass fetches what is absent, and stores again what is in memory only because the disk would not keep it.  It is in
 * vain if the disk has refused a block, and has no more of them than after an earlier pass.  Then the next passes are
 * of one block: a node with a full disk must not pull a file again and again.  The disk's error is the answer when
 * there is no other file in the cache that could make room.  Loop thread.
 */
#include <stdlib.h>

#include "common/base/util.h"
#include "fuse/readcache/cache_format.h"
#include "fuse/readcache/hops_priv.h"
#include "fuse/readcache/stage_priv.h"

enum { PAUSE_MS = 1000 }; /* after a pass that has brought nothing */

/* Where the file's blocks are. */
struct blocks {
	uint64_t absent, first_absent, kept;
	uint64_t storing; /* on their way to the disk */
	uint64_t unkept;  /* in memory only, because the disk would not keep them */
};

static void count_blocks(struct kr_stage *stage, struct blocks *ret)
{
	*ret = (struct blocks){.first_absent = kr_cache_block_count(stage->size)};
	for (uint64_t block = ret->first_absent; block-- > 0;) {
		const struct kr_held *held;

		KR_SCOPED_LOCK(&stage->lock);
		held = stage->entry ? kr_stage_find_held(stage, block) : NULL;
		if (held && held->unkept) {
			ret->unkept++;
		} else if (held) {
			ret->storing++;
		} else if (stage->entry && !stage->patching && kr_cache_has(stage->entry, block)) {
			ret->kept++;
		} else {
			ret->first_absent = block;
			ret->absent++;
		}
	}
}

/* The latest pass has ended.  In vain: the disk would not keep a block, and has no more of them than before. */
static void judge_pass(struct kr_stage *stage, const struct blocks *blocks)
{
	const bool grown = blocks->kept > stage->whole.kept_most, in_vain = stage->whole.unkept_err && !grown;

	if (!in_vain)
		stage->whole.in_vain_ns = 0;
	else if (!stage->whole.in_vain_ns)
		stage->whole.in_vain_ns = kr_clock_ns();
	stage->whole.in_vain_err = in_vain ? stage->whole.unkept_err : 0;
	stage->whole.pass_from_ns = grown ? 0 : kr_clock_ns() + PAUSE_MS * KR_NS_PER_MS;
	stage->whole.kept_most = KR_MAX(stage->whole.kept_most, blocks->kept);
	stage->whole.unkept_err = 0;
	stage->whole.passing = false;
}

/* Whether other files have left the cache since the pass began, or may leave it soon: those that were used a moment ago
 * do not. */
static bool others_go(const struct kr_stage *stage, const struct kr_cache_counters *counters)
{
	return (counters->evicted_bytes != stage->whole.evicted_before ||
		       counters->bytes > kr_cache_present(stage->entry)) &&
		kr_clock_ns() - stage->whole.in_vain_ns < 2 * KR_CACHE_IN_USE_S * KR_NS_PER_S;
}

/* Stores again what is in memory, and fetches what is absent.  After a pass in vain that is one block: a node with a
 * full disk must not pull a file again and again. */
static void begin_pass(struct kr_stage *stage, const struct blocks *blocks)
{
	const uint64_t end = stage->whole.in_vain_ns ? blocks->first_absent + 1 : kr_cache_block_count(stage->size);
	struct kr_cache_counters counters;

	kr_cache_counters(stage->mount->cache, &counters);
	stage->whole.evicted_before = counters.evicted_bytes;
	stage->whole.passing = true;
	kr_stage_store_again(stage);
	if (!blocks->absent)
		return;
	pthread_mutex_lock(&stage->lock);
	kr_stage_add_ahead(stage, blocks->first_absent, end);
	pthread_mutex_unlock(&stage->lock);
}

/* Whether nothing is on its way to the cache, and no room is being made there. */
static bool is_between_passes(const struct kr_stage *stage, const struct blocks *blocks)
{
	return stage->live && kr_puller_idle(&stage->puller) && stage->ahead_count == 0 && !blocks->storing &&
		!stage->mount->hops->evicting;
}

int kr_stage_all(struct kr_stage *stage, uint64_t *ret_bytes)
{
	struct kr_cache_counters counters;
	struct blocks blocks;
	int err;

	kr_stage_keep(stage);
	count_blocks(stage, &blocks);
	kr_cache_counters(stage->mount->cache, &counters);
	stage->whole.waits = blocks.absent || blocks.unkept || blocks.storing;
	*ret_bytes = KR_MIN((blocks.kept + blocks.storing) * KR_BLOCK_SIZE, stage->size);
	if (!stage->whole.waits)
		return 1;
	pthread_mutex_lock(&stage->lock);
	err = kr_stage_failure(stage, blocks.first_absent);
	pthread_mutex_unlock(&stage->lock);
	if (!err && is_between_passes(stage, &blocks)) {
		if (stage->whole.passing)
			judge_pass(stage, &blocks);
		if (stage->whole.in_vain_err && !others_go(stage, &counters))
			err = stage->whole.in_vain_err;
		stage->whole.in_vain_err = 0;
		if (!err && kr_clock_ns() >= stage->whole.pass_from_ns)
			begin_pass(stage, &blocks);
	}
	if (!err)
		kr_stage_advance(stage);
	return err;
}

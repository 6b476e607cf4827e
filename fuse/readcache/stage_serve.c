/* What a stage gives to peers downstream.  Loop thread. */
#include <errno.h>

#include "common/base/util.h"
#include "fuse/readcache/cache_format.h"
#include "fuse/readcache/stage_priv.h"

/* Whether blocks of VERSION are those of the stage: versions are equal, or one of them is volatile and both are under a
 * lease now, as who asks holds READ and so do we.
 */
static bool is_our_version(const struct kr_stage *stage, uint64_t version)
{
	if (!stage->known)
		return false;
	if (version != 0 && stage->version != 0)
		return version == stage->version;
	return stage->live && !kr_mount_fenced(stage->mount);
}

/* WAITER's block has to come first. */
static int wait_for(struct kr_stage *stage, struct kr_stage_waiter *waiter)
{
	if (!stage->live)
		return -ECANCELED;
	if (stage->outdated)
		return -ESTALE;
	if (kr_puller_want(&stage->puller, waiter->block, &waiter->fetch) < 0)
		return -ENOMEM;
	kr_stage_advance(stage);
	return KR_STAGE_WAIT;
}

int kr_stage_serve(struct kr_stage *stage, uint64_t version, struct kr_stage_waiter *waiter, struct kr_buf **ret_buf,
	uint64_t *ret_checksum, struct kr_cache_entry **ret_entry)
{
	struct kr_held *held;

	if (!is_our_version(stage, version))
		return -ESTALE;
	if (waiter->block >= kr_cache_block_count(stage->size))
		return -EINVAL;
	held = kr_stage_find_held(stage, waiter->block); /* the loop is the table's only writer */
	if (held) {
		*ret_buf = kr_buf_get(held->buf);
		*ret_checksum = held->checksum;
		return KR_STAGE_HELD;
	}
	if (stage->loading || stage->patching) {
		kr_list_append(&stage->parked, &waiter->fetch.link);
		return KR_STAGE_WAIT;
	}
	if (kr_cache_has(stage->entry, waiter->block)) {
		*ret_entry = kr_cache_entry_ref(stage->entry);
		return KR_STAGE_ON_DISK;
	}
	return wait_for(stage, waiter);
}

void kr_stage_unserve(struct kr_stage_waiter *waiter)
{
	kr_list_remove(&waiter->fetch.link);
}

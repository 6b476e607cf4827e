/* See holdings.h.  Nothing is fetched, no lease is asked for.  A cache file that has not been looked at since the mount
 * is loaded in the pool first. */
#include "fuse/writeback/holdings.h"

#include <stdlib.h>
#include <uv.h>

#include "fuse/file/file.h"
#include "fuse/readcache/cache.h"
#include "fuse/readcache/stage.h"
#include "fuse/session/rpc.h"
#include "fuse/writeback/flush.h"

struct holding {
	uv_work_t work;
	struct kr_mount *mount;
	struct kr_down down;
	struct kr_fid fid;
	uint64_t version;
	struct kr_cache_entry *entry; /* reference; NULL: the version cannot be found in the cache */
};

static void answer(struct holding *holding)
{
	struct kr_file *file = kr_file_find(holding->mount, &holding->fid);
	struct kr_holds_reply reply = {0};

	if (holding->entry)
		reply.cached = kr_cache_present(holding->entry);
	if (file && file->stage)
		reply.cached = KR_MAX(reply.cached, kr_stage_bytes(file->stage, holding->version));
	if (file)
		reply.unflushed = kr_flush_unflushed(file);
	kr_file_put(file);
	if (!holding->mount->parted)
		kr_rpc_answer(holding->mount->rpc, &holding->down, 0, &reply);
	kr_cache_entry_put(holding->entry);
	free(holding);
}

static void load(uv_work_t *work)
{
	kr_cache_load(KR_CONTAINER_OF(work, struct holding, work)->entry);
}

static void loaded(uv_work_t *work, int status)
{
	(void)status;
	answer(KR_CONTAINER_OF(work, struct holding, work));
}

static void on_holds(struct kr_mount *mount, const struct kr_down *down, const void *message, struct kr_buf *data)
{
	const struct kr_holds_request *request = message;
	struct holding *holding = kr_xcalloc(1, sizeof(*holding));

	(void)data;
	*holding = (struct holding){.mount = mount, .down = *down, .fid = request->file, .version = request->version};
	if (request->version)
		holding->entry = kr_cache_entry_get(mount->cache, &request->file, request->version, request->size);
	if (!holding->entry || !kr_cache_needs_load(holding->entry) ||
		uv_queue_work(mount->loop, &holding->work, load, loaded) < 0)
		answer(holding);
}

void kr_holdings_init(struct kr_mount *mount)
{
	kr_rpc_on(mount->rpc, KR_MSG_HOLDS, on_holds);
}

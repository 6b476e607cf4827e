/* See truncate_barrier.h. */
#include "server/flush/truncate_barrier.h"

#include <stdlib.h>

#include "server/export/export.h"
#include "server/flush/data_state.h"

struct barrier_wait {
	struct kr_request *request;
	struct kr_sfile *file;
	void (*fn)(struct kr_request *request);
};

void kr_truncate_barrier_made(struct kr_request *request)
{
	request->effect.syncs_truncation = true;
}

void kr_truncate_barrier_to(struct kr_request *request, const struct kr_fid *fid, uint64_t size)
{
	struct kr_attr attr;

	if (kr_export_getattr(request->server->export, fid, &attr))
		attr.size = UINT64_MAX;
	if (attr.size != size)
		kr_truncate_barrier_made(request);
	request->effect.shorter = attr.size > size;
}

static void synced(void *context, int err)
{
	struct barrier_wait *wait = context;
	struct kr_request *request = wait->request;
	void (*fn)(struct kr_request *) = wait->fn;

	if (err && wait->file->data->commit.failed) /* else the file is gone */
		kr_commit_lost_change(wait->file);
	free(wait);
	request->err = err;
	fn(request);
}

void kr_truncate_barrier_end(struct kr_request *request, struct kr_sfile *file, void (*fn)(struct kr_request *request))
{
	struct barrier_wait *wait;

	if (!request->effect.syncs_truncation && !file->data->commit.failed) {
		fn(request);
		return;
	}
	wait = kr_xcalloc(1, sizeof(*wait));
	*wait = (struct barrier_wait){.request = request, .file = file, .fn = fn};
	kr_commit_wait(file, false, synced, wait);
}

/* See cuts.h. */
#include "server/cuts.h"

#include <errno.h>
#include <stdlib.h>

#include "common/util.h"
#include "server/export.h"
#include "server/files.h"
#include "server/request.h"
#include "server/server.h"
#include "server/session.h"
#include "server/stable.h"

struct cut_wait {
	struct kr_request *request;
	struct kr_sfile *file;
	void (*fn)(struct kr_request *request);
};

static void synced(void *context, int err)
{
	struct cut_wait wait = *(struct cut_wait *)context;

	free(context);
	wait.request->err = err;
	wait.fn(wait.request);
}

static void synced_before(void *context, int err)
{
	const struct cut_wait *wait = context;

	if (!err && wait->request->session->dead)
		err = -ESTALE;
	synced(context, err);
}

static void synced_after(void *context, int err)
{
	const struct cut_wait *wait = context;

	wait->file->data.stable.cut_owed = err != 0;
	synced(context, err);
}

static void sync_file(struct kr_request *request, struct kr_sfile *file, kr_stable_fn done, void (*fn)(struct kr_request *request))
{
	struct cut_wait *wait = kr_xcalloc(1, sizeof(*wait));

	*wait = (struct cut_wait){.request = request, .file = file, .fn = fn};
	kr_stable_wait(file, request->session->node_id, false, done, wait);
}

void kr_cut_begin(struct kr_request *request, struct kr_sfile *file, void (*fn)(struct kr_request *request))
{
	const struct kr_stable *stable = &file->data.stable;

	request->cancel = NULL;
	request->committed = true;
	request->syncs_cut = stable->applied > stable->good || stable->cut_owed || kr_stable_others(file, request->session->node_id);
	if (request->syncs_cut)
		sync_file(request, file, synced_before, fn);
	else
		fn(request);
}

void kr_cut_made(struct kr_request *request)
{
	request->syncs_cut = true;
}

void kr_cut_to(struct kr_request *request, const struct kr_fid *fid, uint64_t size)
{
	struct kr_attr attr;

	if (kr_export_getattr(request->server->export, fid, &attr))
		attr.size = UINT64_MAX;
	if (attr.size != size)
		kr_cut_made(request);
	request->shorter = attr.size > size;
}

void kr_cut_end(struct kr_request *request, struct kr_sfile *file, void (*fn)(struct kr_request *request))
{
	if (request->syncs_cut)
		sync_file(request, file, synced_after, fn);
	else
		fn(request);
}

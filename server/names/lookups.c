/* LOOKUPS: many names of one directory in one job, for the attribute cache.
 *
 * Each name is looked up as LOOKUP would.  The answer holds a name only if the node may cache the answer of a LOOKUP
 * at that moment.  So an error, a node that writes, or a change under way leaves a name out.  The server makes the
 * answer when it grants it, which is when it sends it.
 */
#include <errno.h>
#include <stdlib.h>

#include "common/rpc/lookups.h"
#include "server/leases/attrs.h"
#include "server/export/export.h"
#include "server/names/name_sync.h"
#include "server/names/names.h"
#include "server/leases/invalidation.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/leases/file_table.h"
#include "server/session/session.h"

struct lookups {
	uint64_t epoch; /* when the job was started */
	struct kr_looked *looked;
	size_t count;
	struct kr_writer found;
};

static void free_lookups(void *state)
{
	struct lookups *lookups = state;

	kr_writer_fini(&lookups->found);
	free(lookups->looked);
	free(lookups);
}

/* -EPROTO: LOOKUPS may not ask that. */
static int take_names(
	const struct kr_bytes *list, char (*texts)[KR_NAME_MAX + 1], const char **names, size_t *ret_count)
{
	char name[KR_NAME_MAX + 1];
	struct kr_reader r;
	size_t count = 0;
	int more;

	kr_reader_init(&r, list->bytes, list->length);
	while ((more = kr_lookups_take_name(&r, name)) > 0) {
		if (count == KR_LOOKUPS_MAX)
			return -EPROTO;
		memcpy(texts[count], name, sizeof(name));
		names[count] = texts[count];
		count++;
	}
	*ret_count = count;
	return more < 0 ? -EPROTO : 0;
}

static void run_lookups(struct kr_request *request)
{
	const struct kr_lookups_request *msg = &request->msg.lookups_request;
	KR_AUTO_FREE char(*texts)[KR_NAME_MAX + 1] = calloc(KR_LOOKUPS_MAX, sizeof(*texts));
	struct lookups *lookups = request->state;
	const char *names[KR_LOOKUPS_MAX];

	request->err = texts ? take_names(&msg->names, texts, names, &lookups->count) : -ENOMEM;
	if (request->err)
		return;
	lookups->looked = kr_xcalloc(lookups->count ? lookups->count : 1, sizeof(*lookups->looked));
	request->err = kr_export_lookup_many(
		request->server->export, &msg->cred, &msg->parent, names, lookups->count, lookups->looked);
}

static void lookups_done(struct kr_request *request)
{
	kr_name_sync_seen(request, kr_request_reply_job);
}

static void handle_lookups(struct kr_request *request)
{
	struct lookups *lookups = kr_xcalloc(1, sizeof(*lookups));

	lookups->epoch = request->server->files->epoch;
	kr_writer_init(&lookups->found);
	request->state = lookups;
	request->free_state = free_lookups;
	kr_request_run(request, run_lookups, lookups_done);
}

/* Whether the node may cache what the job has found under one name; the directory has been granted. */
static bool may_say(struct kr_request *request, const struct kr_looked *looked)
{
	const struct lookups *lookups = request->state;

	if (looked->err)
		return looked->err == -ENOENT;
	request->effect.no_xattrs = looked->bare;
	return !kr_attrs_doubtful(request->server, &looked->fid, request->session->node, lookups->epoch) &&
		kr_attrs_grant(request, &looked->fid);
}

static uint16_t grant_lookups(struct kr_request *request, int err, const void *reply)
{
	struct lookups *lookups = request->state;
	struct kr_writer *w = &lookups->found;

	(void)reply;
	if (err || !kr_invalidation_grant(request, &request->msg.lookups_request.parent))
		return 0;
	for (size_t i = 0; i < lookups->count; i++) {
		const struct kr_looked *looked = &lookups->looked[i];
		struct kr_found found = {.number = (uint8_t)i, .fid = looked->fid, .attr = looked->attr};

		if (!may_say(request, looked))
			continue;
		found.kind = looked->err ? KR_FOUND_NOTHING : looked->bare ? KR_FOUND_BARE : KR_FOUND_FILE;
		kr_lookups_put_found(w, &found);
	}
	if (w->failed || w->length == 0)
		return 0;
	request->reply.lookups_reply.found = (struct kr_bytes){w->bytes, (uint32_t)w->length};
	return KR_FRAME_CACHEABLE;
}

void kr_lookups_register(struct kr_server *server)
{
	kr_server_on(server, KR_MSG_LOOKUPS, handle_lookups, 0);
	kr_invalidation_on(server, KR_MSG_LOOKUPS, NULL, grant_lookups);
}

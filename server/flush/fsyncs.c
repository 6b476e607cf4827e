/* FSYNC: the file is synced (syncs.c), then, for SEEN, others have dropped what they read before (leases.h).
 *
 * Loop thread.  The sync cannot be withdrawn, the wait for others can: a node that does not answer keeps its READ until
 * its session is over.
 */
#include <errno.h>
#include <stdlib.h>

#include "server/flush/data_state.h"
#include "server/leases/leases.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/session/session.h"

/* The wait for others. */
struct seen {
	struct kr_readers_gone gone;
	struct kr_request *request;
};

static void free_seen(void *state)
{
	struct seen *seen = state;

	kr_readers_gone_end(&seen->gone);
	free(seen);
}

static void others_gone(struct kr_readers_gone *gone)
{
	struct seen *seen = KR_CONTAINER_OF(gone, struct seen, gone);

	kr_request_reply(seen->request, 0, NULL, NULL, 0);
}

static void cancel_seen(struct kr_request *request)
{
	struct seen *seen = request->state;

	kr_readers_gone_end(&seen->gone);
}

static void wait_for_others(struct kr_request *request)
{
	struct kr_sfile *file = kr_sfile_find(request->server, &request->msg.fsync_request.file);
	struct seen *seen;

	if (!file || request->session->dead) {
		kr_request_reply(request, 0, NULL, NULL, 0);
		return;
	}
	seen = kr_xcalloc(1, sizeof(*seen));
	seen->request = request;
	request->state = seen;
	request->free_state = free_seen;
	request->cancel = cancel_seen;
	kr_readers_gone_start(&seen->gone, file, request->session, others_gone);
}

static void synced(void *context, int err)
{
	struct kr_request *request = context;

	if (err || !(request->msg.fsync_request.flags & KR_FSYNC_SEEN))
		kr_request_reply(request, err, NULL, NULL, 0);
	else
		wait_for_others(request);
}

static void handle_fsync(struct kr_request *request)
{
	const struct kr_fsync_request *msg = &request->msg.fsync_request;
	struct kr_sfile *file;
	int err;

	if (msg->flags & ~KR_FSYNC_ALL) {
		kr_request_reply(request, -EPROTO, NULL, NULL, 0);
		return;
	}
	request->cancel = NULL; /* answered by the sync, whatever becomes of the session */
	if (msg->flags & KR_FSYNC_APPLIED) {
		synced(request, 0);
		return;
	}
	file = kr_sfile_get(request->server, &msg->file);
	/* This sync would say nothing of what an earlier one has lost, and the node would let go of that. */
	err = kr_commit_error(file, request->session);
	if (err)
		kr_request_reply(request, err, NULL, NULL, 0);
	else
		kr_commit_wait(file, msg->flags & KR_FSYNC_DATA, synced, request);
	kr_sfile_put(file);
}

void kr_fsyncs_register(struct kr_data *data)
{
	kr_server_on(data->server, KR_MSG_FSYNC, handle_fsync, 0);
}

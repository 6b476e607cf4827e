/* FALLOCATE, SEEK, COPY: the asking node has flushed its own bytes, and the server makes the other nodes flush theirs.
 */
#include "server/names/names.h"

#include <stdlib.h>
#include <string.h>

#include "server/leases/attrs.h"
#include "server/flush/flush.h"
#include "server/flush/truncate_barrier.h"
#include "server/export/export.h"
#include "server/leases/leases.h"
#include "server/leases/invalidation.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/session/session.h"

/* Up to two files, locked in the order of their identities so that two COPYs never wait for each other. */
struct space {
	struct kr_operation operations[2];
	struct kr_sfile *files[2];
	uint8_t kinds[2]; /* ALL: it is changed, so the caller's bytes are to be committed, too */
	unsigned count, held;
	struct kr_request *request;
	void (*start)(struct kr_request *request);
};

static void free_space(void *state)
{
	struct space *space = state;

	for (unsigned i = 0; i < space->count; i++) {
		kr_operation_end(&space->operations[i]);
		kr_sfile_put(space->files[i]);
	}
	free(space);
}

static void cancel_space(struct kr_request *request)
{
	struct space *space = request->state;

	for (unsigned i = 0; i < space->count; i++)
		kr_operation_end(&space->operations[i]);
}

static void take_next(struct space *space);

static void take_first(struct kr_operation *operation)
{
	struct space *space = KR_CONTAINER_OF(operation, struct space, operations[0]);

	space->held++;
	take_next(space);
}

static void take_second(struct kr_operation *operation)
{
	struct space *space = KR_CONTAINER_OF(operation, struct space, operations[1]);

	space->held++;
	take_next(space);
}

static void take_next(struct space *space)
{
	unsigned i = space->held;

	if (i == space->count) {
		space->request->effect.committed = true;
		space->request->cancel = NULL;
		space->start(space->request);
		return;
	}
	kr_operation_start(&space->operations[i], space->files[i], space->request->session->node, space->kinds[i],
		space->kinds[i] == KR_LEASE_ALL ? KR_COMMITTED_ALL : KR_COMMITTED_OTHERS,
		i == 0 ? take_first : take_second);
}

static void add_file(struct space *space, const struct kr_fid *fid, uint8_t kinds)
{
	space->files[space->count] = kr_sfile_get(space->request->server, fid);
	space->kinds[space->count++] = kinds;
}

static struct space *space_new(struct kr_request *request, void (*start)(struct kr_request *request))
{
	struct space *space = kr_xcalloc(1, sizeof(*space));

	space->request = request;
	space->start = start;
	request->state = space;
	request->free_state = free_space;
	request->cancel = cancel_space;
	return space;
}

/* --- FALLOCATE -------------------------------------------------------------------------------- */

static void run_fallocate(struct kr_request *request)
{
	const struct kr_fallocate_request *msg = &request->msg.fallocate_request;

	kr_truncate_barrier_made(request);
	request->err = kr_export_fallocate(request->server->export, &msg->cred, &msg->file, msg->mode, msg->offset,
		msg->length, &request->reply.fallocate_reply.attr);
}

static void reply_fallocate(struct kr_request *request, const struct kr_attr *attr)
{
	if (attr)
		request->reply.fallocate_reply.attr = *attr;
	kr_request_reply_job(request);
}

static void look_fallocate(struct kr_request *request)
{
	if (request->err)
		kr_request_reply_job(request);
	else
		kr_attrs_get(request, &request->msg.fallocate_request.file, false, reply_fallocate);
}

static void fallocate_done(struct kr_request *request)
{
	struct kr_sfile *file = ((struct space *)request->state)->files[0];

	kr_sfile_changed(file);
	if (request->err)
		kr_request_reply_job(request);
	else
		kr_truncate_barrier_end(request, file, look_fallocate);
}

static void start_fallocate(struct kr_request *request)
{
	kr_sfile_changing(((struct space *)request->state)->files[0]);
	kr_request_run(request, run_fallocate, fallocate_done);
}

static void handle_fallocate(struct kr_request *request)
{
	struct space *space;

	if (!kr_open_rights_allow(request, &request->msg.fallocate_request.file, KR_OPEN_RIGHT_WRITE))
		return;
	space = space_new(request, start_fallocate);
	add_file(space, &request->msg.fallocate_request.file, KR_LEASE_ALL);
	take_next(space);
}

/* --- SEEK ------------------------------------------------------------------------------------- */

static void run_seek(struct kr_request *request)
{
	const struct kr_seek_request *msg = &request->msg.seek_request;

	request->err = kr_export_seek(
		request->server->export, &msg->file, msg->offset, msg->whence, &request->reply.seek_reply.offset);
}

static void start_seek(struct kr_request *request)
{
	kr_request_run(request, run_seek, kr_request_reply_job);
}

static void handle_seek(struct kr_request *request)
{
	struct space *space;

	if (!kr_open_rights_allow(request, &request->msg.seek_request.file, KR_OPEN_RIGHT_ALL))
		return;
	space = space_new(request, start_seek);
	add_file(space, &request->msg.seek_request.file, KR_LEASE_READ);
	take_next(space);
}

/* --- COPY ------------------------------------------------------------------------------------- */

static void run_copy(struct kr_request *request)
{
	const struct kr_copy_request *msg = &request->msg.copy_request;

	request->err = kr_export_copy(request->server->export, &msg->cred, &msg->from, msg->from_offset, &msg->to,
		msg->to_offset, msg->length, &request->reply.copy_reply.copied);
	if (request->reply.copy_reply.copied)
		kr_truncate_barrier_made(request);
}

static struct kr_sfile *copy_target(struct kr_request *request)
{
	const struct space *space = request->state;

	return kr_fid_equal(&space->files[0]->fid, &request->msg.copy_request.to) ? space->files[0] : space->files[1];
}

static void copy_done(struct kr_request *request)
{
	struct kr_sfile *file = copy_target(request);

	kr_sfile_changed(file);
	if (request->err)
		kr_request_reply_job(request);
	else
		kr_truncate_barrier_end(request, file, kr_request_reply_job);
}

static void start_copy(struct kr_request *request)
{
	kr_sfile_changing(copy_target(request));
	kr_request_run(request, run_copy, copy_done);
}

static void handle_copy(struct kr_request *request)
{
	const struct kr_copy_request *msg = &request->msg.copy_request;
	int order = memcmp(&msg->from, &msg->to, sizeof(msg->from));
	struct space *space;

	if (!kr_open_rights_allow(request, &msg->from, KR_OPEN_RIGHT_READ) ||
		!kr_open_rights_allow(request, &msg->to, KR_OPEN_RIGHT_WRITE))
		return;
	space = space_new(request, start_copy);
	if (order < 0)
		add_file(space, &msg->from, KR_LEASE_READ);
	add_file(space, &msg->to, KR_LEASE_ALL);
	if (order > 0)
		add_file(space, &msg->from, KR_LEASE_READ);
	take_next(space);
}

void kr_file_space_register(struct kr_server *server)
{
	kr_server_on(server, KR_MSG_FALLOCATE, handle_fallocate, KR_HANDLER_KEEP_REPLY);
	kr_server_on(server, KR_MSG_SEEK, handle_seek, 0);
	kr_server_on(server, KR_MSG_COPY, handle_copy, KR_HANDLER_KEEP_REPLY);
	kr_invalidation_changes(server, KR_MSG_FALLOCATE, KR_FID_OFFSET(fallocate_request.file));
	kr_invalidation_changes(server, KR_MSG_COPY, KR_FID_OFFSET(copy_request.to));
}

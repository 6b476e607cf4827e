/* Read pipelines: JOIN and REPARENT of nodes, UPSTREAM to nodes whose place in the pipeline has changed.
 *
 * A file has one pipeline for each ring of which a node reads it; ring/pipeline.h decides which node pulls from which.
 * Each holds a reference to the file.  Loop thread.
 */
#include <stdlib.h>
#include <string.h>

#include "ring/pipeline.h"
#include "server/flush/data_state.h"
#include "server/flush/hop.h"
#include "server/pipelines/block_server.h"
#include "server/pipelines/pipelines.h"
#include "server/session/trust.h"

struct kr_reader_pipeline {
	struct kr_link link;    /* kr_data.pipelines */
	struct kr_link of_file; /* kr_sfile_data.pipelines */
	struct kr_sfile *file;  /* reference */
	char *ring;
	struct kr_pipeline members;
};

/* The ring address of NODE's upstream; the server's when no node can connect to the upstream. */
static void make_hop(
	struct kr_data *data, struct kr_session *session, uint32_t upstream, char *host, struct kr_hop_address *ret)
{
	if (!kr_hop_address_of(data, session, upstream, host, ret))
		kr_hop_address_of(data, session, 0, host, ret);
}

/* Members of PIPELINE get other upstreams. */
struct move {
	struct kr_reader_pipeline *pipeline;
	uint32_t last; /* the member that has moved to the end; 0: none */
};

static void tell_upstream(void *context, uint32_t node, uint32_t upstream)
{
	const struct move *move = context;
	struct kr_sfile *file = move->pipeline->file;
	struct kr_session *session = kr_session_find_node(file->server, node);
	struct kr_upstream_request msg = {.file = file->fid, .last = move->last};
	char host[64];

	if (!session)
		return; /* about to leave too */
	make_hop(kr_data_of(file), session, upstream, host, &msg.upstream);
	kr_callback_send(session, KR_MSG_UPSTREAM, &msg, NULL, NULL);
}

static struct kr_reader_pipeline *find_pipeline(struct kr_sfile *file, const char *ring)
{
	return KR_LIST_FIND(struct kr_reader_pipeline, pipeline, &file->data->pipelines, of_file,
		strcmp(pipeline->ring, ring) == 0);
}

static struct kr_reader_pipeline *get_pipeline(struct kr_sfile *file, const char *ring)
{
	struct kr_reader_pipeline *pipeline = find_pipeline(file, ring);

	if (pipeline)
		return pipeline;
	pipeline = kr_xcalloc(1, sizeof *pipeline);
	pipeline->file = kr_sfile_ref(file);
	pipeline->ring = kr_xstrdup(ring);
	kr_pipeline_init(&pipeline->members);
	kr_list_append(&kr_data_of(file)->pipelines, &pipeline->link);
	kr_list_append(&file->data->pipelines, &pipeline->of_file);
	return pipeline;
}

static void free_pipeline(struct kr_reader_pipeline *pipeline)
{
	kr_list_remove(&pipeline->of_file);
	kr_list_remove(&pipeline->link);
	kr_pipeline_fini(&pipeline->members);
	kr_sfile_put(pipeline->file);
	free(pipeline->ring);
	free(pipeline);
}

static void leave(struct kr_reader_pipeline *pipeline, uint32_t node)
{
	struct move move = {.pipeline = pipeline};

	if (!pipeline)
		return;
	kr_pipeline_leave(&pipeline->members, node, tell_upstream, &move);
	if (kr_pipeline_empty(&pipeline->members))
		free_pipeline(pipeline);
}

/* A small file goes from each node that got it to the next one that asks, without a pipeline: who finds the other one
 * gone asks the server.  A node that has lost its copy asks the server, too, since others may wait for that copy. */
static struct kr_session *assign_copy_holder(struct kr_sfile *file, struct kr_session *session)
{
	struct kr_attachment *attachment = kr_attachment_find(file, session);
	struct kr_session *holder = attachment && !attachment->has_copy ? kr_sfile_copy_holder(file, session, 1) : NULL;

	if (holder)
		kr_attachment_note_copy(attachment);
	return holder;
}

static void handle_join(struct kr_request *request)
{
	struct kr_session *session = request->session;
	struct kr_reader_pipeline *pipeline;
	struct move move = {0};
	struct kr_join_reply reply;
	struct kr_session *holder;
	struct kr_sfile *file;
	uint32_t upstream = 0;
	char host[64];
	int err;

	if (!kr_open_rights_allow(request, &request->msg.join_request.file, KR_OPEN_RIGHT_READ))
		return;
	file = kr_sfile_find(request->server, &request->msg.join_request.file);
	/* Not a member: the node of a user, which pulls from the server alone and whose blocks no node trusts.  Nor a
	 * node without READ, which cannot serve blocks. */
	if (kr_trust_is_user(session) || !file ||
		!(kr_lease_table_held(&file->leases, session->node) & KR_LEASE_READ)) {
		make_hop(request->server->data, session, 0, host, &reply.upstream);
		kr_request_reply(request, 0, &reply, NULL, 0);
		return;
	}
	holder = assign_copy_holder(file, session);
	if (holder) {
		make_hop(request->server->data, session, holder->node, host, &reply.upstream);
		kr_request_reply(request, 0, &reply, NULL, 0);
		return;
	}
	kr_sfile_ref(file);
	pipeline = get_pipeline(file, session->ring.name);
	move.pipeline = pipeline;
	err = kr_pipeline_join(&pipeline->members, session->node, session->name, tell_upstream, &move, &upstream);
	if (err && kr_pipeline_empty(&pipeline->members))
		free_pipeline(pipeline);
	if (err == 0)
		make_hop(request->server->data, session, upstream, host, &reply.upstream);
	kr_request_reply(request, err, err ? NULL : &reply, NULL, 0);
	kr_sfile_put(file);
}

/* COMPLAINT of NODE about its upstream OTHER. */
static void answer_complaint(
	struct kr_reader_pipeline *pipeline, uint8_t complaint, uint32_t node, uint32_t other, uint32_t *ret_upstream)
{
	struct kr_pipeline *members = &pipeline->members;
	struct move move = {pipeline, other};

	if (complaint == KR_COMPLAINT_FAILED) {
		kr_pipeline_reparent(members, node, other, ret_upstream);
		return;
	}
	*ret_upstream = kr_pipeline_upstream(members, node);
	if (complaint == KR_COMPLAINT_SLOW)
		kr_pipeline_put_last(members, node, other, tell_upstream, &move, ret_upstream);
	else
		kr_pipeline_beside(members, node, other, ret_upstream);
}

static void handle_reparent(struct kr_request *request)
{
	struct kr_session *session = request->session;
	const struct kr_reparent_request *msg = &request->msg.reparent_request;
	struct kr_sfile *file = kr_sfile_find(request->server, &msg->file);
	struct kr_reader_pipeline *pipeline = file ? find_pipeline(file, session->ring.name) : NULL;
	struct kr_reparent_reply reply;
	uint32_t upstream = 0; /* also for a node that is no member: it can always pull from the server */
	char host[64];

	if (!kr_open_rights_allow(request, &msg->file, KR_OPEN_RIGHT_READ))
		return;
	if (pipeline && !kr_trust_is_user(session))
		answer_complaint(pipeline, msg->complaint, session->node, msg->node, &upstream);
	make_hop(request->server->data, session, upstream, host, &reply.upstream);
	kr_request_reply(request, 0, &reply, NULL, 0);
}

static void read_lost(struct kr_sfile *file, struct kr_session *session)
{
	leave(find_pipeline(file, session->ring.name), session->node);
}

static void session_lost(struct kr_data *data, struct kr_session *session)
{
	struct kr_reader_pipeline *pipeline, *after;

	KR_LIST_FOR_EACH_SAFE(pipeline, after, &data->pipelines, link)
		leave(pipeline, session->node);
}

static void free_all(struct kr_data *data)
{
	struct kr_reader_pipeline *pipeline, *after;

	KR_LIST_FOR_EACH_SAFE(pipeline, after, &data->pipelines, link)
		free_pipeline(pipeline);
}

void kr_pipelines_register(struct kr_data *data)
{
	data->hooks = (struct kr_pipeline_hooks){
		.close_ring = kr_hop_close_all,
		.pull = kr_block_server_pull,
		.drained = kr_block_server_go_on,
		.closed = kr_block_server_hop_closed,
		.tick = kr_block_server_tick,
		.session_lost = session_lost,
		.end = free_all,
	};
	kr_hops_register(data);
	data->server->files->hooks.read_lost = read_lost;
	kr_server_on(data->server, KR_MSG_JOIN, handle_join, KR_HANDLER_IN_GRACE);
	kr_server_on(data->server, KR_MSG_REPARENT, handle_reparent, KR_HANDLER_IN_GRACE);
}

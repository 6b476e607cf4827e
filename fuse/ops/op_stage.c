/* KR_IOC_STAGE: asks the server to have a file staged by all nodes, and answers with what they have so far. */
#include <errno.h>
#include <stdio.h>

#include "fuse/ops/op_file.h"

static void on_staged(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	const struct kr_stage_reply *reply = message;
	struct kr_stage_state state;

	(void)data;
	if (err) {
		kr_op_reply_err(op, err);
		return;
	}
	state = (struct kr_stage_state){.nodes = reply->nodes,
		.done = reply->done,
		.failed = reply->failed,
		.size = reply->size,
		.bytes = reply->bytes,
		.room = reply->room,
		.error = reply->failed ? (uint32_t)-kr_status_to_errno(reply->error) : 0};
	snprintf(state.node, sizeof(state.node), "%s", reply->node);
	fuse_reply_ioctl(kr_op_finish(op), 0, &state, sizeof(state));
	kr_op_free(op);
}

void kr_op_stage(fuse_req_t req, struct kr_handle *handle, const struct kr_stage_state *asked)
{
	struct kr_stage_request msg;
	struct kr_op *op;

	if (!handle->readable || handle->batch_file) {
		fuse_reply_err(req, EBADF);
		return;
	}
	msg = (struct kr_stage_request){.file = handle->file->fid, .ms = asked->wait_ms};
	op = kr_op_ask(sizeof(*op), req, "stage", KR_MSG_STAGE, &msg, KR_RPC_READ_ONLY, on_staged);
	if (op)
		kr_op_post(op);
}

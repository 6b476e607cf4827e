/* IOCTL: the commands of common/kairan_ioctl.h, and no others. */
#include <errno.h>
#include <stdio.h>

#include "fuse/ops/batch.h"
#include "fuse/base/options.h"
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

/* KR_IOC_STAGE. Any thread. */
static void stage(fuse_req_t req, struct kr_handle *handle, const struct kr_stage_state *asked)
{
	struct kr_stage_request msg;

	if (!handle->readable || handle->batch_file) {
		fuse_reply_err(req, EBADF);
		return;
	}
	msg = (struct kr_stage_request){.file = handle->file->fid, .ms = asked->wait_ms};
	kr_op_request(req, "stage", KR_MSG_STAGE, &msg, KR_RPC_READ_ONLY, on_staged);
}

static void reply_info(fuse_req_t req)
{
	const struct kr_mount_options *options = kr_op_mount(req)->options;
	struct kr_mount_info info = {.version = 2,
		.block_size = KR_BLOCK_SIZE,
		.batch_max = KR_BATCH_MAX,
		.stripe_size = options->stripe_size};
	char host[KR_MOUNT_INFO_NAME] = "";

	if (!options->node)
		gethostname(host, sizeof(host) - 1);
	snprintf(info.node, sizeof(info.node), "%s", options->node ? options->node : host);
	snprintf(info.ring, sizeof(info.ring), "%s", options->ring ? options->ring : "");
	fuse_reply_ioctl(req, 0, &info, sizeof(info));
}

static void set_relaxed(fuse_req_t req, struct kr_handle *handle, const uint32_t *relaxed)
{
	/* All handles of the file share the kernel's pages, and rely on them. */
	if (!handle->direct || handle->batch_file) {
		fuse_reply_err(req, EINVAL);
		return;
	}
	atomic_store(&handle->relaxed, *relaxed != 0);
	if (*relaxed) {
		/* A relaxed handle does not need the READ lease of the open.  READ would cost a flush when other nodes
		 * write. */
		pthread_mutex_lock(&handle->file->lock);
		kr_lease_state_release(&handle->file->holder, KR_LEASE_READ);
		pthread_mutex_unlock(&handle->file->lock);
		kr_file_step(handle->file);
	}
	fuse_reply_ioctl(req, 0, NULL, 0);
}

static void reply_token(fuse_req_t req, struct kr_handle *handle)
{
	struct kr_batch_token token;
	int err = kr_batch_token(kr_op_mount(req)->batches, handle, &token);

	if (err)
		fuse_reply_err(req, -err);
	else
		fuse_reply_ioctl(req, 0, &token, sizeof(token));
}

void kr_op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned command, void *argument, struct fuse_file_info *fi,
	unsigned flags, const void *input, size_t input_size, size_t output_size)
{
	(void)ino, (void)argument;
	if (flags & (FUSE_IOCTL_DIR | FUSE_IOCTL_COMPAT))
		fuse_reply_err(req, ENOTTY);
	else if (command == KR_IOC_INFO && output_size == sizeof(struct kr_mount_info))
		reply_info(req);
	else if (command == KR_IOC_RELAXED && input_size == sizeof(uint32_t))
		set_relaxed(req, kr_handle_of(fi), input);
	else if (command == KR_IOC_BATCH && output_size == sizeof(struct kr_batch_token))
		reply_token(req, kr_handle_of(fi));
	else if (command == KR_IOC_STAGE && input_size == sizeof(struct kr_stage_state) && output_size == input_size)
		stage(req, kr_handle_of(fi), input);
	else
		fuse_reply_err(req, ENOTTY);
}

/* See op_file.h. */
#include "fuse/op_file.h"

static void wake(struct kr_file_waiter *waiter)
{
	struct kr_file_op *op = KR_CONTAINER_OF(waiter, struct kr_file_op, waiter);

	op->op.step(&op->op);
}

void kr_file_op_fini(struct kr_op *op)
{
	struct kr_file_op *file_op = KR_CONTAINER_OF(op, struct kr_file_op, op);

	kr_file_unwait(&file_op->waiter);
	kr_file_put(file_op->file);
}

void *kr_file_op_new(size_t size, fuse_req_t req, const char *name, struct kr_file *file, void (*step)(struct kr_op *op))
{
	struct kr_file_op *op = kr_op_new(size, kr_op_mount(req), req, name, step);

	if (!op)
		return NULL;
	op->op.fini = kr_file_op_fini;
	op->waiter.wake = wake;
	op->file = kr_file_get(file);
	return op;
}

void kr_file_op_wait(struct kr_file_op *op, uint8_t kinds)
{
	kr_file_wait(op->file, &op->waiter);
	kr_file_need(op->file, kinds);
}

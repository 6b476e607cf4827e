/* See op.h.
 *
 * Interrupts: libfuse calls on_interrupt in one of its workers, under the request's lock; on_interrupt only posts a
 * task.  Disarming (kr_op_finish) waits for that lock.  So afterwards no such call is under way, and the op may be
 * freed.  The kernel tells of an interrupt only once, also when a signal that ends the wait follows one that does not.
 * So every tick looks again at the pending signals of each interrupted program.
 */
#include "fuse/ops/op.h"

#include <assert.h>
#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"
#include "fuse/base/counters.h"
#include "fuse/base/cred.h"
#include "fuse/base/lent.h"
#include "fuse/base/options.h"
#include "fuse/base/signals.h"
#include "fuse/ops/kernel_requests.h"

enum { TICK_MS = 200 };
static void on_tick(uv_timer_t *timer);

/* The request that this worker serves now.  An op that is made for it takes it over. */
static _Thread_local struct {
	uint32_t opcode; /* 0: there is none, or an op has it */
	uint64_t received_ns, unique;
} serving;

void kr_op_received(const void *message)
{
	struct fuse_in_header header;

	memcpy(&header, message, sizeof(header));
	serving.opcode = header.opcode;
	serving.unique = header.unique;
	serving.received_ns = kr_clock_ns();
}

void kr_op_served(struct kr_mount *mount)
{
	if (serving.opcode)
		kr_count_request(mount->counters, serving.opcode, kr_clock_ns() - serving.received_ns);
	serving.opcode = 0;
}

static void take_over(struct kr_op *op)
{
	op->opcode = serving.opcode;
	op->started_ns = serving.opcode ? serving.received_ns : kr_clock_ns();
	if (serving.opcode && kr_kernel_requests_watched(op->mount->requests))
		op->unique = serving.unique;
	op->waits_since_ns = op->started_ns;
	serving.opcode = 0;
}

static void start_tick(struct kr_mount *mount)
{
	if (!uv_is_active((uv_handle_t *)&mount->ops.tick))
		uv_timer_start(&mount->ops.tick, on_tick, TICK_MS, TICK_MS);
}

static void run_post(struct kr_task *task)
{
	struct kr_op *op = KR_CONTAINER_OF(task, struct kr_op, post_task);

	op->begun = true;
	kr_list_append(&op->mount->ops.all, &op->all);
	if (op->mount->options->soft)
		start_tick(op->mount);
	if (op->mount->parted) /* kr-notify answers requests for a little longer than there are ops */
		kr_op_reply_err(op, -ENOTCONN);
	else
		op->step(op);
}

void kr_op_waits_for(struct kr_op *op, enum kr_wait wait)
{
	uint64_t now_ns;

	if (!op->unique || wait == op->waits_for)
		return;
	now_ns = kr_clock_ns();
	op->waited_ns[op->waits_for] += now_ns - op->waits_since_ns;
	op->waits_since_ns = now_ns;
	op->waits_for = wait;
}

static void woken(struct kr_waiter *waiter)
{
	struct kr_op *op = KR_CONTAINER_OF(waiter, struct kr_op, waiter);

	if (!op->call)
		kr_op_waits_for(op, KR_WAIT_HERE);
	op->step(op);
}

/* Loop thread. May free the op. */
static void interrupt(struct kr_op *op)
{
	op->interrupted = true;
	if (!op->begun)
		return; /* its first step sees the interrupt */
	if (op->call)
		kr_rpc_cancel(op->mount->rpc, op->call);
	else
		op->step(op);
}

/* Whether the program's pending signals end its wait by now. */
static bool signals_end(const struct kr_op *op, uint64_t now)
{
	if (op->any_signal)
		return true;
	switch (kr_signals_pending(fuse_req_ctx(op->req)->pid)) {
	case KR_SIGNALS_DEADLY:
		return true;
	case KR_SIGNALS_END:
		return now - op->signalled_ns >= KR_SIGNALS_GRACE_MS * KR_NS_PER_MS;
	case KR_SIGNALS_OTHER:
		break;
	}
	return false;
}

static void run_interrupt(struct kr_task *task)
{
	struct kr_op *op = KR_CONTAINER_OF(task, struct kr_op, interrupt_task);

	op->signalled_ns = kr_clock_ns();
	if (signals_end(op, op->signalled_ns))
		interrupt(op);
	else
		start_tick(op->mount);
}

static void on_interrupt(fuse_req_t req, void *data)
{
	struct kr_op *op = data;

	(void)req;
	kr_loop_post(op->mount->kr_loop, &op->interrupt_task);
}

void *kr_op_new(size_t size, struct kr_mount *mount, fuse_req_t req, const char *name, void (*step)(struct kr_op *op))
{
	struct kr_op *op = calloc(1, size);

	assert(size >= sizeof(*op));
	if (!op) {
		fuse_reply_err(req, ENOMEM);
		return NULL;
	}
	op->mount = mount;
	op->req = req;
	op->name = name;
	op->step = step;
	op->waiter.wake = woken;
	op->post_task.fn = run_post;
	op->interrupt_task.fn = run_interrupt;
	take_over(op);
	return op;
}

void kr_op_post(struct kr_op *op)
{
	/* In this order: once the op is posted, the loop may answer and free it. */
	fuse_req_interrupt_func(op->req, on_interrupt, op);
	kr_loop_post(op->mount->kr_loop, &op->post_task);
}

int kr_op_given_up(const struct kr_op *op)
{
	return op->interrupted ? -EINTR : op->late ? -ETIMEDOUT : 0;
}

void kr_ops_start(struct kr_mount *mount)
{
	kr_list_init(&mount->ops.all);
	uv_timer_init(mount->loop, &mount->ops.tick);
	mount->ops.tick.data = mount;
}

/* Finds an op that is late now. */
static struct kr_op *find_late(struct kr_mount *mount, uint64_t now)
{
	return KR_LIST_FIND(struct kr_op, op, &mount->ops.all, all,
		!op->late && !op->call && kr_rpc_silent(mount->rpc, op->started_ns, now));
}

/* Finds an op whose program has a signal that ends its wait now. */
static struct kr_op *find_ended(struct kr_mount *mount, uint64_t now)
{
	return KR_LIST_FIND(
		struct kr_op, op, &mount->ops.all, all, op->signalled_ns && !op->interrupted && signals_end(op, now));
}

static void on_tick(uv_timer_t *timer)
{
	struct kr_mount *mount = timer->data;
	uint64_t now = kr_clock_ns();
	struct kr_op *op;

	if (kr_list_empty(&mount->ops.all))
		uv_timer_stop(timer);
	while ((op = find_ended(mount, now)) != NULL)
		interrupt(op);
	while (mount->options->soft && (op = find_late(mount, now)) != NULL) {
		op->late = true;
		op->step(op);
	}
}

fuse_req_t kr_op_finish(struct kr_op *op)
{
	assert(!op->call);
	fuse_req_interrupt_func(op->req, NULL, NULL);
	kr_loop_forget(op->mount->kr_loop, &op->interrupt_task);
	kr_list_remove(&op->waiter.link);
	kr_list_remove(&op->all);
	if (op->unique) {
		kr_op_waits_for(op, KR_WAIT_HERE);
		kr_kernel_request_waited(op->mount->requests, op->unique, op->waited_ns);
	}
	return op->req;
}

void kr_op_free(struct kr_op *op)
{
	if (op->opcode)
		kr_count_request(op->mount->counters, op->opcode, kr_clock_ns() - op->started_ns);
	if (op->fini)
		op->fini(op);
	kr_call_free(op->prepared);
	free(op->groups);
	free(op);
}

void kr_op_reply_err(struct kr_op *op, int err)
{
	fuse_reply_err(kr_op_finish(op), -err);
	kr_op_free(op);
}

void kr_op_on_nothing(struct kr_op *op, int err, const void *reply, struct kr_buf *data)
{
	(void)reply, (void)data;
	kr_op_reply_err(op, err);
}

static void on_call_reply(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct kr_op *op = context;

	op->call = 0;
	kr_op_waits_for(op, KR_WAIT_HERE);
	op->on_reply(op, err, reply, data);
}

void kr_op_send(struct kr_op *op, uint16_t type, const void *msg, unsigned flags,
	void (*on_reply)(struct kr_op *op, int err, const void *reply, struct kr_buf *data))
{
	assert(!op->call);
	op->on_reply = on_reply;
	kr_op_waits_for(op, KR_WAIT_REQUEST);
	op->call = kr_rpc_call(op->mount->rpc, type, msg, NULL, 0, flags, on_call_reply, op);
}

static void step_ask(struct kr_op *op)
{
	struct kr_call *call = op->prepared;

	if (op->interrupted) {
		kr_op_reply_err(op, -EINTR);
		return;
	}
	assert(!op->call);
	op->prepared = NULL;
	kr_op_waits_for(op, KR_WAIT_REQUEST);
	op->call = kr_rpc_submit(op->mount->rpc, call, op->prepared_flags, on_call_reply, op);
}

void *kr_op_ask(size_t size, fuse_req_t req, const char *name, uint16_t type, const void *msg, unsigned flags,
	void (*on_reply)(struct kr_op *op, int err, const void *reply, struct kr_buf *data))
{
	int err = 0;
	struct kr_call *call = kr_call_new(type, msg, NULL, 0, &err);
	struct kr_op *op;

	if (!call) {
		fuse_reply_err(req, -err);
		return NULL;
	}
	op = kr_op_new(size, kr_op_mount(req), req, name, step_ask);
	if (!op) {
		kr_call_free(call);
		return NULL;
	}
	op->prepared = call;
	op->prepared_flags = flags;
	op->on_reply = on_reply;
	return op;
}

void kr_op_request(fuse_req_t req, const char *name, uint16_t type, const void *msg, unsigned flags,
	void (*on_reply)(struct kr_op *op, int err, const void *reply, struct kr_buf *data))
{
	struct kr_op *op = kr_op_ask(sizeof(*op), req, name, type, msg, flags, on_reply);

	if (op)
		kr_op_post(op);
}

void kr_ops_interrupt(struct kr_mount *mount)
{
	struct kr_list all;
	struct kr_op *op;

	/* In turns over a list of its own: an interrupted op may end itself and others. */
	kr_list_init(&all);
	kr_list_move(&mount->ops.all, &all);
	while ((op = KR_LIST_POP(&all, struct kr_op, all))) {
		kr_list_append(&mount->ops.all, &op->all);
		interrupt(op);
	}
}

/* Reads the groups from the caller's /proc, which takes about 10 us; the caller waits for the answer and cannot change
 * them.  A caller in another process namespace has no number here: then there are no groups. */
static uint32_t find_groups(fuse_req_t req, uint32_t groups[KR_GROUPS_MAX])
{
	int count;

	_Static_assert(sizeof(gid_t) == sizeof(uint32_t), "groups are numbers of 32 bits");
	if (kr_lent())
		return kr_lent_groups(groups, KR_GROUPS_MAX);
	count = fuse_req_getgroups(req, KR_GROUPS_MAX, groups);
	return count < 0 ? 0 : KR_MIN((uint32_t)count, (uint32_t)KR_GROUPS_MAX);
}

void kr_op_cred(fuse_req_t req, struct kr_cred *ret_cred)
{
	static _Thread_local uint32_t groups[KR_GROUPS_MAX];
	const struct fuse_ctx *caller = fuse_req_ctx(req);

	*ret_cred = (struct kr_cred){.uid = caller->uid, .gid = caller->gid};
	if (caller->uid == 0) /* root needs no groups */
		return;
	ret_cred->group_count = find_groups(req, groups);
	ret_cred->groups = ret_cred->group_count ? groups : NULL;
}

void kr_op_keep_cred(struct kr_op *op, struct kr_cred *ret_cred)
{
	kr_op_cred(op->req, ret_cred);
	ret_cred->groups = op->groups = kr_cred_copy_groups(ret_cred);
}

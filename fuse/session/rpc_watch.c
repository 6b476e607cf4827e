/* Calls about a file's bytes that the server leaves unanswered for long: LEASE, FLUSH, FSYNC.  See kr_rpc_watch. */
#include <stdlib.h>

#include "fuse/session/rpc_priv.h"

void kr_rpc_watch(struct kr_rpc *rpc, uint64_t limit_ns, kr_rpc_watch_fn fn, void *context)
{
	rpc->watch = (struct kr_rpc_watch){.limit_ns = limit_ns, .fn = fn, .context = context};
}

static bool is_watched(uint16_t type)
{
	return type == KR_MSG_LEASE || type == KR_MSG_FLUSH || type == KR_MSG_FSYNC;
}

static bool tell(const struct kr_call *call, bool answered, uint64_t now_ns)
{
	const struct kr_rpc_watch *watch = &call->rpc->watch;
	union kr_any_msg *msg = kr_xcalloc(1, sizeof(*msg));
	struct kr_arena arena = {0};
	bool said = false;

	if (kr_msg_decode(call->type, false, call->fields.bytes, call->fields.length, msg, &arena) == 0) {
		const struct kr_fid *fid = call->type == KR_MSG_LEASE ? &msg->lease_request.file :
			call->type == KR_MSG_FLUSH                    ? &msg->flush_request.file :
									&msg->fsync_request.file;

		said = watch->fn(watch->context, call->type, fid, now_ns - call->sent_ns, answered);
	}
	kr_arena_fini(&arena);
	free(msg);
	return said;
}

void kr_rpc_watch_tick(struct kr_rpc *rpc, uint64_t now_ns)
{
	struct kr_call *call;

	if (!rpc->watch.fn || rpc->gate != KR_RPC_OPEN)
		return;
	KR_LIST_FOR_EACH(call, &rpc->calls, link) {
		if (call->on_wire && !call->said && is_watched(call->type) &&
			now_ns - call->sent_ns > rpc->watch.limit_ns)
			call->said = tell(call, false, now_ns);
	}
}

void kr_rpc_watch_ended(const struct kr_call *call)
{
	if (call->said && !call->rpc->stopped)
		tell(call, true, kr_clock_ns());
}

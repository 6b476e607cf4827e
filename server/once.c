/* Executing once: see once.h. */
#include "server/once.h"

#include <errno.h>
#include <stdio.h>

#include "common/log.h"
#include "server/attrs.h"
#include "server/executed.h"
#include "server/export.h"
#include "server/fid.h"
#include "server/server.h"
#include "server/session.h"

enum { EXCHANGE = 2 }; /* RENAME's flag */

static bool is_to_be_remembered(const struct kr_request *request)
{
	switch (request->type) {
	case KR_MSG_SETATTR:
	case KR_MSG_MAKE:
	case KR_MSG_LINK:
	case KR_MSG_REMOVE:
	case KR_MSG_RENAME:
	case KR_MSG_FALLOCATE:
	case KR_MSG_COPY:
	case KR_MSG_SETXATTR:
	case KR_MSG_REMOVEXATTR:
		return true;
	case KR_MSG_OPEN:
		return request->msg.open_request.flags & KR_OPEN_TRUNC;
	case KR_MSG_CREATE:
		return request->msg.create_request.flags & KR_OPEN_TRUNC || request->msg.create_request.exclusive;
	default:
		return false;
	}
}

static struct kr_executed_key key_of(const struct kr_request *request)
{
	struct kr_executed_key key = {.incarnation = request->session->incarnation, .request = request->id};

	memcpy(key.node_id, request->session->node_id, sizeof(key.node_id));
	return key;
}

void kr_once_begin(struct kr_request *request)
{
	struct kr_executed_key key = key_of(request);

	if (request->remembered || !is_to_be_remembered(request))
		return;
	request->remembered = true;
	kr_executed_begin(request->server->executed, &key);
}

/* What of the answer is remembered. */
static uint64_t value_of(const struct kr_request *request)
{
	switch (request->type) {
	case KR_MSG_COPY:
		return request->reply.copy_reply.copied;
	case KR_MSG_MAKE:
		return kr_fid_hash(&request->reply.make_reply.file);
	case KR_MSG_CREATE:
		return kr_fid_hash(&request->reply.create_reply.file);
	default:
		return 0;
	}
}

void kr_once_end(struct kr_request *request, int err)
{
	struct kr_executed_key key = key_of(request);

	if (request->remembered)
		kr_executed_end(request->server->executed, &key, err, err ? 0 : value_of(request));
}

static void reply_attr(struct kr_request *request, const struct kr_attr *attr)
{
	if (attr && request->type == KR_MSG_SETATTR)
		request->reply.setattr_reply.attr = *attr;
	else if (attr && request->type == KR_MSG_FALLOCATE)
		request->reply.fallocate_reply.attr = *attr;
	else if (attr)
		request->reply.link_reply.attr = *attr;
	kr_request_reply_job(request);
}

/* Says what it would have said then. True if REQUEST needs nothing else: what is made is still to be looked for. */
static bool answer(struct kr_request *request, uint64_t value)
{
	/* What waits for the attributes cannot be withdrawn: that would be remembered instead. */
	request->committed = request->type == KR_MSG_SETATTR || request->type == KR_MSG_FALLOCATE || request->type == KR_MSG_LINK;
	switch (request->type) {
	case KR_MSG_OPEN:
		request->msg.open_request.flags &= ~(uint32_t)KR_OPEN_TRUNC;
		return false;
	case KR_MSG_CREATE:
		request->msg.create_request.flags &= ~(uint32_t)KR_OPEN_TRUNC;
		request->made = value;
		return false;
	case KR_MSG_MAKE:
		request->made = value;
		return false;
	case KR_MSG_SETATTR:
		kr_attrs_get(request, &request->msg.setattr_request.file, true, reply_attr);
		return true;
	case KR_MSG_FALLOCATE:
		kr_attrs_get(request, &request->msg.fallocate_request.file, true, reply_attr);
		return true;
	case KR_MSG_LINK:
		request->reply.link_reply.file = request->msg.link_request.file;
		kr_attrs_get(request, &request->msg.link_request.file, true, reply_attr);
		return true;
	case KR_MSG_COPY:
		request->reply.copy_reply.copied = value;
		kr_request_reply_job(request);
		return true;
	default:
		kr_request_reply_job(request);
		return true;
	}
}

/* Whether the memory goes back to when the node sent REQUEST: its session was lost here, or at an instance of this boot. */
static bool was_heard_of(const struct kr_request *request)
{
	switch (request->session->lapse.kind) {
	case KR_LAPSE_KNOWN:
		return true;
	case KR_LAPSE_NONE:
		return kr_executed_inherited(request->server->executed);
	default:
		return false;
	}
}

bool kr_once_settled(struct kr_request *request)
{
	struct kr_executed_key key = key_of(request);
	uint64_t value = 0;
	int err = 0;

	if (!is_to_be_remembered(request))
		return false;
	switch (kr_executed_find(request->server->executed, &key, &err, &value)) {
	case KR_EXECUTED_DONE:
		request->remembered = true;
		if (!err)
			return answer(request, value);
		kr_request_reply(request, err, NULL, NULL, 0);
		return true;
	case KR_EXECUTED_BEGUN:
		/* If its instance has ended, nobody else could come between (what others can see before the answer is remembered as done), and to do it
		 * again does no harm; but two exchanges are none.  If it is under way still for a session that has ended here, others may come between:
		 * of a cut whose sync takes so long that its node is back meanwhile. */
		if (request->type != KR_MSG_RENAME || !(request->msg.rename_request.flags & EXCHANGE))
			return false;
		kr_log_error("node %s: the server ended while it exchanged '%s' and '%s', and cannot tell whether it did",
			request->session->name, request->msg.rename_request.name, request->msg.rename_request.new_name);
		kr_request_reply(request, -EIO, NULL, NULL, 0);
		return true;
	case KR_EXECUTED_UNKNOWN:
		request->maybe_done = !was_heard_of(request) || !kr_executed_never(request->server->executed, &key);
		break;
	}
	return false;
}

/* See slow_requests.h. */
#include "server/leases/slow_requests.h"

#include "common/base/log.h"
#include "server/leases/file_table.h"
#include "server/session/request.h"
#include "server/base/server.h"
#include "server/session/session.h"

static bool is_recent(const struct kr_request *request, uint64_t now_ns)
{
	return now_ns - KR_MIN(now_ns, request->arrived_ns) <=
		KR_SLOW_REQUESTS_LEASES * request->server->lease_ms * KR_NS_PER_MS;
}

/* The file whose lease the request may wait for; NULL. */
static const struct kr_sfile *file_of(const struct kr_request *request)
{
	const union kr_any_msg *msg = &request->msg;
	const struct kr_fid *fid = NULL;

	switch (request->type) {
	case KR_MSG_LEASE:
		fid = &msg->lease_request.file;
		break;
	case KR_MSG_OPEN:
		fid = &msg->open_request.file;
		break;
	case KR_MSG_SETATTR:
		fid = &msg->setattr_request.file;
		break;
	case KR_MSG_FALLOCATE:
		fid = &msg->fallocate_request.file;
		break;
	case KR_MSG_FSYNC:
		fid = &msg->fsync_request.file;
		break;
	default:
		break;
	}
	return fid ? kr_sfile_find(request->server, fid) : NULL;
}

/* The node that has not given back a lease of the file; "": none. */
static const char *awaited(const struct kr_request *request)
{
	const struct kr_sfile *file = file_of(request);
	const struct kr_attachment *attachment;

	if (!file)
		return "";
	KR_LIST_FOR_EACH(attachment, &file->attachments, of_file) {
		if (kr_lease_table_recalling(&file->leases, attachment->session->node))
			return attachment->session->name;
	}
	return "";
}

static unsigned long long seconds(const struct kr_request *request, uint64_t now_ns)
{
	return (now_ns - request->arrived_ns) / KR_NS_PER_S;
}

void kr_slow_requests_tick(struct kr_server *server, uint64_t now_ns)
{
	struct kr_request *request;

	KR_LIST_FOR_EACH(request, &server->sessions->unanswered, of_all) {
		const char *name;

		if (is_recent(request, now_ns))
			return;
		if (request->logged_slow || request->type == KR_MSG_LOCK)
			continue;
		name = awaited(request);
		kr_log_warn("node %s: its %s has waited for %llu s%s%s", request->session->name,
			kr_msg_name(request->type), seconds(request, now_ns),
			*name ? " for a lease that has not been given back by node " : "", name);
		request->logged_slow = true;
	}
}

static void request_ended(struct kr_request *request)
{
	if (request->logged_slow)
		kr_log_info("node %s: its %s has ended after %llu s", request->session->name,
			kr_msg_name(request->type), seconds(request, kr_clock_ns()));
	kr_list_remove(&request->of_all);
}

json_t *kr_slow_requests_status(const struct kr_server *server, uint64_t now_ns)
{
	const struct kr_request *request, *oldest = NULL;
	json_int_t count = 0;

	KR_LIST_FOR_EACH(request, &server->sessions->unanswered, of_all) {
		if (is_recent(request, now_ns))
			break;
		if (request->type == KR_MSG_LOCK)
			continue;
		oldest = oldest ? oldest : request;
		count++;
	}
	return json_pack("{s:I,s:I,s:s,s:s,s:s}", "count", count, "oldest_ms",
		(json_int_t)(oldest ? (now_ns - oldest->arrived_ns) / KR_NS_PER_MS : 0), "request",
		oldest ? kr_msg_name(oldest->type) : "", "node", oldest ? oldest->session->name : "", "for",
		oldest ? awaited(oldest) : "");
}

void kr_slow_requests_init(struct kr_server *server)
{
	server->sessions->hooks.request_ended = request_ended;
}

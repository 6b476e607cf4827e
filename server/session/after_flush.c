/* See after_flush.h. */
#include "server/session/after_flush.h"

#include <errno.h>
#include <string.h>

#include "server/export/export.h"
#include "server/session/request.h"
#include "server/session/session.h"

/* The file of a request that is to wait; NULL: it is not. */
static const struct kr_fid *behind_what(const struct kr_request *request)
{
	if (request->type == KR_MSG_FSYNC && request->msg.fsync_request.flags & KR_FSYNC_BEHIND)
		return &request->msg.fsync_request.file;
	if (request->type == KR_MSG_SETATTR && request->msg.setattr_request.valid & KR_SET_BEHIND)
		return &request->msg.setattr_request.file;
	return NULL;
}

/* The last comes first: mostly it is that. */
static struct kr_request *find_flush(const struct kr_session *session, const struct kr_fid *file)
{
	struct kr_link *link;

	for (link = session->flushes.head.prev; link != &session->flushes.head; link = link->prev) {
		struct kr_request *flush = KR_LIST_ENTRY(link, struct kr_request, after_flush.of_flushes);

		if (kr_fid_equal(&flush->msg.flush_request.file, file))
			return flush;
	}
	return NULL;
}

static void leave(struct kr_request *request)
{
	kr_list_remove(&request->wait);
}

void kr_after_flush_arrived(struct kr_request *request)
{
	if (request->type == KR_MSG_FLUSH)
		kr_list_append(&request->session->flushes, &request->after_flush.of_flushes);
}

void kr_after_flush_wait(struct kr_request *request, void (*next)(struct kr_request *))
{
	const struct kr_fid *file = behind_what(request);
	struct kr_request *flush = file ? find_flush(request->session, file) : NULL;

	if (!flush) {
		next(request);
		return;
	}
	request->after_flush.next = next;
	request->cancel = leave;
	kr_list_append(&flush->after_flush.waiting, &request->wait);
}

void kr_after_flush_answered(struct kr_request *flush, int err)
{
	struct kr_link *link;

	kr_list_remove(&flush->after_flush.of_flushes);
	while ((link = kr_list_pop(&flush->after_flush.waiting))) {
		struct kr_request *request = KR_LIST_ENTRY(link, struct kr_request, wait);

		request->cancel = NULL;
		if (err && request->type == KR_MSG_SETATTR)
			kr_request_reply(request, -EAGAIN, NULL, NULL, 0);
		else
			request->after_flush.next(request);
	}
}

void kr_after_flush_drop(struct kr_request *request)
{
	kr_list_remove(&request->after_flush.of_flushes);
	while (kr_list_pop(&request->after_flush.waiting))
		; /* withdrawn with the session, too */
}

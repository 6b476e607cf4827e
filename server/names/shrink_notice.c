/* See shrink_notice.h. */
#include "server/names/shrink_notice.h"

#include <stdlib.h>

#include "server/leases/file_table.h"
#include "server/leases/leases.h"
#include "server/recovery/request_cache.h"
#include "server/session/request.h"
#include "server/session/session.h"

struct notice {
	struct kr_request *request;
	void (*fn)(struct kr_request *request);
	struct kr_list unanswered; /* struct notified_node */
};

/* A node that was sent the notice. */
struct notified_node {
	struct kr_link link;
	struct notice *notice;
	struct kr_session *session; /* lives while its callback is unanswered */
	uint64_t ask;
};

/* A node without a connection reads nothing, and has to ask for leases when it reconnects. */
static bool concerns(const struct kr_session *session, const struct kr_session *maker)
{
	return session != maker && !session->dead && session->conn;
}

static void end(struct notice *notice)
{
	struct kr_request *request = notice->request;
	void (*fn)(struct kr_request *) = notice->fn;

	free(notice);
	request->job_state = NULL;
	request->hurry = NULL;
	fn(request);
}

static void notice_answered(struct kr_session *session, void *context, int err, const void *reply)
{
	struct notified_node *notified_node = context;
	struct notice *notice = notified_node->notice;

	(void)session, (void)err, (void)reply; /* a session that has ended reads nothing */
	kr_list_remove(&notified_node->link);
	free(notified_node);
	if (kr_list_empty(&notice->unanswered))
		end(notice);
}

/* The node that made the truncation is gone: no program counts on it. */
static void hurry(struct kr_request *request)
{
	struct notice *notice = request->job_state;
	struct notified_node *notified_node;

	while ((notified_node = KR_LIST_POP(&notice->unanswered, struct notified_node, link))) {
		kr_callback_abandon(notified_node->session, notified_node->ask, request->session);
		free(notified_node);
	}
	end(notice);
}

static void notify(struct notice *notice, struct kr_session *session, const struct kr_recall_request *msg)
{
	struct notified_node *notified_node = kr_xcalloc(1, sizeof(*notified_node));

	*notified_node = (struct notified_node){.notice = notice, .session = session};
	notified_node->ask = kr_callback_send(session, KR_MSG_RECALL, msg, notice_answered, notified_node);
	if (notified_node->ask)
		kr_list_append(&notice->unanswered, &notified_node->link);
	else
		free(notified_node);
}

void kr_shrink_notice_send(struct kr_request *request, struct kr_sfile *file, struct kr_operation *operation,
	void (*fn)(struct kr_request *request))
{
	struct kr_recall_request msg = {.file = file->fid};
	const struct kr_attachment *attachment;
	struct notice *notice;

	if (!request->effect.shorter || request->session->dead) {
		fn(request);
		return;
	}
	notice = kr_xcalloc(1, sizeof(*notice));
	*notice = (struct notice){.request = request, .fn = fn};
	kr_list_init(&notice->unanswered);
	KR_LIST_FOR_EACH(attachment, &file->attachments, of_file) {
		if (concerns(attachment->session, request->session))
			notify(notice, attachment->session, &msg);
	}
	request->job_state = notice;
	if (kr_list_empty(&notice->unanswered)) {
		end(notice);
		return;
	}
	request->hurry = hurry;
	kr_request_cache_end(
		request, request->err); /* from here on others may build on it: the server must not execute it again */
	kr_operation_end(operation);
}

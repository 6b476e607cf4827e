/* See shrink_notice.h. */
#include "server/names/shrink_notice.h"

#include <stdlib.h>

#include "server/leases/file_table.h"
#include "server/leases/leases.h"
#include "server/recovery/request_cache.h"
#include "server/session/request.h"
#include "server/session/session.h"

struct telling {
	struct kr_request *request;
	void (*fn)(struct kr_request *request);
	struct kr_list unanswered; /* struct told */
};

/* A node that has been told. */
struct told {
	struct kr_link link;
	struct telling *telling;
	struct kr_session *session; /* lives while its ask is unanswered */
	uint64_t ask;
};

/* Who has no connection reads nothing, and has to ask for leases when it is back. */
static bool concerns(const struct kr_session *session, const struct kr_session *maker)
{
	return session != maker && !session->dead && session->conn;
}

static void end(struct telling *telling)
{
	struct kr_request *request = telling->request;
	void (*fn)(struct kr_request *) = telling->fn;

	free(telling);
	request->job_state = NULL;
	request->hurry = NULL;
	fn(request);
}

static void heard(struct kr_session *session, void *context, int err, const void *reply)
{
	struct told *told = context;
	struct telling *telling = told->telling;

	(void)session, (void)err, (void)reply; /* a session that has ended reads nothing */
	kr_list_remove(&told->link);
	free(told);
	if (kr_list_empty(&telling->unanswered))
		end(telling);
}

/* Nobody is left who would take the cut for made. */
static void hurry(struct kr_request *request)
{
	struct telling *telling = request->job_state;
	struct kr_link *link;

	while ((link = kr_list_pop(&telling->unanswered))) {
		struct told *told = KR_LIST_ENTRY(link, struct told, link);

		kr_callback_abandon(told->session, told->ask, request->session);
		free(told);
	}
	end(telling);
}

static void tell(struct telling *telling, struct kr_session *session, const struct kr_recall_request *msg)
{
	struct told *told = kr_xcalloc(1, sizeof(*told));

	*told = (struct told){.telling = telling, .session = session};
	told->ask = kr_callback_send(session, KR_MSG_RECALL, msg, heard, told);
	if (told->ask)
		kr_list_append(&telling->unanswered, &told->link);
	else
		free(told);
}

void kr_shrink_notice_send(struct kr_request *request, struct kr_sfile *file, struct kr_operation *operation,
	void (*fn)(struct kr_request *request))
{
	struct kr_recall_request msg = {.file = file->fid};
	const struct kr_attachment *attachment;
	struct telling *telling;

	if (!request->effect.shorter || request->session->dead) {
		fn(request);
		return;
	}
	telling = kr_xcalloc(1, sizeof(*telling));
	*telling = (struct telling){.request = request, .fn = fn};
	kr_list_init(&telling->unanswered);
	KR_LIST_FOR_EACH(attachment, &file->attachments, of_file) {
		if (concerns(attachment->session, request->session))
			tell(telling, attachment->session, &msg);
	}
	request->job_state = telling;
	if (kr_list_empty(&telling->unanswered)) {
		end(telling);
		return;
	}
	request->hurry = hurry;
	kr_request_cache_end(
		request, request->err); /* from here on others may build on it: it must not be done again */
	kr_operation_end(operation);
}

/* See shorter.h. */
#include "server/shorter.h"

#include <stdlib.h>

#include "server/files.h"
#include "server/leases.h"
#include "server/once.h"
#include "server/request.h"
#include "server/session.h"

struct telling {
	struct kr_request *request;
	void (*fn)(struct kr_request *request);
	size_t unanswered;
};

/* Who has no connection reads nothing, and has to ask for leases when it is back. */
static bool concerns(const struct kr_session *session, const struct kr_session *maker)
{
	return session != maker && !session->dead && session->conn;
}

static void go_on(struct telling *telling)
{
	struct kr_request *request = telling->request;
	void (*fn)(struct kr_request *) = telling->fn;

	if (--telling->unanswered > 0)
		return;
	free(telling);
	fn(request);
}

static void told(struct kr_session *session, void *context, int err, const void *reply)
{
	(void)session, (void)err, (void)reply; /* a session that has ended reads nothing */
	go_on(context);
}

void kr_shorter_tell(struct kr_request *request, struct kr_sfile *file, struct kr_operation *operation, void (*fn)(struct kr_request *request))
{
	struct kr_recall_request msg = {.file = file->fid};
	const struct kr_attachment *attachment;
	struct telling *telling;

	if (!request->shorter) {
		fn(request);
		return;
	}
	telling = kr_xcalloc(1, sizeof(*telling));
	*telling = (struct telling){.request = request, .fn = fn, .unanswered = 1};
	KR_LIST_FOR_EACH(attachment, &file->attachments, of_file) {
		if (concerns(attachment->session, request->session) && kr_session_ask(attachment->session, KR_MSG_RECALL, &msg, told, telling))
			telling->unanswered++;
	}
	if (telling->unanswered > 1) {
		kr_once_end(request, request->err); /* from here on others may build on it: it must not be done again */
		kr_operation_end(operation);
	}
	go_on(telling);
}

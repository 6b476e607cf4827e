/* See status_relay.h. */
#include "fuse/lend/status_relay.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { UNDER_WAY_MAX = 16 };

struct relay {
	struct kr_link link;  /* in FROM's list */
	struct kr_conn *from; /* NULL: it has ended */
	uint64_t id;
	struct kr_conn *whole; /* the connection that is for it alone; else NULL */
};

static void on_reply(void *context, int err, const void *reply, struct kr_buf *data, bool more)
{
	struct relay *relay = context;

	(void)data;
	if (relay->from)
		kr_conn_reply(relay->from, KR_MSG_STATUS, relay->id, more ? KR_FRAME_MORE : 0, err, reply, NULL, 0);
	if (more)
		return;
	if (relay->whole)
		kr_conn_close(relay->whole, false);
	kr_list_remove(&relay->link);
	free(relay);
}

static bool too_many(const struct kr_list *under_way)
{
	const struct relay *relay;
	int count = 0;

	KR_LIST_FOR_EACH(relay, under_way, link)
		count++;
	return count >= UNDER_WAY_MAX;
}

void kr_status_relay(struct kr_list *under_way, struct kr_conn *from, uint64_t id,
	const struct kr_status_request *request, struct kr_conn *to, bool whole)
{
	struct relay *relay;

	if (!to || strcmp(request->what, "log") == 0 || too_many(under_way)) {
		kr_conn_reply(from, KR_MSG_STATUS, id, 0, to ? -EOPNOTSUPP : -ENOTCONN, NULL, NULL, 0);
		if (to && whole)
			kr_conn_close(to, false);
		return;
	}
	relay = kr_xcalloc(1, sizeof(*relay));
	relay->from = from;
	relay->id = id;
	relay->whole = whole ? to : NULL;
	kr_list_append(under_way, &relay->link);
	if (!kr_conn_request(to, KR_MSG_STATUS, request, NULL, 0, on_reply, relay))
		on_reply(relay, -ENOTCONN, NULL, NULL, false);
}

void kr_status_relays_end(struct kr_list *under_way)
{
	struct relay *relay;

	while ((relay = KR_LIST_POP(under_way, struct relay, link))) {
		relay->from = NULL;
		if (relay->whole)
			kr_conn_close(relay->whole, false);
	}
}

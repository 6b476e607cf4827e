/* The order of replays after the server machine has booted anew.
 *
 * During the grace period all flushes wait (kr_data.collecting).  A node sends all its replays at once, the last one without
 * MORE; when every node that the grace period still awaits has done so (or has said RECLAIM_DONE, or is given up), all
 * are here, and the round machines apply each file's by ascending round.
 */
#include <stdlib.h>

#include "server/data_priv.h"

struct replayer {
	struct kr_link link;
	uint8_t node_id[16];
};

static struct replayer *find(struct kr_data *data, const uint8_t node_id[16])
{
	struct replayer *replayer;

	KR_LIST_FOR_EACH(replayer, &data->replayers, link) {
		if (memcmp(replayer->node_id, node_id, 16) == 0)
			return replayer;
	}
	return NULL;
}

void kr_replays_note(struct kr_data *data, struct kr_session *session, bool more)
{
	struct replayer *replayer;

	if (!data->collecting || more || find(data, session->node_id))
		return;
	replayer = kr_xcalloc(1, sizeof *replayer);
	memcpy(replayer->node_id, session->node_id, sizeof replayer->node_id);
	kr_list_append(&data->replayers, &replayer->link);
}

void kr_replays_forget(struct kr_data *data)
{
	struct kr_link *link;

	while ((link = kr_list_pop(&data->replayers)))
		free(KR_LIST_ENTRY(link, struct replayer, link));
}

void kr_replays_tick(struct kr_data *data)
{
	struct replayer *replayer;
	size_t complete = 0;

	if (!data->collecting)
		return;
	KR_LIST_FOR_EACH(replayer, &data->replayers, link) {
		struct kr_session *session = kr_session_find_node_id(data->server, replayer->node_id);

		complete += session && session->reclaiming;
	}
	if (complete >= kr_grace_awaited(&data->server->grace))
		kr_data_collect_replays(data, false);
}

void kr_data_collect_replays(struct kr_data *data, bool collecting)
{
	if (data->collecting == collecting)
		return;
	data->collecting = collecting;
	kr_replays_forget(data);
	kr_flush_hold(data, collecting);
}

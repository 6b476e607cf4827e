/* See shutdown.h. */
#include "server/daemon/shutdown.h"

#include "common/base/util.h"

enum kr_shutdown_step kr_shutdown_next(struct kr_shutdown *stopping, uint64_t now_ns, size_t jobs, bool idle)
{
	uint64_t waited_ns = now_ns - stopping->since_ns;
	bool late = waited_ns > KR_SERVER_STOP_MS * KR_NS_PER_MS;

	if (stopping->ended && jobs)
		return late ? KR_SHUTDOWN_GIVE_UP : KR_SHUTDOWN_WAIT;
	if (stopping->syncing)
		return KR_SHUTDOWN_CLOSE;
	/* The shutdown may abandon a round that waits for nodes: its bytes are in their journals. */
	if (!late && (jobs || (!idle && waited_ns <= KR_SERVER_STOP_ROUNDS_MS * KR_NS_PER_MS)))
		return KR_SHUTDOWN_WAIT;
	if (!stopping->ended) {
		stopping->ended = true;
		stopping->late = late;
		return KR_SHUTDOWN_END_SESSIONS;
	}
	stopping->syncing = true;
	stopping->since_ns = now_ns;
	return KR_SHUTDOWN_SYNC;
}

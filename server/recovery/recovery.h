/* What the server keeps for recovery, beside the sessions' own part (session/grace.h, session/lapses.h).
 * Loop thread. */
#ifndef KR_SERVER_RECOVERY_H
#define KR_SERVER_RECOVERY_H

#include "server/base/server.h"
#include "server/recovery/conflict_log.h"
#include "server/recovery/clock_setbacks.h"

struct kr_executed;

struct kr_server_recovery {
	struct kr_time started;         /* this instance, by the wall clock */
	struct kr_executed *executed;   /* requests that have been executed */
	struct kr_setbacks setbacks;    /* of the machine's clock */
	struct kr_conflicts conflicts;  /* of late nodes' bytes with what others wrote */
	struct kr_list conflicts_asked; /* CONFLICTs, answered one by one, in turn */
	uint64_t conflict_turn;         /* how many turns there were */
	bool making_conflict;
	struct kr_list restores_asked; /* RESTOREs, executed one by one */
	size_t restored;               /* how many files, since the log last said so */
	bool restoring;
};

#endif

/* Shared by the state directory's opening (state_open.c) and its changes (state.c). */
#ifndef KR_SERVER_STATE_PRIV_H
#define KR_SERVER_STATE_PRIV_H

#include <stdatomic.h>

#include "server/base/clean_shutdown.h"
#include "server/base/state.h"

struct kr_state {
	struct kr_state_facts facts;
	struct kr_clean_shutdown clean_shutdown;
	atomic_bool sync_failed;
	char *path;
	int dir, nodes_dir, lock, export_lock;
	/* Loop thread: record changes that wait for the batch in the pool. */
	struct kr_list changes;
	bool changing;
};

enum { KR_STATE_ID_HEX = 33, KR_STATE_RECORD = 256 };

#endif

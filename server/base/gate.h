/* A bounded share of libuv's thread pool for one kind of work, so that a slow disk never takes all its threads.
 * Jobs above the limit wait in order.  Loop thread.
 */
#ifndef KR_SERVER_GATE_H
#define KR_SERVER_GATE_H

#include "server/daemon/server.h"

struct kr_gate {
	struct kr_server *server;
	size_t limit, running;
	struct kr_list waiting;
};

/* Embedded by the caller; RUN in a pool thread, then DONE in the loop, which may free it. */
struct kr_gate_job {
	struct kr_job job;
	struct kr_gate *gate;
	struct kr_link link;
	void (*run)(struct kr_gate_job *job);
	void (*done)(struct kr_gate_job *job);
};

void kr_gate_init(struct kr_gate *gate, struct kr_server *server, size_t limit);
void kr_gate_start(struct kr_gate *gate, struct kr_gate_job *job, void (*run)(struct kr_gate_job *),
	void (*done)(struct kr_gate_job *));

#endif

/* Bounded work in the pool (see gate.h). */
#include "server/base/gate.h"

void kr_gate_init(struct kr_gate *gate, struct kr_server *server, size_t limit)
{
	gate->server = server;
	gate->limit = limit;
	gate->running = 0;
	kr_list_init(&gate->waiting);
}

static void run_in_pool(struct kr_job *job)
{
	struct kr_gate_job *gated = KR_CONTAINER_OF(job, struct kr_gate_job, job);

	gated->run(gated);
}

static void start_waiting(struct kr_gate *gate);

static void done_in_loop(struct kr_job *job)
{
	struct kr_gate_job *gated = KR_CONTAINER_OF(job, struct kr_gate_job, job);
	struct kr_gate *gate = gated->gate;

	gate->running--;
	start_waiting(gate);
	gated->done(gated);
}

static void start_waiting(struct kr_gate *gate)
{
	while (gate->running < gate->limit) {
		struct kr_link *link = kr_list_pop(&gate->waiting);

		if (!link)
			return;
		gate->running++;
		kr_job_start(gate->server, &KR_LIST_ENTRY(link, struct kr_gate_job, link)->job, run_in_pool, done_in_loop);
	}
}

void kr_gate_start(struct kr_gate *gate, struct kr_gate_job *job, void (*run)(struct kr_gate_job *),
	void (*done)(struct kr_gate_job *))
{
	job->gate = gate;
	job->run = run;
	job->done = done;
	kr_list_append(&gate->waiting, &job->link);
	start_waiting(gate);
}

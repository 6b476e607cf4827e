/* Bounded work in the pool (see pool_share.h). */
#include "server/base/pool_share.h"

void kr_pool_share_init(struct kr_pool_share *gate, struct kr_server *server, size_t limit)
{
	gate->server = server;
	gate->limit = limit;
	gate->running = 0;
	kr_list_init(&gate->waiting);
}

static void run_in_pool(struct kr_job *job)
{
	struct kr_pool_share_job *gated = KR_CONTAINER_OF(job, struct kr_pool_share_job, job);

	gated->run(gated);
}

static void start_waiting(struct kr_pool_share *gate);

static void done_in_loop(struct kr_job *job)
{
	struct kr_pool_share_job *gated = KR_CONTAINER_OF(job, struct kr_pool_share_job, job);
	struct kr_pool_share *gate = gated->gate;

	gate->running--;
	start_waiting(gate);
	gated->done(gated);
}

static void start_waiting(struct kr_pool_share *gate)
{
	while (gate->running < gate->limit) {
		struct kr_link *link = kr_list_pop(&gate->waiting);

		if (!link)
			return;
		gate->running++;
		kr_job_start(gate->server, &KR_LIST_ENTRY(link, struct kr_pool_share_job, link)->job, run_in_pool,
			done_in_loop);
	}
}

void kr_pool_share_start(struct kr_pool_share *gate, struct kr_pool_share_job *job,
	void (*run)(struct kr_pool_share_job *), void (*done)(struct kr_pool_share_job *))
{
	job->gate = gate;
	job->run = run;
	job->done = done;
	kr_list_append(&gate->waiting, &job->link);
	start_waiting(gate);
}

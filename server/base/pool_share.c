#include "server/base/pool_share.h"

void kr_pool_share_init(struct kr_pool_share *share, struct kr_server *server, size_t limit)
{
	share->server = server;
	share->limit = limit;
	share->running = 0;
	kr_list_init(&share->waiting);
}

static void run_in_pool(struct kr_job *job)
{
	struct kr_pool_share_job *share_job = KR_CONTAINER_OF(job, struct kr_pool_share_job, job);

	share_job->run(share_job);
}

static void start_waiting(struct kr_pool_share *share);

static void done_in_loop(struct kr_job *job)
{
	struct kr_pool_share_job *share_job = KR_CONTAINER_OF(job, struct kr_pool_share_job, job);
	struct kr_pool_share *share = share_job->share;

	share->running--;
	start_waiting(share);
	share_job->done(share_job);
}

static void start_waiting(struct kr_pool_share *share)
{
	while (share->running < share->limit) {
		struct kr_pool_share_job *share_job = KR_LIST_POP(&share->waiting, struct kr_pool_share_job, link);

		if (!share_job)
			return;
		share->running++;
		kr_job_start(share->server, &share_job->job, run_in_pool, done_in_loop);
	}
}

void kr_pool_share_start(struct kr_pool_share *share, struct kr_pool_share_job *job,
	void (*run)(struct kr_pool_share_job *), void (*done)(struct kr_pool_share_job *))
{
	job->share = share;
	job->run = run;
	job->done = done;
	kr_list_append(&share->waiting, &job->link);
	start_waiting(share);
}

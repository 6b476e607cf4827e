#include "server/base/server.h"

#include <assert.h>

#include "common/base/util.h"

void kr_server_on(struct kr_server *server, uint16_t type, void (*handle)(struct kr_request *), unsigned flags)
{
	assert(type < KR_SERVER_TYPES && !server->handlers[type].handle);
	server->handlers[type] = (struct kr_handler){.handle = handle, .flags = flags};
}

static void run_job(uv_work_t *work)
{
	struct kr_job *job = KR_CONTAINER_OF(work, struct kr_job, work);

	job->run(job);
}

static void after_job(uv_work_t *work, int status)
{
	struct kr_job *job = KR_CONTAINER_OF(work, struct kr_job, work);

	assert(status == 0); /* nothing calls uv_cancel */
	(void)status;
	job->server->jobs--;
	job->done(job);
}

void kr_job_start(
	struct kr_server *server, struct kr_job *job, void (*run)(struct kr_job *), void (*done)(struct kr_job *))
{
	int err;

	job->server = server;
	job->run = run;
	job->done = done;
	server->jobs++;
	err = uv_queue_work(server->loop, &job->work, run_job, after_job);
	assert(err == 0);
	(void)err;
}

#include "server/base/server.h"

#include <assert.h>

#include "common/base/util.h"

void kr_server_on(struct kr_server *server, uint16_t type, void (*handle)(struct kr_request *), unsigned flags)
{
	assert(type < KR_SERVER_TYPES && !server->handlers[type].handle);
	server->handlers[type] = (struct kr_handler){.handle = handle, .flags = flags};
}

static void run_job(struct kr_brief *brief)
{
	struct kr_job *job = KR_CONTAINER_OF(brief, struct kr_job, brief);

	job->run(job);
}

static void after_job(struct kr_brief *brief)
{
	struct kr_job *job = KR_CONTAINER_OF(brief, struct kr_job, brief);

	job->server->jobs--;
	job->done(job);
}

void kr_job_start(
	struct kr_server *server, struct kr_job *job, void (*run)(struct kr_job *), void (*done)(struct kr_job *))
{
	job->server = server;
	job->run = run;
	job->done = done;
	server->jobs++;
	kr_brief_start(server->loop, &job->brief, !job->is_brief, run_job, after_job);
}

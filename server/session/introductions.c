/* See introductions.h. */
#include "server/session/introductions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/text.h"
#include "common/base/util.h"

void kr_introductions_init(struct kr_introductions *table, uint64_t lease_ns, bool restarted, uint64_t now_ns)
{
	*table =
		(struct kr_introductions){.lease_ns = lease_ns, .heads_from_ns = restarted ? now_ns + lease_ns / 2 : 0};
	kr_list_init(&table->jobs);
}

static void end_job(struct kr_introductions *table, struct kr_introduction *job)
{
	kr_list_remove(&job->link);
	table->count--;
	free(job);
}

void kr_introductions_fini(struct kr_introductions *table)
{
	while (!kr_list_empty(&table->jobs))
		end_job(table, KR_LIST_ENTRY(table->jobs.head.next, struct kr_introduction, link));
}

bool kr_introduction_is_head(const struct kr_introduction *job, const struct kr_introduce_request *request)
{
	return memcmp(job->head, request->member, sizeof(job->head)) == 0;
}

static void forget_silent(struct kr_introductions *table, uint64_t now_ns)
{
	struct kr_introduction *job, *after;

	KR_LIST_FOR_EACH_SAFE(job, after, &table->jobs, link)
		if (now_ns - job->heard_ns > table->lease_ns * (job->port ? KR_JOB_SILENT_LEASES : 1))
			end_job(table, job);
}

static struct kr_introduction *find(struct kr_introductions *table, const char *name, uint32_t uid)
{
	return KR_LIST_FIND(
		struct kr_introduction, job, &table->jobs, link, job->uid == uid && strcmp(job->job, name) == 0);
}

static int check_room(const struct kr_introductions *table, uint32_t uid)
{
	const struct kr_introduction *job;
	size_t own = 0;

	KR_LIST_FOR_EACH(job, &table->jobs, link)
		own += job->uid == uid;
	if (table->count >= KR_JOBS_MAX || (uid && own >= KR_JOBS_USER_MAX))
		return kr_fail(-EUSERS, "there are %zu jobs, %zu of user %u", table->count, own, uid);
	return 0;
}

/* The client becomes the head of a job that has none. */
static int make_job(struct kr_introductions *table, const struct kr_introduce_request *request, uint32_t uid,
	struct kr_introduction **ret_job)
{
	struct kr_introduction *job;
	int err = check_room(table, uid);

	if (err < 0)
		return err;
	job = kr_xcalloc(1, sizeof(*job));
	job->uid = uid;
	memcpy(job->head, request->member, sizeof(job->head));
	strcpy(job->job, request->job);
	strcpy(job->node, request->node);
	kr_list_append(&table->jobs, &job->link);
	table->count++;
	*ret_job = job;
	return 0;
}

/* The head speaks, or a client that was head once. */
static int hear_head(struct kr_introductions *table, struct kr_introduction *job,
	const struct kr_introduce_request *request, uint64_t now_ns, const struct kr_introduction **ret)
{
	if (!kr_introduction_is_head(job, request))
		return kr_fail(-EEXIST, "node %s is the head of job %s", job->node, job->job);
	if (request->flags & KR_INTRODUCE_LEAVE) {
		end_job(table, job);
		return 0;
	}
	job->port = request->port;
	strcpy(job->address, request->address);
	job->heard_ns = now_ns;
	*ret = job;
	return 0;
}

int kr_introduce(struct kr_introductions *table, const struct kr_introduce_request *request, uint32_t uid,
	uint64_t now_ns, const struct kr_introduction **ret)
{
	const bool leaves = request->flags & KR_INTRODUCE_LEAVE;
	struct kr_introduction *job;
	int err = 0;

	*ret = NULL;
	if (!kr_text_is_name(request->job, KR_JOB_NAME_MAX) || !kr_text_is_name(request->node, KR_JOB_NAME_MAX) ||
		strlen(request->address) > KR_JOB_NAME_MAX || (request->port && !*request->address))
		return kr_fail(-EINVAL, "a name of a job or a node, or an address, that is none");
	forget_silent(table, now_ns);
	job = find(table, request->job, uid);
	if (job && request->flags & KR_INTRODUCE_UNANSWERED && now_ns - job->heard_ns > table->lease_ns) {
		end_job(table, job);
		job = NULL;
	}
	if (!job && (leaves || (!request->port && now_ns < table->heads_from_ns)))
		return 0;
	if (!job) {
		err = make_job(table, request, uid, &job);
		if (err < 0)
			return err;
		job->heard_ns = now_ns;
	}
	if (request->port || leaves)
		return hear_head(table, job, request, now_ns, ret);
	*ret = job;
	return 0;
}

json_t *kr_introductions_status(const struct kr_introductions *table, const uint32_t *owner, uint64_t now_ns)
{
	const struct kr_introduction *job;
	json_t *jobs = json_array();

	KR_LIST_FOR_EACH(job, &table->jobs, link) {
		if (owner && job->uid != *owner)
			continue;
		json_array_append_new(jobs,
			json_pack("{s:o, s:I, s:o, s:o, s:i, s:I}", "job", kr_text_json(job->job), "user",
				(json_int_t)job->uid, "node", kr_text_json(job->node), "address",
				kr_text_json(job->address), "port", (int)job->port, "silent_ms",
				(json_int_t)((now_ns - job->heard_ns) / KR_NS_PER_MS)));
	}
	return jobs;
}

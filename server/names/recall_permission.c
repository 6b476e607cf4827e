/* See recall_permission.h. */
#include "server/names/recall_permission.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/export/export.h"
#include "server/base/server.h"
#include "server/session/session.h"

struct check {
	struct kr_job job;
	struct kr_request *request;
	struct kr_sfile *file; /* reference */
	const struct kr_cred *cred;
	bool owner;
	int err;
	void (*next)(struct kr_request *request);
};

static void run(struct kr_job *job)
{
	struct check *check = KR_CONTAINER_OF(job, struct check, job);
	struct kr_export *export = job->server->export;
	struct kr_attr attr;

	check->err = kr_export_access(export, check->cred, &check->file->fid, W_OK);
	if (check->err && check->owner && kr_export_getattr(export, &check->file->fid, &attr) == 0 &&
		attr.uid == check->cred->uid)
		check->err = 0;
}

static void done(struct kr_job *job)
{
	struct check *check = KR_CONTAINER_OF(job, struct check, job);
	struct kr_request *request = check->request;
	struct kr_session *session = kr_session_get(request->session);
	int err = session->dead ? -ENOTCONN : check->err;

	session->flow.running--;
	if (err)
		kr_request_reply(request, err, NULL, NULL, 0);
	else
		check->next(request);
	kr_sfile_put(check->file);
	free(check);
	kr_session_pressure(session);
	kr_session_put(session);
}

void kr_recall_permission_check(struct kr_request *request, struct kr_sfile *file, uint8_t kinds,
	const struct kr_cred *cred, bool owner, void (*next)(struct kr_request *request))
{
	uint8_t in_the_way =
		(kinds & KR_LEASE_WRITE ? KR_LEASE_READ : 0) | (kinds & KR_LEASE_READ ? KR_LEASE_WRITE : 0);
	struct check *check;

	if (!kr_lease_table_others_hold(&file->leases, request->session->node, in_the_way)) {
		next(request);
		return;
	}
	check = kr_xcalloc(1, sizeof(*check));
	*check = (struct check){
		.request = request, .file = kr_sfile_ref(file), .cred = cred, .owner = owner, .next = next};
	request->cancel = NULL; /* it ends soon */
	request->session->flow.running++;
	kr_job_start(request->server, &check->job, run, done);
}

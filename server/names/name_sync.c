/* See name_sync.h. */
#include "server/names/name_sync.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/log.h"
#include "common/rpc/msg.h"
#include "server/base/pool_share.h"
#include "server/base/server.h"
#include "server/export/export.h"
#include "server/names/name_commits.h"
#include "server/session/request.h"
#include "server/session/session.h"

enum { TICK_MS = 1000, PARALLEL = 3 };

struct kr_name_sync {
	struct kr_name_commits commits;
	struct kr_server *server;
	struct kr_pool_share syncs;
	uint64_t ticked_ns;
	int err; /* of the latest sync */
	uint64_t count;
};

/* A sync of a directory. */
struct dir_sync {
	struct kr_pool_share_job shared;
	struct kr_name_sync *owner;
	struct kr_fid dir;
	int err;
	bool vanished; /* the export has */
};

/* A request that waits; request->job_state. */
struct name_wait {
	struct kr_name_waiter waiter;
	struct kr_request *request;
	void (*fn)(struct kr_request *request);
	size_t next; /* the name after the one that it waits for */
};

/* The names that REQUEST changes or reads. */
static size_t names_of(const struct kr_request *request, struct kr_name_of_dir names[KR_NAMES_OF_REQUEST])
{
	const union kr_any_msg *msg = &request->msg;

	switch (request->type) {
	case KR_MSG_LOOKUP:
		names[0] = (struct kr_name_of_dir){&msg->lookup_request.parent, msg->lookup_request.name};
		return 1;
	case KR_MSG_LOOKUPS:
		names[0] = (struct kr_name_of_dir){&msg->lookups_request.parent, NULL};
		return 1;
	case KR_MSG_READDIR:
		names[0] = (struct kr_name_of_dir){&msg->readdir_request.file, NULL};
		return 1;
	case KR_MSG_CREATE:
		names[0] = (struct kr_name_of_dir){&msg->create_request.parent, msg->create_request.name};
		return msg->create_request.name[0] ? 1 : 0;
	case KR_MSG_MAKE:
		names[0] = (struct kr_name_of_dir){&msg->make_request.parent, msg->make_request.name};
		return 1;
	case KR_MSG_LINK:
		names[0] = (struct kr_name_of_dir){&msg->link_request.parent, msg->link_request.name};
		return 1;
	case KR_MSG_REMOVE:
		names[0] = (struct kr_name_of_dir){&msg->remove_request.parent, msg->remove_request.name};
		return 1;
	case KR_MSG_RENAME:
		names[0] = (struct kr_name_of_dir){&msg->rename_request.parent, msg->rename_request.name};
		names[1] = (struct kr_name_of_dir){&msg->rename_request.new_parent, msg->rename_request.new_name};
		return 2;
	default:
		return 0;
	}
}

/* --- waiting ---------------------------------------------------------------------------------- */

static void end_wait(struct name_wait *wait, int err)
{
	struct kr_request *request = wait->request;
	void (*fn)(struct kr_request *) = wait->fn;

	request->cancel = NULL;
	request->job_state = NULL;
	free(wait);
	if (err)
		request->err = err;
	fn(request);
}

static void wait_for_next(struct name_wait *wait)
{
	const struct kr_request *request = wait->request;
	struct kr_name_commits *commits = &request->server->name_sync->commits;
	struct kr_name_of_dir names[KR_NAMES_OF_REQUEST];
	size_t count = names_of(request, names);

	while (wait->next < count && !request->session->dead) { /* a dead session's requests are cancelled once */
		const struct kr_name_of_dir *name = &names[wait->next++];

		if (!kr_name_commits_wait(commits, name->dir, name->name, request->session->node, &wait->waiter))
			return;
	}
	end_wait(wait, 0);
}

static void waited(struct kr_name_waiter *waiter, int err)
{
	struct name_wait *wait = KR_CONTAINER_OF(waiter, struct name_wait, waiter);

	if (err)
		end_wait(wait, err);
	else
		wait_for_next(wait);
}

static void cancel_wait(struct kr_request *request)
{
	struct name_wait *wait = request->job_state;

	kr_name_commits_withdraw(&request->server->name_sync->commits, &wait->waiter);
	request->job_state = NULL;
	free(wait);
}

static void start_wait(struct kr_request *request, void (*fn)(struct kr_request *))
{
	struct name_wait *wait = kr_xcalloc(1, sizeof(*wait));

	wait->request = request;
	wait->fn = fn;
	wait->waiter.go_on = waited;
	request->job_state = wait;
	request->cancel = cancel_wait;
	wait_for_next(wait);
}

/* --- requests --------------------------------------------------------------------------------- */

static void begin(struct kr_request *request)
{
	void (*fn)(struct kr_request *) = request->effect.after_names;
	struct kr_name_of_dir names[KR_NAMES_OF_REQUEST];
	size_t count = names_of(request, names);

	if (request->err) {
		kr_request_reply(request, request->err, NULL, NULL, 0);
		return;
	}
	for (size_t i = 0; i < count; i++)
		request->effect.name_runs[i] = kr_name_commits_begin(
			&request->server->name_sync->commits, names[i].dir, names[i].name, request->session->node);
	fn(request);
}

void kr_name_sync_before(struct kr_request *request, void (*fn)(struct kr_request *))
{
	request->effect.after_names = fn;
	start_wait(request, begin);
}

/* A request that failed has changed nothing, unless the disk is in trouble. */
static bool may_have_changed(const struct kr_request *request)
{
	if (request->err)
		return request->err == -EIO;
	return request->type != KR_MSG_CREATE || request->reply.create_reply.created;
}

void kr_name_sync_changed(struct kr_request *request)
{
	for (size_t i = 0; i < KR_NAMES_OF_REQUEST && request->effect.name_runs[i]; i++) {
		kr_name_commits_end(
			&request->server->name_sync->commits, request->effect.name_runs[i], may_have_changed(request));
		request->effect.name_runs[i] = NULL;
	}
}

void kr_name_sync_seen(struct kr_request *request, void (*fn)(struct kr_request *))
{
	start_wait(request, fn);
}

/* --- syncs ------------------------------------------------------------------------------------ */

static void run_sync(struct kr_pool_share_job *shared)
{
	struct dir_sync *sync = KR_CONTAINER_OF(shared, struct dir_sync, shared);

	sync->err = kr_export_fsync(sync->owner->server->export, &sync->dir, false);
	if (sync->err == -ESTALE)
		sync->err = 0; /* the directory is gone, and its names with it */
	sync->vanished = sync->err && kr_export_tick(sync->owner->server->export);
}

static void sync_done(struct kr_pool_share_job *shared)
{
	struct dir_sync *sync = KR_CONTAINER_OF(shared, struct dir_sync, shared);
	struct kr_name_sync *owner = sync->owner;

	/* Of an export that has vanished the log tells once, for all (daemon/life.c). */
	if (sync->err && sync->err != owner->err && !sync->vanished)
		kr_log_error("syncing a directory failed: %s; nodes wait for the names that others have changed in it",
			strerror(-sync->err));
	owner->err = sync->err;
	owner->count++;
	kr_name_commits_synced(&owner->commits, &sync->dir, sync->err);
	free(sync);
}

static void start_sync(void *context, const struct kr_fid *dir)
{
	struct kr_name_sync *owner = context;
	struct dir_sync *sync = kr_xcalloc(1, sizeof(*sync));

	sync->owner = owner;
	sync->dir = *dir;
	kr_pool_share_start(&owner->syncs, &sync->shared, run_sync, sync_done);
}

/* --- life ------------------------------------------------------------------------------------- */

void kr_name_sync_init(struct kr_server *server)
{
	server->name_sync = kr_xcalloc(1, sizeof(*server->name_sync));
	server->name_sync->server = server;
	kr_pool_share_init(&server->name_sync->syncs, server, PARALLEL);
	kr_name_commits_init(&server->name_sync->commits, start_sync, server->name_sync);
}

void kr_name_sync_tick(struct kr_server *server, uint64_t now_ns)
{
	struct kr_name_sync *owner = server->name_sync;

	if (server->stopping || now_ns - owner->ticked_ns < TICK_MS * KR_NS_PER_MS)
		return;
	owner->ticked_ns = now_ns;
	kr_name_commits_tick(&owner->commits);
}

void kr_name_sync_fini(struct kr_server *server)
{
	if (!server->name_sync)
		return;
	kr_name_commits_fini(&server->name_sync->commits);
	free(server->name_sync);
	server->name_sync = NULL;
}

json_t *kr_name_sync_status(const struct kr_server *server)
{
	const struct kr_name_sync *owner = server->name_sync;

	return json_pack("{s:I,s:I,s:I}", "uncommitted", (json_int_t)owner->commits.names.count, "waits",
		(json_int_t)owner->commits.waits, "syncs", (json_int_t)owner->count);
}

/* Changes of the state directory after its opening. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/fault.h"
#include "common/base/hex.h"
#include "common/base/log.h"
#include "server/base/state_priv.h"

struct change {
	struct kr_link link;
	char file[KR_STATE_ID_HEX];
	char *record; /* NULL: remove */
	int err;
	void (*done)(void *context, int err);
	void *context;
};

/* All changes since the former batch began: one sync for all of them, so that a thousand nodes that start together do
 * not wait for a thousand syncs. */
struct batch {
	struct kr_job job;
	struct kr_state *state;
	struct kr_list changes;
};

/* The link appears complete or not at all. */
static int write_record(int dir, const struct change *change)
{
	static const char temporary[] = "new";

	if (unlinkat(dir, temporary, 0) && errno != ENOENT)
		return kr_fail_errno(-errno, "cannot write the record of node %s", change->file);
	if (symlinkat(change->record, dir, temporary) || renameat(dir, temporary, dir, change->file))
		return kr_fail_errno(-errno, "cannot write the record of node %s", change->file);
	return 0;
}

static int remove_record(int dir, const struct change *change)
{
	if (unlinkat(dir, change->file, 0) && errno != ENOENT)
		return kr_fail_errno(-errno, "cannot remove the record of node %s", change->file);
	return 0;
}

/* A symbolic link's text is part of the directory: syncing that makes it durable. */
static void run_batch(struct kr_job *job)
{
	struct batch *batch = KR_CONTAINER_OF(job, struct batch, job);
	int dir = batch->state->nodes_dir, sync_err;
	struct change *change;

	KR_LIST_FOR_EACH(change, &batch->changes, link) {
		change->err = change->record ? write_record(dir, change) : remove_record(dir, change);
		if (change->err)
			kr_log_error("%s/nodes: %s", batch->state->path, kr_fail_reason());
	}
	sync_err = fsync(dir) ? -errno : 0;
	if (sync_err)
		kr_log_error("cannot sync %s/nodes: %s", batch->state->path, strerror(-sync_err));
	KR_LIST_FOR_EACH(change, &batch->changes, link) {
		if (!change->err)
			change->err = sync_err;
	}
}

static void start_batch(struct kr_server *server);

static void batch_done(struct kr_job *job)
{
	struct batch *batch = KR_CONTAINER_OF(job, struct batch, job);
	struct change *change;

	batch->state->changing = false;
	start_batch(job->server);
	while ((change = KR_LIST_POP(&batch->changes, struct change, link))) {
		if (change->done)
			change->done(change->context, change->err);
		free(change->record);
		free(change);
	}
	free(batch);
}

static void start_batch(struct kr_server *server)
{
	struct kr_state *state = server->state;
	struct batch *batch;

	if (state->changing || kr_list_empty(&state->changes))
		return;
	state->changing = true;
	batch = kr_xcalloc(1, sizeof(*batch));
	batch->state = state;
	kr_list_init(&batch->changes);
	kr_list_move(&state->changes, &batch->changes);
	kr_job_start(server, &batch->job, run_batch, batch_done);
}

/* Takes RECORD. */
static void queue_change(struct kr_server *server, const uint8_t node_id[16], char *record,
	void (*done)(void *context, int err), void *context)
{
	struct change *change = kr_xcalloc(1, sizeof(*change));

	kr_hex_format(node_id, 16, change->file);
	change->record = record;
	change->done = done;
	change->context = context;
	kr_list_append(&server->state->changes, &change->link);
	start_batch(server);
}

void kr_state_add_node(struct kr_server *server, const uint8_t node_id[16], const struct kr_key_owner *owner,
	const char *name, void (*done)(void *context, int err), void *context)
{
	char record[KR_STATE_RECORD];

	if (!owner)
		snprintf(record, sizeof(record), "any %s", name);
	else if (owner->kind == KR_KEY_NODE)
		snprintf(record, sizeof(record), "node %s", name);
	else
		snprintf(record, sizeof(record), "user-%u %s", owner->uid, name);
	queue_change(server, node_id, kr_xstrdup(record), done, context);
}

void kr_state_forget_node(
	struct kr_server *server, const uint8_t node_id[16], void (*done)(void *context, int err), void *context)
{
	queue_change(server, node_id, NULL, done, context);
}

int kr_state_check(const struct kr_state *state)
{
	static const char probe[] = "probe"; /* not an id: a left one is ignored */
	int err = symlinkat(probe, state->nodes_dir, probe) && errno != EEXIST ? -errno : 0;

	if (!err) {
		unlinkat(state->nodes_dir, probe, 0);
		return 0;
	}
	return kr_fail_errno(err, "the state directory %s %s", state->path,
		err == -ENOENT ? "was removed (restore it from a backup, then start kairand again)" :
				 "cannot be written");
}

void kr_state_not_clean(struct kr_state *state)
{
	struct kr_clean_shutdown failed = state->clean_shutdown;

	if (atomic_exchange(&state->sync_failed, true))
		return;
	failed.state = KR_CLEAN_SHUTDOWN_FAILED;
	if (kr_clean_shutdown_write(state->dir, &failed))
		kr_log_error("cannot write to the state directory %s that a sync has failed: %s", state->path,
			kr_fail_reason());
}

int kr_state_sync_export(struct kr_state *state)
{
	int err = KR_FAULT("state.sync");

	if (!err && syncfs(state->export_lock))
		err = -errno;
	if (err) {
		kr_state_not_clean(state);
		kr_log_error("cannot sync the export: %s", strerror(-err));
	}
	return err;
}

bool kr_state_shut_down_cleanly(struct kr_state *state)
{
	struct kr_clean_shutdown stopped = state->clean_shutdown;
	int err;

	if (stopped.state != KR_CLEAN_SHUTDOWN_SERVING)
		return true;
	if (kr_state_sync_export(state))
		return false;
	if (state->sync_failed) /* before: nodes heard of it, and have sent again what it was about, or keep it */
		return true;
	stopped.state = KR_CLEAN_SHUTDOWN_STOPPED;
	err = syncfs(state->dir) ? kr_fail_errno(-errno, "cannot sync it") :
				   kr_clean_shutdown_write(state->dir, &stopped);
	if (err)
		kr_log_warn("cannot write to the state directory %s that this is a clean shutdown: %s", state->path,
			kr_fail_reason());
	return true;
}

const struct kr_state_facts *kr_state_facts(const struct kr_state *state)
{
	return &state->facts;
}

int kr_state_dir(const struct kr_state *state)
{
	return state->dir;
}

const char *kr_state_path(const struct kr_state *state)
{
	return state->path;
}

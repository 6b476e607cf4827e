/* See commit.h.
 *
 * A file is in one of these states: idle; in kr_data.sync_queue; or its sync runs.  What comes up during a sync is
 * taken by the next one.  Each sync job has one file, or all that were waiting.
 */
#include "server/flush/commit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "server/base/options.h"
#include "server/base/state.h"
#include "server/export/export.h"
#include "server/flush/data_state.h"
#include "server/leases/leases.h"
#include "server/session/expiry.h"

/* A node with uncommitted bytes of a file. */
struct writer {
	struct kr_link link;  /* kr_commit.writers */
	uint32_t node;        /* 0: of ended sessions */
	uint64_t seq;         /* the highest of its journal that is applied */
	uint64_t first, last; /* its rounds that are uncommitted; 0: none */
	uint64_t told;        /* the latest STABLE */
	uint64_t owed;    /* it sends its bytes up to here again; 0: nothing; ALL: a successor, before its RECLAIM */
	uint64_t owed_ns; /* ... since */
	uint64_t lost;    /* the latest of its rounds that a failed sync may have lost ... */
	int err;          /* ... with this error, while it owes them */
	unsigned telling; /* UNSTABLEs that it has not answered */
};
enum { ALL = -1 };

struct waiter {
	struct kr_link link;
	kr_commit_fn fn;
	void *context;
};

/* A file's part of a sync job. */
struct file_sync {
	struct kr_link link;   /* sync_job.files */
	struct kr_sfile *file; /* reference */
	struct kr_list waiters;
	uint64_t cover; /* the rounds up to here are in this sync */
	bool data_only;
	bool rewrite; /* writes the bytes again first */
	bool repairs; /* success means that what former syncs may have lost is there */
	bool gone;    /* the file does not exist any more */
	int err;
	uint64_t epoch, changes; /* of begin_rewrite */
};

struct sync_job {
	struct kr_pool_share_job share_job;
	struct kr_data *data;
	struct kr_list files; /* struct file_sync; several: by one syncfs */
	bool together, together_failed;
};

static void enqueue(struct kr_sfile *file);

/* --- writers ---------------------------------------------------------------------------------- */

static struct kr_commit *commit_of(const struct kr_sfile *file)
{
	return &file->data->commit;
}

static struct writer *find_writer(const struct kr_sfile *file, uint32_t node)
{
	struct writer *writer;

	KR_LIST_FOR_EACH(writer, &commit_of(file)->writers, link) {
		if (writer->node == node)
			return writer;
	}
	return NULL;
}

static struct writer *get_writer(struct kr_sfile *file, uint32_t node)
{
	struct writer *writer = find_writer(file, node);

	if (writer)
		return writer;
	writer = kr_xcalloc(1, sizeof(*writer));
	writer->node = node;
	kr_list_append(&commit_of(file)->writers, &writer->link);
	if (!kr_link_linked(&commit_of(file)->writing))
		kr_list_append(&kr_data_of(file)->writing, &commit_of(file)->writing);
	return writer;
}

static void free_writer(struct kr_sfile *file, struct writer *writer)
{
	kr_list_remove(&writer->link);
	if (kr_list_empty(&commit_of(file)->writers))
		kr_list_remove(&commit_of(file)->writing);
	free(writer);
}

/* WRITER has nothing uncommitted any more.  The caller holds FILE. */
static void committed(struct kr_sfile *file, struct writer *writer)
{
	uint32_t node = writer->node;

	free_writer(file, writer);
	kr_leases_committed(file, node, 0);
}

static void drop_writers(struct kr_sfile *file)
{
	while (!kr_list_empty(&commit_of(file)->writers))
		committed(file, KR_LIST_ENTRY(commit_of(file)->writers.head.next, struct writer, link));
}

static void add_rounds(struct writer *writer, uint64_t first, uint64_t last)
{
	writer->first = writer->first ? KR_MIN(writer->first, first) : first;
	writer->last = KR_MAX(writer->last, last);
}

static void owe(struct kr_sfile *file, struct kr_session *session, struct writer *writer, uint64_t seq, int err)
{
	writer->owed = KR_MAX(writer->owed, seq);
	writer->owed_ns = kr_clock_ns();
	writer->err = err;
	kr_leases_uncommitted(file, session, 0);
}

/* WRITER owes nothing (more).  What it has applied is told after the next sync. */
static void owes_nothing(struct kr_sfile *file, struct writer *writer)
{
	writer->owed = writer->told = 0;
	writer->err = 0;
	if (writer->last)
		enqueue(file);
	else
		committed(file, writer);
}

bool kr_commit_is_writer(const struct kr_sfile *file, const struct kr_session *session)
{
	return find_writer(file, session->node) != NULL;
}

int kr_commit_error(const struct kr_sfile *file, const struct kr_session *session)
{
	const struct writer *writer = find_writer(file, session->node);

	return writer && writer->owed ? writer->err : 0;
}

void kr_commit_owe(struct kr_sfile *file, struct kr_session *session, uint64_t seq)
{
	struct writer *writer = seq ? get_writer(file, session->node) : find_writer(file, session->node);

	if (!writer)
		return;
	writer->owed = 0; /* not more than the node says */
	if (seq)
		owe(file, session, writer, seq, 0);
	else
		owes_nothing(file, writer);
}

void kr_commit_refused(struct kr_sfile *file, const struct kr_session *session)
{
	struct writer *writer = find_writer(file, session->node);

	if (writer && writer->owed && !writer->telling)
		owes_nothing(file, writer);
}

void kr_commit_gone(struct kr_sfile *file)
{
	kr_sfile_ref(file);
	drop_writers(file);
	kr_sfile_put(file);
}

uint64_t kr_commit_applied_seq(const struct kr_sfile *file, const uint8_t node_id[16])
{
	return kr_applied_seq(&kr_data_of(file)->applied, &file->fid, node_id);
}

/* The writer's bytes belong to ended sessions, and nobody sends them again. */
static void pass_to_nobody(struct kr_sfile *file, struct writer *writer)
{
	struct writer *nobody;

	if (writer->last <= commit_of(file)->good && !commit_of(file)->failed) {
		committed(file, writer);
		return;
	}
	nobody = get_writer(file, 0);
	add_rounds(nobody, writer->first, writer->last);
	free_writer(file, writer);
	enqueue(file);
}

static void writer_ended(struct kr_sfile *file, struct kr_session *session, struct kr_session *successor)
{
	struct writer *writer = find_writer(file, session->node);

	if (!writer)
		return;
	if (!successor) {
		pass_to_nobody(file, writer);
		return;
	}
	writer->node = successor->node;
	writer->owed = (uint64_t)ALL;
	writer->owed_ns = kr_clock_ns();
	writer->told = 0;
}

static void writer_reclaimed(struct kr_sfile *file, struct kr_session *session)
{
	struct writer *writer = find_writer(file, session->node);

	if (writer && writer->owed == (uint64_t)ALL)
		owes_nothing(file, writer);
}

/* --- what nodes are told ---------------------------------------------------------------------- */

/* A STABLE or UNSTABLE on its way to a node. */
struct told {
	struct kr_sfile *file; /* reference */
	uint64_t round;
};

static struct told *told_new(struct kr_sfile *file, uint64_t round)
{
	struct told *told = kr_xcalloc(1, sizeof(*told));

	*told = (struct told){.file = kr_sfile_ref(file), .round = round};
	return told;
}

static void told_free(struct told *told)
{
	kr_sfile_put(told->file);
	free(told);
}

static void stable_answered(struct kr_session *session, void *context, int err, const void *reply)
{
	struct told *told = context;
	struct writer *writer = err == -ENOTCONN ? NULL : find_writer(told->file, session->node);

	(void)reply;
	if (writer && !writer->owed && writer->last <= told->round) {
		committed(told->file, writer);
	} else if (writer && !writer->owed && writer->first <= told->round) {
		writer->first = told->round + 1;
		kr_leases_committed(told->file, writer->node, writer->first);
	}
	told_free(told);
}

static void tell_stable(struct kr_sfile *file, struct writer *writer)
{
	struct kr_stable_request msg = {.file = file->fid, .round = commit_of(file)->good};
	struct kr_session *session = kr_session_find_node(file->server, writer->node);
	struct told *told;

	if (!session || writer->owed || writer->first > msg.round || KR_MIN(msg.round, writer->last) <= writer->told)
		return;
	writer->told = msg.round;
	told = told_new(file, msg.round);
	if (!kr_callback_send(session, KR_MSG_STABLE, &msg, stable_answered, told))
		told_free(told);
}

static void unstable_answered(struct kr_session *session, void *context, int err, const void *reply)
{
	struct told *told = context;
	struct writer *writer = find_writer(told->file, session->node);

	(void)err, (void)reply;
	if (writer && writer->telling)
		writer->telling--;
	told_free(told);
}

/* The node's rounds after the last good one, up to the last applied, may be lost. */
static void tell_unstable(struct kr_sfile *file, struct writer *writer, int err)
{
	const struct kr_commit *commit = commit_of(file);
	struct kr_unstable_request msg = {
		.file = file->fid, .round = commit->good, .last = commit->applied, .error = kr_status_from_errno(err)};
	struct kr_session *session = kr_session_find_node(file->server, writer->node);
	struct told *told;

	writer->lost = writer->last;
	if (!session)
		return; /* just ending */
	owe(file, session, writer, writer->seq, err);
	told = told_new(file, msg.last);
	if (kr_callback_send(session, KR_MSG_UNSTABLE, &msg, unstable_answered, told))
		writer->telling++;
	else
		told_free(told);
}

/* --- the outcome of a sync -------------------------------------------------------------------- */

static void tell_waiters(struct kr_list *waiters, int err)
{
	struct kr_link *link;

	while ((link = kr_list_pop(waiters))) {
		struct waiter *waiter = KR_LIST_ENTRY(link, struct waiter, link);

		waiter->fn(waiter->context, err);
		free(waiter);
	}
}

static void former_tried(struct kr_sfile *file)
{
	struct kr_data *data = kr_data_of(file);

	if (!commit_of(file)->former)
		return;
	commit_of(file)->former = false;
	if (--data->former_failed == 0)
		data->server->sessions->hooks.end_grace(data->server);
}

static void conclude(struct file_sync *sync)
{
	struct kr_sfile *file = sync->file;
	struct kr_commit *commit = commit_of(file);
	bool again;

	commit->running = false;
	if (commit->rewriting) {
		commit->rewriting = false;
		kr_flush_update_hold_of(file);
	}
	tell_waiters(&sync->waiters, sync->gone ? 0 : sync->err);
	again = !kr_list_empty(&commit->waiters) || (commit->again && !(kr_data_of(file)->stopping && sync->err));
	commit->again = false;
	if (again)
		enqueue(file);
	former_tried(file);
	free(sync);
	kr_sfile_put(file);
}

static void begin_failure(struct kr_sfile *file)
{
	struct kr_commit *commit = commit_of(file);

	commit->failed = true;
	commit->retry_ns = kr_clock_ns() + KR_COMMIT_RETRY_MS * KR_NS_PER_MS;
	if (kr_link_linked(&commit->failing))
		return;
	kr_list_append(&kr_data_of(file)->failing, &commit->failing);
	kr_sfile_ref(file);
}

/* The caller holds FILE. */
static void end_failure(struct kr_sfile *file)
{
	struct kr_commit *commit = commit_of(file);

	if (!commit->failed)
		return;
	commit->failed = false;
	kr_list_remove(&commit->failing);
	kr_failed_syncs_remove(&kr_data_of(file)->failed_syncs, &file->fid);
	kr_sfile_put(file);
}

/* The failure is written down.  Rounds that were applied meanwhile, or run now, count as lost, too. */
static void failure_noted(void *context)
{
	struct file_sync *sync = context;
	struct kr_sfile *file = sync->file;
	struct kr_commit *commit = commit_of(file);
	struct writer *writer;

	begin_failure(file);
	kr_applied_lose(&kr_data_of(file)->applied, &file->fid);
	if (file->data->rounds.state != KR_ROUND_IDLE)
		commit->lost = file->data->rounds.round;
	KR_LIST_FOR_EACH(writer, &commit->writers, link) {
		if (writer->node && writer->last > KR_MAX(commit->good, writer->lost))
			tell_unstable(file, writer, sync->err);
	}
	conclude(sync);
}

static void succeeded(struct file_sync *sync)
{
	struct kr_sfile *file = sync->file;
	struct kr_commit *commit = commit_of(file);
	struct writer *writer, *after;

	commit->good = KR_MAX(commit->good, sync->cover);
	if (sync->repairs || sync->gone)
		end_failure(file);
	if (sync->gone)
		drop_writers(file);
	KR_LIST_FOR_EACH_SAFE(writer, after, &commit->writers, link) {
		if (writer->node)
			tell_stable(file, writer);
		else if (writer->last <= commit->good && !commit->failed)
			committed(file, writer);
	}
	conclude(sync);
}

static void synced(struct file_sync *sync)
{
	struct kr_data *data = kr_data_of(sync->file);

	if (!sync->err || sync->gone) {
		succeeded(sync);
		return;
	}
	data->counters.sync_errors++;
	if (!commit_of(sync->file)->failed)
		kr_log_error(
			"syncing a file failed: %s; its nodes send again what was applied since the last good sync",
			strerror(-sync->err));
	kr_failed_syncs_add(&data->failed_syncs, &sync->file->fid, failure_noted, sync);
}

/* --- in the pool ------------------------------------------------------------------------------ */

enum { REWRITE_BYTES = 1 << 20 };

static bool is_zero(const uint8_t *bytes, size_t length)
{
	return length == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, length - 1) == 0);
}

/* The file's bytes from the page cache, which may be all that has them; holes stay holes. */
static int rewrite_bytes(struct kr_export *export, const struct kr_fid *fid, uint8_t *buffer, uint64_t size)
{
	uint64_t next_data = 0;
	size_t length = 1;
	int err = 0;

	for (uint64_t offset = 0; !err && offset < size && length; offset += length) {
		struct kr_piece piece = {.offset = offset, .data = buffer};

		if (next_data <= offset && kr_export_seek(export, fid, offset, SEEK_DATA, &next_data))
			next_data = size; /* none follows */
		err = kr_export_pread(export, fid, offset, buffer, REWRITE_BYTES, &length);
		piece.length = length;
		if (!err && length && (next_data < offset + length || !is_zero(buffer, length)))
			err = kr_export_pwritev(export, fid, &piece, 1);
	}
	return err;
}

static int rewrite(struct kr_export *export, const struct kr_fid *fid)
{
	KR_AUTO_FREE uint8_t *buffer = malloc(REWRITE_BYTES);
	struct kr_attr attr;
	int err = buffer ? kr_export_getattr(export, fid, &attr) : -ENOMEM;

	if (!err)
		err = rewrite_bytes(export, fid, buffer, attr.size);
	if (!err)
		err = kr_export_written(export, fid, &attr.mtime, false, &attr);
	return err;
}

static void sync_one(struct kr_export *export, struct file_sync *sync)
{
	if (sync->rewrite)
		sync->err = rewrite(export, &sync->file->fid);
	if (!sync->err)
		sync->err = kr_export_fsync(export, &sync->file->fid, sync->data_only);
}

/* By one syncfs, whose error may concern any file. */
static void sync_together(struct sync_job *job, struct kr_export *export)
{
	struct file_sync *sync;

	KR_LIST_FOR_EACH(sync, &job->files, link)
		kr_export_sync_begins(export, &sync->file->fid);
	job->together_failed = syncfs(job->data->syncfs_fd) < 0;
	KR_LIST_FOR_EACH(sync, &job->files, link) {
		if (job->together_failed && !sync->err)
			sync_one(export, sync);
	}
}

static void run(struct kr_pool_share_job *share_job)
{
	struct sync_job *job = KR_CONTAINER_OF(share_job, struct sync_job, share_job);
	struct kr_export *export = job->data->server->export;
	struct file_sync *sync;

	KR_LIST_FOR_EACH(sync, &job->files, link)
		sync->err = KR_FAULT("stable.before");
	if (job->together)
		sync_together(job, export);
	KR_LIST_FOR_EACH(sync, &job->files, link) {
		if (!sync->err && !job->together)
			sync_one(export, sync);
		if (!sync->err)
			sync->err = KR_FAULT("stable.after");
		/* A file that is gone has nothing to lose; but when the whole export is gone, its files are not. */
		sync->gone = sync->err == -ESTALE && kr_export_tick(export) == 0;
		if (sync->err && !sync->gone)
			kr_state_not_clean(job->data->server->state);
	}
}

/* --- the queue -------------------------------------------------------------------------------- */

static void pump(struct kr_data *data);

/* The file's bytes stay what they are. */
static void begin_rewrite(struct file_sync *sync)
{
	struct kr_sfile *file = sync->file;

	commit_of(file)->rewriting = true;
	kr_flush_update_hold_of(file);
	sync->epoch = file->changed_epoch;
	kr_sfile_changing(file);
	sync->changes = file->changes;
}

static void end_rewrite(const struct file_sync *sync)
{
	struct kr_sfile *file = sync->file;
	bool undisturbed = file->changes == sync->changes;

	kr_sfile_changed(file);
	if (undisturbed)
		file->changed_epoch = sync->epoch;
}

static void done(struct kr_pool_share_job *share_job)
{
	struct sync_job *job = KR_CONTAINER_OF(share_job, struct sync_job, share_job);
	struct kr_data *data = job->data;
	struct kr_link *link;

	data->counters.syncs++;
	if (job->together)
		data->syncing_together = false;
	if (job->together_failed) /* a later syncfs would not repeat an error that was another file's */
		data->may_sync_together = false;
	while ((link = kr_list_pop(&job->files))) {
		struct file_sync *sync = KR_LIST_ENTRY(link, struct file_sync, link);

		if (sync->rewrite)
			end_rewrite(sync);
		synced(sync);
	}
	free(job);
	pump(data);
}

static bool any_owes_lost_bytes(const struct kr_commit *commit)
{
	const struct writer *writer;

	KR_LIST_FOR_EACH(writer, &commit->writers, link) {
		if (writer->owed && writer->err)
			return true;
	}
	return false;
}

/* Whether the server has to repair what failed syncs may have lost, since no node sends it again. */
static bool must_rewrite(const struct kr_sfile *file)
{
	return commit_of(file)->failed && find_writer(file, 0);
}

static void add_to_job(struct sync_job *job, struct kr_sfile *file)
{
	struct kr_commit *commit = commit_of(file);
	struct file_sync *sync = kr_xcalloc(1, sizeof(*sync));

	*sync = (struct file_sync){.file = file, .cover = commit->applied, .data_only = !commit->full};
	kr_list_init(&sync->waiters);
	kr_list_move(&commit->waiters, &sync->waiters);
	kr_list_append(&job->files, &sync->link);
	commit->full = false;
	commit->running = true;
	/* A change under way could be undone by a rewrite: then the next try does it. */
	sync->rewrite = must_rewrite(file) && !file->changing && file->data->rounds.state == KR_ROUND_IDLE;
	if (sync->rewrite)
		begin_rewrite(sync);
	sync->repairs = sync->rewrite || (!must_rewrite(file) && !any_owes_lost_bytes(commit));
}

static struct kr_sfile *take_queued(struct kr_data *data)
{
	data->sync_queued--;
	return KR_LIST_ENTRY(kr_list_pop(&data->sync_queue), struct kr_sfile_data, commit.queued)->file;
}

static void start(struct kr_data *data, size_t count, bool together)
{
	struct sync_job *job = kr_xcalloc(1, sizeof(*job));

	job->data = data;
	job->together = together;
	kr_list_init(&job->files);
	while (count-- > 0)
		add_to_job(job, take_queued(data));
	kr_pool_share_start(&data->syncs, &job->share_job, run, done);
}

static void pump(struct kr_data *data)
{
	while (data->sync_queued && data->syncs.running < data->syncs.limit) {
		bool together =
			data->may_sync_together && !data->syncing_together && data->sync_queued > KR_COMMIT_MANY;

		data->syncing_together |= together;
		start(data, together ? KR_MIN(data->sync_queued, (size_t)KR_COMMIT_TOGETHER) : 1, together);
	}
}

/* Queues FILE; a running sync is followed by another. */
static void enqueue(struct kr_sfile *file)
{
	struct kr_data *data = kr_data_of(file);
	struct kr_commit *commit = commit_of(file);

	if (commit->running) {
		commit->again = true;
	} else if (!kr_link_linked(&commit->queued)) {
		kr_sfile_ref(file);
		kr_list_append(&data->sync_queue, &commit->queued);
		data->sync_queued++;
		pump(data);
	}
}

void kr_commit_wait(struct kr_sfile *file, bool data_only, kr_commit_fn fn, void *context)
{
	struct waiter *waiter = kr_xcalloc(1, sizeof(*waiter));

	*waiter = (struct waiter){.fn = fn, .context = context};
	kr_list_append(&commit_of(file)->waiters, &waiter->link);
	commit_of(file)->full |= !data_only;
	enqueue(file);
}

/* --- rounds ----------------------------------------------------------------------------------- */

/* Whose the bytes of PART are: its session may have ended during the round. */
static struct kr_session *session_of(const struct kr_sfile *file, const struct kr_flush_part *part)
{
	struct kr_session *session = kr_session_find_node(file->server, part->node), *successor;

	if (session)
		return session;
	successor = kr_session_find_node_id(file->server, part->node_id);
	return successor && successor->recovery.inheriting ? successor : NULL;
}

void kr_commit_applied(struct kr_sfile *file, const struct kr_flush_part *part, uint64_t round)
{
	struct kr_commit *commit = commit_of(file);
	struct kr_session *session = session_of(file, part);
	struct writer *writer = get_writer(file, session ? session->node : 0);

	commit->applied = KR_MAX(commit->applied, round);
	commit->full = true;
	add_rounds(writer, round, round);
	writer->seq = KR_MAX(writer->seq, part->seq);
	if (!session)
		kr_leases_uncommitted_of_ended(file, round);
	else
		kr_leases_uncommitted(file, session, round);
	if (session && session->node != part->node) {
		if (!writer->owed)
			owe(file, session, writer, (uint64_t)ALL, 0); /* until its RECLAIM */
	} else if (session && round <= commit->lost) {
		tell_unstable(file, writer, writer->err ? writer->err : -EIO);
	} else if (writer->owed && !writer->telling && part->seq >= writer->owed) {
		/* a FLUSH has all of the node's bytes, those that it had lost included, if it came after UNSTABLE's
		 * answer */
		writer->owed = 0;
		writer->err = 0;
		writer->first = round;
	}
	if (session && !writer->owed)
		kr_applied_note(&kr_data_of(file)->applied, &file->fid, part->node_id, part->seq);
	enqueue(file);
}

void kr_commit_lost_change(struct kr_sfile *file)
{
	add_rounds(get_writer(file, 0), 1, 1);
	commit_of(file)->applied = KR_MAX(commit_of(file)->applied, UINT64_C(1));
	kr_leases_uncommitted_of_ended(file, 0);
}

/* --- the whole -------------------------------------------------------------------------------- */

/* A session that is alive, and does not send what it owes, while others wait for that. */
static void end_patience(struct kr_sfile *file, uint64_t now_ns)
{
	const uint64_t patience_ns = KR_SESSION_CLAIM_LEASES * file->server->lease_ms * KR_NS_PER_MS;
	const struct writer *writer;

	if (kr_list_empty(&file->leases.waiting))
		return;
	KR_LIST_FOR_EACH(writer, &commit_of(file)->writers, link) {
		struct kr_session *session = writer->owed ? kr_session_find_node(file->server, writer->node) : NULL;

		if (!session || session->expiry.unresponsive || now_ns < writer->owed_ns + patience_ns ||
			kr_rounds_asked_by(&file->data->rounds, writer->node))
			continue;
		kr_log_warn("node %s does not send again what may be lost of a file", session->name);
		kr_session_silence(session);
	}
}

void kr_commit_tick(struct kr_data *data, uint64_t now_ns)
{
	struct kr_commit *commit;

	KR_LIST_FOR_EACH(commit, &data->failing, failing) {
		struct kr_sfile *file = KR_CONTAINER_OF(commit, struct kr_sfile_data, commit)->file;

		if (now_ns < commit->retry_ns || commit->running || data->stopping)
			continue;
		commit->retry_ns = now_ns + KR_COMMIT_RETRY_MS * KR_NS_PER_MS;
		if (must_rewrite(file) || !any_owes_lost_bytes(commit))
			enqueue(file);
	}
	KR_LIST_FOR_EACH(commit, &data->writing, writing)
		end_patience(KR_CONTAINER_OF(commit, struct kr_sfile_data, commit)->file, now_ns);
}

bool kr_commit_idle(const struct kr_data *data)
{
	return data->sync_queued == 0 && data->syncs.running == 0 && !kr_failed_syncs_busy(&data->failed_syncs);
}

bool kr_commit_recovered(const struct kr_data *data)
{
	return data->former_failed == 0;
}

void kr_commit_file_init(struct kr_sfile *file)
{
	struct kr_commit *commit = commit_of(file);

	kr_list_init(&commit->writers);
	kr_list_init(&commit->waiters);
	kr_link_init(&commit->writing);
	kr_link_init(&commit->queued);
	kr_link_init(&commit->failing);
}

/* FID stands in the log of a former instance.  The first tick tries it. */
static void take_former(void *context, const struct kr_fid *fid)
{
	struct kr_data *data = context;
	struct kr_sfile *file = kr_sfile_get(data->server, fid);

	kr_commit_lost_change(file);
	begin_failure(file);
	commit_of(file)->retry_ns = 0;
	commit_of(file)->former = true;
	data->former_failed++;
	kr_sfile_put(file);
}

/* Linux tells errors of write-backs by syncfs since 5.8. */
static bool syncfs_tells_errors(void)
{
	struct utsname name;
	unsigned major = 0, minor = 0;

	return uname(&name) == 0 && sscanf(name.release, "%u.%u", &major, &minor) == 2 &&
		(major > 5 || (major == 5 && minor >= 8));
}

int kr_commit_init(struct kr_data *data)
{
	struct kr_server *server = data->server;

	kr_list_init(&data->writing);
	kr_list_init(&data->failing);
	kr_list_init(&data->sync_queue);
	kr_pool_share_init(&data->syncs, server, KR_COMMIT_PARALLEL);
	/* Its own: each open file hears of an error once. */
	data->syncfs_fd = open(server->options->export_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	data->may_sync_together = data->syncfs_fd >= 0 && syncfs_tells_errors();
	server->files->hooks.writer_ended = writer_ended;
	server->files->hooks.writer_reclaimed = writer_reclaimed;
	return kr_failed_syncs_open(&data->failed_syncs, server, kr_state_dir(server->state), take_former, data);
}

void kr_commit_fini(struct kr_data *data)
{
	while (data->sync_queued)
		kr_sfile_put(take_queued(data));
	while (!kr_list_empty(&data->writing)) /* locks may wait for them */
		kr_commit_gone(KR_LIST_ENTRY(data->writing.head.next, struct kr_sfile_data, commit.writing)->file);
	while (!kr_list_empty(&data->failing))
		kr_sfile_put(KR_LIST_ENTRY(kr_list_pop(&data->failing), struct kr_sfile_data, commit.failing)->file);
}

/* Syncs of files, and what is repaired after failed ones (see commit.h).
 *
 * A file is in one of these states: idle; in kr_syncs.later; in kr_syncs.queue; or its sync runs.  What comes up during
 * a sync is taken by the next one.  Each sync job has all files that were waiting, KR_COMMIT_MANY at most, or as many
 * as there are by one syncfs.
 */
#include "server/flush/commit_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/base/log.h"
#include "server/base/blocked.h"
#include "server/base/options.h"
#include "server/base/state.h"
#include "server/export/export.h"

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
	uint64_t last_round; /* this sync has the rounds up to here */
	bool data_only;
	bool rewrite; /* writes the bytes again first */
	bool repairs; /* success means that the bytes that former syncs may have lost are there */
	bool gone;    /* the file does not exist any more */
	int err;
	struct kr_fd *kept;      /* of kr_export_sync_begins */
	uint64_t epoch, changes; /* of begin_rewrite */
};

struct sync_job {
	struct kr_pool_share_job share_job;
	struct kr_data *data;
	struct kr_list files; /* struct file_sync */
	bool together, together_failed;
};

/* --- the outcome of a sync -------------------------------------------------------------------- */

static void tell_waiters(struct kr_list *waiters, int err)
{
	struct waiter *waiter;

	while ((waiter = KR_LIST_POP(waiters, struct waiter, link))) {
		waiter->fn(waiter->context, err);
		free(waiter);
	}
}

static void former_tried(struct kr_sfile *file)
{
	struct kr_data *data = kr_data_of(file);

	if (!kr_commit_of(file)->former)
		return;
	kr_commit_of(file)->former = false;
	if (--data->syncs.former_failed == 0)
		data->server->sessions->hooks.end_grace(data->server);
}

static void conclude(struct file_sync *sync)
{
	struct kr_sfile *file = sync->file;
	struct kr_commit *commit = kr_commit_of(file);
	bool wanted, again;

	commit->running = false;
	if (sync->rewrite) {
		commit->rewriting = false;
		kr_flush_update_hold_of(file);
	}
	tell_waiters(&sync->waiters, sync->err);
	wanted = !kr_list_empty(&commit->waiters);
	again = commit->again && !(kr_data_of(file)->stopping && sync->err);
	commit->again = false;
	if (wanted)
		kr_syncs_enqueue(file);
	else if (again)
		kr_syncs_enqueue_later(file);
	former_tried(file);
	free(sync);
	kr_sfile_put(file);
}

static void begin_failure(struct kr_sfile *file)
{
	struct kr_commit *commit = kr_commit_of(file);

	commit->failed = true;
	commit->retry_ns = kr_clock_ns() + KR_COMMIT_RETRY_MS * KR_NS_PER_MS;
	if (kr_link_linked(&commit->failing))
		return;
	kr_list_append(&kr_data_of(file)->syncs.failing, &commit->failing);
	kr_sfile_ref(file);
}

/* The caller holds FILE. */
static void end_failure(struct kr_sfile *file)
{
	struct kr_commit *commit = kr_commit_of(file);

	if (!commit->failed)
		return;
	commit->failed = false;
	kr_list_remove(&commit->failing);
	kr_failed_syncs_remove(&kr_data_of(file)->syncs.failed_log, &file->fid);
	kr_sfile_put(file);
}

/* The failure is written down.  Rounds that were applied meanwhile, or run now, count as lost, too. */
static void failure_noted(void *context)
{
	struct file_sync *sync = context;
	struct kr_sfile *file = sync->file;
	struct kr_commit *commit = kr_commit_of(file);
	struct kr_file_writer *writer;

	begin_failure(file);
	commit->full = true;
	kr_applied_lose(&kr_data_of(file)->applied, &file->fid);
	if (file->data->rounds.state != KR_ROUND_IDLE)
		commit->lost = file->data->rounds.round;
	KR_LIST_FOR_EACH(writer, &commit->writers, link) {
		if (writer->node && writer->last > KR_MAX(commit->good, writer->lost))
			kr_file_writer_tell_unstable(file, writer, sync->err);
	}
	conclude(sync);
}

static void succeeded(struct file_sync *sync)
{
	struct kr_sfile *file = sync->file;
	struct kr_commit *commit = kr_commit_of(file);
	struct kr_file_writer *writer, *after;

	commit->good = KR_MAX(commit->good, sync->last_round);
	if (sync->repairs || sync->gone)
		end_failure(file);
	if (sync->gone)
		kr_commit_gone(file);
	KR_LIST_FOR_EACH_SAFE(writer, after, &commit->writers, link) {
		if (writer->node)
			kr_file_writer_tell_stable(file, writer);
		else if (writer->last <= commit->good && !commit->failed)
			kr_file_writer_committed(file, writer);
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
	if (!kr_commit_of(sync->file)->failed)
		kr_log_error(
			"syncing a file failed: %s; its nodes send again what was applied since the last good sync",
			strerror(-sync->err));
	kr_failed_syncs_add(&data->syncs.failed_log, &sync->file->fid, failure_noted, sync);
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
		struct kr_write_piece piece = {.offset = offset, .data = buffer};

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

static int fsync_of(struct kr_export *export, const struct file_sync *sync)
{
	return kr_export_fsync(export, &sync->file->fid, sync->data_only);
}

/* By one syncfs, whose error may concern any file. */
static void sync_together(struct sync_job *job, struct kr_export *export)
{
	struct file_sync *sync;

	KR_LIST_FOR_EACH(sync, &job->files, link)
		sync->kept = kr_export_sync_begins(export, &sync->file->fid);
	job->together_failed = syncfs(job->data->syncs.syncfs_fd) < 0;
	KR_LIST_FOR_EACH(sync, &job->files, link) {
		if (job->together_failed && !sync->err)
			sync->err = fsync_of(export, sync);
		kr_export_sync_ends(export, sync->kept, sync->err != 0);
	}
}

/* The first fsync commits the names and places of all, if their bytes have gone out before. */
static void sync_each(struct sync_job *job, struct kr_export *export)
{
	struct file_sync *sync;

	if (job->files.head.next != job->files.head.prev) {
		KR_LIST_FOR_EACH(sync, &job->files, link)
			kr_export_write_back(export, &sync->file->fid);
	}
	KR_LIST_FOR_EACH(sync, &job->files, link) {
		if (!sync->err)
			sync->err = fsync_of(export, sync);
	}
}

static void run(struct kr_pool_share_job *share_job)
{
	struct sync_job *job = KR_CONTAINER_OF(share_job, struct sync_job, share_job);
	struct kr_export *export = job->data->server->export;
	struct file_sync *sync;
	bool awaited = false;

	KR_LIST_FOR_EACH(sync, &job->files, link)
		awaited |= !kr_list_empty(&sync->waiters);
	if (!awaited)
		kr_blocked_unawaited();
	KR_LIST_FOR_EACH(sync, &job->files, link) {
		sync->err = KR_FAULT("stable.before");
		if (!sync->err && sync->rewrite)
			sync->err = rewrite(export, &sync->file->fid);
	}
	if (job->together)
		sync_together(job, export);
	else
		sync_each(job, export);
	KR_LIST_FOR_EACH(sync, &job->files, link) {
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

	kr_commit_of(file)->rewriting = true;
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
	struct file_sync *sync;

	data->counters.syncs++;
	if (job->together)
		data->syncs.syncfs_runs = false;
	if (job->together_failed) /* a later syncfs would not repeat an error that was another file's */
		data->syncs.may_syncfs = false;
	while ((sync = KR_LIST_POP(&job->files, struct file_sync, link))) {
		if (sync->rewrite)
			end_rewrite(sync);
		synced(sync);
	}
	free(job);
	pump(data);
}

/* Whether the server has to repair what failed syncs may have lost, since no node sends it again. */
static bool must_rewrite(const struct kr_sfile *file)
{
	return kr_commit_of(file)->failed && kr_file_writer_find(file, 0);
}

static void add_to_job(struct sync_job *job, struct kr_sfile *file)
{
	struct kr_commit *commit = kr_commit_of(file);
	struct file_sync *sync = kr_xcalloc(1, sizeof(*sync));

	*sync = (struct file_sync){.file = file, .last_round = commit->applied, .data_only = !commit->full};
	kr_list_init(&sync->waiters);
	kr_list_move(&commit->waiters, &sync->waiters);
	kr_list_append(&job->files, &sync->link);
	commit->full = false;
	commit->running = true;
	/* A change under way could be undone by a rewrite: then the next try does it. */
	sync->rewrite = must_rewrite(file) && !file->changing && file->data->rounds.state == KR_ROUND_IDLE;
	if (sync->rewrite)
		begin_rewrite(sync);
	sync->repairs = sync->rewrite || (!must_rewrite(file) && !kr_file_writers_owe_lost_bytes(file));
}

static struct kr_sfile *take_queued(struct kr_data *data)
{
	data->syncs.queued--;
	return KR_LIST_ENTRY(kr_list_pop(&data->syncs.queue), struct kr_sfile_data, commit.queued)->file;
}

static void start(struct kr_data *data, size_t count, bool together)
{
	struct sync_job *job = kr_xcalloc(1, sizeof(*job));

	job->data = data;
	job->together = together;
	kr_list_init(&job->files);
	while (count-- > 0)
		add_to_job(job, take_queued(data));
	kr_pool_share_start(&data->syncs.share, &job->share_job, run, done);
}

static void pump(struct kr_data *data)
{
	while (data->syncs.queued && data->syncs.share.running < data->syncs.share.limit) {
		bool together =
			data->syncs.may_syncfs && !data->syncs.syncfs_runs && data->syncs.queued > KR_COMMIT_MANY;

		data->syncs.syncfs_runs |= together;
		start(data, KR_MIN(data->syncs.queued, (size_t)(together ? KR_COMMIT_TOGETHER : KR_COMMIT_MANY)),
			together);
	}
}

/* FILE is in kr_syncs.later. */
static void queue_now(struct kr_sfile *file)
{
	struct kr_data *data = kr_data_of(file);
	struct kr_commit *commit = kr_commit_of(file);

	commit->later = false;
	kr_list_remove(&commit->queued);
	kr_list_append(&data->syncs.queue, &commit->queued);
	data->syncs.queued++;
}

static void on_timer(uv_timer_t *timer)
{
	struct kr_data *data = timer->data;

	while (!kr_list_empty(&data->syncs.later))
		queue_now(KR_LIST_ENTRY(data->syncs.later.head.next, struct kr_sfile_data, commit.queued)->file);
	pump(data);
}

void kr_syncs_enqueue_later(struct kr_sfile *file)
{
	struct kr_data *data = kr_data_of(file);
	struct kr_commit *commit = kr_commit_of(file);

	if (commit->running) {
		commit->again = true;
	} else if (!kr_link_linked(&commit->queued)) {
		kr_sfile_ref(file);
		commit->later = true;
		kr_list_append(&data->syncs.later, &commit->queued);
		if (!uv_is_active((uv_handle_t *)&data->syncs.later_timer))
			uv_timer_start(&data->syncs.later_timer, on_timer, KR_COMMIT_LATER_MS, 0);
	}
	if (!kr_list_empty(&file->leases.waiting))
		kr_syncs_hurry(file);
}

void kr_syncs_hurry(struct kr_sfile *file)
{
	if (!kr_commit_of(file)->later)
		return;
	queue_now(file);
	pump(kr_data_of(file));
}

void kr_syncs_enqueue(struct kr_sfile *file)
{
	kr_syncs_enqueue_later(file);
	kr_syncs_hurry(file);
}

void kr_commit_wait(struct kr_sfile *file, bool data_only, kr_commit_fn fn, void *context)
{
	struct waiter *waiter = kr_xcalloc(1, sizeof(*waiter));

	*waiter = (struct waiter){.fn = fn, .context = context};
	kr_list_append(&kr_commit_of(file)->waiters, &waiter->link);
	kr_commit_of(file)->full |= !data_only;
	kr_syncs_enqueue(file);
}

/* --- the whole -------------------------------------------------------------------------------- */

void kr_commit_tick(struct kr_data *data, uint64_t now_ns)
{
	struct kr_commit *commit;

	KR_LIST_FOR_EACH(commit, &data->syncs.failing, failing) {
		struct kr_sfile *file = KR_CONTAINER_OF(commit, struct kr_sfile_data, commit)->file;

		if (now_ns < commit->retry_ns || commit->running || data->stopping)
			continue;
		commit->retry_ns = now_ns + KR_COMMIT_RETRY_MS * KR_NS_PER_MS;
		if (must_rewrite(file) || !kr_file_writers_owe_lost_bytes(file))
			kr_syncs_enqueue(file);
	}
	KR_LIST_FOR_EACH(commit, &data->writing, writing)
		kr_file_writers_end_patience(KR_CONTAINER_OF(commit, struct kr_sfile_data, commit)->file, now_ns);
}

bool kr_commit_idle(const struct kr_data *data)
{
	return data->syncs.queued == 0 && kr_list_empty(&data->syncs.later) && data->syncs.share.running == 0 &&
		!kr_failed_syncs_busy(&data->syncs.failed_log);
}

bool kr_commit_recovered(const struct kr_data *data)
{
	return data->syncs.former_failed == 0;
}

/* FID stands in the log of a former instance.  The first tick tries it. */
static void take_former(void *context, const struct kr_fid *fid)
{
	struct kr_data *data = context;
	struct kr_sfile *file = kr_sfile_get(data->server, fid);

	kr_commit_lost_change(file);
	begin_failure(file);
	kr_commit_of(file)->retry_ns = 0;
	kr_commit_of(file)->former = true;
	data->syncs.former_failed++;
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

	kr_list_init(&data->syncs.failing);
	kr_list_init(&data->syncs.queue);
	kr_list_init(&data->syncs.later);
	uv_timer_init(server->loop, &data->syncs.later_timer);
	data->syncs.later_timer.data = data;
	kr_pool_share_init(&data->syncs.share, server, KR_COMMIT_PARALLEL);
	/* Its own: each open file hears of an error once. */
	data->syncs.syncfs_fd = open(server->options->export_path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	/* The kernel does not pass syncfs to FUSE daemons. */
	data->syncs.may_syncfs =
		data->syncs.syncfs_fd >= 0 && syncfs_tells_errors() && !kr_is_fuse(data->syncs.syncfs_fd);
	kr_commit_register(data);
	return kr_failed_syncs_open(&data->syncs.failed_log, server, kr_state_dir(server->state), take_former, data);
}

void kr_commit_fini(struct kr_data *data)
{
	struct kr_sfile_data *file_data;

	while (!kr_list_empty(&data->syncs.later))
		queue_now(KR_LIST_ENTRY(data->syncs.later.head.next, struct kr_sfile_data, commit.queued)->file);
	while (data->syncs.queued)
		kr_sfile_put(take_queued(data));
	while (!kr_list_empty(&data->writing)) /* locks may wait for them */
		kr_commit_gone(KR_LIST_ENTRY(data->writing.head.next, struct kr_sfile_data, commit.writing)->file);
	while ((file_data = KR_LIST_POP(&data->syncs.failing, struct kr_sfile_data, commit.failing)))
		kr_sfile_put(file_data->file);
	uv_close((uv_handle_t *)&data->syncs.later_timer, NULL);
}

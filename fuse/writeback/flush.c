/* See flush.h. */
#include "fuse/writeback/flush_priv.h"

#include <errno.h>
#include <stdlib.h>

#include "fuse/base/options.h"

void kr_flush_orphan(struct kr_file *file, int err)
{
	file->flush->orphaned = true;
	file->flush->plan.gone = true;
	file->flush->plan.refused = err;
	kr_file_flush_failed(file, err);
	kr_flush_settle(file);
}

/* A file is busy, or a stream waits: FLUSHER looks at them now and then.  NULL is fine. */
static void start_tick(struct kr_flusher *flusher);

/* --- files with bytes ------------------------------------------------------------------------- */

/* [lock] held. */
static bool is_busy(const struct kr_file *file)
{
	return !kr_extent_map_empty(&file->dirty) || !kr_list_empty(&file->flush->applied) || file->flush->send ||
		file->flush->late;
}

bool kr_flush_busy(struct kr_file *file)
{
	KR_SCOPED_LOCK(&file->lock);
	return is_busy(file);
}

void kr_flush_settle(struct kr_file *file)
{
	struct kr_flush *flush = file->flush;
	bool listed = kr_link_linked(&flush->busy), busy;

	pthread_mutex_lock(&file->lock);
	busy = is_busy(file);
	if (!busy) /* the next write posts a notice */
		flush->noticed = flush->backlog_noticed = flush->backlog_held = false;
	pthread_mutex_unlock(&file->lock);
	if (busy && !listed) {
		kr_list_append(&kr_flusher_of(file)->busy, &flush->busy);
		kr_flusher_of(file)->busy_files++;
		start_tick(kr_flusher_of(file));
		kr_file_get(file);
	} else if (!busy && listed) {
		kr_list_remove(&flush->busy);
		kr_flusher_of(file)->busy_files--;
		kr_flush_watch(file, kr_clock_ns());
		flush->orphaned = flush->stale = flush->unjudged = flush->uncovered = flush->moved = flush->power_lost =
			false;
		flush->unjudged_err = 0;
		kr_uncovered_forget(kr_flusher_of(file)->uncovered, file);
		flush->plan = (struct kr_flush_plan){0};
		kr_file_put(file);
	}
}

/* kr_flush_dirtied, in the loop. */
static void notice(struct kr_task *task)
{
	struct kr_flush *flush = KR_CONTAINER_OF(task, struct kr_flush, notice_task);
	struct kr_file *file = flush->file;
	bool backlog;

	pthread_mutex_lock(&file->lock);
	flush->notice_posted = false;
	backlog = flush->backlog_noticed;
	pthread_mutex_unlock(&file->lock);
	kr_flush_settle(file);
	if (backlog)
		kr_flush_ask(file, KR_FLUSH_BACKLOG);
	kr_file_put(file);
}

void kr_flush_burst(struct kr_file *file)
{
	file->flush->burst_ns = kr_clock_ns();
}

/* [lock] held. */
static bool in_burst(const struct kr_file *file)
{
	return file->flush->burst_ns && kr_clock_ns() - file->flush->burst_ns < KR_FLUSH_BURST_MS * KR_NS_PER_MS &&
		file->dirty.bytes < kr_flusher_of(file)->burst_max;
}

/* Whether FILE has a backlog that the node must flush, and the scheduler does not know of it yet. */
static bool is_new_backlog(struct kr_file *file)
{
	if (file->flush->backlog_noticed)
		return false;
	if (file->dirty.count >= KR_FLUSH_EXTENTS_MAX)
		return true;
	if (file->dirty.bytes < file->mount->options->flush_backlog)
		return false;
	file->flush->backlog_held = in_burst(file);
	return !file->flush->backlog_held;
}

void kr_flush_dirtied(struct kr_file *file)
{
	struct kr_flush *flush = file->flush;
	bool backlog = is_new_backlog(file);

	if (flush->noticed && !backlog)
		return;
	if (!flush->noticed)
		flush->dirty_since_ns = kr_clock_ns();
	flush->noticed = true;
	flush->backlog_noticed |= backlog;
	if (flush->notice_posted)
		return;
	flush->notice_posted = true;
	kr_file_get(file);
	kr_loop_post(file->mount->kr_loop, &flush->notice_task);
}

static struct kr_flush *make(struct kr_file *file)
{
	struct kr_flush *flush = kr_xcalloc(1, sizeof(*flush));

	flush->file = file;
	flush->notice_task.fn = notice;
	kr_list_init(&flush->applied);
	kr_list_init(&flush->unstable);
	kr_link_init(&flush->busy);
	kr_link_init(&flush->uncovered_line.link);
	return flush;
}

/* The mount ends: the journal has all of it. */
static void free_flush(struct kr_file *file)
{
	struct kr_flush *flush = file->flush;

	kr_late_fini(flush);
	kr_flush_forget_applied(flush);
	kr_flush_forget_unstable(flush);
	free(flush);
}

/* --- deciding --------------------------------------------------------------------------------- */

static void take_facts(struct kr_file *file, struct kr_flush_facts *ret)
{
	const struct kr_flusher *flusher = kr_flusher_of(file);

	KR_SCOPED_LOCK(&file->lock);
	*ret = (struct kr_flush_facts){
		.now_ns = kr_clock_ns(),
		.dirty = !kr_extent_map_empty(&file->dirty),
		.dirty_since_ns = file->flush->dirty_since_ns,
		.age_ns = atomic_load(&file->mount->unmounted) ? 0 : file->mount->options->flush_age * KR_NS_PER_MS,
		.flushed_seq = file->flushed_seq,
		.backlog = file->flush->backlog_held && !in_burst(file),
		.blocked = flusher->stopped || flusher->recovering || file->flush->late,
	};
	if (!ret->dirty)
		file->flush->noticed = file->flush->backlog_noticed = file->flush->backlog_held = false;
}

/* Bytes that were held back go with the bytes sent now. */
static void let_go(struct kr_file *file)
{
	KR_SCOPED_LOCK(&file->lock);
	file->flush->backlog_noticed |= file->flush->backlog_held;
	file->flush->backlog_held = false;
}

/* The server counts a node that owes it bytes as an uncommitted writer, which needs no lease. */
static bool may_flush(struct kr_file *file)
{
	bool owing;

	pthread_mutex_lock(&file->lock);
	owing = kr_extent_map_seq_until(&file->dirty, file->flush->resend) != 0;
	pthread_mutex_unlock(&file->lock);
	return kr_file_may_flush(file, owing);
}

void kr_flush_step(struct kr_file *file)
{
	struct kr_flush_facts facts;

	if (kr_flusher_of(file)->stopped)
		return;
	kr_flush_settle_unstable(file);
	take_facts(file, &facts);
	if (kr_flush_plan_next(&file->flush->plan, &facts) == KR_FLUSH_SEND && may_flush(file)) {
		int err;

		let_go(file);
		kr_flush_plan_sent(&file->flush->plan);
		err = kr_flush_send_dirty(file);
		if (err)
			kr_flush_plan_answered(&file->flush->plan, err, facts.now_ns);
	}
	kr_flush_settle(file);
}

void kr_flush_ask(struct kr_file *file, enum kr_flush_reason reason)
{
	bool urgent = reason == KR_FLUSH_CLOSE || reason == KR_FLUSH_SYNC || reason == KR_FLUSH_COMMAND;
	uint64_t seq, moved;
	int err = 0;

	pthread_mutex_lock(&file->lock);
	seq = kr_extent_map_empty(&file->dirty) ? 0 : file->written_seq;
	pthread_mutex_unlock(&file->lock);
	if (seq == 0)
		return;
	if (file->flush->late)
		kr_late_bytes(file->flush->late, &moved, &err);
	if (urgent && (file->flush->plan.gone || err)) { /* the waiting program would wait for ever */
		kr_file_flush_failed(file, err ? -ESTALE : file->flush->plan.refused);
		return;
	}
	if (reason != KR_FLUSH_AGE)
		kr_flush_plan_want(&file->flush->plan, seq, urgent);
	kr_flush_step(file);
}

/* Drops the dirty bytes.  The journal keeps the applied ones until they are durable, unless the file is gone. */
void kr_flush_discard(struct kr_file *file)
{
	kr_file_get(file); /* the list's reference may go */
	kr_late_discard(file);
	kr_flush_send_abandon(file);
	if (file->flush->orphaned)
		kr_flush_release_applied(file, UINT64_MAX);
	pthread_mutex_lock(&file->lock);
	kr_journal_release_map(file->mount->journal, &file->dirty);
	file->flushed_seq = file->written_seq;
	kr_lease_state_distrust(&file->holder); /* the kernel's pages may show them */
	pthread_mutex_unlock(&file->lock);
	kr_file_redirtied(file, 0);
	kr_flush_waive(file);
	kr_flush_settle(file);
	kr_file_step(file);
	kr_file_put(file);
}

/* Late bytes go to a conflict file, and orphaned ones wait for `kairan flush --discard`.  The server says of their
 * file, too, that it is gone: when a LEASE fails for that, it recalls what it had granted (server/leases/leases.c).
 * A FLUSH that came between the removal and this word of it has made bytes stale: they are neither.
 * Before the session goes on, RECLAIM has not said yet which bytes are late.
 *
 * If the node is killed before the journal has released the bytes, its next start finds them.  The server answers
 * RECLAIM that they are durable (may_discard in server/names/reclaim.c).  If the server is killed before the node has
 * heard of the removal, its next process does not know when the file was removed, and the bytes go to a conflict file.
 */
static void discard_removed(struct kr_file *file)
{
	const struct kr_flush *flush = file->flush;

	if (!flush->late && !flush->unjudged && (!flush->orphaned || flush->stale) &&
		!kr_flusher_of(file)->recovering && kr_flush_busy(file))
		kr_flush_discard(file);
}

/* --- all files -------------------------------------------------------------------------------- */

void kr_flush_for_each(struct kr_flusher *flusher, void (*do_file)(struct kr_file *file, enum kr_flush_reason reason),
	enum kr_flush_reason reason)
{
	struct kr_list todo;
	struct kr_flush *flush;

	kr_list_init(&todo);
	kr_list_move(&flusher->busy, &todo);
	while ((flush = KR_LIST_POP(&todo, struct kr_flush, busy))) {
		struct kr_file *file = flush->file;

		kr_list_append(&flusher->busy, &flush->busy);
		kr_file_get(file);
		do_file(file, reason);
		kr_file_put(file);
	}
}

void kr_flusher_ask_all(struct kr_flusher *flusher, enum kr_flush_reason reason)
{
	kr_flush_for_each(flusher, kr_flush_ask, reason);
}

static void ask_now(struct kr_file *file)
{
	kr_flush_ask(file, KR_FLUSH_SYNC);
}

static bool is_sending(const struct kr_file *file)
{
	return file->flush->send != NULL;
}

static bool is_hopeless(const struct kr_file *file)
{
	return file->flush->orphaned;
}

const struct kr_flush_hooks kr_flush_hooks = {
	.make = make,
	.free = free_flush,
	.ask = ask_now,
	.step = kr_flush_step,
	.is_busy = kr_flush_busy,
	.is_sending = is_sending,
	.is_hopeless = is_hopeless,
	.discard = discard_removed,
	.keeps_leases = kr_unjudged_keeps_leases,
	.uncovered = kr_unjudged_uncovered,
};

static void tick_file(struct kr_file *file, enum kr_flush_reason reason)
{
	(void)reason;
	kr_flush_step(file);
	kr_late_step(file);
	kr_unjudged_step(file);
	kr_flush_watch(file, kr_clock_ns());
}

/* With a long flush_age: before writers have to wait for space, or the tick takes long. */
static bool is_crowded(struct kr_flusher *flusher)
{
	struct kr_journal_usage usage;

	kr_journal_usage(flusher->mount->journal, &usage);
	return usage.used > usage.max / 4 * 3 || flusher->busy_files > KR_FLUSH_FILES_MAX;
}

static void on_tick(uv_timer_t *timer)
{
	struct kr_flusher *flusher = timer->data;
	bool waits = kr_chains_tick(flusher->mount->chains, kr_clock_ns());

	waits |= kr_uncovered_tick(flusher->uncovered);
	if (flusher->recovering)
		return;
	kr_flush_for_each(flusher, tick_file, KR_FLUSH_AGE);
	if (is_crowded(flusher))
		kr_flusher_ask_all(flusher, KR_FLUSH_SPACE);
	kr_recovery_settle_power(flusher);
	if (!waits && kr_list_empty(&flusher->busy))
		uv_timer_stop(timer);
}

static void start_tick(struct kr_flusher *flusher)
{
	if (flusher && !flusher->stopped && !uv_is_active((uv_handle_t *)&flusher->tick))
		uv_timer_start(&flusher->tick, on_tick, KR_FLUSH_TICK_MS, KR_FLUSH_TICK_MS);
}

static void on_need_space(struct kr_task *task)
{
	struct kr_flusher *flusher = KR_CONTAINER_OF(task, struct kr_flusher, space_task);

	if (!flusher->stopped)
		kr_flusher_ask_all(flusher, KR_FLUSH_SPACE);
}

void kr_flusher_need_space(struct kr_flusher *flusher)
{
	kr_loop_post(flusher->mount->kr_loop, &flusher->space_task);
}

int kr_flusher_new(struct kr_mount *mount, struct kr_flusher **ret_flusher)
{
	struct kr_flusher *flusher = kr_xcalloc(1, sizeof(*flusher));
	struct kr_journal_usage usage;
	int err;

	flusher->mount = mount;
	flusher->space_task.fn = on_need_space;
	kr_journal_usage(mount->journal, &usage);
	flusher->burst_max = usage.max / 4;
	flusher->recovering = true; /* until the first session goes on */
	kr_list_init(&flusher->busy);
	kr_list_init(&flusher->damage);
	flusher->conflicts = json_array();
	err = kr_chains_new(mount, start_tick, &flusher->mount->chains);
	if (err) {
		free(flusher);
		return err;
	}
	flusher->uncovered = kr_uncovered_log_new(mount);
	kr_flush_rounds_init(mount);
	uv_timer_init(mount->loop, &flusher->tick);
	flusher->tick.data = flusher;
	start_tick(flusher); /* the directory's list of refused bytes may be out of date */
	*ret_flusher = flusher;
	return 0;
}

void kr_flusher_stop(struct kr_flusher *flusher)
{
	if (!flusher || flusher->stopped)
		return;
	flusher->stopped = true;
	uv_close((uv_handle_t *)&flusher->tick, NULL);
	kr_chains_stop(flusher->mount->chains);
	kr_uncovered_log_stop(flusher->uncovered);
}

void kr_flusher_free(struct kr_flusher *flusher)
{
	struct kr_flush *flush;

	if (!flusher)
		return;
	kr_uncovered_log_free(flusher->uncovered);
	while ((flush = KR_LIST_POP(
			&flusher->busy, struct kr_flush, busy))) /* what is unflushed stays in the journal */
		kr_file_put(flush->file);
	kr_journal_damage_free(&flusher->damage);
	kr_chains_free(flusher->mount->chains);
	json_decref(flusher->conflicts);
	free(flusher);
}

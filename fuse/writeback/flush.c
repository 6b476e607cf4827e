/* See flush.h. */
#include "fuse/writeback/flush_priv.h"

#include <errno.h>
#include <stdlib.h>

#include "fuse/base/options.h"

/* --- what is applied -------------------------------------------------------------------------- */

void kr_flush_release_map(struct kr_file *file, struct kr_extent_map *map)
{
	kr_journal_release_map(file->mount->journal, map);
}

/* Only reads what is set once; `journal_file` exists, since something was written. */
struct kr_applied *kr_flush_add_applied(
	struct kr_file *file, struct kr_extent_map *extents, uint64_t seq, uint64_t round)
{
	struct kr_applied *applied = kr_xcalloc(1, sizeof(*applied));

	applied->up_to = seq;
	kr_journal_note_applied(file->mount->journal, file->journal_file, applied, round,
		kr_session_facts(file->mount->session)->boot_id);
	kr_extent_map_init(&applied->extents);
	kr_extent_map_move(extents, &applied->extents);
	kr_list_append(&file->flush->applied, &applied->link);
	file->flush->applied_ns = kr_clock_ns();
	return applied;
}

void kr_flush_stable(struct kr_file *file, uint64_t round)
{
	const struct kr_applied *applied;

	if (file->flush->unstable)
		round = KR_MIN(round, file->flush->unstable_after);
	KR_LIST_FOR_EACH(applied, &file->flush->applied, link)
		if (applied->round <= round && kr_flush_is_current_boot(file, applied))
			file->flush->stable_seq = KR_MAX(file->flush->stable_seq, applied->up_to);
	kr_journal_stable(
		file->mount->journal, &file->flush->applied, round, kr_session_facts(file->mount->session)->boot_id);
	kr_flush_settle(file);
	kr_file_step(file);
}

void kr_flush_orphan(struct kr_file *file, int err)
{
	file->flush->orphaned = true;
	file->flush->plan.gone = true;
	file->flush->plan.refused = err;
	kr_file_flush_failed(file, err);
	kr_flush_settle(file);
}

/* --- files with bytes ------------------------------------------------------------------------- */

/* [lock] held. */
static bool is_busy(const struct kr_file *file)
{
	return !kr_extent_map_empty(&file->dirty) || !kr_list_empty(&file->flush->applied) ||
		!kr_list_empty(&file->flush->sends) || file->flush->late;
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
	if (!busy) /* the next write tells us again */
		flush->noticed = flush->backlog_noticed = flush->backlog_held = false;
	pthread_mutex_unlock(&file->lock);
	if (busy && !listed) {
		kr_list_append(&kr_flusher_of(file)->busy, &flush->busy);
		kr_file_get(file);
	} else if (!busy && listed) {
		kr_list_remove(&flush->busy);
		kr_flush_watch(file, kr_clock_ns());
		flush->orphaned = flush->unjudged = flush->uncovered = flush->keeps_replays = false;
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

/* Whether there is a backlog to be flushed, and the scheduler does not know yet. */
static bool is_new_backlog(struct kr_file *file)
{
	if (file->flush->backlog_noticed || file->dirty.bytes < file->mount->options->flush_backlog)
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
	kr_list_init(&flush->sends);
	kr_link_init(&flush->busy);
	kr_link_init(&flush->uncovered_line.link);
	return flush;
}

static void free_flush(struct kr_file *file)
{
	struct kr_flush *flush = file->flush;
	struct kr_link *link;

	kr_late_fini(flush);
	while ((link = kr_list_pop(&flush->applied))) { /* the mount ends: the journal has them */
		struct kr_applied *applied = KR_LIST_ENTRY(link, struct kr_applied, link);

		kr_extent_map_fini(&applied->extents);
		free(applied);
	}
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
		.age_ns = file->mount->options->flush_age * KR_NS_PER_MS,
		.flushed_seq = file->flushed_seq,
		.backlog = file->flush->backlog_held && !in_burst(file),
		.blocked = flusher->stopped || flusher->recovering || !kr_list_empty(&file->flush->sends) ||
			file->flush->late,
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

/* Entries of a former boot go first. */
static bool replays_first(struct kr_file *file)
{
	if (!kr_flush_awaits_replays(file))
		return false;
	if (!kr_flusher_of(file)->recovering && kr_list_empty(&file->flush->sends))
		kr_flush_replay_file(file, KR_RPC_HARD);
	return true;
}

void kr_flush_step(struct kr_file *file)
{
	struct kr_flush_facts facts;

	if (kr_flusher_of(file)->stopped)
		return;
	kr_flush_settle_unstable(file);
	take_facts(file, &facts);
	if (kr_flush_plan_next(&file->flush->plan, &facts) == KR_FLUSH_SEND && !replays_first(file) &&
		kr_file_may_flush(file)) {
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
	uint64_t seq;

	pthread_mutex_lock(&file->lock);
	seq = kr_extent_map_empty(&file->dirty) ? 0 : file->written_seq;
	pthread_mutex_unlock(&file->lock);
	if (seq == 0)
		return;
	if (urgent && file->flush->plan.gone) { /* the waiting program would wait for ever */
		kr_file_flush_failed(file, file->flush->plan.refused);
		return;
	}
	if (reason != KR_FLUSH_AGE)
		kr_flush_plan_want(&file->flush->plan, seq, urgent);
	kr_flush_step(file);
}

void kr_flush_discard(struct kr_file *file)
{
	struct kr_applied *applied, *next;
	struct kr_flush_send *send, *next_send;

	kr_file_get(file); /* the list's reference may go */
	kr_late_discard(file);
	KR_LIST_FOR_EACH_SAFE(send, next_send, &file->flush->sends, link)
		kr_flush_send_abandon(send);
	KR_LIST_FOR_EACH_SAFE(applied, next, &file->flush->applied, link)
		kr_journal_drop_applied(file->mount->journal, applied);
	pthread_mutex_lock(&file->lock);
	kr_extent_map_truncate(&file->dirty, 0, kr_journal_release, file->mount->journal);
	file->flushed_seq = file->written_seq;
	kr_lease_state_distrust(&file->holder); /* the kernel's pages may show them */
	pthread_mutex_unlock(&file->lock);
	file->flush->unstable = false;
	kr_file_redirtied(file, (struct kr_time){0}, 0);
	kr_flush_settle(file);
	kr_file_step(file);
	kr_file_put(file);
}

/* --- all files -------------------------------------------------------------------------------- */

void kr_flush_for_each(struct kr_flusher *flusher, void (*do_file)(struct kr_file *file, enum kr_flush_reason reason),
	enum kr_flush_reason reason)
{
	struct kr_list todo;
	struct kr_link *link;

	kr_list_init(&todo);
	kr_list_move(&flusher->busy, &todo);
	while ((link = kr_list_pop(&todo))) {
		struct kr_file *file = KR_CONTAINER_OF(link, struct kr_flush, busy)->file;

		kr_list_append(&flusher->busy, link);
		kr_file_get(file);
		do_file(file, reason);
		kr_file_put(file);
	}
}

void kr_flusher_ask_all(struct kr_flusher *flusher, enum kr_flush_reason reason)
{
	kr_flush_for_each(flusher, kr_flush_ask, reason);
	if (reason == KR_FLUSH_COMMAND || reason == KR_FLUSH_SPACE) {
		struct kr_flush *flush;

		KR_LIST_FOR_EACH(flush, &flusher->busy, busy)
			kr_flush_confirm(flush->file);
	}
}

static void ask_now(struct kr_file *file)
{
	kr_flush_ask(file, KR_FLUSH_SYNC);
}

static bool is_sending(const struct kr_file *file)
{
	return !kr_list_empty(&file->flush->sends);
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
	.is_unapplied = kr_flush_is_unapplied,
	.is_bound = kr_flush_bound,
	.uncovered = kr_flush_uncovered,
};

static void tick_file(struct kr_file *file, enum kr_flush_reason reason)
{
	const struct kr_flush *flush = file->flush;

	(void)reason;
	if (!replays_first(file))
		kr_flush_step(file);
	kr_late_step(file);
	kr_unjudged_step(file);
	kr_flush_watch(file, kr_clock_ns());
	if (!kr_list_empty(&flush->applied) && kr_clock_ns() - flush->applied_ns > KR_FLUSH_CONFIRM_MS * KR_NS_PER_MS)
		kr_flush_confirm(file);
}

static void on_tick(uv_timer_t *timer)
{
	struct kr_flusher *flusher = timer->data;

	kr_chains_tick(flusher->mount->chains, kr_clock_ns());
	kr_uncovered_tick(flusher->uncovered);
	if (!flusher->recovering)
		kr_flush_for_each(flusher, tick_file, KR_FLUSH_AGE);
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
	err = kr_chains_new(mount, &flusher->mount->chains);
	if (err) {
		free(flusher);
		return err;
	}
	flusher->uncovered = kr_uncovered_log_new(mount);
	kr_flush_rounds_init(mount);
	uv_timer_init(mount->loop, &flusher->tick);
	flusher->tick.data = flusher;
	uv_timer_start(&flusher->tick, on_tick, KR_FLUSH_TICK_MS, KR_FLUSH_TICK_MS);
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
	struct kr_link *link;

	if (!flusher)
		return;
	kr_uncovered_log_free(flusher->uncovered);
	while ((link = kr_list_pop(&flusher->busy))) /* what is unflushed stays in the journal */
		kr_file_put(KR_CONTAINER_OF(link, struct kr_flush, busy)->file);
	kr_journal_damage_free(&flusher->damage);
	kr_chains_free(flusher->mount->chains);
	json_decref(flusher->conflicts);
	free(flusher);
}

/* Does what a file's lease state asks for: LEASE, RETURN, flushes for a recall; and tells it what became of them.  Loop
 * thread. */
#include <errno.h>

#include "common/base/fault.h"
#include "common/base/log.h"
#include "fuse/file/file_priv.h"
#include "fuse/readcache/stage.h"
#include "fuse/session/rpc.h"

static void granted(void *context, int err, const void *message, struct kr_buf *data)
{
	struct kr_file *file = context;
	const struct kr_lease_reply *reply = message;

	(void)data;
	pthread_mutex_lock(&file->lock);
	if (err) {
		kr_lease_state_ask_failed(&file->holder);
		kr_lease_state_flushed(&file->holder, false, kr_extent_map_empty(&file->dirty));
		file->lease.gone = err == -ESTALE;
		if (file->lease.gone)
			kr_stage_abandon(file->stage);
	} else {
		kr_lease_state_granted(&file->holder, file->lease.asked_generation == file->mount->files->generation);
		if (file->changes == file->lease.asked_changes) {
			file->base = reply->attr;
			file->stale = false;
		} else {
			file->stale =
				true; /* own bytes went to the server meanwhile: this may be the file before them */
		}
	}
	pthread_mutex_unlock(&file->lock);
	/* At once: waiters enter before a RECALL that came right behind is handled. */
	if (err) {
		file->lease.error = err;
		file->lease.needs = 0;
	}
	kr_file_run(file);
	kr_file_put(file);
}

/* Who has bytes of a file, and has to ask for READ, shares it with other writers: OPEN would have brought READ.  The
 * server asks these for their bytes now.  They are likely to read the file next, too. */
static bool writes_with_others(struct kr_file *file, uint8_t kinds)
{
	KR_SCOPED_LOCK(&file->lock);
	return (kinds & KR_LEASE_READ) && file->holder.held == KR_LEASE_WRITE && file->holder.dirty;
}

static void ask(struct kr_file *file, uint8_t kinds)
{
	struct kr_lease_request request = {.file = file->fid, .kinds = kinds};

	file->lease.asked_generation = file->mount->files->generation;
	kr_rpc_call(file->mount->rpc, KR_MSG_LEASE, &request, NULL, 0, 0, granted, kr_file_get(file));
	if (writes_with_others(file, kinds)) /* then this node's bytes go in the same round as theirs */
		file->mount->files->flush->ask(file);
}

static void returned(void *context, int err, const void *reply, struct kr_buf *data)
{
	struct kr_file *file = context;

	(void)err, (void)reply, (void)data;
	pthread_mutex_lock(&file->lock);
	kr_lease_state_returned(&file->holder);
	pthread_mutex_unlock(&file->lock);
	kr_file_run(file);
	kr_file_put(file);
}

static void give_back(struct kr_file *file, uint8_t kinds)
{
	struct kr_return_request request = {.file = file->fid, .kinds = kinds};

	if ((kinds & KR_LEASE_READ) && file->stage)
		kr_stage_suspend(file->stage);
	(void)KR_FAULT("lease.return");
	kr_rpc_call(file->mount->rpc, KR_MSG_RETURN, &request, NULL, 0, KR_RPC_HARD | KR_RPC_LATER, returned,
		kr_file_get(file));
}

void kr_lease_note_flush(struct kr_file *file)
{
	struct kr_lease_state *holder = &file->holder;
	bool refused;

	KR_SCOPED_LOCK(&file->lock);
	refused = file->error_count != file->lease.flush_errors;
	file->lease.flush_errors = file->error_count;
	if (kr_extent_map_empty(&file->dirty) || file->flushed_seq >= file->lease.refused_seq)
		file->lease.refused_seq = 0;
	if (refused)
		file->lease.refused_seq = kr_extent_map_max_seq(&file->dirty);
	if (kr_extent_map_empty(&file->dirty)) {
		if (holder->dirty || holder->flushing)
			kr_lease_state_flushed(holder, true, true);
	} else if (refused) {
		kr_lease_state_flushed(holder, false, false);
	} else if (holder->flushing && file->flushed_seq >= file->lease.flush_target) {
		kr_lease_state_flushed(holder, true, false);
	}
}

/* Two nodes that store into one page take it from each other.  As a rule a program stores before its page goes, because
 * the other node's request takes longer.  Nothing guarantees that, and both could ask for ever.  So after a turn in
 * which no byte was stored, the pages of the next turn stay for a moment. */
static bool is_lingering(const struct kr_file *file)
{
	return file->holder.pages_writable && file->pages.fruitless && !file->pages.written &&
		kr_clock_ns() - file->pages.given_ns < KR_FILE_LINGER_MS * KR_NS_PER_MS;
}

static uint8_t giving_up(struct kr_file *file)
{
	KR_SCOPED_LOCK(&file->lock);
	return kr_lease_state_giving_up(&file->holder);
}

static enum kr_lease_state_action next(struct kr_file *file, uint8_t *ret_kinds)
{
	const uint8_t giving = giving_up(file);
	enum kr_lease_state_action action;
	bool keeps = file->mount->files->flush->keeps_leases(file);

	KR_SCOPED_LOCK(&file->lock);
	/* If another thread has begun to give a lease up since the hook looked (op_ioctl.c), this step keeps it: that
	 * thread steps the file. */
	kr_lease_state_keep(&file->holder, keeps || kr_lease_state_giving_up(&file->holder) != giving);
	kr_lease_state_want(&file->holder, file->lease.needs);
	kr_lease_state_linger(&file->holder, is_lingering(file));
	action = kr_lease_state_next(&file->holder, ret_kinds);
	if (file->holder.lingering && kr_lease_state_must_drop(&file->holder))
		kr_recall_linger(file);
	if (action == KR_LEASE_STATE_ASK)
		file->lease.asked_changes = file->changes;
	else if (action == KR_LEASE_STATE_FLUSH)
		file->lease.flush_target = file->written_seq;
	return action;
}

void kr_lease_act(struct kr_file *file)
{
	uint8_t kinds;

	if (file->mount->files->stopped)
		return;
	for (;;) {
		switch (next(file, &kinds)) {
		case KR_LEASE_STATE_NOTHING:
			return;
		case KR_LEASE_STATE_ASK:
			ask(file, kinds);
			break;
		case KR_LEASE_STATE_FLUSH:
			file->mount->files->flush->ask(file);
			break;
		case KR_LEASE_STATE_DROP:
			kr_recall_drop(file);
			break;
		case KR_LEASE_STATE_ANSWER:
			if (kinds)
				file->mount->files->flush->uncovered(file);
			if (kinds & KR_LEASE_WRITE)
				(void)KR_FAULT("recall.flushed");
			if ((kinds & KR_LEASE_READ) && file->stage)
				kr_stage_suspend(file->stage);
			kr_recall_answer(file);
			break;
		case KR_LEASE_STATE_RETURN:
			file->mount->files->flush->uncovered(file);
			give_back(file, kinds);
			break;
		}
	}
}

bool kr_file_may_flush(struct kr_file *file, bool owing)
{
	bool may;

	pthread_mutex_lock(&file->lock);
	/* The flusher shall hear from the server, too, that the file is gone. */
	may = (owing || file->lease.gone || kr_lease_state_may_flush(&file->holder)) && !kr_mount_fenced(file->mount);
	if (!may) {
		kr_lease_state_retry(&file->holder);
		file->lease.could_flush = false;
	}
	pthread_mutex_unlock(&file->lock);
	if (!may)
		kr_file_step(file);
	return may;
}

void kr_file_flush_untaken(struct kr_file *file)
{
	struct kr_file_label label;
	bool asks;

	pthread_mutex_lock(&file->lock);
	asks = kr_lease_state_confirm_write(&file->holder);
	pthread_mutex_unlock(&file->lock);
	if (!asks)
		return;
	file->lease.could_flush = false;
	if (!file->lease.unconfirmed_logged)
		kr_log_warn(
			"%s: the server does not take its bytes, for want of a lease that this node believes to have: "
			"asked for again",
			kr_file_label(file, &label));
	file->lease.unconfirmed_logged = true;
	kr_file_step(file);
}

uint8_t kr_file_session_lost(struct kr_file *file)
{
	kr_recall_forget(file);
	pthread_mutex_lock(&file->lock);
	/* An earlier recovery that broke off has asked for these kinds already: ask again. */
	file->lease.reclaiming |= kr_lease_state_lost(&file->holder);
	pthread_mutex_unlock(&file->lock);
	file->lease.could_flush = false;
	file->open.may_keep = false; /* the file may have lost its last name, and no server has told it */
	return file->lease.reclaiming;
}

void kr_file_reclaimed(struct kr_file *file, int err, const struct kr_reclaim_reply *reply)
{
	bool same = false;

	pthread_mutex_lock(&file->lock);
	file->lease.reclaiming = 0;
	if (err) {
		kr_lease_state_reclaimed(&file->holder, 0, false);
	} else {
		same = reply->attr.version != 0 && reply->attr.version == file->base.version;
		kr_lease_state_reclaimed(&file->holder, reply->kinds, same);
		file->base = reply->attr;
	}
	file->stale = err != 0;
	file->changes++;
	file->changed_ns = kr_clock_ns();
	pthread_mutex_unlock(&file->lock);
	file->lease.gone = err == -ESTALE;
	if (file->lease.gone)
		kr_stage_abandon(file->stage);
	if (!same && file->stage)
		kr_stage_suspend(file->stage); /* blocks without a version go */
}

/* Unflushed bytes and attributes: what the flusher did to a file, what the server's attributes look like from here, and
 * operations that change the file at the server.
 *
 * `changes` grows whenever attributes that are on their way may have been taken before own bytes reached the server.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "fuse/file/file_priv.h"
#include "fuse/journal/journal.h"
#include "fuse/names/kernel_attrs.h"
#include "fuse/session/rpc.h"
#include "fuse/readcache/stage.h"

enum { AHEAD_S = 5 /* our idea of the server's clock is not as wrong as that */ };

/* Answers to requests that the node sent at AT_NS or before may lack this change. */
static void note_change(struct kr_file *file, uint64_t at_ns)
{
	file->changes++;
	file->changed_ns = KR_MAX(file->changed_ns, at_ns);
}

/* --- the flusher's news ----------------------------------------------------------------------- */

/* The stage takes the flushed bytes over, so that they can be read back here, also by later opens; before they leave
 * the dirty map, so that at every moment one of the two has them. */
static void stage_flushed(struct kr_file *file, const struct kr_flush_reply *reply, const struct kr_extent_map *sent)
{
	/* The size of the base belongs to its version. */
	if (!file->stage && reply->base_version != 0 && file->base.version == reply->base_version) {
		if (!kr_file_make_stage(file))
			return;
		kr_stage_learn(file->stage, file->base.version, file->base.size);
	}
	if (file->stage)
		kr_stage_flushed(file->stage, reply->base_version, reply->attr.version, reply->attr.size, sent);
}

void kr_file_flushed(
	struct kr_file *file, uint64_t seq, const struct kr_flush_reply *reply, const struct kr_extent_map *sent)
{
	stage_flushed(file, reply, sent);
	pthread_mutex_lock(&file->lock);
	kr_extent_map_drop_until(&file->dirty, seq, kr_journal_release, file->mount->journal);
	if (kr_extent_map_empty(&file->dirty)) {
		file->clear_suid = false;
		kr_lease_state_flushed(&file->holder, true, true);
	}
	note_change(file, kr_clock_ns());
	/* Answers of the server's pool threads may overtake each other; ctime tells which is the newer. */
	if (kr_time_compare(reply->attr.ctime, file->base.ctime) < 0)
		file->stale = true;
	else
		file->base = reply->attr;
	pthread_mutex_unlock(&file->lock);
	kr_file_step(file);
}

void kr_file_flush_failed(struct kr_file *file, int err)
{
	pthread_mutex_lock(&file->lock);
	file->error_count++;
	file->error = err;
	pthread_mutex_unlock(&file->lock);
	kr_file_step(file);
}

void kr_file_redirtied(struct kr_file *file, int err)
{
	pthread_mutex_lock(&file->lock);
	if (kr_extent_map_empty(&file->dirty)) {
		kr_lease_state_cleaned(&file->holder);
	} else {
		kr_lease_state_dirtied(&file->holder, false);
		file->written_seq = KR_MAX(file->written_seq, kr_extent_map_max_seq(&file->dirty));
	}
	if (err) {
		file->error_count++;
		file->error = err;
		file->lease.flush_errors = file->error_count; /* the bytes themselves have not been refused */
	}
	note_change(file, kr_clock_ns());
	pthread_mutex_unlock(&file->lock);
	kr_kernel_attrs_drop_later(file->mount, &file->fid);
	kr_file_step(file);
}

const char *kr_file_label(const struct kr_file *file, struct kr_file_label *ret)
{
	if (file->journal_file && file->journal_file->hint)
		snprintf(ret->text, sizeof(ret->text), "%s", file->journal_file->hint);
	else
		snprintf(ret->text, sizeof(ret->text), "file %" PRIu64, file->base.ino);
	return ret->text;
}

/* --- attributes as seen from here ------------------------------------------------------------- */

/* Whether a program has set MTIME ahead of the server's clock.  It did so before the write of the dirty bytes, because
 * the node flushes all bytes before it sets a time. */
static bool is_ahead(const struct kr_file *file, struct kr_time mtime)
{
	return mtime.sec > kr_file_now(file->mount).sec + AHEAD_S;
}

static void overlay_dirty(const struct kr_file *file, struct kr_attr *attr)
{
	uint64_t most;

	attr->size = KR_MAX(attr->size, kr_extent_map_end(&file->dirty));
	most = KR_MAX(attr->blocks, (attr->size + 4095) / 4096 * 8);
	attr->blocks = KR_MIN(attr->blocks + (file->dirty.bytes + 4095) / 4096 * 8, most);
	/* No other node writes while we have both kinds: then the time is ours. */
	if (kr_lease_state_has(&file->holder, KR_LEASE_ALL) || kr_time_compare(file->mtime, attr->mtime) > 0 ||
		is_ahead(file, attr->mtime))
		attr->mtime = file->mtime;
	if (kr_time_compare(file->mtime, attr->ctime) > 0)
		attr->ctime = file->mtime;
	if (file->clear_suid) {
		attr->mode &= ~(uint32_t)S_ISUID;
		if (attr->mode & S_IXGRP)
			attr->mode &= ~(uint32_t)S_ISGID;
	}
}

bool kr_file_overlay_attr(struct kr_file *file, uint64_t stamp, bool last, struct kr_attr *attr)
{
	bool outdated;

	if (!file)
		return true;
	KR_SCOPED_LOCK(&file->lock);
	outdated = file->changed_ns && file->changed_ns >= stamp;
	if (outdated && !last)
		return false;
	if (outdated)
		attr->size = KR_MAX(attr->size, file->base.size);
	if (!kr_extent_map_empty(&file->dirty))
		overlay_dirty(file, attr);
	return true;
}

/* --- operations that change the file at the server -------------------------------------------- */

int kr_file_before_change(struct kr_file *file, struct kr_file_waiter *waiter, uint64_t size)
{
	uint32_t errors;
	bool done, refused;
	int err;

	pthread_mutex_lock(&file->lock);
	if (!waiter->asked)
		waiter->seq = file->written_seq;
	done = kr_extent_map_empty(&file->dirty) || (waiter->asked && file->flushed_seq >= waiter->seq);
	/* A truncation may be what makes room for what the server refuses; but it shall not be overtaken by that. */
	refused = !done && size != UINT64_MAX && file->holder.refused;
	done |= refused && !file->mount->files->flush->is_sending(file);
	errors = file->error_count;
	err = file->error;
	pthread_mutex_unlock(&file->lock);
	if (done)
		return 0;
	if (waiter->asked && errors != waiter->error_count)
		return size == UINT64_MAX ? err : 0;
	kr_file_wait(file, waiter);
	if (!waiter->asked && !refused) {
		waiter->asked = true;
		waiter->error_count = errors;
		file->mount->files->flush->ask(file);
	}
	return -EAGAIN;
}

void kr_file_after_change(struct kr_file *file, int err, uint64_t size, const struct kr_attr *attr)
{
	struct kr_journal *journal = file->mount->journal;

	pthread_mutex_lock(&file->lock);
	if (!err && size != UINT64_MAX && kr_extent_map_end(&file->dirty) > size) {
		kr_journal_trim(journal, &file->dirty, size);
		kr_extent_map_truncate(&file->dirty, size, kr_journal_release, journal);
	}
	/* A success is being heard of just now; what was given up may still come. */
	note_change(file, err ? kr_clock_ns() : kr_rpc_heard_ns(file->mount->rpc));
	if (attr)
		kr_file_learn(file, attr);
	/* A flush may have crossed it, and blocks without a version don't tell that they are old. */
	file->stale = true;
	pthread_mutex_unlock(&file->lock);
	kr_file_step(file);
}

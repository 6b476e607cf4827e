/* See late.h. */
#include "fuse/writeback/late.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/fault.h"
#include "common/base/hex.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "fuse/base/options.h"
#include "fuse/writeback/flush_priv.h"

struct kr_late {
	struct kr_file *file;         /* NULL: given up; only the answer of a call is waited for */
	struct kr_extent_map extents; /* all of it; holds the journal's bytes until they are durable in the target */
	uint64_t up_to;               /* the last write of the file when the server last said that its bytes are late */
	struct kr_time mtime;
	char *path;             /* of the original, from the mount's root; NULL: not known */
	struct kr_attr attr;    /* of the original; mode 0: not known */
	struct kr_file *target; /* a reference: it has got them; NULL: not yet */
	bool again;             /* what has become dirty since is late, too: when these are durable */
	bool calling;
	int err;
	uint64_t retry_ns;
};

static const char *path_of(const struct kr_late *late)
{
	return late->path ? late->path : "a file";
}

static void free_late(struct kr_late *late)
{
	kr_file_put(late->target);
	free(late->path);
	free(late);
}

/* The file has no late bytes any more. */
static void end(struct kr_late *late)
{
	struct kr_file *file = late->file;

	file->flush->late = NULL;
	late->file = NULL;
	if (!late->calling)
		free_late(late);
	kr_flush_settle(file);
	kr_file_step(file);
}

/* --- beginning and end ------------------------------------------------------------------------ */

/* Moves the pieces of MAP to TO: those with a seq of at most UNDER_SEQ under TO's own.  Both maps hold a piece for a
 * moment.  Out of memory: the rest stays in MAP. */
static int move_all(struct kr_journal *journal, struct kr_extent_map *map, struct kr_extent_map *to, uint64_t under_seq)
{
	struct kr_extent piece;
	int err = 0;

	while (!err && kr_extent_map_find(map, 0, &piece)) {
		kr_journal_hold(journal, &piece);
		err = (piece.seq > under_seq ? kr_extent_map_insert : kr_extent_map_insert_under)(
			to, &piece, kr_journal_release, journal);
		if (!err)
			err = kr_extent_map_remove(map, piece.offset, piece.length, kr_journal_release, journal);
	}
	return err;
}

/* A second loss of the session may add bytes to late ones that have no target yet.  The added bytes can be older, if a
 * failed sync has made them dirty again. */
static int take_dirty(struct kr_late *late)
{
	struct kr_file *file = late->file;
	int err;

	KR_SCOPED_LOCK(&file->lock);
	late->mtime = file->mtime;
	err = move_all(file->mount->journal, &file->dirty, &late->extents, late->up_to);
	if (err)
		return err;
	late->up_to = file->flushed_seq = file->written_seq;
	file->flush->noticed = file->flush->backlog_noticed = false;
	return 0;
}

static bool has_dirty(struct kr_file *file)
{
	KR_SCOPED_LOCK(&file->lock);
	return !kr_extent_map_empty(&file->dirty);
}

void kr_late_begin(struct kr_file *file, const struct kr_attr *attr)
{
	struct kr_late *late = file->flush->late;
	const char *hint = file->journal_file ? file->journal_file->hint : NULL;

	if (!has_dirty(file))
		return;
	if (late && late->target) {
		late->again = true;
		return;
	}
	if (!late) {
		late = kr_xcalloc(1, sizeof(*late));
		late->file = file;
		kr_extent_map_init(&late->extents);
		file->flush->late = late;
	}
	if (attr || file->base.ino)
		late->attr = attr ? *attr : file->base;
	if (!late->path && hint && hint[0])
		late->path = kr_xstrdup(hint);
	late->err = take_dirty(late);
	late->retry_ns = 0;
	if (late->err) {
		kr_log_error("out of memory: the late bytes of a file wait in the journal for the next mount");
		late->retry_ns = UINT64_MAX;
		kr_flush_orphan(file, late->err); /* else they would be flushed into the original */
	}
	kr_log_warn("%s (file %" PRIu64 ") was %s by others before what was written here was on the server: %" PRIu64
		    " byte%s in %zu range%s go to a conflict file",
		path_of(late), late->attr.ino, attr ? "changed" : "removed", late->extents.bytes,
		KR_S(late->extents.bytes), late->extents.count, KR_S(late->extents.count));
	(void)KR_FAULT("late.taken");
	kr_file_redirtied(file, -ESTALE);
	kr_flush_settle(file);
	kr_late_step(file);
}

uint64_t kr_late_bytes(const struct kr_late *late, uint64_t *ret_moved, int *ret_err)
{
	if (late->err)
		*ret_err = late->err;
	*ret_moved = late->target && !late->err ? late->extents.bytes : 0;
	return late->extents.bytes - *ret_moved;
}

void kr_late_discard(struct kr_file *file)
{
	struct kr_late *late = file->flush->late;

	if (!late)
		return;
	kr_journal_release_map(file->mount->journal, &late->extents);
	end(late);
}

void kr_late_fini(struct kr_flush *flush)
{
	struct kr_late *late = flush->late;

	if (!late)
		return;
	flush->late = NULL;
	late->file = NULL;
	late->target = NULL; /* goes as all files do, or has gone */
	kr_extent_map_fini(&late->extents);
	if (!late->calling)
		free_late(late);
}

/* --- the conflict file ------------------------------------------------------------------------ */

/* PLACE (from the export's root) from the mount's root, if it lies below. */
static const char *in_mount(const struct kr_mount *mount, const char *place)
{
	const char *subdir = mount->options->subdir;
	size_t length = subdir ? strlen(subdir) : 0;

	if (length && strncmp(place, subdir, length) == 0 && place[length] == '/')
		return place + length + 1;
	return place;
}

/* Programs that wait for a flush of the original get the error, because that flush comes after the late bytes. */
static void note_error(struct kr_late *late, int err)
{
	if (err && err != late->err)
		kr_file_flush_failed(late->file, -ESTALE);
	late->err = err;
}

static void retry_later(struct kr_late *late, int err)
{
	if (late->err != err)
		kr_log_error(
			"no conflict file for %s can be had: %s; its late bytes stay in the journal, and it is tried "
			"again",
			path_of(late), strerror(-err));
	note_error(late, err);
	late->retry_ns = kr_clock_ns() + KR_LATE_RETRY_MS * KR_NS_PER_MS;
}

struct filling {
	struct kr_file *target;
	int err;
};

static void fill_piece(void *context, const struct kr_extent *piece)
{
	struct filling *filling = context;
	struct kr_journal *journal = filling->target->mount->journal;

	if (filling->err)
		return;
	kr_journal_hold(journal, piece);
	filling->err = kr_extent_map_insert(&filling->target->dirty, piece, kr_journal_release, journal);
	if (filling->err)
		kr_journal_release(journal, piece);
}

/* The target gets them all.  We go on to hold them: killed at any time a start finds all of them, or the newest. */
static int fill(struct kr_late *late, struct kr_file *target, const char *place)
{
	struct filling filling = {.target = target};

	KR_SCOPED_LOCK(&target->lock);
	if (!target->journal_file)
		target->journal_file = kr_journal_file_new(&target->fid, in_mount(target->mount, place));
	if (!target->journal_file)
		return -ENOMEM;
	kr_extent_map_for_each(&late->extents, fill_piece, &filling);
	target->written_seq = KR_MAX(target->written_seq, kr_extent_map_max_seq(&late->extents));
	target->flushed_seq = 0;
	target->mtime = late->mtime;
	target->clear_suid = true;
	target->flush->resend = KR_MAX(target->flush->resend, late->file->flush->resend);
	target->flush->moved = true;
	kr_lease_state_dirtied(&target->holder, false);
	kr_lease_state_distrust(&target->holder); /* programs here may have read the hole */
	kr_flush_dirtied(target);
	return filling.err;
}

/* For status and the log. */
static void report(struct kr_late *late, const char *place)
{
	struct kr_flusher *flusher = kr_flusher_of(late->file);
	char fid[2 * KR_FID_MAX + 1];
	json_t *entry;

	kr_hex_format(late->file->fid.bytes, late->file->fid.length, fid);
	entry = json_pack("{s:o, s:s, s:o, s:I, s:I}", "path", kr_text_json(late->path ? late->path : "?"), "fid", fid,
		"conflict_file", kr_text_json(place), "bytes", (json_int_t)late->extents.bytes, "ranges",
		(json_int_t)late->extents.count);
	if (entry)
		json_array_append_new(flusher->conflicts, entry);
	/* A replay has no mount, and prints all conflict files once, at its end. */
	if (flusher->mount->fuse && json_array_size(flusher->conflicts) > KR_LATE_SHOWN)
		json_array_remove(flusher->conflicts, 0);
	flusher->conflict_files++;
	kr_log_warn("the late bytes of %s are in %s: %" PRIu64 " byte%s in %zu range%s, holes elsewhere", path_of(late),
		place, late->extents.bytes, KR_S(late->extents.bytes), late->extents.count, KR_S(late->extents.count));
}

/* The target counts as open here until its bytes are at the server.  Then file.c closes it, as it has no handle. */
static void take_target(struct kr_late *late, const struct kr_conflict_reply *reply)
{
	struct kr_file *target = kr_file_get_or_new(late->file->mount, &reply->target);
	int err;

	target->open.count++;
	pthread_mutex_lock(&target->lock);
	kr_file_learn(target, &reply->attr);
	pthread_mutex_unlock(&target->lock);
	(void)KR_FAULT("late.named");
	err = fill(late, target, reply->place);
	(void)KR_FAULT("late.moved");
	kr_flush_settle(target);
	kr_flush_ask(target, KR_FLUSH_CLOSE);
	kr_file_step(target);
	if (err) {
		retry_later(late, err);
		kr_file_put(target);
		return;
	}
	late->err = 0;
	late->target = target;
	report(late, reply->place);
	if (!late->file->flush->uncovered) /* programs have written the dirty bytes since */
		kr_uncovered_forget(kr_flusher_of(late->file)->uncovered, late->file);
}

/* The server knows of no conflict: the file is gone, and that is all. */
static void refuse(struct kr_late *late)
{
	struct kr_file *file = kr_file_get(late->file);

	pthread_mutex_lock(&file->lock);
	if (move_all(file->mount->journal, &late->extents, &file->dirty, UINT64_MAX))
		kr_log_error("out of memory: some bytes of a file that is gone wait in the journal for the next mount");
	pthread_mutex_unlock(&file->lock);
	kr_extent_map_fini(&late->extents);
	kr_log_warn("%s is gone at the server; its unflushed bytes wait in the journal to be discarded", path_of(late));
	end(late);
	kr_flush_orphan(file, -ESTALE);
	kr_file_put(file);
}

static void on_target(void *context, int err, const void *message, struct kr_buf *data)
{
	struct kr_late *late = context;

	(void)data;
	late->calling = false;
	if (!late->file) /* given up meanwhile */
		free_late(late);
	else if (err == -EPERM)
		refuse(late);
	else if (err && err != -ECANCELED)
		retry_later(late, err);
	else if (!err)
		take_target(late, message);
}

static void ask(struct kr_late *late)
{
	struct kr_conflict_request request = {.file = late->file->fid,
		.first = kr_extent_map_min_seq(&late->extents),
		.last = kr_extent_map_max_seq(&late->extents),
		.path = late->path && strlen(late->path) <= KR_PATH_MAX ? late->path : "",
		.written = late->mtime,
		.mode = late->attr.mode,
		.uid = late->attr.uid,
		.gid = late->attr.gid};

	late->calling = true;
	kr_rpc_call(late->file->mount->rpc, KR_MSG_CONFLICT, &request, NULL, 0, KR_RPC_HARD, on_target, late);
}

static bool is_durable(struct kr_late *late)
{
	struct kr_file *target = late->target;

	return !target->flush->late && kr_flush_oldest(target) > kr_extent_map_max_seq(&late->extents);
}

static void finish(struct kr_late *late)
{
	struct kr_file *file = kr_file_get(late->file);
	const bool again = late->again;
	const struct kr_attr attr = late->attr;

	kr_journal_release_map(file->mount->journal, &late->extents);
	end(late);
	if (again)
		kr_late_begin(file, &attr);
	kr_file_put(file);
}

void kr_late_step(struct kr_file *file)
{
	struct kr_late *late = file->flush->late;

	if (!late || late->calling || kr_flusher_of(file)->stopped || kr_clock_ns() < late->retry_ns)
		return;
	if (!late->target)
		ask(late);
	else if (is_durable(late))
		finish(late);
	else
		note_error(late, late->target->flush->plan.refused);
}

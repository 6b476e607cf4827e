/* See late.h. */
#include "fuse/writeback/late.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "fuse/writeback/flush_priv.h"
#include "common/base/hex.h"
#include "common/base/text.h"
#include "fuse/base/options.h"

struct kr_late {
	struct kr_file *file;         /* NULL: given up; only the answer of a call is waited for */
	struct kr_extent_map extents; /* what has not moved yet; holds the journal's bytes */
	struct kr_extent *order;      /* the same, oldest writes first, but for the first `moved`; NULL: to be made */
	size_t moved, count;
	uint64_t total, ranges; /* bytes and extents at the beginning */
	uint64_t up_to;         /* the last write of the file when its bytes were last found to be late */
	struct kr_time mtime;
	char *path;             /* of the original, from the mount's root; NULL: not known */
	struct kr_attr attr;    /* of the original; mode 0: not known */
	char *place;            /* of the target, from the export's root */
	struct kr_file *target; /* a reference, when it has been made */
	bool calling;
	int err;
	uint64_t retry_ns;
	struct kr_task more; /* goes on moving */
};

static void forget_order(struct kr_late *late)
{
	free(late->order);
	late->order = NULL;
}

static void free_late(struct kr_late *late)
{
	kr_file_put(late->target);
	forget_order(late);
	free(late->path);
	free(late->place);
	free(late);
}

/* Takes what it has out of the file's flush state. */
static void end(struct kr_late *late)
{
	struct kr_file *file = late->file;

	kr_loop_forget(file->mount->kr_loop, &late->more);
	file->flush->late = NULL;
	late->file = NULL;
	if (!late->calling)
		free_late(late);
	kr_flush_settle(file);
	kr_file_step(file);
}

/* --- beginning --- */

/* Bytes that a failed sync has made dirty again can be older than what is late already. */
static int insert_by_age(struct kr_late *late, const struct kr_extent *piece)
{
	struct kr_journal *journal = late->file->mount->journal;

	return (piece->seq > late->up_to ? kr_extent_map_insert : kr_extent_map_insert_under)(
		&late->extents, piece, kr_journal_release, journal);
}

/* A second loss of the session may add to what has not moved yet.  Out of memory: the rest stays where it was. */
static int take_dirty(struct kr_late *late)
{
	struct kr_file *file = late->file;
	struct kr_journal *journal = file->mount->journal;
	struct kr_extent piece;
	int err = 0;

	KR_SCOPED_LOCK(&file->lock);
	late->mtime = file->mtime;
	while (!err && kr_extent_map_find(&file->dirty, 0, &piece)) {
		kr_journal_hold(journal, &piece); /* for a moment, or if it goes in only in part, both have it */
		err = insert_by_age(late, &piece);
		if (!err)
			err = kr_extent_map_remove(
				&file->dirty, piece.offset, piece.length, kr_journal_release, journal);
	}
	if (err)
		return err;
	late->up_to = file->flushed_seq = file->written_seq;
	file->flush->noticed = file->flush->backlog_noticed = false;
	return 0;
}

static void note_path(struct kr_late *late)
{
	const struct kr_file *file = late->file;

	if (!late->path && file->journal_file && file->journal_file->hint && file->journal_file->hint[0])
		late->path = kr_xstrdup(file->journal_file->hint);
}

static bool has_dirty(struct kr_file *file)
{
	KR_SCOPED_LOCK(&file->lock);
	return !kr_extent_map_empty(&file->dirty);
}

static void go_on(struct kr_task *task)
{
	kr_late_step(KR_CONTAINER_OF(task, struct kr_late, more)->file);
}

void kr_late_begin(struct kr_file *file, const struct kr_attr *attr)
{
	struct kr_late *late = file->flush->late;
	int err;

	if (!has_dirty(file))
		return;
	if (!late) {
		late = kr_xcalloc(1, sizeof(*late));
		late->file = file;
		late->more.fn = go_on;
		kr_extent_map_init(&late->extents);
		file->flush->late = late;
	}
	forget_order(late);
	if (attr || file->base.ino)
		late->attr = attr ? *attr : file->base;
	note_path(late);
	err = take_dirty(late);
	late->retry_ns = 0;
	if (err) { /* what could be taken may lie over what could not: it must not go before that */
		kr_log_error("out of memory: the late bytes of a file wait in the journal for the next mount");
		late->err = err;
		late->retry_ns = UINT64_MAX;
		kr_flush_orphan(file, err); /* else they would be flushed into the original */
	}
	late->total = late->extents.bytes;
	late->ranges = late->extents.count;
	kr_log_warn("%s (file %" PRIu64 ") was %s by others before what was written here was on the server: %" PRIu64
		    " bytes in %" PRIu64 " ranges go to a conflict file",
		late->path ? late->path : "?", late->attr.ino, attr ? "changed" : "removed", late->total, late->ranges);
	kr_file_put(late->target); /* another lapse: the server says anew where it all goes */
	late->target = NULL;
	(void)KR_FAULT("late.taken");
	kr_file_redirtied(file, -ESTALE);
	kr_flush_settle(file);
	kr_late_step(file);
}

uint64_t kr_late_bytes(const struct kr_late *late, int *ret_err)
{
	if (late->err)
		*ret_err = late->err;
	return late->extents.bytes;
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
	kr_extent_map_fini(&late->extents);
	if (!late->calling)
		free_late(late);
}

/* --- moving late bytes into their conflict file ------------------------------------------------ */

/* The oldest writes first.  If the daemon is killed in the middle, what is left of a write that others have covered in
 * part comes back whole.  So what covered it must not have gone before it.  After PIECES_AT_ONCE the loop has its turn:
 * a hundred thousand take seconds. */
enum { PIECES_AT_ONCE = 64 };

static void collect(void *context, const struct kr_extent *piece)
{
	struct kr_late *late = context;

	late->order[late->count++] = *piece;
}

static int compare_seq(const void *a, const void *b)
{
	const struct kr_extent *x = a, *y = b;

	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

static int make_order(struct kr_late *late)
{
	if (late->order)
		return 0;
	late->order = calloc(late->extents.count, sizeof(*late->order));
	if (!late->order)
		return kr_fail(-ENOMEM, "out of memory");
	late->moved = late->count = 0;
	kr_extent_map_for_each(&late->extents, collect, late);
	qsort(late->order, late->count, sizeof(*late->order), compare_seq);
	return 0;
}

/* PLACE (from the export's root) from the mount's root, if it lies below. */
static const char *in_mount(const struct kr_mount *mount, const char *place)
{
	const char *subdir = mount->options->subdir;
	size_t length = subdir ? strlen(subdir) : 0;

	if (length && strncmp(place, subdir, length) == 0 && place[length] == '/')
		return place + length + 1;
	return place;
}

/* A journal that is full of what waits here would stay so: when nothing else of the target makes room, a piece goes
 * beyond its maximum, for the moment until it leaves its old place. */
static int journal_piece(struct kr_late *late, const struct kr_extent *piece, const void *bytes, bool beyond,
	struct kr_extent *ret_extent)
{
	struct kr_file *target = late->target;

	if (!target->journal_file)
		target->journal_file = kr_journal_file_new(&target->fid, in_mount(target->mount, late->place));
	if (!target->journal_file)
		return kr_fail(-ENOMEM, "out of memory");
	return (beyond ? kr_journal_append_beyond : kr_journal_append)(target->mount->journal, target->journal_file,
		piece->offset, bytes, piece->length, late->mtime, true, ret_extent);
}

/* The piece goes into the target's journal before it leaves ours. [target->lock] held. */
static int append(struct kr_late *late, const struct kr_extent *piece, const void *bytes, bool beyond)
{
	struct kr_file *target = late->target;
	struct kr_journal *journal = target->mount->journal;
	struct kr_extent extent;
	int err = journal_piece(late, piece, bytes, beyond, &extent);

	if (err)
		return err;
	err = kr_extent_map_insert(&target->dirty, &extent, kr_journal_release, journal);
	if (err) {
		kr_journal_release(journal, &extent);
		return err;
	}
	target->written_seq = extent.seq;
	target->mtime = late->mtime;
	kr_lease_state_dirtied(&target->holder, false);
	kr_lease_state_distrust(&target->holder); /* who has it open here may have read the hole */
	kr_flush_dirtied(target);
	return 0;
}

static int move_next(struct kr_late *late, bool beyond)
{
	struct kr_journal *journal = late->file->mount->journal;
	KR_AUTO_FREE void *bytes = NULL;
	struct kr_extent piece, *next;
	int err = make_order(late);

	if (err)
		return err;
	next = &late->order[late->moved];
	piece = *next;
	piece.length = KR_MIN(piece.length, (uint64_t)KR_JOURNAL_APPEND_MAX);
	bytes = malloc(piece.length);
	if (!bytes)
		return kr_fail(-ENOMEM, "out of memory");
	err = kr_journal_read_verified(journal, piece.position, bytes, piece.length);
	if (err)
		return err;
	pthread_mutex_lock(&late->target->lock);
	err = append(late, &piece, bytes, beyond);
	pthread_mutex_unlock(&late->target->lock);
	(void)KR_FAULT("late.copied");
	if (!err)
		err = kr_extent_map_remove(&late->extents, piece.offset, piece.length, kr_journal_release, journal);
	if (err)
		return err;
	next->offset += piece.length;
	next->position += piece.length;
	next->length -= piece.length;
	if (next->length == 0)
		late->moved++;
	(void)KR_FAULT("late.moved");
	return 0;
}

static void finished(struct kr_late *late)
{
	struct kr_flusher *flusher = kr_flusher_of(late->file);
	const char *path = late->path ? late->path : "?";
	char fid[2 * KR_FID_MAX + 1];
	json_t *entry;

	kr_hex_format(late->file->fid.bytes, late->file->fid.length, fid);
	entry = json_pack("{s:o, s:s, s:o, s:I, s:I}", "path", kr_text_json(path), "fid", fid, "conflict_file",
		kr_text_json(late->place), "bytes", (json_int_t)late->total, "ranges", (json_int_t)late->ranges);

	if (entry)
		json_array_append_new(flusher->conflicts, entry);
	/* Without a mount (a replay) there is nobody who asks again and again: all are told in the end. */
	if (flusher->mount->fuse && json_array_size(flusher->conflicts) > KR_LATE_SHOWN)
		json_array_remove(flusher->conflicts, 0);
	flusher->conflict_files++;
	kr_log_warn("the late bytes of %s are in %s: %" PRIu64 " bytes in %" PRIu64 " ranges, holes elsewhere", path,
		late->place, late->total, late->ranges);
	kr_flush_ask(late->target, KR_FLUSH_CLOSE);
	if (!late->file->flush->uncovered) /* what is dirty has been written since */
		kr_uncovered_forget(flusher->uncovered, late->file);
	end(late);
}

static void retry_later(struct kr_late *late, int err)
{
	late->err = err;
	late->retry_ns = kr_clock_ns() + KR_LATE_RETRY_MS * KR_NS_PER_MS;
}

static void not_moved(struct kr_late *late, int err)
{
	if (late->err != err)
		kr_log_error("late bytes of %s cannot be moved to %s: %s", late->path ? late->path : "a file",
			late->place, kr_fail_reason());
	retry_later(late, err);
}

/* Moves some of it to the target, which is there; then goes on by itself. */
static void move_some(struct kr_late *late)
{
	int err = 0;

	kr_journal_try_again(late->file->mount->journal); /* nobody else does where no program waits in a write */
	for (int i = 0; i < PIECES_AT_ONCE && !err && !kr_extent_map_empty(&late->extents); i++)
		err = move_next(late, false);
	if (err == -EAGAIN && !kr_flush_busy(late->target))
		err = move_next(late, true);
	kr_flush_settle(late->target);
	kr_file_step(late->target);
	if (err == -EAGAIN)
		kr_flush_ask(late->target, KR_FLUSH_SPACE); /* the journal is full: what has moved makes room */
	else if (err)
		not_moved(late, err);
	else if (kr_extent_map_empty(&late->extents))
		finished(late);
	else /* in a turn of its own: whatever else the loop has to do comes between */
		kr_loop_post(late->file->mount->kr_loop, &late->more);
}

/* --- asking for the file --- */

static void failed(struct kr_late *late, int err)
{
	if (late->err != err)
		kr_log_error(
			"no conflict file for %s can be had: %s; its late bytes stay in the journal, and it is tried again",
			late->path ? late->path : "a file", strerror(-err));
	retry_later(late, err);
}

/* It counts as open here until its bytes are at the server (file.c closes what nobody has a handle of). */
static void take_target(struct kr_late *late, const struct kr_conflict_reply *reply)
{
	struct kr_mount *mount = late->file->mount;

	late->err = 0;
	free(late->place);
	late->place = kr_xstrdup(reply->place);
	late->target = kr_file_get_or_new(mount, &reply->target);
	late->target->open.count++;
	pthread_mutex_lock(&late->target->lock);
	kr_file_learn(late->target, &reply->attr);
	pthread_mutex_unlock(&late->target->lock);
	kr_file_step(late->target);
	(void)KR_FAULT("late.named");
}

struct give_back {
	struct kr_file *file;
	int err;
};

static void give_back_piece(void *context, const struct kr_extent *piece)
{
	struct give_back *back = context;
	struct kr_file *file = back->file;

	if (kr_extent_map_insert_under(&file->dirty, piece, kr_journal_release, file->mount->journal) < 0)
		back->err = -ENOMEM;
}

/* The server knows of no conflict: the file is gone, and that is all. */
static void refuse(struct kr_late *late)
{
	struct give_back back = {.file = late->file};
	struct kr_file *file = kr_file_get(late->file);

	pthread_mutex_lock(&file->lock);
	kr_extent_map_for_each(&late->extents, give_back_piece, &back);
	kr_extent_map_fini(&late->extents);
	pthread_mutex_unlock(&file->lock);
	if (back.err)
		kr_log_error("out of memory: some bytes of a file that is gone wait in the journal for the next mount");
	kr_log_warn("%s is gone at the server; its unflushed bytes wait in the journal to be discarded",
		late->path ? late->path : "a file");
	end(late);
	kr_flush_orphan(file, -ESTALE);
	kr_file_put(file);
}

static void on_target(void *context, int err, const void *message, struct kr_buf *data)
{
	struct kr_late *late = context;

	(void)data;
	late->calling = false;
	if (!late->file) { /* given up meanwhile */
		free_late(late);
		return;
	}
	if (err == -ECANCELED)
		return;
	if (err == -EPERM) {
		refuse(late);
		return;
	}
	if (err)
		failed(late, err);
	else
		take_target(late, message);
	kr_late_step(late->file);
}

static void note_first(void *context, const struct kr_extent *piece)
{
	uint64_t *first = context;

	*first = *first ? KR_MIN(*first, piece->seq) : piece->seq;
}

static void ask(struct kr_late *late)
{
	struct kr_conflict_request request = {.file = late->file->fid,
		.last = kr_extent_map_max_seq(&late->extents),
		.path = late->path && strlen(late->path) <= KR_PATH_MAX ? late->path : "",
		.written = late->mtime,
		.mode = late->attr.mode,
		.uid = late->attr.uid,
		.gid = late->attr.gid};

	kr_extent_map_for_each(&late->extents, note_first, &request.first);
	late->calling = true;
	kr_rpc_call(late->file->mount->rpc, KR_MSG_CONFLICT, &request, NULL, 0, KR_RPC_HARD, on_target, late);
}

void kr_late_step(struct kr_file *file)
{
	struct kr_late *late = file->flush->late;

	if (!late || late->calling || kr_flusher_of(file)->stopped || kr_clock_ns() < late->retry_ns)
		return;
	if (late->target)
		move_some(late);
	else
		ask(late);
}

/* Moves late bytes into their conflict file; see late.h.
 *
 * The oldest writes first: killed in the middle, what is left of a write that others have covered in part comes back
 * whole, and what covered it must not have gone before it.
 *
 * PIECES_AT_ONCE, and the loop has its turn; a hundred thousand take seconds.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "common/base/fault.h"
#include "common/base/hex.h"
#include "common/base/log.h"
#include "common/base/text.h"
#include "fuse/writeback/flush_priv.h"
#include "fuse/writeback/late_priv.h"
#include "fuse/base/options.h"

enum { PIECES_AT_ONCE = 64 };

void kr_late_forget_order(struct kr_late *late)
{
	free(late->order);
	late->order = NULL;
}

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
	kr_late_end(late);
}

static void not_moved(struct kr_late *late, int err)
{
	if (late->err != err)
		kr_log_error("late bytes of %s cannot be moved to %s: %s", late->path ? late->path : "a file",
			late->place, kr_fail_reason());
	late->err = err;
	late->retry_ns = kr_clock_ns() + KR_LATE_RETRY_MS * KR_NS_PER_MS;
}

void kr_late_move(struct kr_late *late)
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

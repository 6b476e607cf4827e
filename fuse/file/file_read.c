/* See file_read.h. */
#include "fuse/file/file_read.h"

#include <errno.h>
#include <stdlib.h>

#include "fuse/base/mount.h"
#include "fuse/journal/journal.h"
#include "fuse/readcache/stage.h"

static bool more_room(struct kr_read_plan *plan)
{
	size_t room = plan->room * 4;
	struct kr_extent *pieces = malloc(room * sizeof(*pieces));

	if (!pieces)
		return false;
	memcpy(pieces, plan->pieces, plan->count * sizeof(*pieces));
	if (plan->pieces != plan->few)
		free(plan->pieces);
	plan->pieces = pieces;
	plan->room = room;
	return true;
}

static bool add_piece(struct kr_read_plan *plan, const struct kr_extent *extent)
{
	uint64_t begin = KR_MAX(extent->offset, plan->offset);
	uint64_t end = KR_MIN(extent->offset + extent->length, plan->offset + plan->length);
	struct kr_extent piece = {.offset = begin,
		.length = end - begin,
		.position = extent->position + (begin - extent->offset),
		.seq = extent->seq};

	if (plan->count == plan->room && !more_room(plan))
		return false;
	plan->pieces[plan->count++] = piece;
	kr_journal_hold(plan->journal, &piece);
	return true;
}

int kr_read_plan_init(struct kr_read_plan *plan, struct kr_file *file, uint64_t offset, size_t length)
{
	uint64_t end = kr_file_end(file);
	struct kr_extent extent;

	plan->journal = file->mount->journal;
	plan->stage = file->stage;
	plan->version = file->base.version;
	plan->base_size = file->base.size;
	plan->offset = offset;
	plan->length = offset >= end ? 0 : (size_t)KR_MIN((uint64_t)length, end - offset);
	plan->pieces = plan->few;
	plan->count = 0;
	plan->room = KR_READ_PIECES;
	for (uint64_t at = offset; at < offset + plan->length; at = extent.offset + extent.length) {
		if (!kr_extent_map_find(&file->dirty, at, &extent) || extent.offset >= offset + plan->length)
			break;
		if (!add_piece(plan, &extent)) {
			kr_read_plan_fini(plan);
			return -ENOMEM;
		}
	}
	return 0;
}

void kr_read_plan_fini(struct kr_read_plan *plan)
{
	for (size_t i = 0; i < plan->count; i++)
		kr_journal_release(plan->journal, &plan->pieces[i]);
	if (plan->pieces != plan->few)
		free(plan->pieces);
	plan->pieces = plan->few;
	plan->count = 0;
}

/* Calls VISIT for each part of the range that no unflushed byte covers; the part below base_size is the stage's. Stops
 * at the first result below 0, else returns the smallest. */
static int for_each_gap(const struct kr_read_plan *plan,
	int (*visit)(const struct kr_read_plan *plan, uint64_t offset, size_t staged, size_t zeros, void *context),
	void *context)
{
	uint64_t at = plan->offset, end = plan->offset + plan->length;
	int result = 1;

	for (size_t i = 0; i <= plan->count; i++) {
		uint64_t until = i < plan->count ? plan->pieces[i].offset : end;

		if (until > at) {
			size_t staged = at >= plan->base_size ? 0 : (size_t)(KR_MIN(until, plan->base_size) - at);
			int got = visit(plan, at, staged, (size_t)(until - at) - staged, context);

			if (got < 0)
				return got;
			result = KR_MIN(result, got);
		}
		if (i < plan->count)
			at = plan->pieces[i].offset + plan->pieces[i].length;
	}
	return result;
}

static int gap_needs_none(const struct kr_read_plan *plan, uint64_t offset, size_t staged, size_t zeros, void *context)
{
	(void)plan, (void)offset, (void)zeros, (void)context;
	return staged == 0;
}

bool kr_read_plan_needs_stage(const struct kr_read_plan *plan)
{
	return for_each_gap(plan, gap_needs_none, NULL) == 0;
}

/* Whether all of it is unflushed bytes of this node. */
static bool read_plan_is_own(const struct kr_read_plan *plan)
{
	uint64_t own = 0;

	for (size_t i = 0; i < plan->count; i++)
		own += plan->pieces[i].length;
	return own == plan->length;
}

static int want_gap(const struct kr_read_plan *plan, uint64_t offset, size_t staged, size_t zeros, void *context)
{
	(void)plan, (void)zeros;
	return staged ? kr_stage_want(context, offset, staged) : 1;
}

int kr_read_plan_want(const struct kr_read_plan *plan, struct kr_stage *stage)
{
	return for_each_gap(plan, want_gap, stage);
}

static int fill_gap(const struct kr_read_plan *plan, uint64_t offset, size_t staged, size_t zeros, void *context)
{
	uint8_t *to = (uint8_t *)context + (offset - plan->offset);
	int err = 0;

	if (staged && !plan->stage)
		return -ENODATA;
	if (staged)
		err = kr_stage_pread(plan->stage, plan->version, offset, to, staged);
	memset(to + staged, 0, zeros);
	return err;
}

int kr_read_plan_fill(const struct kr_read_plan *plan, void *buffer)
{
	int err = for_each_gap(plan, fill_gap, buffer);

	if (err < 0)
		return err;
	for (size_t i = 0; i < plan->count; i++) {
		const struct kr_extent *piece = &plan->pieces[i];
		uint8_t *to = (uint8_t *)buffer + (piece->offset - plan->offset);

		err = kr_journal_read(plan->journal, piece->position, to, piece->length);
		if (err)
			return err == -EBADMSG ? -EIO : err;
	}
	return 0;
}

/* PLAN is made if the range is this node's alone. */
static bool plan_own(struct kr_read_plan *plan, struct kr_file *file, uint64_t offset, size_t length)
{
	KR_SCOPED_LOCK(&file->lock);
	if (kr_mount_fenced(file->mount) || kr_extent_map_empty(&file->dirty) ||
		kr_read_plan_init(plan, file, offset, length))
		return false;
	if (plan->length == length && read_plan_is_own(plan))
		return true;
	kr_read_plan_fini(plan);
	return false;
}

int kr_read_own(struct kr_file *file, uint64_t offset, size_t length, void *buffer)
{
	struct kr_read_plan plan;
	int err;

	if (!plan_own(&plan, file, offset, length))
		return -ENODATA;
	err = kr_read_plan_fill(&plan, buffer);
	kr_read_plan_fini(&plan);
	return err;
}

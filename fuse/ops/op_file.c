/* See op_file.h. */
#include "fuse/ops/op_file.h"

#include <errno.h>

#include "fuse/base/counters.h"
#include "fuse/base/options.h"
#include "fuse/journal/journal.h"
#include "fuse/writeback/flush.h"

static void wake(struct kr_waiter *waiter)
{
	struct kr_file_op *op = KR_CONTAINER_OF(waiter, struct kr_file_op, waiter.waiter);

	if (!op->op.call)
		kr_op_waits_for(&op->op, KR_WAIT_HERE);
	op->op.step(&op->op);
}

void kr_file_op_fini(struct kr_op *op)
{
	struct kr_file_op *file_op = KR_CONTAINER_OF(op, struct kr_file_op, op);

	kr_file_unwait(&file_op->waiter);
	kr_file_put(file_op->file);
}

void kr_file_op_init(struct kr_file_op *op)
{
	op->op.fini = kr_file_op_fini;
	op->waiter.waiter.wake = wake;
}

void *kr_file_op_new(
	size_t size, fuse_req_t req, const char *name, struct kr_file *file, void (*step)(struct kr_op *op))
{
	struct kr_file_op *op = kr_op_new(size, kr_op_mount(req), req, name, step);

	if (!op)
		return NULL;
	kr_file_op_init(op);
	op->file = kr_file_get(file);
	return op;
}

void kr_file_op_wait(struct kr_file_op *op, uint8_t kinds)
{
	kr_file_wait(op->file, &op->waiter);
	kr_file_need(op->file, kinds);
	if (kinds)
		kr_op_waits_for(&op->op, KR_WAIT_LEASE);
}

/* --- journaling writes ------------------------------------------------------------------------ */

uint8_t kr_file_write_kinds(const struct kr_file *file, bool append)
{
	return append || file->mount->options->coherence == KR_COHERENCE_ORDERED ? KR_LEASE_ALL : KR_LEASE_WRITE;
}

int kr_file_append(struct kr_file *file, uint64_t offset, const char *data, size_t length,
	const struct kr_write_how *how, size_t *done)
{
	struct kr_journal *journal = file->mount->journal;
	struct kr_time now = kr_file_write_time(file);

	if (!file->journal_file) {
		KR_AUTO_FREE char *path = kr_inode_path(file->mount->inodes, &file->fid);

		file->journal_file = kr_journal_file_new(&file->fid, path);
	}
	if (!file->journal_file)
		return -ENOMEM;
	while (length) {
		size_t piece = KR_MIN(length, (size_t)KR_JOURNAL_APPEND_MAX);
		struct kr_extent extent;
		int err = kr_journal_append(
			journal, file->journal_file, offset, data, piece, now, how->clear_suid, &extent);

		if (err)
			return err;
		err = kr_extent_map_insert(&file->dirty, &extent, kr_journal_release, journal);
		if (err) {
			kr_journal_release(journal, &extent);
			return err;
		}
		offset += piece;
		data += piece;
		length -= piece;
		*done += piece;
		kr_count(file->mount->counters, KR_COUNT_WRITTEN_BYTES, piece);
		file->written_seq = extent.seq;
		file->mtime = now;
		file->clear_suid |= how->clear_suid;
		file->pages.written |= how->page;
		kr_lease_state_dirtied(&file->holder, how->page);
		kr_flush_dirtied(file);
	}
	return 0;
}

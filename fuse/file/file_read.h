/* Reading a range of a file as seen from this node: unflushed bytes over staged ones, zeros in between. */
#ifndef KR_FUSE_FILE_READ_H
#define KR_FUSE_FILE_READ_H

#include "fuse/file/file.h"

enum { KR_READ_PIECES = 16 };

/* The sources of a read, as they were under file->lock.  The journal holds the bytes of PIECES. */
struct kr_read_plan {
	struct kr_journal *journal;
	struct kr_stage *stage;      /* NULL: there was none */
	uint64_t version, base_size; /* staged bytes: of this version, up to here */
	uint64_t offset;
	size_t length;            /* cut at the end of the file */
	struct kr_extent *pieces; /* unflushed, ascending, within the range */
	size_t count, room;
	struct kr_extent few[KR_READ_PIECES];
};

/* file->lock held; READ entered, not stale. 0 or -ENOMEM. */
int kr_read_plan_init(struct kr_read_plan *plan, struct kr_file *file, uint64_t offset, size_t length);
/* Any thread. */
void kr_read_plan_fini(struct kr_read_plan *plan);
/* Whether staged bytes are needed at all. */
bool kr_read_plan_needs_stage(const struct kr_read_plan *plan);
/* Loop thread: asks STAGE for the blocks that the read needs. 1: all are here; 0: a step of the file will come; -errno.
 */
int kr_read_plan_want(const struct kr_read_plan *plan, struct kr_stage *stage);
/* Fills BUFFER (plan->length bytes). 0; -ENODATA: blocks are missing; -ESTALE: the version is another by now; else the
 * disk's or the server's error. Any thread; reads local disks. */
int kr_read_plan_fill(const struct kr_read_plan *plan, void *buffer);

/* Reads a range of which this node has written every byte and not flushed it. 0; -ENODATA: it is not so, or the node is
 * fenced; else as kr_read_plan_fill. Any thread. */
int kr_read_own(struct kr_file *file, uint64_t offset, size_t length, void *buffer);

#endif

/* Inside of late.c and late_move.c.  Loop thread. */
#ifndef KR_FUSE_LATE_PRIV_H
#define KR_FUSE_LATE_PRIV_H

#include "common/base/extent_map.h"
#include "fuse/file/file.h"
#include "fuse/writeback/late.h"
#include "fuse/base/loop.h"

struct kr_late {
	struct kr_file *file;         /* NULL: given up; only the answer of a call is waited for */
	struct kr_extent_map extents; /* what has not moved yet; holds the journal's bytes */
	struct kr_extent *order;      /* the same, oldest writes first, but for the first `moved`; NULL: to be made */
	size_t moved, count;
	uint64_t total, ranges; /* bytes and extents at the beginning */
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

/* Moves some of it to the target, which is there; then goes on by itself. */
void kr_late_move(struct kr_late *late);
/* The extents change. */
void kr_late_forget_order(struct kr_late *late);
/* Takes what it has out of the file's flush state. */
void kr_late_end(struct kr_late *late);

#endif

/* Writes bytes of a flush round into its file, in the pool.  Pieces ascend without overlap; neighbours go into one
 * system call; gaps stay.  Also ends a round: set-id bits, mtime, attributes.
 */
#ifndef KR_SERVER_APPLY_H
#define KR_SERVER_APPLY_H

#include "common/base/buf.h"
#include "server/export/export.h"
#include "server/base/pool_share.h"

struct kr_sfile;

enum { KR_APPLY_PIECES = 1024, KR_APPLY_BRIEF_BYTES = 65536 };

/* One job.  The caller fills it in after kr_apply_new and frees it in DONE (kr_apply_free if it was not started). */
struct kr_apply {
	struct kr_pool_share_job gated;
	struct kr_export *export;
	struct kr_sfile *file; /* reference */
	uint64_t round;
	struct kr_write_piece *pieces; /* count of them; point into bufs */
	size_t count, capacity;
	struct kr_buf **bufs; /* references */
	size_t buf_count, buf_capacity;
	size_t bytes, memory; /* to be written; held by the buffers */
	bool want_before;     /* attributes before the first write */
	bool check;           /* verify CHECKSUM over the first buffer (an inline flush) */
	bool finish;          /* after the writes: CLEAR_SUID, MTIME, attributes */
	bool clear_suid;
	bool compare; /* write only pieces that differ from the file; without any, FINISH changes nothing */
	bool differs; /* a piece did: in, of earlier jobs of the round, and out */
	struct kr_time mtime;
	uint64_t checksum;
	/* results */
	int err;
	struct kr_attr before, after;
	void (*done)(struct kr_apply *apply); /* in the loop; owns APPLY from then on */
	void *context;
};

struct kr_apply *kr_apply_new(
	struct kr_sfile *file, uint64_t round, void (*done)(struct kr_apply *apply), void *context);
void kr_apply_free(struct kr_apply *apply);
/* LENGTH bytes of BUF from START belong at OFFSET; takes a reference of its own.  The caller keeps the order. */
void kr_apply_add(struct kr_apply *apply, uint64_t offset, struct kr_buf *buf, size_t start, size_t length);
void kr_apply_start(struct kr_apply *apply);

#endif

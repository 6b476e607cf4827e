/* Decides from the reads of a file how far ahead of them blocks should be staged.  Pure; one per file, for all its
 * readers.
 *
 * It distinguishes up to KR_READAHEAD_STREAMS sequential readers.  Read-ahead starts when a stream has read
 * KR_READAHEAD_START bytes in more than one read: at least KR_READAHEAD_MIN ahead, growing with the stream, and to the
 * file's end once that is near.  So a file read from its start is soon staged whole, and a file of which programs look
 * at the header is not.  A file of at most KR_READAHEAD_SMALL is staged whole at its first read.
 */
#ifndef KR_RING_READAHEAD_H
#define KR_RING_READAHEAD_H

#include <stdbool.h>
#include <stdint.h>

enum { KR_READAHEAD_STREAMS = 8 };
#define KR_READAHEAD_START (UINT64_C(128) << 10)
#define KR_READAHEAD_SMALL (UINT64_C(256) << 10)
#define KR_READAHEAD_MIN (UINT64_C(32) << 20)
#define KR_READAHEAD_NEAR (UINT64_C(128) << 20)

struct kr_readahead_stream {
	uint64_t next;    /* where the next read is expected */
	uint64_t run;     /* bytes read in sequence */
	uint64_t horizon; /* the end of the range requested so far */
	uint64_t age;     /* 0: unused */
};
struct kr_readahead {
	struct kr_readahead_stream streams[KR_READAHEAD_STREAMS];
	uint64_t clock;
	uint64_t max; /* bytes ahead of a reader at most */
};

/* MAX_AHEAD: the most bytes to stage ahead of a reader (a share of the cache). */
void kr_readahead_init(struct kr_readahead *readahead, uint64_t max_ahead);
/* A read of [OFFSET, OFFSET + LENGTH) in a file of SIZE bytes.  A read that is tried again counts once.  True: the
 * caller should stage *RET_FROM .. *RET_END (bytes) now.  That comes again only when the reader is near the end of the
 * range. */
bool kr_readahead_read(struct kr_readahead *readahead, uint64_t offset, uint64_t length, uint64_t size,
	uint64_t *ret_from, uint64_t *ret_end);

#endif

/* What a mount has done since its start: sums, and how long each kind of request of the kernel took.
 *
 * Any thread, without locks.  A thread adds to one of a few shards, so that threads seldom meet in a cache line, and
 * status adds the shards up. */
#ifndef KR_FUSE_COUNTERS_H
#define KR_FUSE_COUNTERS_H

#include <jansson.h>
#include <stdint.h>

enum kr_counter {
	KR_COUNT_READ_BYTES,    /* answers to reads of the kernel */
	KR_COUNT_WRITTEN_BYTES, /* journaled */
	KR_COUNT_CACHE_HITS,    /* reads whose bytes were all on this node */
	KR_COUNT_CACHE_MISSES,  /* reads that waited for blocks */
	KR_COUNT_FLUSHES,       /* flushes that the server has applied, and their bytes */
	KR_COUNT_FLUSHED_BYTES,
	KR_COUNT_FLUSH_ERRORS, /* flushes that the server has refused */
	KR_COUNT_RECALLS,      /* RECALLs that have come */
	KR_COUNTERS,
};

struct kr_counters;

struct kr_counters *kr_counters_new(void);
void kr_counters_free(struct kr_counters *counters);
void kr_count(struct kr_counters *counters, enum kr_counter counter, uint64_t add);
/* The kind of a request OPCODE (linux/fuse.h) of the kernel: "read".  NULL: not known, or without an answer. */
const char *kr_request_name(uint32_t opcode);
/* A request OPCODE of the kernel took NS from its arrival to its answer. */
void kr_count_request(struct kr_counters *counters, uint32_t opcode, uint64_t ns);
/* {"read_bytes", ..., "requests": {"lookup": (kr_histogram_json), ...}}, owned.  "requests" has the kinds that came. */
json_t *kr_counters_status(const struct kr_counters *counters);

#endif

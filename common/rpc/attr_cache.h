/* The attribute cache: names and attributes that a node keeps until the server invalidates them (msgs.def, CACHEABLE
 * REPLIES). */
#ifndef KR_COMMON_ATTR_CACHE_H
#define KR_COMMON_ATTR_CACHE_H

#include "common/base/table.h"
#include "common/base/types.h"

enum {
	KR_ATTR_CACHE_BUCKETS = 1 << 17,
	KR_ATTR_CACHE_ALL = KR_ATTR_CACHE_BUCKETS, /* INVALIDATE's number for all buckets */
	KR_ATTR_CACHE_MS = 60000,                  /* an entry is valid for so long from the node's request ... */
	KR_ATTR_CACHE_GRANT_MS =
		90000, /* ... and for the server for so long: the clocks' rates may differ by a third */
};

/* The bucket of FID's entries, and of its names if it is a directory. */
static inline uint32_t kr_attr_cache_bucket(const struct kr_fid *fid)
{
	return (uint32_t)(kr_hash_bytes(fid->bytes, fid->length) % KR_ATTR_CACHE_BUCKETS);
}

#endif

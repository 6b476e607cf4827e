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
	KR_ATTR_CACHE_SHORT_MS = 10000,            /* ... without KR_FEATURE_LONG_NOTES ... */
	KR_ATTR_CACHE_GRANT_MS =
		90000, /* ... and for the server for so long: the clocks' rates may differ by a third */
};

/* Bit of HELLO's `may`: the node has an attribute cache, and obeys INVALIDATE. */
#define KR_FEATURE_ATTR_CACHE UINT64_C(1)
/* Bit of HELLO's `may`: the node itself invalidates the directory entries that its own requests change. */
#define KR_FEATURE_OWN_NAMES UINT64_C(4)
/* Bit of the reply's `may`: the server answers LOOKUPS. */
#define KR_FEATURE_LOOKUPS UINT64_C(2)
/* Bit of the reply's `may`: the server knows of entries for so long that they are valid for KR_ATTR_CACHE_MS. */
#define KR_FEATURE_LONG_NOTES UINT64_C(1024)

/* The bucket of FID's entries, and of its names if it is a directory. */
static inline uint32_t kr_attr_cache_bucket(const struct kr_fid *fid)
{
	return (uint32_t)(kr_hash_bytes(fid->bytes, fid->length) % KR_ATTR_CACHE_BUCKETS);
}

#endif

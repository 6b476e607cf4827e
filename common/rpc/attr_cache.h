/* Notes: what a node remembers of names and attributes until the server tells it to forget (msgs.def, NOTES). */
#ifndef KR_COMMON_ATTR_CACHE_H
#define KR_COMMON_ATTR_CACHE_H

#include "common/base/table.h"
#include "common/base/types.h"

enum {
	KR_ATTR_CACHE_BUCKETS = 1 << 17,
	KR_ATTR_CACHE_ALL = KR_ATTR_CACHE_BUCKETS, /* INVALIDATE's number for all slots */
	KR_ATTR_CACHE_MS = 10000,                  /* a node's note holds for so long from when it asked ... */
	KR_ATTR_CACHE_GRANT_MS =
		15000, /* ... and the server counts on nobody's having one after so long: clocks may differ that much */
};

/* Bit of HELLO's `may`: the node keeps notes, and obeys INVALIDATE. */
#define KR_FEATURE_ATTR_CACHE UINT64_C(1)
/* Bit of HELLO's `may`: the node forgets by itself what its own requests change of the directories that they name. */
#define KR_FEATURE_OWN_NAMES UINT64_C(4)
/* Bit of the reply's `may`: the server answers LOOKUPS. */
#define KR_FEATURE_LOOKUPS UINT64_C(2)

/* Where what is known of FID, its names included if it is a directory, belongs. */
static inline uint32_t kr_attr_cache_bucket(const struct kr_fid *fid)
{
	return (uint32_t)(kr_hash_bytes(fid->bytes, fid->length) % KR_ATTR_CACHE_BUCKETS);
}

#endif

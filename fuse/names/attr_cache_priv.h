/* What attr_cache.c, attr_cache_fill.c and attr_cache_change.c share. */
#ifndef KR_FUSE_ATTR_CACHE_PRIV_H
#define KR_FUSE_ATTR_CACHE_PRIV_H

#include <pthread.h>

#include "fuse/names/attr_cache_store.h"
#include "fuse/names/attr_cache.h"

struct kr_attr_cache {
	pthread_mutex_t lock;
	struct kr_attr_cache_store store; /* [lock] */
	struct kr_list changes;           /* [lock] requests of our own that change something (attr_cache_change.c) */
	uint64_t known, learnt, forgets;  /* [lock] */
};

/* [lock] Whether a change of ours is under way: of FID altogether; of that, or of any name in it; of NAME in DIR, or
 * DIR altogether. */
bool kr_attr_cache_all_changes(const struct kr_attr_cache *cache, const struct kr_fid *fid);
bool kr_attr_cache_any_changes(const struct kr_attr_cache *cache, const struct kr_fid *fid);
bool kr_attr_cache_name_changes(const struct kr_attr_cache *cache, const struct kr_fid *dir, const char *name);
/* Whether a directory may have had NAME when WHOLE of it was asked for. */
bool kr_attr_cache_had(const struct kr_attr_cache_entry *whole, const char *name);

#endif

/* Lookup prefetch (LOOKUPS in msgs.def): connects what was listed (dir_listing.h), operations and the attribute cache.
 *
 * A lookup that is not cached asks here first.  Either it goes to the server by itself, or it waits for a request that
 * asks for its name and for the names expected after it.  The answers are cached (attr_cache.c), and the waiting
 * lookups look there again.  A directory that a program walks without listing it is listed for it (walk_detector.h).
 * Loop thread, except kr_lookup_prefetch_new and _free.
 */
#ifndef KR_FUSE_LOOKUP_PREFETCH_H
#define KR_FUSE_LOOKUP_PREFETCH_H

#include "common/base/list.h"
#include "common/base/types.h"

struct kr_lookup_prefetch;
struct kr_mount;

enum {
	KR_LOOKUP_PREFETCH_LISTINGS_MAX = 1024,
	KR_LOOKUP_PREFETCH_BYTES_MAX = 8 << 20, /* of listings together, the latest excepted */
	KR_LOOKUP_PREFETCH_CALLS_MAX = 64,      /* unanswered */
	KR_LOOKUP_PREFETCH_LOOKED_MS =
		1000,                     /* a program that looks at what it lists does so in the next directory, too */
	KR_LOOKUP_PREFETCH_WALKS_MAX = 4, /* listings of our own under way ... */
	KR_LOOKUP_PREFETCH_PAGES_MAX = 16, /* ... each of so many pages at most */
};

struct kr_lookup_prefetch *kr_lookup_prefetch_new(void);
/* After the rpc has ended. */
void kr_lookup_prefetch_free(struct kr_lookup_prefetch *prefetch);
/* CRED is shown entries of FID from COOKIE on: as the server has just listed them (ANEW), or from the cache. */
void kr_lookup_prefetch_listed(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid,
	uint64_t cookie, const void *entries, size_t length, bool anew);
/* CRED has asked for a name in PARENT by itself: it is there, or is not. */
void kr_lookup_prefetch_asked(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent);
/* NAME in PARENT is not cached: returns the list to wait in (kr_waiter_wait) until it is, or cannot be.  NULL: the
 * lookup must be sent by itself. */
struct kr_list *kr_lookup_prefetch_ask(
	struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent, const char *name);
/* PARENT has just been listed for CRED.  If programs have lately looked at what they list, asks for its first names.
 * Returns the list to wait in until they are cached; NULL: nothing is asked. */
struct kr_list *kr_lookup_prefetch_ahead(
	struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent);

#endif

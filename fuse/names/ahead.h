/* Looking names up ahead (LOOKUPS of msgs.def): the wiring between what was listed (listing.h), operations, and notes.
 *
 * A look-up that is not noted asks here first.  Either it has to be sent by itself, or it waits for a request that asks for it
 * and for those that are expected after it; what comes of that is noted (notes.c), and who has waited looks there again.
 * A directory that a program goes through without having listed it is listed for it (walks.h).
 * Loop thread, except kr_ahead_new and _free.
 */
#ifndef KR_FUSE_AHEAD_H
#define KR_FUSE_AHEAD_H

#include "common/base/list.h"
#include "common/base/types.h"

struct kr_ahead;
struct kr_mount;

enum {
	KR_AHEAD_LISTINGS_MAX = 1024,
	KR_AHEAD_BYTES_MAX = 8 << 20, /* of listings together, the latest excepted */
	KR_AHEAD_CALLS_MAX = 64,      /* unanswered */
	KR_AHEAD_WALKS_MAX = 4,       /* listings of our own under way ... */
	KR_AHEAD_PAGES_MAX = 16,      /* ... each of so many pages at most */
};

struct kr_ahead *kr_ahead_new(void);
/* After the rpc has ended. */
void kr_ahead_free(struct kr_ahead *ahead);
/* CRED is shown entries of FID from COOKIE on: as the server has just listed them (ANEW), or as they are noted. */
void kr_ahead_listed(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *fid, uint64_t cookie, const void *entries,
	size_t length, bool anew);
/* A name in PARENT that CRED has asked for by itself has been found there. */
void kr_ahead_found(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent);
/* NAME in PARENT is not noted: the list of operations to wait in (kr_op_wait; they are woken when it is or cannot be noted), or NULL:
 * it is to be asked for by itself. */
struct kr_list *kr_ahead_ask(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent, const char *name);

#endif

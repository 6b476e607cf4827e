/* What a session may do with file data: the files that it has opened, and whether for reading or writing.
 *
 * Whoever had the right when he opened a file keeps it until he is done, whatever chmod says meanwhile; so the right is
 * checked once, at OPEN, CREATE or RECLAIM, and remembered here beyond the CLOSE, because bytes may be flushed long
 * after it.  Kept for confined sessions only (trust.h): others could act as any user anyway.  Bounded: of files neither
 * opened nor used since KR_OPEN_RIGHTS_MAX others were, nothing is known any more.  Loop thread.
 */
#ifndef KR_SERVER_OPEN_RIGHTS_H
#define KR_SERVER_OPEN_RIGHTS_H

#include <stddef.h>

#include "common/base/types.h"

struct kr_request;
struct kr_session;

enum { KR_GRANT_READ = 1, KR_GRANT_WRITE = 2, KR_GRANT_ALL = 3, KR_OPEN_RIGHTS_MAX = 1 << 20 };

/* Zero-initialised by the owner. Two generations: when the young one is full it becomes the old one, which is dropped.
 */
struct kr_open_rights {
	struct kr_open_rights_set {
		uint64_t *slots; /* hash of the fid with the rights in its two lowest bits; 0: free */
		size_t capacity, count;
	} sets[2];
};

void kr_open_rights_add(struct kr_open_rights *grants, const struct kr_fid *fid, uint8_t rights);
/* The rights to the file; makes them young. */
uint8_t kr_open_rights_find(struct kr_open_rights *grants, const struct kr_fid *fid);
void kr_open_rights_fini(struct kr_open_rights *grants);

/* Whether the request's session has one of RIGHTS (open_rights.h) to the file's data; if not, the request is answered
 * (ESTALE, EACCES). */
bool kr_open_rights_allow(struct kr_request *request, const struct kr_fid *fid, uint8_t rights);
/* The same for a session, and nobody is answered. */
bool kr_open_rights_allowed(struct kr_session *session, const struct kr_fid *fid, uint8_t rights);

/* Of the leases KINDS those for who has RIGHTS (enum kr_grant): WRITE is for writers; READ also for them, because who
 * appends must know the end. */
uint8_t kr_open_rights_leases(uint8_t kinds, uint8_t rights);

#endif

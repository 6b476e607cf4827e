/* What a session may do with file data: the files that it has opened, for reading or writing.
 *
 * A program that had the right when it opened a file keeps it, whatever chmod does meanwhile. So the server checks at
 * OPEN, CREATE or RECLAIM and remembers the right here beyond CLOSE, because a node may flush long after it. Kept for
 * confined sessions only (trust.h): others may act as any user. Bounded: rights of files unused since
 * KR_OPEN_RIGHTS_MAX others are forgotten. Loop thread. */
#ifndef KR_SERVER_OPEN_RIGHTS_H
#define KR_SERVER_OPEN_RIGHTS_H

#include <stddef.h>

#include "common/base/types.h"

struct kr_request;
struct kr_session;

enum { KR_OPEN_RIGHT_READ = 1, KR_OPEN_RIGHT_WRITE = 2, KR_OPEN_RIGHT_ALL = 3 };
enum { KR_OPEN_RIGHTS_MAX = 1 << 20 };

/* Zero-initialised by the owner. Two generations: a full young one becomes the old one, which is dropped. */
struct kr_open_rights {
	struct kr_open_rights_set {
		uint64_t *slots; /* hash of the fid with the rights in its two lowest bits; 0: free */
		size_t capacity, count;
	} sets[2];
};

void kr_open_rights_add(struct kr_open_rights *table, const struct kr_fid *fid, uint8_t rights);
/* The rights to the file; makes them young. */
uint8_t kr_open_rights_find(struct kr_open_rights *table, const struct kr_fid *fid);
void kr_open_rights_fini(struct kr_open_rights *table);

/* Whether the request's session has one of RIGHTS to the file's data. If not, the server answers the request (ESTALE,
 * EACCES). */
bool kr_open_rights_allow(struct kr_request *request, const struct kr_fid *fid, uint8_t rights);
/* The same for a session, without an answer. */
bool kr_open_rights_allowed(struct kr_session *session, const struct kr_fid *fid, uint8_t rights);

/* Those of the leases KINDS that RIGHTS allow: WRITE needs the right to write. READ goes to
 * writers, too, because appending needs the file's end. */
uint8_t kr_open_rights_leases(uint8_t kinds, uint8_t rights);

#endif

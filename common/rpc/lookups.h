/* The lists in LOOKUPS (msgs.def): the names asked for, and the attributes found.
 *
 * Readers take bytes from a peer: for any bytes the result is a good item, the end, or -EBADMSG.  Any thread.
 */
#ifndef KR_COMMON_LOOKUPS_H
#define KR_COMMON_LOOKUPS_H

#include "common/base/types.h"
#include "common/rpc/wire.h"

enum { KR_LOOKUPS_MAX = 128 }; /* names in one request */

enum kr_found_kind { KR_FOUND_NOTHING, KR_FOUND_FILE, KR_FOUND_BARE /* a file without extended attributes */ };

struct kr_found {
	uint8_t number; /* of the name in the request, from 0 */
	uint8_t kind;
	/* Of a file. */
	struct kr_fid fid;
	struct kr_attr attr;
};

/* NAME has 1 to KR_NAME_MAX bytes. */
void kr_lookups_put_name(struct kr_writer *w, const char *name);
/* 1: RET_NAME has the next name; 0: there are no more; -EBADMSG. */
int kr_lookups_take_name(struct kr_reader *r, char ret_name[KR_NAME_MAX + 1]);
void kr_lookups_put_found(struct kr_writer *w, const struct kr_found *found);
/* 1, 0, -EBADMSG as above.  A number that is not greater than *LAST (-1 at first, then updated here) is -EBADMSG. */
int kr_lookups_take_found(struct kr_reader *r, int *last, struct kr_found *ret_found);

#endif

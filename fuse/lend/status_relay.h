/* Passes STATUS requests on from one connection to another, and the replies back.  Loop thread. */
#ifndef KR_FUSE_LEND_STATUS_RELAY_H
#define KR_FUSE_LEND_STATUS_RELAY_H

#include "common/base/list.h"
#include "common/rpc/conn.h"

/* Request ID of connection FROM goes to TO.  A connection may have some under way at a time; the access log is not
 * passed on.  UNDER_WAY: FROM's requests.  TO may be NULL: then the answer is
 * NOTCONN.  WHOLE: TO is for this request alone, and is closed after it. */
void kr_status_relay(struct kr_list *under_way, struct kr_conn *from, uint64_t id,
	const struct kr_status_request *request, struct kr_conn *to, bool whole);
/* FROM has ended. */
void kr_status_relays_end(struct kr_list *under_way);

#endif

/* One end of the numbered messages between borrower and lender (LEND_MESSAGE in msgs.def), over any number of
 * connections.  Pure: it keeps, numbers and checks; the caller sends.  One thread.
 */
#ifndef KR_FUSE_LEND_LINK_H
#define KR_FUSE_LEND_LINK_H

#include "common/base/buf.h"
#include "common/base/list.h"
#include "common/rpc/msg.h"

/* A message that the peer may not have received. */
struct kr_lend_kept {
	struct kr_link link;
	struct kr_lend_message_request message; /* owns caller.groups */
	struct kr_buf *data;                    /* a reference, or NULL */
};

struct kr_lend_link {
	uint64_t sent;        /* number of the last message of this side */
	uint64_t acked;       /* ... that the peer has acknowledged */
	uint64_t received;    /* ... of the peer's that has come */
	uint64_t told;        /* ... as the peer was told it last */
	struct kr_list kept;  /* in order: ACKED + 1 to SENT */
	uint64_t kept_bytes;  /* of data in it */
	uint64_t fresh_bytes; /* of data that has come since TOLD */
};

void kr_lend_link_init(struct kr_lend_link *link);
void kr_lend_link_fini(struct kr_lend_link *link);
/* Numbers MESSAGE (kind, id, status and caller; copied) and keeps it with a reference to DATA, which may be NULL.
 * Returns the message to send now if there is a connection; borrowed until the peer acknowledges it. */
const struct kr_lend_kept *kr_lend_link_add(
	struct kr_lend_link *link, const struct kr_lend_message_request *message, struct kr_buf *data);
/* The number of the last message that this side has received, for the `ack` or `seen` of the next one it sends. */
uint64_t kr_lend_link_tell(struct kr_lend_link *link);
/* A message with LENGTH bytes of data has come.  1: it is new, and to be delivered; 0: it has come before; -EPROTO: one
 * before it is missing, or it acknowledges what was never sent. */
int kr_lend_link_take(struct kr_lend_link *link, const struct kr_lend_message_request *message, size_t length);
/* The peer has received all up to ACK.  -EPROTO. */
int kr_lend_link_acked(struct kr_lend_link *link, uint64_t ack);
/* Much has come of which the peer was not told: it keeps all of that. */
bool kr_lend_link_owes(const struct kr_lend_link *link);

#endif

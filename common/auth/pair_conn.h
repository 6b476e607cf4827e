/* Opens a ring connection: the caller's side of the handshake of pair.h on a connection.  Loop thread. */
#ifndef KR_COMMON_PAIR_CONN_H
#define KR_COMMON_PAIR_CONN_H

#include "common/rpc/conn.h"
#include "common/auth/pair.h"

/* The caller's own identity. */
struct kr_pair_caller {
	uint8_t ring_key[KR_RING_KEY];
	uint32_t node;
	uint64_t session;
	enum kr_security least;
};

/* The result: 0, or -errno of a refusal.  -EKEYREJECTED, -EPROTO: it is not the peer that the server named; then the
 * connection is closed.  -ECONNRESET: the connection broke before. */
typedef void (*kr_pair_fn)(void *context, int err);

/* Starts the handshake on CONN, just made, with the peer TO.  Frames sent meanwhile wait, and leave sealed.  DONE (may
 * be NULL) runs once. */
void kr_pair_open(struct kr_conn *conn, const struct kr_hop_address *to, const struct kr_pair_caller *caller,
	kr_pair_fn done, void *context);

#endif

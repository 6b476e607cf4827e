/* Ring connections whose data goes over RDMA verbs: a carrier (common/rpc/carrier.h) on a reliable connection of
 * libibverbs and librdmacm.
 *
 * The TCP connection stays: it proves who the peers are, and carries headers, fields and credits.  Behind its handshake
 * the caller asks with HOP_VERBS.  The called peer answers with a port of the RDMA connection manager and a token of
 * that TCP connection.  The caller connects there, and presents the token; before that the called peer makes no queue
 * pair and posts no buffer.  What the connections do meanwhile goes over TCP.
 *
 * Data goes by SEND into receives that the peer has posted, not by RDMA WRITE into buffers that it grants.  Both copy
 * nothing.  But a SEND needs no address and no key of the peer's memory: the pool is registered without remote access,
 * so no peer can change a block that another one has sent and that is checked already.  And each completion is the
 * whole message: there is no grant to match.
 *
 * Buffers are those of the registered pool (common/base/buf.h), registered once for each device.
 *
 * When the device, the network path or the peer fails, connections go on over TCP, or end, and the next ones use TCP.
 * One line in the log tells of each peer and reason.  A path that broke is tried again after a minute, all else with
 * the next connection.
 *
 * Loop thread.  The calls of the libraries block for milliseconds; the first RDMA connection for longer, because the
 * kernel clears and pins the pool.
 */
#ifndef KR_COMMON_VERBS_H
#define KR_COMMON_VERBS_H

#include "common/rpc/conn.h"

/* VERBS: as AUTO, but the program does not start without an RDMA device. */
enum kr_transport { KR_TRANSPORT_AUTO, KR_TRANSPORT_TCP, KR_TRANSPORT_VERBS };
#define KR_TRANSPORT_CHOICES "auto|tcp|verbs"

enum { KR_VERBS_VERSION = 1 };

struct kr_verbs;

/* POOL: bytes of the registered pool, of which nothing is taken before an RDMA device is used.  -ENODEV, -EOPNOTSUPP:
 * VERBS cannot be had. */
int kr_verbs_new(uv_loop_t *loop, enum kr_transport transport, size_t pool, struct kr_verbs **ret_verbs);
/* Ends all RDMA connections.  Run the loop until all is closed, then free.  NULL is fine. */
void kr_verbs_close(struct kr_verbs *verbs);
void kr_verbs_free(struct kr_verbs *verbs);

/* Caller, behind the handshake: asks the peer to move data by verbs.  RECEIVES: the data comes from the peer, else it
 * goes there. */
void kr_verbs_ask(struct kr_verbs *verbs, struct kr_conn *conn, bool receives);
/* Called peer: answers HOP_VERBS of a caller that has proved its identity. */
void kr_verbs_answer(struct kr_verbs *verbs, struct kr_conn *conn, const struct kr_frame *frame);

#endif

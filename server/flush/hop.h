/* Ring connections at the server: nodes pull blocks (block_server.c) or deliver the stream of a round
 * (round_stream.c).
 *
 * A ring connection begins with the handshake of common/auth/pair.h.  It proves that the server gave the caller the
 * secret; the server refuses everything else before.  Loop thread.
 */
#ifndef KR_SERVER_HOP_H
#define KR_SERVER_HOP_H

#include "common/rpc/conn.h"
#include "common/base/list.h"

struct kr_data;
struct kr_hop_address;
struct kr_session;

enum {
	KR_HOPS_PER_NODE = 256,
	KR_HOPS_PER_USER = 1024, /* of all sessions of a user, but each may have ... */
	KR_HOPS_ALWAYS = 16,
};

struct kr_hop {
	struct kr_link link; /* kr_data.hops */
	struct kr_data *data;
	struct kr_conn *conn; /* NULL once closed; references remain while read jobs run */
	uint32_t node;        /* of the session that connected ... */
	uint64_t session;     /* ... and its id */
	uint32_t references;
	struct kr_list round_streams; /* kr_round_stream.of_hop */
	struct kr_list pulls;         /* struct pull of block_server.c, served round robin */
	size_t pull_count, feeding;   /* pulls not answered; jobs at work */
	size_t range_count;           /* of these pulls */
	bool pulls_paused;
};

struct kr_hop *kr_hop_get(struct kr_hop *hop);
void kr_hop_put(struct kr_hop *hop);
void kr_hops_register(struct kr_data *data);
/* Where the node of SESSION finds node NODE, or the server (0).  Borrows strings of SESSION or HOST (64 bytes at
 * least).  False: no node can connect to NODE. */
bool kr_hop_address_of(
	struct kr_data *data, struct kr_session *session, uint32_t node, char *host, struct kr_hop_address *ret_hop);
/* Closes all ring connections of NODE (0: of all nodes). */
void kr_hop_close_all(struct kr_data *data, uint32_t node);

#endif

/* The server's status as JSON, for `kairan status HOST`. */
#ifndef KR_SERVER_STATUS_H
#define KR_SERVER_STATUS_H

#include "common/rpc/msg.h"
#include "server/daemon/server.h"

/* Answers a STATUS on a connection, in as many frames as it takes. KEY: of who asks; NULL: it needs none. A user's gets
 * what concerns that user. */
void kr_status_send(struct kr_server *server, struct kr_conn *conn, uint64_t id,
	const struct kr_status_request *request, const struct kr_key *key);
void kr_status_register(struct kr_server *server);

#endif

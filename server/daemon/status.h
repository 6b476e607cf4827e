/* The server's status as JSON, for `kairan status HOST`. */
#ifndef KR_SERVER_STATUS_H
#define KR_SERVER_STATUS_H

#include "common/rpc/msg.h"
#include "server/base/server.h"

void kr_status_register(struct kr_server *server);

#endif

/* Lease expiry: ends sessions of nodes that are silent or leave callbacks unanswered. Loop thread only. */
#ifndef KR_SERVER_EXPIRY_H
#define KR_SERVER_EXPIRY_H

#include <stdint.h>

struct kr_server;
struct kr_session;

/* Every tick: ends sessions that were silent for the lease time, and ignores nodes that left a callback unanswered
 * (kr_callbacks_neglected) until their leases expire. */
void kr_expiry_tick(struct kr_server *server, uint64_t now_ns);
/* The node leaves others waiting: the server does not hear it any more, and its leases expire. */
void kr_session_silence(struct kr_session *session);

#endif

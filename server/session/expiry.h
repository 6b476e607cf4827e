/* When sessions end that nobody has ended: their nodes are silent, or leave unanswered what others wait for.  Loop
 * thread only. */
#ifndef KR_SERVER_EXPIRY_H
#define KR_SERVER_EXPIRY_H

#include <stdint.h>

struct kr_server;

/* Every tick: ends sessions that were silent for the lease time, and does not listen any more to
 * those that left a question unanswered for so long without working on it: others wait for the answer. */
void kr_expiry_tick(struct kr_server *server, uint64_t now_ns);

#endif

/* The beginning and the end of the grace period (session/grace.h).  Loop thread. */
#ifndef KR_SERVER_GRACE_PERIOD_H
#define KR_SERVER_GRACE_PERIOD_H

struct kr_server;

void kr_grace_period_register(struct kr_server *server);
/* The server has started: its clients of before may reclaim. */
void kr_grace_period_start(struct kr_server *server);

#endif

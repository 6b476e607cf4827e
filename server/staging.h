/* STAGE: a node asks that all nodes of its ring stage a file (msgs.def).  Loop thread. */
#ifndef KR_SERVER_STAGING_H
#define KR_SERVER_STAGING_H

struct kr_server;

void kr_staging_register(struct kr_server *server);

#endif

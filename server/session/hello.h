/* HELLO: begins or resumes a session on a connection; and the requests about the session itself. */
#ifndef KR_SERVER_HELLO_H
#define KR_SERVER_HELLO_H

#include "server/session/listen.h"

/* The first frame of a pending connection is HELLO. */
void kr_hello_arrived(struct kr_pending_conn *pending_conn, const struct kr_frame *frame);
/* PING, GOODBYE, CANCEL, BACKLOG, RECLAIM_DONE. */
void kr_hello_register(struct kr_server *server);

#endif

/* INTRODUCE: nodes of a job ask who its head is (introductions.h).  Loop thread. */
#ifndef KR_SERVER_INTRODUCE_H
#define KR_SERVER_INTRODUCE_H

#include "server/session/listen.h"

/* After the state directory is open. */
void kr_introduce_init(struct kr_server *server);
void kr_introduce_fini(struct kr_server *server);
/* Answers INTRODUCE of a pending connection that may go on (kr_trust_admit). */
void kr_introduce_answer(struct kr_pending_conn *pending_conn, const struct kr_frame *frame);

#endif

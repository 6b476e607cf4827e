/* The server's side of the handshake by MUNGE (common/auth/auth_munge.h).  The credential is opened, and ours made, in
 * the pool, because munged is asked; the connection is paused meanwhile.  Loop thread. */
#ifndef KR_SERVER_TRUST_MUNGE_H
#define KR_SERVER_TRUST_MUNGE_H

#include "server/session/listen.h"

/* AUTH_MUNGE or AUTH_MUNGE_PROVE of a pending conn. False: it has been refused, and is to be dropped. */
bool kr_trust_munge(struct kr_pending_conn *pending_conn, const struct kr_frame *frame);

#endif

/* Shared by the handshakes by key (auth.c) and by MUNGE (auth_munge.c). */
#ifndef KR_COMMON_AUTH_PRIV_H
#define KR_COMMON_AUTH_PRIV_H

#include "common/auth/auth.h"

/* Wipes all secrets of a failed handshake at once; the key stays, for messages.  Returns ERR. */
int kr_auth_failed(struct kr_auth *auth, int err);
/* The same for a message that the other side must not send now. */
int kr_auth_out_of_turn(struct kr_auth *auth);
/* Records how far the server's clock (auth->now) is from NOW, the local one, in seconds. */
void kr_auth_note_skew(struct kr_auth *auth, int64_t now);

#endif

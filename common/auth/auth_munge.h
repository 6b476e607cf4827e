/* The handshake (handshake.h, kind "munge") by which a client and the server prove to each other whom MUNGE says that
 * they are.
 *
 *   client                                                      server
 *   AUTH_MUNGE        proto_min, proto_max, offer           -->
 *                                                           <--  proto, offer, now
 *   AUTH_MUNGE_PROVE  credential, for the server's uid      -->  opens it; munged refuses old and used ones
 *                     opens it                              <--  credential, for the client's uid
 *
 * A credential's payload is 32 bytes of proof (of handshake.h, with a secret of zeros: the credential's seal is what
 * proves) and 32 random bytes, which nobody but the other side can read.  The secret of the session is BLAKE2b-256 of
 * both sides' random bytes; the context that of u32 proto_min, proto_max, proto, u64 seconds and u32 nanoseconds of
 * now.  So a credential is good for this pair of nonces, and for this role, only.
 *
 * Who is root by MUNGE is a node and may act for any uid; another is a user.  The state machine of both sides is struct
 * kr_auth, whose key is then a made-up one.  Pure, as auth.h; credentials are made and opened elsewhere (munge.h).
 */
#ifndef KR_COMMON_AUTH_MUNGE_H
#define KR_COMMON_AUTH_MUNGE_H

#include "common/auth/auth.h"
#include "common/auth/munge.h"

/* Client: begins. */
int kr_auth_munge_begin(struct kr_auth *auth, enum kr_security least, const struct kr_fresh *fresh,
	struct kr_auth_munge_request *ret_request);
/* Client: AUTH_MUNGE is answered; what is to go into our credential, with RANDOM. */
int kr_auth_munge_prove(struct kr_auth *auth, const struct kr_auth_munge_reply *reply, int64_t now,
	const uint8_t random[KR_SECRET], uint8_t ret_payload[KR_MUNGE_PAYLOAD]);
/* Client: the server's credential says that UID made it, with PAYLOAD. -EKEYREJECTED: not EXPECTED_UID, or not for
 * this. */
int kr_auth_munge_end(struct kr_auth *auth, uint32_t uid, uint32_t expected_uid,
	const uint8_t payload[KR_MUNGE_PAYLOAD], struct kr_seal_keys *ret_keys);
/* Client: the server answered with ERR: yields ERR with a reason that tells the user what to do. */
int kr_auth_munge_refused(struct kr_auth *auth, int err);

/* Server: AUTH_MUNGE has come. */
int kr_auth_munge_challenge(struct kr_auth *auth, enum kr_security security,
	const struct kr_auth_munge_request *request, const struct kr_fresh *fresh, struct kr_time now,
	struct kr_auth_munge_reply *ret_reply);
/* Server: the client's credential says that UID made it, with PAYLOAD: 0, auth->key is his, and RET_PAYLOAD, with
 * RANDOM, is to go into ours. -EKEYREJECTED. */
int kr_auth_munge_verify(struct kr_auth *auth, uint32_t uid, const uint8_t payload[KR_MUNGE_PAYLOAD],
	const uint8_t random[KR_SECRET], uint8_t ret_payload[KR_MUNGE_PAYLOAD], struct kr_seal_keys *ret_keys);

#endif

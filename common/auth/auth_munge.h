/* The handshake (handshake.h, kind "munge") in which MUNGE vouches for the identity of a client and the server.
 *
 *   client                                                      server
 *   AUTH_MUNGE        proto_min, proto_max, offer           -->
 *                                                           <--  proto, offer, now
 *   AUTH_MUNGE_PROVE  credential, for the server's uid      -->  opens it; munged refuses old and used ones
 *                     opens it                              <--  credential, for the client's uid
 *
 * A credential's payload is 32 bytes of proof (of handshake.h, with a secret of zeros: the credential's seal is what
 * proves) and 32 random bytes, which only the other side can read.  The secret of the session is BLAKE2b-256 of both
 * sides' random bytes.  The context is that of u32 proto_min, proto_max, proto, u64 seconds and u32 nanoseconds of now.
 * So a credential is valid for this pair of nonces, and for this role, only.
 *
 * A client that is root by MUNGE is a node and may act for any uid; other clients are users.  The state machine of both
 * sides is struct kr_auth, with a made-up key.  Pure, as auth.h; munge.h makes and opens credentials.
 */
#ifndef KR_COMMON_AUTH_MUNGE_H
#define KR_COMMON_AUTH_MUNGE_H

#include "common/auth/auth.h"
#include "common/auth/munge.h"

/* Client: begins. */
int kr_auth_munge_begin(struct kr_auth *auth, enum kr_security least, const struct kr_fresh *fresh,
	struct kr_auth_munge_request *ret_request);
/* Client: takes the reply to AUTH_MUNGE.  RET_PAYLOAD, made with RANDOM, is for the client's credential. */
int kr_auth_munge_prove(struct kr_auth *auth, const struct kr_auth_munge_reply *reply, int64_t now,
	const uint8_t random[KR_SECRET], uint8_t ret_payload[KR_MUNGE_PAYLOAD]);
/* Client: the server's credential has PAYLOAD, and UID made it.  -EKEYREJECTED: UID is not EXPECTED_UID, or the
 * credential is for another handshake. */
int kr_auth_munge_end(struct kr_auth *auth, uint32_t uid, uint32_t expected_uid,
	const uint8_t payload[KR_MUNGE_PAYLOAD], struct kr_seal_keys *ret_keys);
/* Client: the server answered with ERR: returns ERR with a reason that tells the user what to do. */
int kr_auth_munge_refused(struct kr_auth *auth, int err);

/* Server: answers AUTH_MUNGE.  The caller has checked the range of versions. */
int kr_auth_munge_challenge(struct kr_auth *auth, enum kr_security security,
	const struct kr_auth_munge_request *request, const struct kr_fresh *fresh, struct kr_time now,
	struct kr_auth_munge_reply *ret_reply);
/* Server: the client's credential has PAYLOAD, and UID made it.  0: auth->key is UID's, and RET_PAYLOAD, made with
 * RANDOM, is for the server's credential.  -EKEYREJECTED. */
int kr_auth_munge_verify(struct kr_auth *auth, uint32_t uid, const uint8_t payload[KR_MUNGE_PAYLOAD],
	const uint8_t random[KR_SECRET], uint8_t ret_payload[KR_MUNGE_PAYLOAD], struct kr_seal_keys *ret_keys);

#endif

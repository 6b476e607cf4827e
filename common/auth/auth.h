/* The handshake (handshake.h, kind "key") by which a client and the server prove to each other that they have the same
 * key. The client is a node or the `kairan` command.  It comes before any other message on a control connection.
 *
 *   client                                                      server
 *   AUTH        proto_min, proto_max, key id, offer        -->  finds the key
 *               checks the server's proof                  <--  proto, offer, now, server proof
 *   AUTH_PROVE  client proof                               -->  checks the client's proof, then the key's expiry
 *                                                          <--  an empty reply: the connection is authenticated
 *
 * The secret is the key's.  The context is BLAKE2b-256 of u32 proto_min, proto_max, proto, key id, u64 seconds and u32
 * nanoseconds of now, big-endian: so the proofs bind every field of all messages.  Nonces and ephemeral keys are fresh
 * for each connection.
 *
 * A peer without a right proof learns only -EKEYREJECTED, for any reason; the reason that these functions leave
 * (kr_fail_reason) is for the local log, and has no secrets.  Only a peer with a right proof learns that the key has
 * expired.
 *
 * Pure: random bytes and times come in, messages come and go as structs.  One struct kr_auth per connection and side.
 * After any failure it stays failed.
 */
#ifndef KR_COMMON_AUTH_H
#define KR_COMMON_AUTH_H

#include "common/auth/handshake.h"
#include "common/auth/key.h"
#include "common/auth/keyring.h"
#include "common/rpc/msg.h"

enum kr_auth_state { KR_AUTH_NEW, KR_AUTH_ASKED, KR_AUTH_CHALLENGED, KR_AUTH_PROVED, KR_AUTH_DONE, KR_AUTH_FAILED };

/* Fields are for auth.c; others may read `key` (a reference, NULL before there is one) and `state`. */
struct kr_auth {
	enum kr_auth_state state;
	struct kr_key *key;
	uint32_t proto_min, proto_max, proto;
	struct kr_time now; /* the server's clock */
	int64_t skew_s;     /* client: how far the server's clock is ahead */
	struct kr_handshake handshake;
	uint8_t random[KR_SECRET]; /* auth_munge.h: client: the random bytes of its credential */
};

/* Zeroes. */
void kr_auth_init(struct kr_auth *auth);
/* Wipes; kr_auth_init again before another use. */
void kr_auth_fini(struct kr_auth *auth);

/* Client. NOW: seconds since the epoch. */

/* Begins with KEY (takes a reference), for at LEAST this security.  -EKEYEXPIRED: see kr_key_check. */
int kr_auth_client_begin(struct kr_auth *auth, struct kr_key *key, enum kr_security least, const struct kr_fresh *fresh,
	int64_t now, struct kr_auth_request *ret_request);
/* Takes the server's reply to AUTH.  -EKEYREJECTED: the server does not have the key; -EPROTO: an invalid reply, or
 * less security than LEAST. */
int kr_auth_client_prove(struct kr_auth *auth, const struct kr_auth_reply *reply, int64_t now,
	struct kr_auth_prove_request *ret_request);
/* Takes the server's reply to AUTH_PROVE: all further frames are sealed with RET_KEYS.  -EPROTO. */
int kr_auth_client_end(struct kr_auth *auth, struct kr_seal_keys *ret_keys);
/* The server answered AUTH or AUTH_PROVE with ERR: returns ERR with a reason that tells the user what to do. */
int kr_auth_client_refused(struct kr_auth *auth, int err);

/* Server. */

/* Answers AUTH; SECURITY is the least that the server gives.  -EKEYREJECTED: no such key; -EPROTO: an invalid
 * request.  The caller has checked the range of versions.  KEYRING and REQUEST are borrowed during the call only. */
int kr_auth_server_challenge(struct kr_auth *auth, const struct kr_keyring *keyring, enum kr_security security,
	const struct kr_auth_request *request, const struct kr_fresh *fresh, struct kr_time now,
	struct kr_auth_reply *ret_reply);
/* Takes AUTH_PROVE.  0: the client has auth->key, and frames behind the reply are sealed with RET_KEYS.  -EKEYREJECTED:
 * the client does not have the key; -EKEYEXPIRED; -EPROTO: an invalid request. */
int kr_auth_server_verify(
	struct kr_auth *auth, const struct kr_auth_prove_request *request, struct kr_seal_keys *ret_keys);

/* Both sides, once the state is KR_AUTH_DONE: the security of the connection (KR_SECURITY_AUTH before). */
enum kr_security kr_auth_security(const struct kr_auth *auth);
/* Both sides: masks or unmasks HELLO's ring key, in place.  Does nothing before the handshake is done. */
void kr_auth_mask_ring_key(const struct kr_auth *auth, uint8_t ring_key[KR_SESSION_KEY]);

#endif

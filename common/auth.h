/* The handshake by which a client (a node, or the `kairan` command) and the server prove to each other that they have the
 * same key, before anything else is said on a control connection.
 *
 *   client                                                      server
 *   AUTH        proto_min, proto_max, key id, client nonce -->  finds the key
 *               checks the server's proof                  <--  proto, server nonce, now, server proof
 *   AUTH_PROVE  client proof                               -->  checks the client's proof, then the key's expiry
 *                                                          <--  an empty reply: the connection is authenticated
 *
 *   proof = BLAKE2b-256, keyed with the secret, of a label padded with zeros to 16 bytes ("kairan-server-1",
 *   "kairan-client-1"), u32 proto_min, proto_max, proto, key id, client nonce, server nonce, u64 seconds and u32
 *   nanoseconds of now, big-endian.  The session key is the same with the label "kairan-session-1".
 *
 * So both proofs say who speaks (no reflection), bind every field of all messages, and are good for one pair of nonces
 * (no replay).  Nonces are 32 random bytes, fresh for each connection.  Proofs are compared in constant time.
 *
 * A peer that has not proved that it has the key learns only -EKEYREJECTED, whatever was wrong; the reason that these
 * functions leave (kr_fail_reason) is for our own log, without secrets.  Who has proved it is told that the key expired.
 *
 * Pure: nonces and times come in, messages come and go as structs.  One struct kr_auth per connection and side.  After
 * any failure it stays failed.  Not here: secrecy and integrity of what follows on the connection.
 */
#ifndef KR_COMMON_AUTH_H
#define KR_COMMON_AUTH_H

#include "common/key.h"
#include "common/keyring.h"
#include "common/msg.h"

enum { KR_AUTH_NONCE = 32, KR_AUTH_PROOF = 32, KR_AUTH_SESSION_KEY = 32 };

enum kr_auth_state { KR_AUTH_NEW, KR_AUTH_ASKED, KR_AUTH_CHALLENGED, KR_AUTH_PROVED, KR_AUTH_DONE, KR_AUTH_FAILED };

/* Fields are for auth.c, but `key` (a reference, NULL before there is one) and `state` may be read. */
struct kr_auth {
	enum kr_auth_state state;
	struct kr_key *key;
	uint32_t proto_min, proto_max, proto;
	uint8_t client_nonce[KR_AUTH_NONCE], server_nonce[KR_AUTH_NONCE];
	struct kr_time now; /* the server's clock */
	int64_t skew_s;     /* client: so far the server's clock is ahead of ours */
	uint8_t session_key[KR_AUTH_SESSION_KEY];
};

/* Zeroes. */
void kr_auth_init(struct kr_auth *auth);
/* Wipes; kr_auth_init again before another use. */
void kr_auth_fini(struct kr_auth *auth);
/* Random bytes for a handshake. */
void kr_auth_make_nonce(uint8_t nonce[KR_AUTH_NONCE]);

/* Client. NOW: seconds since the epoch. */

/* Begins with KEY (takes a reference). -EKEYEXPIRED: see kr_key_check. */
int kr_auth_client_begin(struct kr_auth *auth, struct kr_key *key, const uint8_t nonce[KR_AUTH_NONCE], int64_t now,
	struct kr_auth_request *ret_request);
/* The server's reply to AUTH. -EKEYREJECTED: it does not have the key; -EPROTO: nonsense. */
int kr_auth_client_prove(struct kr_auth *auth, const struct kr_auth_reply *reply, int64_t now,
	struct kr_auth_prove_request *ret_request);
/* The server's reply to AUTH_PROVE has come. */
int kr_auth_client_end(struct kr_auth *auth);
/* The server answered AUTH or AUTH_PROVE with ERR: yields ERR with a reason that tells the user what to do. */
int kr_auth_client_refused(struct kr_auth *auth, int err);

/* Server. */

/* AUTH has come. -EKEYREJECTED: no such key; -EPROTONOSUPPORT; -EPROTO: nonsense. KEYRING and REQUEST are borrowed during
 * the call only. */
int kr_auth_server_challenge(struct kr_auth *auth, const struct kr_keyring *keyring, const struct kr_auth_request *request,
	const uint8_t nonce[KR_AUTH_NONCE], struct kr_time now, struct kr_auth_reply *ret_reply);
/* AUTH_PROVE has come. 0: the client has auth->key. -EKEYREJECTED: it does not; -EKEYEXPIRED; -EPROTO: nonsense. */
int kr_auth_server_verify(struct kr_auth *auth, const struct kr_auth_prove_request *request);

/* Both: the connection's own key, once the state is KR_AUTH_DONE; else NULL. */
const uint8_t *kr_auth_session_key(const struct kr_auth *auth);

#endif

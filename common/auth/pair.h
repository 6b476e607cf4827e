/* Authentication of ring connections: secrets of pairs of sessions, and the handshake (handshake.h, kind "ring") that
 * proves them.
 *
 * Each session has a ring key, known to its node and the server alone; the server has one of its own.  The secret of a
 * pair is made of the called peer's ring key and the caller's identity, so it is valid for these two sessions only.
 * The called peer computes it.  The caller gets it from the server, in the HOP, masked with a hash of its own ring key,
 * whatever the security of the connection:
 *
 *   pair secret = BLAKE2b-256, keyed with the ring key of the called, of "kairan-2 pair secret" padded with zeros to 32
 *                 bytes, u64 session and u32 node of the caller
 *   mask        = the same, keyed with the ring key of the caller, of "kairan-2 pair mask", session and node of the
 *                 called (the server's node is 0, and its session that of the caller)
 *   ticket      = pair secret XOR mask
 *
 *   caller                                                                called
 *   HOP_HELLO  proto, own node and session, its session, offer        -->
 *              checks the proof                                       <--  proto, offer, proof
 *   HOP_PROVE  proof; from here on sealed, without awaiting the answer -->  checks the proof
 *                                                                     <--  an empty reply, sealed
 *
 * The context is the hash of HOP_HELLO's first four fields.  The called peer accepts no other message before the proof.
 * Pure.
 */
#ifndef KR_COMMON_PAIR_H
#define KR_COMMON_PAIR_H

#include "common/auth/handshake.h"
#include "common/rpc/msg.h"

enum { KR_RING_KEY = 32 };

/* The secret for the caller's session and node; RING_KEY is the called peer's. */
void kr_pair_secret(const uint8_t ring_key[KR_RING_KEY], uint64_t caller_session, uint32_t caller_node,
	uint8_t ret_secret[KR_SECRET]);
/* Masks a secret, or unmasks a ticket, in place.  RING_KEY is the caller's; session and node are the called peer's. */
void kr_pair_mask(const uint8_t ring_key[KR_RING_KEY], uint64_t session, uint32_t node, uint8_t secret[KR_SECRET]);

/* One side of the handshake of one ring connection. */
struct kr_pair {
	struct kr_handshake handshake;
	uint8_t secret[KR_SECRET];
	bool asked, challenged;
};

/* Caller: begins.  TO is the peer's HOP; RING_KEY, NODE and SESSION are the caller's own. */
void kr_pair_call(struct kr_pair *pair, const struct kr_hop_address *to, const uint8_t ring_key[KR_RING_KEY],
	uint32_t node, uint64_t session, enum kr_security least, const struct kr_fresh *fresh,
	struct kr_hop_hello_request *ret_hello);
/* Caller: takes the answer.  -EKEYREJECTED: the peer does not know the secret; -EPROTO: an invalid answer. */
int kr_pair_prove(struct kr_pair *pair, const struct kr_hop_hello_reply *reply, struct kr_hop_prove_request *ret_prove,
	struct kr_seal_keys *ret_keys);
/* Called: answers HOP_HELLO.  The user of this function checks the sessions in HELLO.  -EPROTONOSUPPORT, -EPROTO. */
int kr_pair_challenge(struct kr_pair *pair, const struct kr_hop_hello_request *hello,
	const uint8_t ring_key[KR_RING_KEY], enum kr_security least, const struct kr_fresh *fresh,
	struct kr_hop_hello_reply *ret_reply);
/* Called: takes HOP_PROVE.  0: the caller has the secret.  -EKEYREJECTED; -EPROTO: out of turn. */
int kr_pair_verify(struct kr_pair *pair, const struct kr_hop_prove_request *prove, struct kr_seal_keys *ret_keys);
/* Wipes. */
void kr_pair_fini(struct kr_pair *pair);

#endif

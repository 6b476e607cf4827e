/* The common part of all handshakes (by a key, by a pair's secret, by MUNGE): fresh nonces and ephemeral X25519 keys of
 * both sides, the choice of security and cipher, proofs, and the resulting keys.
 *
 * The caller (client) and the called (server) each send an offer: a nonce, a public key, a security and ciphers.  The
 * client's has the least security that it accepts and the ciphers that it supports.  The server's has the chosen
 * security, at least that much, and the one cipher.
 *
 *   transcript = BLAKE2b-256, keyed with the secret, of a label padded with zeros to 32 bytes, the 32 bytes of the
 *                context (a hash of all other fields of the messages), and both offers: nonce, public key, u8 security,
 *                u8 ciphers
 *   proof      = the transcript with the label "kairan-2 KIND server" or "kairan-2 KIND client"
 *   session key = BLAKE2b-256, keyed with X25519(own private, other's public), of the transcript with the label
 *                "kairan-2 KIND session"
 *   further keys = BLAKE2b-256, keyed with the session key, of a label padded with zeros to 32 bytes: "kairan-2 to
 *                server" and "kairan-2 to client" seal the frames of the two directions
 *
 * So a proof names its side (no reflection), binds all messages (no downgrade), and is valid for one pair of nonces (no
 * replay).  An attacker that learns the secret later cannot open recorded frames, because the private keys are gone.
 *
 * Pure: random bytes come in from the caller.
 */
#ifndef KR_COMMON_HANDSHAKE_H
#define KR_COMMON_HANDSHAKE_H

#include <stdbool.h>

#include "common/rpc/seal.h"

enum { KR_NONCE = 32, KR_PROOF = 32, KR_SECRET = 32, KR_SESSION_KEY = 32, KR_PUBLIC = 32, KR_CONTEXT = 32 };

/* Random bytes for one handshake. */
struct kr_fresh {
	uint8_t nonce[KR_NONCE], private[KR_SECRET];
};
void kr_fresh_make(struct kr_fresh *ret_fresh);

struct kr_offer {
	uint8_t nonce[KR_NONCE], public[KR_PUBLIC];
	uint8_t security, ciphers;
};

/* Wiped by kr_handshake_fini. */
struct kr_handshake {
	const char *kind; /* "key", "ring", "munge" */
	struct kr_offer client, server;
	uint8_t context[KR_CONTEXT]; /* the caller fills it before the first proof */
	uint8_t private[KR_SECRET];
	uint8_t session_key[KR_SESSION_KEY];
	bool is_server, done;
};

/* Client: begins, with LEAST as the least security; its offer is then in handshake->client. */
void kr_handshake_ask(
	struct kr_handshake *handshake, const char *kind, const struct kr_fresh *fresh, enum kr_security least);
/* Client: takes the server's offer.  -EPROTO: it does not answer the client's, or has less security. */
int kr_handshake_answered(struct kr_handshake *handshake, const struct kr_offer *server);
/* Server: answers the CLIENT's offer; the server's is then in handshake->server.  -EPROTO: the offer is invalid. */
int kr_handshake_answer(struct kr_handshake *handshake, const char *kind, const struct kr_fresh *fresh,
	enum kr_security least, const struct kr_offer *client);
/* The proof of one of the sides. */
void kr_handshake_prove(const struct kr_handshake *handshake, const uint8_t secret[KR_SECRET], bool server,
	uint8_t ret_proof[KR_PROOF]);
/* Whether the other side's PROOF is right. In constant time. */
bool kr_handshake_verify(
	const struct kr_handshake *handshake, const uint8_t secret[KR_SECRET], const uint8_t proof[KR_PROOF]);
/* After the proofs: computes the session key.  -EPROTO: the other side's public key is invalid. */
int kr_handshake_finish(struct kr_handshake *handshake, const uint8_t secret[KR_SECRET]);
/* The keys of the connection, with security and cipher.  After kr_handshake_finish. */
void kr_handshake_keys(const struct kr_handshake *handshake, struct kr_seal_keys *ret_keys);
/* A further key of the session. LABEL: at most 31 characters. */
void kr_handshake_derive(const struct kr_handshake *handshake, const char *label, uint8_t ret_key[KR_SESSION_KEY]);
void kr_handshake_fini(struct kr_handshake *handshake);

#endif

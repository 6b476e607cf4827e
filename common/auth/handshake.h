/* What every handshake of kairan has in common, whatever secret it is about (a key's, a pair's of the ring, MUNGE's):
 * fresh nonces and ephemeral X25519 keys of both sides, the choice of security and cipher, proofs, and the keys that
 * come of it.
 *
 * The caller (client) and the called (server) each send an offer: a nonce, a public key, a security and ciphers.  The
 * client's says the least security that it wants and the ciphers that it can do; the server's the security that will
 * be, at least that much, and the one cipher.
 *
 *   transcript = BLAKE2b-256, keyed with the secret, of a label padded with zeros to 32 bytes, the 32 bytes of the
 *                context (a hash of what else the sides have said), and both offers: nonce, public key, u8 security, u8
 *                ciphers
 *   proof      = the transcript with the label "kairan-2 KIND server" or "kairan-2 KIND client"
 *   session key = BLAKE2b-256, keyed with X25519(own private, other's public), of the transcript with the label
 *                "kairan-2 KIND session"
 *   further keys = BLAKE2b-256, keyed with the session key, of a label padded with zeros to 32 bytes: "kairan-2 to
 *                server" and "kairan-2 to client" seal the frames of the two directions
 *
 * So a proof says who speaks (no reflection), binds all that was said (no downgrade), and is good for one pair of
 * nonces (no replay); and who learns the secret later can open nothing that was recorded, because the private keys are
 * gone.
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
	uint8_t context[KR_CONTEXT]; /* the caller's to fill, before the first proof */
	uint8_t private[KR_SECRET];
	uint8_t session_key[KR_SESSION_KEY];
	bool is_server, done;
};

/* Client: begins, wanting at LEAST this security; its offer is then in handshake->client. */
void kr_handshake_ask(
	struct kr_handshake *handshake, const char *kind, const struct kr_fresh *fresh, enum kr_security least);
/* Client: takes the server's offer. -EPROTO: it is not an answer to ours, or less than we want. */
int kr_handshake_answered(struct kr_handshake *handshake, const struct kr_offer *server);
/* Server: answers the CLIENT's offer; ours is then in handshake->server. -EPROTO: it makes no sense. */
int kr_handshake_answer(struct kr_handshake *handshake, const char *kind, const struct kr_fresh *fresh,
	enum kr_security least, const struct kr_offer *client);
/* The proof of one of the sides. */
void kr_handshake_prove(const struct kr_handshake *handshake, const uint8_t secret[KR_SECRET], bool server,
	uint8_t ret_proof[KR_PROOF]);
/* Whether the other side's PROOF is right. In constant time. */
bool kr_handshake_verify(
	const struct kr_handshake *handshake, const uint8_t secret[KR_SECRET], const uint8_t proof[KR_PROOF]);
/* After the proofs: the session key. -EPROTO: the other's public key is none. */
int kr_handshake_finish(struct kr_handshake *handshake, const uint8_t secret[KR_SECRET]);
/* The keys of the connection; what is sealed, and how, is in them. After kr_handshake_finish. */
void kr_handshake_keys(const struct kr_handshake *handshake, struct kr_seal_keys *ret_keys);
/* A further key of the session. LABEL: at most 31 characters. */
void kr_handshake_derive(const struct kr_handshake *handshake, const char *label, uint8_t ret_key[KR_SESSION_KEY]);
void kr_handshake_fini(struct kr_handshake *handshake);

#endif

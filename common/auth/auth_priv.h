/* Shared by keys and handshakes. */
#ifndef KR_COMMON_AUTH_PRIV_H
#define KR_COMMON_AUTH_PRIV_H

#include <endian.h>
#include <sodium.h>

#include "common/auth/auth.h"

/* Integers in the wire's order, for the hashes of keys and handshakes. */
static inline void kr_digest_u32(crypto_generichash_state *state, uint32_t value)
{
	uint32_t encoded = htobe32(value);

	crypto_generichash_update(state, (const uint8_t *)&encoded, sizeof(encoded));
}

static inline void kr_digest_u64(crypto_generichash_state *state, uint64_t value)
{
	uint64_t encoded = htobe64(value);

	crypto_generichash_update(state, (const uint8_t *)&encoded, sizeof(encoded));
}

/* auth.c and auth_munge.c. */

/* Wipes all secrets of a failed handshake at once; the key stays, for messages.  Returns ERR. */
int kr_auth_failed(struct kr_auth *auth, int err);
/* The same for a message that the other side must not send now. */
int kr_auth_out_of_turn(struct kr_auth *auth);
/* The hash of what both sides have said beside their offers: of a handshake by MUNGE there is no key. */
void kr_auth_make_context(struct kr_auth *auth);
/* Records how far the server's clock (auth->now) is from NOW, the local one, in seconds. */
void kr_auth_note_skew(struct kr_auth *auth, int64_t now);

#endif

/* Shared by the hashes of keys and of the handshake: integers in the wire's order. */
#ifndef KR_COMMON_KEY_PRIV_H
#define KR_COMMON_KEY_PRIV_H

#include <endian.h>
#include <sodium.h>
#include <stdint.h>

static inline void kr_hash_u32(crypto_generichash_state *state, uint32_t value)
{
	uint32_t encoded = htobe32(value);

	crypto_generichash_update(state, (const uint8_t *)&encoded, sizeof(encoded));
}

static inline void kr_hash_u64(crypto_generichash_state *state, uint64_t value)
{
	uint64_t encoded = htobe64(value);

	crypto_generichash_update(state, (const uint8_t *)&encoded, sizeof(encoded));
}

#endif

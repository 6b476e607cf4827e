/* The common part of all handshakes; see handshake.h. */
#include "common/auth/handshake.h"

#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/util.h"

_Static_assert(KR_PUBLIC == crypto_scalarmult_BYTES && KR_SECRET == crypto_scalarmult_SCALARBYTES, "X25519");

enum { LABEL = 32 };

void kr_fresh_make(struct kr_fresh *ret_fresh)
{
	randombytes_buf(ret_fresh, sizeof(*ret_fresh));
}

static void begin(struct kr_handshake *handshake, const char *kind, bool is_server, const struct kr_fresh *fresh,
	struct kr_offer *own)
{
	memset(handshake, 0, sizeof(*handshake));
	handshake->kind = kind;
	handshake->is_server = is_server;
	memcpy(handshake->private, fresh->private, KR_SECRET);
	memcpy(own->nonce, fresh->nonce, KR_NONCE);
	crypto_scalarmult_base(own->public, fresh->private);
}

void kr_handshake_ask(
	struct kr_handshake *handshake, const char *kind, const struct kr_fresh *fresh, enum kr_security least)
{
	begin(handshake, kind, false, fresh, &handshake->client);
	handshake->client.security = (uint8_t)least;
	handshake->client.ciphers = kr_seal_ciphers();
}

int kr_handshake_answered(struct kr_handshake *handshake, const struct kr_offer *server)
{
	const uint8_t cipher = server->ciphers;

	handshake->server = *server;
	if (server->security > KR_SECURITY_PRIVACY || cipher == 0 || (cipher & (cipher - 1)) ||
		!(cipher & handshake->client.ciphers))
		return kr_fail(-EPROTO, "the other side's answer to our handshake makes no sense");
	if (server->security < handshake->client.security)
		return kr_fail(-EPROTO, "the other side gives security=%s only, and %s is wanted here",
			kr_security_name(server->security), kr_security_name(handshake->client.security));
	return 0;
}

int kr_handshake_answer(struct kr_handshake *handshake, const char *kind, const struct kr_fresh *fresh,
	enum kr_security least, const struct kr_offer *client)
{
	const uint8_t common = client->ciphers & kr_seal_ciphers();

	if (client->security > KR_SECURITY_PRIVACY || common == 0)
		return kr_fail(-EPROTO, "its handshake makes no sense");
	begin(handshake, kind, true, fresh, &handshake->server);
	handshake->client = *client;
	handshake->server.security = (uint8_t)KR_MAX((uint8_t)least, client->security);
	handshake->server.ciphers = common & KR_CIPHER_AES256_GCM ? KR_CIPHER_AES256_GCM : KR_CIPHER_CHACHA20_POLY1305;
	return 0;
}

static void add_offer(crypto_generichash_state *state, const struct kr_offer *offer)
{
	crypto_generichash_update(state, offer->nonce, KR_NONCE);
	crypto_generichash_update(state, offer->public, KR_PUBLIC);
	crypto_generichash_update(state, &offer->security, 1);
	crypto_generichash_update(state, &offer->ciphers, 1);
}

static void transcript(const struct kr_handshake *handshake, const uint8_t secret[KR_SECRET], const char *role,
	uint8_t ret_hash[KR_PROOF])
{
	char label[LABEL] = {0};
	crypto_generichash_state state;

	snprintf(label, sizeof(label), "kairan-2 %s %s", handshake->kind, role);
	crypto_generichash_init(&state, secret, KR_SECRET, KR_PROOF);
	crypto_generichash_update(&state, (const uint8_t *)label, LABEL);
	crypto_generichash_update(&state, handshake->context, KR_CONTEXT);
	add_offer(&state, &handshake->client);
	add_offer(&state, &handshake->server);
	crypto_generichash_final(&state, ret_hash, KR_PROOF);
	sodium_memzero(&state, sizeof(state));
}

void kr_handshake_prove(
	const struct kr_handshake *handshake, const uint8_t secret[KR_SECRET], bool server, uint8_t ret_proof[KR_PROOF])
{
	transcript(handshake, secret, server ? "server" : "client", ret_proof);
}

bool kr_handshake_verify(
	const struct kr_handshake *handshake, const uint8_t secret[KR_SECRET], const uint8_t proof[KR_PROOF])
{
	uint8_t expected[KR_PROOF];
	bool right;

	kr_handshake_prove(handshake, secret, !handshake->is_server, expected);
	right = sodium_memcmp(expected, proof, KR_PROOF) == 0;
	sodium_memzero(expected, sizeof(expected));
	return right;
}

int kr_handshake_finish(struct kr_handshake *handshake, const uint8_t secret[KR_SECRET])
{
	const struct kr_offer *other = handshake->is_server ? &handshake->client : &handshake->server;
	uint8_t shared[KR_SECRET], hash[KR_PROOF];
	int err = crypto_scalarmult(shared, handshake->private, other->public);

	if (!err) {
		transcript(handshake, secret, "session", hash);
		crypto_generichash(handshake->session_key, KR_SESSION_KEY, hash, sizeof(hash), shared, sizeof(shared));
		handshake->done = true;
	}
	sodium_memzero(handshake->private, sizeof(handshake->private));
	sodium_memzero(shared, sizeof(shared));
	sodium_memzero(hash, sizeof(hash));
	return err ? kr_fail(-EPROTO, "the other side's public key is none") : 0;
}

void kr_handshake_derive(const struct kr_handshake *handshake, const char *label, uint8_t ret_key[KR_SESSION_KEY])
{
	char padded[LABEL] = {0};

	snprintf(padded, sizeof(padded), "%s", label);
	crypto_generichash(
		ret_key, KR_SESSION_KEY, (const uint8_t *)padded, LABEL, handshake->session_key, KR_SESSION_KEY);
}

void kr_handshake_keys(const struct kr_handshake *handshake, struct kr_seal_keys *ret_keys)
{
	static const char to_server[] = "kairan-2 to server", to_client[] = "kairan-2 to client";

	ret_keys->security = (enum kr_security)handshake->server.security;
	ret_keys->cipher = (enum kr_cipher)handshake->server.ciphers;
	kr_handshake_derive(handshake, handshake->is_server ? to_client : to_server, ret_keys->send);
	kr_handshake_derive(handshake, handshake->is_server ? to_server : to_client, ret_keys->receive);
}

void kr_handshake_fini(struct kr_handshake *handshake)
{
	sodium_memzero(handshake, sizeof(*handshake));
}

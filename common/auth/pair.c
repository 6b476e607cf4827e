/* Secrets of pairs and their handshake; see pair.h. */
#include "common/auth/pair.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/rpc/proto.h"
#include "common/auth/auth_priv.h"

static void hash(
	const uint8_t key[KR_RING_KEY], const char *text, uint64_t session, uint32_t node, uint8_t ret_hash[KR_SECRET])
{
	char label[32] = {0};
	crypto_generichash_state state;

	memcpy(label, text, strlen(text));
	crypto_generichash_init(&state, key, KR_RING_KEY, KR_SECRET);
	crypto_generichash_update(&state, (const uint8_t *)label, sizeof(label));
	kr_digest_u64(&state, session);
	kr_digest_u32(&state, node);
	crypto_generichash_final(&state, ret_hash, KR_SECRET);
	sodium_memzero(&state, sizeof(state));
}

void kr_pair_secret(const uint8_t ring_key[KR_RING_KEY], uint64_t caller_session, uint32_t caller_node,
	uint8_t ret_secret[KR_SECRET])
{
	hash(ring_key, "kairan-2 pair secret", caller_session, caller_node, ret_secret);
}

void kr_pair_mask(const uint8_t ring_key[KR_RING_KEY], uint64_t session, uint32_t node, uint8_t secret[KR_SECRET])
{
	uint8_t mask[KR_SECRET];

	hash(ring_key, "kairan-2 pair mask", session, node, mask);
	for (size_t i = 0; i < KR_SECRET; i++)
		secret[i] ^= mask[i];
	sodium_memzero(mask, sizeof(mask));
}

static void make_context(struct kr_handshake *handshake, const struct kr_hop_hello_request *hello)
{
	crypto_generichash_state state;

	crypto_generichash_init(&state, NULL, 0, KR_CONTEXT);
	kr_digest_u32(&state, hello->proto);
	kr_digest_u32(&state, hello->node);
	kr_digest_u64(&state, hello->caller);
	kr_digest_u64(&state, hello->session);
	crypto_generichash_final(&state, handshake->context, KR_CONTEXT);
}

void kr_pair_call(struct kr_pair *pair, const struct kr_hop_address *to, const uint8_t ring_key[KR_RING_KEY],
	uint32_t node, uint64_t session, enum kr_security least, const struct kr_fresh *fresh,
	struct kr_hop_hello_request *ret_hello)
{
	const struct kr_offer *own = &pair->handshake.client;

	memset(pair, 0, sizeof(*pair));
	memcpy(pair->secret, to->ticket, KR_SECRET);
	kr_pair_mask(ring_key, to->session, to->node, pair->secret);
	kr_handshake_ask(&pair->handshake, "ring", fresh, least);
	*ret_hello = (struct kr_hop_hello_request){.proto = KR_PROTO_VERSION,
		.node = node,
		.caller = session,
		.session = to->session,
		.security = own->security,
		.ciphers = own->ciphers};
	memcpy(ret_hello->nonce, own->nonce, KR_NONCE);
	memcpy(ret_hello->public, own->public, KR_PUBLIC);
	make_context(&pair->handshake, ret_hello);
	pair->asked = true;
}

int kr_pair_prove(struct kr_pair *pair, const struct kr_hop_hello_reply *reply, struct kr_hop_prove_request *ret_prove,
	struct kr_seal_keys *ret_keys)
{
	struct kr_offer server = {.security = reply->security, .ciphers = reply->cipher};
	int err = 0;

	memcpy(server.nonce, reply->nonce, KR_NONCE);
	memcpy(server.public, reply->public, KR_PUBLIC);
	if (!pair->asked || reply->proto != KR_PROTO_VERSION)
		err = kr_fail(-EPROTO, "the answer to HOP_HELLO makes no sense");
	else
		err = kr_handshake_answered(&pair->handshake, &server);
	if (!err && !kr_handshake_verify(&pair->handshake, pair->secret, reply->proof))
		err = kr_fail(
			-EKEYREJECTED, "who answers there does not know the secret that the server gave us for it");
	if (!err) {
		kr_handshake_prove(&pair->handshake, pair->secret, false, ret_prove->proof);
		err = kr_handshake_finish(&pair->handshake, pair->secret);
	}
	if (!err)
		kr_handshake_keys(&pair->handshake, ret_keys);
	kr_pair_fini(pair);
	return err;
}

int kr_pair_challenge(struct kr_pair *pair, const struct kr_hop_hello_request *hello,
	const uint8_t ring_key[KR_RING_KEY], enum kr_security least, const struct kr_fresh *fresh,
	struct kr_hop_hello_reply *ret_reply)
{
	struct kr_offer client = {.security = hello->security, .ciphers = hello->ciphers};
	const struct kr_offer *own = &pair->handshake.server;
	int err;

	if (pair->challenged)
		return kr_fail(-EPROTO, "a second HOP_HELLO");
	if (hello->proto != KR_PROTO_VERSION)
		return kr_proto_differs(hello->proto);
	memcpy(client.nonce, hello->nonce, KR_NONCE);
	memcpy(client.public, hello->public, KR_PUBLIC);
	err = kr_handshake_answer(&pair->handshake, "ring", fresh, least, &client);
	if (err)
		return err;
	kr_pair_secret(ring_key, hello->caller, hello->node, pair->secret);
	make_context(&pair->handshake, hello);
	*ret_reply = (struct kr_hop_hello_reply){
		.proto = KR_PROTO_VERSION, .security = own->security, .cipher = own->ciphers};
	memcpy(ret_reply->nonce, own->nonce, KR_NONCE);
	memcpy(ret_reply->public, own->public, KR_PUBLIC);
	kr_handshake_prove(&pair->handshake, pair->secret, true, ret_reply->proof);
	pair->challenged = true;
	return 0;
}

int kr_pair_verify(struct kr_pair *pair, const struct kr_hop_prove_request *prove, struct kr_seal_keys *ret_keys)
{
	int err;

	if (!pair->challenged)
		err = kr_fail(-EPROTO, "it does not begin with HOP_HELLO");
	else if (!kr_handshake_verify(&pair->handshake, pair->secret, prove->proof))
		err = kr_fail(-EKEYREJECTED, "it does not know the secret that the server gave out for it");
	else
		err = kr_handshake_finish(&pair->handshake, pair->secret);
	if (!err)
		kr_handshake_keys(&pair->handshake, ret_keys);
	kr_pair_fini(pair);
	return err;
}

void kr_pair_fini(struct kr_pair *pair)
{
	sodium_memzero(pair, sizeof(*pair));
}

/* The handshake as two state machines over one transcript; see auth.h for the protocol.  No state of its own. */
#include "common/auth/auth.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/auth/auth_priv.h"
#include "common/base/fail.h"

void kr_auth_init(struct kr_auth *auth)
{
	memset(auth, 0, sizeof(*auth));
}

void kr_auth_fini(struct kr_auth *auth)
{
	kr_key_put(auth->key);
	sodium_memzero(auth, sizeof(*auth));
}

enum kr_security kr_auth_security(const struct kr_auth *auth)
{
	return auth->state == KR_AUTH_DONE ? (enum kr_security)auth->handshake.server.security : KR_SECURITY_AUTH;
}

void kr_auth_mask_ring_key(const struct kr_auth *auth, uint8_t ring_key[KR_SESSION_KEY])
{
	uint8_t mask[KR_SESSION_KEY];

	if (auth->state != KR_AUTH_DONE)
		return;
	kr_handshake_derive(&auth->handshake, "kairan-2 ring key", mask);
	for (size_t i = 0; i < sizeof(mask); i++)
		ring_key[i] ^= mask[i];
	sodium_memzero(mask, sizeof(mask));
}

int kr_auth_failed(struct kr_auth *auth, int err)
{
	auth->state = KR_AUTH_FAILED;
	sodium_memzero(auth->random, sizeof(auth->random));
	kr_handshake_fini(&auth->handshake);
	return err;
}

int kr_auth_out_of_turn(struct kr_auth *auth)
{
	return kr_auth_failed(auth, kr_fail(-EPROTO, "a message of the handshake came out of turn"));
}

/* Without overflow, whatever time the server sends. */
void kr_auth_note_skew(struct kr_auth *auth, int64_t now)
{
	if (__builtin_sub_overflow(auth->now.sec, now, &auth->skew_s))
		auth->skew_s = auth->now.sec < 0 ? INT64_MIN : INT64_MAX;
}

void kr_auth_make_context(struct kr_auth *auth)
{
	crypto_generichash_state state;

	crypto_generichash_init(&state, NULL, 0, KR_CONTEXT);
	kr_digest_u32(&state, auth->proto_min);
	kr_digest_u32(&state, auth->proto_max);
	kr_digest_u32(&state, auth->proto);
	if (auth->key)
		crypto_generichash_update(&state, auth->key->id, KR_KEY_ID);
	kr_digest_u64(&state, (uint64_t)auth->now.sec);
	kr_digest_u32(&state, auth->now.nsec);
	crypto_generichash_final(&state, auth->handshake.context, KR_CONTEXT);
}

static int finish(struct kr_auth *auth, struct kr_seal_keys *ret_keys)
{
	int err = kr_handshake_finish(&auth->handshake, auth->key->secret);

	if (err)
		return kr_auth_failed(auth, err);
	kr_handshake_keys(&auth->handshake, ret_keys);
	auth->state = KR_AUTH_DONE;
	return 0;
}

/* --- client --- */

int kr_auth_client_begin(struct kr_auth *auth, struct kr_key *key, enum kr_security least, const struct kr_fresh *fresh,
	int64_t now, struct kr_auth_request *ret_request)
{
	const struct kr_offer *own = &auth->handshake.client;
	int err = auth->state == KR_AUTH_NEW ? kr_key_check(key, now) : kr_auth_out_of_turn(auth);

	if (err)
		return kr_auth_failed(auth, err);
	auth->key = kr_key_get(key);
	auth->proto_min = auth->proto_max = KR_PROTO_VERSION;
	kr_handshake_ask(&auth->handshake, "key", fresh, least);
	*ret_request = (struct kr_auth_request){.proto_min = auth->proto_min,
		.proto_max = auth->proto_max,
		.security = own->security,
		.ciphers = own->ciphers};
	memcpy(ret_request->nonce, own->nonce, KR_NONCE);
	memcpy(ret_request->public, own->public, KR_PUBLIC);
	memcpy(ret_request->key, key->id, KR_KEY_ID);
	auth->state = KR_AUTH_ASKED;
	return 0;
}

int kr_auth_client_prove(
	struct kr_auth *auth, const struct kr_auth_reply *reply, int64_t now, struct kr_auth_prove_request *ret_request)
{
	struct kr_offer server = {.security = reply->security, .ciphers = reply->cipher};
	int err;

	if (auth->state != KR_AUTH_ASKED)
		return kr_auth_out_of_turn(auth);
	if (reply->proto < auth->proto_min || reply->proto > auth->proto_max)
		return kr_auth_failed(auth, kr_fail(-EPROTO, "the server's answer to AUTH makes no sense"));
	auth->proto = reply->proto;
	auth->now = reply->now;
	memcpy(server.nonce, reply->nonce, KR_NONCE);
	memcpy(server.public, reply->public, KR_PUBLIC);
	err = kr_handshake_answered(&auth->handshake, &server);
	if (err)
		return kr_auth_failed(auth, err);
	kr_auth_make_context(auth);
	if (!kr_handshake_verify(&auth->handshake, auth->key->secret, reply->proof))
		return kr_auth_failed(auth,
			kr_fail(-EKEYREJECTED,
				"who answers there does not have our key: it is not our server, or somebody "
				"changes what it says (check the address)"));
	kr_auth_note_skew(auth, now);
	kr_handshake_prove(&auth->handshake, auth->key->secret, false, ret_request->proof);
	auth->state = KR_AUTH_PROVED;
	return 0;
}

int kr_auth_client_end(struct kr_auth *auth, struct kr_seal_keys *ret_keys)
{
	if (auth->state != KR_AUTH_PROVED)
		return kr_auth_out_of_turn(auth);
	return finish(auth, ret_keys);
}

int kr_auth_client_refused(struct kr_auth *auth, int err)
{
	char description[KR_KEY_DESCRIPTION] = "our key", expires[KR_KEY_TIME], clock[KR_KEY_TIME];

	if (auth->key)
		kr_key_describe(auth->key, description);
	if (err == -EKEYEXPIRED && auth->key && auth->state == KR_AUTH_PROVED)
		err = kr_fail(err,
			"the server says that %s, which expires at %s, is out of its time, and that it is %s there "
			"(make a new key: kairan key; or set the clocks)",
			description, kr_key_time_format(auth->key->expires, expires),
			kr_key_time_format(auth->now.sec, clock));
	else if (err == -EKEYREJECTED)
		err = kr_fail(err,
			"the server does not accept %s (is the file a copy of one that kairand was started with? its "
			"log says why)",
			description);
	else if (err == -EOPNOTSUPP || err == -ENOSYS)
		err = kr_fail(err,
			"the server has no keys, so it cannot prove that it is the right one (start kairand with "
			"--key, or do without a key here)");
	else if (err == -EPROTO && auth->state == KR_AUTH_ASKED)
		err = kr_fail(-EPROTONOSUPPORT,
			"the server speaks another version of the protocol (are both sides of one release?)");
	else if (err != -EPROTONOSUPPORT) /* which has its reason already */
		err = kr_fail_errno(err, "the server did not go on with the handshake");
	return kr_auth_failed(auth, err);
}

/* --- server --- */

int kr_auth_server_challenge(struct kr_auth *auth, const struct kr_keyring *keyring, enum kr_security security,
	const struct kr_auth_request *request, const struct kr_fresh *fresh, struct kr_time now,
	struct kr_auth_reply *ret_reply)
{
	struct kr_offer client = {.security = request->security, .ciphers = request->ciphers};
	const struct kr_offer *own = &auth->handshake.server;
	char id[2 * 4 + 1];
	struct kr_key *key;
	int err;

	if (auth->state != KR_AUTH_NEW)
		return kr_auth_out_of_turn(auth);
	key = kr_keyring_find(keyring, request->key);
	if (!key)
		return kr_auth_failed(auth,
			kr_fail(-EKEYREJECTED,
				"it has a key %s, which is not among ours (give its file to kairand with --key, "
				"or copy one of ours to the node)",
				sodium_bin2hex(id, sizeof(id), request->key, 4)));
	auth->key = kr_key_get(key);
	auth->proto_min = request->proto_min;
	auth->proto_max = request->proto_max;
	auth->proto = KR_PROTO_VERSION;
	auth->now = now;
	memcpy(client.nonce, request->nonce, KR_NONCE);
	memcpy(client.public, request->public, KR_PUBLIC);
	err = kr_handshake_answer(&auth->handshake, "key", fresh, security, &client);
	if (err)
		return kr_auth_failed(auth, err);
	kr_auth_make_context(auth);
	*ret_reply = (struct kr_auth_reply){
		.proto = auth->proto, .now = now, .security = own->security, .cipher = own->ciphers};
	memcpy(ret_reply->nonce, own->nonce, KR_NONCE);
	memcpy(ret_reply->public, own->public, KR_PUBLIC);
	kr_handshake_prove(&auth->handshake, auth->key->secret, true, ret_reply->proof);
	auth->state = KR_AUTH_CHALLENGED;
	return 0;
}

int kr_auth_server_verify(
	struct kr_auth *auth, const struct kr_auth_prove_request *request, struct kr_seal_keys *ret_keys)
{
	char description[KR_KEY_DESCRIPTION];
	int err;

	if (auth->state != KR_AUTH_CHALLENGED || !auth->key) /* no key: the peer began with MUNGE */
		return kr_auth_out_of_turn(auth);
	if (!kr_handshake_verify(&auth->handshake, auth->key->secret, request->proof))
		return kr_auth_failed(auth,
			kr_fail(-EKEYREJECTED, "it says that it has %s, but cannot prove it",
				kr_key_describe(auth->key, description)));
	err = kr_key_check(auth->key, auth->now.sec);
	if (err)
		return kr_auth_failed(auth, err);
	return finish(auth, ret_keys);
}

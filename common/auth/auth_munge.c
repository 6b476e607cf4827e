/* The handshake by MUNGE's credentials; see auth_munge.h.  No state of its own. */
#include "common/auth/auth_munge.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "common/auth/auth_priv.h"
#include "common/base/fail.h"

static const uint8_t no_secret[KR_SECRET];

static void make_payload(
	const struct kr_auth *auth, bool server, const uint8_t random[KR_SECRET], uint8_t payload[KR_MUNGE_PAYLOAD])
{
	kr_handshake_prove(&auth->handshake, no_secret, server, payload);
	memcpy(payload + KR_PROOF, random, KR_SECRET);
}

static int finish(struct kr_auth *auth, const uint8_t client_random[KR_SECRET], const uint8_t server_random[KR_SECRET],
	struct kr_seal_keys *ret_keys)
{
	uint8_t both[2 * KR_SECRET], secret[KR_SECRET];
	int err;

	memcpy(both, client_random, KR_SECRET);
	memcpy(both + KR_SECRET, server_random, KR_SECRET);
	crypto_generichash(secret, sizeof(secret), both, sizeof(both), NULL, 0);
	err = kr_handshake_finish(&auth->handshake, secret);
	sodium_memzero(both, sizeof(both));
	sodium_memzero(secret, sizeof(secret));
	sodium_memzero(auth->random, sizeof(auth->random));
	if (err)
		return kr_auth_failed(auth, err);
	kr_handshake_keys(&auth->handshake, ret_keys);
	auth->state = KR_AUTH_DONE;
	return 0;
}

/* --- client --- */

int kr_auth_munge_begin(struct kr_auth *auth, enum kr_security least, const struct kr_fresh *fresh,
	struct kr_auth_munge_request *ret_request)
{
	const struct kr_offer *own = &auth->handshake.client;

	if (auth->state != KR_AUTH_NEW)
		return kr_auth_out_of_turn(auth);
	auth->proto_min = auth->proto_max = KR_PROTO_VERSION;
	kr_handshake_ask(&auth->handshake, "munge", fresh, least);
	*ret_request = (struct kr_auth_munge_request){.proto_min = auth->proto_min,
		.proto_max = auth->proto_max,
		.security = own->security,
		.ciphers = own->ciphers};
	memcpy(ret_request->nonce, own->nonce, KR_NONCE);
	memcpy(ret_request->public, own->public, KR_PUBLIC);
	auth->state = KR_AUTH_ASKED;
	return 0;
}

int kr_auth_munge_prove(struct kr_auth *auth, const struct kr_auth_munge_reply *reply, int64_t now,
	const uint8_t random[KR_SECRET], uint8_t ret_payload[KR_MUNGE_PAYLOAD])
{
	struct kr_offer server = {.security = reply->security, .ciphers = reply->cipher};
	int err;

	if (auth->state != KR_AUTH_ASKED)
		return kr_auth_out_of_turn(auth);
	if (reply->proto < auth->proto_min || reply->proto > auth->proto_max)
		return kr_auth_failed(auth, kr_fail(-EPROTO, "the server's answer to AUTH_MUNGE makes no sense"));
	auth->proto = reply->proto;
	auth->now = reply->now;
	kr_auth_note_skew(auth, now);
	memcpy(server.nonce, reply->nonce, KR_NONCE);
	memcpy(server.public, reply->public, KR_PUBLIC);
	err = kr_handshake_answered(&auth->handshake, &server);
	if (err)
		return kr_auth_failed(auth, err);
	kr_auth_make_context(auth);
	memcpy(auth->random, random, KR_SECRET);
	make_payload(auth, false, random, ret_payload);
	auth->state = KR_AUTH_PROVED;
	return 0;
}

int kr_auth_munge_end(struct kr_auth *auth, uint32_t uid, uint32_t expected_uid,
	const uint8_t payload[KR_MUNGE_PAYLOAD], struct kr_seal_keys *ret_keys)
{
	if (auth->state != KR_AUTH_PROVED)
		return kr_auth_out_of_turn(auth);
	if (uid != expected_uid)
		return kr_auth_failed(auth,
			kr_fail(-EKEYREJECTED,
				"by MUNGE the server is run by user %u, and not by %u: it is not our server, or "
				"munge_uid should say so",
				uid, expected_uid));
	if (!kr_handshake_verify(&auth->handshake, no_secret, payload))
		return kr_auth_failed(auth,
			kr_fail(-EKEYREJECTED,
				"the server's MUNGE credential is not for this connection: somebody changes what it "
				"says"));
	return finish(auth, auth->random, payload + KR_PROOF, ret_keys);
}

int kr_auth_munge_refused(struct kr_auth *auth, int err)
{
	if (err == -EKEYREJECTED)
		err = kr_fail(err,
			"the server does not accept our MUNGE credential (do both machines have the same munge.key, "
			"and does kairand run as the user of munge_uid? its log says why)");
	else if (err == -EKEYEXPIRED)
		err = kr_fail(err,
			"by the server's clock our MUNGE credential is too old or of the future (set the clocks of "
			"both machines)");
	else if (err == -EHOSTDOWN)
		err = kr_fail(err, "munged does not answer on the server's machine (is it running there?)");
	else if (err == -EOPNOTSUPP || err == -ENOSYS || err == -EPROTO)
		err = kr_fail(err,
			"the server does not do MUNGE, or speaks another version of the protocol (start kairand "
			"with --munge)");
	else if (err != -EPROTONOSUPPORT) /* which has its reason already */
		err = kr_fail_errno(err, "the server did not go on with the handshake");
	return kr_auth_failed(auth, err);
}

/* --- server --- */

int kr_auth_munge_challenge(struct kr_auth *auth, enum kr_security security,
	const struct kr_auth_munge_request *request, const struct kr_fresh *fresh, struct kr_time now,
	struct kr_auth_munge_reply *ret_reply)
{
	struct kr_offer client = {.security = request->security, .ciphers = request->ciphers};
	const struct kr_offer *own = &auth->handshake.server;
	int err;

	if (auth->state != KR_AUTH_NEW)
		return kr_auth_out_of_turn(auth);
	memcpy(client.nonce, request->nonce, KR_NONCE);
	memcpy(client.public, request->public, KR_PUBLIC);
	err = kr_handshake_answer(&auth->handshake, "munge", fresh, security, &client);
	if (err)
		return kr_auth_failed(auth, err);
	auth->proto_min = request->proto_min;
	auth->proto_max = request->proto_max;
	auth->proto = KR_PROTO_VERSION;
	auth->now = now;
	kr_auth_make_context(auth);
	*ret_reply = (struct kr_auth_munge_reply){
		.proto = auth->proto, .now = now, .security = own->security, .cipher = own->ciphers};
	memcpy(ret_reply->nonce, own->nonce, KR_NONCE);
	memcpy(ret_reply->public, own->public, KR_PUBLIC);
	auth->state = KR_AUTH_CHALLENGED;
	return 0;
}

int kr_auth_munge_verify(struct kr_auth *auth, uint32_t uid, const uint8_t payload[KR_MUNGE_PAYLOAD],
	const uint8_t random[KR_SECRET], uint8_t ret_payload[KR_MUNGE_PAYLOAD], struct kr_seal_keys *ret_keys)
{
	int err;

	if (auth->state != KR_AUTH_CHALLENGED || auth->key)
		return kr_auth_out_of_turn(auth);
	if (!kr_handshake_verify(&auth->handshake, no_secret, payload))
		return kr_auth_failed(auth,
			kr_fail(-EKEYREJECTED, "its MUNGE credential, of user %u, is not for this connection", uid));
	err = kr_key_of_munge(uid, auth->now.sec, &auth->key);
	if (err)
		return kr_auth_failed(auth, err);
	make_payload(auth, true, random, ret_payload);
	return finish(auth, payload + KR_PROOF, random, ret_keys);
}

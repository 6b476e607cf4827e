/* The handshake as two state machines over one transcript; see auth.h for the protocol.  No state of its own. */
#include "common/auth.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/fail.h"
#include "common/key_priv.h"

_Static_assert(KR_AUTH_PROOF == KR_AUTH_SESSION_KEY, "both are made by transcript_hash");
_Static_assert(KR_AUTH_PROOF <= crypto_generichash_BYTES_MAX && KR_AUTH_PROOF >= crypto_generichash_BYTES_MIN, "hash");

enum { LABEL = 16 };
static const char label_server[LABEL] = "kairan-server-1", label_client[LABEL] = "kairan-client-1";
static const char label_session[LABEL] = {"kairan-session-1"}; /* fills it, without a NUL */

void kr_auth_init(struct kr_auth *auth)
{
	memset(auth, 0, sizeof(*auth));
}

void kr_auth_fini(struct kr_auth *auth)
{
	kr_key_put(auth->key);
	sodium_memzero(auth, sizeof(*auth));
}

void kr_auth_make_nonce(uint8_t nonce[KR_AUTH_NONCE])
{
	randombytes_buf(nonce, KR_AUTH_NONCE);
}

const uint8_t *kr_auth_session_key(const struct kr_auth *auth)
{
	return auth->state == KR_AUTH_DONE ? auth->session_key : NULL;
}

/* What of a failed handshake could be misused is gone at once; the key stays, for messages. */
static int failed(struct kr_auth *auth, int err)
{
	auth->state = KR_AUTH_FAILED;
	sodium_memzero(auth->session_key, sizeof(auth->session_key));
	return err;
}

static int out_of_turn(struct kr_auth *auth)
{
	return failed(auth, kr_fail(-EPROTO, "a message of the handshake came out of turn"));
}

/* --- the transcript --- */

static void transcript_hash(const struct kr_auth *auth, const char label[LABEL], uint8_t ret_hash[KR_AUTH_PROOF])
{
	crypto_generichash_state state;

	crypto_generichash_init(&state, auth->key->secret, KR_KEY_SECRET, KR_AUTH_PROOF);
	crypto_generichash_update(&state, (const uint8_t *)label, LABEL);
	kr_hash_u32(&state, auth->proto_min);
	kr_hash_u32(&state, auth->proto_max);
	kr_hash_u32(&state, auth->proto);
	crypto_generichash_update(&state, auth->key->id, KR_KEY_ID);
	crypto_generichash_update(&state, auth->client_nonce, KR_AUTH_NONCE);
	crypto_generichash_update(&state, auth->server_nonce, KR_AUTH_NONCE);
	kr_hash_u64(&state, (uint64_t)auth->now.sec);
	kr_hash_u32(&state, auth->now.nsec);
	crypto_generichash_final(&state, ret_hash, KR_AUTH_PROOF);
	sodium_memzero(&state, sizeof(state));
}

static bool proof_is_right(const struct kr_auth *auth, const char label[LABEL], const uint8_t proof[KR_AUTH_PROOF])
{
	uint8_t expected[KR_AUTH_PROOF];
	bool right;

	transcript_hash(auth, label, expected);
	right = sodium_memcmp(expected, proof, KR_AUTH_PROOF) == 0;
	sodium_memzero(expected, sizeof(expected));
	return right;
}

/* --- client --- */

int kr_auth_client_begin(struct kr_auth *auth, struct kr_key *key, const uint8_t nonce[KR_AUTH_NONCE], int64_t now,
	struct kr_auth_request *ret_request)
{
	int err = auth->state == KR_AUTH_NEW ? kr_key_check(key, now) : out_of_turn(auth);

	if (err)
		return failed(auth, err);
	auth->key = kr_key_get(key);
	auth->proto_min = auth->proto_max = KR_PROTO_VERSION;
	memcpy(auth->client_nonce, nonce, KR_AUTH_NONCE);
	*ret_request = (struct kr_auth_request){.proto_min = auth->proto_min, .proto_max = auth->proto_max};
	memcpy(ret_request->nonce, nonce, KR_AUTH_NONCE);
	memcpy(ret_request->key, key->id, KR_KEY_ID);
	auth->state = KR_AUTH_ASKED;
	return 0;
}

int kr_auth_client_prove(struct kr_auth *auth, const struct kr_auth_reply *reply, int64_t now,
	struct kr_auth_prove_request *ret_request)
{
	if (auth->state != KR_AUTH_ASKED)
		return out_of_turn(auth);
	if (reply->proto < auth->proto_min || reply->proto > auth->proto_max)
		return failed(auth, kr_fail(-EPROTO, "the server's answer to AUTH makes no sense"));
	auth->proto = reply->proto;
	auth->now = reply->now;
	memcpy(auth->server_nonce, reply->nonce, KR_AUTH_NONCE);
	if (!proof_is_right(auth, label_server, reply->proof))
		return failed(auth, kr_fail(-EKEYREJECTED, "who answers there does not have our key: it is not our server, or somebody "
			"changes what it says (check the address)"));
	/* Without overflow, whatever its clock says. */
	if (__builtin_sub_overflow(auth->now.sec, now, &auth->skew_s))
		auth->skew_s = auth->now.sec < 0 ? INT64_MIN : INT64_MAX;
	transcript_hash(auth, label_client, ret_request->proof);
	auth->state = KR_AUTH_PROVED;
	return 0;
}

int kr_auth_client_end(struct kr_auth *auth)
{
	if (auth->state != KR_AUTH_PROVED)
		return out_of_turn(auth);
	transcript_hash(auth, label_session, auth->session_key);
	auth->state = KR_AUTH_DONE;
	return 0;
}

int kr_auth_client_refused(struct kr_auth *auth, int err)
{
	char description[KR_KEY_DESCRIPTION] = "our key", expires[KR_KEY_TIME], clock[KR_KEY_TIME];

	if (auth->key)
		kr_key_describe(auth->key, description);
	if (err == -EKEYEXPIRED && auth->key && auth->state == KR_AUTH_PROVED)
		err = kr_fail(err, "the server says that %s, which expires at %s, is out of its time, and that it is %s there (make a new key: kairan "
			"key; or set the clocks)", description, kr_key_time_format(auth->key->expires, expires),
			kr_key_time_format(auth->now.sec, clock));
	else if (err == -EKEYREJECTED)
		err = kr_fail(err, "the server does not accept %s (is the file a copy of one that kairand was started with? its log "
			"says why)", description);
	else if (err == -EOPNOTSUPP || err == -ENOSYS)
		err = kr_fail(err, "the server has no keys, so it cannot prove that it is the right one (start kairand with --key, or do "
			"without a key here)");
	else
		err = kr_fail_errno(err, "the server did not go on with the handshake");
	return failed(auth, err);
}

/* --- server --- */

int kr_auth_server_challenge(struct kr_auth *auth, const struct kr_keyring *keyring, const struct kr_auth_request *request,
	const uint8_t nonce[KR_AUTH_NONCE], struct kr_time now, struct kr_auth_reply *ret_reply)
{
	char id[2 * 4 + 1];
	struct kr_key *key;

	if (auth->state != KR_AUTH_NEW)
		return out_of_turn(auth);
	if (request->proto_min > request->proto_max)
		return failed(auth, kr_fail(-EPROTO, "its AUTH makes no sense"));
	if (request->proto_min > KR_PROTO_VERSION || request->proto_max < KR_PROTO_VERSION)
		return failed(auth, kr_fail(-EPROTONOSUPPORT, "it speaks another version of the protocol (install the same kairan on both)"));
	key = kr_keyring_find(keyring, request->key);
	if (!key)
		return failed(auth, kr_fail(-EKEYREJECTED, "it has a key %s, which is not among ours (give its file to kairand with --key, "
			"or copy one of ours to the node)", sodium_bin2hex(id, sizeof(id), request->key, 4)));
	auth->key = kr_key_get(key);
	auth->proto_min = request->proto_min;
	auth->proto_max = request->proto_max;
	auth->proto = KR_PROTO_VERSION;
	auth->now = now;
	memcpy(auth->client_nonce, request->nonce, KR_AUTH_NONCE);
	memcpy(auth->server_nonce, nonce, KR_AUTH_NONCE);
	*ret_reply = (struct kr_auth_reply){.proto = auth->proto, .now = now};
	memcpy(ret_reply->nonce, nonce, KR_AUTH_NONCE);
	transcript_hash(auth, label_server, ret_reply->proof);
	auth->state = KR_AUTH_CHALLENGED;
	return 0;
}

int kr_auth_server_verify(struct kr_auth *auth, const struct kr_auth_prove_request *request)
{
	char description[KR_KEY_DESCRIPTION];
	int err;

	if (auth->state != KR_AUTH_CHALLENGED)
		return out_of_turn(auth);
	if (!proof_is_right(auth, label_client, request->proof))
		return failed(auth, kr_fail(-EKEYREJECTED, "it says that it has %s, but cannot prove it",
			kr_key_describe(auth->key, description)));
	err = kr_key_check(auth->key, auth->now.sec);
	if (err)
		return failed(auth, err);
	transcript_hash(auth, label_session, auth->session_key);
	auth->state = KR_AUTH_DONE;
	return 0;
}

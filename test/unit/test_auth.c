/* The handshake: it succeeds with one key on both sides, and with nothing else.
 *
 * Messages pass through the protocol's encoding, so that each bit of each can be flipped on its way.  The golden proofs
 * come from another implementation (Python's hashlib, and RFC 7748's X25519 written out).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/auth.h"
#include "common/fail.h"
#include "common/util.h"

#define SECRET "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
static const char node_text[] = "kairan-key 1\nid db316863cac308b850d8258d73e662cd\nidentity node\ncreated 2026-11-21T20:05:08Z\n"
	"expires never\nsecret " SECRET "\n";
static const char user_text[] = "kairan-key 1\nid 7670d6b21d85cf978d8aa91f76b9227c\nidentity user 1000 alice\n"
	"created 2026-11-21T20:05:08Z\nexpires 2026-12-21T20:05:08Z\nsecret " SECRET "\n";
enum { CREATED = 1795291508, NOW = CREATED + 5, EXPIRES = CREATED + 86400 * 30 };

enum flip { FLIP_NONE, FLIP_ASK, FLIP_ANSWER, FLIP_PROVE };

/* Both sides of one connection, and what crosses it. */
struct pair {
	struct kr_auth client, server;
	struct kr_keyring *ring;
	struct kr_key *node, *user;
	struct kr_fresh client_fresh, server_fresh;
	struct kr_seal_keys client_keys, server_keys;
	enum kr_security wanted, given; /* the least, of client and server */
	int64_t client_clock, server_clock;
	struct kr_auth_request ask;
	struct kr_auth_reply answer;
	struct kr_auth_prove_request prove;
	enum flip flip;       /* the message of which a bit is flipped */
	size_t flip_bit;
};

static char dir[] = "/tmp/kr-auth-XXXXXX";
static char paths[2][40];

static int setup_files(void **state)
{
	const char *const texts[] = {node_text, user_text};

	(void)state;
	assert_non_null(mkdtemp(dir));
	for (int i = 0; i < 2; i++) {
		struct kr_key *key;

		snprintf(paths[i], sizeof(paths[i]), "%s/%d", dir, i);
		assert_int_equal(kr_key_parse(texts[i], strlen(texts[i]), "k", &key), 0);
		assert_int_equal(kr_key_save(key, paths[i]), 0);
		kr_key_put(key);
	}
	return 0;
}

static int remove_files(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		unlink(paths[i]);
	return rmdir(dir);
}

static int setup(void **state)
{
	struct pair *p = kr_xcalloc(1, sizeof(*p));
	char *const names[] = {paths[0], paths[1]};

	assert_int_equal(kr_keyring_load(names, 2, &p->ring), 0);
	p->node = kr_key_get(kr_keyring_at(p->ring, 0));
	p->user = kr_key_get(kr_keyring_at(p->ring, 1));
	for (unsigned i = 0; i < KR_NONCE; i++) {
		p->client_fresh.nonce[i] = (uint8_t)(0x40 + i);
		p->server_fresh.nonce[i] = (uint8_t)(0x80 + i);
		p->client_fresh.private[i] = (uint8_t)(0x10 + i);
		p->server_fresh.private[i] = (uint8_t)(0x20 + i);
	}
	p->given = KR_SECURITY_INTEGRITY;
	p->client_clock = p->server_clock = NOW;
	*state = p;
	return 0;
}

/* As a new connection; the random bytes change. */
static void hang_up(struct pair *p)
{
	kr_auth_fini(&p->client);
	kr_auth_fini(&p->server);
	p->client_fresh.nonce[0]++;
	p->server_fresh.nonce[0]++;
	p->client_fresh.private[5]++;
	p->server_fresh.private[5]++;
}

static int teardown(void **state)
{
	struct pair *p = *state;

	hang_up(p);
	kr_key_put(p->node);
	kr_key_put(p->user);
	kr_keyring_free(p->ring);
	free(p);
	return 0;
}

/* Carries a message over the wire into RET, with a bit flipped if asked. Returns its bits. */
static size_t carry(const struct pair *p, enum flip flip, uint16_t type, bool reply, const void *msg, void *ret, size_t size)
{
	struct kr_arena arena = {0};
	union kr_any_msg any;
	struct kr_writer w;
	size_t bits;

	kr_writer_init(&w);
	assert_int_equal(kr_msg_encode(type, reply, msg, &w), 0);
	bits = 8 * w.length;
	if (flip != FLIP_NONE && p->flip == flip && p->flip_bit < bits)
		w.bytes[p->flip_bit / 8] ^= (uint8_t)(1 << p->flip_bit % 8);
	if (kr_msg_decode(type, reply, w.bytes, w.length, &any, &arena) == 0)
		memcpy(ret, &any, size);
	else
		memset(ret, 0, size); /* a time of 2^30 nanoseconds or more: refused before the handshake sees it */
	kr_arena_fini(&arena);
	kr_writer_fini(&w);
	return bits;
}

static int challenge(struct pair *p)
{
	const struct kr_time now = {.sec = p->server_clock, .nsec = 123456789};

	return kr_auth_server_challenge(&p->server, p->ring, p->given, &p->ask, &p->server_fresh, now, &p->answer);
}

/* The whole handshake with KEY; the first error of either side. */
static int shake(struct pair *p, struct kr_key *key)
{
	struct kr_auth_request ask;
	struct kr_auth_reply answer;
	struct kr_auth_prove_request prove;
	int err = kr_auth_client_begin(&p->client, key, p->wanted, &p->client_fresh, p->client_clock, &ask);

	if (err)
		return err;
	carry(p, FLIP_ASK, KR_MSG_AUTH, false, &ask, &p->ask, sizeof(p->ask));
	err = challenge(p);
	if (err)
		return err;
	answer = p->answer;
	carry(p, FLIP_ANSWER, KR_MSG_AUTH, true, &answer, &p->answer, sizeof(p->answer));
	err = kr_auth_client_prove(&p->client, &p->answer, p->client_clock, &prove);
	if (err)
		return err;
	carry(p, FLIP_PROVE, KR_MSG_AUTH_PROVE, false, &prove, &p->prove, sizeof(p->prove));
	err = kr_auth_server_verify(&p->server, &p->prove, &p->server_keys);
	return err ? err : kr_auth_client_end(&p->client, &p->client_keys);
}

static void assert_hex(const uint8_t *bytes, const char *hex)
{
	char text[2 * KR_PROOF + 1];

	for (size_t i = 0; i < KR_PROOF; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	assert_string_equal(text, hex);
}

/* --- it works --- */

static void the_proofs_and_keys_have_their_golden_bytes(void **state)
{
	/* Without and with AES in hardware. */
	static const char *const golden[2][5] = {
		{"a3d6be2ecf55488cd148571f7f4b66de2c7bb4438edc33a4663445c6d11cb802", "894c756d7f878fbc04e27dec0bd326dbeaf2487c55aba855521adae8358d420a",
			"d6702959587f6a22a26dfadbf0d0887c7e76bac4521d816d03a4ec351cc3d72e", "c728c1bcfc94903cce18d89f94354a7fdac5a13fa14a49dddd0b032997328f7f",
			"f90ee8f2912a0f666c12ae4034236652e30ec7c51b6c6942318d7f65bd685be9"},
		{"86073f07b9f393e9a26c9730f39737c9d60701a60d0d4bd10db32dde84fb397c", "711d869a8e30e228b849f8c59c2df9f8bb00c387a805161c058b7fdd5c41946b",
			"8f3aff8a79e8910d470f4bd56e8cacf55363fc23ddf00147a9b7430026726950", "85a04555c5962b98a3efc498d6189b661c49e823004c60e6c29e3b31ec5fb839",
			"ffd7f5e66c8414b3da452c1931af8d2a00b96fee1619bbc340c8ddf5c038e619"},
	};
	const char *const *expected = golden[kr_seal_ciphers() & KR_CIPHER_AES256_GCM ? 1 : 0];
	uint8_t mask[KR_SESSION_KEY] = {0};
	struct pair *p = *state;

	assert_int_equal(shake(p, p->node), 0);
	assert_hex(p->answer.proof, expected[0]);
	assert_hex(p->prove.proof, expected[1]);
	assert_hex(p->client_keys.send, expected[2]);
	assert_hex(p->client_keys.receive, expected[3]);
	kr_auth_mask_ring_key(&p->server, mask);
	assert_hex(mask, expected[4]);
}

static void both_sides_end_with_the_same_keys(void **state)
{
	struct pair *p = *state;
	uint8_t first[KR_SEAL_KEY];

	assert_int_equal(shake(p, p->node), 0);
	assert_memory_equal(p->client_keys.send, p->server_keys.receive, KR_SEAL_KEY);
	assert_memory_equal(p->client_keys.receive, p->server_keys.send, KR_SEAL_KEY);
	assert_memory_not_equal(p->client_keys.send, p->client_keys.receive, KR_SEAL_KEY);
	assert_int_equal(p->client_keys.cipher, p->server_keys.cipher);
	memcpy(first, p->client_keys.send, sizeof(first));
	hang_up(p);
	assert_int_equal(shake(p, p->node), 0);
	assert_memory_not_equal(first, p->client_keys.send, sizeof(first));
}

/* What a thief of the key file would have to do: all that was said, the secret, and no private key. */
static void the_keys_need_more_than_the_secret(void **state)
{
	struct pair *p = *state;
	uint8_t first[KR_SEAL_KEY];

	assert_int_equal(shake(p, p->node), 0);
	memcpy(first, p->client_keys.send, sizeof(first));
	kr_auth_fini(&p->client);
	kr_auth_fini(&p->server);
	p->client_fresh.private[5]++; /* the nonces are the same */
	p->server_fresh.private[5]++;
	assert_int_equal(shake(p, p->node), 0);
	assert_memory_not_equal(first, p->client_keys.send, sizeof(first));
}

static void the_greater_of_both_wishes_for_security_holds(void **state)
{
	struct pair *p = *state;

	for (p->wanted = KR_SECURITY_AUTH; p->wanted <= KR_SECURITY_PRIVACY; p->wanted++) {
		for (p->given = KR_SECURITY_AUTH; p->given <= KR_SECURITY_PRIVACY; p->given++) {
			assert_int_equal(shake(p, p->node), 0);
			assert_int_equal(kr_auth_security(&p->client), KR_MAX(p->wanted, p->given));
			assert_int_equal(p->client_keys.security, KR_MAX(p->wanted, p->given));
			assert_int_equal(p->server_keys.security, KR_MAX(p->wanted, p->given));
			hang_up(p);
		}
	}
}

/* As a server of another make would, or somebody on the way who tells each side what it wants to hear. */
static void less_security_than_wanted_is_refused(void **state)
{
	struct pair *p = *state;

	p->wanted = KR_SECURITY_PRIVACY;
	assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->wanted, &p->client_fresh, NOW, &p->ask), 0);
	p->ask.security = KR_SECURITY_AUTH;
	assert_int_equal(challenge(p), 0);
	assert_int_equal(p->answer.security, KR_SECURITY_INTEGRITY);
	assert_int_equal(kr_auth_client_prove(&p->client, &p->answer, NOW, &p->prove), -EPROTO);
	assert_non_null(strstr(kr_fail_reason(), "security=integrity only, and privacy is wanted"));
	hang_up(p);
	assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->wanted, &p->client_fresh, NOW, &p->ask), 0);
	p->ask.security = KR_SECURITY_AUTH;
	assert_int_equal(challenge(p), 0);
	p->answer.security = KR_SECURITY_PRIVACY;
	assert_int_equal(kr_auth_client_prove(&p->client, &p->answer, NOW, &p->prove), -EKEYREJECTED);
}

static void a_public_key_that_is_none_is_refused(void **state)
{
	struct pair *p = *state;

	assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->wanted, &p->client_fresh, NOW, &p->ask), 0);
	memset(p->ask.public, 0, KR_PUBLIC); /* with it everybody would know the shared secret */
	memset(p->client.handshake.client.public, 0, KR_PUBLIC);
	assert_int_equal(challenge(p), 0);
	assert_int_equal(kr_auth_client_prove(&p->client, &p->answer, NOW, &p->prove), 0);
	assert_int_equal(kr_auth_server_verify(&p->server, &p->prove, &p->server_keys), -EPROTO);
	assert_int_equal(p->server.state, KR_AUTH_FAILED);
}

static void the_server_learns_whose_key_it_is(void **state)
{
	struct pair *p = *state;

	assert_int_equal(shake(p, p->node), 0);
	assert_int_equal(p->server.key->owner.kind, KR_KEY_NODE);
	hang_up(p);
	assert_int_equal(shake(p, p->user), 0);
	assert_int_equal(p->server.key->owner.kind, KR_KEY_USER);
	assert_int_equal(p->server.key->owner.uid, 1000);
}

static void a_handshake_outlives_the_ring_of_its_key(void **state)
{
	struct pair *p = *state;
	struct kr_auth_prove_request prove;

	assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->wanted, &p->client_fresh, NOW, &p->ask), 0);
	assert_int_equal(challenge(p), 0);
	kr_keyring_free(p->ring);
	p->ring = NULL;
	assert_int_equal(kr_auth_client_prove(&p->client, &p->answer, NOW, &prove), 0);
	assert_int_equal(kr_auth_server_verify(&p->server, &prove, &p->server_keys), 0);
}

static void random_bytes_are_fresh(void **state)
{
	struct kr_fresh one, two;

	(void)state;
	kr_fresh_make(&one);
	kr_fresh_make(&two);
	assert_memory_not_equal(one.nonce, two.nonce, KR_NONCE);
	assert_memory_not_equal(one.private, two.private, KR_SECRET);
}

/* --- nothing else does --- */

static void flip_each_bit(struct pair *p, enum flip flip, size_t bits)
{
	p->flip = flip;
	for (p->flip_bit = 0; p->flip_bit < bits; p->flip_bit++) {
		if (shake(p, p->node) == 0)
			fail_msg("bit %zu of message %d does not matter", p->flip_bit, flip);
		assert_int_not_equal(p->client.state, KR_AUTH_DONE);
		assert_int_not_equal(p->server.state, KR_AUTH_DONE);
		hang_up(p);
	}
}

static void every_flipped_bit_of_every_message_fails(void **state)
{
	struct pair *p = *state;
	size_t ask, answer, prove;

	assert_int_equal(shake(p, p->node), 0);
	ask = carry(p, FLIP_NONE, KR_MSG_AUTH, false, &p->ask, &p->ask, sizeof(p->ask));
	answer = carry(p, FLIP_NONE, KR_MSG_AUTH, true, &p->answer, &p->answer, sizeof(p->answer));
	prove = carry(p, FLIP_NONE, KR_MSG_AUTH_PROVE, false, &p->prove, &p->prove, sizeof(p->prove));
	assert_int_equal(ask, 8 * (4 + 4 + 16 + 32 + 32 + 2));
	assert_int_equal(answer, 8 * (4 + 32 + 32 + 2 + 12 + 32));
	assert_int_equal(prove, 8 * 32);
	hang_up(p);
	flip_each_bit(p, FLIP_ASK, ask);
	flip_each_bit(p, FLIP_ANSWER, answer);
	flip_each_bit(p, FLIP_PROVE, prove);
}

static void a_replayed_client_is_refused(void **state)
{
	struct pair *p = *state;
	struct kr_auth_prove_request captured;

	assert_int_equal(shake(p, p->node), 0);
	captured = p->prove;
	hang_up(p);
	assert_int_equal(challenge(p), 0); /* the captured AUTH */
	assert_int_equal(kr_auth_server_verify(&p->server, &captured, &p->server_keys), -EKEYREJECTED);
}

static void a_replayed_server_is_refused(void **state)
{
	struct pair *p = *state;
	struct kr_auth_reply captured;

	assert_int_equal(shake(p, p->node), 0);
	captured = p->answer;
	hang_up(p);
	assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->wanted, &p->client_fresh, NOW, &p->ask), 0);
	assert_int_equal(kr_auth_client_prove(&p->client, &captured, NOW, &p->prove), -EKEYREJECTED);
}

static void a_proof_sent_back_to_its_maker_is_refused(void **state)
{
	struct pair *p = *state;

	assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->wanted, &p->client_fresh, NOW, &p->ask), 0);
	assert_int_equal(challenge(p), 0);
	memcpy(p->prove.proof, p->answer.proof, KR_PROOF);
	assert_int_equal(kr_auth_server_verify(&p->server, &p->prove, &p->server_keys), -EKEYREJECTED);
	hang_up(p);
	/* The same with the server's nonce chosen to be the client's. */
	assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->wanted, &p->client_fresh, NOW, &p->ask), 0);
	p->answer = (struct kr_auth_reply){.proto = KR_PROTO_VERSION, .now = {.sec = NOW}, .cipher = KR_CIPHER_CHACHA20_POLY1305};
	memcpy(p->answer.nonce, p->client_fresh.nonce, KR_NONCE);
	memcpy(p->answer.proof, p->ask.nonce, KR_PROOF);
	assert_int_equal(kr_auth_client_prove(&p->client, &p->answer, NOW, &p->prove), -EKEYREJECTED);
}

static void each_message_has_its_turn_once(void **state)
{
	struct pair *p = *state;

	assert_int_equal(kr_auth_client_prove(&p->client, &p->answer, NOW, &p->prove), -EPROTO);
	assert_int_equal(kr_auth_server_verify(&p->server, &p->prove, &p->server_keys), -EPROTO);
	hang_up(p);
	assert_int_equal(kr_auth_client_end(&p->client, &p->client_keys), -EPROTO);
	hang_up(p);
	assert_int_equal(shake(p, p->node), 0);
	assert_int_equal(challenge(p), -EPROTO);
	assert_int_equal(kr_auth_server_verify(&p->server, &p->prove, &p->server_keys), -EPROTO);
	assert_int_equal(p->server.state, KR_AUTH_FAILED);
	hang_up(p);
	/* One guess per connection. */
	assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->wanted, &p->client_fresh, NOW, &p->ask), 0);
	assert_int_equal(challenge(p), 0);
	memset(&p->prove, 0, sizeof(p->prove));
	assert_int_equal(kr_auth_server_verify(&p->server, &p->prove, &p->server_keys), -EKEYREJECTED);
	assert_int_equal(kr_auth_server_verify(&p->server, &p->prove, &p->server_keys), -EPROTO);
}

static void a_side_cannot_play_the_other_role(void **state)
{
	struct pair *p = *state;

	assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->wanted, &p->client_fresh, NOW, &p->ask), 0);
	assert_int_equal(kr_auth_server_verify(&p->client, &p->prove, &p->server_keys), -EPROTO);
	assert_int_equal(challenge(p), 0);
	assert_int_equal(kr_auth_client_prove(&p->server, &p->answer, NOW, &p->prove), -EPROTO);
	assert_int_equal(kr_auth_client_end(&p->server, &p->client_keys), -EPROTO);
}

static void unknown_and_wrong_keys_look_the_same_to_the_peer_and_differ_in_the_log(void **state)
{
	const struct kr_key_owner node = {.kind = KR_KEY_NODE};
	struct pair *p = *state;
	struct kr_key *stranger;

	assert_int_equal(kr_key_new(&node, "", CREATED, 0, &stranger), 0);
	assert_int_equal(shake(p, stranger), -EKEYREJECTED);
	assert_int_equal(p->server.state, KR_AUTH_FAILED);
	assert_non_null(strstr(kr_fail_reason(), "not among ours"));
	hang_up(p);
	/* An id that the server knows, without the secret: the client, if honest, sees it first... */
	memcpy(stranger->id, p->node->id, KR_KEY_ID);
	assert_int_equal(shake(p, stranger), -EKEYREJECTED);
	assert_int_equal(p->client.state, KR_AUTH_FAILED);
	assert_non_null(strstr(kr_fail_reason(), "not our server"));
	/* ... and if not, the server does. */
	memset(p->prove.proof, 1, KR_PROOF);
	assert_int_equal(kr_auth_server_verify(&p->server, &p->prove, &p->server_keys), -EKEYREJECTED);
	assert_non_null(strstr(kr_fail_reason(), "cannot prove"));
	kr_key_put(stranger);
}

static void only_who_has_the_expired_key_learns_that_it_expired(void **state)
{
	struct pair *p = *state;

	p->server_clock = EXPIRES;
	assert_int_equal(shake(p, p->user), -EKEYEXPIRED);
	assert_int_equal(p->server.state, KR_AUTH_FAILED);
	assert_int_equal(kr_auth_client_refused(&p->client, -EKEYEXPIRED), -EKEYEXPIRED);
	assert_non_null(strstr(kr_fail_reason(), "it is 2026-12-21T20:05:08Z there"));
	hang_up(p);
	assert_int_equal(kr_auth_client_begin(&p->client, p->user, p->wanted, &p->client_fresh, NOW, &p->ask), 0);
	assert_int_equal(challenge(p), 0);
	memset(p->prove.proof, 0, KR_PROOF);
	assert_int_equal(kr_auth_server_verify(&p->server, &p->prove, &p->server_keys), -EKEYREJECTED);
}

static void a_client_does_not_use_an_expired_key(void **state)
{
	struct pair *p = *state;

	p->client_clock = EXPIRES;
	assert_int_equal(shake(p, p->user), -EKEYEXPIRED);
	assert_int_equal(p->client.state, KR_AUTH_FAILED);
}

static void a_client_knows_how_wrong_the_clocks_are(void **state)
{
	struct pair *p = *state;

	p->server_clock = NOW - 7200;
	assert_int_equal(shake(p, p->node), 0);
	assert_int_equal(p->client.skew_s, -7200);
	hang_up(p);
	p->server_clock = CREATED - KR_KEY_SKEW_S - 1;
	assert_int_equal(shake(p, p->user), -EKEYEXPIRED);
	assert_non_null(strstr(kr_fail_reason(), "set the clock"));
	hang_up(p);
	p->server_clock = INT64_MIN;
	assert_int_equal(shake(p, p->node), 0);
	assert_int_equal(p->client.skew_s, INT64_MIN);
}

static void other_versions_are_told_so(void **state)
{
	struct pair *p = *state;

	assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->wanted, &p->client_fresh, NOW, &p->ask), 0);
	p->ask.proto_min = p->ask.proto_max = KR_PROTO_VERSION + 1;
	assert_int_equal(challenge(p), -EPROTONOSUPPORT);
	kr_auth_fini(&p->server);
	p->ask.proto_min = KR_PROTO_VERSION + 2;
	assert_int_equal(challenge(p), -EPROTO);
}

static void refusals_tell_the_user_what_to_do(void **state)
{
	static const struct {
		int err;
		const char *says;
	} cases[] = {
		{-EKEYREJECTED, "does not accept node key db316863"},
		{-EOPNOTSUPP, "start kairand with --key"},
		{-ECONNRESET, "Connection reset"},
		{-EPROTONOSUPPORT, "of one release"},
		{-EKEYEXPIRED, "expired"}, /* before any proof: not believed, only repeated */
	};
	struct pair *p = *state;

	for (size_t i = 0; i < KR_ARRAY_SIZE(cases); i++) {
		assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->wanted, &p->client_fresh, NOW, &p->ask), 0);
		assert_int_equal(kr_auth_client_refused(&p->client, cases[i].err), cases[i].err);
		assert_non_null(strstr(kr_fail_reason(), cases[i].says));
		hang_up(p);
	}
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_proofs_and_keys_have_their_golden_bytes),
		TEST(both_sides_end_with_the_same_keys),
		TEST(the_keys_need_more_than_the_secret),
		TEST(the_greater_of_both_wishes_for_security_holds),
		TEST(less_security_than_wanted_is_refused),
		TEST(a_public_key_that_is_none_is_refused),
		TEST(the_server_learns_whose_key_it_is),
		TEST(a_handshake_outlives_the_ring_of_its_key),
		TEST(random_bytes_are_fresh),
		TEST(every_flipped_bit_of_every_message_fails),
		TEST(a_replayed_client_is_refused),
		TEST(a_replayed_server_is_refused),
		TEST(a_proof_sent_back_to_its_maker_is_refused),
		TEST(each_message_has_its_turn_once),
		TEST(a_side_cannot_play_the_other_role),
		TEST(unknown_and_wrong_keys_look_the_same_to_the_peer_and_differ_in_the_log),
		TEST(only_who_has_the_expired_key_learns_that_it_expired),
		TEST(a_client_does_not_use_an_expired_key),
		TEST(a_client_knows_how_wrong_the_clocks_are),
		TEST(other_versions_are_told_so),
		TEST(refusals_tell_the_user_what_to_do),
	};

	return cmocka_run_group_tests(tests, setup_files, remove_files);
}

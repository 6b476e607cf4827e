/* The handshake: it succeeds with one key on both sides, and with nothing else.
 *
 * Messages pass through the protocol's encoding, so that each bit of each can be flipped on its way.  The golden proofs
 * come from another implementation of BLAKE2b (Python's hashlib).
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
	uint8_t client_nonce[KR_AUTH_NONCE], server_nonce[KR_AUTH_NONCE];
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
	for (unsigned i = 0; i < KR_AUTH_NONCE; i++) {
		p->client_nonce[i] = (uint8_t)(0x40 + i);
		p->server_nonce[i] = (uint8_t)(0x80 + i);
	}
	p->client_clock = p->server_clock = NOW;
	*state = p;
	return 0;
}

/* As a new connection; the nonces change as random ones would. */
static void hang_up(struct pair *p)
{
	kr_auth_fini(&p->client);
	kr_auth_fini(&p->server);
	p->client_nonce[0]++;
	p->server_nonce[0]++;
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

	return kr_auth_server_challenge(&p->server, p->ring, &p->ask, p->server_nonce, now, &p->answer);
}

/* The whole handshake with KEY; the first error of either side. */
static int shake(struct pair *p, struct kr_key *key)
{
	struct kr_auth_request ask;
	struct kr_auth_reply answer;
	struct kr_auth_prove_request prove;
	int err = kr_auth_client_begin(&p->client, key, p->client_nonce, p->client_clock, &ask);

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
	err = kr_auth_server_verify(&p->server, &p->prove);
	return err ? err : kr_auth_client_end(&p->client);
}

static void assert_hex(const uint8_t *bytes, const char *hex)
{
	char text[2 * KR_AUTH_PROOF + 1];

	for (size_t i = 0; i < KR_AUTH_PROOF; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	assert_string_equal(text, hex);
}

/* --- it works --- */

static void the_proofs_have_their_golden_bytes(void **state)
{
	struct pair *p = *state;

	assert_int_equal(shake(p, p->node), 0);
	assert_hex(p->answer.proof, "850de90d60df22810c7456a7d5a81ce883d28260157f8b1b8e8d30e49128150f");
	assert_hex(p->prove.proof, "a3ded155ad9da4b08433115bc66ff68f1765640b644a83845878c628c9560fa3");
	assert_hex(kr_auth_session_key(&p->server), "dc6377b1e0d23416ae7303f068bf2f30eb13b4d72229ddfa83a598ee1bd534b3");
}

static void both_sides_end_with_the_same_session_key(void **state)
{
	struct pair *p = *state;
	uint8_t first[KR_AUTH_SESSION_KEY];

	assert_null(kr_auth_session_key(&p->client));
	assert_int_equal(shake(p, p->node), 0);
	assert_memory_equal(kr_auth_session_key(&p->client), kr_auth_session_key(&p->server), KR_AUTH_SESSION_KEY);
	memcpy(first, kr_auth_session_key(&p->client), sizeof(first));
	hang_up(p);
	assert_int_equal(shake(p, p->node), 0);
	assert_memory_not_equal(first, kr_auth_session_key(&p->client), sizeof(first));
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

	assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->client_nonce, NOW, &p->ask), 0);
	assert_int_equal(challenge(p), 0);
	kr_keyring_free(p->ring);
	p->ring = NULL;
	assert_int_equal(kr_auth_client_prove(&p->client, &p->answer, NOW, &prove), 0);
	assert_int_equal(kr_auth_server_verify(&p->server, &prove), 0);
}

static void nonces_are_fresh(void **state)
{
	uint8_t one[KR_AUTH_NONCE], two[KR_AUTH_NONCE];

	(void)state;
	kr_auth_make_nonce(one);
	kr_auth_make_nonce(two);
	assert_memory_not_equal(one, two, sizeof(one));
}

/* --- nothing else does --- */

static void flip_each_bit(struct pair *p, enum flip flip, size_t bits)
{
	p->flip = flip;
	for (p->flip_bit = 0; p->flip_bit < bits; p->flip_bit++) {
		if (shake(p, p->node) == 0)
			fail_msg("bit %zu of message %d does not matter", p->flip_bit, flip);
		assert_null(kr_auth_session_key(&p->client));
		assert_null(kr_auth_session_key(&p->server));
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
	assert_int_equal(ask, 8 * (4 + 4 + 16 + 32));
	assert_int_equal(answer, 8 * (4 + 32 + 12 + 32));
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
	assert_int_equal(kr_auth_server_verify(&p->server, &captured), -EKEYREJECTED);
}

static void a_replayed_server_is_refused(void **state)
{
	struct pair *p = *state;
	struct kr_auth_reply captured;

	assert_int_equal(shake(p, p->node), 0);
	captured = p->answer;
	hang_up(p);
	assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->client_nonce, NOW, &p->ask), 0);
	assert_int_equal(kr_auth_client_prove(&p->client, &captured, NOW, &p->prove), -EKEYREJECTED);
}

static void a_proof_sent_back_to_its_maker_is_refused(void **state)
{
	struct pair *p = *state;

	assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->client_nonce, NOW, &p->ask), 0);
	assert_int_equal(challenge(p), 0);
	memcpy(p->prove.proof, p->answer.proof, KR_AUTH_PROOF);
	assert_int_equal(kr_auth_server_verify(&p->server, &p->prove), -EKEYREJECTED);
	hang_up(p);
	/* The same with the server's nonce chosen to be the client's. */
	assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->client_nonce, NOW, &p->ask), 0);
	p->answer = (struct kr_auth_reply){.proto = KR_PROTO_VERSION, .now = {.sec = NOW}};
	memcpy(p->answer.nonce, p->client_nonce, KR_AUTH_NONCE);
	memcpy(p->answer.proof, p->ask.nonce, KR_AUTH_PROOF);
	assert_int_equal(kr_auth_client_prove(&p->client, &p->answer, NOW, &p->prove), -EKEYREJECTED);
}

static void each_message_has_its_turn_once(void **state)
{
	struct pair *p = *state;

	assert_int_equal(kr_auth_client_prove(&p->client, &p->answer, NOW, &p->prove), -EPROTO);
	assert_int_equal(kr_auth_server_verify(&p->server, &p->prove), -EPROTO);
	hang_up(p);
	assert_int_equal(kr_auth_client_end(&p->client), -EPROTO);
	hang_up(p);
	assert_int_equal(shake(p, p->node), 0);
	assert_int_equal(challenge(p), -EPROTO);
	assert_int_equal(kr_auth_server_verify(&p->server, &p->prove), -EPROTO);
	assert_null(kr_auth_session_key(&p->server));
	hang_up(p);
	/* One guess per connection. */
	assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->client_nonce, NOW, &p->ask), 0);
	assert_int_equal(challenge(p), 0);
	memset(&p->prove, 0, sizeof(p->prove));
	assert_int_equal(kr_auth_server_verify(&p->server, &p->prove), -EKEYREJECTED);
	assert_int_equal(kr_auth_server_verify(&p->server, &p->prove), -EPROTO);
}

static void a_side_cannot_play_the_other_role(void **state)
{
	struct pair *p = *state;

	assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->client_nonce, NOW, &p->ask), 0);
	assert_int_equal(kr_auth_server_verify(&p->client, &p->prove), -EPROTO);
	assert_int_equal(challenge(p), 0);
	assert_int_equal(kr_auth_client_prove(&p->server, &p->answer, NOW, &p->prove), -EPROTO);
	assert_int_equal(kr_auth_client_end(&p->server), -EPROTO);
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
	memset(p->prove.proof, 1, KR_AUTH_PROOF);
	assert_int_equal(kr_auth_server_verify(&p->server, &p->prove), -EKEYREJECTED);
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
	assert_int_equal(kr_auth_client_begin(&p->client, p->user, p->client_nonce, NOW, &p->ask), 0);
	assert_int_equal(challenge(p), 0);
	memset(p->prove.proof, 0, KR_AUTH_PROOF);
	assert_int_equal(kr_auth_server_verify(&p->server, &p->prove), -EKEYREJECTED);
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

	assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->client_nonce, NOW, &p->ask), 0);
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
		{-EKEYEXPIRED, "expired"}, /* before any proof: not believed, only repeated */
	};
	struct pair *p = *state;

	for (size_t i = 0; i < KR_ARRAY_SIZE(cases); i++) {
		assert_int_equal(kr_auth_client_begin(&p->client, p->node, p->client_nonce, NOW, &p->ask), 0);
		assert_int_equal(kr_auth_client_refused(&p->client, cases[i].err), cases[i].err);
		assert_non_null(strstr(kr_fail_reason(), cases[i].says));
		hang_up(p);
	}
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(the_proofs_have_their_golden_bytes),
		TEST(both_sides_end_with_the_same_session_key),
		TEST(the_server_learns_whose_key_it_is),
		TEST(a_handshake_outlives_the_ring_of_its_key),
		TEST(nonces_are_fresh),
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

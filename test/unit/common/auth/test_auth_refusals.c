/* The handshake succeeds with nothing but one key on both sides, and says why. */
#include "test/unit/common/auth/auth_fixture.h"

#include "common/rpc/proto.h"

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
	p->answer = (struct kr_auth_reply){
		.proto = KR_PROTO_VERSION, .now = {.sec = NOW}, .cipher = KR_CIPHER_CHACHA20_POLY1305};
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

static void refusals_tell_the_user_what_to_do(void **state)
{
	static const struct {
		int err;
		const char *says;
	} cases[] = {
		{-EKEYREJECTED, "does not accept node key db316863"}, {-EOPNOTSUPP, "start kairand with --key"},
		{-ECONNRESET, "Connection reset"}, {-EPROTONOSUPPORT, "it speaks protocol 7, and kairan"},
		{-EPROTO, "of one release"},
		{-EKEYEXPIRED, "expired"}, /* before any proof: not believed, only repeated */
	};
	struct pair *p = *state;

	for (size_t i = 0; i < KR_ARRAY_SIZE(cases); i++) {
		assert_int_equal(
			kr_auth_client_begin(&p->client, p->node, p->wanted, &p->client_fresh, NOW, &p->ask), 0);
		kr_proto_differs(KR_PROTO_VERSION + 1); /* what the connection has noted of such a reply */
		assert_int_equal(kr_auth_client_refused(&p->client, cases[i].err),
			cases[i].err == -EPROTO ? -EPROTONOSUPPORT : cases[i].err);
		assert_non_null(strstr(kr_fail_reason(), cases[i].says));
		hang_up(p);
	}
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
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
		TEST(refusals_tell_the_user_what_to_do),
	};

	return cmocka_run_group_tests(tests, setup_files, remove_files);
}

/* The handshake by MUNGE: what the credentials hold is good for one connection and one role.  No munged here: the test
 * says who made a credential. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/auth/auth_munge.h"
#include "common/base/fail.h"

enum { NOW = 1795291513, ALICE = 1000 };

struct pair {
	struct kr_auth client, server;
	struct kr_auth_munge_request ask;
	struct kr_auth_munge_reply answer;
	uint8_t proof[KR_MUNGE_PAYLOAD], answer_proof[KR_MUNGE_PAYLOAD];
	struct kr_seal_keys client_keys, server_keys;
};
static struct pair p;

static int setup(void **state)
{
	(void)state;
	memset(&p, 0, sizeof(p));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kr_auth_fini(&p.client);
	kr_auth_fini(&p.server);
	return 0;
}

static void begin(void)
{
	struct kr_fresh fresh;

	kr_fresh_make(&fresh);
	assert_int_equal(kr_auth_munge_begin(&p.client, KR_SECURITY_AUTH, &fresh, &p.ask), 0);
}

static int challenge(void)
{
	struct kr_fresh fresh;

	kr_fresh_make(&fresh);
	return kr_auth_munge_challenge(
		&p.server, KR_SECURITY_INTEGRITY, &p.ask, &fresh, (struct kr_time){NOW, 7}, &p.answer);
}

static int prove(void)
{
	static const uint8_t random[KR_SECRET] = "the client's";

	return kr_auth_munge_prove(&p.client, &p.answer, NOW, random, p.proof);
}

static int verify(uint32_t uid)
{
	static const uint8_t random[KR_SECRET] = "the server's";

	return kr_auth_munge_verify(&p.server, uid, p.proof, random, p.answer_proof, &p.server_keys);
}

static int end(uint32_t uid)
{
	return kr_auth_munge_end(&p.client, uid, 0, p.answer_proof, &p.client_keys);
}

static void shake(uint32_t uid)
{
	begin();
	assert_int_equal(challenge(), 0);
	assert_int_equal(prove(), 0);
	assert_int_equal(verify(uid), 0);
	assert_int_equal(end(0), 0);
}

static void both_sides_end_with_the_same_keys(void **state)
{
	(void)state;
	shake(0);
	assert_memory_equal(p.client_keys.send, p.server_keys.receive, KR_SEAL_KEY);
	assert_memory_equal(p.client_keys.receive, p.server_keys.send, KR_SEAL_KEY);
	assert_int_equal(p.client_keys.security, KR_SECURITY_INTEGRITY);
	assert_int_equal(kr_auth_security(&p.server), KR_SECURITY_INTEGRITY);
}

static void root_is_a_node_and_others_are_themselves(void **state)
{
	char text[KR_KEY_DESCRIPTION];

	shake(0);
	assert_int_equal(p.server.key->owner.kind, KR_KEY_NODE);
	assert_string_equal(kr_key_describe(p.server.key, text), "MUNGE credential of root (0)");
	teardown(state);
	setup(state);
	shake(ALICE);
	assert_int_equal(p.server.key->owner.kind, KR_KEY_USER);
	assert_int_equal(p.server.key->owner.uid, ALICE);
	assert_string_equal(kr_key_describe(p.server.key, text), "MUNGE credential of user (1000)");
}

static void a_credential_of_another_connection_is_refused(void **state)
{
	uint8_t recorded[KR_MUNGE_PAYLOAD], recorded_answer[KR_MUNGE_PAYLOAD];

	shake(0);
	memcpy(recorded, p.proof, sizeof(recorded));
	memcpy(recorded_answer, p.answer_proof, sizeof(recorded_answer));
	teardown(state);
	setup(state);
	begin();
	assert_int_equal(challenge(), 0);
	assert_int_equal(prove(), 0);
	memcpy(p.proof, recorded, sizeof(recorded));
	assert_int_equal(verify(0), -EKEYREJECTED);
	memcpy(p.answer_proof, recorded_answer, sizeof(recorded_answer));
	assert_int_equal(end(0), -EKEYREJECTED);
}

static void a_credential_sent_back_to_its_maker_is_refused(void **state)
{
	(void)state;
	begin();
	assert_int_equal(challenge(), 0);
	assert_int_equal(prove(), 0);
	memcpy(p.answer_proof, p.proof, sizeof(p.proof));
	assert_int_equal(end(0), -EKEYREJECTED);
}

static void a_server_of_another_user_is_refused(void **state)
{
	(void)state;
	begin();
	assert_int_equal(challenge(), 0);
	assert_int_equal(prove(), 0);
	assert_int_equal(verify(0), 0);
	assert_int_equal(end(ALICE), -EKEYREJECTED);
	assert_non_null(strstr(kr_fail_reason(), "run by user 1000"));
}

/* Whatever somebody on the way changes, the credentials are not for it. */
static void changes_on_the_way_are_noticed(void **state)
{
	uint8_t *const places[] = {&p.ask.nonce[3], &p.ask.public[3], &p.ask.security, &p.answer.nonce[3],
		&p.answer.public[3], (uint8_t *)&p.answer.now.nsec, &p.answer.security};

	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		int err;

		begin();
		if (i < 3)
			*places[i] ^= 1;
		assert_int_equal(challenge(), 0);
		if (i >= 3)
			*places[i] ^= 1;
		err = prove();
		if (!err)
			err = verify(0);
		assert_int_not_equal(err, 0);
		assert_int_not_equal(p.server.state, KR_AUTH_DONE);
		teardown(state);
		setup(state);
	}
}

static void each_message_has_its_turn_once(void **state)
{
	struct kr_fresh fresh = {{0}, {0}};

	(void)state;
	assert_int_equal(prove(), -EPROTO);
	assert_int_equal(verify(0), -EPROTO);
	assert_int_equal(end(0), -EPROTO);
	teardown(state);
	setup(state);
	shake(0);
	assert_int_equal(challenge(), -EPROTO);
	assert_int_equal(kr_auth_munge_begin(&p.client, KR_SECURITY_AUTH, &fresh, &p.ask), -EPROTO);
}

static void a_handshake_cannot_change_its_kind(void **state)
{
	struct kr_auth_prove_request other = {{0}};

	(void)state;
	begin();
	assert_int_equal(challenge(), 0);
	assert_int_equal(kr_auth_server_verify(&p.server, &other, &p.server_keys), -EPROTO);
	assert_int_equal(p.server.state, KR_AUTH_FAILED);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(both_sides_end_with_the_same_keys),
		TEST(root_is_a_node_and_others_are_themselves),
		TEST(a_credential_of_another_connection_is_refused),
		TEST(a_credential_sent_back_to_its_maker_is_refused),
		TEST(a_server_of_another_user_is_refused),
		TEST(changes_on_the_way_are_noticed),
		TEST(each_message_has_its_turn_once),
		TEST(a_handshake_cannot_change_its_kind),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

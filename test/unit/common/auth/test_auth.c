/* The handshake succeeds with one key on both sides.  The golden proofs come from another implementation (Python's
 * hashlib, and RFC 7748's X25519 written out).
 */
#include "test/unit/common/auth/auth_fixture.h"

static void assert_hex(const uint8_t *bytes, const char *hex)
{
	char text[2 * KR_PROOF + 1];

	for (size_t i = 0; i < KR_PROOF; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	assert_string_equal(text, hex);
}

static void the_proofs_and_keys_have_their_golden_bytes(void **state)
{
	/* Without and with AES in hardware. */
	static const char *const golden[2][5] = {
		{"3e7822e7ee60b90cd467bfc86adfa263415cc29d6014cb12e70ca815e7395209",
			"3209585d8ba210dbb7873bd2f0ff29a1bc77a325e6632d269896a4ce096787fb",
			"681980b067d23656f0b189e7c6eda751dfc30d2527d2b4d01e076a1b45e81a5a",
			"3e1799e78607841ed2235f179e143cb16a599620aa8be79adc4f2aae3d8f2ce8",
			"207e2719372f0bf58ef77fd5ddc3f982125d3d1c777526375f14b743fba2129a"},
		{"7d5419e36e2841a788204ecd294b11553c48c331051b1a3b205d26bb68c00b4e",
			"28bc79befe52af06bc68a38d2e6084d547c25c615c467acceedb9d5250eb9ce8",
			"9031cf524c4622f0a71d2d9d6c696763f949bc88be8c155f5bbae5e4cadfd4cb",
			"054cfa12dfd4586a54fecb8235bed9bbebc634fa7d15765509df5d818619696a",
			"8fbf6f4403304c37b19a6356ad5e36eed32bf73caf97c8c24d757cb51a9597bc"},
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
	};

	return cmocka_run_group_tests(tests, setup_files, remove_files);
}

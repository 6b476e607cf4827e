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
		{"50c1f13f71071fba6aecf64683bc3ebe8daaa80015f07be8dfeb442171d2ac98",
			"e34cfcfa363c9924ba22a110dd189fba7a1565c99db6fc697c32210cbd6856b5",
			"13d27d9cf3d9722a7b27db672cb082ec02bf64cc0a57f3d0cc255d73d26c52cc",
			"8a3a51ca04b487a52b3bf2ac7a5ca1a12132e6d45c2d2890afeb8c1772146f98",
			"75246ec5da555479675f03d92f6ee8f3f32fc52ffe4a465357cf1b2b8d45ca4a"},
		{"d0f5422c55191f0976a6e8c25bdd50c0996571cdac0ef6bc40b1fd7032695718",
			"5dc0e3329265fc8a9ea2209e0e958c81b01bbdca94ccae85e3709db08aaed065",
			"784618ac205b6a87f35206a6cc9b2018809c28dd47ea78b67d33140538c70cd8",
			"d6678be6d0d0e24219f75fdaeb5df3c7b0de8f3421ea312159ecc4cee4e5e3e8",
			"e6c10a81dfaecbee72436c040941fdc07338badb5ab397085f5df88a287f7066"},
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

/* Identities on the wire: sealed, unsealed, and forged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "server/base/fid.h"
#include "server/base/siphash.h"

static const uint8_t secret[KR_FID_SECRET] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

static struct kr_identity a_handle(uint32_t length)
{
	struct kr_identity identity = {.kind = KR_FID_HANDLE, .handle_type = -2, .handle_length = length};
	uint32_t i;

	for (i = 0; i < length; i++)
		identity.handle[i] = (uint8_t)(i * 7);
	return identity;
}

/* The vectors of the paper's authors, for a message of 0, 1, 2... bytes. */
static void siphash_gives_the_published_codes(void **state)
{
	uint8_t message[15];
	int i;

	(void)state;
	for (i = 0; i < 15; i++)
		message[i] = (uint8_t)i;
	assert_true(kr_siphash(secret, message, 0) == UINT64_C(0x726fdb47dd0e0e31));
	assert_true(kr_siphash(secret, message, 8) == UINT64_C(0x93f5f5799a932462));
	assert_true(kr_siphash(secret, message, 15) == UINT64_C(0xa129ca6149be45e5));
}

static void what_is_sealed_comes_back(void **state)
{
	struct kr_identity identity, back;
	struct kr_fid fid;
	uint32_t length;

	(void)state;
	for (length = 1; length <= KR_FID_HANDLE_MAX; length++) {
		identity = a_handle(length);
		kr_fid_seal(secret, &identity, &fid);
		assert_int_equal(kr_fid_unseal(secret, &fid, &back), 0);
		assert_memory_equal(&identity, &back, sizeof(back));
	}
	identity = (struct kr_identity){.kind = KR_FID_INODE, .ino = UINT64_MAX, .birth = {-5, 999999999}};
	kr_fid_seal(secret, &identity, &fid);
	assert_int_equal(kr_fid_unseal(secret, &fid, &back), 0);
	assert_true(back.ino == UINT64_MAX && back.birth.sec == -5 && back.birth.nsec == 999999999);
}

static void every_changed_bit_is_stale(void **state)
{
	struct kr_identity identity = a_handle(20), back;
	struct kr_fid fid;
	int bit;

	(void)state;
	kr_fid_seal(secret, &identity, &fid);
	for (bit = 0; bit < fid.length * 8; bit++) {
		fid.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(kr_fid_unseal(secret, &fid, &back), -ESTALE);
		fid.bytes[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static void every_other_length_is_stale(void **state)
{
	struct kr_identity identity = a_handle(20), back;
	struct kr_fid fid;
	int length, right;

	(void)state;
	kr_fid_seal(secret, &identity, &fid);
	right = fid.length;
	for (length = 0; length <= UINT8_MAX; length++) {
		fid.length = (uint8_t)length;
		if (length != right)
			assert_int_equal(kr_fid_unseal(secret, &fid, &back), -ESTALE);
	}
}

static void another_secret_is_stale(void **state)
{
	static const uint8_t other[KR_FID_SECRET] = {1};
	struct kr_identity identity = a_handle(20), back;
	struct kr_fid fid;

	(void)state;
	kr_fid_seal(other, &identity, &fid);
	assert_int_equal(kr_fid_unseal(secret, &fid, &back), -ESTALE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(siphash_gives_the_published_codes),
		cmocka_unit_test(what_is_sealed_comes_back),
		cmocka_unit_test(every_changed_bit_is_stale),
		cmocka_unit_test(every_other_length_is_stale),
		cmocka_unit_test(another_secret_is_stale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

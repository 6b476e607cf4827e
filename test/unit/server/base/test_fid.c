/* Identities on the wire: sealed, unsealed, and forged. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "server/base/fid.h"

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
static void codes_are_the_published_ones_of_siphash(void **state)
{
	uint8_t message[15];
	int i;

	(void)state;
	for (i = 0; i < 15; i++)
		message[i] = (uint8_t)i;
	assert_true(kr_fid_code(secret, message, 0) == UINT64_C(0x726fdb47dd0e0e31));
	assert_true(kr_fid_code(secret, message, 8) == UINT64_C(0x93f5f5799a932462));
	assert_true(kr_fid_code(secret, message, 15) == UINT64_C(0xa129ca6149be45e5));
}

/* Fids outlive the server's program: nodes have them in their journals. */
static void a_fid_is_the_same_bytes_as_ever(void **state)
{
	static const uint8_t bytes[] = {0x01, 0xff, 0xff, 0xff, 0xfe, 0x00, 0x07, 0x0e, 0x15, 0x1c, 0x23, 0x2a, 0x31,
		0x42, 0xf8, 0x38, 0xeb, 0x08, 0x46, 0xd2, 0x63};
	struct kr_identity identity = a_handle(8);
	struct kr_fid fid;

	(void)state;
	kr_fid_seal(secret, &identity, &fid);
	assert_int_equal(fid.length, sizeof(bytes));
	assert_memory_equal(fid.bytes, bytes, sizeof(bytes));
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
		cmocka_unit_test(codes_are_the_published_ones_of_siphash),
		cmocka_unit_test(a_fid_is_the_same_bytes_as_ever),
		cmocka_unit_test(what_is_sealed_comes_back),
		cmocka_unit_test(every_changed_bit_is_stale),
		cmocka_unit_test(every_other_length_is_stale),
		cmocka_unit_test(another_secret_is_stale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Seals: what was sealed can be opened once, in its turn, with the key of its connection and direction, and nothing
 * else can. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "common/base/fail.h"
#include "common/rpc/seal.h"

enum { LENGTH = 100 };
static const uint8_t key[KR_SEAL_KEY] = "one key", other_key[KR_SEAL_KEY] = "another key";

/* Sender and receiver of one direction. */
struct channel {
	struct kr_seal *out, *in;
	uint8_t sealed[LENGTH], tag[KR_SEAL_TAG];
};

static const uint8_t plain[LENGTH] = "what is said, which has a length of its own";

static void open_channel(struct channel *c, enum kr_security security, enum kr_cipher cipher)
{
	assert_int_equal(kr_seal_new(security, cipher, key, &c->out), 0);
	assert_int_equal(kr_seal_new(security, cipher, key, &c->in), 0);
}

static void close_channel(struct channel *c)
{
	kr_seal_free(c->out);
	kr_seal_free(c->in);
}

static void send_part(struct channel *c, enum kr_seal_part part)
{
	memcpy(c->sealed, plain, LENGTH);
	assert_int_equal(kr_seal_close(c->out, part, plain, LENGTH, c->sealed, c->tag), 0);
}

static int receive(struct channel *c, enum kr_seal_part part)
{
	return kr_seal_open(c->in, part, c->sealed, LENGTH, c->tag);
}

/* Runs TEST for both kinds of seals with each cipher of this machine. */
static void for_all(void (*test)(enum kr_security security, enum kr_cipher cipher))
{
	for (enum kr_cipher cipher = KR_CIPHER_CHACHA20_POLY1305; cipher <= KR_CIPHER_AES256_GCM; cipher++)
		for (enum kr_security security = KR_SECURITY_INTEGRITY; security <= KR_SECURITY_PRIVACY; security++)
			if (kr_seal_ciphers() & cipher)
				test(security, cipher);
}

static void round_trip(enum kr_security security, enum kr_cipher cipher)
{
	uint8_t first[LENGTH], tag[KR_SEAL_TAG];
	struct channel c;

	open_channel(&c, security, cipher);
	assert_int_equal(!!kr_seal_hides(c.out), security == KR_SECURITY_PRIVACY);
	for (int i = 0; i < 3; i++) {
		send_part(&c, KR_SEAL_HEADER);
		assert_int_equal(memcmp(c.sealed, plain, LENGTH) != 0, security == KR_SECURITY_PRIVACY);
		if (i > 0) { /* the same words never look the same again */
			assert_memory_not_equal(c.tag, tag, sizeof(tag));
			assert_int_equal(memcmp(c.sealed, first, LENGTH) != 0, security == KR_SECURITY_PRIVACY);
		}
		memcpy(first, c.sealed, LENGTH);
		memcpy(tag, c.tag, sizeof(tag));
		assert_int_equal(receive(&c, KR_SEAL_HEADER), 0);
		assert_memory_equal(c.sealed, plain, LENGTH);
	}
	assert_int_equal(kr_seal_close(c.out, KR_SEAL_DATA, plain, 0, NULL, c.tag), 0);
	assert_int_equal(kr_seal_open(c.in, KR_SEAL_DATA, c.sealed, 0, c.tag), 0);
	close_channel(&c);
}

static void what_is_sealed_opens_as_it_was(void **state)
{
	(void)state;
	for_all(round_trip);
}

static void flip_bits(enum kr_security security, enum kr_cipher cipher)
{
	struct channel c;

	for (size_t bit = 0; bit < 8 * (LENGTH + KR_SEAL_TAG); bit++) {
		open_channel(&c, security, cipher);
		send_part(&c, KR_SEAL_FIELDS);
		*(bit / 8 < LENGTH ? &c.sealed[bit / 8] : &c.tag[bit / 8 - LENGTH]) ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(receive(&c, KR_SEAL_FIELDS), -EBADMSG);
		close_channel(&c);
	}
}

static void every_flipped_bit_is_noticed(void **state)
{
	(void)state;
	for_all(flip_bits);
}

static void out_of_turn(enum kr_security security, enum kr_cipher cipher)
{
	struct channel c, again;

	/* Repeated. */
	open_channel(&c, security, cipher);
	send_part(&c, KR_SEAL_DATA);
	again = c;
	assert_int_equal(receive(&c, KR_SEAL_DATA), 0);
	assert_int_equal(receive(&again, KR_SEAL_DATA), -EBADMSG);
	close_channel(&c);
	/* One was left out. */
	open_channel(&c, security, cipher);
	send_part(&c, KR_SEAL_DATA);
	send_part(&c, KR_SEAL_DATA);
	assert_int_equal(receive(&c, KR_SEAL_DATA), -EBADMSG);
	close_channel(&c);
	/* One part of a frame in the place of another. */
	open_channel(&c, security, cipher);
	send_part(&c, KR_SEAL_DATA);
	assert_int_equal(receive(&c, KR_SEAL_FIELDS), -EBADMSG);
	close_channel(&c);
	/* Cut. */
	open_channel(&c, security, cipher);
	send_part(&c, KR_SEAL_DATA);
	assert_int_equal(kr_seal_open(c.in, KR_SEAL_DATA, c.sealed, LENGTH - 1, c.tag), -EBADMSG);
	close_channel(&c);
	/* Of another connection, or of the other direction. */
	open_channel(&c, security, cipher);
	kr_seal_free(c.in);
	assert_int_equal(kr_seal_new(security, cipher, other_key, &c.in), 0);
	send_part(&c, KR_SEAL_DATA);
	assert_int_equal(receive(&c, KR_SEAL_DATA), -EBADMSG);
	close_channel(&c);
}

static void what_is_repeated_left_out_or_of_elsewhere_is_noticed(void **state)
{
	(void)state;
	for_all(out_of_turn);
}

static void spoil(enum kr_security security, enum kr_cipher cipher)
{
	struct channel c;

	open_channel(&c, security, cipher);
	send_part(&c, KR_SEAL_DATA);
	c.tag[0] ^= 1;
	assert_int_equal(receive(&c, KR_SEAL_DATA), -EBADMSG);
	send_part(&c, KR_SEAL_DATA); /* a good one, in its turn */
	assert_int_equal(receive(&c, KR_SEAL_DATA), -EBADMSG);
	close_channel(&c);
}

static void after_one_bad_part_nothing_is_believed(void **state)
{
	(void)state;
	for_all(spoil);
}

static void use_up(enum kr_security security, enum kr_cipher cipher)
{
	struct channel c;

	open_channel(&c, security, cipher);
	kr_seal_count_from(c.out, KR_SEAL_PARTS_MAX - 1);
	kr_seal_count_from(c.in, KR_SEAL_PARTS_MAX - 1);
	send_part(&c, KR_SEAL_DATA);
	assert_int_equal(receive(&c, KR_SEAL_DATA), 0);
	assert_int_equal(kr_seal_close(c.out, KR_SEAL_DATA, plain, LENGTH, c.sealed, c.tag), -EOVERFLOW);
	assert_int_equal(receive(&c, KR_SEAL_DATA), -EOVERFLOW);
	close_channel(&c);
}

static void a_nonce_is_never_used_twice(void **state)
{
	(void)state;
	for_all(use_up);
}

static void senseless_seals_are_refused(void **state)
{
	struct kr_seal *seal = NULL;

	(void)state;
	assert_int_equal(kr_seal_new(KR_SECURITY_AUTH, KR_CIPHER_CHACHA20_POLY1305, key, &seal), -EINVAL);
	assert_int_equal(kr_seal_new(KR_SECURITY_PRIVACY, 0, key, &seal), -EINVAL);
	assert_int_equal(kr_seal_new(KR_SECURITY_PRIVACY, 3, key, &seal), -EINVAL);
	assert_int_equal(kr_seal_new(KR_SECURITY_PRIVACY, 4, key, &seal), -EINVAL);
	assert_null(seal);
	kr_seal_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_sealed_opens_as_it_was),
		cmocka_unit_test(every_flipped_bit_is_noticed),
		cmocka_unit_test(what_is_repeated_left_out_or_of_elsewhere_is_noticed),
		cmocka_unit_test(after_one_bad_part_nothing_is_believed),
		cmocka_unit_test(a_nonce_is_never_used_twice),
		cmocka_unit_test(senseless_seals_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

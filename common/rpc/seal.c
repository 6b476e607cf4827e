/* Sealing the frames of a connection; see seal.h. */
#include "common/rpc/seal.h"

#include <endian.h>
#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#include "common/base/fail.h"

enum { NONCE = 12 };
_Static_assert(
	NONCE == crypto_aead_aes256gcm_NPUBBYTES && NONCE == crypto_aead_chacha20poly1305_ietf_NPUBBYTES, "nonces");
_Static_assert(
	KR_SEAL_TAG == crypto_aead_aes256gcm_ABYTES && KR_SEAL_TAG == crypto_aead_chacha20poly1305_ietf_ABYTES, "tags");
_Static_assert(
	KR_SEAL_KEY == crypto_aead_aes256gcm_KEYBYTES && KR_SEAL_KEY == crypto_aead_chacha20poly1305_ietf_KEYBYTES,
	"keys");

/* The size is a multiple of the alignment: sodium_malloc aligns the end, and so the beginning too. */
struct kr_seal {
	crypto_aead_aes256gcm_state aes;
	uint8_t key[KR_SEAL_KEY];
	uint64_t number; /* of the next part */
	enum kr_cipher cipher;
	bool hides, spoilt;
};
_Static_assert(sizeof(struct kr_seal) % 16 == 0, "sodium_malloc aligns the end");

const char *kr_security_name(enum kr_security security)
{
	static const char *const names[] = {"auth", "integrity", "privacy"};

	return security <= KR_SECURITY_PRIVACY ? names[security] : "?";
}

uint8_t kr_seal_ciphers(void)
{
	if (sodium_init() < 0)
		return 0;
	return (uint8_t)(KR_CIPHER_CHACHA20_POLY1305 +
		(crypto_aead_aes256gcm_is_available() ? KR_CIPHER_AES256_GCM : 0));
}

int kr_seal_new(
	enum kr_security security, enum kr_cipher cipher, const uint8_t key[KR_SEAL_KEY], struct kr_seal **ret_seal)
{
	struct kr_seal *seal;

	if (security == KR_SECURITY_AUTH || (cipher != KR_CIPHER_CHACHA20_POLY1305 && cipher != KR_CIPHER_AES256_GCM) ||
		!(kr_seal_ciphers() & cipher))
		return kr_fail(-EINVAL, "a cipher that this machine lacks");
	seal = sodium_malloc(sizeof(*seal));
	if (!seal)
		return kr_fail_errno(-ENOMEM, "no memory for the connection's keys");
	memset(seal, 0, sizeof(*seal));
	memcpy(seal->key, key, KR_SEAL_KEY);
	seal->cipher = cipher;
	seal->hides = security == KR_SECURITY_PRIVACY;
	if (cipher == KR_CIPHER_AES256_GCM)
		crypto_aead_aes256gcm_beforenm(&seal->aes, key);
	*ret_seal = seal;
	return 0;
}

void kr_seal_free(struct kr_seal *seal)
{
	sodium_free(seal);
}

int kr_seal_hides(const struct kr_seal *seal)
{
	return seal->hides;
}

void kr_seal_count_from(struct kr_seal *seal, uint64_t number)
{
	seal->number = number;
}

/* The nonce of the next part. */
static int next_nonce(struct kr_seal *seal, enum kr_seal_part part, uint8_t nonce[NONCE])
{
	uint64_t number = htobe64(seal->number);

	if (seal->spoilt)
		return kr_fail(-EBADMSG, "the connection's keys have been given up");
	if (seal->number >= KR_SEAL_PARTS_MAX)
		return kr_fail(-EOVERFLOW, "the connection's keys are used up");
	seal->number++;
	memset(nonce, 0, NONCE);
	nonce[0] = (uint8_t)part;
	memcpy(nonce + NONCE - sizeof(number), &number, sizeof(number));
	return 0;
}

int kr_seal_close(struct kr_seal *seal, enum kr_seal_part part, const uint8_t *plain, size_t length, uint8_t *sealed,
	uint8_t ret_tag[KR_SEAL_TAG])
{
	const uint8_t *open = seal->hides ? NULL : plain;
	const size_t open_length = seal->hides ? 0 : length, hidden_length = length - open_length;
	uint8_t nonce[NONCE], nothing[1];
	int err = next_nonce(seal, part, nonce);

	if (err)
		return err;
	if (hidden_length == 0)
		sealed = nothing;
	if (seal->cipher == KR_CIPHER_AES256_GCM)
		crypto_aead_aes256gcm_encrypt_detached_afternm(
			sealed, ret_tag, NULL, plain, hidden_length, open, open_length, NULL, nonce, &seal->aes);
	else
		crypto_aead_chacha20poly1305_ietf_encrypt_detached(
			sealed, ret_tag, NULL, plain, hidden_length, open, open_length, NULL, nonce, seal->key);
	return 0;
}

int kr_seal_open(
	struct kr_seal *seal, enum kr_seal_part part, uint8_t *bytes, size_t length, const uint8_t tag[KR_SEAL_TAG])
{
	const uint8_t *open = seal->hides ? NULL : bytes;
	const size_t open_length = seal->hides ? 0 : length, hidden_length = length - open_length;
	uint8_t nonce[NONCE];
	int err = next_nonce(seal, part, nonce);

	if (err)
		return err;
	if (seal->cipher == KR_CIPHER_AES256_GCM)
		err = crypto_aead_aes256gcm_decrypt_detached_afternm(
			bytes, NULL, bytes, hidden_length, tag, open, open_length, nonce, &seal->aes);
	else
		err = crypto_aead_chacha20poly1305_ietf_decrypt_detached(
			bytes, NULL, bytes, hidden_length, tag, open, open_length, nonce, seal->key);
	if (err == 0)
		return 0;
	seal->spoilt = true;
	return kr_fail(-EBADMSG,
		"a frame does not carry the seal of this connection: it was changed, repeated or put in on its way");
}

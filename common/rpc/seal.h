/* Sealing the frames of one direction of a connection, after its handshake.  The receiver notices if an attacker
 * changes, repeats, reorders or drops a frame, or inserts one of another connection.  With KR_SECURITY_PRIVACY an
 * attacker cannot read any frame either.
 *
 * A frame is sealed in up to three parts (header, fields, data), each with its own tag.  Each direction of each
 * connection has its own key, and a counter of parts at both ends.  The nonce of a part is
 *
 *   u8 which part (1 header, 2 fields, 3 data), 3 zeros, u64 number of the part from 0, big-endian.
 *
 * The cipher is AES-256-GCM where both ends have it in hardware, else ChaCha20-Poly1305 (RFC 8439), both of libsodium.
 * With KR_SECURITY_INTEGRITY the part is associated data and stays readable.  msgs.def has the layout of sealed frames.
 *
 * Pure.  One struct kr_seal belongs to one thread; it lives in memory that is locked and kept out of core dumps.
 */
#ifndef KR_COMMON_SEAL_H
#define KR_COMMON_SEAL_H

#include <stddef.h>
#include <stdint.h>

/* The protection of a connection's frames, in ascending order. */
enum kr_security {
	KR_SECURITY_AUTH, /* nothing after the handshake */
	KR_SECURITY_INTEGRITY,
	KR_SECURITY_PRIVACY,
};
#define KR_SECURITY_CHOICES "auth|integrity|privacy"
const char *kr_security_name(enum kr_security security);

/* Numbers on the wire; an offer is the sum of several. */
enum kr_cipher { KR_CIPHER_CHACHA20_POLY1305 = 1, KR_CIPHER_AES256_GCM = 2 };
/* The ciphers that this machine supports. */
uint8_t kr_seal_ciphers(void);

enum kr_seal_part { KR_SEAL_HEADER = 1, KR_SEAL_FIELDS = 2, KR_SEAL_DATA = 3 };
enum { KR_SEAL_TAG = 16, KR_SEAL_KEY = 32 };
/* After so many parts a key is used up, and its connection ends. */
#define KR_SEAL_PARTS_MAX (UINT64_C(1) << 40)

/* The keys of both directions of a connection; the caller wipes them. */
struct kr_seal_keys {
	enum kr_security security;
	enum kr_cipher cipher;
	uint8_t send[KR_SEAL_KEY], receive[KR_SEAL_KEY];
};

struct kr_seal;

/* For SECURITY above AUTH.  -ENOMEM; -EINVAL: this machine does not support the cipher. */
int kr_seal_new(
	enum kr_security security, enum kr_cipher cipher, const uint8_t key[KR_SEAL_KEY], struct kr_seal **ret_seal);
/* Wipes. NULL is fine. */
void kr_seal_free(struct kr_seal *seal);
/* Whether sealed parts are unreadable. */
int kr_seal_hides(const struct kr_seal *seal);
/* Starts to count at NUMBER (tests). */
void kr_seal_count_from(struct kr_seal *seal, uint64_t number);

/* Seals the next part, of LENGTH bytes at PLAIN.  With privacy the LENGTH sealed bytes go to SEALED (may be PLAIN);
 * else the caller sends PLAIN, and SEALED may be NULL.  -EOVERFLOW: the key is used up. */
int kr_seal_close(struct kr_seal *seal, enum kr_seal_part part, const uint8_t *plain, size_t length, uint8_t *sealed,
	uint8_t ret_tag[KR_SEAL_TAG]);
/* Opens the next part in place.  -EBADMSG: the part was changed or is not the next one; SEAL is then useless.
 * -EOVERFLOW. */
int kr_seal_open(
	struct kr_seal *seal, enum kr_seal_part part, uint8_t *bytes, size_t length, const uint8_t tag[KR_SEAL_TAG]);

#endif

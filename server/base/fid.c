#include "server/base/fid.h"

#include <endian.h>
#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/table.h"

enum { CODE = 8, KIND = 1, INODE_LENGTH = 20, HANDLE_TYPE = 4 };

_Static_assert(KIND + HANDLE_TYPE + KR_FID_HANDLE_MAX + CODE <= KR_FID_MAX, "a fid holds any kernel handle");
_Static_assert(KR_FID_SECRET == crypto_shorthash_KEYBYTES && CODE == crypto_shorthash_BYTES, "SipHash-2-4");

static void put(uint8_t *bytes, uint64_t value, int count)
{
	while (count-- > 0) {
		bytes[count] = (uint8_t)value;
		value >>= 8;
	}
}

static uint64_t take(const uint8_t *bytes, int count)
{
	uint64_t value = 0;
	int i;

	for (i = 0; i < count; i++)
		value = value << 8 | bytes[i];
	return value;
}

uint64_t kr_fid_code(const uint8_t secret[KR_FID_SECRET], const void *bytes, size_t length)
{
	uint64_t code;

	crypto_shorthash((uint8_t *)&code, bytes, length, secret);
	return le64toh(code);
}

void kr_fid_seal(const uint8_t secret[KR_FID_SECRET], const struct kr_identity *identity, struct kr_fid *ret_fid)
{
	struct kr_fid fid = {0};
	uint8_t *body = fid.bytes + KIND;
	size_t length;

	fid.bytes[0] = (uint8_t)identity->kind;
	if (identity->kind == KR_FID_HANDLE) {
		put(body, (uint32_t)identity->handle_type, HANDLE_TYPE);
		memcpy(body + HANDLE_TYPE, identity->handle, identity->handle_length);
		length = KIND + HANDLE_TYPE + identity->handle_length;
	} else {
		put(body, identity->ino, 8);
		put(body + 8, (uint64_t)identity->birth.sec, 8);
		put(body + 16, identity->birth.nsec, 4);
		length = KIND + INODE_LENGTH;
	}
	put(fid.bytes + length, kr_fid_code(secret, fid.bytes, length), CODE);
	fid.length = (uint8_t)(length + CODE);
	*ret_fid = fid;
}

/* Compares in constant time. */
static bool code_matches(const uint8_t secret[KR_FID_SECRET], const struct kr_fid *fid, size_t length)
{
	uint64_t given = take(fid->bytes + length, CODE);

	return (kr_fid_code(secret, fid->bytes, length) ^ given) == 0;
}

static bool unseal_body(const uint8_t *body, size_t length, struct kr_identity *identity)
{
	switch (identity->kind) {
	case KR_FID_HANDLE:
		if (length <= HANDLE_TYPE || length > HANDLE_TYPE + KR_FID_HANDLE_MAX)
			return false;
		identity->handle_type = (int32_t)take(body, HANDLE_TYPE);
		identity->handle_length = (uint32_t)(length - HANDLE_TYPE);
		memcpy(identity->handle, body + HANDLE_TYPE, identity->handle_length);
		return true;
	case KR_FID_INODE:
		if (length != INODE_LENGTH)
			return false;
		identity->ino = take(body, 8);
		identity->birth.sec = (int64_t)take(body + 8, 8);
		identity->birth.nsec = (uint32_t)take(body + 16, 4);
		return true;
	}
	return false;
}

int kr_fid_unseal(const uint8_t secret[KR_FID_SECRET], const struct kr_fid *fid, struct kr_identity *ret_identity)
{
	struct kr_identity identity = {0};
	size_t length;

	if (fid->length <= KIND + CODE || fid->length > KR_FID_MAX)
		return kr_fail(-ESTALE, "a file identity of %u bytes is none of this export", fid->length);
	length = (size_t)fid->length - CODE;
	if (!code_matches(secret, fid, length))
		return kr_fail(-ESTALE, "a file identity that this export has not made");
	identity.kind = fid->bytes[0];
	if (!unseal_body(fid->bytes + KIND, length - KIND, &identity))
		return kr_fail(-ESTALE, "a file identity of unknown kind %u", fid->bytes[0]);
	*ret_identity = identity;
	return 0;
}

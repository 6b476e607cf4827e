/* See siphash.h. */
#include "server/base/siphash.h"

#include <endian.h>
#include <string.h>

static uint64_t rotate(uint64_t x, int bits)
{
	return x << bits | x >> (64 - bits);
}

static void rounds(uint64_t v[4], int count)
{
	while (count-- > 0) {
		v[0] += v[1];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[0] = rotate(v[0], 32);
		v[2] += v[3];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[2] = rotate(v[2], 32);
	}
}

static uint64_t load(const uint8_t *bytes, size_t length)
{
	uint64_t word = 0;

	memcpy(&word, bytes, length);
	return le64toh(word);
}

static void absorb(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	rounds(v, 2);
	v[0] ^= word;
}

uint64_t kr_siphash(const uint8_t key[16], const void *bytes, size_t length)
{
	const uint8_t *p = bytes;
	uint64_t k0 = load(key, 8), k1 = load(key + 8, 8);
	uint64_t v[4] = {
		k0 ^ UINT64_C(0x736f6d6570736575),
		k1 ^ UINT64_C(0x646f72616e646f6d),
		k0 ^ UINT64_C(0x6c7967656e657261),
		k1 ^ UINT64_C(0x7465646279746573),
	};
	size_t left;

	for (left = length; left >= 8; left -= 8, p += 8)
		absorb(v, load(p, 8));
	absorb(v, load(p, left) | (uint64_t)length << 56);
	v[2] ^= 0xff;
	rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

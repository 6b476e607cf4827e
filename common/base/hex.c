/* See hex.h. */
#include "common/base/hex.h"

#include <sodium.h>
#include <string.h>

char *kr_hex_format(const uint8_t *bytes, size_t length, char *hex)
{
	return sodium_bin2hex(hex, 2 * length + 1, bytes, length);
}

size_t kr_hex_parse(const char *hex, uint8_t *bytes, size_t max)
{
	size_t length;

	if (strpbrk(hex, "ABCDEF") || sodium_hex2bin(bytes, max, hex, strlen(hex), NULL, &length, NULL) != 0)
		return 0;
	return length;
}

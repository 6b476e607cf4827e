/* See hex.h. */
#include "common/base/hex.h"

#include <string.h>

char *kr_hex_format(const uint8_t *bytes, size_t length, char *hex)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < length; i++) {
		hex[2 * i] = digits[bytes[i] >> 4];
		hex[2 * i + 1] = digits[bytes[i] & 15];
	}
	hex[2 * length] = '\0';
	return hex;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

size_t kr_hex_parse(const char *hex, uint8_t *bytes, size_t max)
{
	size_t length = strlen(hex) / 2;

	if (length > max || strlen(hex) != 2 * length)
		return 0;
	for (size_t i = 0; i < length; i++) {
		int high = digit(hex[2 * i]), low = digit(hex[2 * i + 1]);

		if (high < 0 || low < 0)
			return 0;
		bytes[i] = (uint8_t)(high << 4 | low);
	}
	return length;
}

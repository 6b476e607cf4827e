/* See text.h. */
#include "common/base/text.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"

/* Decodes the first character of BYTES (NUL-terminated).  Returns its length in bytes; 0: BYTES does not begin with
 * one. */
static size_t decode(const uint8_t *bytes, uint32_t *ret_character)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000}; /* shorter ones have a shorter form */
	size_t length = bytes[0] < 0x80 ? 1 :
		bytes[0] < 0xc0         ? 0 :
		bytes[0] < 0xe0         ? 2 :
		bytes[0] < 0xf0         ? 3 :
		bytes[0] < 0xf8         ? 4 :
					  0;
	uint32_t character = length == 1 ? bytes[0] : bytes[0] & (0x7fu >> length);

	for (size_t i = 1; i < length; i++) {
		if ((bytes[i] & 0xc0) != 0x80)
			return 0;
		character = character << 6 | (bytes[i] & 0x3f);
	}
	if (!length || character < least[length] || character > 0x10ffff ||
		(character >= 0xd800 && character <= 0xdfff))
		return 0;
	*ret_character = character;
	return length;
}

static bool is_control(uint32_t character)
{
	return character < 0x20 || (character >= 0x7f && character < 0xa0);
}

static char *convert(const char *bytes, bool no_controls)
{
	const uint8_t *in = (const uint8_t *)bytes;
	char *text = malloc(4 * strlen(bytes) + 1), *out = text;

	if (!text)
		return NULL;
	while (*in) {
		uint32_t character = 0;
		size_t length = decode(in, &character);

		if (length && !(no_controls && is_control(character))) {
			memcpy(out, in, length);
			out += length;
			in += length;
			continue;
		}
		for (length = length ? length : 1; length > 0; length--)
			out += snprintf(out, 5, "\\%03o", *in++);
	}
	*out = '\0';
	return text;
}

char *kr_text_utf8(const char *bytes)
{
	return convert(bytes, false);
}

char *kr_text_shown(const char *bytes)
{
	return convert(bytes, true);
}

json_t *kr_text_json(const char *bytes)
{
	KR_AUTO_FREE char *text = kr_text_utf8(bytes);

	return text ? json_string(text) : NULL;
}

const char *kr_text_of(const json_t *object, const char *name)
{
	const char *text = json_string_value(json_object_get(object, name));

	return text ? text : "";
}

json_int_t kr_number(const json_t *object, const char *section, const char *name)
{
	return json_integer_value(json_object_get(section ? json_object_get(object, section) : object, name));
}

bool kr_text_is_name(const char *text, size_t max)
{
	for (const char *c = text; *c; c++)
		if ((unsigned char)*c <= ' ' || *c == '/' || *c == 127)
			return false;
	return *text && strlen(text) <= max;
}

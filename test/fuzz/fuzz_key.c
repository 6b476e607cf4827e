/* Fuzz target: the text of a key file.
 *
 * Bit 0 of byte 0 of the input chooses: the rest is the text, or the rest changes a good text, three bytes for each
 * change (position, value).  What is read must come back from what is written.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/auth/key.h"
#include "test/fuzz/fuzz.h"

static const char good[] = "kairan-key 1\nid 7670d6b21d85cf978d8aa91f76b9227c\nidentity user 1000 alice\n"
			   "created 2026-11-21T20:05:08Z\nexpires 2026-12-21T20:05:08Z\n"
			   "secret 000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n";

static void require(bool condition, const char *what)
{
	if (!condition) {
		fprintf(stderr, "%s (%s)\n", what, kr_fail_reason());
		abort();
	}
}

static void parse(const char *text, size_t length)
{
	struct kr_key *key, *again;
	char back[KR_KEY_TEXT];

	if (kr_key_parse(text, length, "key", &key) != 0) {
		require(!strstr(kr_fail_reason(), "0001020304"), "a reason shows a secret");
		return;
	}
	require(kr_key_parse(back, kr_key_format(key, back), "key", &again) == 0, "a key cannot be read back");
	require(memcmp(key, again, sizeof(*key)) == 0, "a key comes back as another one");
	kr_key_put(again);
	kr_key_put(key);
}

static void parse_changed(const uint8_t *changes, size_t length)
{
	char text[sizeof(good)];

	memcpy(text, good, sizeof(good));
	for (; length >= 3; length -= 3, changes += 3)
		text[(changes[0] << 8 | changes[1]) % (sizeof(good) - 1)] = (char)changes[2];
	parse(text, sizeof(good) - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	if (length == 0)
		return 0;
	if (bytes[0] & 1)
		parse_changed(bytes + 1, length - 1);
	else
		parse((const char *)bytes + 1, length - 1);
	return 0;
}

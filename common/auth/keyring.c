/* The keys that a server accepts; see keyring.h. */
#include "common/auth/keyring.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/util.h"

struct kr_keyring {
	size_t count;
	struct kr_key *keys[];
};

static int add(struct kr_keyring *keyring, const char *path)
{
	struct kr_key *key;
	int err = kr_key_load(path, &key);

	if (err)
		return err;
	if (kr_keyring_find(keyring, key->id)) {
		kr_key_put(key);
		return kr_fail(-EEXIST, "key file %s: another file holds the same key (name each key once)", path);
	}
	keyring->keys[keyring->count++] = key;
	return 0;
}

int kr_keyring_load(char *const *paths, size_t count, struct kr_keyring **ret_keyring)
{
	struct kr_keyring *keyring;
	int err = 0;

	if (count > KR_KEYRING_MAX)
		return kr_fail(-E2BIG, "%zu keys are too many (at most %d)", count, KR_KEYRING_MAX);
	keyring = kr_xcalloc(1, sizeof(*keyring) + count * sizeof(struct kr_key *));
	for (size_t i = 0; !err && i < count; i++)
		err = add(keyring, paths[i]);
	if (err) {
		kr_keyring_free(keyring);
		return err;
	}
	*ret_keyring = keyring;
	return 0;
}

void kr_keyring_free(struct kr_keyring *keyring)
{
	if (!keyring)
		return;
	for (size_t i = 0; i < keyring->count; i++)
		kr_key_put(keyring->keys[i]);
	free(keyring);
}

size_t kr_keyring_count(const struct kr_keyring *keyring)
{
	return keyring->count;
}

struct kr_key *kr_keyring_at(const struct kr_keyring *keyring, size_t index)
{
	return keyring->keys[index];
}

struct kr_key *kr_keyring_find(const struct kr_keyring *keyring, const uint8_t id[KR_KEY_ID])
{
	for (size_t i = 0; i < keyring->count; i++)
		if (memcmp(keyring->keys[i]->id, id, KR_KEY_ID) == 0)
			return keyring->keys[i];
	return NULL;
}

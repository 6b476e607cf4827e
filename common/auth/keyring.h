/* The keys that a server accepts, several at once, so that the administrator can replace them one after the other.
 *
 * A keyring is read as a whole and never changes.  To reread the files, the server makes another one and, on success,
 * replaces the old.  One thread.
 */
#ifndef KR_COMMON_KEYRING_H
#define KR_COMMON_KEYRING_H

#include "common/auth/key.h"

enum { KR_KEYRING_MAX = 4096 };
struct kr_keyring;

/* Reads the key files PATHS.  -EEXIST: two files hold the same key; -E2BIG; errors of kr_key_load.  The keyring has
 * expired keys too, so that their users learn the reason.  Blocks. */
int kr_keyring_load(char *const *paths, size_t count, struct kr_keyring **ret_keyring);
void kr_keyring_free(struct kr_keyring *keyring);
size_t kr_keyring_count(const struct kr_keyring *keyring);
/* The key at INDEX, of that id; NULL if there is none.  Borrowed. */
struct kr_key *kr_keyring_at(const struct kr_keyring *keyring, size_t index);
struct kr_key *kr_keyring_find(const struct kr_keyring *keyring, const uint8_t id[KR_KEY_ID]);

#endif

/* Keys, with which a node, a user's mount or the administrator authenticates to the server, and the server to them.
 *
 * A key is a shared secret with an identity: a *node* key may act for any uid, a *user* key for one uid only.  Both
 * sides have a copy of the same key file, a text of at most KR_KEY_TEXT bytes:
 *
 *   kairan-key 1                          the format, in the first line
 *   id 5d0c...                            16 bytes in hexadecimal: the fingerprint, see below
 *   identity node                         or: identity user 1000 alice    (the number counts, the name is for people)
 *   created 2026-11-21T20:05:23Z          in UTC
 *   expires never                         or a time
 *   secret 83a1...                        32 random bytes in hexadecimal
 *
 * Empty lines and lines that begin with '#' may stand anywhere but before the first.  Every other line must occur once,
 * in any order.
 * The id is BLAKE2b-128, keyed with the secret, of "kairan-key-id-1" padded with zeros to 16 bytes, u8 kind (1 node, 2
 * user), u32 uid (0 of a node key), u64 created, u64 expires (seconds; 0: never), big-endian, and the bytes of the
 * name.  So a reader detects a damaged or edited file, and an id means the same on both sides.
 *
 * Secrets live in memory that is locked, kept out of core dumps and wiped; no message or log shows any part of one.
 * One thread uses a key.
 */
#ifndef KR_COMMON_KEY_H
#define KR_COMMON_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KR_KEY_ID = 16, KR_KEY_SECRET = 32, KR_KEY_NAME_MAX = 63, KR_KEY_TEXT = 4096, KR_KEY_TIME = 24 };
/* A key is valid from so long before its time of creation: clocks differ. */
enum { KR_KEY_SKEW_S = 300 };
/* The time of creation of a key that all nodes of a job make, each by itself, from one secret. */
enum { KR_KEY_OF_SECRET_CREATED = 1 };

enum kr_key_kind { KR_KEY_NODE = 1, KR_KEY_USER = 2 };

/* The owner's rights: for which users a key may act. */
struct kr_key_owner {
	enum kr_key_kind kind;
	uint32_t uid; /* 0 of a node key */
};

struct kr_key {
	uint32_t references;
	uint8_t id[KR_KEY_ID];
	struct kr_key_owner owner;
	bool munge;                     /* made up: MUNGE says that the peer is root (a node), or this user */
	char name[KR_KEY_NAME_MAX + 1]; /* of the user; "" of a node key */
	int64_t created, expires;       /* seconds since the epoch; expires 0: never */
	uint8_t secret[KR_KEY_SECRET];
};

/* Makes a key with a fresh secret.  NAME: of the user, printable without blanks; "" for a node.  -EINVAL: an invalid
 * name or time. */
int kr_key_new(
	const struct kr_key_owner *owner, const char *name, int64_t created, int64_t expires, struct kr_key **ret_key);
/* A made-up key for UID, the peer's uid by MUNGE. */
int kr_key_of_munge(uint32_t uid, int64_t now, struct kr_key **ret_key);
/* The node key with SECRET: created KR_KEY_OF_SECRET_CREATED, never expires. */
int kr_key_of_secret(const uint8_t secret[KR_KEY_SECRET], struct kr_key **ret_key);
struct kr_key *kr_key_get(struct kr_key *key);
/* Drops the reference; the last one wipes the key. */
void kr_key_put(struct kr_key *key);

/* Reads the text of a key file; WHERE begins the reason.  -EBADMSG: not a complete key file.  Returns owned. */
int kr_key_parse(const char *text, size_t length, const char *where, struct kr_key **ret_key);
/* Writes the text of a key file with its NUL; the caller wipes it. Returns its length. */
size_t kr_key_format(const struct kr_key *key, char text[KR_KEY_TEXT]);

/* Reads a key file.  -EPERM: the file is not regular, not the calling user's, or open to other users; -EBADMSG; other
 * errors of open(2) and read(2).  Blocks. */
int kr_key_load(const char *path, struct kr_key **ret_key);
/* Makes a key file, 0600, durably; never replaces one (-EEXIST).  Blocks. */
int kr_key_save(const struct kr_key *key, const char *path);

/* Checks the key at NOW (seconds since the epoch).  -EKEYEXPIRED: it has expired, or it expires one day but was made
 * after NOW, so that this clock cannot be trusted. */
int kr_key_check(const struct kr_key *key, int64_t now);
bool kr_key_owner_equal(const struct kr_key_owner *a, const struct kr_key_owner *b);

/* "node key 5d0c17aa", "key 5d0c17aa of user alice (1000)", for logs. */
enum { KR_KEY_DESCRIPTION = 128 };
const char *kr_key_describe(const struct kr_key *key, char text[KR_KEY_DESCRIPTION]);
/* "2026-11-21T20:05:23Z", or "never" for 0. */
const char *kr_key_time_format(int64_t seconds, char text[KR_KEY_TIME]);
/* The reverse.  False: TEXT is neither "never" nor such a time between 1970 and 9999. */
bool kr_key_time_parse(const char *text, int64_t *ret_seconds);

#endif

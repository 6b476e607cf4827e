/* Keys as values and as text; see key.h for the format.  No files here: key_file.c.  No state. */
#include "common/auth/key.h"

#include <ctype.h>
#include <errno.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/fail.h"
#include "common/auth/auth_priv.h"
#include "common/base/util.h"

#define FIRST_LINE "kairan-key 1"
#define TIME_LAST INT64_C(253402300799) /* 9999-12-31T23:59:59Z */

_Static_assert(KR_KEY_ID >= crypto_generichash_BYTES_MIN, "the id is a hash");
_Static_assert(KR_KEY_SECRET <= crypto_generichash_KEYBYTES_MAX, "the secret is the key of a hash");

/* --- times --- */

const char *kr_key_time_format(int64_t seconds, char text[KR_KEY_TIME])
{
	time_t time = (time_t)seconds;
	struct tm parts;

	if (seconds == 0 || !gmtime_r(&time, &parts) || strftime(text, KR_KEY_TIME, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0)
		memcpy(text, "never", sizeof("never"));
	return text;
}

bool kr_key_time_parse(const char *text, int64_t *ret_seconds)
{
	char again[KR_KEY_TIME];
	struct tm parts = {0};
	const char *end = NULL;
	int64_t seconds = 0;

	if (strcmp(text, "never") != 0) {
		end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &parts);
		seconds = end ? (int64_t)timegm(&parts) : 0;
		/* There is one valid form only: no blanks, signs, 61st seconds or 31sts of February. */
		if (!end || *end || seconds <= 0 || seconds > TIME_LAST ||
			strcmp(kr_key_time_format(seconds, again), text) != 0)
			return false;
	}
	*ret_seconds = seconds;
	return true;
}

/* --- one key --- */

static void fingerprint(const struct kr_key *key, uint8_t ret_id[KR_KEY_ID])
{
	static const char label[16] = "kairan-key-id-1";
	const uint8_t kind = (uint8_t)key->owner.kind;
	crypto_generichash_state state;

	crypto_generichash_init(&state, key->secret, KR_KEY_SECRET, KR_KEY_ID);
	crypto_generichash_update(&state, (const uint8_t *)label, sizeof(label));
	crypto_generichash_update(&state, &kind, 1);
	kr_digest_u32(&state, key->owner.uid);
	kr_digest_u64(&state, (uint64_t)key->created);
	kr_digest_u64(&state, (uint64_t)key->expires);
	crypto_generichash_update(&state, (const uint8_t *)key->name, strlen(key->name));
	crypto_generichash_final(&state, ret_id, KR_KEY_ID);
	sodium_memzero(&state, sizeof(state));
}

static int allocate(struct kr_key **ret_key)
{
	struct kr_key *key;

	if (sodium_init() < 0)
		return kr_fail(-EIO, "libsodium finds no random numbers on this machine");
	key = sodium_malloc(sizeof(*key)); /* guarded, locked, and kept out of core dumps */
	if (!key)
		return kr_fail(-ENOMEM, "no memory for a key");
	memset(key, 0, sizeof(*key));
	key->references = 1;
	*ret_key = key;
	return 0;
}

static bool name_is_good(const struct kr_key_owner *owner, const char *name)
{
	size_t length = strlen(name);

	if (owner->kind == KR_KEY_NODE)
		return owner->uid == 0 && length == 0;
	for (size_t i = 0; i < length; i++)
		if (!isascii(name[i]) || !isgraph((unsigned char)name[i]))
			return false;
	return length > 0 && length <= KR_KEY_NAME_MAX && owner->uid != UINT32_MAX;
}

int kr_key_new(
	const struct kr_key_owner *owner, const char *name, int64_t created, int64_t expires, struct kr_key **ret_key)
{
	struct kr_key *key;
	int err;

	if (!name_is_good(owner, name))
		return kr_fail(-EINVAL, "a key cannot be made for this user name (give the user's number instead)");
	if (created <= 0 || created > TIME_LAST || expires < 0 || expires > TIME_LAST ||
		(expires != 0 && expires <= created))
		return kr_fail(-EINVAL, "a key cannot expire before it is made, nor after the year 9999");
	err = allocate(&key);
	if (err)
		return err;
	key->owner = *owner;
	memcpy(key->name, name, strlen(name));
	key->created = created;
	key->expires = expires;
	randombytes_buf(key->secret, sizeof(key->secret));
	fingerprint(key, key->id);
	*ret_key = key;
	return 0;
}

struct kr_key *kr_key_get(struct kr_key *key)
{
	key->references++;
	return key;
}

void kr_key_put(struct kr_key *key)
{
	if (key && --key->references == 0)
		sodium_free(key); /* wipes */
}

int kr_key_check(const struct kr_key *key, int64_t now)
{
	char description[KR_KEY_DESCRIPTION], limit[KR_KEY_TIME], clock[KR_KEY_TIME];

	kr_key_describe(key, description);
	kr_key_time_format(now, clock);
	if (key->expires != 0 && now >= key->expires)
		return kr_fail(-EKEYEXPIRED,
			"%s expired at %s, and this machine's clock says %s (make a new one: kairan key)", description,
			kr_key_time_format(key->expires, limit), clock);
	if (key->expires != 0 && now < key->created - KR_KEY_SKEW_S)
		return kr_fail(-EKEYEXPIRED,
			"%s was made at %s, but this machine's clock says %s: it cannot tell whether the key has "
			"expired (set the clock)",
			description, kr_key_time_format(key->created, limit), clock);
	return 0;
}

bool kr_key_owner_equal(const struct kr_key_owner *a, const struct kr_key_owner *b)
{
	return a->kind == b->kind && a->uid == b->uid;
}

int kr_key_of_munge(uint32_t uid, int64_t now, struct kr_key **ret_key)
{
	const struct kr_key_owner node = {.kind = KR_KEY_NODE};
	struct kr_key *key;
	int err = kr_key_new(&node, "", now, 0, &key);

	if (err)
		return err;
	key->munge = true;
	if (uid != 0)
		key->owner = (struct kr_key_owner){.kind = KR_KEY_USER, .uid = uid};
	*ret_key = key;
	return 0;
}

int kr_key_of_secret(const uint8_t secret[KR_KEY_SECRET], struct kr_key **ret_key)
{
	struct kr_key *key;
	int err = allocate(&key);

	if (err)
		return err;
	key->owner.kind = KR_KEY_NODE;
	key->created = KR_KEY_OF_SECRET_CREATED;
	memcpy(key->secret, secret, KR_KEY_SECRET);
	fingerprint(key, key->id);
	*ret_key = key;
	return 0;
}

const char *kr_key_describe(const struct kr_key *key, char text[KR_KEY_DESCRIPTION])
{
	char id[2 * 4 + 1];

	if (key->munge) {
		snprintf(text, KR_KEY_DESCRIPTION, "MUNGE credential of %s (%u)", key->owner.uid ? "user" : "root",
			key->owner.uid);
		return text;
	}
	sodium_bin2hex(id, sizeof(id), key->id, 4);
	if (key->owner.kind == KR_KEY_NODE)
		snprintf(text, KR_KEY_DESCRIPTION, "node key %s", id);
	else
		snprintf(text, KR_KEY_DESCRIPTION, "key %s of user %s (%u)", id, key->name, key->owner.uid);
	return text;
}

/* --- text --- */

size_t kr_key_format(const struct kr_key *key, char text[KR_KEY_TEXT])
{
	char id[2 * KR_KEY_ID + 1], secret[2 * KR_KEY_SECRET + 1], owner[KR_KEY_NAME_MAX + 32] = "node";
	char created[KR_KEY_TIME], expires[KR_KEY_TIME];
	int length;

	sodium_bin2hex(id, sizeof(id), key->id, sizeof(key->id));
	sodium_bin2hex(secret, sizeof(secret), key->secret, sizeof(key->secret));
	if (key->owner.kind == KR_KEY_USER)
		snprintf(owner, sizeof(owner), "user %u %s", key->owner.uid, key->name);
	length = snprintf(text, KR_KEY_TEXT, FIRST_LINE "\nid %s\nidentity %s\ncreated %s\nexpires %s\nsecret %s\n", id,
		owner, kr_key_time_format(key->created, created), kr_key_time_format(key->expires, expires), secret);
	sodium_memzero(secret, sizeof(secret));
	return (size_t)length;
}

static bool parse_hex(const char *text, uint8_t *bytes, size_t length)
{
	const char *end;
	size_t got;

	return sodium_hex2bin(bytes, length, text, strlen(text), NULL, &got, &end) == 0 && got == length && !*end;
}

static bool parse_id(struct kr_key *key, const char *value)
{
	return parse_hex(value, key->id, sizeof(key->id));
}

static bool parse_secret(struct kr_key *key, const char *value)
{
	return parse_hex(value, key->secret, sizeof(key->secret));
}

static bool parse_created(struct kr_key *key, const char *value)
{
	return kr_key_time_parse(value, &key->created) && key->created != 0;
}

static bool parse_expires(struct kr_key *key, const char *value)
{
	return kr_key_time_parse(value, &key->expires);
}

static bool parse_owner(struct kr_key *key, const char *value)
{
	static const char user[] = "user ";
	const char *p = value + sizeof(user) - 1;
	uint64_t uid = 0;
	unsigned digits;

	if (strcmp(value, "node") == 0) {
		key->owner = (struct kr_key_owner){.kind = KR_KEY_NODE};
		return true;
	}
	if (strncmp(value, user, sizeof(user) - 1) != 0)
		return false;
	for (digits = 0; digits < 10 && isdigit((unsigned char)*p); digits++)
		uid = uid * 10 + (uint64_t)(*p++ - '0');
	if (digits == 0 || uid >= UINT32_MAX || *p++ != ' ' || strlen(p) > KR_KEY_NAME_MAX)
		return false;
	key->owner = (struct kr_key_owner){.kind = KR_KEY_USER, .uid = (uint32_t)uid};
	memcpy(key->name, p, strlen(p));
	return name_is_good(&key->owner, key->name);
}

static const struct {
	const char *name;
	bool (*parse)(struct kr_key *key, const char *value);
} fields[] = {
	{"id", parse_id},
	{"identity", parse_owner},
	{"created", parse_created},
	{"expires", parse_expires},
	{"secret", parse_secret},
};

/* Parses one line.  No part of it may get into a reason: the line may be the secret's. */
static int parse_line(struct kr_key *key, char *line, unsigned number, unsigned *seen, const char *where)
{
	char *value = strchr(line, ' ');
	size_t i;

	if (value)
		*value++ = '\0';
	for (i = 0; i < KR_ARRAY_SIZE(fields) && strcmp(line, fields[i].name) != 0; i++)
		;
	if (!value || i == KR_ARRAY_SIZE(fields))
		return kr_fail(-EBADMSG, "%s: line %u is not a key file's (made by a newer kairan?)", where, number);
	if (*seen & 1u << i)
		return kr_fail(-EBADMSG, "%s: line %u: a second '%s'", where, number, fields[i].name);
	if (!fields[i].parse(key, value))
		return kr_fail(-EBADMSG, "%s: line %u: this is no '%s'", where, number, fields[i].name);
	*seen |= 1u << i;
	return 0;
}

/* Parses TEXT, a copy that may be cut into lines. */
static int parse_lines(struct kr_key *key, char *text, const char *where)
{
	unsigned number = 1, seen = 0;
	uint8_t id[KR_KEY_ID];
	char *line = strsep(&text, "\n");
	int err;

	if (strcmp(line, FIRST_LINE) != 0)
		return kr_fail(-EBADMSG, "%s: not a key file of this version ('kairan key' makes one)", where);
	while ((line = strsep(&text, "\n")) != NULL) {
		number++;
		if (!*line || *line == '#')
			continue;
		err = parse_line(key, line, number, &seen, where);
		if (err)
			return err;
	}
	for (size_t i = 0; i < KR_ARRAY_SIZE(fields); i++)
		if (!(seen & 1u << i))
			return kr_fail(-EBADMSG, "%s: '%s' is missing (was the file cut off?)", where, fields[i].name);
	fingerprint(key, id);
	if (sodium_memcmp(id, key->id, sizeof(id)) != 0)
		return kr_fail(-EBADMSG,
			"%s: the file was damaged or edited: its id is not that of its contents (make a new key: "
			"kairan key)",
			where);
	return 0;
}

int kr_key_parse(const char *text, size_t length, const char *where, struct kr_key **ret_key)
{
	struct kr_key *key;
	char *copy;
	int err;

	if (length >= KR_KEY_TEXT || memchr(text, '\0', length))
		return kr_fail(-EBADMSG, "%s: not a key file", where);
	err = allocate(&key);
	if (err)
		return err;
	copy = sodium_malloc(length + 1);
	if (!copy) {
		kr_key_put(key);
		return kr_fail(-ENOMEM, "no memory for a key");
	}
	memcpy(copy, text, length);
	copy[length] = '\0';
	err = parse_lines(key, copy, where);
	sodium_free(copy);
	if (err) {
		kr_key_put(key);
		return err;
	}
	*ret_key = key;
	return 0;
}

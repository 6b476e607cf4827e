/* Keys: their text, byte by byte, their files and who may read them, their time, and several at once.
 *
 * The golden keys' ids come from another implementation of BLAKE2b (Python's hashlib).
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/fail.h"
#include "common/auth/key.h"
#include "common/auth/keyring.h"
#include "common/base/util.h"

#define SECRET "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define NODE_ID "db316863cac308b850d8258d73e662cd"
static const char node_text[] = "kairan-key 1\nid " NODE_ID "\nidentity node\ncreated 2026-11-21T20:05:08Z\n"
				"expires never\nsecret " SECRET "\n";
static const char user_text[] = "kairan-key 1\nid 7670d6b21d85cf978d8aa91f76b9227c\nidentity user 1000 alice\n"
				"created 2026-11-21T20:05:08Z\nexpires 2026-12-21T20:05:08Z\nsecret " SECRET "\n";
enum { CREATED = 1795291508, MONTH = 86400 * 30 };
static const struct kr_key_owner a_node = {.kind = KR_KEY_NODE}, a_user = {.kind = KR_KEY_USER, .uid = 1000};

static struct kr_key *parse(const char *text)
{
	struct kr_key *key;

	if (kr_key_parse(text, strlen(text), "k", &key))
		fail_msg("%s", kr_fail_reason());
	return key;
}

static struct kr_key *a_key(const struct kr_key_owner *owner, const char *name)
{
	struct kr_key *key;

	assert_int_equal(kr_key_new(owner, name, CREATED, 0, &key), 0);
	return key;
}

/* --- text --- */

static void a_node_key_has_its_golden_bytes(void **state)
{
	struct kr_key *key = parse(node_text);
	char text[KR_KEY_TEXT], description[KR_KEY_DESCRIPTION];

	(void)state;
	assert_true(kr_key_owner_equal(&key->owner, &a_node));
	assert_string_equal(key->name, "");
	assert_int_equal(key->created, CREATED);
	assert_int_equal(key->expires, 0);
	assert_int_equal(key->secret[31], 31);
	assert_int_equal(kr_key_format(key, text), strlen(node_text));
	assert_string_equal(text, node_text);
	assert_string_equal(kr_key_describe(key, description), "node key db316863");
	kr_key_put(key);
}

static void a_user_key_has_its_golden_bytes(void **state)
{
	struct kr_key *key = parse(user_text);
	char text[KR_KEY_TEXT], description[KR_KEY_DESCRIPTION];

	(void)state;
	assert_true(kr_key_owner_equal(&key->owner, &a_user));
	assert_string_equal(key->name, "alice");
	assert_int_equal(key->expires, CREATED + MONTH);
	kr_key_format(key, text);
	assert_string_equal(text, user_text);
	assert_string_equal(kr_key_describe(key, description), "key 7670d6b2 of user alice (1000)");
	kr_key_put(key);
}

static void new_keys_differ_and_come_back_from_their_text(void **state)
{
	struct kr_key *one = a_key(&a_user, "alice"), *two = a_key(&a_user, "alice"), *back;
	char text[KR_KEY_TEXT];

	(void)state;
	assert_memory_not_equal(one->secret, two->secret, KR_KEY_SECRET);
	assert_memory_not_equal(one->id, two->id, KR_KEY_ID);
	kr_key_format(one, text);
	back = parse(text);
	assert_memory_equal(back, one, sizeof(*back));
	kr_key_put(back);
	kr_key_put(two);
	kr_key_put(one);
}

static void comments_empty_lines_and_another_order_are_fine(void **state)
{
	(void)state;
	kr_key_put(parse(
		"kairan-key 1\n\n# of the cluster\nsecret " SECRET "\nexpires never\ncreated 2026-11-21T20:05:08Z\n"
		"identity node\n#\nid " NODE_ID));
}

/* Whatever is read from a changed file is refused, or is the same key (an 'a' of the id as 'A'). */
static void refused_or_same(const char *text, size_t length, const struct kr_key *good)
{
	struct kr_key *key;
	int err = kr_key_parse(text, length, "k", &key);

	if (err) {
		assert_int_equal(err, -EBADMSG);
		assert_null(strstr(kr_fail_reason(), "0203"));
		return;
	}
	assert_memory_equal(key, good, sizeof(*key));
	kr_key_put(key);
}

static void every_changed_bit_of_a_file_is_noticed(void **state)
{
	struct kr_key *good = parse(user_text);
	char text[sizeof(user_text)];

	(void)state;
	for (size_t i = 0; i < strlen(user_text); i++)
		for (unsigned bit = 0; bit < 8; bit++) {
			memcpy(text, user_text, sizeof(text));
			text[i] = (char)(text[i] ^ (1 << bit));
			refused_or_same(text, strlen(user_text), good);
		}
	kr_key_put(good);
}

static void every_cut_of_a_file_is_noticed(void **state)
{
	struct kr_key *good = parse(node_text), *key;

	(void)state;
	for (size_t length = 0; length < strlen(node_text) - 1; length++) {
		char *copy = malloc(length ? length : 1);

		memcpy(copy, node_text, length);
		assert_int_equal(kr_key_parse(copy, length, "k", &key), -EBADMSG);
		free(copy);
	}
	refused_or_same(node_text, strlen(node_text) - 1, good); /* only the last newline is missing */
	kr_key_put(good);
}

static void expect_refused(const char *identity, const char *created, const char *expires, const char *more)
{
	char text[KR_KEY_TEXT];
	struct kr_key *key;

	snprintf(text, sizeof(text),
		"kairan-key 1\nid " NODE_ID "\nidentity %s\ncreated %s\nexpires %s\nsecret " SECRET "\n%s", identity,
		created, expires, more);
	assert_int_equal(kr_key_parse(text, strlen(text), "k", &key), -EBADMSG);
	assert_null(strstr(kr_fail_reason(), "0203"));
}

static void what_a_field_cannot_be_is_refused(void **state)
{
	static const char *const identities[] = {"", "root", "node ", "node 0", "user", "user ", "user alice", "user 1",
		"user 1 ", "user -1 a", "user +1 a", "user 4294967295 a", "user 99999999999 a", "user 1 a b",
		"user 1  a", "user 1 a\tb", "user 1 \xc3\xa9"};
	static const char *const times[] = {"", "now", "2026-11-21", "2026-11-21T20:05:08", "2026-11-21 20:05:08Z",
		"2026-02-30T00:00:00Z", "2026-11-21T20:05:60Z", "1970-01-01T00:00:00Z", "1969-12-31T23:59:59Z",
		"12026-11-21T20:05:08Z", " 2026-11-21T20:05:08Z", "2026-11-21T20:05:08Z ", "2026-1-21T20:05:08Z"};

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(identities); i++)
		expect_refused(identities[i], "2026-11-21T20:05:08Z", "never", "");
	for (size_t i = 0; i < KR_ARRAY_SIZE(times); i++) {
		expect_refused("node", times[i], "never", "");
		expect_refused("node", "2026-11-21T20:05:08Z", times[i], "");
	}
	expect_refused("node", "never", "never", "");
	expect_refused("node", "2026-11-21T20:05:08Z", "never", "expires never\n");
	expect_refused("node", "2026-11-21T20:05:08Z", "never", "secret " SECRET "\n");
	expect_refused("node", "2026-11-21T20:05:08Z", "never", "Secret " SECRET "\n");
	expect_refused("node", "2026-11-21T20:05:08Z", "never", SECRET "\n");
	expect_refused("node", "2026-11-21T20:05:08Z", "never", "colour blue\n");
}

static void an_edited_expiry_is_noticed(void **state)
{
	(void)state;
	expect_refused("node", "2026-11-21T20:05:08Z", "2036-11-21T20:05:08Z", "");
	assert_non_null(strstr(kr_fail_reason(), "edited"));
}

static void a_file_of_another_version_or_kind_says_so(void **state)
{
	static const char *const texts[] = {
		"kairan-key 2\n", "kairan-key 1 \n", "-----BEGIN PRIVATE KEY-----\n", "\nkairan-key 1\n", ""};
	struct kr_key *key;

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(texts); i++) {
		assert_int_equal(kr_key_parse(texts[i], strlen(texts[i]), "k", &key), -EBADMSG);
		assert_non_null(strstr(kr_fail_reason(), "not a key file"));
	}
}

static void keys_for_impossible_names_or_times_are_not_made(void **state)
{
	static const char *const names[] = {
		"", "a b", "a\n", "\xc3\xa9", "0123456789012345678901234567890123456789012345678901234567890123"};
	const struct kr_key_owner nobody = {.kind = KR_KEY_USER, .uid = UINT32_MAX};
	struct kr_key *key;

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(names); i++)
		assert_int_equal(kr_key_new(&a_user, names[i], CREATED, 0, &key), -EINVAL);
	assert_int_equal(kr_key_new(&nobody, "a", CREATED, 0, &key), -EINVAL);
	assert_int_equal(kr_key_new(&a_node, "a", CREATED, 0, &key), -EINVAL);
	assert_int_equal(kr_key_new(&a_node, "", CREATED, CREATED, &key), -EINVAL);
	assert_int_equal(kr_key_new(&a_node, "", 0, 0, &key), -EINVAL);
	assert_int_equal(kr_key_new(&a_node, "", CREATED, INT64_C(253402300800), &key), -EINVAL);
	kr_key_put(NULL);
}

/* --- time --- */

static void a_key_is_good_until_it_expires(void **state)
{
	struct kr_key *key = parse(user_text);

	(void)state;
	assert_int_equal(kr_key_check(key, CREATED), 0);
	assert_int_equal(kr_key_check(key, CREATED + MONTH - 1), 0);
	assert_int_equal(kr_key_check(key, CREATED + MONTH), -EKEYEXPIRED);
	assert_non_null(strstr(kr_fail_reason(), "expired at 2026-12-21T20:05:08Z"));
	kr_key_put(key);
}

static void a_clock_before_the_keys_making_is_not_trusted_to_judge_its_end(void **state)
{
	struct kr_key *key = parse(user_text), *eternal = parse(node_text);

	(void)state;
	assert_int_equal(kr_key_check(key, CREATED - KR_KEY_SKEW_S), 0);
	assert_int_equal(kr_key_check(key, CREATED - KR_KEY_SKEW_S - 1), -EKEYEXPIRED);
	assert_non_null(strstr(kr_fail_reason(), "set the clock"));
	assert_int_equal(kr_key_check(eternal, 1), 0);
	assert_int_equal(kr_key_check(eternal, INT64_C(253402300799)), 0);
	kr_key_put(eternal);
	kr_key_put(key);
}

/* --- files --- */

struct place {
	char dir[32], path[64], other[64];
};

static int make_place(void **state)
{
	struct place *place = kr_xcalloc(1, sizeof(*place));

	strcpy(place->dir, "/tmp/kr-key-XXXXXX");
	assert_non_null(mkdtemp(place->dir));
	snprintf(place->path, sizeof(place->path), "%s/key", place->dir);
	snprintf(place->other, sizeof(place->other), "%s/other", place->dir);
	*state = place;
	return 0;
}

static int remove_place(void **state)
{
	struct place *place = *state;

	unlink(place->path);
	unlink(place->other);
	rmdir(place->path);
	assert_int_equal(rmdir(place->dir), 0);
	free(place);
	return 0;
}

static void write_text(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static void a_made_file_is_the_owners_alone_and_is_read_back(void **state)
{
	const struct place *place = *state;
	struct kr_key *key = a_key(&a_user, "alice"), *back;
	mode_t old = umask(0);
	struct stat st;

	assert_int_equal(kr_key_save(key, place->path), 0);
	umask(0277);
	assert_int_equal(kr_key_save(key, place->other), 0);
	umask(old);
	assert_int_equal(stat(place->path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(stat(place->other, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(kr_key_load(place->path, &back), 0);
	assert_memory_equal(back, key, sizeof(*back));
	kr_key_put(back);
	kr_key_put(key);
}

static void nothing_is_overwritten(void **state)
{
	const struct place *place = *state;
	struct kr_key *key = a_key(&a_node, "");
	KR_AUTO_FREE char *text = NULL;
	size_t length;

	write_text(place->path, "precious", 0600);
	assert_int_equal(kr_key_save(key, place->path), -EEXIST);
	assert_int_equal(kr_read_file(AT_FDCWD, place->path, 100, &text, &length), 0);
	assert_string_equal(text, "precious");
	assert_int_equal(unlink(place->path), 0);
	assert_int_equal(symlink(place->other, place->path), 0);
	assert_int_equal(kr_key_save(key, place->path), -EEXIST); /* also not what a link points to */
	assert_int_equal(access(place->other, F_OK), -1);
	kr_key_put(key);
}

static void a_file_in_no_directory_is_an_error(void **state)
{
	const struct place *place = *state;
	struct kr_key *key = a_key(&a_node, "");
	char path[80];

	snprintf(path, sizeof(path), "%s/none/key", place->dir);
	assert_int_equal(kr_key_save(key, path), -ENOENT);
	assert_non_null(strstr(kr_fail_reason(), path));
	kr_key_put(key);
	assert_int_equal(kr_key_load(path, &key), -ENOENT);
}

static void a_file_that_others_can_read_or_write_is_refused(void **state)
{
	const struct place *place = *state;
	struct kr_key *key;

	for (mode_t bit = 1; bit < 0100; bit <<= 1) {
		write_text(place->path, node_text, 0600 | bit);
		assert_int_equal(kr_key_load(place->path, &key), -EPERM);
		assert_non_null(strstr(kr_fail_reason(), "chmod 600"));
	}
	write_text(place->path, node_text, 0400);
	assert_int_equal(kr_key_load(place->path, &key), 0);
	kr_key_put(key);
}

static void a_file_of_another_user_is_refused(void **state)
{
	const struct place *place = *state;
	struct kr_key *key;

	if (geteuid() != 0)
		skip();
	write_text(place->path, node_text, 0600);
	assert_int_equal(chown(place->path, 4711, (gid_t)-1), 0);
	assert_int_equal(kr_key_load(place->path, &key), -EPERM);
	assert_non_null(strstr(kr_fail_reason(), "belongs to user 4711"));
}

static void what_is_no_regular_file_is_refused_without_waiting(void **state)
{
	const struct place *place = *state;
	struct kr_key *key;

	assert_int_equal(mkfifo(place->path, 0600), 0);
	assert_int_equal(kr_key_load(place->path, &key), -EPERM);
	assert_int_equal(unlink(place->path), 0);
	assert_int_equal(mkdir(place->path, 0700), 0);
	assert_int_equal(kr_key_load(place->path, &key), -EPERM);
}

static void a_large_file_is_refused(void **state)
{
	const struct place *place = *state;
	char text[KR_KEY_TEXT + 1];
	struct kr_key *key;

	memset(text, '\n', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	memcpy(text, node_text, strlen(node_text));
	write_text(place->path, text, 0600);
	assert_int_equal(kr_key_load(place->path, &key), -EBADMSG);
	text[KR_KEY_TEXT - 1] = '\0';
	write_text(place->path, text, 0600);
	assert_int_equal(kr_key_load(place->path, &key), 0);
	kr_key_put(key);
}

/* --- several --- */

static void a_ring_finds_each_of_its_keys(void **state)
{
	struct place *place = *state;
	char *const paths[] = {place->path, place->other};
	static const uint8_t unknown[KR_KEY_ID];
	struct kr_keyring *ring;
	struct kr_key *key;

	write_text(place->path, node_text, 0600);
	write_text(place->other, user_text, 0600);
	assert_int_equal(kr_keyring_load(paths, 2, &ring), 0);
	assert_int_equal(kr_keyring_count(ring), 2);
	for (size_t i = 0; i < 2; i++) {
		key = kr_keyring_at(ring, i);
		assert_ptr_equal(kr_keyring_find(ring, key->id), key);
	}
	assert_null(kr_keyring_find(ring, unknown));
	key = kr_key_get(kr_keyring_at(ring, 0));
	kr_keyring_free(ring);
	assert_int_equal(key->secret[31], 31); /* who uses a key keeps it */
	kr_key_put(key);
}

static void a_ring_with_a_bad_or_a_double_file_is_refused(void **state)
{
	struct place *place = *state;
	char *const paths[] = {place->path, place->other};
	struct kr_keyring *ring;

	write_text(place->path, node_text, 0600);
	assert_int_equal(kr_keyring_load(paths, 2, &ring), -ENOENT);
	write_text(place->other, node_text, 0600);
	assert_int_equal(kr_keyring_load(paths, 2, &ring), -EEXIST);
	write_text(place->other, user_text, 0644);
	assert_int_equal(kr_keyring_load(paths, 2, &ring), -EPERM);
	assert_int_equal(kr_keyring_load(paths, KR_KEYRING_MAX + 1, &ring), -E2BIG);
	assert_int_equal(kr_keyring_load(paths, 0, &ring), 0);
	assert_int_equal(kr_keyring_count(ring), 0);
	kr_keyring_free(ring);
}

#define WITH_PLACE(test) cmocka_unit_test_setup_teardown(test, make_place, remove_place)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_key_has_its_golden_bytes),
		cmocka_unit_test(a_user_key_has_its_golden_bytes),
		cmocka_unit_test(new_keys_differ_and_come_back_from_their_text),
		cmocka_unit_test(comments_empty_lines_and_another_order_are_fine),
		cmocka_unit_test(every_changed_bit_of_a_file_is_noticed),
		cmocka_unit_test(every_cut_of_a_file_is_noticed),
		cmocka_unit_test(what_a_field_cannot_be_is_refused),
		cmocka_unit_test(an_edited_expiry_is_noticed),
		cmocka_unit_test(a_file_of_another_version_or_kind_says_so),
		cmocka_unit_test(keys_for_impossible_names_or_times_are_not_made),
		cmocka_unit_test(a_key_is_good_until_it_expires),
		cmocka_unit_test(a_clock_before_the_keys_making_is_not_trusted_to_judge_its_end),
		WITH_PLACE(a_made_file_is_the_owners_alone_and_is_read_back),
		WITH_PLACE(nothing_is_overwritten),
		WITH_PLACE(a_file_in_no_directory_is_an_error),
		WITH_PLACE(a_file_that_others_can_read_or_write_is_refused),
		WITH_PLACE(a_file_of_another_user_is_refused),
		WITH_PLACE(what_is_no_regular_file_is_refused_without_waiting),
		WITH_PLACE(a_large_file_is_refused),
		WITH_PLACE(a_ring_finds_each_of_its_keys),
		WITH_PLACE(a_ring_with_a_bad_or_a_double_file_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* fsync of a directory after the server's loss of power. */
#include "fuse/names/dir_fsync.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/base/util.h"

static const struct kr_fid one = {.length = 3, .bytes = "one"}, two = {.length = 3, .bytes = "two"};

enum { S = KR_DIR_SETTLED_S };

static uint64_t at(unsigned second)
{
	return second * KR_NS_PER_S;
}

static int fsync_of(struct kr_dir_fsync *syncs, const struct kr_fid *dir)
{
	return kr_dir_fsync_end(syncs, dir, kr_dir_fsync_begin(syncs), 0, at(300));
}

static int setup(void **state)
{
	*state = kr_dir_fsync_new();
	return 0;
}

static int teardown(void **state)
{
	kr_dir_fsync_free(*state);
	return 0;
}

static void what_was_changed_before_a_boot_fails_once(void **state)
{
	kr_dir_fsync_changed(*state, &one, at(100));
	assert_int_equal(fsync_of(*state, &two), 0);
	assert_int_equal(kr_dir_fsync_booted(*state, at(101), at(101)), 1);
	kr_dir_fsync_changed(*state, &one, at(110));
	assert_int_equal(fsync_of(*state, &two), 0);
	assert_int_equal(kr_dir_fsync_end(*state, &one, kr_dir_fsync_begin(*state), -ENOSPC, at(300)), -ENOSPC);
	assert_int_equal(fsync_of(*state, &one), -EIO);
	assert_int_equal(fsync_of(*state, &one), 0);
}

static void what_was_synced_before_is_not_lost(void **state)
{
	kr_dir_fsync_changed(*state, &one, at(100));
	assert_int_equal(fsync_of(*state, &one), 0);
	assert_int_equal(kr_dir_fsync_booted(*state, at(101), at(101)), 0);
	assert_int_equal(fsync_of(*state, &one), 0);
}

static void a_change_beside_a_sync_is_not_synced(void **state)
{
	uint64_t begun = kr_dir_fsync_begin(*state);

	kr_dir_fsync_changed(*state, &one, at(100));
	assert_int_equal(kr_dir_fsync_end(*state, &one, begun, 0, at(300)), 0);
	assert_int_equal(kr_dir_fsync_booted(*state, at(101), at(101)), 1);
	assert_int_equal(fsync_of(*state, &one), -EIO);
}

/* Asked of one boot and answered by the next. */
static void a_sync_beside_a_boot_has_not_synced_what_was_before(void **state)
{
	uint64_t begun;

	kr_dir_fsync_changed(*state, &one, at(100));
	begun = kr_dir_fsync_begin(*state);
	kr_dir_fsync_booted(*state, at(101), at(101));
	assert_int_equal(kr_dir_fsync_end(*state, &one, begun, 0, at(300)), -EIO);
	assert_int_equal(fsync_of(*state, &one), 0);
}

static void a_failed_sync_has_synced_nothing(void **state)
{
	kr_dir_fsync_changed(*state, &one, at(100));
	assert_int_equal(kr_dir_fsync_end(*state, &one, kr_dir_fsync_begin(*state), -EINTR, at(300)), -EINTR);
	assert_int_equal(kr_dir_fsync_booted(*state, at(101), at(101)), 1);
}

static void what_is_long_past_is_on_the_disk_by_itself(void **state)
{
	kr_dir_fsync_changed(*state, &one, at(100));
	kr_dir_fsync_changed(*state, &two, at(101));
	assert_int_equal(kr_dir_fsync_booted(*state, at(101 + S), at(101 + S)), 1);
	assert_int_equal(fsync_of(*state, &one), 0);
	assert_int_equal(fsync_of(*state, &two), -EIO);
}

/* It is lost whatever has been changed there since, but not for ever. */
static void what_is_lost_stays_lost_for_a_while(void **state)
{
	kr_dir_fsync_changed(*state, &one, at(100));
	assert_int_equal(kr_dir_fsync_booted(*state, at(101), at(150)), 1);
	kr_dir_fsync_changed(*state, &one, at(160));
	kr_dir_fsync_changed(*state, &two, at(160));
	assert_int_equal(kr_dir_fsync_booted(*state, at(161 + S), at(161 + S)), 0);
	assert_int_equal(fsync_of(*state, &two), 0);
	assert_int_equal(fsync_of(*state, &one), -EIO);

	kr_dir_fsync_changed(*state, &one, at(290));
	assert_int_equal(kr_dir_fsync_booted(*state, at(291), at(291)), 1);
	assert_int_equal(kr_dir_fsync_end(*state, &one, kr_dir_fsync_begin(*state), 0, at(292 + KR_DIR_LOST_S)), 0);
	kr_dir_fsync_changed(*state, &one, at(290));
	assert_int_equal(kr_dir_fsync_booted(*state, at(291), at(291)), 1);
	kr_dir_fsync_changed(*state, &two, at(292 + KR_DIR_LOST_S));
	assert_int_equal(fsync_of(*state, &one), 0);
}

static void only_the_latest_are_remembered(void **state)
{
	struct kr_fid dir = {.length = sizeof(uint32_t)};

	for (uint32_t i = 0; i < KR_DIR_FSYNC_MAX + 10; i++) {
		memcpy(dir.bytes, &i, sizeof(i));
		kr_dir_fsync_changed(*state, &dir, at(100));
	}
	assert_int_equal(kr_dir_fsync_booted(*state, at(101), at(101)), KR_DIR_FSYNC_MAX);
	assert_int_equal(fsync_of(*state, &dir), -EIO);
	kr_dir_fsync_changed(*state, &one, at(110)); /* there is room for it, whatever is lost */
	kr_dir_fsync_changed(*state, &two, at(110));
	assert_int_equal(kr_dir_fsync_booted(*state, at(111), at(111)), 2);
	assert_int_equal(fsync_of(*state, &one), -EIO);
}

static void a_rename_changes_two_directories_and_an_open_of_what_is_there_none(void **state)
{
	const union kr_any_msg rename = {
		.rename_request = {.parent = one, .name = "a", .new_parent = two, .new_name = "b"}};
	const union kr_any_msg create = {.create_request = {.parent = one, .name = "a"}};
	const union kr_any_msg getattr = {.getattr_request = {.file = one}};
	union kr_any_msg reply = {0};

	kr_dir_fsync_answered(*state, KR_MSG_CREATE, &create, &reply, at(100));
	kr_dir_fsync_answered(*state, KR_MSG_GETATTR, &getattr, &reply, at(100));
	assert_int_equal(kr_dir_fsync_booted(*state, at(101), at(101)), 0);
	reply.create_reply.created = 1;
	kr_dir_fsync_answered(*state, KR_MSG_CREATE, &create, &reply, at(100));
	assert_int_equal(kr_dir_fsync_booted(*state, at(101), at(101)), 1);
	assert_int_equal(fsync_of(*state, &one), -EIO);
	kr_dir_fsync_answered(*state, KR_MSG_RENAME, &rename, &reply, at(100));
	assert_int_equal(kr_dir_fsync_booted(*state, at(101), at(101)), 2);
	assert_int_equal(fsync_of(*state, &one), -EIO);
	assert_int_equal(fsync_of(*state, &two), -EIO);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_was_changed_before_a_boot_fails_once),
		TEST(what_was_synced_before_is_not_lost),
		TEST(a_change_beside_a_sync_is_not_synced),
		TEST(a_sync_beside_a_boot_has_not_synced_what_was_before),
		TEST(a_failed_sync_has_synced_nothing),
		TEST(what_is_long_past_is_on_the_disk_by_itself),
		TEST(what_is_lost_stays_lost_for_a_while),
		TEST(only_the_latest_are_remembered),
		TEST(a_rename_changes_two_directories_and_an_open_of_what_is_there_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

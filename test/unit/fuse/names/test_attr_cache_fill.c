/* What a node has noted after answers to requests of its own that change something, and while they are under way. */
#include "fuse/names/attr_cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/stat.h>

#include "common/rpc/lookups.h"
#include "common/rpc/msg.h"
#include "fuse/names/kernel_attrs.h"

static struct kr_mount mount;
static const struct kr_cred user = {.uid = 1000, .gid = 1000}, other = {.uid = 1001, .gid = 1001};
static const struct kr_fid dir = {2, {1, 1}}, file = {2, {2, 2}}, second = {2, {3, 3}};
static const struct kr_attr dir_attr = {.ino = 1, .nlink = 2, .mode = S_IFDIR | 0755},
			    file_attr = {.ino = 2, .nlink = 1}, changed = {.ino = 1, .nlink = 7};
#define HEARD_NS UINT64_C(77)
enum { NOTED = KR_FRAME_CACHEABLE | KR_FRAME_CACHEABLE_ATTR };

static int set_up(void **state)
{
	(void)state;
	memset(&mount, 0, sizeof(mount));
	mount.attr_cache = kr_attr_cache_new();
	mount.kernel_attrs = kr_kernel_attrs_new();
	atomic_store(&mount.fence_at_ns, UINT64_MAX);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	kr_kernel_attrs_free(mount.kernel_attrs);
	kr_attr_cache_free(mount.attr_cache);
	return 0;
}

static void answer(uint16_t type, const void *request, int err, const void *reply, uint16_t flags)
{
	kr_attr_cache_learn(&mount, type, request, err, reply, flags, kr_clock_ns(), HEARD_NS);
}

static void look_up(const struct kr_cred *cred, const char *name, const struct kr_fid *fid, const struct kr_attr *attr)
{
	answer(KR_MSG_LOOKUP, &(struct kr_lookup_request){.cred = *cred, .parent = dir, .name = name},
		fid ? 0 : -ENOENT, fid ? &(struct kr_lookup_reply){.file = *fid, .attr = *attr} : NULL,
		fid ? NOTED : KR_FRAME_CACHEABLE);
}

static void open_file(const struct kr_cred *cred, uint32_t flags, uint16_t noted)
{
	answer(KR_MSG_OPEN, &(struct kr_open_request){.cred = *cred, .file = file, .flags = flags}, 0,
		&(struct kr_open_reply){.attr = file_attr}, noted);
}

static void list(void)
{
	answer(KR_MSG_READDIR, &(struct kr_readdir_request){.cred = user, .file = dir}, 0,
		&(struct kr_readdir_reply){.end = 1}, KR_FRAME_CACHEABLE);
	answer(KR_MSG_GETATTR, &(struct kr_getattr_request){.file = dir}, 0,
		&(struct kr_getattr_reply){.attr = dir_attr}, KR_FRAME_CACHEABLE_ATTR);
}

/* 1: it stands for a file, 0: for none, -1: it is not known. */
static int says(const struct kr_cred *cred, const char *name)
{
	struct kr_fid fid;
	struct kr_attr attr;
	uint64_t asked_ns;
	int err;

	if (!kr_attr_cache_lookup(&mount, cred, &dir, name, &err, &fid, &attr, &asked_ns))
		return -1;
	assert_true(err == 0 || err == -ENOENT);
	return err == 0;
}

static bool is_listed(void)
{
	uint8_t buffer[64];
	size_t length;
	bool end;

	return kr_attr_cache_readdir(&mount, &user, &dir, 0, buffer, sizeof(buffer), &length, &end);
}

static uint32_t links(const struct kr_fid *fid)
{
	struct kr_attr attr;
	uint64_t asked_ns;

	return kr_attr_cache_getattr(&mount, fid, &attr, &asked_ns) ? attr.nlink : 0;
}

static void a_removal_leaves_other_names_known(void **state)
{
	struct kr_remove_request remove = {.cred = user, .parent = dir, .name = "a"};

	(void)state;
	look_up(&user, "a", &file, &file_attr);
	look_up(&other, "b", &second, &file_attr);
	look_up(&user, "none", NULL, NULL);
	list();
	assert_true(is_listed());
	answer(KR_MSG_REMOVE, &remove, 0, &(struct kr_remove_reply){.dir = changed}, KR_FRAME_CACHEABLE);
	assert_int_equal(says(&user, "a"), 0);
	assert_int_equal(says(&other, "a"), 0);
	assert_int_equal(says(&user, "b"), 1);
	assert_int_equal(says(&user, "none"), 0);
	assert_false(is_listed());
	assert_int_equal(links(&dir), 7);
}

static void what_may_not_be_noted_is_forgotten_all_the_same(void **state)
{
	(void)state;
	for (int err = 0; err >= -EINTR; err -= EINTR) {
		look_up(&user, "a", &file, &file_attr);
		look_up(&user, "b", &second, &file_attr);
		list();
		answer(KR_MSG_REMOVE, &(struct kr_remove_request){.cred = other, .parent = dir, .name = "a"}, err,
			err ? NULL : &(struct kr_remove_reply){.dir = changed}, 0);
		assert_int_equal(says(&user, "a"), -1);
		assert_int_equal(says(&user, "b"), 1);
		assert_false(is_listed());
		assert_int_equal(links(&dir), 0);
	}
}

static void what_is_made_is_known_and_its_absence_forgotten(void **state)
{
	(void)state;
	for (int round = 0; round < 2; round++) {
		uint16_t flags = round ? 0 : NOTED;

		look_up(&user, "a", NULL, NULL);
		look_up(&user, "d", NULL, NULL);
		look_up(&user, "l", NULL, NULL);
		list();
		answer(KR_MSG_CREATE, &(struct kr_create_request){.cred = user, .parent = dir, .name = "a"}, 0,
			&(struct kr_create_reply){.created = 1, .file = file, .attr = file_attr, .dir = changed},
			flags);
		answer(KR_MSG_MAKE, &(struct kr_make_request){.cred = user, .parent = dir, .name = "d", .target = ""},
			0, &(struct kr_make_reply){.file = second, .attr = file_attr, .dir = changed}, flags);
		answer(KR_MSG_LINK, &(struct kr_link_request){.cred = user, .parent = dir, .name = "l", .file = file},
			0, &(struct kr_link_reply){.file = file, .attr = changed, .dir = changed}, flags);
		assert_int_equal(says(&user, "a"), round ? -1 : 1);
		assert_int_equal(says(&user, "d"), round ? -1 : 1);
		assert_int_equal(says(&user, "l"), round ? -1 : 1);
		assert_int_equal(links(&file), round ? 0 : 7); /* the link's, not the creation's */
		assert_int_equal(links(&dir), round ? 0 : 7);
	}
}

static void a_directory_of_our_own_making_is_known_as_a_whole(void **state)
{
	struct kr_make_request make = {
		.cred = user, .parent = second, .name = "dir", .mode = S_IFDIR | 0755, .target = ""};
	struct kr_make_reply made = {
		.file = dir, .attr = {.ino = 1, .mode = S_IFDIR | 0755, .nlink = 2}, .dir = changed};
	struct kr_create_request create = {.cred = user, .parent = dir, .name = "a"};
	struct kr_create_reply created = {.created = 1, .file = file, .attr = file_attr, .dir = changed};
	const struct {
		int err;
		uint16_t flags;
	} unknown[] = {{0, 0}, {0, KR_FRAME_CACHEABLE_ATTR}, {-EEXIST, 0}, {-EINTR, 0}};

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(unknown); i++) {
		answer(KR_MSG_MAKE, &make, 0, &made, NOTED);
		assert_int_equal(says(&user, "a"), -1); /* whether he may search it is not known yet */
		look_up(&user, "none", NULL, NULL);
		assert_int_equal(says(&user, "a"), 0);
		assert_int_equal(says(&other, "a"), -1);
		answer(KR_MSG_CREATE, &create, 0, &created, NOTED);
		assert_int_equal(says(&user, "a"), 1);
		assert_int_equal(says(&user, "b"), 0);
		answer(KR_MSG_REMOVE, &(struct kr_remove_request){.cred = user, .parent = dir, .name = "a"}, 0,
			&(struct kr_remove_reply){.dir = changed}, KR_FRAME_CACHEABLE);
		assert_int_equal(says(&user, "a"), 0);
		assert_int_equal(says(&user, "b"), 0);
		answer(KR_MSG_CREATE, &create, unknown[i].err, unknown[i].err ? NULL : &created, unknown[i].flags);
		assert_int_equal(says(&user, "a"), -1);
		assert_int_equal(says(&user, "b"), -1);
		tear_down(state);
		set_up(state);
	}
	answer(KR_MSG_MAKE, &make, 0, &made, KR_FRAME_CACHEABLE); /* somebody may be making something there */
	look_up(&user, "none", NULL, NULL);
	assert_int_equal(says(&user, "a"), -1);
	answer(KR_MSG_MAKE, &make, 0, &made, NOTED);
	look_up(&user, "none", NULL, NULL);
	answer(KR_MSG_RENAME,
		&(struct kr_rename_request){
			.cred = user, .parent = second, .name = "x", .new_parent = dir, .new_name = "y"},
		0, NULL, 0);
	assert_int_equal(says(&user, "y"), -1);
	assert_int_equal(says(&user, "a"), -1);
}

/* An answer to READDIR with NAMES, asked for at ASKED_NS. */
static void list_all(const char *const *names, size_t count, uint64_t asked_ns, uint16_t flags)
{
	struct kr_readdir_request request = {.cred = user, .file = dir};
	struct kr_writer entries;

	kr_writer_init(&entries);
	for (size_t i = 0; i < count; i++) {
		kr_put_u64(&entries, i + 10);
		kr_put_u64(&entries, i + 1);
		kr_put_u8(&entries, 8);
		kr_put_u8(&entries, (uint8_t)strlen(names[i]));
		kr_put_bytes(&entries, names[i], strlen(names[i]));
	}
	kr_attr_cache_learn(&mount, KR_MSG_READDIR, (const void *)&request, 0,
		&(struct kr_readdir_reply){.end = 1, .entries = {entries.bytes, (uint32_t)entries.length}}, flags,
		asked_ns, HEARD_NS);
	kr_writer_fini(&entries);
}

static const char *const listed_names[] = {".", "..", "zebra", "a", "m"};

static void what_a_whole_listing_lacks_is_absent(void **state)
{
	struct kr_create_request create = {.cred = user, .parent = dir, .name = "new"};
	struct kr_create_reply created = {.created = 1, .file = file, .attr = file_attr, .dir = changed};

	(void)state;
	list_all(listed_names, KR_ARRAY_SIZE(listed_names), kr_clock_ns(), NOTED);
	assert_int_equal(says(&user, "new"), -1); /* whether he may search it is not known yet */
	look_up(&user, "none", NULL, NULL);
	assert_int_equal(says(&user, "new"), 0);
	assert_int_equal(says(&other, "new"), -1);
	for (size_t i = 2; i < KR_ARRAY_SIZE(listed_names); i++)
		assert_int_equal(says(&user, listed_names[i]), -1);
	answer(KR_MSG_CREATE, &create, 0, &created, NOTED);
	assert_int_equal(says(&user, "new"), 1);
	assert_int_equal(says(&user, "other"), 0);
	answer(KR_MSG_REMOVE, &(struct kr_remove_request){.cred = user, .parent = dir, .name = "a"}, 0,
		&(struct kr_remove_reply){.dir = changed}, KR_FRAME_CACHEABLE);
	assert_int_equal(says(&user, "a"), 0);
	assert_int_equal(says(&user, "m"), -1);
	answer(KR_MSG_CREATE, &create, -EEXIST, NULL, 0);
	assert_int_equal(says(&user, "other"), -1);
}

/* Not all names; names that have other spellings; an answer that makes no sense. */
static void other_listings_say_nothing_of_what_they_lack(void **state)
{
	static const char *const malformed[] = {"a", ""};

	(void)state;
	look_up(&user, "none", NULL, NULL);
	list_all(listed_names, KR_ARRAY_SIZE(listed_names), kr_clock_ns(), KR_FRAME_CACHEABLE);
	assert_int_equal(says(&user, "new"), -1);
	list_all(listed_names, KR_ARRAY_SIZE(listed_names), kr_clock_ns(), 0);
	assert_int_equal(says(&user, "new"), -1);
	list_all(malformed, KR_ARRAY_SIZE(malformed), kr_clock_ns(), NOTED);
	assert_int_equal(says(&user, "new"), -1);
}

/* Else the listing would deny it when the entry of that name has become too old. */
static void a_listing_asked_for_after_a_name_that_it_lacks_is_forgotten_with_it(void **state)
{
	uint64_t later_ns = kr_clock_ns() + KR_NS_PER_S;

	(void)state;
	look_up(&user, "none", NULL, NULL);
	list_all(listed_names, KR_ARRAY_SIZE(listed_names), later_ns, NOTED);
	assert_int_equal(says(&user, "other"), 0);
	look_up(&user, "a", &file, &file_attr);
	assert_int_equal(says(&user, "other"), 0);
	look_up(&user, "new", &file, &file_attr);
	assert_int_equal(says(&user, "new"), 1);
	assert_int_equal(says(&user, "other"), -1);
}

static void both_names_of_a_rename_are_forgotten(void **state)
{
	struct kr_rename_request rename = {
		.cred = user, .parent = dir, .name = "a", .new_parent = dir, .new_name = "b"};

	(void)state;
	look_up(&user, "a", &file, &file_attr);
	look_up(&user, "b", NULL, NULL);
	look_up(&user, "c", &second, &file_attr);
	list();
	answer(KR_MSG_RENAME, &rename, 0, NULL, 0);
	assert_int_equal(says(&user, "a"), -1);
	assert_int_equal(says(&user, "b"), -1);
	assert_int_equal(says(&user, "c"), 1);
	assert_false(is_listed());
	assert_int_equal(links(&dir), 0);
}

static void a_rename_that_may_be_noted_moves_what_the_name_stood_for(void **state)
{
	struct kr_rename_request rename = {
		.cred = user, .parent = dir, .name = "a", .new_parent = dir, .new_name = "new"};
	struct kr_fid found;
	struct kr_attr attr;
	uint64_t asked_ns;
	int err;

	(void)state;
	list_all(listed_names, KR_ARRAY_SIZE(listed_names), kr_clock_ns(), NOTED);
	look_up(&user, "a", &file, &file_attr);
	answer(KR_MSG_RENAME, &rename, 0, NULL, KR_FRAME_CACHEABLE);
	assert_int_equal(says(&user, "a"), 0);
	assert_int_equal(says(&user, "new"), 1);
	assert_true(kr_attr_cache_lookup(&mount, &user, &dir, "new", &err, &found, &attr, &asked_ns));
	assert_true(kr_fid_equal(&found, &file));
	assert_int_equal(says(&user, "other"), 0); /* the listing still says what is absent */
	assert_int_equal(says(&user, "m"), -1);
	assert_int_equal(links(&dir), 0);
	/* Not known what it was: it is one more name that exists, and the listing denies it. */
	rename = (struct kr_rename_request){
		.cred = user, .parent = dir, .name = "m", .new_parent = dir, .new_name = "newer"};
	answer(KR_MSG_RENAME, &rename, 0, NULL, KR_FRAME_CACHEABLE);
	assert_int_equal(says(&user, "m"), 0);
	assert_int_equal(says(&user, "newer"), -1);
	assert_int_equal(says(&user, "other"), -1);
}

/* A program on the server may have replaced it just before.  INVALIDATE of the old directory would not tell. */
static void what_a_rename_moves_to_another_directory_is_not_known(void **state)
{
	struct kr_rename_request rename = {
		.cred = user, .parent = dir, .name = "a", .new_parent = second, .new_name = "new"};
	struct kr_fid found;
	struct kr_attr attr;
	uint64_t asked_ns;
	int err;

	(void)state;
	look_up(&user, "a", &file, &file_attr);
	answer(KR_MSG_RENAME, &rename, 0, NULL, KR_FRAME_CACHEABLE);
	assert_int_equal(says(&user, "a"), 0);
	assert_false(kr_attr_cache_lookup(&mount, &user, &second, "new", &err, &found, &attr, &asked_ns));
}

static void a_directory_whose_attributes_are_not_said_is_not_known(void **state)
{
	(void)state;
	list();
	answer(KR_MSG_REMOVE, &(struct kr_remove_request){.cred = user, .parent = dir, .name = "a"}, 0,
		&(struct kr_remove_reply){0}, KR_FRAME_CACHEABLE);
	assert_int_equal(links(&dir), 0);
	assert_int_equal(says(&user, "a"), 0);
}

static void names_are_known_to_who_has_been_seen_to_search(void **state)
{
	(void)state;
	look_up(&user, "a", &file, &file_attr);
	assert_int_equal(says(&other, "a"), -1);
	look_up(&other, "none", NULL, NULL);
	assert_int_equal(says(&other, "a"), 1);
	answer(KR_MSG_LOOKUP, &(struct kr_lookup_request){.cred = {.uid = 7}, .parent = dir, .name = "a"}, -EACCES,
		NULL, KR_FRAME_CACHEABLE);
	assert_int_equal(says(&(struct kr_cred){.uid = 7}, "a"), -1);
}

static void learn_dir_attr(uint32_t mode, uint16_t flags)
{
	answer(KR_MSG_GETATTR, &(struct kr_getattr_request){.file = dir}, 0,
		&(struct kr_getattr_reply){.attr = {.ino = 1, .mode = mode}}, flags);
}

static void what_all_may_search_is_known_whoever_asks(void **state)
{
	enum { BARE = KR_FRAME_CACHEABLE_ATTR | KR_FRAME_BARE };

	(void)state;
	look_up(&user, "a", &file, &file_attr);
	look_up(&user, "none", NULL, NULL);
	assert_int_equal(says(NULL, "a"), -1);
	learn_dir_attr(S_IFDIR | 0755, KR_FRAME_CACHEABLE_ATTR); /* there may be an ACL */
	assert_int_equal(says(NULL, "a"), -1);
	learn_dir_attr(S_IFDIR | 0755, BARE);
	assert_int_equal(says(NULL, "a"), 1);
	assert_int_equal(says(NULL, "none"), 0);
	for (uint32_t bit = 0; bit < 9; bit++) {
		learn_dir_attr(S_IFDIR | (0777 & ~(1u << bit)), BARE);
		assert_int_equal(says(NULL, "a"), bit % 3 ? 1 : -1);
	}
}

static void remove_a(void)
{
	answer(KR_MSG_REMOVE, &(struct kr_remove_request){.cred = user, .parent = dir, .name = "a"}, 0,
		&(struct kr_remove_reply){.dir = {.ino = 1, .nlink = 7, .mode = S_IFDIR | 0755}}, KR_FRAME_CACHEABLE);
}

static void a_change_of_our_own_leaves_a_directory_bare_or_not(void **state)
{
	(void)state;
	look_up(&user, "none", NULL, NULL);
	remove_a();
	assert_int_equal(links(&dir), 0); /* GETATTR shall ask for both */
	learn_dir_attr(S_IFDIR | 0755, KR_FRAME_CACHEABLE_ATTR);
	remove_a();
	assert_int_equal(links(&dir), 7);
	assert_int_equal(says(NULL, "none"), -1);
	learn_dir_attr(S_IFDIR | 0755, KR_FRAME_CACHEABLE_ATTR | KR_FRAME_BARE);
	remove_a();
	assert_int_equal(links(&dir), 7);
	assert_int_equal(says(NULL, "none"), 0);
}

static void what_a_change_of_our_own_says_is_true_from_its_answer_on(void **state)
{
	struct kr_attr attr;
	uint64_t true_ns;

	(void)state;
	answer(KR_MSG_GETATTR, &(struct kr_getattr_request){.file = file}, 0,
		&(struct kr_getattr_reply){.attr = file_attr}, KR_FRAME_CACHEABLE_ATTR);
	assert_true(kr_attr_cache_getattr(&mount, &file, &attr, &true_ns));
	assert_int_not_equal(true_ns, HEARD_NS + 1);
	answer(KR_MSG_SETATTR, &(struct kr_setattr_request){.file = file}, 0,
		&(struct kr_setattr_reply){.attr = {.ino = 2, .nlink = 5}}, 0);
	assert_int_equal(links(&file), 1); /* the server has told to forget it by itself */
	answer(KR_MSG_SETATTR, &(struct kr_setattr_request){.file = file}, 0,
		&(struct kr_setattr_reply){.attr = {.ino = 2, .nlink = 5}}, KR_FRAME_CACHEABLE_ATTR);
	assert_true(kr_attr_cache_getattr(&mount, &file, &attr, &true_ns));
	assert_int_equal(attr.nlink, 5);
	assert_int_equal(true_ns, HEARD_NS + 1);
}

static void many_answers_at_once_are_as_many_answers(void **state)
{
	struct kr_writer names, found;

	(void)state;
	kr_writer_init(&names);
	kr_writer_init(&found);
	kr_lookups_put_name(&names, "a");
	kr_lookups_put_name(&names, "left out");
	kr_lookups_put_name(&names, "none");
	kr_lookups_put_name(&names, "b");
	kr_lookups_put_found(
		&found, &(struct kr_found){.number = 0, .kind = KR_FOUND_FILE, .fid = file, .attr = file_attr});
	kr_lookups_put_found(&found, &(struct kr_found){.number = 2, .kind = KR_FOUND_NOTHING});
	kr_lookups_put_found(
		&found, &(struct kr_found){.number = 3, .kind = KR_FOUND_BARE, .fid = second, .attr = file_attr});
	answer(KR_MSG_LOOKUPS,
		&(struct kr_lookups_request){
			.cred = user, .parent = dir, .names = {names.bytes, (uint32_t)names.length}},
		0, &(struct kr_lookups_reply){.found = {found.bytes, (uint32_t)found.length}}, KR_FRAME_CACHEABLE);
	assert_int_equal(says(&user, "a"), 1);
	assert_int_equal(says(&user, "left out"), -1);
	assert_int_equal(says(&user, "none"), 0);
	assert_int_equal(says(&user, "b"), 1);
	/* More than was asked for, and what makes no sense: the rest is left. */
	found.bytes[0] = 5;
	answer(KR_MSG_LOOKUPS, &(struct kr_lookups_request){.cred = user, .parent = dir, .names = {names.bytes, 2}}, 0,
		&(struct kr_lookups_reply){.found = {found.bytes, (uint32_t)found.length}}, KR_FRAME_CACHEABLE);
	kr_writer_fini(&names);
	kr_writer_fini(&found);
}

static void *begin(uint16_t type, const void *request)
{
	return kr_attr_cache_change_begin(&mount, type, request);
}

static void look_up_all(void)
{
	look_up(&user, "a", &file, &file_attr);
	look_up(&user, "b", &second, &file_attr);
	look_up(&user, "none", NULL, NULL);
	list();
}

static void a_name_is_not_known_while_we_change_it(void **state)
{
	void *change, *other_change;

	(void)state;
	look_up_all();
	change = begin(KR_MSG_REMOVE, &(struct kr_remove_request){.cred = user, .parent = dir, .name = "a"});
	other_change = begin(
		KR_MSG_MAKE, &(struct kr_make_request){.cred = user, .parent = dir, .name = "none", .target = ""});
	look_up_all(); /* answers to what was asked before */
	assert_int_equal(says(&user, "a"), -1);
	assert_int_equal(says(&user, "none"), -1);
	assert_int_equal(says(&user, "b"), 1);
	assert_false(is_listed());
	assert_int_equal(links(&dir), 0);
	assert_int_equal(links(&file), 0); /* it has one name less */
	assert_int_equal(links(&second), 1);
	kr_attr_cache_change_end(&mount, change);
	assert_int_equal(says(&user, "a"), 1);
	assert_int_equal(says(&user, "none"), -1);
	assert_false(is_listed());
	kr_attr_cache_change_end(&mount, other_change);
	assert_int_equal(says(&user, "none"), 0);
	assert_true(is_listed());
	assert_int_equal(links(&dir), 2);
}

static void what_stands_behind_both_names_of_a_rename_is_not_known_meanwhile(void **state)
{
	struct kr_rename_request rename = {
		.cred = user, .parent = dir, .name = "a", .new_parent = dir, .new_name = "b"};
	void *change;

	(void)state;
	look_up_all();
	change = begin(KR_MSG_RENAME, &rename);
	assert_int_equal(says(&user, "a"), -1);
	assert_int_equal(says(&user, "b"), -1);
	assert_int_equal(links(&file), 0);
	assert_int_equal(links(&second), 0);
	assert_int_equal(says(&user, "none"), 0);
	kr_attr_cache_change_end(&mount, change);
}

static void nothing_of_a_file_is_known_while_we_change_it(void **state)
{
	const struct {
		uint16_t type;
		union kr_any_msg msg;
	} changes[] = {
		{KR_MSG_SETATTR, {.setattr_request = {.cred = user, .file = file}}},
		{KR_MSG_SETXATTR, {.setxattr_request = {.cred = user, .file = file, .name = "user.x"}}},
		{KR_MSG_REMOVEXATTR, {.removexattr_request = {.cred = user, .file = file, .name = "user.x"}}},
		{KR_MSG_FALLOCATE, {.fallocate_request = {.cred = user, .file = file}}},
		{KR_MSG_COPY, {.copy_request = {.cred = user, .from = second, .to = file}}},
		{KR_MSG_OPEN, {.open_request = {.cred = user, .file = file, .flags = 1 | 4}}},
	};
	void *change;

	(void)state;
	look_up_all();
	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		change = begin(changes[i].type, &changes[i].msg);
		assert_int_equal(links(&file), 0);
		assert_int_equal(says(&user, "a"), -1);
		assert_int_equal(links(&second), 1);
		assert_int_equal(says(&user, "b"), 1);
		kr_attr_cache_change_end(&mount, change);
		assert_int_equal(links(&file), 1);
	}
	change = begin(KR_MSG_OPEN, &(struct kr_open_request){.cred = user, .file = file});
	assert_null(change);
	assert_int_equal(links(&file), 1);
}

static void who_may_open_is_known_from_an_open_until_the_file_changes(void **state)
{
	enum { EXECUTE = 8, NOATIME = 16 };
	void *change;

	(void)state;
	open_file(&user, NOATIME, 0);
	assert_false(kr_attr_cache_may_open(&mount, &user, &file, false));
	open_file(&user, NOATIME, KR_FRAME_CACHEABLE);
	assert_true(kr_attr_cache_may_open(&mount, &user, &file, false));
	assert_false(kr_attr_cache_may_open(&mount, &user, &file, true));
	assert_false(kr_attr_cache_may_open(&mount, &other, &file, false));
	assert_false(kr_attr_cache_may_open(&mount, &user, &second, false));
	open_file(&user, EXECUTE, KR_FRAME_CACHEABLE);
	assert_true(kr_attr_cache_may_open(&mount, &user, &file, true));

	change = begin(KR_MSG_SETATTR, &(struct kr_setattr_request){.file = file});
	assert_false(kr_attr_cache_may_open(&mount, &user, &file, false));
	kr_attr_cache_change_end(&mount, change);
	kr_attr_cache_clear(&mount);
	assert_false(kr_attr_cache_may_open(&mount, &user, &file, false));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_removal_leaves_other_names_known, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_may_not_be_noted_is_forgotten_all_the_same, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_made_is_known_and_its_absence_forgotten, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_directory_of_our_own_making_is_known_as_a_whole, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_a_whole_listing_lacks_is_absent, set_up, tear_down),
		cmocka_unit_test_setup_teardown(other_listings_say_nothing_of_what_they_lack, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_listing_asked_for_after_a_name_that_it_lacks_is_forgotten_with_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(both_names_of_a_rename_are_forgotten, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_rename_that_may_be_noted_moves_what_the_name_stood_for, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_a_rename_moves_to_another_directory_is_not_known, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			a_directory_whose_attributes_are_not_said_is_not_known, set_up, tear_down),
		cmocka_unit_test_setup_teardown(names_are_known_to_who_has_been_seen_to_search, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_all_may_search_is_known_whoever_asks, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_change_of_our_own_leaves_a_directory_bare_or_not, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_a_change_of_our_own_says_is_true_from_its_answer_on, set_up, tear_down),
		cmocka_unit_test_setup_teardown(many_answers_at_once_are_as_many_answers, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_name_is_not_known_while_we_change_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			what_stands_behind_both_names_of_a_rename_is_not_known_meanwhile, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nothing_of_a_file_is_known_while_we_change_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(
			who_may_open_is_known_from_an_open_until_the_file_changes, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

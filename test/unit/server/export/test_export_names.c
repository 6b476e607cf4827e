/* Names in the export: making, finding, linking, renaming, removing; and that nothing leads out of it. */
#include "test/unit/server/export/export_fixture.h"

#include "server/export/export_priv.h"
#include "server/base/fid.h"
#include "server/export/intent.h"

static struct kr_fid look_up(const struct kr_fid *parent, const char *name)
{
	struct kr_attr attr;
	struct kr_fid fid;

	ok(kr_export_lookup(F.export, &root_cred, parent, name, &fid, &attr));
	return fid;
}

static int look_up_error(const struct kr_fid *parent, const char *name)
{
	struct kr_attr attr;
	struct kr_fid fid;

	return kr_export_lookup(F.export, &root_cred, parent, name, &fid, &attr);
}

static void any_bytes_and_255_of_them_make_a_name(void **state)
{
	char name[KR_NAME_MAX + 2];
	struct kr_fid made, found;
	int i;

	(void)state;
	for (i = 0; i < KR_NAME_MAX; i++)
		name[i] = (char)(i + 1 == '/' ? 'x' : i + 1);
	name[KR_NAME_MAX] = 0;
	made = make(&F.root, name, S_IFREG | 0644);
	found = look_up(&F.root, name);
	assert_true(kr_fid_equal(&made, &found));
	name[KR_NAME_MAX] = 'y';
	name[KR_NAME_MAX + 1] = 0;
	fails(ENAMETOOLONG, look_up_error(&F.root, name));
}

/* --- turns (intent.h) --- */

static struct said {
	struct kr_intent turn;
	const struct kr_fid *directory;
	int begun, ended, err;
	struct kr_intent_change change;
	uint64_t after;
} said;

/* Nobody else can be about to change a name in the directory. */
static void assert_locked(void)
{
	assert_int_equal(pthread_mutex_trylock(kr_export_lock_of(F.export, said.directory)), EBUSY);
}

static void say_begin(struct kr_intent *turn, const struct kr_intent_change *change)
{
	(void)turn;
	assert_locked();
	assert_int_equal(said.begun++, said.ended);
	assert_true(kr_fid_equal(change->parent, said.directory));
	said.change = *change;
}

static void say_end(struct kr_intent *turn, int err, uint64_t after)
{
	(void)turn;
	assert_locked();
	assert_int_equal(++said.ended, said.begun);
	said.err = err;
	said.after = after;
}

/* One turn has been taken since the last call, and told of the file before and the one that was made. */
static void one_turn(int err, const struct kr_fid *before, const struct kr_fid *after)
{
	assert_int_equal(said.ended, 1);
	assert_int_equal(said.err, err);
	assert_int_equal(said.change.before, before ? kr_fid_hash(before) : 0);
	assert_int_equal(said.after, after ? kr_fid_hash(after) : 0);
	said.begun = said.ended = 0;
}

static void names_change_in_turns_while_nobody_else_changes_them(void **state)
{
	struct kr_make request = {.name = "made", .mode = S_IFDIR | 0755};
	struct kr_create create = {.name = "f", .mode = 0644, .exclusive = true};
	struct kr_fid directory = make(&F.root, "d", S_IFDIR | 0755), made, file;
	struct kr_attr attr;
	bool created;

	(void)state;
	said = (struct said){.turn = {.begin = say_begin, .end = say_end}, .directory = &directory};
	kr_intent_take(&said.turn);
	ok(kr_export_make(F.export, &root_cred, &directory, &request, &made, &attr));
	one_turn(0, NULL, &made);
	assert_int_equal(said.change.kind, KR_INTENT_MAKE);
	assert_int_equal(said.change.type, S_IFDIR);
	assert_string_equal(said.change.name, "made");
	fails(EEXIST, kr_export_make(F.export, &root_cred, &directory, &request, &file, &attr));
	assert_int_equal(said.begun, 0);
	ok(kr_export_create(F.export, &root_cred, &directory, &create, &created, &file, &attr));
	one_turn(0, NULL, &file);
	assert_int_equal(said.change.kind, KR_INTENT_MAKE);
	assert_int_equal(said.change.type, S_IFREG);
	fails(EEXIST, kr_export_create(F.export, &root_cred, &directory, &create, &created, &file, &attr));
	assert_int_equal(said.begun, 0);
	ok(kr_export_link(F.export, &root_cred, &file, &directory, "g", &attr));
	one_turn(0, NULL, NULL);
	assert_int_equal(said.change.kind, KR_INTENT_LINK);
	assert_int_equal(said.change.other, kr_fid_hash(&file));
	ok(kr_export_rename(F.export, &root_cred, &directory, "g", &directory, "h", 0, 0, NULL));
	one_turn(0, &file, NULL);
	assert_int_equal(said.change.kind, KR_INTENT_RENAME);
	assert_int_equal(said.change.other, 0);
	assert_string_equal(said.change.name, "g");
	assert_string_equal(said.change.new_name, "h");
	ok(kr_export_rename(F.export, &root_cred, &directory, "made", &directory, "h", 2, 0, NULL));
	one_turn(0, &made, NULL);
	assert_int_equal(said.change.other, kr_fid_hash(&file));
	ok(kr_export_rename(F.export, &root_cred, &directory, "h", &F.root, "made", 0, 0, NULL));
	one_turn(0, &made, NULL);
	assert_true(kr_fid_equal(said.change.new_parent, &F.root));
	ok(kr_export_rename(F.export, &root_cred, &directory, "made", &directory, "h", 0, 0, NULL));
	one_turn(0, &file, NULL);
	said.directory = &F.root;
	ok(kr_export_rename(F.export, &root_cred, &F.root, "made", &directory, "made", 0, 0, NULL));
	one_turn(0, &made, NULL);
	said.directory = &directory;
	fails(ENOTDIR, kr_export_remove(F.export, &root_cred, &directory, "h", true, 0, NULL));
	one_turn(-ENOTDIR, &file, NULL);
	assert_int_equal(said.change.kind, KR_INTENT_REMOVE);
	said.turn.expected = kr_fid_hash(&made);
	fails(ENOENT, kr_export_remove(F.export, &root_cred, &directory, "h", false, 0, NULL));
	fails(ENOENT, kr_export_rename(F.export, &root_cred, &directory, "h", &directory, "i", 0, 0, NULL));
	assert_int_equal(said.begun, 0);
	ok(kr_export_remove(F.export, &root_cred, &directory, "made", true, 0, NULL));
	one_turn(0, &made, NULL);
	kr_intent_take(NULL);
	ok(kr_export_remove(F.export, &root_cred, &directory, "h", false, 0, NULL));
	assert_int_equal(said.begun, 0);
}

static void what_is_no_single_name_is_refused(void **state)
{
	static const char *const names[] = {"", ".", "..", "/", "a/b", "../outside", "/etc"};
	struct kr_fid directory = make(&F.root, "d", S_IFDIR | 0755);
	struct kr_make request = {.mode = S_IFDIR | 0755};
	struct kr_attr attr;
	struct kr_fid fid;
	size_t i;

	(void)state;
	for (i = 0; i < KR_ARRAY_SIZE(names); i++) {
		request.name = names[i];
		fails(EINVAL, look_up_error(&directory, names[i]));
		fails(EINVAL, kr_export_make(F.export, &root_cred, &directory, &request, &fid, &attr));
		fails(EINVAL, kr_export_remove(F.export, &root_cred, &directory, names[i], false, 0, NULL));
		fails(EINVAL, kr_export_rename(F.export, &root_cred, &F.root, "d", &directory, names[i], 0, 0, NULL));
		fails(EINVAL, kr_export_link(F.export, &root_cred, &directory, &directory, names[i], &attr));
	}
}

static void symbolic_links_are_never_followed(void **state)
{
	struct kr_create create = {.name = "out", .mode = 0644, .flags = KR_OPEN_WRITE};
	char target[KR_PATH_MAX + 1], there[80];
	struct kr_attr attr;
	struct kr_fid link, fid;
	bool created;

	(void)state;
	snprintf(there, sizeof(there), "%s/outside", F.base);
	ok(kr_export_make(F.export, &root_cred, &F.root,
		&(struct kr_make){.name = "out", .mode = S_IFLNK | 0777, .target = there}, &link, &attr));
	assert_true(S_ISLNK(attr.mode));
	ok(kr_export_readlink(F.export, &link, target));
	assert_string_equal(target, there);
	fails(ENOTDIR, look_up_error(&link, "x"));
	fails(ENXIO, kr_export_open(F.export, &root_cred, &link, KR_OPEN_READ, &attr));
	fails(ELOOP, kr_export_create(F.export, &root_cred, &F.root, &create, &created, &fid, &attr));
	fails(ENOTDIR, kr_export_walk(F.export, NULL, "out/x", &fid, &attr));
	fid = make(&F.root, "file", S_IFREG | 0644);
	fails(EINVAL, kr_export_readlink(F.export, &fid, target));
}

static void a_mount_below_is_not_entered(void **state)
{
	struct kr_fid directory = make(&F.root, "mounted", S_IFDIR | 0755);
	struct kr_fid inside = make(&directory, "below", S_IFREG | 0644);
	int looked_up, removed;

	(void)state;
	if (!is_root() || !can_mount)
		skip();
	assert_int_equal(mount("none", on_disk("mounted"), "tmpfs", 0, NULL), 0);
	looked_up = look_up_error(&F.root, "mounted");
	removed = kr_export_remove(F.export, &root_cred, &F.root, "mounted", true, 0, NULL);
	assert_int_equal(umount(on_disk("mounted")), 0);
	fails(EXDEV, looked_up);
	fails(EBUSY, removed);
	look_up(&directory, "below");
	attr_of(&inside);
}

static void the_servers_own_directory_is_hidden(void **state)
{
	struct kr_make request = {.name = ".kairan", .mode = S_IFDIR | 0755};
	struct kr_fid fid = make(&F.root, "f", S_IFREG | 0644), directory;
	struct kr_attr attr;

	(void)state;
	fails(ENOENT, look_up_error(&F.root, ".kairan"));
	fails(EPERM, kr_export_make(F.export, &root_cred, &F.root, &request, &fid, &attr));
	fails(ENOENT, kr_export_remove(F.export, &root_cred, &F.root, ".kairan", true, 0, NULL));
	fails(ENOENT, kr_export_rename(F.export, &root_cred, &F.root, ".kairan", &F.root, "mine", 0, 0, NULL));
	fails(EPERM, kr_export_rename(F.export, &root_cred, &F.root, "f", &F.root, ".kairan", 0, 0, NULL));
	directory = make(&F.root, "d", S_IFDIR | 0755);
	make(&directory, ".kairan", S_IFDIR | 0755);
}

static void an_identity_is_the_same_in_the_next_instance(void **state)
{
	struct kr_fid directory = make(&F.root, "d", S_IFDIR | 0755);
	struct kr_fid file = make(&directory, "f", S_IFREG | 0644), found;
	uint64_t ino = attr_of(&file).ino;

	(void)state;
	restart_export();
	assert_true(attr_of(&file).ino == ino);
	found = look_up(&directory, "f");
	assert_true(kr_fid_equal(&file, &found));
	ok(kr_export_rename(F.export, &root_cred, &directory, "f", &F.root, "g", 0, 0, NULL));
	assert_true(attr_of(&file).ino == ino);
}

static void a_rename_behind_our_back_is_followed(void **state)
{
	struct kr_fid directory = make(&F.root, "d", S_IFDIR | 0755);
	struct kr_fid file = make(&directory, "f", S_IFREG | 0644);
	char old[400];

	(void)state;
	snprintf(old, sizeof(old), "%s", on_disk("d"));
	assert_int_equal(rename(old, on_disk("e")), 0);
	attr_of(&file);
	snprintf(old, sizeof(old), "%s", on_disk("e/f"));
	assert_int_equal(unlink(old), 0);
	fails(ESTALE, kr_export_getattr(F.export, &file, &(struct kr_attr){0}));
}

static void a_forged_identity_is_stale(void **state)
{
	struct kr_fid file = make(&F.root, "f", S_IFREG | 0644), forged;
	struct kr_identity identity;
	uint8_t other[KR_FID_SECRET] = {1};
	struct kr_attr attr;

	(void)state;
	ok(kr_fid_unseal(F.options.secret, &file, &identity));
	kr_fid_seal(other, &identity, &forged);
	fails(ESTALE, kr_export_getattr(F.export, &forged, &attr));
	fails(ESTALE, look_up_error(&forged, "x"));
	fails(ESTALE, kr_export_open(F.export, &root_cred, &forged, KR_OPEN_READ, &attr));
}

static void paths_may_be_longer_than_path_max(void **state)
{
	struct kr_fid at = F.root;
	char name[201];
	int i;

	(void)state;
	memset(name, 'n', 200);
	name[200] = 0;
	for (i = 0; i < 50; i++)
		at = make(&at, name, S_IFDIR | 0755);
	make(&at, "leaf", S_IFREG | 0644);
	restart_export();
	look_up(&at, "leaf");
}

static void kinds_of_files_are_made_with_umask_and_number(void **state)
{
	struct kr_make request = {.name = "pipe", .mode = S_IFIFO | 0666, .umask = 022};
	struct kr_attr attr;
	struct kr_fid fid;

	(void)state;
	ok(kr_export_make(F.export, &root_cred, &F.root, &request, &fid, &attr));
	assert_int_equal(attr.mode, S_IFIFO | 0644);
	fails(ENXIO, kr_export_open(F.export, &root_cred, &fid, KR_OPEN_READ, &attr));
	fails(EEXIST, kr_export_make(F.export, &root_cred, &F.root, &request, &fid, &attr));
	make(&F.root, "socket", S_IFSOCK | 0755);
	request = (struct kr_make){.name = "dir", .mode = S_IFDIR | 0777, .umask = 027};
	ok(kr_export_make(F.export, &root_cred, &F.root, &request, &fid, &attr));
	assert_int_equal(attr.mode, S_IFDIR | 0750);
	request = (struct kr_make){.name = "null", .mode = S_IFCHR | 0666, .rdev_major = 1, .rdev_minor = 3};
	fails(EPERM, kr_export_make(F.export, &alice, &F.root, &request, &fid, &attr));
	if (is_root()) {
		ok(kr_export_make(F.export, &root_cred, &F.root, &request, &fid, &attr));
		assert_true(attr.rdev_major == 1 && attr.rdev_minor == 3);
	}
}

static void what_is_made_belongs_to_the_caller(void **state)
{
	struct kr_make request = {.name = "d", .mode = S_IFDIR | 0755};
	struct kr_setattr set = {.valid = KR_SET_GID | KR_SET_MODE, .gid = 777, .mode = 02775};
	struct kr_attr attr;
	struct kr_fid fid, sub;

	(void)state;
	ok(kr_export_make(F.export, &alice, &F.root, &request, &fid, &attr));
	assert_int_equal(attr.uid, is_root() ? alice.uid : geteuid());
	assert_int_equal(attr.gid, is_root() ? alice.gid : getegid());
	if (!is_root())
		return;
	ok(kr_export_setattr(F.export, &root_cred, &fid, &set, &attr));
	ok(kr_export_make(F.export, &alice, &fid, &request, &sub, &attr));
	assert_true(attr.gid == 777 && attr.uid == alice.uid && attr.mode & S_ISGID);
	/* A group that is not the caller's must not be had through the set-gid bit of an executable. */
	request = (struct kr_make){.name = "x", .mode = S_IFREG | 02755};
	ok(kr_export_make(F.export, &alice, &fid, &request, &sub, &attr));
	assert_true(attr.gid == 777 && !(attr.mode & S_ISGID));
	fails(EINVAL, kr_export_make(F.export, &(struct kr_cred){.uid = UINT32_MAX}, &fid, &request, &sub, &attr));
	assert_int_equal(make(&F.root, "after", S_IFREG | 0644).length, fid.length);
	assert_int_equal(geteuid(), 0);
}

/* user::rwx, group::rwx, mask::rwx, other::---, group 777 rwx */
static size_t default_acl(uint8_t *acl)
{
	static const uint16_t entries[][2] = {{0x01, 7}, {0x04, 7}, {0x08, 7}, {0x10, 7}, {0x20, 0}};
	uint32_t version = htole32(2), id;
	size_t i, at = 4;

	memcpy(acl, &version, 4);
	for (i = 0; i < KR_ARRAY_SIZE(entries); i++, at += 8) {
		uint16_t tag = htole16(entries[i][0]), permissions = htole16(entries[i][1]);

		id = htole32(entries[i][0] == 0x08 ? 777 : UINT32_MAX);
		memcpy(acl + at, &tag, 2);
		memcpy(acl + at + 2, &permissions, 2);
		memcpy(acl + at + 4, &id, 4);
	}
	return at;
}

static void a_default_acl_overrides_the_umask(void **state)
{
	struct kr_fid directory = make(&F.root, "d", S_IFDIR | 0777), fid;
	struct kr_create create = {.name = "f", .mode = 0666, .umask = 077, .exclusive = true};
	struct kr_attr attr;
	uint8_t acl[64];
	bool created;
	int r;

	(void)state;
	r = kr_export_setxattr(F.export, &root_cred, &directory, "system.posix_acl_default", acl, default_acl(acl), 0);
	if (r == -EOPNOTSUPP)
		skip();
	ok(r);
	ok(kr_export_create(F.export, &alice, &directory, &create, &created, &fid, &attr));
	assert_int_equal(attr.mode & 0777, 0660);
	ok(kr_export_create(F.export, &alice, &F.root, &create, &created, &fid, &attr));
	assert_int_equal(attr.mode & 0777, 0600);
}

static void links_and_removals_count(void **state)
{
	struct kr_fid file = make(&F.root, "a", S_IFREG | 0644), directory = make(&F.root, "d", S_IFDIR | 0755);
	struct kr_removed removed;
	struct kr_attr attr;

	(void)state;
	ok(kr_export_link(F.export, &root_cred, &file, &directory, "b", &attr));
	assert_int_equal(attr.nlink, 2);
	fails(EEXIST, kr_export_link(F.export, &root_cred, &file, &directory, "b", &attr));
	fails(EPERM, kr_export_link(F.export, &root_cred, &directory, &F.root, "e", &attr));
	fails(ENOTEMPTY, kr_export_remove(F.export, &root_cred, &F.root, "d", true, 0, NULL));
	fails(EISDIR, kr_export_remove(F.export, &root_cred, &F.root, "d", false, 0, NULL));
	fails(ENOTDIR, kr_export_remove(F.export, &root_cred, &F.root, "a", true, 0, NULL));
	ok(kr_export_remove(F.export, &root_cred, &F.root, "a", false, 0, &removed));
	assert_true(removed.valid && !removed.gone && !removed.orphaned && kr_fid_equal(&removed.fid, &file));
	assert_int_equal(attr_of(&file).nlink, 1);
	ok(kr_export_remove(F.export, &root_cred, &directory, "b", false, 0, &removed));
	assert_true(removed.gone);
	fails(ESTALE, kr_export_getattr(F.export, &file, &attr));
	ok(kr_export_remove(F.export, &root_cred, &F.root, "d", true, 0, &removed));
	assert_true(removed.gone);
	fails(ENOENT, kr_export_remove(F.export, &root_cred, &F.root, "d", true, 0, &removed));
}

/* By inode numbers: a name that no operation has met is found when the known one goes. */
static void a_second_name_made_behind_our_back_keeps_the_identity(void **state)
{
	struct kr_fid file = make(&F.root, "a", S_IFREG | 0644);
	char old[400];

	(void)state;
	snprintf(old, sizeof(old), "%s", on_disk("a"));
	assert_int_equal(link(old, on_disk("b")), 0);
	ok(kr_export_remove(F.export, &root_cred, &F.root, "a", false, 0, NULL));
	assert_int_equal(attr_of(&file).nlink, 1);
}

static void rename_replaces_refuses_and_exchanges(void **state)
{
	struct kr_fid a = make(&F.root, "a", S_IFREG | 0644), b = make(&F.root, "b", S_IFREG | 0644), found;
	struct kr_fid directory = make(&F.root, "d", S_IFDIR | 0755);
	struct kr_removed replaced;
	struct kr_attr attr;

	(void)state;
	fails(EEXIST, kr_export_rename(F.export, &root_cred, &F.root, "a", &F.root, "b", 1, 0, &replaced));
	fails(EINVAL, kr_export_rename(F.export, &root_cred, &F.root, "a", &F.root, "b", 3, 0, &replaced));
	fails(EINVAL, kr_export_rename(F.export, &root_cred, &F.root, "a", &F.root, "b", 4, 0, &replaced));
	ok(kr_export_rename(F.export, &root_cred, &F.root, "a", &F.root, "b", 2, 0, &replaced));
	assert_false(replaced.valid);
	found = look_up(&F.root, "a");
	assert_true(kr_fid_equal(&found, &b));
	attr_of(&a);
	ok(kr_export_rename(F.export, &root_cred, &F.root, "a", &directory, "c", 0, 0, &replaced));
	assert_false(replaced.valid);
	ok(kr_export_rename(F.export, &root_cred, &F.root, "b", &directory, "c", 0, 0, &replaced));
	assert_true(replaced.valid && replaced.gone && kr_fid_equal(&replaced.fid, &b));
	fails(ESTALE, kr_export_getattr(F.export, &b, &attr));
	fails(EINVAL, kr_export_rename(F.export, &root_cred, &F.root, "d", &directory, "e", 0, 0, &replaced));
	fails(ENOENT, kr_export_rename(F.export, &root_cred, &F.root, "b", &directory, "e", 0, 0, &replaced));
	/* Two names of one file: nothing happens, and both stay. */
	ok(kr_export_link(F.export, &root_cred, &a, &F.root, "same", &attr));
	ok(kr_export_rename(F.export, &root_cred, &F.root, "same", &directory, "c", 0, 0, &replaced));
	assert_false(replaced.valid);
	look_up(&F.root, "same");
	assert_int_equal(attr_of(&a).nlink, 2);
}

/* Its descriptor is kept for the next change of names. */
static void a_directory_that_a_local_program_has_removed_is_stale(void **state)
{
	struct kr_fid dir = make(&F.root, "d", S_IFDIR | 0755), fid;
	struct kr_create request = {.name = "f", .mode = 0644, .flags = KR_OPEN_WRITE};
	struct kr_make special = {.name = "p", .mode = S_IFIFO | 0600};
	struct kr_removed removed;
	struct kr_attr attr;
	bool created;

	(void)state;
	ok(kr_export_create(F.export, &root_cred, &dir, &request, &created, &fid, &attr));
	kr_export_release(F.export, &fid, 1);
	ok(kr_export_remove(F.export, &root_cred, &dir, "f", false, 0, &removed));
	assert_int_equal(rmdir(on_disk("d")), 0);
	fails(ESTALE, kr_export_create(F.export, &root_cred, &dir, &request, &created, &fid, &attr));
	fails(ESTALE, kr_export_make(F.export, &root_cred, &dir, &special, &fid, &attr));
	fails(ESTALE, kr_export_remove(F.export, &root_cred, &dir, "f", false, 0, &removed));
	fails(ESTALE, kr_export_getattr(F.export, &dir, &attr));
}

static int run(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(any_bytes_and_255_of_them_make_a_name),
		CASE(what_is_no_single_name_is_refused),
		CASE(names_change_in_turns_while_nobody_else_changes_them),
		CASE(symbolic_links_are_never_followed),
		CASE(a_mount_below_is_not_entered),
		CASE(the_servers_own_directory_is_hidden),
		CASE(an_identity_is_the_same_in_the_next_instance),
		CASE(a_rename_behind_our_back_is_followed),
		CASE(a_forged_identity_is_stale),
		CASE(paths_may_be_longer_than_path_max),
		CASE(kinds_of_files_are_made_with_umask_and_number),
		CASE(what_is_made_belongs_to_the_caller),
		CASE(a_default_acl_overrides_the_umask),
		CASE(links_and_removals_count),
		CASE(a_second_name_made_behind_our_back_keeps_the_identity),
		CASE(rename_replaces_refuses_and_exchanges),
		CASE(a_directory_that_a_local_program_has_removed_is_stale),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	return in_all_worlds(run);
}

/* Files that a loss of power un-created: made anew, with their identity, unless they can have been removed. */
#include "test/unit/server/export/export_fixture.h"

#include "server/base/fid_aliases.h"

static int state_dir;
static const struct kr_time later = {.sec = INT32_MAX}; /* nothing in the directory has been changed since then */

static void open_aliases(void)
{
	ok(kr_fid_aliases_open(state_dir, &F.options.aliases));
	start_export();
	ok(kr_export_prune_aliases(F.export));
}

/* The server's next instance. */
static void restart(void)
{
	kr_export_free(F.export);
	kr_fid_aliases_free(F.options.aliases);
	open_aliases();
}

static int set_up_aliases(void **state)
{
	char outside[80];

	set_up(state);
	snprintf(outside, sizeof(outside), "%s/outside", F.base);
	assert_int_equal(chmod(F.base, 0777), 0);
	state_dir = open(outside, O_RDONLY | O_DIRECTORY);
	assert_true(state_dir >= 0);
	kr_export_free(F.export);
	open_aliases();
	return 0;
}

static int tear_down_aliases(void **state)
{
	int r = tear_down(state);

	kr_fid_aliases_free(F.options.aliases);
	close(state_dir);
	return r;
}

/* No file that is gone has the inode number and the time of birth of one made after this. */
static void let_times_tick(void)
{
	usleep(20000);
}

/* A file or directory with this identity was there, and no trace is left of it. */
static struct kr_fid uncreated(const struct kr_fid *parent, const char *name, uint32_t mode)
{
	struct kr_fid fid = make(parent, name, mode);
	struct kr_attr attr;

	ok(kr_export_remove(F.export, NULL, parent, name, S_ISDIR(mode), 0, NULL));
	fails(ESTALE, kr_export_getattr(F.export, &fid, &attr));
	let_times_tick();
	return fid;
}

static int restore_at(
	const struct kr_fid *fid, const struct kr_fid *parent, const char *name, uint32_t mode, struct kr_time made)
{
	const struct kr_restore restore = {
		.file = fid, .parent = parent, .name = name, .mode = mode, .uid = 12345, .gid = 12346, .made = made};
	bool made_anew;

	let_times_tick();
	return kr_export_restore(F.export, &restore, &made_anew);
}

static void assert_is(const struct kr_fid *parent, const char *name, const struct kr_fid *fid)
{
	struct kr_fid found;
	struct kr_attr attr;

	ok(kr_export_lookup(F.export, NULL, parent, name, &found, &attr));
	assert_true(kr_fid_equal(&found, fid));
}

static void a_restored_file_keeps_its_identity_for_good(void **state)
{
	struct kr_fid fid = uncreated(&F.root, "file", S_IFREG | 0644), other;
	struct kr_attr attr;

	(void)state;
	ok(restore_at(&fid, &F.root, "file", S_IFREG | 04640, later));
	ok(restore_at(&fid, &F.root, "file", S_IFREG | 04640, later)); /* asked for again */
	assert_is(&F.root, "file", &fid);
	attr = attr_of(&fid);
	assert_int_equal(attr.mode, S_IFREG | 0640);
	assert_int_equal(attr.nlink, 1);
	assert_int_equal(attr.uid, is_root() ? 12345 : geteuid());
	put_bytes(&fid, 0, "bytes", 5);
	ok(kr_export_hold(F.export, &fid, 1));
	ok(kr_export_remove(F.export, NULL, &F.root, "file", false, 0, NULL)); /* an orphan */
	restart();
	ok(kr_export_hold(F.export, &fid, 1));
	assert_text(&fid, 0, "bytes");
	kr_export_release(F.export, &fid, 1);
	fails(ESTALE, kr_export_getattr(F.export, &fid, &attr));
	restart();
	assert_false(kr_fid_aliases_has(F.options.aliases, &fid));
	other = make(&F.root, "file", S_IFREG | 0644);
	assert_false(kr_fid_equal(&other, &fid));
}

static void what_is_in_a_restored_directory_is_restored_too(void **state)
{
	struct kr_fid outer = make(&F.root, "outer", S_IFDIR | 0755), inner = make(&outer, "inner", S_IFDIR | 0755),
		      file = make(&inner, "file", S_IFREG | 0644), second = make(&inner, "second", S_IFREG | 0644);
	const struct kr_time made = attr_of(&file).ctime;
	struct kr_removed removed;

	(void)state;
	ok(kr_export_remove(F.export, NULL, &inner, "file", false, 0, &removed));
	ok(kr_export_remove(F.export, NULL, &inner, "second", false, 0, &removed));
	ok(kr_export_remove(F.export, NULL, &outer, "inner", true, 0, &removed));
	ok(kr_export_remove(F.export, NULL, &F.root, "outer", true, 0, &removed));
	fails(ESTALE, restore_at(&file, &inner, "file", S_IFREG | 0644, made));
	ok(restore_at(&outer, &F.root, "outer", S_IFDIR | 02750, later));
	ok(restore_at(&inner, &outer, "inner", S_IFDIR | 0750, made));
	ok(restore_at(&file, &inner, "file", S_IFREG | 0640, made));
	ok(restore_at(&second, &inner, "second", S_IFREG | 0640, made));
	ok(restore_at(&file, &outer, "link", S_IFREG | 0640, made));
	restart();
	assert_is(&F.root, "outer", &outer);
	assert_is(&outer, "inner", &inner);
	assert_is(&inner, "file", &file);
	assert_is(&outer, "link", &file);
	assert_is(&inner, "second", &second);
	assert_int_equal(attr_of(&outer).mode, S_IFDIR | 02750);
	assert_int_equal(attr_of(&file).nlink, 2);
}

static void what_can_have_been_removed_stays_removed(void **state)
{
	struct kr_fid lost = make(&F.root, "lost", S_IFREG | 0644), other = uncreated(&F.root, "other", S_IFREG | 0644),
		      found;
	const struct kr_time made = attr_of(&lost).ctime;
	struct kr_attr attr;

	(void)state;
	fails(ESTALE, restore_at(&other, &F.root, "other", S_IFREG | 0644, (struct kr_time){.sec = 1}));
	ok(restore_at(&other, &F.root, "other", S_IFREG | 0644, later));
	usleep(20000); /* times tick */
	ok(kr_export_remove(F.export, NULL, &F.root, "lost", false, 0, NULL));
	fails(ESTALE, restore_at(&lost, &F.root, "lost", S_IFREG | 0644, made));
	fails(ENOENT, kr_export_lookup(F.export, NULL, &F.root, "lost", &found, &attr));
}

static void a_taken_name_stays_what_it_is(void **state)
{
	struct kr_fid fid = uncreated(&F.root, "name", S_IFREG | 0644),
		      directory = uncreated(&F.root, "name", S_IFDIR | 0755),
		      other = make(&F.root, "name", S_IFREG | 0644);
	struct kr_attr attr;

	(void)state;
	fails(EEXIST, restore_at(&fid, &F.root, "name", S_IFREG | 0644, later));
	fails(EEXIST, restore_at(&directory, &F.root, "name", S_IFDIR | 0755, later));
	fails(EPERM, restore_at(&fid, &F.root, ".kairan", S_IFREG | 0644, later));
	fails(ESTALE, kr_export_getattr(F.export, &fid, &attr));
	assert_is(&F.root, "name", &other);
	ok(restore_at(&fid, &F.root, "free", S_IFREG | 0644, later));
	assert_is(&F.root, "free", &fid);
}

static void what_was_not_uncreated_is_left_alone(void **state)
{
	struct kr_fid fid = make(&F.root, "file", S_IFREG | 0644), found, forged = fid;
	struct kr_attr attr;

	(void)state;
	ok(restore_at(&fid, &F.root, "elsewhere", S_IFREG | 0600, later));
	assert_is(&F.root, "file", &fid);
	assert_int_equal(attr_of(&fid).mode, S_IFREG | 0644);
	fails(ENOENT, kr_export_lookup(F.export, NULL, &F.root, "elsewhere", &found, &attr));
	forged.bytes[3] ^= 1;
	fails(ESTALE, restore_at(&forged, &F.root, "forged", S_IFREG | 0600, later));
}

static void a_nameless_file_lives_as_long_as_it_is_held(void **state)
{
	struct kr_fid held = uncreated(&F.root, "held", S_IFREG | 0644),
		      forsaken = uncreated(&F.root, "forsaken", S_IFREG | 0644);
	struct kr_attr attr;

	(void)state;
	ok(restore_at(&held, &held, "", S_IFREG | 0644, later));
	ok(restore_at(&forsaken, &forsaken, "", S_IFREG | 0644, later));
	ok(kr_export_hold(F.export, &held, 1));
	kr_export_sweep_orphans(F.export);
	fails(ESTALE, kr_export_getattr(F.export, &forsaken, &attr));
	put_bytes(&held, 0, "bytes", 5);
	assert_int_equal(attr_of(&held).nlink, 0);
	kr_export_release(F.export, &held, 1);
	fails(ESTALE, kr_export_getattr(F.export, &held, &attr));
}

static void a_file_is_restored_as_often_as_it_is_uncreated(void **state)
{
	struct kr_fid fid = uncreated(&F.root, "file", S_IFREG | 0644);

	(void)state;
	for (int i = 0; i < 3; i++) {
		ok(restore_at(&fid, &F.root, "file", S_IFREG | 0644, later));
		assert_is(&F.root, "file", &fid);
		ok(kr_export_remove(F.export, NULL, &F.root, "file", false, 0, NULL));
		if (i == 1)
			restart();
	}
}

static int run(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up_aliases, tear_down_aliases)
	const struct CMUnitTest tests[] = {
		CASE(a_restored_file_keeps_its_identity_for_good),
		CASE(what_is_in_a_restored_directory_is_restored_too),
		CASE(what_can_have_been_removed_stays_removed),
		CASE(a_taken_name_stays_what_it_is),
		CASE(what_was_not_uncreated_is_left_alone),
		CASE(a_nameless_file_lives_as_long_as_it_is_held),
		CASE(a_file_is_restored_as_often_as_it_is_uncreated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	return in_all_worlds(run);
}

/* Files that are held without a name: orphans, restarts, and races with removals. */
#include "test/unit/server/export/export_fixture.h"

#include <pthread.h>

/* --- orphans ---------------------------------------------------------------------------------- */

static void a_held_file_outlives_its_name(void **state)
{
	struct kr_fid file = create("f", KR_OPEN_BOTH, true, NULL);
	struct kr_attr attr;

	(void)state;
	put_bytes(&file, 0, "bytes", 5);
	unlink_name("f", true);
	assert_int_equal(attr_of(&file).nlink, 0);
	put_bytes(&file, 5, " more", 5);
	assert_text(&file, 0, "bytes more");
	ok(kr_export_open(F.export, &root_cred, &file, KR_OPEN_READ, &attr));
	fails(ENOENT, kr_export_link(F.export, &root_cred, &file, &F.root, "again", &attr));
	kr_export_release(F.export, &file, 1);
	assert_text(&file, 0, "bytes more");
	kr_export_release(F.export, &file, 1);
	fails(ESTALE, getattr_error(&file));
	assert_int_equal(orphans(), 0);
	fails(ESTALE, kr_export_open(F.export, &root_cred, &file, KR_OPEN_READ, &attr));
}

static void a_file_that_is_not_held_goes_at_once(void **state)
{
	struct kr_fid file = create("f", KR_OPEN_BOTH, true, NULL);

	(void)state;
	kr_export_release(F.export, &file, 1);
	unlink_name("f", false);
	fails(ESTALE, getattr_error(&file));
}

static void a_held_file_outlives_a_rename_over_it(void **state)
{
	struct kr_fid file = create("target", KR_OPEN_BOTH, true, NULL);
	struct kr_removed replaced;

	(void)state;
	put_bytes(&file, 0, "old", 3);
	make(&F.root, "source", S_IFREG | 0644);
	ok(kr_export_rename(F.export, &root_cred, &F.root, "source", &F.root, "target", 0, 0, &replaced));
	assert_true(replaced.valid && replaced.orphaned && !replaced.gone && kr_fid_equal(&replaced.fid, &file));
	assert_text(&file, 0, "old");
	assert_int_equal(attr_of(&file).nlink, 0);
	kr_export_release(F.export, &file, 1);
	fails(ESTALE, getattr_error(&file));
}

static void a_replaced_file_lingers_if_it_is_asked(void **state)
{
	struct kr_fid file = create("target", KR_OPEN_BOTH, true, NULL);
	struct kr_removed replaced;
	struct kr_attr attr;

	(void)state;
	put_bytes(&file, 0, "old", 3);
	kr_export_release(F.export, &file, 1);
	make(&F.root, "source", S_IFREG | 0644);
	make(&F.root, "d", S_IFDIR | 0755);
	fails(ENOTDIR, kr_export_rename(F.export, &root_cred, &F.root, "d", &F.root, "target", 0, 1000, &replaced));
	assert_int_equal(orphans(), 0);
	ok(kr_export_rename(F.export, &root_cred, &F.root, "source", &F.root, "target", 0, 1000, &replaced));
	assert_true(replaced.valid && replaced.orphaned && replaced.delayed && !replaced.gone &&
		kr_fid_equal(&replaced.fid, &file));
	ok(kr_export_open(F.export, &root_cred, &file, KR_OPEN_READ, &attr)); /* by who had looked it up before */
	assert_int_equal(attr.nlink, 0);
	kr_export_release(F.export, &file, 1);
	assert_text(&file, 0, "old");
	kr_export_release(F.export, &file, 1);
	fails(ESTALE, getattr_error(&file));
	assert_int_equal(orphans(), 0);
}

static void a_small_file_that_is_removed_lingers_if_it_is_asked(void **state)
{
	struct kr_fid small = create("small", KR_OPEN_BOTH, true, NULL),
		      large = create("large", KR_OPEN_BOTH, true, NULL);
	struct kr_removed removed;
	struct kr_attr attr;

	(void)state;
	put_bytes(&large, 1000, "x", 1);
	kr_export_release(F.export, &small, 1);
	kr_export_release(F.export, &large, 1);
	ok(kr_export_remove(F.export, &root_cred, &F.root, "large", false, 1000, &removed));
	assert_true(removed.gone && !removed.delayed);
	fails(ENOTDIR, kr_export_remove(F.export, &root_cred, &F.root, "small", true, 1000, &removed));
	assert_int_equal(orphans(), 0);
	ok(kr_export_remove(F.export, &root_cred, &F.root, "small", false, 1000, &removed));
	assert_true(removed.delayed && removed.orphaned && !removed.gone);
	ok(kr_export_open(F.export, &root_cred, &small, KR_OPEN_READ, &attr));
	kr_export_release(F.export, &small, 2);
	fails(ESTALE, getattr_error(&small));
	assert_int_equal(orphans(), 0);
}

static void a_replaced_file_with_another_name_or_open_keeps_its_counts(void **state)
{
	struct kr_fid file = create("a", KR_OPEN_BOTH, true, NULL);
	struct kr_removed replaced;
	struct kr_attr attr;

	(void)state;
	ok(kr_export_link(F.export, &root_cred, &file, &F.root, "b", &attr));
	kr_export_release(F.export, &file, 1);
	make(&F.root, "source", S_IFREG | 0644);
	ok(kr_export_rename(F.export, &root_cred, &F.root, "source", &F.root, "a", 0, 1000, &replaced));
	assert_false(replaced.delayed); /* it can be opened as it is */
	assert_int_equal(attr_of(&file).nlink, 1);
	ok(kr_export_open(F.export, &root_cred, &file, KR_OPEN_READ, &attr));
	make(&F.root, "source", S_IFREG | 0644);
	ok(kr_export_rename(F.export, &root_cred, &F.root, "source", &F.root, "b", 0, 1000, &replaced));
	assert_true(replaced.delayed);
	kr_export_release(F.export, &file, 1); /* who had it open */
	assert_int_equal(attr_of(&file).nlink, 0);
	kr_export_release(F.export, &file, 1);
	fails(ESTALE, getattr_error(&file));
}

static void a_removal_that_fails_leaves_no_orphan(void **state)
{
	struct kr_fid file = create("f", KR_OPEN_BOTH, true, NULL);

	(void)state;
	fails(ENOTDIR, kr_export_remove(F.export, &root_cred, &F.root, "f", true, 0, NULL));
	make(&F.root, "d", S_IFDIR | 0755);
	fails(ENOTDIR, kr_export_rename(F.export, &root_cred, &F.root, "d", &F.root, "f", 0, 0, NULL));
	assert_int_equal(orphans(), 0);
	assert_int_equal(attr_of(&file).nlink, 1);
	kr_export_release(F.export, &file, 1);
	assert_int_equal(attr_of(&file).nlink, 1);
}

/* Who empties the export by hand takes .kairan, too. */
static void a_held_file_outlives_its_name_when_the_private_directory_was_removed(void **state)
{
	struct kr_fid first = create("first", KR_OPEN_BOTH, true, NULL),
		      second = create("second", KR_OPEN_BOTH, true, NULL);

	(void)state;
	put_bytes(&first, 0, "first", 5);
	put_bytes(&second, 0, "second", 6);
	assert_int_equal(rmdir(on_disk(".kairan/orphans")), 0);
	assert_int_equal(rmdir(on_disk(".kairan")), 0);
	unlink_name("first", true);
	assert_text(&first, 0, "first");
	kr_export_release(F.export, &first, 1);
	fails(ESTALE, getattr_error(&first));
	assert_int_equal(orphans(), 0);
	assert_int_equal(rmdir(on_disk(".kairan/orphans")), 0);
	unlink_name("second", true);
	assert_text(&second, 0, "second");
	restart_export();
	assert_int_equal(orphans(), 1);
	kr_export_sweep_orphans(F.export);
	assert_int_equal(orphans(), 0);
}

static void a_held_file_outlives_its_last_name_and_counts_its_names(void **state)
{
	struct kr_fid file = create("a", KR_OPEN_BOTH, true, NULL);
	struct kr_removed removed;
	struct kr_attr attr;

	(void)state;
	ok(kr_export_link(F.export, &root_cred, &file, &F.root, "b", &attr));
	ok(kr_export_remove(F.export, &root_cred, &F.root, "a", false, 0, &removed));
	assert_true(removed.named && !removed.gone);
	assert_int_equal(attr_of(&file).nlink, 1);
	ok(kr_export_link(F.export, &root_cred, &file, &F.root, "c", &attr));
	assert_int_equal(attr.nlink, 2);
	ok(kr_export_remove(F.export, &root_cred, &F.root, "b", false, 0, &removed));
	assert_true(removed.named && !removed.gone);
	unlink_name("c", true);
	assert_int_equal(attr_of(&file).nlink, 0);
	kr_export_release(F.export, &file, 1);
	fails(ESTALE, getattr_error(&file));
}

static void orphans_survive_a_restart_until_reclaimed_or_swept(void **state)
{
	struct kr_fid reclaimed = create("a", KR_OPEN_BOTH, true, NULL), swept = create("b", KR_OPEN_BOTH, true, NULL);
	struct kr_fid unnamed = create("", KR_OPEN_BOTH, false, NULL);
	struct kr_attr attr;

	(void)state;
	put_bytes(&reclaimed, 0, "still here", 10);
	unlink_name("a", true);
	unlink_name("b", true);
	restart_export();
	assert_int_equal(orphans(), 3);
	ok(kr_export_hold(F.export, &reclaimed, 2));
	ok(kr_export_hold(F.export, &unnamed, 1));
	kr_export_sweep_orphans(F.export);
	assert_int_equal(orphans(), 2);
	fails(ESTALE, kr_export_hold(F.export, &swept, 1));
	assert_text(&reclaimed, 0, "still here");
	assert_int_equal(attr_of(&reclaimed).nlink, 0);
	kr_export_release(F.export, &reclaimed, 1);
	assert_text(&reclaimed, 0, "still here");
	kr_export_release(F.export, &reclaimed, 1);
	fails(ESTALE, getattr_error(&reclaimed));
	ok(kr_export_link(F.export, &root_cred, &unnamed, &F.root, "named", &attr));
	kr_export_release(F.export, &unnamed, 1);
	assert_int_equal(attr_of(&unnamed).nlink, 1);
	assert_int_equal(orphans(), 0);
}

#ifdef KR_FAULTS
static char fault_path[64];

static void set_fault(const char *fault)
{
	FILE *file = fopen(fault_path, "w");

	assert_non_null(file);
	assert_true(fputs(fault, file) >= 0 && fclose(file) == 0);
}
#endif

/* As on a btrfs that is full or over its limit: unlink has a reserve there, link and rename have none. */
static void a_held_file_outlives_its_name_when_there_is_no_room_for_a_link(void **state)
{
#ifdef KR_FAULTS
	struct kr_fid file = create("f", KR_OPEN_BOTH, true, NULL), other = create("a", KR_OPEN_BOTH, true, NULL);
	struct kr_removed removed;
	struct kr_attr attr;

	ok(kr_export_link(F.export, &root_cred, &other, &F.root, "b", &attr));
	put_bytes(&file, 0, "bytes", 5);
	set_fault("orphan.link:edquot");
	fails(ENOTDIR, kr_export_remove(F.export, &root_cred, &F.root, "f", true, 0, NULL));
	assert_int_equal(orphans(), 0);
	assert_int_equal(attr_of(&file).nlink, 1);
	ok(kr_export_remove(F.export, &root_cred, &F.root, "f", false, 1000, &removed));
	assert_true(removed.orphaned && !removed.gone && !removed.named && !removed.delayed);
	assert_int_equal(orphans(), 1);
	assert_int_equal(attr_of(&file).nlink, 0);
	put_bytes(&file, 5, " more", 5);
	ok(kr_export_open(F.export, &root_cred, &file, KR_OPEN_READ, &attr));
	fails(ENOENT, kr_export_link(F.export, &root_cred, &file, &F.root, "again", &attr));
	kr_export_release(F.export, &file, 1);
	kr_export_sweep_orphans(F.export);
	assert_text(&file, 0, "bytes more");
	kr_export_release(F.export, &file, 1);
	fails(ESTALE, getattr_error(&file));
	assert_int_equal(orphans(), 0);

	set_fault("orphan.link:enospc");
	ok(kr_export_remove(F.export, &root_cred, &F.root, "a", false, 0, &removed));
	assert_true(!removed.orphaned && !removed.gone && removed.named);
	unlink_name("b", true);
	assert_int_equal(attr_of(&other).nlink, 0);
	restart_export();
	fails(ESTALE, kr_export_hold(F.export, &other, 1));
#endif
	(void)state;
}

static int end_faults(void **state)
{
#ifdef KR_FAULTS
	unlink(fault_path);
#endif
	return tear_down(state);
}

/* --- races ------------------------------------------------------------------------------------ */

enum { OPENERS = 6, ROUNDS = 400 };
static struct kr_fid contested;
static pthread_barrier_t barrier;

/* An open that succeeds has its file until it ends it, whatever happens to the name. */
static void *open_and_read(void *context)
{
	unsigned *failures = context;
	struct kr_attr attr;
	char got[4];
	size_t length;
	int i;

	for (i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&barrier);
		if (kr_export_open(F.export, &alice, &contested, KR_OPEN_READ, &attr) == 0) {
			if (kr_export_pread(F.export, &contested, 0, got, 4, &length) < 0 || length != 4 ||
				kr_export_getattr(F.export, &contested, &attr) < 0)
				++*failures;
			kr_export_release(F.export, &contested, 1);
		}
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

static void an_open_that_races_with_a_removal_wins_or_loses_whole(void **state)
{
	unsigned failures[OPENERS] = {0}, i, round;
	pthread_t threads[OPENERS];
	struct kr_removed removed;

	(void)state;
	pthread_barrier_init(&barrier, NULL, OPENERS + 1);
	for (i = 0; i < OPENERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, open_and_read, &failures[i]), 0);
	for (round = 0; round < ROUNDS; round++) {
		contested = make(&F.root, "f", S_IFREG | 0644);
		put_bytes(&contested, 0, "data", 4);
		pthread_barrier_wait(&barrier);
		ok(kr_export_remove(F.export, &root_cred, &F.root, "f", false, 0, &removed));
		pthread_barrier_wait(&barrier);
		fails(ESTALE, getattr_error(&contested));
	}
	for (i = 0; i < OPENERS; i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(failures[i], 0);
	}
	pthread_barrier_destroy(&barrier);
	assert_int_equal(orphans(), 0);
}

/* Any mixture of operations by several threads on a few names ends with nothing held and nothing lost. */
static void *mix(void *context)
{
	static char lost[] = "a held file could not be written";
	unsigned *seed = context;
	struct kr_create request = {.mode = 0644, .flags = KR_OPEN_WRITE};
	struct kr_attr attr;
	struct kr_fid fid;
	char a[8], b[8];
	bool created;
	int i;

	for (i = 0; i < 2000; i++) {
		snprintf(a, sizeof(a), "n%d", rand_r(seed) % 4);
		snprintf(b, sizeof(b), "n%d", rand_r(seed) % 4);
		switch (rand_r(seed) % 4) {
		case 0:
			request.name = a;
			if (kr_export_create(F.export, &alice, &F.root, &request, &created, &fid, &attr) < 0)
				break;
			if (kr_export_pwritev(F.export, &fid, &(struct kr_write_piece){0, "x", 1}, 1) < 0)
				return lost;
			kr_export_release(F.export, &fid, 1);
			break;
		case 1:
			kr_export_remove(F.export, &root_cred, &F.root, a, false, 0, NULL);
			break;
		case 2:
			kr_export_rename(F.export, &root_cred, &F.root, a, &F.root, b, 0, 0, NULL);
			break;
		case 3:
			if (kr_export_lookup(F.export, &root_cred, &F.root, a, &fid, &attr) == 0)
				kr_export_link(F.export, &root_cred, &fid, &F.root, b, &attr);
		}
	}
	return NULL;
}

static void threads_may_mix_all_operations(void **state)
{
	unsigned seeds[OPENERS], i;
	pthread_t threads[OPENERS];
	void *result;

	(void)state;
	for (i = 0; i < OPENERS; i++) {
		seeds[i] = i + 1;
		assert_int_equal(pthread_create(&threads[i], NULL, mix, &seeds[i]), 0);
	}
	for (i = 0; i < OPENERS; i++) {
		pthread_join(threads[i], &result);
		assert_null(result);
	}
	assert_int_equal(orphans(), 0);
	assert_int_equal(access(on_disk(".kairan/orphans"), F_OK), 0);
	assert_int_equal(rmdir(on_disk(".kairan/orphans")), 0);
}

static int run(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		CASE(a_held_file_outlives_its_name),
		CASE(a_file_that_is_not_held_goes_at_once),
		CASE(a_held_file_outlives_a_rename_over_it),
		CASE(a_replaced_file_lingers_if_it_is_asked),
		CASE(a_small_file_that_is_removed_lingers_if_it_is_asked),
		CASE(a_replaced_file_with_another_name_or_open_keeps_its_counts),
		CASE(a_removal_that_fails_leaves_no_orphan),
		CASE(a_held_file_outlives_its_name_when_the_private_directory_was_removed),
		CASE(a_held_file_outlives_its_last_name_and_counts_its_names),
		cmocka_unit_test_setup_teardown(
			a_held_file_outlives_its_name_when_there_is_no_room_for_a_link, set_up, end_faults),
		CASE(orphans_survive_a_restart_until_reclaimed_or_swept),
		CASE(an_open_that_races_with_a_removal_wins_or_loses_whole),
		CASE(threads_may_mix_all_operations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
#ifdef KR_FAULTS
	char variable[80];

	snprintf(fault_path, sizeof(fault_path), "/tmp/kr-orphans-fault-%d", getpid());
	snprintf(variable, sizeof(variable), "@%s", fault_path);
	setenv("KR_FAULT", variable, 1);
#endif
	return in_all_worlds(run);
}

/* The table of inodes that the kernel knows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>

#include "fuse/names/inode_table.h"

static struct kr_fid fid_of(unsigned number)
{
	struct kr_fid fid = {.length = sizeof(number)};

	memcpy(fid.bytes, &number, sizeof(number));
	return fid;
}

static struct kr_inodes *make(void)
{
	struct kr_fid root = fid_of(0);
	struct kr_inodes *inodes;

	assert_int_equal(kr_inodes_new(&root, &inodes), 0);
	return inodes;
}

static uint64_t learn(struct kr_inodes *inodes, unsigned number, unsigned parent, const char *name)
{
	struct kr_fid fid = fid_of(number), parent_fid = fid_of(parent);
	const struct kr_attr attr = {.mode = (number < 3 ? S_IFDIR : S_IFREG) | 0644};
	uint64_t found, generation;

	assert_int_equal(kr_inode_learn(inodes, &fid, &attr, &parent_fid, name, &found, &generation), 0);
	return found;
}

static void one_file_has_one_number_until_all_its_lookups_are_forgotten(void **state)
{
	struct kr_inodes *inodes = make();
	struct kr_fid fid = fid_of(7), found;
	uint64_t number = learn(inodes, 7, 0, "a");

	(void)state;
	assert_int_equal(learn(inodes, 7, 0, "b"), number);
	kr_inode_fid(inodes, number, &found);
	assert_true(kr_fid_equal(&fid, &found));
	kr_inode_forget(inodes, number, 1);
	assert_int_equal(kr_inode_find(inodes, &fid), number);
	kr_inode_forget(inodes, number, 1);
	assert_int_equal(kr_inode_find(inodes, &fid), 0);
	assert_int_equal(kr_inodes_count(inodes), 1);
	kr_inodes_free(inodes);
}

static void the_root_is_number_one_and_stays(void **state)
{
	struct kr_inodes *inodes = make();
	struct kr_fid root = fid_of(0);

	(void)state;
	assert_int_equal(kr_inode_find(inodes, &root), 1);
	assert_int_equal(learn(inodes, 0, 0, ".."), 1);
	kr_inode_forget(inodes, 1, 5);
	assert_int_equal(kr_inode_find(inodes, &root), 1);
	kr_inodes_free(inodes);
}

static void a_path_follows_the_names_by_which_inodes_were_last_found(void **state)
{
	struct kr_inodes *inodes = make();
	struct kr_fid file = fid_of(3), root = fid_of(0), unknown = fid_of(9);
	char *path;

	(void)state;
	learn(inodes, 1, 0, "dir");
	learn(inodes, 2, 1, "sub");
	learn(inodes, 3, 2, "old");
	learn(inodes, 3, 2, "file");
	path = kr_inode_path(inodes, &file);
	assert_string_equal(path, "dir/sub/file");
	free(path);
	assert_null(kr_inode_path(inodes, &root));
	assert_null(kr_inode_path(inodes, &unknown));
	kr_inodes_free(inodes);
}

static void a_circle_of_names_ends(void **state)
{
	struct kr_inodes *inodes = make();
	struct kr_fid fid = fid_of(1);

	(void)state;
	learn(inodes, 1, 2, "a");
	learn(inodes, 2, 1, "b");
	free(kr_inode_path(inodes, &fid));
	kr_inodes_free(inodes);
}

static void a_hundred_thousand_inodes_come_and_go(void **state)
{
	enum { COUNT = 100000 };
	struct kr_inodes *inodes = make();
	uint64_t *numbers = calloc(COUNT, sizeof(*numbers));

	(void)state;
	for (unsigned i = 0; i < COUNT; i++)
		numbers[i] = learn(inodes, i + 1, 0, "x");
	assert_int_equal(kr_inodes_count(inodes), COUNT + 1);
	for (unsigned i = 0; i < COUNT; i++) {
		struct kr_fid fid = fid_of(i + 1);

		assert_int_equal(kr_inode_find(inodes, &fid), numbers[i]);
		kr_inode_forget(inodes, numbers[i], 1);
	}
	assert_int_equal(kr_inodes_count(inodes), 1);
	free(numbers);
	kr_inodes_free(inodes);
}

/* A file that the kernel knows, and what was had when its size was asked for. */
struct sized {
	struct kr_inodes *inodes;
	struct kr_fid fid;
	uint64_t number;
	uint32_t cuts;
};

static struct sized sized_file(void)
{
	struct sized f = {.inodes = make(), .fid = fid_of(7)};

	f.number = learn(f.inodes, 7, 0, "a"); /* size 0 */
	return f;
}

/* Asked for and answered at once. */
static enum kr_size_reply say(struct sized *f, uint64_t size)
{
	f->cuts = kr_inode_truncations(f->inodes, f->number);
	return kr_inode_reply_size(f->inodes, f->number, size, &f->cuts);
}

static bool tell(struct sized *f, uint64_t size)
{
	bool good = kr_inode_notify_size(f->inodes, f->number, size, f->cuts);

	if (good)
		kr_inode_notified_size(f->inodes, f->number, size, f->cuts, true);
	return good;
}

/* The same size each time is one that the kernel has, whatever it has dropped; of two sizes it may have either until it
 * is made sure. */
static void which_size_the_kernel_has_is_known_or_not(void **state)
{
	struct sized f = sized_file();
	uint32_t earlier;

	(void)state;
	assert_int_equal(say(&f, 0), KR_SIZE_REPLY_KNOWN);
	assert_int_equal(say(&f, 100), KR_SIZE_REPLY_NOTIFY);
	assert_int_equal(say(&f, 100), KR_SIZE_REPLY_NOTIFY);
	assert_true(tell(&f, 100));
	assert_int_equal(say(&f, 100), KR_SIZE_REPLY_KNOWN);
	assert_int_equal(say(&f, 200), KR_SIZE_REPLY_NOTIFY);
	assert_true(kr_inode_notify_size(f.inodes, f.number, 200, f.cuts));
	earlier = f.cuts;
	assert_int_equal(say(&f, 150), KR_SIZE_REPLY_NOTIFY);
	kr_inode_notified_size(f.inodes, f.number, 200, earlier, true); /* too late: a smaller one is on its way */
	assert_int_equal(say(&f, 200), KR_SIZE_REPLY_NOTIFY);
	assert_true(kr_inode_notify_size(f.inodes, f.number, 200, f.cuts));
	kr_inode_notified_size(f.inodes, f.number, 200, f.cuts, false); /* nor is one that could not be told */
	assert_int_equal(say(&f, 200), KR_SIZE_REPLY_NOTIFY);
	assert_true(tell(&f, 200));
	kr_inode_truncated(f.inodes, &f.fid);
	assert_int_equal(say(&f, 200), KR_SIZE_REPLY_NOTIFY);
	assert_true(tell(&f, 200));
	learn(f.inodes, 7, 0, "a"); /* size 0 */
	assert_int_equal(say(&f, 200), KR_SIZE_REPLY_NOTIFY);
	assert_true(tell(&f, 200));
	kr_inode_size_grown(f.inodes, f.number, 120);
	assert_int_equal(say(&f, 200), KR_SIZE_REPLY_KNOWN);
	kr_inode_size_grown(f.inodes, f.number, 300);
	assert_int_equal(say(&f, 300), KR_SIZE_REPLY_KNOWN);
	assert_int_equal(say(&f, 200), KR_SIZE_REPLY_NOTIFY);
	kr_inode_size_grown(f.inodes, f.number, 200); /* but another answer is on its way */
	assert_int_equal(say(&f, 200), KR_SIZE_REPLY_NOTIFY);
	assert_true(tell(&f, 200));
	kr_inode_forget(f.inodes, f.number, 1); /* it may have looked it up anew */
	assert_int_equal(say(&f, 200), KR_SIZE_REPLY_NOTIFY);
	kr_inodes_free(f.inodes);
}

/* The kernel would not give up again what it is told. */
static void a_size_from_before_a_cut_is_not_told_any_more(void **state)
{
	struct sized f = sized_file();
	uint32_t before;

	(void)state;
	assert_int_equal(say(&f, 300), KR_SIZE_REPLY_NOTIFY);
	before = kr_inode_truncations(f.inodes, f.number);
	assert_false(kr_inode_truncated(f.inodes, &f.fid));
	assert_false(tell(&f, 300)); /* said before, not told yet */
	assert_int_equal(
		kr_inode_reply_size(f.inodes, f.number, 300, &before), KR_SIZE_REPLY_STALE); /* asked for before */
	assert_int_equal(say(&f, 100), KR_SIZE_REPLY_NOTIFY);
	assert_int_equal(kr_inode_reply_size(f.inodes, f.number, 300, &before), KR_SIZE_REPLY_STALE);
	assert_int_equal(
		kr_inode_reply_size(f.inodes, f.number, 100, &before), KR_SIZE_REPLY_NOTIFY); /* as good as the other */
	assert_int_equal(say(&f, 300), KR_SIZE_REPLY_NOTIFY);                                 /* it has grown again */
	assert_true(tell(&f, 300));
	assert_int_equal(say(&f, 300), KR_SIZE_REPLY_KNOWN);
	kr_inodes_free(f.inodes);
}

/* Whoever hears so: of another who asks, of a read, of a lookup. */
static void a_size_that_is_less_than_the_last_is_a_cut(void **state)
{
	struct sized f = sized_file(), other = f;
	uint32_t cuts;

	(void)state;
	assert_int_equal(say(&f, 300), KR_SIZE_REPLY_NOTIFY);
	assert_int_equal(say(&other, 400), KR_SIZE_REPLY_NOTIFY); /* more is none */
	assert_true(tell(&f, 300));
	assert_true(tell(&other, 400));
	assert_int_equal(say(&f, 500), KR_SIZE_REPLY_NOTIFY);
	assert_int_equal(say(&other, 400), KR_SIZE_REPLY_NOTIFY);
	assert_false(tell(&f, 500));
	assert_true(tell(&other, 400));

	assert_int_equal(say(&f, 500), KR_SIZE_REPLY_NOTIFY);
	kr_inode_size_seen(f.inodes, f.number, 600); /* of a read that begins beyond the end */
	assert_true(kr_inode_notify_size(f.inodes, f.number, 500, f.cuts));
	kr_inode_notified_size(f.inodes, f.number, 500, f.cuts, false);
	kr_inode_size_seen(f.inodes, f.number, 450);
	assert_false(tell(&f, 500));
	assert_int_equal(say(&f, 500), KR_SIZE_REPLY_NOTIFY);
	learn(f.inodes, 7, 0, "a"); /* size 0 */
	assert_false(tell(&f, 500));

	/* What is read or looked up is no reason to believe in what was asked for before a cut. */
	cuts = kr_inode_truncations(f.inodes, f.number);
	kr_inode_truncated(f.inodes, &f.fid);
	kr_inode_size_seen(f.inodes, f.number, 500);
	assert_int_equal(kr_inode_reply_size(f.inodes, f.number, 500, &cuts), KR_SIZE_REPLY_STALE);
	kr_inodes_free(f.inodes);
}

static void *end_of_telling(void *argument)
{
	struct sized *f = argument;

	kr_inode_notified_size(f->inodes, f->number, 300, f->cuts, true);
	return NULL;
}

static void who_cuts_waits_for_those_who_are_telling(void **state)
{
	struct sized f = sized_file();
	struct kr_fid unknown = fid_of(8);
	pthread_t thread;

	(void)state;
	kr_inode_await_notifiers(f.inodes, &f.fid);
	kr_inode_await_notifiers(f.inodes, &unknown);
	assert_false(kr_inode_truncated(f.inodes, &unknown));
	assert_int_equal(say(&f, 300), KR_SIZE_REPLY_NOTIFY);
	assert_true(kr_inode_notify_size(f.inodes, f.number, 300, f.cuts));
	assert_true(kr_inode_truncated(f.inodes, &f.fid));
	assert_int_equal(pthread_create(&thread, NULL, end_of_telling, &f), 0);
	kr_inode_await_notifiers(f.inodes, &f.fid);
	assert_false(kr_inode_truncated(f.inodes, &f.fid));
	pthread_join(thread, NULL);
	assert_int_equal(say(&f, 300), KR_SIZE_REPLY_NOTIFY); /* the cut came after it */
	kr_inodes_free(f.inodes);
}

/* The kernel gives up an inode for good whose type changes, the root included. */
static void what_cannot_be_true_of_a_file_is_refused(void **state)
{
	struct kr_inodes *inodes = make();
	struct kr_fid fid = fid_of(7);
	struct kr_attr attr = {.mode = S_IFREG | 0644, .size = INT64_MAX};
	uint64_t number = learn(inodes, 7, 0, "a"), found, generation;

	(void)state;
	assert_int_equal(kr_inode_check(inodes, number, &attr), 0);
	assert_int_equal(kr_inode_check(inodes, 1, &attr), -EIO);
	attr.size++;
	assert_int_equal(kr_inode_check(inodes, number, &attr), -EIO);
	attr = (struct kr_attr){.mode = S_IFDIR | 0755};
	assert_int_equal(kr_inode_check(inodes, 1, &attr), 0);
	assert_int_equal(kr_inode_check(inodes, number, &attr), -EIO);
	assert_int_equal(kr_inode_learn(inodes, &fid, &attr, NULL, NULL, &found, &generation), -EIO);
	kr_inode_forget(inodes, number, 1); /* a lookup that was refused does not count */
	fid = fid_of(8);
	attr.mode = 0160000;
	assert_int_equal(kr_inode_learn(inodes, &fid, &attr, NULL, NULL, &found, &generation), -EIO);
	assert_int_equal(kr_inodes_count(inodes), 1);
	kr_inodes_free(inodes);
}

static void a_directory_that_is_gone_has_attributes_and_no_name(void **state)
{
	struct kr_inodes *inodes = make();
	struct kr_fid fid = fid_of(7);
	struct kr_attr attr = {.mode = S_IFDIR | 0750, .nlink = 3, .uid = 5}, said;
	uint64_t number, generation, file = learn(inodes, 9, 0, "f");

	(void)state;
	assert_int_equal(kr_inode_learn(inodes, &fid, &attr, NULL, NULL, &number, &generation), 0);
	attr.uid = 6;
	assert_int_equal(kr_inode_learn(inodes, &fid, &attr, NULL, NULL, &number, &generation), 0);
	assert_true(kr_inode_removed_directory(inodes, number, &said));
	assert_true(said.mode == (S_IFDIR | 0750) && said.uid == 6 && said.nlink == 0);
	assert_false(kr_inode_removed_directory(inodes, file, &said));
	assert_false(kr_inode_removed_directory(inodes, 1, &said)); /* the export itself: it is not there */
	kr_inodes_free(inodes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_file_has_one_number_until_all_its_lookups_are_forgotten),
		cmocka_unit_test(the_root_is_number_one_and_stays),
		cmocka_unit_test(a_path_follows_the_names_by_which_inodes_were_last_found),
		cmocka_unit_test(a_circle_of_names_ends),
		cmocka_unit_test(which_size_the_kernel_has_is_known_or_not),
		cmocka_unit_test(a_size_from_before_a_cut_is_not_told_any_more),
		cmocka_unit_test(a_size_that_is_less_than_the_last_is_a_cut),
		cmocka_unit_test(who_cuts_waits_for_those_who_are_telling),
		cmocka_unit_test(what_cannot_be_true_of_a_file_is_refused),
		cmocka_unit_test(a_directory_that_is_gone_has_attributes_and_no_name),
		cmocka_unit_test(a_hundred_thousand_inodes_come_and_go),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

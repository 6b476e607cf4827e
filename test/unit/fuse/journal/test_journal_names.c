/* Two segments of a journal that name one file number, and what of its bytes is believed when they do not agree about
 * it. */
#include "test/unit/fuse/journal/journal_fixture.h"

#include <fcntl.h>

#include "fuse/journal/journal_format.h"
#include "fuse/journal/journal_record.h"

/* The file of the journal whose name is PAIR and SUFFIX, to be changed. */
static int open_part(const struct fixture *f, unsigned pair, const char *suffix)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "%s/%08x.%s", f->directory, pair, suffix);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	return fd;
}

/* In the segment PAIR: the NAME that says the file INDEX says OTHER and HINT from now on, with all checksums right. */
static void rename_file(const struct fixture *f, unsigned pair, int index, int other, char hint)
{
	int records = open_part(f, pair, "index"), data = open_part(f, pair, "data");
	struct kr_fid fid = fid_of(index), changed = fid_of(other);
	struct kr_journal_header header;
	struct kr_journal_record record;
	uint8_t name[64];
	bool found = false;

	assert_int_equal(kr_pread_full(records, &header, sizeof(header), 0), 0);
	for (uint64_t at = KR_JOURNAL_HEADER_SIZE; !found && kr_pread_full(records, &record, sizeof(record), at) == 0;
		at += sizeof(record)) {
		if (record.check == 0 || record.type != KR_JOURNAL_NAME || record.length > sizeof(name))
			continue;
		assert_int_equal(kr_pread_full(data, name, record.length, record.data), 0);
		if (name[0] != fid.length || memcmp(name + 1, fid.bytes, fid.length) != 0)
			continue;
		found = true;
		memcpy(name + 1, changed.bytes, fid.length);
		name[record.length - 1] = (uint8_t)hint;
		record.data_check = kr_checksum(name, record.length);
		record.check = kr_journal_record_check(&record, header.salt);
		assert_int_equal(kr_pwrite_full(data, name, record.length, record.data), 0);
		assert_int_equal(kr_pwrite_full(records, &record, sizeof(record), at), 0);
	}
	assert_true(found);
	close(records);
	close(data);
}

/* Files 0 and 1 have bytes in both segments; 0 has some that are applied as well. The journal is closed. */
static void write_two_segments(struct fixture *f)
{
	append(f, 0, 0, 1000, 1);
	append(f, 1, 0, 1000, 2);
	apply(f, 0);
	append(f, 0, 3000, 1000, 3);
	restart(f); /* each start begins a segment of its own */
	append(f, 0, 5000, 1000, 4);
	append(f, 1, 5000, 1000, 5);
	kr_journal_free(f->journal);
}

/* What a start finds: file 1 whole, file 0 whole or nothing of it, and nothing of any other. */
static void look(struct fixture *f, bool whole, bool damaged)
{
	struct kr_recovered_file *file;

	open_journal(f);
	file = recovered(&f->recovery, 1);
	assert_non_null(file);
	compare_map(f->journal, &file->dirty, f->files[1].dirty);
	assert_null(recovered(&f->recovery, 2));
	file = recovered(&f->recovery, 0);
	assert_int_equal(file != NULL, whole);
	if (file)
		compare_map(f->journal, &file->dirty, f->files[0].dirty);
	assert_int_equal(kr_list_empty(&f->recovery.damage), !damaged);
	kr_recovery_fini(&f->recovery);
}

static void look_and_close(struct fixture *f, bool whole, bool damaged)
{
	look(f, whole, damaged);
	kr_journal_free(f->journal);
}

static void names_that_agree_but_for_the_path_are_one_file(void **state)
{
	struct fixture *f = *state;

	write_two_segments(f);
	look_and_close(f, true, false);
	rename_file(f, 2, 0, 0, 'x'); /* it was renamed in between */
	look(f, true, false);
}

/* Whichever of the two is wrong. */
static void bytes_whose_names_contradict_each_other_are_nobodys_until_they_are_discarded(void **state)
{
	for (unsigned pair = 1; pair <= 2; pair++) {
		struct fixture *f;

		if (pair == 2) {
			assert_int_equal(teardown(state), 0);
			assert_int_equal(setup(state), 0);
		}
		f = *state;
		write_two_segments(f);
		rename_file(f, pair, 0, 2, '0');
		for (int start = 0; start < 3; start++)
			look_and_close(f, false, true);
		look(f, false, true);
		kr_journal_discard_damage(f->journal);
		kr_journal_free(f->journal);
		look(f, false, false);
	}
}

/* Also if the other name is one that the journal knows under its own number. */
static void bytes_never_go_to_the_file_that_the_wrong_name_says(void **state)
{
	struct fixture *f = *state;

	write_two_segments(f);
	rename_file(f, 1, 0, 1, '0');
	look(f, false, true);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(names_that_agree_but_for_the_path_are_one_file),
		TEST(bytes_whose_names_contradict_each_other_are_nobodys_until_they_are_discarded),
		TEST(bytes_never_go_to_the_file_that_the_wrong_name_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* A small journal, cut and flipped at every byte: what is undamaged comes back, what is not is reported, nothing is
 * wrong. */
#include "test/unit/fuse/journal/damage_fixture.h"

static void damage_is_kept_until_it_is_discarded_by_command(void **state)
{
	struct kr_recovery recovery;
	struct kr_journal *journal;
	struct image image = original;

	(void)state;
	image.data = malloc(image.data_length);
	memcpy(image.data, original.data, image.data_length);
	image.data[script[0].data] ^= 1;
	directory_empty(directory);
	store("00000001.index", image.index, image.index_length);
	store("00000001.data", image.data, image.data_length);
	free(image.data);
	for (int start_number = 0; start_number < 2; start_number++) {
		struct kr_recovered_file *file;

		options.incarnation++;
		assert_int_equal(kr_journal_open(&options, &recovery, &journal), 0);
		assert_false(kr_list_empty(&recovery.damage));
		KR_LIST_FOR_EACH(file, &recovery.files, link) /* the good bytes go their way */
			kr_extent_map_for_each(&file->dirty, kr_journal_release, journal);
		kr_recovery_fini(&recovery);
		assert_int_equal(access(path_of("00000001.index"), F_OK), 0);
		if (start_number == 1)
			kr_journal_discard_damage(journal);
		kr_journal_free(journal);
	}
	assert_int_not_equal(access(path_of("00000001.index"), F_OK), 0);
}

/* Opens the journal as the next daemon would. */
static struct kr_journal *open_next(struct kr_recovery *recovery)
{
	struct kr_journal *journal;

	options.incarnation++;
	assert_int_equal(kr_journal_open(&options, recovery, &journal), 0);
	return journal;
}

static void append(struct kr_journal *journal, struct kr_journal_file *file, uint64_t offset)
{
	struct kr_extent extent;

	assert_int_equal(
		kr_journal_append(journal, file, offset, "0123456789", 10, (struct kr_time){0}, false, &extent), 0);
}

struct stage {
	struct kr_journal *journal;
	uint64_t flushed, left; /* bytes from 10 on, which go their way, and others */
};

static void flush_second(void *context, const struct kr_extent *piece)
{
	struct stage *stage = context;

	*(piece->offset < 10 ? &stage->left : &stage->flushed) += piece->length;
	if (piece->offset >= 10)
		kr_journal_release(stage->journal, piece);
}

static void a_name_that_stands_in_for_a_damaged_one_stays(void **state)
{
	struct kr_fid fid = fid_of(0);
	struct kr_journal_file *file = kr_journal_file_new(&fid, "zero");
	struct kr_recovered_file *found;
	struct kr_recovery recovery;
	struct kr_journal *journal;
	struct image image;

	(void)state;
	directory_empty(directory);
	journal = open_next(&recovery);
	append(journal, file, 0);
	kr_recovery_fini(&recovery);
	kr_journal_free(journal);
	kr_journal_file_free(file);

	journal = open_next(&recovery); /* a second segment, which names the file too */
	append(journal, KR_LIST_ENTRY(recovery.files.head.next, struct kr_recovered_file, link)->file, 10);
	kr_recovery_fini(&recovery);
	kr_journal_free(journal);
	image.data = load("00000001.data", &image.data_length);
	image.data[0] ^= 0x10; /* the name in the first one */
	store("00000001.data", image.data, image.data_length);
	free(image.data);

	for (int i = 0; i < 3; i++) {
		struct stage stage = {0};

		stage.journal = journal = open_next(&recovery);
		KR_LIST_FOR_EACH(found, &recovery.files, link)
			kr_extent_map_for_each(&found->dirty, flush_second, &stage);
		assert_int_equal(stage.left, 10);
		assert_int_equal(stage.flushed, i == 0 ? 10 : 0);
		kr_recovery_fini(&recovery);
		if (i == 1)
			kr_journal_discard_damage(journal); /* the other bytes are still to be sent */
		kr_journal_free(journal);
	}
}

/* NAMEs lie before the first write of their file. */
static bool is_name_data(size_t at)
{
	return at < original.data_length && writes_with_data_at(at, at + 1) == 0;
}

static void an_untouched_journal_comes_back_whole(void **state)
{
	struct outcome outcome;

	(void)state;
	start(&original, &outcome);
	assert_int_equal(outcome.damages, 0);
	expect_outcome(&outcome, everything, 0, 0);
}

static void data_cut_anywhere_costs_exactly_the_writes_behind(void **state)
{
	struct outcome outcome;

	(void)state;
	for (size_t length = 0; length < original.data_length; length++) {
		struct image image = original;
		unsigned lost = writes_with_data_at(length, original.data_length);

		image.data_length = length;
		start(&image, &outcome);
		if (length <= script[2].data) { /* a name is lost as well: then nothing of that file is known */
			assert_true(outcome.damages > 0);
			continue;
		}
		expect_outcome(&outcome, everything & ~lost, lost, length);
		assert_int_equal(outcome.named, lost);
		assert_int_equal(outcome.torn, outcome.damages);
	}
}

static void a_changed_data_byte_costs_exactly_its_write(void **state)
{
	struct outcome outcome;

	(void)state;
	for (size_t at = 0; at < original.data_length; at++) {
		struct image image = original;
		unsigned lost = writes_with_data_at(at, at + 1);

		if (is_name_data(at))
			continue;
		image.data = malloc(image.data_length);
		memcpy(image.data, original.data, image.data_length);
		image.data[at] ^= (uint8_t)(1u << (at % 8));
		start(&image, &outcome);
		free(image.data);
		expect_outcome(&outcome, everything & ~lost, lost, at);
		assert_int_equal(outcome.named, lost);
		assert_int_equal(outcome.torn, lost == 1u << (WRITES - 1) ? 1 : 0);
	}
}

static void a_changed_byte_of_a_name_is_reported(void **state)
{
	struct outcome outcome;

	(void)state;
	for (size_t at = 0; at < script[2].data; at++) {
		struct image image = original;

		if (!is_name_data(at))
			continue;
		image.data = malloc(image.data_length);
		memcpy(image.data, original.data, image.data_length);
		image.data[at] ^= 0x10;
		start(&image, &outcome);
		free(image.data);
		if (outcome.damages == 0) /* between two records */
			expect_outcome(&outcome, everything, 0, at);
	}
}

/* Bytes of the index worth changing: headers, all used slots, and some of the rest. */
static bool interesting(size_t at)
{
	size_t used = KR_JOURNAL_HEADER_SIZE + (script[WRITES - 1].slot + 2) * KR_JOURNAL_RECORD_SIZE;

	return at < 200 || (at >= KR_JOURNAL_HEADER_COPY && at < KR_JOURNAL_HEADER_COPY + 200) ||
		(at >= KR_JOURNAL_HEADER_SIZE && at < used) || at % 331 == 0;
}

static void flip_index(size_t at, uint8_t mask, struct outcome *ret)
{
	struct image image = original;

	image.index = malloc(image.index_length);
	memcpy(image.index, original.index, image.index_length);
	image.index[at] ^= mask;
	start(&image, ret);
	free(image.index);
}

static void one_flipped_bit_of_the_index_costs_nothing(void **state)
{
	struct outcome outcome;

	(void)state;
	for (size_t at = 0; at < original.index_length; at++) {
		if (!interesting(at))
			continue;
		flip_index(at, (uint8_t)(1u << (at % 8)), &outcome);
		expect_outcome(&outcome, everything, 0, at);
		assert_int_equal(outcome.torn, outcome.damages); /* at most junk behind the last record */
	}
}

static void a_changed_byte_of_the_index_is_reported_and_gives_no_wrong_byte(void **state)
{
	struct outcome outcome;

	(void)state;
	for (size_t at = 0; at < original.index_length; at++) {
		size_t slot = (at - KR_JOURNAL_HEADER_SIZE) / KR_JOURNAL_RECORD_SIZE;
		unsigned hit =
			at >= KR_JOURNAL_HEADER_SIZE ? writes_below_slot(slot + 1) & ~writes_below_slot(slot) : 0;

		if (!interesting(at))
			continue;
		flip_index(at, 0x5a, &outcome);
		if (hit == 0 && at >= KR_JOURNAL_HEADER_SIZE && slot < script[WRITES - 1].slot)
			assert_true(outcome.damages > 0); /* a name */
		else if (outcome.named)                   /* the keep word: the record's range is known */
			expect_outcome(&outcome, everything & ~hit, hit, at);
		else
			expect_outcome(&outcome, everything & ~hit, 0, at);
		if (hit)
			assert_int_equal(outcome.damages, 1);
	}
}

static void an_index_cut_anywhere_keeps_the_records_before(void **state)
{
	struct outcome outcome;

	(void)state;
	for (size_t length = 0; length < original.index_length; length++) {
		struct image image = original;
		unsigned whole = 0;

		if (!interesting(length))
			continue;
		image.index_length = length;
		start(&image, &outcome);
		assert_true(outcome.damages > 0);
		if (length > KR_JOURNAL_HEADER_SIZE)
			whole = writes_below_slot((length - KR_JOURNAL_HEADER_SIZE) / KR_JOURNAL_RECORD_SIZE);
		expect_outcome(&outcome, whole, 0, length);
		assert_int_equal(access(path_of("00000001.data"), F_OK), 0);
	}
}

static void random_bytes_never_harm_the_reader(void **state)
{
	uint64_t random = 12345;

	(void)state;
	for (int round = 0; round < 300; round++) {
		struct image image = original;
		struct outcome outcome;

		image.index = malloc(image.index_length);
		memcpy(image.index, original.index, image.index_length);
		for (int i = 0; i < 40; i++) {
			random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
			image.index[KR_JOURNAL_HEADER_SIZE + (random >> 33) % 900] = (uint8_t)(random >> 20);
		}
		start(&image, &outcome);
		assert_true(outcome.damages > 0);
		free(image.index);
	}
}

static void the_listing_shows_every_record(void **state)
{
	static const struct kr_scan_owner anybody;
	struct kr_scan *scan;
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	int fd;

	(void)state;
	directory_empty(directory);
	store("00000001.index", original.index, original.index_length);
	store("00000001.data", original.data, original.data_length);
	fd = open(directory, O_RDONLY | O_DIRECTORY);
	assert_int_equal(kr_scan_open(fd, &anybody, &scan), 0);
	kr_scan_dump(scan, true, out);
	assert_true(kr_scan_verify(scan, out));
	fclose(out);
	assert_non_null(strstr(text, "WRITE   file 2 one offset 100 length 200"));
	assert_non_null(strstr(text, "file 1 zero: 250 bytes in 6 writes, up to offset 330"));
	assert_non_null(strstr(text, "the journal is sound"));
	free(text);
	kr_scan_free(scan);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_untouched_journal_comes_back_whole),
		cmocka_unit_test(data_cut_anywhere_costs_exactly_the_writes_behind),
		cmocka_unit_test(a_changed_data_byte_costs_exactly_its_write),
		cmocka_unit_test(damage_is_kept_until_it_is_discarded_by_command),
		cmocka_unit_test(a_name_that_stands_in_for_a_damaged_one_stays),
		cmocka_unit_test(a_changed_byte_of_a_name_is_reported),
		cmocka_unit_test(one_flipped_bit_of_the_index_costs_nothing),
		cmocka_unit_test(a_changed_byte_of_the_index_is_reported_and_gives_no_wrong_byte),
		cmocka_unit_test(an_index_cut_anywhere_keeps_the_records_before),
		cmocka_unit_test(random_bytes_never_harm_the_reader),
		cmocka_unit_test(the_listing_shows_every_record),
	};

	return cmocka_run_group_tests(tests, make_journal, remove_journal);
}

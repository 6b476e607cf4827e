/* A small journal, what comes back of it when it has been damaged, and what should. */
#ifndef KR_TEST_UNIT_DAMAGE_FIXTURE_H
#define KR_TEST_UNIT_DAMAGE_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/util.h"
#include "fuse/journal/journal.h"
#include "fuse/journal/journal_format.h"
#include "fuse/journal/journal_scan.h"
#include "test/unit/directory.h"

enum { FILE_BYTES = 400, FILES = 2, WRITES = 9 };

/* One write of the script, and where it came to lie. */
struct write {
	int file;
	uint64_t offset;
	size_t length;
	uint32_t slot, data;
};
static struct write script[WRITES] = {
	{0, 0, 100, 0, 0},
	{0, 50, 100, 0, 0},
	{1, 10, 64, 0, 0},
	{0, 300, 30, 0, 0},
	{1, 0, 20, 0, 0},
	{0, 60, 10, 0, 0},
	{0, 0, 5, 0, 0},
	{1, 100, 200, 0, 0},
	{0, 310, 5, 0, 0},
};

struct image {
	uint8_t *index, *data;
	size_t index_length, data_length;
};

static char directory[64];
static struct image original;
static struct kr_journal_options options = {.export_id = {1}, .node_id = {2}, .max = KR_JOURNAL_MIN};

static inline uint8_t byte_of(int write, uint64_t at)
{
	return (uint8_t)(1 + ((unsigned)write * 50 + at) % 250);
}

static inline struct kr_fid fid_of(int index)
{
	return (struct kr_fid){.length = 3, .bytes = {'f', 'i', (uint8_t)('0' + index)}};
}

static inline const char *path_of(const char *name)
{
	static char path[128];

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	return path;
}

static inline uint8_t *load(const char *name, size_t *ret_length)
{
	FILE *file = fopen(path_of(name), "r");
	uint8_t *bytes;

	assert_non_null(file);
	fseek(file, 0, SEEK_END);
	*ret_length = (size_t)ftell(file);
	rewind(file);
	bytes = malloc(*ret_length);
	assert_int_equal(fread(bytes, 1, *ret_length, file), *ret_length);
	fclose(file);
	return bytes;
}

static inline void store(const char *name, const uint8_t *bytes, size_t length)
{
	int fd = open(path_of(name), O_CREAT | O_TRUNC | O_WRONLY, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, bytes, length), length);
	close(fd);
}

static inline int make_journal(void **state)
{
	struct kr_journal_file *files[FILES];
	struct kr_recovery recovery;
	struct kr_journal *journal;

	(void)state;
	strcpy(directory, access("/dev/shm", W_OK) == 0 ? "/dev/shm/kairan-XXXXXX" : "/tmp/kairan-XXXXXX");
	assert_non_null(mkdtemp(directory));
	options.directory = directory;
	options.incarnation = 1;
	assert_int_equal(kr_journal_open(&options, &recovery, &journal), 0);
	kr_recovery_fini(&recovery);
	for (int i = 0; i < FILES; i++) {
		struct kr_fid fid = fid_of(i);

		files[i] = kr_journal_file_new(&fid, i ? "one" : "zero");
	}
	for (int i = 0, slot = 0; i < WRITES; i++) {
		uint8_t data[FILE_BYTES];
		struct kr_extent extent;

		for (size_t at = 0; at < script[i].length; at++)
			data[at] = byte_of(i, at);
		slot += files[script[i].file]->number == 0; /* its name goes first */
		assert_int_equal(kr_journal_append(journal, files[script[i].file], script[i].offset, data,
					 script[i].length, (struct kr_time){0}, false, &extent),
			0);
		script[i].slot = (uint32_t)slot++;
		script[i].data = (uint32_t)extent.position;
	}
	kr_journal_free(journal);
	for (int i = 0; i < FILES; i++)
		kr_journal_file_free(files[i]);
	original.index = load("00000001.index", &original.index_length);
	original.data = load("00000001.data", &original.data_length);
	return 0;
}

static inline int remove_journal(void **state)
{
	(void)state;
	directory_remove(directory);
	free(original.index);
	free(original.data);
	return 0;
}

/* What must come back when exactly the writes whose bit is set are whole, and the bytes of those in PUNCHED are
 * lost. */
static inline void expect(unsigned whole, unsigned punched, int file, uint8_t *ret_bytes)
{
	memset(ret_bytes, 0, FILE_BYTES);
	for (int i = 0; i < WRITES; i++) {
		if (script[i].file != file)
			continue;
		for (size_t at = 0; at < script[i].length; at++) {
			if (whole & 1u << i)
				ret_bytes[script[i].offset + at] = byte_of(i, at);
			else if (punched & 1u << i)
				ret_bytes[script[i].offset + at] = 0;
		}
	}
}

struct picture {
	struct kr_journal *journal;
	uint8_t bytes[FILE_BYTES];
};

static inline void paint(void *context, const struct kr_extent *piece)
{
	struct picture *picture = context;

	assert_true(piece->offset + piece->length <= FILE_BYTES);
	assert_int_equal(kr_journal_read_verified(
				 picture->journal, piece->position, picture->bytes + piece->offset, piece->length),
		0);
}

/* What one start made of a damaged image. */
struct outcome {
	struct picture files[FILES];
	uint32_t damages, torn;
	unsigned named; /* writes whose exact file and range were reported */
};

static inline void note_damage(struct outcome *outcome, const struct kr_journal_damage *damage)
{
	outcome->damages++;
	outcome->torn += damage->torn_tail;
	assert_true(strlen(damage->text) > 10);
	for (int i = 0; i < WRITES && damage->fid.length; i++) {
		struct kr_fid fid = fid_of(script[i].file);

		if (kr_fid_equal(&fid, &damage->fid) && damage->offset == script[i].offset &&
			damage->length == script[i].length)
			outcome->named |= 1u << i;
	}
}

static inline void start(const struct image *image, struct outcome *ret)
{
	struct kr_journal_damage *damage;
	struct kr_recovered_file *file;
	struct kr_recovery recovery;
	struct kr_journal *journal;

	memset(ret, 0, sizeof(*ret));
	directory_empty(directory);
	store("00000001.index", image->index, image->index_length);
	store("00000001.data", image->data, image->data_length);
	options.incarnation++;
	assert_int_equal(kr_journal_open(&options, &recovery, &journal), 0);
	KR_LIST_FOR_EACH(file, &recovery.files, link)
		for (int i = 0; i < FILES; i++) {
			struct kr_fid fid = fid_of(i);

			ret->files[i].journal = journal;
			if (kr_fid_equal(&fid, &file->file->fid))
				kr_extent_map_for_each(&file->dirty, paint, &ret->files[i]);
		}
	KR_LIST_FOR_EACH(damage, &recovery.damage, link)
		note_damage(ret, damage);
	kr_recovery_fini(&recovery);
	kr_journal_free(journal);
	if (ret->damages > ret->torn) /* evidence stays */
		assert_int_equal(access(path_of("00000001.index"), F_OK), 0);
}

static inline void expect_outcome(const struct outcome *outcome, unsigned whole, unsigned punched, size_t at)
{
	uint8_t bytes[FILE_BYTES];

	for (int i = 0; i < FILES; i++) {
		expect(whole, punched, i, bytes);
		if (memcmp(bytes, outcome->files[i].bytes, FILE_BYTES) != 0)
			fail_msg("byte %zu: file %d is wrong", at, i);
	}
}

static const unsigned everything = (1u << WRITES) - 1;

static inline unsigned writes_with_data_at(size_t from, size_t to)
{
	unsigned found = 0;

	for (int i = 0; i < WRITES; i++)
		if (script[i].data < to && script[i].data + script[i].length > from)
			found |= 1u << i;
	return found;
}

static inline unsigned writes_below_slot(size_t slots)
{
	unsigned found = 0;

	for (int i = 0; i < WRITES; i++)
		if (script[i].slot < slots)
			found |= 1u << i;
	return found;
}

#endif

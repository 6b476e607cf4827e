/* A journal in a directory of its own, and a model of what was written to it. */
#ifndef KR_TEST_JOURNAL_FIXTURE_H
#define KR_TEST_JOURNAL_FIXTURE_H

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/util.h"
#include "fuse/journal/journal.h"
#include "test/unit/directory.h"

enum { FILE_BYTES = 20000, FILES = 3 };

/* What a journal should hold of one file: the bytes of dirty writes, 0 = none (no test writes zeros). */
struct model_file {
	uint8_t dirty[FILE_BYTES];
	struct kr_journal_file *file;
	struct kr_extent_map map;
	struct kr_list applied; /* struct applied_round */
};

/* As the writeback room keeps one. */
struct applied_round {
	struct kr_link link;
	struct kr_extent_map extents;
	uint8_t bytes[FILE_BYTES];
};

struct fixture {
	char directory[64];
	struct kr_journal *journal;
	struct kr_journal_options options;
	struct model_file files[FILES];
	struct kr_recovery recovery;
	int space_calls;
};

static uint64_t random_state = 1;

static inline uint64_t random_below(uint64_t limit)
{
	random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (random_state >> 33) % limit;
}

static inline struct kr_fid fid_of(int index)
{
	struct kr_fid fid = {.length = 12};

	memset(fid.bytes, 'a' + index, 12);
	return fid;
}

static inline void count_space(void *context)
{
	((struct fixture *)context)->space_calls++;
}

static inline void open_journal(struct fixture *f)
{
	f->options.incarnation++;
	assert_int_equal(kr_journal_open(&f->options, &f->recovery, &f->journal), 0);
}

static inline void init_fixture(struct fixture *f, const char *directory, uint64_t incarnation)
{
	strcpy(f->directory, directory);
	f->options = (struct kr_journal_options){
		.directory = f->directory,
		.export_id = {7},
		.node_id = {9},
		.incarnation = incarnation,
		.max = KR_JOURNAL_MIN,
		.on_space = count_space,
		.context = f,
	};
	open_journal(f);
	kr_recovery_fini(&f->recovery);
	for (int i = 0; i < FILES; i++) {
		struct kr_fid fid = fid_of(i);
		char hint[] = "dir/file0";

		hint[8] = (char)('0' + i);
		f->files[i].file = kr_journal_file_new(&fid, hint);
		kr_extent_map_init(&f->files[i].map);
		kr_list_init(&f->files[i].applied);
	}
}

static inline int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char directory[] = "/tmp/kairan-journal-XXXXXX";

	assert_non_null(mkdtemp(directory));
	init_fixture(f, directory, 0);
	*state = f;
	return 0;
}

static inline void forget_applied(struct kr_list *list)
{
	struct applied_round *applied;

	while ((applied = KR_LIST_POP(list, struct applied_round, link))) {
		kr_extent_map_fini(&applied->extents);
		free(applied);
	}
}

static inline void forget_files(struct fixture *f)
{
	for (int i = 0; i < FILES; i++) {
		kr_journal_file_free(f->files[i].file);
		f->files[i].file = NULL;
		kr_extent_map_fini(&f->files[i].map);
		forget_applied(&f->files[i].applied);
	}
}

static inline int teardown(void **state)
{
	struct fixture *f = *state;

	kr_recovery_fini(&f->recovery);
	kr_journal_free(f->journal);
	forget_files(f);
	directory_remove(f->directory);
	free(f);
	return 0;
}

static inline int count_files(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	int count = 0;

	while ((entry = readdir(directory)))
		count += entry->d_name[0] != '.';
	closedir(directory);
	return count;
}

/* --- steps on journal and model --------------------------------------------------------------- */

static inline int append(struct fixture *f, int index, uint64_t offset, size_t length, uint8_t value)
{
	struct model_file *file = &f->files[index];
	uint8_t *data = malloc(length);
	struct kr_extent extent;
	int err;

	for (size_t i = 0; i < length; i++)
		data[i] = (uint8_t)(1 + (value * 31u + i) % 255);
	err = kr_journal_append(
		f->journal, file->file, offset, data, length, (struct kr_time){1000 + value, 5}, value % 2, &extent);
	if (err == 0) {
		assert_int_equal(kr_extent_map_insert(&file->map, &extent, kr_journal_release, f->journal), 0);
		if (offset + length <= FILE_BYTES)
			memcpy(file->dirty + offset, data, length);
	}
	free(data);
	return err;
}

static inline void hold(void *journal, const struct kr_extent *piece)
{
	kr_journal_hold(journal, piece);
}

/* A flush of all that is dirty, as flush.c does it: a start finds it dirty. */
static inline void apply(struct fixture *f, int index)
{
	struct model_file *file = &f->files[index];
	struct applied_round *applied;

	if (kr_extent_map_empty(&file->map))
		return;
	applied = calloc(1, sizeof(*applied));
	assert_int_equal(kr_extent_map_copy(&file->map, &applied->extents), 0);
	kr_extent_map_for_each(&applied->extents, hold, f->journal);
	kr_extent_map_drop_until(&file->map, UINT64_MAX, kr_journal_release, f->journal);
	memcpy(applied->bytes, file->dirty, sizeof(applied->bytes));
	memset(file->dirty, 0, sizeof(file->dirty));
	kr_list_append(&file->applied, &applied->link);
}

/* STABLE: the oldest round is durable. */
static inline void make_stable(struct fixture *f, int index)
{
	struct applied_round *applied = KR_LIST_POP(&f->files[index].applied, struct applied_round, link);

	if (!applied)
		return;
	kr_journal_release_map(f->journal, &applied->extents);
	free(applied);
}

/* The server does it when all that it has applied is durable. */
static inline void truncate_file(struct fixture *f, int index, uint64_t size)
{
	struct model_file *file = &f->files[index];

	while (!kr_list_empty(&file->applied))
		make_stable(f, index);
	kr_journal_trim(f->journal, &file->map, size);
	kr_extent_map_truncate(&file->map, size, kr_journal_release, f->journal);
	memset(file->dirty + size, 0, FILE_BYTES - size);
}

/* --- comparing -------------------------------------------------------------------------------- */

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

static inline void compare_map(struct kr_journal *journal, const struct kr_extent_map *map, const uint8_t *expected)
{
	struct picture *picture = calloc(1, sizeof(*picture));

	picture->journal = journal;
	kr_extent_map_for_each(map, paint, picture);
	assert_memory_equal(picture->bytes, expected, FILE_BYTES);
	free(picture);
}

static inline struct kr_recovered_file *recovered(struct kr_recovery *recovery, int index)
{
	struct kr_fid fid = fid_of(index);
	struct kr_recovered_file *file;

	KR_LIST_FOR_EACH(file, &recovery->files, link)
		if (file->file && kr_fid_equal(&file->file->fid, &fid))
			return file;
	return NULL;
}

/* What is applied is dirty again, below what is. */
static inline void unapply(struct model_file *file)
{
	const struct applied_round *applied;
	uint8_t bytes[FILE_BYTES] = {0};

	KR_LIST_FOR_EACH(applied, &file->applied, link)
		for (size_t i = 0; i < FILE_BYTES; i++)
			bytes[i] = applied->bytes[i] ? applied->bytes[i] : bytes[i];
	for (size_t i = 0; i < FILE_BYTES; i++)
		file->dirty[i] = file->dirty[i] ? file->dirty[i] : bytes[i];
	forget_applied(&file->applied);
}

/* Forgets all that is in memory, as a kill does, and takes over what a new start finds. */
static inline void restart(struct fixture *f)
{
	kr_journal_free(f->journal);
	open_journal(f);
	for (int i = 0; i < FILES; i++) {
		struct model_file *file = &f->files[i];
		struct kr_recovered_file *found = recovered(&f->recovery, i);

		assert_int_equal(found != NULL, !kr_extent_map_empty(&file->map) || !kr_list_empty(&file->applied));
		unapply(file);
		kr_extent_map_fini(&file->map);
		if (!found) {
			file->file->named_in = 0;
			continue;
		}
		compare_map(f->journal, &found->dirty, file->dirty);
		kr_extent_map_move(&found->dirty, &file->map);
		kr_journal_file_free(file->file);
		file->file = found->file;
		found->file = NULL;
	}
	assert_true(kr_list_empty(&f->recovery.damage));
	kr_recovery_fini(&f->recovery);
}

/* One small record stays in every segment, all else dies: only holes keep the journal below its maximum. */
static inline void pin_and_fill(struct fixture *f)
{
	for (int i = 0; i < 60; i++) {
		assert_int_equal(append(f, 2, (uint64_t)i * 300, 10, (uint8_t)(i + 1)), 0);
		for (int j = 0; j < 4; j++) {
			assert_int_equal(append(f, 0, 0, 200000, (uint8_t)(i + 1)), 0);
			kr_extent_map_truncate(&f->files[0].map, 0, kr_journal_release, f->journal);
		}
	}
	memset(f->files[0].dirty, 0, FILE_BYTES);
}

#endif

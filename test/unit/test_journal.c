/* The journal: appends, recoveries, holders, reuse, limits; against a model of what was written. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/util.h"
#include "fuse/journal.h"
#include "fuse/journal_format.h"
#include "fuse/journal_record.h"

enum { FILE_BYTES = 20000, FILES = 3 };

/* What a journal should hold of one file: the bytes of dirty writes, 0 = none (no test writes zeros). */
struct model_file {
	uint8_t dirty[FILE_BYTES];
	struct kr_journal_file *file;
	struct kr_extent_map map;
	struct kr_list applied;
};

struct fixture {
	char directory[64];
	struct kr_journal *journal;
	struct kr_journal_options options;
	struct model_file files[FILES];
	struct kr_recovery recovery;
	int space_calls;
};

static const uint8_t boot[16] = {1, 2, 3};
static uint64_t random_state = 1;

static uint64_t random_below(uint64_t limit)
{
	random_state = random_state * UINT64_C(6364136223846793005) + 1442695040888963407u;
	return (random_state >> 33) % limit;
}

static struct kr_fid fid_of(int index)
{
	struct kr_fid fid = {.length = 12};

	memset(fid.bytes, 'a' + index, 12);
	return fid;
}

static void count_space(void *context)
{
	((struct fixture *)context)->space_calls++;
}

static void open_journal(struct fixture *f)
{
	f->options.incarnation++;
	assert_int_equal(kr_journal_open(&f->options, &f->recovery, &f->journal), 0);
}

static void init_fixture(struct fixture *f, const char *directory, uint64_t incarnation)
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

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	char directory[] = "/tmp/kairan-journal-XXXXXX";

	assert_non_null(mkdtemp(directory));
	init_fixture(f, directory, 0);
	*state = f;
	return 0;
}

static void forget_applied(struct kr_list *list)
{
	struct kr_link *link;

	while ((link = kr_list_pop(list))) {
		struct kr_applied *applied = KR_LIST_ENTRY(link, struct kr_applied, link);

		kr_extent_map_fini(&applied->extents);
		free(applied);
	}
}

static void forget_files(struct fixture *f)
{
	for (int i = 0; i < FILES; i++) {
		kr_journal_file_free(f->files[i].file);
		f->files[i].file = NULL;
		kr_extent_map_fini(&f->files[i].map);
		forget_applied(&f->files[i].applied);
	}
}

static void remove_directory(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;

	assert_non_null(directory);
	while ((entry = readdir(directory)))
		unlinkat(dirfd(directory), entry->d_name, 0);
	closedir(directory);
	rmdir(path);
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	kr_recovery_fini(&f->recovery);
	kr_journal_free(f->journal);
	forget_files(f);
	remove_directory(f->directory);
	free(f);
	return 0;
}

static int count_files(const char *path)
{
	DIR *directory = opendir(path);
	struct dirent *entry;
	int count = 0;

	while ((entry = readdir(directory)))
		count += entry->d_name[0] != '.';
	closedir(directory);
	return count;
}

/* --- steps on journal and model ------------------------------------------------------------------------------ */

static int append(struct fixture *f, int index, uint64_t offset, size_t length, uint8_t value)
{
	struct model_file *file = &f->files[index];
	uint8_t *data = malloc(length);
	struct kr_extent extent;
	int err;

	for (size_t i = 0; i < length; i++)
		data[i] = (uint8_t)(1 + (value * 31u + i) % 255);
	err = kr_journal_append(f->journal, file->file, offset, data, length, (struct kr_time){1000 + value, 5},
		value % 2, &extent);
	if (err == 0) {
		assert_int_equal(kr_extent_map_insert(&file->map, &extent, kr_journal_release, f->journal), 0);
		if (offset + length <= FILE_BYTES)
			memcpy(file->dirty + offset, data, length);
	}
	free(data);
	return err;
}

static void hold(void *journal, const struct kr_extent *piece)
{
	kr_journal_hold(journal, piece);
}

/* A flush of all that is dirty, as flush.c does it. */
static void apply(struct fixture *f, int index, uint64_t round)
{
	struct model_file *file = &f->files[index];
	struct kr_applied *applied;

	if (kr_extent_map_empty(&file->map))
		return;
	applied = calloc(1, sizeof(*applied));
	applied->up_to = kr_extent_map_max_seq(&file->map);
	applied->round = round;
	assert_int_equal(kr_extent_map_copy(&file->map, &applied->extents), 0);
	kr_extent_map_for_each(&applied->extents, hold, f->journal);
	applied->mark = kr_journal_applied(f->journal, file->file, applied->up_to, round, boot);
	assert_true(applied->mark != 0);
	kr_extent_map_drop_until(&file->map, applied->up_to, kr_journal_release, f->journal);
	assert_true(kr_extent_map_empty(&file->map));
	memset(file->dirty, 0, sizeof(file->dirty));
	kr_list_append(&file->applied, &applied->link);
}

static void make_stable(struct fixture *f, int index)
{
	struct kr_link *link = kr_list_pop(&f->files[index].applied);
	struct kr_applied *applied;

	if (!link)
		return;
	applied = KR_LIST_ENTRY(link, struct kr_applied, link);
	kr_extent_map_for_each(&applied->extents, kr_journal_release, f->journal);
	kr_journal_release_mark(f->journal, applied->mark);
	kr_extent_map_fini(&applied->extents);
	free(applied);
}

static void truncate_file(struct fixture *f, int index, uint64_t size)
{
	struct model_file *file = &f->files[index];

	kr_journal_trim(f->journal, &file->map, size);
	kr_extent_map_truncate(&file->map, size, kr_journal_release, f->journal);
	memset(file->dirty + size, 0, FILE_BYTES - size);
}

/* --- comparing ----------------------------------------------------------------------------------------------- */

struct picture {
	struct kr_journal *journal;
	uint8_t bytes[FILE_BYTES];
};

static void paint(void *context, const struct kr_extent *piece)
{
	struct picture *picture = context;

	assert_true(piece->offset + piece->length <= FILE_BYTES);
	assert_int_equal(kr_journal_read_verified(picture->journal, piece->position, picture->bytes + piece->offset,
		piece->length), 0);
}

static void compare_map(struct kr_journal *journal, const struct kr_extent_map *map, const uint8_t *expected)
{
	struct picture *picture = calloc(1, sizeof(*picture));

	picture->journal = journal;
	kr_extent_map_for_each(map, paint, picture);
	assert_memory_equal(picture->bytes, expected, FILE_BYTES);
	free(picture);
}

static struct kr_recovered_file *recovered(struct kr_recovery *recovery, int index)
{
	struct kr_fid fid = fid_of(index);
	struct kr_recovered_file *file;

	KR_LIST_FOR_EACH(file, &recovery->files, link)
		if (file->file && kr_fid_equal(&file->file->fid, &fid))
			return file;
	return NULL;
}

/* Forgets all that is in memory, as a kill does, and takes over what a new start finds. */
static void restart(struct fixture *f)
{
	kr_journal_free(f->journal);
	open_journal(f);
	for (int i = 0; i < FILES; i++) {
		struct model_file *file = &f->files[i];
		struct kr_recovered_file *found = recovered(&f->recovery, i);
		struct kr_applied *mine, *theirs, *next;
		struct kr_link *other;

		assert_int_equal(found != NULL, !kr_extent_map_empty(&file->map) || !kr_list_empty(&file->applied));
		if (!found) {
			file->file->named_in = 0;
			continue;
		}
		compare_map(f->journal, &found->dirty, file->dirty);
		other = found->applied.head.next;
		KR_LIST_FOR_EACH(mine, &file->applied, link) {
			assert_ptr_not_equal(other, &found->applied.head);
			theirs = KR_LIST_ENTRY(other, struct kr_applied, link);
			assert_int_equal(mine->round, theirs->round);
			assert_int_equal(mine->up_to, theirs->up_to);
			assert_int_equal(mine->extents.bytes, theirs->extents.bytes);
			assert_memory_equal(theirs->boot_id, boot, 16);
			other = other->next;
		}
		assert_ptr_equal(other, &found->applied.head);
		kr_extent_map_fini(&file->map);
		kr_extent_map_move(&found->dirty, &file->map);
		forget_applied(&file->applied);
		KR_LIST_FOR_EACH_SAFE(theirs, next, &found->applied, link) {
			kr_list_remove(&theirs->link);
			kr_list_append(&file->applied, &theirs->link);
		}
		kr_journal_file_free(file->file);
		file->file = found->file;
		found->file = NULL;
	}
	assert_true(kr_list_empty(&f->recovery.damage));
	kr_recovery_fini(&f->recovery);
}

/* --- tests --------------------------------------------------------------------------------------------------- */

static void what_was_appended_is_read_back(void **state)
{
	struct fixture *f = *state;
	static uint8_t big[KR_JOURNAL_APPEND_MAX], back[KR_JOURNAL_APPEND_MAX];
	struct kr_extent extent;

	assert_int_equal(append(f, 0, 10, 100, 1), 0);
	assert_int_equal(append(f, 0, 50, 5000, 2), 0);
	compare_map(f->journal, &f->files[0].map, f->files[0].dirty);
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (uint8_t)(i * 7 + i / 1000);
	assert_int_equal(kr_journal_append(f->journal, f->files[1].file, 3, big, sizeof(big), (struct kr_time){0},
		false, &extent), 0);
	assert_int_equal(kr_journal_read_verified(f->journal, extent.position, back, sizeof(back)), 0);
	assert_memory_equal(big, back, sizeof(big));
	assert_int_equal(kr_journal_read_verified(f->journal, extent.position + 130000, back, 300000), 0);
	assert_memory_equal(big + 130000, back, 300000);
	assert_int_equal(kr_journal_read(f->journal, extent.position + 1, back, 17), 0);
	assert_memory_equal(big + 1, back, 17);
	kr_journal_release(f->journal, &extent);
}

static void random_life_with_restarts_agrees_with_the_model(void **state)
{
	struct fixture *f = *state;
	uint64_t round = 1;

	for (int step = 0; step < 3000; step++) {
		int index = (int)random_below(FILES);
		uint64_t offset = random_below(FILE_BYTES - 1);
		uint64_t longest = random_below(8) == 0 ? FILE_BYTES - offset : KR_MIN(FILE_BYTES - offset, 700u);

		switch (random_below(24)) {
		case 0:
			apply(f, index, round++);
			break;
		case 1:
		case 2:
			make_stable(f, index);
			break;
		case 3:
			truncate_file(f, index, offset);
			break;
		case 4:
			if (random_below(4) == 0)
				restart(f);
			break;
		default:
			assert_int_equal(append(f, index, offset, 1 + random_below(longest), (uint8_t)step), 0);
		}
		compare_map(f->journal, &f->files[index].map, f->files[index].dirty);
	}
	restart(f);
}

static void mtime_and_suid_of_the_last_dirty_write_come_back(void **state)
{
	struct fixture *f = *state;
	struct kr_recovered_file *found;

	append(f, 0, 0, 10, 1);
	apply(f, 0, 5);
	append(f, 0, 0, 10, 2);
	append(f, 0, 90, 10, 4);
	kr_journal_free(f->journal);
	open_journal(f);
	found = recovered(&f->recovery, 0);
	assert_non_null(found);
	assert_string_equal(found->file->hint, "dir/file0");
	assert_int_equal(found->mtime.sec, 1004);
	assert_int_equal(found->mtime.nsec, 5);
	assert_false(found->clear_suid);
	assert_true(KR_LIST_ENTRY(found->applied.head.next, struct kr_applied, link)->clear_suid);
}

static void a_killed_writer_loses_nothing_that_returned(void **state)
{
	struct fixture *f = *state;
	int pipes[2], status;
	uint8_t done = 0, last = 0;
	pid_t child;

	kr_journal_free(f->journal);
	assert_int_equal(pipe(pipes), 0);
	child = fork();
	if (child == 0) {
		open_journal(f);
		for (uint8_t i = 1;; i++) {
			if (append(f, 0, i * 10u, 3000, i) < 0 || write(pipes[1], &i, 1) != 1)
				_exit(1);
			if (i == 200)
				pause();
		}
	}
	close(pipes[1]);
	while (last < 150 && read(pipes[0], &done, 1) == 1)
		last = done;
	kill(child, SIGKILL);
	while (read(pipes[0], &done, 1) == 1)
		last = done;
	waitpid(child, &status, 0);
	close(pipes[0]);
	f->options.incarnation++;
	open_journal(f);
	assert_true(kr_list_empty(&f->recovery.damage));
	assert_non_null(recovered(&f->recovery, 0));
	assert_true(recovered(&f->recovery, 0)->dirty.count >= last);
	assert_true(recovered(&f->recovery, 0)->dirty.bytes >= last * 10u + 2990);
}

static void at_journal_max_appends_wait_until_bytes_are_stable(void **state)
{
	struct fixture *f = *state;
	struct kr_journal_usage usage;
	int err = 0;

	for (int i = 0; err == 0; i++) {
		assert_true(i < 1000);
		err = append(f, 0, (uint64_t)i * 100000, 100000, (uint8_t)i);
	}
	assert_int_equal(err, -EAGAIN);
	kr_journal_usage(f->journal, &usage);
	assert_true(usage.used <= usage.max);
	assert_true(usage.live > usage.max * 3 / 4);
	assert_true(usage.waiting);
	apply(f, 0, 1);
	assert_int_equal(append(f, 1, 0, KR_JOURNAL_APPEND_MAX, 1), -EAGAIN);
	assert_int_equal(f->space_calls, 0);
	make_stable(f, 0);
	assert_int_equal(f->space_calls, 1);
	assert_int_equal(append(f, 1, 0, KR_JOURNAL_APPEND_MAX, 1), 0);
}

static void segments_are_used_again_and_their_number_stays_bounded(void **state)
{
	struct fixture *f = *state;
	struct kr_journal_usage usage;

	for (int i = 0; i < 400; i++) {
		assert_int_equal(append(f, i % 2, 0, 200000, (uint8_t)i), 0);
		kr_extent_map_truncate(&f->files[i % 2].map, 0, kr_journal_release, f->journal);
	}
	assert_true(count_files(f->directory) <= 4);
	kr_journal_usage(f->journal, &usage);
	assert_int_equal(usage.live, 0);
	memset(f->files[0].dirty, 0, FILE_BYTES);
	memset(f->files[1].dirty, 0, FILE_BYTES);
	append(f, 0, 7, 9, 1);
	restart(f);
	kr_extent_map_truncate(&f->files[0].map, 0, kr_journal_release, f->journal);
	kr_journal_free(f->journal);
	assert_int_equal(count_files(f->directory), 0);
	open_journal(f);
}

static void one_held_record_does_not_keep_other_segments(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(append(f, 2, 5, 10, 3), 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(append(f, 0, 0, 200000, (uint8_t)i), 0);
		kr_extent_map_truncate(&f->files[0].map, 0, kr_journal_release, f->journal);
	}
	memset(f->files[0].dirty, 0, FILE_BYTES);
	restart(f);
	compare_map(f->journal, &f->files[2].map, f->files[2].dirty);
}

/* One small record stays in every segment, all else dies: only holes keep the journal below its maximum. */
static void pin_and_fill(struct fixture *f)
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

static uint64_t blocks_in(const char *directory)
{
	DIR *dir = opendir(directory);
	struct dirent *entry;
	uint64_t bytes = 0;
	struct stat st;

	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && S_ISREG(st.st_mode))
			bytes += (uint64_t)st.st_blocks * 512;
	closedir(dir);
	return bytes;
}

static void pinned_segments_give_back_what_is_dead(void **state)
{
	struct fixture *f = *state;
	struct kr_journal_usage usage;

	pin_and_fill(f);
	compare_map(f->journal, &f->files[2].map, f->files[2].dirty);
	kr_journal_usage(f->journal, &usage);
	assert_true(usage.used <= usage.max);
	assert_int_equal(usage.live, 600);
	assert_true(blocks_in(f->directory) <= usage.max + KR_JOURNAL_SPARES * (UINT64_C(2) << 20));
	restart(f);
	compare_map(f->journal, &f->files[2].map, f->files[2].dirty);
	pin_and_fill(f);
	restart(f);
}

static void the_journal_of_another_export_is_refused_and_kept(void **state)
{
	struct fixture *f = *state;
	uint8_t other[16] = {8}, found[16];

	append(f, 0, 0, 10, 1);
	kr_journal_free(f->journal);
	f->options.export_id[0] = 8;
	open_journal(f);
	assert_true(kr_list_empty(&f->recovery.files));
	assert_false(kr_list_empty(&f->recovery.damage));
	kr_recovery_fini(&f->recovery);
	kr_journal_free(f->journal);
	assert_int_equal(count_files(f->directory), 2);
	f->options.export_id[0] = 0;
	open_journal(f);
	assert_true(kr_list_empty(&f->recovery.damage));
	kr_journal_export(f->journal, found);
	assert_int_equal(found[0], 7);
	assert_int_equal(kr_journal_set_export(f->journal, other), -EXDEV);
	other[0] = 7;
	assert_int_equal(kr_journal_set_export(f->journal, other), 0);
}

static void write_file(const char *directory, const char *name, const void *bytes, size_t length)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	file = fopen(path, "w");
	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, length, file), length);
	fclose(file);
}

static void garbage_is_refused_and_kept(void **state)
{
	struct fixture *f = *state;
	uint8_t garbage[9000];

	for (size_t i = 0; i < sizeof(garbage); i++)
		garbage[i] = (uint8_t)random_below(256);
	kr_journal_free(f->journal);
	write_file(f->directory, "00000001.index", garbage, sizeof(garbage));
	write_file(f->directory, "00000001.data", garbage, sizeof(garbage));
	write_file(f->directory, "00000002.index", garbage, 1);
	write_file(f->directory, "00000003.data", garbage, 10);
	write_file(f->directory, "00000004.data", garbage, 0);
	write_file(f->directory, "README", garbage, 10);
	open_journal(f);
	assert_int_equal(append(f, 0, 0, 100, 1), 0);
	kr_recovery_fini(&f->recovery);
	kr_journal_free(f->journal);
	assert_int_equal(count_files(f->directory), 7); /* the empty one went, two came */
	open_journal(f);
	compare_map(f->journal, &recovered(&f->recovery, 0)->dirty, f->files[0].dirty);
}

static void too_small_a_maximum_is_refused(void **state)
{
	struct fixture *f = *state;
	struct kr_journal *journal;
	struct kr_recovery recovery;

	f->options.max = KR_JOURNAL_MIN - 1;
	assert_int_equal(kr_journal_open(&f->options, &recovery, &journal), -EINVAL);
	f->options.max = KR_JOURNAL_MIN;
}

struct writer {
	struct fixture *f;
	int index;
};

static void *write_many(void *context)
{
	struct writer *writer = context;

	for (int i = 0; i < 2000; i++) {
		assert_int_equal(append(writer->f, writer->index, (uint64_t)(i % 7) * 1000, 900, (uint8_t)i), 0);
		if (i % 100 == 99)
			apply(writer->f, writer->index, (uint64_t)i);
		if (i % 300 == 299)
			while (!kr_list_empty(&writer->f->files[writer->index].applied))
				make_stable(writer->f, writer->index);
	}
	return NULL;
}

static void writers_of_different_files_go_in_parallel(void **state)
{
	struct fixture *f = *state;
	struct writer writers[FILES];
	pthread_t threads[FILES];

	for (int i = 0; i < FILES; i++) {
		writers[i] = (struct writer){f, i};
		pthread_create(&threads[i], NULL, write_many, &writers[i]);
	}
	for (int i = 0; i < FILES; i++)
		pthread_join(threads[i], NULL);
	restart(f);
}

#ifdef KR_FAULTS
/* In another process, since one reads its fault points once: this program again, see main.  Returns its wait status. */
static int with_fault(struct fixture *f, const char *fault, const char *act)
{
	char incarnation[24];
	int status;
	pid_t child;

	kr_journal_free(f->journal);
	snprintf(incarnation, sizeof(incarnation), "%llu", (unsigned long long)++f->options.incarnation);
	child = fork();
	if (child == 0) {
		setenv("KR_FAULT", fault, 1);
		execl("/proc/self/exe", "test_journal", act, f->directory, incarnation, (char *)NULL);
		_exit(2);
	}
	waitpid(child, &status, 0);
	open_journal(f);
	assert_true(kr_list_empty(&f->recovery.damage));
	return status;
}

static void append_around_an_error(struct fixture *f)
{
	if (append(f, 0, 0, 5000, 1) != 0 || append(f, 0, 100, 5000, 2) != -ENOSPC || append(f, 0, 9000, 5000, 3) != 0)
		_exit(1);
}

static void an_append_that_fails_leaves_nothing_and_the_next_one_goes(void **state)
{
	struct fixture *f = *state;
	static const char *const faults[] = {"journal.append:enospc:2", "journal.index:enospc:2"};

	for (size_t i = 0; i < KR_ARRAY_SIZE(faults); i++) {
		assert_int_equal(with_fault(f, faults[i], "error"), 0);
		assert_int_equal(recovered(&f->recovery, 0)->dirty.count, 2);
		assert_int_equal(recovered(&f->recovery, 0)->dirty.bytes, 10000);
		kr_recovery_fini(&f->recovery);
	}
}

/* The active segment is dead when the disk is full: it is begun anew. */
static void append_to_a_full_disk(struct fixture *f)
{
	struct kr_journal_usage usage;

	if (append(f, 0, 0, 500000, 1) != 0)
		_exit(1);
	kr_extent_map_truncate(&f->files[0].map, 0, kr_journal_release, f->journal);
	if (append(f, 0, 100, 5000, 2) != 0)
		_exit(2);
	kr_journal_usage(f->journal, &usage);
	_exit(usage.used < 100000 ? 0 : 3);
}

static void a_full_disk_gets_the_room_of_dead_records(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(with_fault(f, "journal.append:enospc:2", "full"), 0);
	assert_int_equal(recovered(&f->recovery, 0)->dirty.bytes, 5000);
}

static void killed_before_and_amid_the_punches_nothing_is_damaged(void **state)
{
	struct fixture *f = *state;
	static const char *const faults[] = {"journal.punch:kill:1", "journal.punch:kill:2", "journal.punch:kill:9"};

	for (size_t k = 0; k < KR_ARRAY_SIZE(faults); k++) {
		struct kr_recovered_file *file;

		assert_true(WIFSIGNALED(with_fault(f, faults[k], "pin")));
		assert_null(recovered(&f->recovery, 0));
		file = recovered(&f->recovery, 2);
		for (uint64_t i = 0; i < file->dirty.count * 10; i++)
			f->files[2].dirty[i / 10 * 300 + i % 10] = (uint8_t)(1 + ((i / 10 + 1) * 31 + i % 10) % 255);
		assert_true(file->dirty.count > 3);
		compare_map(f->journal, &file->dirty, f->files[2].dirty);
		memset(f->files[2].dirty, 0, FILE_BYTES);
		kr_recovery_fini(&f->recovery);
		kr_journal_free(f->journal);
		remove_directory(f->directory);
		assert_int_equal(mkdir(f->directory, 0700), 0);
		open_journal(f);
	}
}

static void append_and_apply(struct fixture *f)
{
	append(f, 0, 0, 5000, 1);
	apply(f, 0, 7);
	append(f, 0, 0, 5000, 2);
	make_stable(f, 0);
}

static void killed_at_any_point_the_journal_says_what_was_done(void **state)
{
	struct fixture *f = *state;
	static const struct {
		const char *fault;
		uint64_t dirty, applied;
	} cases[] = {
		{"journal.segment:kill", 0, 0}, {"journal.append:kill:1", 0, 0}, {"journal.index:kill:1", 0, 0},
		{"journal.applied:kill", 5000, 0}, {"journal.append:kill:2", 0, 5000}, {"journal.index:kill:2", 0,
		5000},
		{"journal.stable:kill", 5000, 0},
	};

	for (size_t i = 0; i < KR_ARRAY_SIZE(cases); i++) {
		struct kr_recovered_file *file;
		uint64_t applied = 0;

		with_fault(f, cases[i].fault, "kill");
		file = recovered(&f->recovery, 0);
		if (file && !kr_list_empty(&file->applied))
			applied = KR_LIST_ENTRY(file->applied.head.next, struct kr_applied, link)->extents.bytes;
		assert_int_equal(file ? file->dirty.bytes : 0, cases[i].dirty);
		assert_int_equal(applied, cases[i].applied);
		kr_recovery_fini(&f->recovery);
		kr_journal_free(f->journal);
		remove_directory(f->directory);
		assert_int_equal(mkdir(f->directory, 0700), 0);
		open_journal(f);
	}
}
/* The other process. */
static int act_with_fault(char **argv)
{
	struct fixture *f = calloc(1, sizeof(*f));

	init_fixture(f, argv[2], strtoull(argv[3], NULL, 10));
	if (strcmp(argv[1], "error") == 0)
		append_around_an_error(f);
	else if (strcmp(argv[1], "full") == 0)
		append_to_a_full_disk(f);
	else if (strcmp(argv[1], "pin") == 0)
		pin_and_fill(f);
	else
		append_and_apply(f);
	_exit(0);
}
#endif

static void the_formats_bytes_are_golden(void **state)
{
	struct kr_journal_record record = {
		.seq = 0x0102030405060708,
		.file = 0x11121314,
		.type = KR_JOURNAL_WRITE,
		.flags = KR_JOURNAL_CLEAR_SUID,
		.offset = 0x2122232425262728,
		.length = 0x31323334,
		.data = 0x41424344,
		.data_check = 0x5152535455565758,
		.mtime_ns = 0x6162636465666768,
	};
	static const uint8_t golden[48] = {
		8, 7, 6, 5, 4, 3, 2, 1, 0x14, 0x13, 0x12, 0x11, 2, 1, 0, 0,
		0x28, 0x27, 0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 0x34, 0x33, 0x32, 0x31, 0x44, 0x43, 0x42, 0x41,
		0x58, 0x57, 0x56, 0x55, 0x54, 0x53, 0x52, 0x51, 0x68, 0x67, 0x66, 0x65, 0x64, 0x63, 0x62, 0x61,
	};
	struct kr_journal_header header = {.magic = KR_JOURNAL_MAGIC, .version = KR_JOURNAL_VERSION, .number = 3};

	(void)state;
	assert_memory_equal((uint8_t *)&record + 16, golden, sizeof(golden));
	assert_memory_equal(&header.magic, "KAIRANJ1", 8);
	kr_journal_header_seal(&header);
	assert_true(kr_journal_header_good(&header));
	assert_int_equal(header.check, UINT64_C(0x62519626c24b8011));
	assert_int_equal(kr_journal_record_check(&record, 99), UINT64_C(0x7a88a3ee582e3ebf));
	assert_int_equal(kr_journal_keep(5, 6), UINT64_C(0x290981ca00000007));
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(what_was_appended_is_read_back),
		TEST(random_life_with_restarts_agrees_with_the_model),
		TEST(mtime_and_suid_of_the_last_dirty_write_come_back),
		TEST(a_killed_writer_loses_nothing_that_returned),
		TEST(at_journal_max_appends_wait_until_bytes_are_stable),
		TEST(segments_are_used_again_and_their_number_stays_bounded),
		TEST(one_held_record_does_not_keep_other_segments),
		TEST(pinned_segments_give_back_what_is_dead),
		TEST(the_journal_of_another_export_is_refused_and_kept),
		TEST(garbage_is_refused_and_kept),
		TEST(too_small_a_maximum_is_refused),
		TEST(writers_of_different_files_go_in_parallel),
#ifdef KR_FAULTS
		TEST(an_append_that_fails_leaves_nothing_and_the_next_one_goes),
		TEST(killed_at_any_point_the_journal_says_what_was_done),
		TEST(a_full_disk_gets_the_room_of_dead_records),
		TEST(killed_before_and_amid_the_punches_nothing_is_damaged),
#endif
		cmocka_unit_test(the_formats_bytes_are_golden),
	};

#ifdef KR_FAULTS
	if (argc == 4)
		return act_with_fault(argv);
#endif
	(void)argc;
	(void)argv;
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The journal after a loss of the node's power: whom it believes. (test/crash tries what the disk may hold then.) */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "common/base/util.h"
#include "fuse/journal/journal.h"
#include "fuse/journal/sigbus_guard.h"

static const uint8_t boots[3][16] = {{1}, {2}, {3}};

struct fixture {
	char directory[64];
	struct kr_journal_options options;
	struct kr_journal *journal;
	struct kr_recovery recovery;
	struct kr_journal_file *file;
};

static struct kr_fid fid(void)
{
	return (struct kr_fid){.length = 4, .bytes = "file"};
}

static void start(struct fixture *f, int boot, uint64_t instance)
{
	f->options.incarnation++;
	f->options.node_boot = boots[boot];
	f->options.server_instance = instance;
	assert_int_equal(kr_journal_open(&f->options, &f->recovery, &f->journal), 0);
}

/* CLEAN: the daemon ended, and what it left was synced; else it was killed, or the machine was. */
static void end(struct fixture *f, bool clean)
{
	char path[80];

	kr_recovery_fini(&f->recovery);
	kr_journal_free(f->journal);
	snprintf(path, sizeof(path), "%s/clean", f->directory);
	if (!clean)
		unlink(path);
}

static struct kr_extent append(struct fixture *f, uint64_t offset, size_t length)
{
	KR_AUTO_FREE char *data = kr_xcalloc(1, length);
	struct kr_extent extent;

	assert_int_equal(
		kr_journal_append(f->journal, f->file, offset, data, length, (struct kr_time){1, 2}, false, &extent),
		0);
	return extent;
}

static struct kr_recovered_file *found(struct fixture *f)
{
	return kr_list_empty(&f->recovery.files) ?
		NULL :
		KR_LIST_ENTRY(f->recovery.files.head.next, struct kr_recovered_file, link);
}

static struct kr_journal_damage *damage(struct fixture *f)
{
	return kr_list_empty(&f->recovery.damage) ?
		NULL :
		KR_LIST_ENTRY(f->recovery.damage.head.next, struct kr_journal_damage, link);
}

static int setup(void **state)
{
	struct fixture *f = kr_xcalloc(1, sizeof(*f));
	struct kr_fid identity = fid();

	strcpy(f->directory, "/tmp/kairan-journal-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	f->options = (struct kr_journal_options){
		.directory = f->directory, .export_id = {1}, .node_id = {2}, .max = KR_JOURNAL_MIN, .server_boot = {9}};
	f->file = kr_journal_file_new(&identity, "dir/file");
	start(f, 0, 1);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;
	char command[96];

	end(f, false);
	kr_journal_file_free(f->file);
	snprintf(command, sizeof(command), "rm -r %s", f->directory);
	assert_int_equal(system(command), 0);
	free(f);
	return 0;
}

static void the_server_that_was_there_vouches_for_what_it_has(void **state)
{
	struct fixture *f = *state;

	append(f, 10, 100);
	end(f, false);
	start(f, 1, 1);
	assert_non_null(found(f));
	assert_int_equal(found(f)->dirty.bytes, 100);
	assert_true(found(f)->vouched);
	assert_true(f->recovery.power_lost);
	assert_null(damage(f));
}

static void without_it_old_bytes_are_set_aside_and_stay_so(void **state)
{
	struct fixture *f = *state;

	append(f, 10, 100);
	end(f, false);
	for (int time = 0; time < 2; time++) {
		start(f, 1, 2 + (uint64_t)time);
		assert_null(found(f));
		assert_non_null(damage(f));
		assert_true(damage(f)->fid.length > 0);
		assert_non_null(strstr(damage(f)->text, "100 bytes of dir/file"));
		assert_int_equal(f->recovery.doubtful, 100);
		end(f, time == 0);
	}
	start(f, 1, 9);
	kr_journal_discard_damage(f->journal);
	end(f, false);
	start(f, 1, 10);
	assert_null(damage(f));
	assert_null(found(f));
}

static void a_killed_daemon_is_no_loss_of_power(void **state)
{
	struct fixture *f = *state;

	append(f, 10, 100);
	end(f, false);
	start(f, 0, 7);
	assert_non_null(found(f));
	assert_int_equal(found(f)->dirty.bytes, 100);
	assert_false(found(f)->vouched);
	assert_false(f->recovery.power_lost);
}

static void a_reboot_after_an_orderly_end_is_no_loss_of_power(void **state)
{
	struct fixture *f = *state;

	append(f, 10, 100);
	end(f, true);
	start(f, 1, 7);
	assert_non_null(found(f));
	assert_int_equal(found(f)->dirty.bytes, 100);
	assert_false(f->recovery.power_lost);
	/* ... once: */
	end(f, false);
	start(f, 2, 8);
	assert_int_equal(f->recovery.doubtful, 100);
}

static void what_an_orderly_end_left_survives_kills_and_further_reboots(void **state)
{
	struct fixture *f = *state;

	append(f, 10, 100);
	for (int boot = 1; boot <= 2; boot++) {
		end(f, true);
		for (int kills = 0; kills <= 2; kills++) {
			if (kills)
				end(f, false);
			start(f, boot, f->options.server_instance + 1);
			assert_false(f->recovery.power_lost);
			assert_int_equal(f->recovery.doubtful, 0);
			assert_non_null(found(f));
			assert_int_equal(found(f)->dirty.bytes, 100);
		}
	}
}

/* Killed while it takes over what the former boot has left. */
static void headers_that_were_half_taken_over_are_whole(void **state)
{
	struct fixture *f = *state;
	char path[96];
	int fd;

	append(f, 10, 100);
	end(f, true);
	start(f, 1, 2);
	end(f, false);
	snprintf(path, sizeof(path), "%s/00000001.index", f->directory);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "torn", 4, 40), 4); /* the first copy: the second counts */
	close(fd);
	start(f, 1, 3);
	assert_int_equal(f->recovery.doubtful, 0);
	assert_int_equal(found(f)->dirty.bytes, 100);
}

static void what_the_server_is_known_to_have_is_never_doubtful(void **state)
{
	struct fixture *f = *state;
	struct kr_extent extent = append(f, 10, 100);

	assert_true(kr_journal_applied(f->journal, f->file, extent.seq, 5, f->options.server_boot) != 0);
	end(f, false);
	start(f, 1, 2);
	assert_null(damage(f));
	assert_non_null(found(f));
	assert_true(kr_extent_map_empty(&found(f)->dirty));
	assert_false(kr_list_empty(&found(f)->applied));
	/* Another boot of the server would have it replayed: perhaps over newer bytes. */
	end(f, false);
	f->options.server_boot[0]++;
	start(f, 2, 3);
	assert_null(found(f));
	assert_int_equal(f->recovery.doubtful, 100);
}

static void each_instance_of_the_server_has_segments_of_its_own(void **state)
{
	struct fixture *f = *state;

	append(f, 0, 100);
	kr_journal_set_server(f->journal, 2);
	append(f, 200, 50);
	end(f, false);
	start(f, 1, 2);
	assert_int_equal(f->recovery.doubtful, 100);
	assert_non_null(found(f));
	assert_int_equal(found(f)->dirty.bytes, 50);
}

static void newer_bytes_are_taken_out_of_doubtful_ones(void **state)
{
	struct fixture *f = *state;

	append(f, 0, 100);
	kr_journal_set_server(f->journal, 2);
	append(f, 50, 100);
	end(f, false);
	start(f, 1, 2);
	assert_int_equal(f->recovery.doubtful, 50);
}

static void what_is_set_aside_leaves_the_journals_room_to_others(void **state)
{
	struct fixture *f = *state;
	struct kr_journal_usage usage;
	struct kr_extent extent = {0};

	for (uint64_t at = 0; at < 6; at++)
		append(f, at << 20, KR_JOURNAL_APPEND_MAX);
	end(f, false);
	start(f, 1, 2);
	kr_journal_usage(f->journal, &usage);
	assert_true(usage.set_aside >= 6 << 20);
	assert_int_equal(usage.used, 0);
	f->file->number = 0;
	f->file->named_in = 0;
	for (uint64_t at = 0; at < 6; at++)
		extent = append(f, at << 20, KR_JOURNAL_APPEND_MAX);
	kr_journal_discard_damage(f->journal);
	kr_journal_usage(f->journal, &usage);
	assert_int_equal(usage.set_aside, 0);
	kr_journal_release(f->journal, &extent);
}

static void touch(void *at)
{
	*(volatile char *)at = 1;
}

static void a_store_that_the_disk_cannot_take_is_an_error(void **state)
{
	FILE *file = tmpfile();
	char *map;

	(void)state;
	kr_sigbus_guard_install(); /* the test framework has a handler of its own */
	assert_int_equal(ftruncate(fileno(file), 8192), 0);
	map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
	assert_ptr_not_equal(map, MAP_FAILED);
	assert_int_equal(kr_sigbus_guard(touch, map + 4096), 0);
	assert_int_equal(ftruncate(fileno(file), 4096), 0); /* its page cannot be had any more */
	for (int time = 0; time < 3; time++) {
		assert_int_equal(kr_sigbus_guard(touch, map + 4096), -EIO);
		assert_int_equal(kr_sigbus_guard(touch, map), 0);
	}
	munmap(map, 8192);
	fclose(file);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(the_server_that_was_there_vouches_for_what_it_has),
		TEST(without_it_old_bytes_are_set_aside_and_stay_so),
		TEST(a_killed_daemon_is_no_loss_of_power),
		TEST(a_reboot_after_an_orderly_end_is_no_loss_of_power),
		TEST(what_an_orderly_end_left_survives_kills_and_further_reboots),
		TEST(headers_that_were_half_taken_over_are_whole),
		TEST(what_the_server_is_known_to_have_is_never_doubtful),
		TEST(each_instance_of_the_server_has_segments_of_its_own),
		TEST(newer_bytes_are_taken_out_of_doubtful_ones),
		TEST(what_is_set_aside_leaves_the_journals_room_to_others),
		TEST(a_store_that_the_disk_cannot_take_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* The journal after a loss of the node's power: whether it knows. (test/crash tries what the disk may hold then.) */
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

static void start(struct fixture *f, int boot)
{
	const bool lost = kr_journal_lost_power(f->directory, boots[boot]);

	f->options.incarnation++;
	f->options.node_boot = boots[boot];
	assert_int_equal(kr_journal_open(&f->options, &f->recovery, &f->journal), 0);
	assert_int_equal(f->recovery.power_lost, lost);
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

static int setup(void **state)
{
	struct fixture *f = kr_xcalloc(1, sizeof(*f));
	struct kr_fid identity = fid();

	strcpy(f->directory, "/tmp/kairan-journal-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	f->options = (struct kr_journal_options){
		.directory = f->directory, .export_id = {1}, .node_id = {2}, .max = KR_JOURNAL_MIN};
	f->file = kr_journal_file_new(&identity, "dir/file");
	start(f, 0);
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

static void expect_start(struct fixture *f, int boot, bool power_lost)
{
	start(f, boot);
	assert_int_equal(f->recovery.power_lost, power_lost);
	assert_true(kr_list_empty(&f->recovery.damage));
	assert_int_equal(found(f)->dirty.bytes, 100);
}

static void after_a_loss_of_power_each_start_says_so_until_it_is_settled(void **state)
{
	struct fixture *f = *state;

	append(f, 10, 100);
	end(f, false);
	for (int kills = 0; kills < 2; kills++) {
		expect_start(f, 1, true);
		end(f, kills == 0); /* what a later start has synced does not bring back what was lost */
	}
	expect_start(f, 1, true);
	kr_journal_power_settled(f->journal);
	end(f, false);
	expect_start(f, 1, false);
	end(f, false);
	expect_start(f, 2, true);
}

static void a_killed_daemon_is_no_loss_of_power(void **state)
{
	struct fixture *f = *state;

	append(f, 10, 100);
	end(f, false);
	expect_start(f, 0, false);
}

static void a_journal_without_live_bytes_has_lost_none(void **state)
{
	struct fixture *f = *state;
	struct kr_extent extent = append(f, 10, 100);

	kr_journal_release(f->journal, &extent);
	append(f, 10, 100);
	end(f, false);
	start(f, 1);
	assert_true(f->recovery.power_lost);
	kr_extent_map_for_each(&found(f)->dirty, kr_journal_release, f->journal);
	/* Killed now the segments are there still. */
	assert_false(kr_journal_lost_power(f->directory, boots[1]));
	assert_false(kr_journal_lost_power("/nowhere", boots[1]));
}

static void a_reboot_after_an_orderly_end_is_no_loss_of_power(void **state)
{
	struct fixture *f = *state;

	append(f, 10, 100);
	end(f, true);
	expect_start(f, 1, false);
	/* ... once: */
	end(f, false);
	expect_start(f, 2, true);
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
			expect_start(f, boot, false);
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
	start(f, 1);
	end(f, false);
	snprintf(path, sizeof(path), "%s/00000001.index", f->directory);
	fd = open(path, O_RDWR);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "torn", 4, 40), 4); /* the first copy: the second counts */
	close(fd);
	expect_start(f, 1, false);
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
		TEST(after_a_loss_of_power_each_start_says_so_until_it_is_settled),
		TEST(a_killed_daemon_is_no_loss_of_power),
		TEST(a_journal_without_live_bytes_has_lost_none),
		TEST(a_reboot_after_an_orderly_end_is_no_loss_of_power),
		TEST(what_an_orderly_end_left_survives_kills_and_further_reboots),
		TEST(headers_that_were_half_taken_over_are_whole),
		TEST(a_store_that_the_disk_cannot_take_is_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

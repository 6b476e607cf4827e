/* What is kept of synced rounds: what it says of replays, and that it outlives the server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"
#include "server/daemon/life.h"
#include "server/flush/synced.h"
#include "server/flush/flush.h"
#include "server/leases/file_table.h"
#include "server/leases/invalidation.h"
#include "server/pipelines/staging.h"
#include "server/recovery/recovery.h"
#include "server/session/session.h"

enum { FORMER = 1000 }; /* the last round of the instances before */

static const uint8_t this_boot[16] = {1}, next_boot[16] = {2};

struct fixture {
	char directory[64];
	int dir;
	uv_loop_t loop;
	struct kr_server server;
	struct kr_synced synced;
	int done, err;
};

static struct kr_fid fid(uint32_t number)
{
	struct kr_fid file = {.length = 4};

	memcpy(file.bytes, &number, 4);
	return file;
}

static void reopen(struct fixture *f, const uint8_t boot_id[16], uint64_t last_round)
{
	kr_synced_close(&f->synced);
	assert_int_equal(kr_synced_open(&f->synced, &f->server, f->dir, boot_id, last_round), 0);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->directory, "/tmp/kr-test-synced-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	f->dir = open(f->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uv_loop_init(&f->loop);
	f->server.loop = &f->loop;
	assert_int_equal(kr_synced_open(&f->synced, &f->server, f->dir, this_boot, FORMER), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	kr_synced_close(&f->synced);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	unlinkat(f->dir, "synced", 0);
	close(f->dir);
	rmdir(f->directory);
	free(f);
	return 0;
}

static void noted(void *context, int err)
{
	struct fixture *f = context;

	f->done++;
	f->err = err;
}

static void note(struct fixture *f, uint32_t number, uint64_t round)
{
	struct kr_fid file = fid(number);

	kr_synced_note(&f->synced, &file, round, noted, f);
	uv_run(&f->loop, UV_RUN_DEFAULT);
}

static enum kr_synced_verdict judge(struct fixture *f, uint32_t number, uint64_t oldest, uint64_t newest)
{
	struct kr_fid file = fid(number);

	return kr_synced_judge(&f->synced, &file, oldest, newest);
}

static void rounds_up_to_the_noted_one_are_synced(void **state)
{
	struct fixture *f = *state;

	note(f, 1, 1010);
	assert_int_equal(f->done, 1);
	assert_int_equal(f->err, 0);
	assert_int_equal(judge(f, 1, 1001, 1010), KR_SYNCED_ALL);
	assert_int_equal(
		judge(f, 1, 1001, 1011), KR_SYNCED_NOT); /* the later one is not: all to be replayed, FLUSH sorts out */
	assert_int_equal(judge(f, 1, 1011, 1011), KR_SYNCED_NOT);
	assert_int_equal(judge(f, 2, 1001, 1001), KR_SYNCED_NOT); /* of another file */
}

static void what_is_noted_outlives_the_server_and_the_boot(void **state)
{
	struct fixture *f = *state;
	int fd;

	note(f, 1, 1010);
	note(f, 1, 1020);
	note(f, 2, 1030);
	fd = openat(f->dir, "synced", O_WRONLY | O_APPEND);
	assert_int_equal(
		write(fd, "file 01000000 1000 1099 0000000000000000\nfile 0100000", 54), 54); /* torn, and not ours */
	close(fd);
	for (int i = 0; i < 2; i++) {
		reopen(f, next_boot, 2000);
		assert_int_equal(judge(f, 1, 1001, 1020), KR_SYNCED_ALL);
		assert_int_equal(judge(f, 1, 1021, 1021), KR_SYNCED_NOT);
		assert_int_equal(judge(f, 2, 1030, 1030), KR_SYNCED_ALL);
	}
}

/* They may have been lost with the power, and a sync in the next boot has only what was there. */
static void rounds_of_a_former_boot_are_overtaken_by_a_sync_in_this_one(void **state)
{
	struct fixture *f = *state;

	reopen(f, next_boot, 2000);
	note(f, 1, 2010);
	assert_int_equal(judge(f, 1, 1500, 1500), KR_SYNCED_OVERTAKEN);
	assert_int_equal(judge(f, 1, 1500, 2005), KR_SYNCED_OVERTAKEN);
	assert_int_equal(judge(f, 1, 2001, 2005), KR_SYNCED_ALL);
	reopen(f, next_boot, 3000); /* only the daemon was started anew */
	note(f, 1, 3010);
	assert_int_equal(judge(f, 1, 2001, 3005), KR_SYNCED_ALL);
}

static void the_floor_holds_for_all_files_and_replaces_what_is_below(void **state)
{
	struct fixture *f = *state;

	note(f, 1, 1010);
	note(f, 2, 1030);
	kr_synced_raise(&f->synced, 1020);
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(f->synced.table.count, 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(judge(f, 1, 1001, 1020), KR_SYNCED_ALL);
		assert_int_equal(judge(f, 2, 1001, 1030), KR_SYNCED_ALL);
		assert_int_equal(judge(f, 3, 1020, 1020), KR_SYNCED_ALL);
		assert_int_equal(judge(f, 3, 1021, 1021), KR_SYNCED_NOT);
		assert_int_equal(judge(f, 3, 1000, 1000), KR_SYNCED_OVERTAKEN); /* of a former boot: nobody knows */
		reopen(f, this_boot, 2000);
	}
}

static void what_a_failed_sync_lost_is_not_synced_by_the_next(void **state)
{
	struct fixture *f = *state;

	note(f, 1, 1010);
	kr_synced_lose(&f->synced, 1015);
	note(f, 1, 1020);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(judge(f, 1, 1012, 1012), KR_SYNCED_OVERTAKEN);
		assert_int_equal(judge(f, 1, 1016, 1020), KR_SYNCED_ALL);
		reopen(f, this_boot, 2000);
	}
	note(f, 2, 1030); /* in this boot that stays so */
	assert_int_equal(judge(f, 2, 1012, 1012), KR_SYNCED_OVERTAKEN);
}

static void who_waits_meanwhile_shares_the_next_write(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i < 100; i++) {
		struct kr_fid file = fid(i);

		kr_synced_note(&f->synced, &file, 1001 + i, noted, f);
	}
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(f->done, 100);
	assert_int_equal(f->synced.writes, 2);
	reopen(f, this_boot, 2000);
	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(judge(f, i, 1001, 1001 + i), KR_SYNCED_ALL);
}

static void what_cannot_be_written_is_not_known(void **state)
{
	struct fixture *f = *state;
	int full = open("/dev/full", O_WRONLY), log = dup(f->synced.fd);

	assert_int_equal(dup2(full, f->synced.fd), f->synced.fd);
	note(f, 1, 1010);
	assert_int_equal(f->done, 1);
	assert_int_equal(f->err, -ENOSPC);
	assert_int_equal(judge(f, 1, 1010, 1010), KR_SYNCED_NOT);
	note(f, 1, 1010); /* writes the log anew */
	assert_int_equal(f->err, 0);
	reopen(f, this_boot, 2000);
	assert_int_equal(judge(f, 1, 1010, 1010), KR_SYNCED_ALL);
	close(log);
	close(full);
}

static void of_too_many_files_the_oldest_is_judged_by_its_times(void **state)
{
	struct fixture *f = *state;

	for (uint32_t i = 0; i <= KR_SYNCED_MAX; i++) {
		struct kr_fid file = fid(i);

		kr_synced_note(&f->synced, &file, 1001 + i, noted, f);
	}
	uv_run(&f->loop, UV_RUN_DEFAULT);
	assert_int_equal(f->done, KR_SYNCED_MAX + 1);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(judge(f, 0, 1001, 1001), KR_SYNCED_OVERTAKEN); /* never: as if it were not synced */
		assert_int_equal(judge(f, 5, 1002, 1006), KR_SYNCED_ALL);
		kr_synced_raise(&f->synced, 1001);
		reopen(f, this_boot, 2000000);
	}
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(rounds_up_to_the_noted_one_are_synced),
		TEST(what_is_noted_outlives_the_server_and_the_boot),
		TEST(rounds_of_a_former_boot_are_overtaken_by_a_sync_in_this_one),
		TEST(the_floor_holds_for_all_files_and_replaces_what_is_below),
		TEST(what_a_failed_sync_lost_is_not_synced_by_the_next),
		TEST(who_waits_meanwhile_shares_the_next_write),
		TEST(what_cannot_be_written_is_not_known),
		TEST(of_too_many_files_the_oldest_is_judged_by_its_times),
	};

	kr_log_init("test_synced", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

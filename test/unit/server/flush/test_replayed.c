/* What is kept of replayed rounds: that the next process of the same boot knows it, whatever became of the log. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/hex.h"
#include "common/base/log.h"
#include "server/base/line_log.h"
#include "server/flush/replayed.h"
#include "server/daemon/life.h"
#include "server/flush/flush.h"
#include "server/leases/file_table.h"
#include "server/leases/invalidation.h"
#include "server/pipelines/staging.h"
#include "server/recovery/recovery.h"
#include "server/session/session.h"

static const uint8_t this_boot[16] = {1}, next_boot[16] = {2}, node_a[16] = "node a", node_b[16] = "node b";

struct fixture {
	char directory[64];
	int dir;
	uv_loop_t loop;
	struct kr_server server;
	struct kr_applied applied;
	struct kr_replayed replayed;
	int done, err;
};

static struct kr_fid fid(uint32_t number)
{
	struct kr_fid file = {.length = 4};

	memcpy(file.bytes, &number, 4);
	return file;
}

static void begin(struct fixture *f, const uint8_t boot_id[16])
{
	kr_applied_init(&f->applied);
	assert_int_equal(kr_replayed_open(&f->replayed, &f->server, f->dir, boot_id, &f->applied), 0);
}

static void end(struct fixture *f)
{
	kr_replayed_close(&f->replayed);
	kr_applied_fini(&f->applied);
}

/* The process is killed and started anew. */
static void reopen(struct fixture *f, const uint8_t boot_id[16])
{
	end(f);
	begin(f, boot_id);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	strcpy(f->directory, "/tmp/kr-test-replayed-XXXXXX");
	assert_non_null(mkdtemp(f->directory));
	f->dir = open(f->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uv_loop_init(&f->loop);
	f->server.loop = &f->loop;
	begin(f, this_boot);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	end(f);
	assert_int_equal(uv_loop_close(&f->loop), 0);
	unlinkat(f->dir, "replayed", 0);
	close(f->dir);
	assert_int_equal(rmdir(f->directory), 0);
	free(f);
	return 0;
}

static void done(void *context, int err)
{
	struct fixture *f = context;

	f->done++;
	f->err = err;
}

static void ask(struct fixture *f, uint32_t number, const uint8_t node_id[16], uint64_t seq)
{
	struct kr_applied_replay replay = {.seq = seq, .round = 1000 + seq, .order = seq + 10};
	struct kr_fid file = fid(number);

	kr_replayed_note(&f->replayed, &file, node_id, &replay, done, f);
}

static void run(struct fixture *f)
{
	uv_run(&f->loop, UV_RUN_DEFAULT);
}

static void note(struct fixture *f, uint32_t number, const uint8_t node_id[16], uint64_t seq)
{
	ask(f, number, node_id, seq);
	run(f);
}

static uint64_t known(struct fixture *f, uint32_t number, const uint8_t node_id[16])
{
	struct kr_fid file = fid(number);
	const struct kr_applied_entry *entry = kr_applied_find(&f->applied, &file, node_id);

	if (entry && entry->seq)
		assert_int_equal(entry->round, 1000 + entry->seq);
	return entry ? entry->seq : 0;
}

static void what_is_noted_outlives_the_process_but_not_the_boot(void **state)
{
	struct fixture *f = *state;

	ask(f, 1, node_a, 5);
	assert_int_equal(known(f, 1, node_a), 0); /* nobody may be told yet */
	run(f);
	assert_int_equal(f->done, 1);
	assert_int_equal(f->err, 0);
	note(f, 1, node_b, 6);
	note(f, 1, node_a, 7);
	note(f, 2, node_a, 8);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(known(f, 1, node_a), 7);
		assert_int_equal(known(f, 1, node_b), 6);
		assert_int_equal(known(f, 2, node_a), 8);
		assert_int_equal(known(f, 2, node_b), 0);
		reopen(f, this_boot);
	}
	reopen(f, next_boot);
	assert_int_equal(known(f, 1, node_a), 0);
	reopen(f, this_boot); /* a boot does not come back */
	assert_int_equal(known(f, 1, node_a), 0);
}

static uint64_t others(struct fixture *f, uint32_t number, const uint8_t node_id[16])
{
	struct kr_fid file = fid(number);

	return kr_replayed_others(&f->replayed, &file, node_id);
}

static void the_order_of_what_others_have_replayed_is_known_to_the_next_process(void **state)
{
	static const uint8_t node_c[16] = "node c";
	struct fixture *f = *state;
	struct kr_fid lost = fid(1);

	note(f, 1, node_b, 6);
	note(f, 1, node_a, 7);
	note(f, 1, node_b, 3);
	note(f, 2, node_a, 8);
	assert_int_equal(others(f, 1, node_c), 0); /* what is collected now goes in by its order */
	for (int i = 0; i < 2; i++) {
		reopen(f, this_boot);
		assert_int_equal(others(f, 1, node_a), 16);
		assert_int_equal(others(f, 1, node_b), 17);
		assert_int_equal(others(f, 1, node_c), 17);
		assert_int_equal(others(f, 2, node_a), 0);
		assert_int_equal(others(f, 2, node_b), 18);
		assert_int_equal(others(f, 3, node_b), 0);
	}
	kr_replayed_lose(&f->replayed, &lost, done, f);
	run(f);
	assert_int_equal(others(f, 1, node_c), 17);
	reopen(f, this_boot);
	assert_int_equal(others(f, 1, node_c), 0);
	assert_int_equal(others(f, 2, node_b), 18);
	reopen(f, next_boot);
	assert_int_equal(others(f, 2, node_b), 0);
}

/* The server is replaced by a newer one in the boot in which nodes have replayed. */
static void what_was_noted_without_its_order_counts_as_replayed(void **state)
{
	struct fixture *f = *state;
	struct kr_line_log text = {0};
	char node[33], line[KR_LINE_MAX];
	int fd;

	kr_hex_format(node_a, 16, node);
	snprintf(line, sizeof(line), "node %s 01000000 99 1099", node);
	kr_line_log_add(&text, line);
	fd = openat(f->dir, "replayed", O_WRONLY | O_APPEND | O_CLOEXEC);
	assert_int_equal(kr_line_log_append(&text, fd), 0);
	close(fd);
	free(text.bytes);
	for (int i = 0; i < 2; i++) {
		reopen(f, this_boot);
		assert_int_equal(known(f, 1, node_a), 99);
		assert_int_equal(others(f, 1, node_b), 0);
	}
}

static void what_was_cut_short_spoils_nothing_else(void **state)
{
	static const char rest[] = "node 6e6f64652061 01000000 99 1099 109 0000000000000000\nnode 6e6f\0x";
	struct fixture *f = *state;
	int fd;

	note(f, 1, node_a, 5);
	fd = openat(f->dir, "replayed", O_WRONLY | O_APPEND);
	assert_int_equal(write(fd, rest, sizeof(rest)), sizeof(rest));
	close(fd);
	note(f, 1, node_b, 6);
	reopen(f, this_boot);
	assert_int_equal(known(f, 1, node_a), 5);
	assert_int_equal(known(f, 1, node_b), 6);
}

static void a_failed_sync_of_a_file_takes_all_of_it_back(void **state)
{
	struct fixture *f = *state;
	struct kr_fid file = fid(1);

	kr_replayed_lose(&f->replayed, &file, done, f);
	assert_int_equal(f->done, 1); /* nothing to be taken back */
	note(f, 1, node_a, 5);
	note(f, 1, node_b, 6);
	note(f, 2, node_a, 7);
	kr_replayed_lose(&f->replayed, &file, done, f);
	run(f);
	assert_int_equal(f->done, 5);
	for (int i = 0; i < 2; i++) {
		reopen(f, this_boot);
		assert_int_equal(known(f, 1, node_a), 0);
		assert_int_equal(known(f, 1, node_b), 0);
		assert_int_equal(known(f, 2, node_a), 7);
	}
}

/* Nothing is answered before it is there. */
static void what_cannot_be_written_is_tried_until_it_can(void **state)
{
	struct fixture *f = *state;
	int full = open("/dev/full", O_WRONLY);

	assert_int_equal(dup2(full, f->replayed.fd), f->replayed.fd);
	close(full);
	note(f, 1, node_a, 5);
	note(f, 1, node_b, 6);
	assert_int_equal(f->done, 0);
	assert_true(f->replayed.failing);
	assert_int_equal(known(f, 1, node_a), 0);
	kr_replayed_tick(&f->replayed); /* the log is written anew */
	run(f);
	assert_int_equal(f->done, 2);
	assert_int_equal(f->err, 0);
	assert_false(f->replayed.failing);
	reopen(f, this_boot);
	assert_int_equal(known(f, 1, node_a), 5);
	assert_int_equal(known(f, 1, node_b), 6);
}

static void who_stops_does_not_wait_for_a_full_disk(void **state)
{
	struct fixture *f = *state;
	int full = open("/dev/full", O_WRONLY);

	assert_int_equal(dup2(full, f->replayed.fd), f->replayed.fd);
	close(full);
	note(f, 1, node_a, 5);
	assert_int_equal(f->done, 0);
	kr_replayed_give_up(&f->replayed);
	assert_int_equal(f->done, 1);
	assert_int_equal(f->err, -EAGAIN);
	assert_int_equal(unlinkat(f->dir, "replayed", 0), 0);
	assert_int_equal(mkdirat(f->dir, "replayed", 0700), 0); /* in the way of every log */
	note(f, 1, node_b, 6);
	assert_int_equal(f->done, 2);
	assert_int_equal(f->err, -EAGAIN);
	assert_int_equal(unlinkat(f->dir, "replayed", AT_REMOVEDIR), 0);
}

static off_t log_size(const struct fixture *f)
{
	struct stat stat;

	assert_int_equal(fstatat(f->dir, "replayed", &stat, 0), 0);
	return stat.st_size;
}

static void the_log_does_not_grow_without_bound(void **state)
{
	struct fixture *f = *state;
	off_t most = 0;

	note(f, 7, node_a, 1);
	for (uint32_t i = 0; i < KR_REPLAYED_LOG + 100; i++) {
		ask(f, i % 3, node_b, 10 + i);
		if (i % 1000 == 0 || i > KR_REPLAYED_LOG)
			run(f);
		if (i % 1000 == 0)
			most = KR_MAX(most, log_size(f));
	}
	run(f);
	assert_true(log_size(f) < most / 100);
	reopen(f, this_boot);
	assert_int_equal(known(f, 7, node_a), 1);
	assert_int_equal(known(f, (KR_REPLAYED_LOG + 99) % 3, node_b), KR_REPLAYED_LOG + 109);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_is_noted_outlives_the_process_but_not_the_boot),
		TEST(the_order_of_what_others_have_replayed_is_known_to_the_next_process),
		TEST(what_was_noted_without_its_order_counts_as_replayed),
		TEST(what_was_cut_short_spoils_nothing_else),
		TEST(a_failed_sync_of_a_file_takes_all_of_it_back),
		TEST(what_cannot_be_written_is_tried_until_it_can),
		TEST(who_stops_does_not_wait_for_a_full_disk),
		TEST(the_log_does_not_grow_without_bound),
	};

	kr_log_init("test_replayed", KR_LOG_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

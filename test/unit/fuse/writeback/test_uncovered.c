/* What the journal's directory says of refused bytes whose lease was given back: the text, what a start makes of it,
 * and who waits for it. */
#include "fuse/writeback/flush.h"
#include "test/unit/fuse/journal/journal_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <uv.h>

#include "common/base/log.h"
#include "fuse/file/file.h"
#include "fuse/journal/journal_priv.h"
#include "fuse/journal/journal_scan.h"
#include "fuse/journal/journal_uncovered.h"
#include "fuse/session/session.h"
#include "fuse/writeback/uncovered.h"
#include "test/unit/moved_clock.h"

enum { LEASE_MS = 20000 };

static unsigned steps;

const struct kr_session_facts *kr_session_facts(const struct kr_session *session)
{
	static const struct kr_session_facts facts = {.lease_ms = LEASE_MS};

	(void)session;
	return &facts;
}

void kr_file_step(struct kr_file *file)
{
	(void)file;
	steps++;
}

/* --- the text --- */

static void a_line_is_read_as_it_was_written(void **state)
{
	struct kr_uncovered one = {fid_of(0), {.sec = 1790000000, .nsec = 7}, 5},
			    two = {fid_of(1), {.sec = -3, .nsec = 999999999}, UINT64_MAX}, got;
	char text[3 * KR_UNCOVERED_LINE_MAX];
	const char *rest = text;
	size_t length;

	(void)state;
	two.fid.length = KR_FID_MAX;
	length = kr_uncovered_format(&one, text);
	length += kr_uncovered_format(&two, text + length);
	assert_int_equal(length, strlen(text));
	assert_int_equal(kr_uncovered_next(&rest, &got), 0);
	assert_true(kr_fid_equal(&got.fid, &one.fid) && kr_time_compare(got.since, one.since) == 0);
	assert_int_equal(got.up_to, 5);
	assert_int_equal(kr_uncovered_next(&rest, &got), 0);
	assert_true(kr_fid_equal(&got.fid, &two.fid) && kr_time_compare(got.since, two.since) == 0);
	assert_true(got.up_to == UINT64_MAX);
	assert_int_equal(kr_uncovered_next(&rest, &got), -ENODATA);
}

static void what_is_not_a_line_to_the_last_byte_is_none(void **state)
{
	static const char *const texts[] = {"\n", "61 5.000000000 7", "61 5.000000000 7 \n", "61 5.0 7\n",
		"6A 5.000000000 7\n", "6 5.000000000 7\n", " 61 5.000000000 7\n", "61 5.000000000 -7\n",
		"61 5.000000000 18446744073709551616\n", "61 +5.000000000 7\n", "61  5.000000000 7\n"};
	struct kr_uncovered got;

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(texts); i++) {
		const char *rest = texts[i];

		assert_int_equal(kr_uncovered_next(&rest, &got), -EBADMSG);
		assert_int_equal(*rest, 0);
	}
}

static void arbitrary_bytes_are_survived(void **state)
{
	struct kr_uncovered one = {fid_of(0), {.sec = 5}, 7}, got;
	char text[4 * KR_UNCOVERED_LINE_MAX];

	(void)state;
	for (int round = 0; round < 20000; round++) {
		size_t length = kr_uncovered_format(&one, text);
		const char *rest = text;
		int err;

		length += kr_uncovered_format(&one, text + length);
		for (int i = 0; i < 3; i++)
			text[random_below(length)] = (char)random_below(256);
		do {
			const char *before = rest;

			err = kr_uncovered_next(&rest, &got);
			assert_true(rest > before || err == -ENODATA);
		} while (err != -ENODATA);
	}
}

/* --- a full disk (linked with --wrap) --- */

static size_t too_long = SIZE_MAX; /* for what is free */
static unsigned attempts;

int __real_kr_write_file(int dirfd, const char *name, const void *bytes, size_t length, mode_t mode);
int __wrap_kr_write_file(int dirfd, const char *name, const void *bytes, size_t length, mode_t mode);

int __wrap_kr_write_file(int dirfd, const char *name, const void *bytes, size_t length, mode_t mode)
{
	attempts++;
	return length >= too_long ? -ENOSPC : __real_kr_write_file(dirfd, name, bytes, length, mode);
}

static bool free_some(void *context, uint64_t bytes)
{
	(void)context;
	too_long += bytes;
	return true;
}

/* What is cached goes, as much as is needed. */
static void a_long_text_gets_the_room_that_it_needs(void **state)
{
	enum { LONG = 9 << 20 };
	struct fixture *f = *state;
	char *text = calloc(1, LONG + 1);
	int err;

	memset(text, 'x', LONG);
	too_long = 1;
	f->journal->options.make_room = free_some;
	err = kr_journal_write_uncovered(f->journal, text, LONG);
	too_long = SIZE_MAX;
	free(text);
	assert_int_equal(err, 0);
}

static void a_full_disk_gets_the_room_of_what_is_dead_in_the_journal(void **state)
{
	struct fixture *f = *state;
	int err;

	while (!f->journal->spare_count) {
		assert_int_equal(append(f, 0, 0, 200000, 1), 0);
		kr_extent_map_truncate(&f->files[0].map, 0, kr_journal_release, f->journal);
	}
	assert_int_equal(append(f, 1, 0, 100, 1), 0);
	too_long = 1;
	attempts = 0;
	err = kr_journal_write_uncovered(f->journal, "text", 4);
	too_long = SIZE_MAX;
	assert_int_equal(err, -ENOSPC);
	assert_int_equal(f->journal->spare_count, 0);
	assert_int_equal(attempts, 2);
}

/* --- the start --- */

/* The directory says TEXT; the daemon was killed, and is started anew. */
static void start_with(struct fixture *f, const char *text)
{
	assert_int_equal(kr_journal_write_uncovered(f->journal, text, strlen(text)), 0);
	kr_journal_free(f->journal);
	open_journal(f);
}

static uint64_t last_seq(const struct fixture *f, int index)
{
	return kr_extent_map_max_seq(&f->files[index].map);
}

static void bytes_are_uncovered_that_were_there_then(void **state)
{
	struct fixture *f = *state;
	char text[4 * KR_UNCOVERED_LINE_MAX] = KR_UNCOVERED_HEAD;
	struct kr_uncovered uncovered = {fid_of(0), {.sec = 77}, 0};
	uint64_t flushed;

	append(f, 0, 0, 100, 1);
	append(f, 1, 0, 100, 2);
	uncovered.up_to = last_seq(f, 0);
	flushed = last_seq(f, 1);
	append(f, 0, 500, 100, 3); /* written since */
	apply(f, 1);
	make_stable(f, 1);
	append(f, 1, 0, 100, 5);
	append(f, 2, 0, 100, 6);
	kr_uncovered_format(&uncovered, text + strlen(text));
	uncovered = (struct kr_uncovered){
		fid_of(1), {.sec = 78}, flushed}; /* gone to the server, and the line had no time to go */
	kr_uncovered_format(&uncovered, text + strlen(text));
	start_with(f, text);
	assert_true(f->recovery.uncovered);
	assert_int_equal(recovered(&f->recovery, 0)->uncovered.since.sec, 77);
	assert_true(recovered(&f->recovery, 0)->uncovered.up_to != 0);
	assert_int_equal(recovered(&f->recovery, 1)->uncovered.up_to, 0);
	assert_int_equal(recovered(&f->recovery, 2)->uncovered.up_to, 0);
	assert_true(kr_list_empty(&f->recovery.damage));
}

/* Nothing is sent as if nobody else could have written. */
static void a_damaged_text_may_have_spoken_of_any_file(void **state)
{
	struct fixture *f = *state;

	append(f, 0, 0, 100, 1);
	append(f, 1, 0, 100, 2);
	start_with(f, "uncovered 2\n");
	assert_false(kr_list_empty(&f->recovery.damage));
	assert_int_equal(recovered(&f->recovery, 0)->uncovered.since.sec, 1001); /* its last write */
	assert_int_equal(recovered(&f->recovery, 1)->uncovered.since.sec, 1002);
	kr_recovery_fini(&f->recovery);
	start_with(f, KR_UNCOVERED_HEAD "zz\n");
	assert_true(recovered(&f->recovery, 0)->uncovered.up_to && recovered(&f->recovery, 1)->uncovered.up_to);
}

static void without_a_text_nothing_is_uncovered(void **state)
{
	struct fixture *f = *state;

	append(f, 0, 0, 100, 1);
	start_with(f, "");
	assert_false(f->recovery.uncovered);
	assert_int_equal(recovered(&f->recovery, 0)->uncovered.up_to, 0);
}

/* `kairan journal`. */
static bool is_sound(const struct fixture *f, const char *said)
{
	static const struct kr_scan_owner anybody;
	struct kr_scan *scan;
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);
	bool sound;

	assert_int_equal(kr_scan_open(f->journal->dir_fd, &anybody, &scan), 0);
	sound = kr_scan_verify(scan, out);
	fclose(out);
	assert_non_null(strstr(text, said));
	free(text);
	kr_scan_free(scan);
	return sound;
}

static void the_check_of_a_journal_says_it(void **state)
{
	struct fixture *f = *state;
	char text[2 * KR_UNCOVERED_LINE_MAX] = KR_UNCOVERED_HEAD;
	struct kr_uncovered uncovered = {fid_of(0), {.sec = 77}, 1};

	append(f, 0, 0, 100, 1);
	kr_uncovered_format(&uncovered, text + strlen(text));
	assert_int_equal(kr_journal_write_uncovered(f->journal, text, strlen(text)), 0);
	assert_true(is_sound(f, "refused by the server, and others may have changed it since: file "));
	strcat(text, "and more\n");
	assert_int_equal(kr_journal_write_uncovered(f->journal, text, strlen(text)), 0);
	assert_false(is_sound(f, "'uncovered' is damaged"));
	assert_int_equal(kr_journal_write_uncovered(f->journal, "garbage", 7), 0);
	assert_false(is_sound(f, "'uncovered' is damaged"));
}

/* --- the log --- */

struct world {
	struct fixture *f;
	struct kr_mount mount;
	struct kr_uncovered_log *log;
	struct kr_file one, two;
	struct kr_flush flush_one, flush_two;
	uv_loop_t loop;
};

static struct world *world_new(struct fixture *f)
{
	struct world *w = calloc(1, sizeof(*w));

	uv_loop_init(&w->loop);
	w->f = f;
	w->mount.journal = f->journal;
	w->mount.loop = &w->loop;
	w->log = kr_uncovered_log_new(&w->mount);
	w->one.fid = fid_of(0);
	w->one.flush = &w->flush_one;
	w->flush_one.file = &w->one;
	w->two.fid = fid_of(1);
	w->two.flush = &w->flush_two;
	w->flush_two.file = &w->two;
	steps = 0;
	return w;
}

static void world_free(struct world *w)
{
	kr_uncovered_log_free(w->log);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&w->loop), 0);
	free(w);
}

static size_t lines(const struct world *w)
{
	char *text = NULL;
	size_t count = 0;

	if (kr_read_file(w->f->journal->dir_fd, KR_JOURNAL_UNCOVERED, 4096, &text, NULL))
		return 0;
	for (const char *c = text; *c; c++)
		count += *c == '\n';
	free(text);
	return count - 1;
}

static void a_lease_waits_until_the_directory_says_it(void **state)
{
	struct world *w = world_new(*state);
	const struct kr_time since = {.sec = 5};

	assert_true(kr_uncovered_awaited(w->log, &w->one, since, 7));
	assert_true(kr_uncovered_awaited(w->log, &w->two, since, 8)); /* comes with the next */
	assert_true(kr_uncovered_awaited(w->log, &w->one, since, 7));
	assert_int_equal(steps, 0);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(lines(w), 2);
	assert_int_equal(steps, 2);
	assert_false(kr_uncovered_awaited(w->log, &w->one, since, 7));
	assert_false(kr_uncovered_awaited(w->log, &w->two, since, 8));
	w->one.flush->uncovered = true;
	assert_true(
		kr_uncovered_awaited(w->log, &w->one, (struct kr_time){.sec = 9}, 1000000)); /* more has been refused */
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_false(kr_uncovered_awaited(w->log, &w->one, since, 1000000));
	assert_int_equal(w->one.flush->uncovered_line.since.sec, 5); /* as long as it is not judged */
	w->one.flush->uncovered = false;
	assert_true(kr_uncovered_awaited(
		w->log, &w->one, (struct kr_time){.sec = 11}, 2000000)); /* under a lease until now */
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(w->one.flush->uncovered_line.since.sec, 11);
	kr_uncovered_forget(w->log, &w->one);
	kr_uncovered_tick(w->log);
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(lines(w), 1);
	kr_uncovered_forget(w->log, &w->two); /* and the mount ends at once */
	kr_uncovered_log_stop(w->log);
	kr_uncovered_log_free(w->log);
	w->log = NULL;
	assert_int_equal(faccessat(w->f->journal->dir_fd, KR_JOURNAL_UNCOVERED, F_OK, 0), -1);
	world_free(w);
}

/* Of a program that goes on writing, and hears each time that it was refused, there is always more. */
static void what_is_refused_while_it_is_written_does_not_make_it_wait_anew(void **state)
{
	struct world *w = world_new(*state);
	const struct kr_time since = {.sec = 5};
	char *text;

	assert_true(kr_uncovered_awaited(w->log, &w->one, since, 7));
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(kr_read_file(w->f->journal->dir_fd, KR_JOURNAL_UNCOVERED, 4096, &text, NULL), 0);
	for (uint64_t refused = 8; refused < 100; refused++)
		assert_false(kr_uncovered_awaited(w->log, &w->one, since, refused));
	assert_true(strtoull(strrchr(text, ' '), NULL, 10) >=
		99); /* nor does a start take these for others than they are */
	free(text);
	world_free(w);
}

/* Others do not wait for two broken disks. */
static void a_disk_that_does_not_take_it_holds_nobody_up(void **state)
{
	struct world *w = world_new(*state);
	const struct kr_time since = {.sec = 5};
	const int dir = w->f->journal->dir_fd;

	w->f->journal->dir_fd = -1;
	assert_true(kr_uncovered_awaited(w->log, &w->one, since, 7));
	uv_run(&w->loop, UV_RUN_DEFAULT);
	assert_int_equal(steps, 1);
	assert_false(kr_uncovered_awaited(w->log, &w->one, since, 7));
	w->f->journal->dir_fd = dir;
	kr_uncovered_log_free(w->log); /* it has not forgotten it */
	w->log = NULL;
	assert_int_equal(lines(w), 1);
	world_free(w);
}

static int count_in_log(int log, const char *what)
{
	char text[4096] = "";
	const char *next = text;
	int count = 0;

	assert_true(pread(log, text, sizeof(text) - 1, 0) >= 0);
	while ((next = strstr(next, what))) {
		count++;
		next++;
	}
	return count;
}

/* The disk does not answer: who opens a pipe waits for a reader.  Nothing is judged before it has one: a test that
 * fails has to end. */
static void who_waits_for_a_slow_disk_is_told_once(void **state)
{
	struct world *w = world_new(*state);
	const int dir = w->f->journal->dir_fd, said = memfd_create("log", 0);
	uint64_t at_first, then;
	int reader, times;
	bool awaited;

	assert_int_equal(mkfifoat(dir, KR_JOURNAL_UNCOVERED ".new", 0600), 0);
	kr_log_set_file(said);
	awaited = kr_uncovered_awaited(w->log, &w->one, (struct kr_time){.sec = 5}, 7);
	kr_uncovered_tick(w->log);
	at_first = kr_uncovered_slow_ms(w->log);
	move_clock(LEASE_MS * 3 / 4);
	then = kr_uncovered_slow_ms(w->log);
	kr_uncovered_tick(w->log);
	kr_uncovered_tick(w->log);
	times = count_in_log(said, "leases of such files may wait");
	awaited = awaited && kr_uncovered_awaited(w->log, &w->one, (struct kr_time){.sec = 5}, 7);
	reader = openat(dir, KR_JOURNAL_UNCOVERED ".new", O_RDONLY | O_NONBLOCK);
	uv_run(&w->loop, UV_RUN_DEFAULT); /* a pipe is no file: it fails, at last */
	assert_true(awaited && reader >= 0);
	assert_int_equal(at_first, 0);
	assert_true(then > LEASE_MS / 2);
	assert_int_equal(times, 1);
	assert_int_equal(kr_uncovered_slow_ms(w->log), 0);
	assert_int_equal(count_in_log(said, "has answered after"), 1);
	kr_log_set_file(-1);
	close(said);
	close(reader);
	world_free(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_is_read_as_it_was_written),
		cmocka_unit_test(what_is_not_a_line_to_the_last_byte_is_none),
		cmocka_unit_test(arbitrary_bytes_are_survived),
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
		TEST(a_long_text_gets_the_room_that_it_needs),
		TEST(a_full_disk_gets_the_room_of_what_is_dead_in_the_journal),
		TEST(bytes_are_uncovered_that_were_there_then),
		TEST(a_damaged_text_may_have_spoken_of_any_file),
		TEST(without_a_text_nothing_is_uncovered),
		TEST(the_check_of_a_journal_says_it),
		TEST(a_lease_waits_until_the_directory_says_it),
		TEST(what_is_refused_while_it_is_written_does_not_make_it_wait_anew),
		TEST(a_disk_that_does_not_take_it_holds_nobody_up),
		TEST(who_waits_for_a_slow_disk_is_told_once),
	};

	kr_log_init("test_uncovered", KR_LOG_INFO);
	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Reasons, the log, whole-file helpers, cleanup attributes. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "common/base/boot.h"
#include "common/base/fail.h"
#include "common/base/hex.h"
#include "common/base/log.h"
#include "common/base/ring_order.h"
#include "common/base/util.h"

static char directory[] = "/tmp/kairan-util-XXXXXX";
static int dirfd_;

static int set_up(void **state)
{
	(void)state;
	if (!mkdtemp(directory))
		return -1;
	dirfd_ = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return dirfd_ < 0;
}

static int tear_down(void **state)
{
	(void)state;
	unlinkat(dirfd_, "a", 0);
	unlinkat(dirfd_, "log", 0);
	close(dirfd_);
	return rmdir(directory);
}

/* --- reasons --- */

static void a_failure_keeps_its_reason(void **state)
{
	(void)state;
	assert_int_equal(kr_fail(-EBADMSG, "hop %d: %s", 3, "length"), -EBADMSG);
	assert_string_equal(kr_fail_reason(), "hop 3: length");
	assert_int_equal(kr_fail_errno(-ENOENT, "cannot open %s", "x"), -ENOENT);
	assert_string_equal(kr_fail_reason(), "cannot open x: No such file or directory");
	kr_fail(-EIO, "again: %s", kr_fail_reason());
	assert_string_equal(kr_fail_reason(), "again: cannot open x: No such file or directory");
}

static void *fail_elsewhere(void *unused)
{
	kr_fail(-EIO, "of another thread");
	return unused;
}

static void each_thread_has_its_own_reason(void **state)
{
	pthread_t thread;

	(void)state;
	kr_fail(-EIO, "of this thread");
	pthread_create(&thread, NULL, fail_elsewhere, NULL);
	pthread_join(thread, NULL);
	assert_string_equal(kr_fail_reason(), "of this thread");
}

static void a_long_reason_is_cut(void **state)
{
	char text[2000];

	(void)state;
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	kr_fail_errno(-EIO, "%s", text);
	assert_int_equal(strlen(kr_fail_reason()), 511);
}

/* --- files --- */

static void a_written_file_reads_back(void **state)
{
	struct stat attributes;
	char *text;
	size_t length;

	(void)state;
	assert_int_equal(kr_write_file(dirfd_, "a", "first", 5, 0600), 0);
	assert_int_equal(kr_write_file(dirfd_, "a", "two\0b", 5, 0640), 0);
	assert_int_equal(kr_read_file(dirfd_, "a", 5, &text, &length), 0);
	assert_int_equal(length, 5);
	assert_memory_equal(text, "two\0b", 6);
	free(text);
	assert_int_equal(fstatat(dirfd_, "a", &attributes, 0), 0);
	assert_int_equal(attributes.st_mode & 07777, 0640);
	assert_int_equal(kr_read_file(dirfd_, "a", 4, &text, &length), -EFBIG);
	assert_int_equal(kr_read_file(dirfd_, "none", 4, &text, &length), -ENOENT);
	assert_int_equal(kr_write_file(dirfd_, "none/a", "", 0, 0600), -ENOENT);
	assert_int_equal(kr_read_file(AT_FDCWD, "/proc/self/stat", 65536, &text, NULL), 0);
	assert_true(strlen(text) > 10);
	free(text);
}

static void a_file_of_any_size_up_to_the_limit_is_read_whole(void **state)
{
	static const size_t sizes[] = {0, 1, 4095, 4096, 4097, 8192, 100000};
	static char written[100000];

	(void)state;
	for (size_t i = 0; i < sizeof(written); i++)
		written[i] = (char)(i % 251);
	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		size_t length = 1, limits[] = {sizes[i], sizes[i] + 1, SIZE_MAX - 1};

		assert_int_equal(kr_write_file(dirfd_, "a", written, sizes[i], 0600), 0);
		for (size_t j = 0; j < sizeof(limits) / sizeof(*limits); j++) {
			char *text;

			assert_int_equal(kr_read_file(dirfd_, "a", limits[j], &text, &length), 0);
			assert_int_equal(length, sizes[i]);
			assert_memory_equal(text, written, length);
			assert_int_equal(text[length], '\0');
			free(text);
		}
		if (sizes[i] > 0) {
			char *text = NULL;

			assert_int_equal(kr_read_file(dirfd_, "a", sizes[i] - 1, &text, NULL), -EFBIG);
			assert_null(text);
		}
	}
}

static void whole_transfers_stop_at_the_end_of_the_file(void **state)
{
	char bytes[8] = {0};
	KR_AUTO_FD int fd = openat(dirfd_, "a", O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	(void)state;
	assert_int_equal(kr_pwrite_full(fd, "abcdef", 6, 2), 0);
	assert_int_equal(kr_pread_full(fd, bytes, 6, 2), 0);
	assert_memory_equal(bytes, "abcdef", 6);
	assert_int_equal(kr_pread_full(fd, bytes, 7, 2), -ENODATA);
	assert_int_equal(kr_pread_full(fd, bytes, 0, 100), 0);
	assert_int_equal(kr_pwrite_full(-1, "a", 1, 0), -EBADF);
	assert_int_equal(kr_close(-1), -EBADF);
}

static void numbers_are_digits_alone(void **state)
{
	static const char *const wrong[] = {"", " 5", "5 ", "+5", "-5", "5k", "0x5", "1", "18446744073709551616"};
	uint64_t number = 7, high;

	(void)state;
	for (size_t i = 0; i < KR_ARRAY_SIZE(wrong); i++)
		assert_false(kr_parse_number(wrong[i], 2, UINT64_MAX, &number));
	assert_false(kr_parse_number("11", 2, 10, &number));
	assert_int_equal(number, 7);
	assert_true(kr_parse_number("18446744073709551615", 0, UINT64_MAX, &number));
	assert_true(number == UINT64_MAX);
	assert_true(kr_parse_range("3-9", 3, 9, &number, &high) && number == 3 && high == 9);
	assert_true(kr_parse_range("4", 3, 9, &number, &high) && number == 4 && high == 4);
	assert_false(kr_parse_range("9-3", 3, 9, &number, &high));
	assert_false(kr_parse_range("3-10", 3, 9, &number, &high));
	assert_false(kr_parse_range("3-", 3, 9, &number, &high));
	assert_false(kr_parse_range("", 0, 9, &number, &high));
	assert_true(kr_parse_number("010", 2, 10, &number));
	assert_int_equal(number, 10);
}

static void a_path_is_below_whole_names_only(void **state)
{
	(void)state;
	assert_string_equal(kr_path_below("/a/b/c", "/a"), "b/c");
	assert_string_equal(kr_path_below("/a", "/a"), "");
	assert_null(kr_path_below("/ab", "/a"));
	assert_null(kr_path_below("/", "/a"));
	assert_string_equal(kr_path_below("/a", "/"), "a");
	assert_string_equal(kr_path_below("a/b", ""), "a/b");
}

static void clocks_go_forward(void **state)
{
	uint64_t before = kr_clock_ns();

	(void)state;
	assert_true(kr_clock_ns() >= before);
	assert_true(kr_clock_real_ns() > UINT64_C(1700000000) * KR_NS_PER_S);
}

static void scoped_locks_are_released(void **state)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	(void)state;
	{
		KR_SCOPED_LOCK(&lock);
		assert_int_equal(pthread_mutex_trylock(&lock), EBUSY);
	}
	assert_int_equal(pthread_mutex_trylock(&lock), 0);
	pthread_mutex_unlock(&lock);
}

/* --- the log: to the file alone, with standard error aside --- */

static int log_fd, saved_stderr;

static void begin_log(enum kr_log_level level)
{
	log_fd = openat(dirfd_, "log", O_RDWR | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
	saved_stderr = dup(STDERR_FILENO);
	dup2(log_fd, STDERR_FILENO);
	kr_log_init("testd", level);
}

/* What standard error and the file got, in order. */
static const char *end_log(void)
{
	static char text[16384];
	ssize_t length;

	kr_log_set_file(-1);
	dup2(saved_stderr, STDERR_FILENO);
	close(saved_stderr);
	length = pread(log_fd, text, sizeof(text) - 1, 0);
	assert_true(length >= 0);
	text[length] = '\0';
	close(log_fd);
	return text;
}

static void lines_carry_program_and_level(void **state)
{
	const char *text;

	(void)state;
	begin_log(KR_LOG_INFO);
	errno = EXDEV;
	kr_log_error("disk %d is full", 3);
	assert_int_equal(errno, EXDEV);
	kr_log_warn("slow");
	kr_log_info("ready");
	kr_log_debug("hidden");
	text = end_log();
	assert_string_equal(text, "testd: error: disk 3 is full\ntestd: warning: slow\ntestd: ready\n");
}

static void the_file_s_lines_carry_time_and_process(void **state)
{
	const char *text, *file_line;
	char expected[64];

	(void)state;
	begin_log(KR_LOG_DEBUG);
	kr_log_set_file(log_fd);
	kr_log_debug("x");
	text = end_log();
	file_line = strchr(text, '\n') + 1;
	snprintf(expected, sizeof(expected), "Z testd[%d] debug: x\n", (int)getpid());
	assert_int_equal(strlen(file_line), strlen("2026-01-01T00:00:00.000") + strlen(expected));
	assert_string_equal(strchr(file_line, 'Z'), expected);
}

static void control_bytes_cannot_forge_a_line(void **state)
{
	const char *text;

	(void)state;
	begin_log(KR_LOG_INFO);
	kr_log_info("name a\ntestd: error: b\x1b[2J");
	text = end_log();
	assert_string_equal(text, "testd: name a?testd: error: b?[2J\n");
}

static void a_long_line_is_cut_and_still_ends(void **state)
{
	const char *text;
	char big[5000];

	(void)state;
	memset(big, 'y', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	begin_log(KR_LOG_INFO);
	kr_log_info("%s", big);
	text = end_log();
	assert_int_equal(strlen(text), strlen("testd: ") + 2047 + 1);
	assert_int_equal(text[strlen(text) - 1], '\n');
}

/* In a service: sd-daemon(3). Another file's numbers, inherited from a service that has sent its standard error
 * elsewhere, mean nothing. */
static void systemd_s_journal_gets_priorities(void **state)
{
	struct stat journal;
	char name[64];

	(void)state;
	begin_log(KR_LOG_INFO);
	assert_int_equal(fstat(STDERR_FILENO, &journal), 0);
	snprintf(name, sizeof(name), "%ju:%ju", (uintmax_t)journal.st_dev, (uintmax_t)journal.st_ino);
	setenv("JOURNAL_STREAM", name, 1);
	kr_log_init("testd", KR_LOG_INFO);
	kr_log_error("disk %d is full", 3);
	kr_log_warn("slow");
	kr_log_info("name\n<0>panic");
	assert_string_equal(end_log(), "<3>disk 3 is full\n<4>slow\n<6>name?<0>panic\n");
	snprintf(name, sizeof(name), "%ju:%ju", (uintmax_t)journal.st_dev, (uintmax_t)journal.st_ino + 1);
	setenv("JOURNAL_STREAM", name, 1);
	begin_log(KR_LOG_INFO);
	kr_log_info("ready");
	assert_string_equal(end_log(), "testd: ready\n");
	unsetenv("JOURNAL_STREAM");
}

static void ring_order_is_natural(void **state)
{
	(void)state;
	assert_true(kr_ring_order("n2", 9, "n10", 1) < 0);
	assert_true(kr_ring_order("n2", 1, "n2", 2) < 0);
	assert_int_equal(kr_ring_order("n2", 1, "n2", 1), 0);
}

/* Names of files are among what is parsed: each value has one spelling. */
static void hex_has_one_spelling(void **state)
{
	static const uint8_t bytes[] = {0x00, 0x9a, 0xff};
	static const char *const bad[] = {
		"", "0", "009af", "009AFF", "009aFf", "00-9a", " 009a", "009a ", "0x9a", "009agg", "009aff00"};
	char hex[2 * sizeof(bytes) + 1];
	uint8_t back[sizeof(bytes)] = {0};

	(void)state;
	assert_string_equal(kr_hex_format(bytes, sizeof(bytes), hex), "009aff");
	assert_int_equal(kr_hex_parse(hex, back, sizeof(back)), sizeof(back));
	assert_memory_equal(back, bytes, sizeof(bytes));
	assert_int_equal(kr_hex_parse("9a", back, sizeof(back)), 1);
	assert_string_equal(kr_hex_format(bytes, 0, hex), "");
	for (size_t i = 0; i < KR_ARRAY_SIZE(bad); i++)
		assert_int_equal(kr_hex_parse(bad[i], back, sizeof(back)), 0);
}

static void the_boot_id_is_the_kernel_s(void **state)
{
	char text[64] = "", hex[33], *digit = hex;
	uint8_t id[16];
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "r");

	(void)state;
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof(text), file));
	fclose(file);
	assert_int_equal(kr_boot_id(id), 0);
	kr_hex_format(id, sizeof(id), hex);
	for (const char *c = text; *c != '\n'; c++)
		if (*c != '-')
			assert_int_equal(*digit++, *c);
	assert_int_equal(*digit, '\0');
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failure_keeps_its_reason),
		cmocka_unit_test(each_thread_has_its_own_reason),
		cmocka_unit_test(a_long_reason_is_cut),
		cmocka_unit_test(a_written_file_reads_back),
		cmocka_unit_test(a_file_of_any_size_up_to_the_limit_is_read_whole),
		cmocka_unit_test(whole_transfers_stop_at_the_end_of_the_file),
		cmocka_unit_test(numbers_are_digits_alone),
		cmocka_unit_test(a_path_is_below_whole_names_only),
		cmocka_unit_test(clocks_go_forward),
		cmocka_unit_test(scoped_locks_are_released),
		cmocka_unit_test(lines_carry_program_and_level),
		cmocka_unit_test(the_file_s_lines_carry_time_and_process),
		cmocka_unit_test(control_bytes_cannot_forge_a_line),
		cmocka_unit_test(a_long_line_is_cut_and_still_ends),
		cmocka_unit_test(systemd_s_journal_gets_priorities),
		cmocka_unit_test(ring_order_is_natural),
		cmocka_unit_test(hex_has_one_spelling),
		cmocka_unit_test(the_boot_id_is_the_kernel_s),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}

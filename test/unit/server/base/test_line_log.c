/* The logs of the state directory. */
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

#include "common/base/util.h"
#include "server/base/line_log.h"

enum { LONG = 20000 };

struct found {
	char lines[8][LONG + 1];
	size_t count;
};

static void note(void *context, char *line)
{
	struct found *found = context;

	assert_true(found->count < KR_ARRAY_SIZE(found->lines));
	snprintf(found->lines[found->count++], sizeof(found->lines[0]), "%s", line);
}

static size_t parse(const char *text, struct found *ret_found)
{
	char copy[2 * LONG];

	ret_found->count = 0;
	snprintf(copy, sizeof(copy), "%s", text);
	return kr_line_log_parse(copy, strlen(copy), note, ret_found);
}

/* Another version reads these bytes. */
static void lines_have_their_golden_bytes(void **state)
{
	static const char golden[] = "\nfile 0102 2703347dbb13068d\n\n{\"place\":\"d/f g\"} 0437da3db49c07bf\n";
	struct kr_writer lines = {0};

	(void)state;
	kr_line_log_add(&lines, "file 0102");
	kr_line_log_add(&lines, "{\"place\":\"d/f g\"}");
	assert_false(lines.failed);
	assert_int_equal(lines.length, strlen(golden));
	assert_memory_equal(lines.bytes, golden, strlen(golden));
	kr_writer_fini(&lines);
}

static void a_damaged_line_is_skipped_and_counted(void **state)
{
	struct kr_writer lines = {0};
	struct found found;
	char *text;

	(void)state;
	kr_line_log_add(&lines, "doubt 1 2 3");
	kr_line_log_add(&lines, "doubt 4 5 6");
	text = kr_xcalloc(1, lines.length + 32);
	memcpy(text, lines.bytes, lines.length);
	memcpy(text + lines.length, "doubt 7 8 9 0123456789abc", 25); /* cut short */
	assert_int_equal(parse(text, &found), 1);
	assert_int_equal(found.count, 2);
	text[7] ^= 1; /* a digit of the first line */
	assert_int_equal(parse(text, &found), 2);
	assert_int_equal(found.count, 1);
	assert_string_equal(found.lines[0], "doubt 4 5 6");
	free(text);
	kr_writer_fini(&lines);
}

static void a_line_of_any_length_comes_back(void **state)
{
	static char line[LONG + 1];
	struct kr_writer lines = {0};
	struct found found;

	(void)state;
	memset(line, 'x', LONG);
	kr_line_log_add(&lines, "%s", line);
	kr_line_log_add(&lines, "next");
	kr_put_u8(&lines, '\0');
	assert_int_equal(parse((const char *)lines.bytes, &found), 0);
	assert_int_equal(found.count, 2);
	assert_string_equal(found.lines[0], line);
	kr_writer_fini(&lines);
}

/* `conflicts` of former versions. */
static void a_json_object_needs_no_checksum(void **state)
{
	struct found found;

	(void)state;
	assert_int_equal(parse("\n{\"a\": 1}\n\n{\"cut\": \n", &found), 1);
	assert_int_equal(found.count, 1);
	assert_string_equal(found.lines[0], "{\"a\": 1}");
}

static void of_a_log_that_is_too_long_the_end_is_read(void **state)
{
	char path[] = "/dev/shm/kr-lines-XXXXXX";
	struct kr_writer lines = {0};
	struct found found = {0};
	size_t damaged;
	int dir, fd;

	(void)state;
	assert_non_null(mkdtemp(path));
	dir = open(path, O_RDONLY | O_DIRECTORY);
	kr_line_log_add(&lines, "file 01");
	assert_int_equal(kr_line_log_write(&lines, dir, "log"), 0);
	fd = openat(dir, "log", O_WRONLY | O_APPEND);
	assert_int_equal(ftruncate(fd, (off_t)2 * KR_LINE_LOG_MAX), 0);
	assert_int_equal(kr_line_log_append(&lines, fd), 0);
	assert_int_equal(kr_line_log_read(dir, "log", note, &found, &damaged), 0);
	assert_int_equal(found.count, 1);
	assert_int_equal(damaged, 0);
	assert_int_equal(kr_line_log_read(dir, "none", note, &found, &damaged), 0);
	assert_int_equal(found.count, 1);
	unlinkat(dir, "log", 0);
	rmdir(path);
	close(fd);
	close(dir);
	kr_writer_fini(&lines);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_have_their_golden_bytes),
		cmocka_unit_test(a_damaged_line_is_skipped_and_counted),
		cmocka_unit_test(a_line_of_any_length_comes_back),
		cmocka_unit_test(a_json_object_needs_no_checksum),
		cmocka_unit_test(of_a_log_that_is_too_long_the_end_is_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

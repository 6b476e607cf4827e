/* The access log: which lines a reader gets of requests and replies. */
#include "fuse/ops/access_log.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>
#include <jansson.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/util.h"
#include "fuse/names/inode_table.h"
#include "fuse/ops/kernel_requests.h"

static struct kr_mount mount;
static struct kr_access_log *access_log;

static int set_up(void **state)
{
	const struct kr_fid root = {.length = 1, .bytes = {1}};

	(void)state;
	mount.requests = kr_kernel_requests_new(&mount);
	mount.access_log = access_log = kr_access_log_new(&mount);
	return kr_inodes_new(&root, &mount.inodes);
}

static int tear_down(void **state)
{
	(void)state;
	kr_access_log_free(access_log);
	kr_kernel_requests_free(mount.requests);
	kr_inodes_free(mount.inodes);
	return 0;
}

/* This process, as user 8, asks for something in the root, with BODY behind the header. */
static void arrive(uint64_t unique, uint32_t opcode, const void *body, size_t length)
{
	struct fuse_in_header header = {
		.opcode = opcode, .unique = unique, .nodeid = FUSE_ROOT_ID, .uid = 8, .pid = (uint32_t)getpid()};
	char message[16384];

	memcpy(message, &header, sizeof(header));
	memcpy(message + sizeof(header), body, length);
	kr_kernel_request_arrived(mount.requests, message);
}

static void answer(uint64_t unique, int err, const void *body, size_t length)
{
	struct fuse_out_header header = {.len = (uint32_t)(sizeof(header) + length), .error = err, .unique = unique};
	struct iovec iov[2] = {{&header, sizeof(header)}, {(void *)(uintptr_t)body, length}};

	kr_kernel_request_answered(mount.requests, iov, length ? 2 : 1);
}

static void look_up(uint64_t unique, const char *name)
{
	arrive(unique, FUSE_LOOKUP, name, strlen(name) + 1);
	answer(unique, -ENOENT, NULL, 0);
}

static struct kr_access_reader *read_with(const char *filter)
{
	struct kr_access_reader *reader = NULL;

	assert_int_equal(kr_access_reader_new(access_log, filter, &reader), 0);
	return reader;
}

/* The lines since the last call as one JSON array, owned. */
static json_t *take(struct kr_access_reader *reader)
{
	json_t *lines = json_array();
	struct kr_writer text;
	const char *at;

	kr_access_take(reader, &text);
	kr_put_u8(&text, 0);
	for (at = (const char *)text.bytes; *at; at = strchr(at, '\n') + 1) {
		assert_non_null(strchr(at, '\n'));
		assert_int_equal(json_array_append_new(lines, json_loadb(at, strcspn(at, "\n"), 0, NULL)), 0);
	}
	kr_writer_fini(&text);
	return lines;
}

static void assert_member(const json_t *line, const char *name, const char *expected)
{
	KR_AUTO_FREE char *text = json_dumps(json_object_get(line, name), JSON_ENCODE_ANY);

	assert_string_equal(text ? text : "none", expected);
}

static void write_tells_offset_and_bytes(void **state)
{
	struct fuse_write_in in = {.offset = 100, .size = 50};
	struct fuse_write_out out = {.size = 40};
	struct kr_access_reader *reader = read_with("{}");
	json_t *lines, *line;

	(void)state;
	arrive(1, FUSE_WRITE, &in, sizeof(in));
	answer(1, 0, &out, sizeof(out));
	arrive(2, FUSE_WRITE, &in, sizeof(in));
	answer(2, -ENOSPC, NULL, 0);
	lines = take(reader);
	assert_int_equal(json_array_size(lines), 2);
	line = json_array_get(lines, 0);
	assert_member(line, "operation", "\"write\"");
	assert_member(line, "path", "\"/\"");
	assert_member(line, "offset", "100");
	assert_member(line, "bytes", "40");
	assert_member(line, "errno", "none");
	assert_member(line, "uid", "8");
	assert_int_equal(json_integer_value(json_object_get(line, "pid")), getpid());
	line = json_array_get(lines, 1);
	assert_member(line, "bytes", "none");
	assert_member(line, "errno", "\"ENOSPC\"");
	json_decref(lines);
	kr_access_reader_free(reader);
}

static void rename_has_two_paths_of_any_bytes(void **state)
{
	struct fuse_rename2_in in = {.newdir = FUSE_ROOT_ID};
	char body[sizeof(in) + 10];
	struct kr_access_reader *reader = read_with("{\"path\": \"/new\\\"\\\\377\"}");
	json_t *lines;

	(void)state;
	memcpy(body, &in, sizeof(in));
	memcpy(body + sizeof(in), "old\0new\"\xff", 10);
	arrive(1, FUSE_RENAME2, body, sizeof(body));
	answer(1, 0, NULL, 0);
	lines = take(reader);
	assert_int_equal(json_array_size(lines), 1);
	assert_member(json_array_get(lines, 0), "path", "\"/old\"");
	assert_member(json_array_get(lines, 0), "to", "\"/new\\\"\\\\377\"");
	json_decref(lines);
	kr_access_reader_free(reader);
}

static size_t count_of(const char *filter)
{
	struct kr_access_reader *reader = read_with(filter);
	json_t *lines;
	size_t count;

	look_up(1, "a");
	lines = take(reader);
	count = json_array_size(lines);
	json_decref(lines);
	kr_access_reader_free(reader);
	return count;
}

static void filters_choose(void **state)
{
	char own[32];

	(void)state;
	snprintf(own, sizeof(own), "{\"pid\": %d}", (int)getpid());
	assert_int_equal(count_of(own), 1);
	assert_int_equal(count_of("{\"pid\": 1}"), 0);
	assert_int_equal(count_of("{\"uid\": 8}"), 1);
	assert_int_equal(count_of("{\"uid\": 0}"), 0);
	assert_int_equal(count_of("{\"path\": \"/a\"}"), 1);
	assert_int_equal(count_of("{\"path\": \"/\"}"), 1);
	assert_int_equal(count_of("{\"path\": \"/aa\"}"), 0);
	assert_int_equal(count_of("{\"slower_us\": 60000000}"), 0);
}

static void wrong_filter_is_einval(void **state)
{
	struct kr_access_reader *reader = NULL;

	(void)state;
	assert_int_equal(kr_access_reader_new(access_log, "", &reader), -EINVAL);
	assert_int_equal(kr_access_reader_new(access_log, "{\"pid\": \"x\"}", &reader), -EINVAL);
	assert_int_equal(kr_access_reader_new(access_log, "{\"path\": 1}", &reader), -EINVAL);
	assert_int_equal(kr_access_reader_new(access_log, "{\"operation\": \"read\"}", &reader), -EINVAL);
}

static void fifth_reader_is_ebusy(void **state)
{
	struct kr_access_reader *readers[4], *fifth = NULL;

	(void)state;
	for (int i = 0; i < 4; i++)
		readers[i] = read_with("{}");
	assert_int_equal(kr_access_reader_new(access_log, "{}", &fifth), -EBUSY);
	kr_access_reader_free(readers[0]);
	readers[0] = read_with("{}");
	for (int i = 0; i < 4; i++)
		kr_access_reader_free(readers[i]);
}

static void lost_lines_are_counted(void **state)
{
	struct kr_access_reader *reader = read_with("{}");
	const size_t all = 20000;
	size_t had;
	json_t *lines;

	(void)state;
	for (size_t i = 0; i < all; i++)
		look_up(i + 1, "name");
	lines = take(reader);
	had = json_array_size(lines) - 1;
	assert_in_range(had, 5000, all - 1);
	assert_int_equal(json_integer_value(json_object_get(json_array_get(lines, had), "lost")), all - had);
	json_decref(lines);
	look_up(1, "name");
	lines = take(reader);
	assert_int_equal(json_array_size(lines), 1);
	assert_member(json_array_get(lines, 0), "lost", "none");
	json_decref(lines);
	kr_access_reader_free(reader);
}

static void request_between_readers_has_no_line(void **state)
{
	struct kr_access_reader *reader = read_with("{}");
	json_t *lines;

	(void)state;
	arrive(1, FUSE_LOOKUP, "a", 2); /* the log drops it with its last reader */
	kr_access_reader_free(reader);
	arrive(2, FUSE_LOOKUP, "b", 2);
	reader = read_with("{}");
	answer(1, 0, NULL, 0);
	answer(2, 0, NULL, 0);
	answer(0, FUSE_NOTIFY_INVAL_INODE, NULL, 0);
	lines = take(reader);
	assert_int_equal(json_array_size(lines), 0);
	json_decref(lines);
	kr_access_reader_free(reader);
}

static void too_long_line_is_lost(void **state)
{
	static char name[12000]; /* six times as long as JSON */
	struct kr_access_reader *reader = read_with("{}");
	json_t *lines;

	(void)state;
	memset(name, 1, sizeof(name) - 1);
	look_up(1, name);
	lines = take(reader);
	assert_int_equal(json_array_size(lines), 1);
	assert_member(json_array_get(lines, 0), "lost", "1");
	json_decref(lines);
	kr_access_reader_free(reader);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(write_tells_offset_and_bytes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(rename_has_two_paths_of_any_bytes, set_up, tear_down),
		cmocka_unit_test_setup_teardown(filters_choose, set_up, tear_down),
		cmocka_unit_test_setup_teardown(wrong_filter_is_einval, set_up, tear_down),
		cmocka_unit_test_setup_teardown(fifth_reader_is_ebusy, set_up, tear_down),
		cmocka_unit_test_setup_teardown(lost_lines_are_counted, set_up, tear_down),
		cmocka_unit_test_setup_teardown(request_between_readers_has_no_line, set_up, tear_down),
		cmocka_unit_test_setup_teardown(too_long_line_is_lost, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

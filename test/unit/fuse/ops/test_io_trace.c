/* The trace: what the file says of requests that were answered, and who a process is. */
#include "fuse/ops/io_trace.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/util.h"
#include "fuse/base/local_dir.h"
#include "fuse/base/loop.h"
#include "fuse/base/options.h"
#include "fuse/names/inode_table.h"
#include "fuse/ops/kernel_requests.h"
#include "fuse/ops/process.h"
#include "test/unit/directory.h"

static char directory[] = "/tmp/kairan-trace-XXXXXX", local[64];
static struct kr_mount_options options = {
	.local = local, .node = (char[]){"n1"}, .mount_point = (char[]){"/mnt"}, .source = (char[]){"s:/"}};
static struct kr_mount mount = {.options = &options};
static int result;

static void make(void *context)
{
	(void)context;
	mount.loop = kr_loop_uv(mount.kr_loop);
	mount.io_trace = kr_io_trace_new(&mount);
}

static void begin(void *context)
{
	(void)context;
	result = kr_io_trace_start(mount.io_trace);
}

static void stop(void *context)
{
	(void)context;
	result = kr_io_trace_write(mount.io_trace, true);
}

static void stop_twice(void *context)
{
	stop(context);
	stop(context); /* the job of the first is not done before the loop comes back */
}

static void close_trace(void *context)
{
	(void)context;
	kr_io_trace_close(mount.io_trace);
}

static int do_in_loop(void (*fn)(void *))
{
	kr_loop_run(mount.kr_loop, fn, NULL);
	return result;
}

static int set_up(void **state)
{
	const struct kr_fid root = {.length = 1, .bytes = {1}};

	(void)state;
	strcpy(directory + strlen(directory) - 6, "XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	snprintf(local, sizeof(local), "%s/local", directory);
	mount.requests = kr_kernel_requests_new(&mount);
	if (kr_local_open(&options, &mount.local) < 0 || kr_inodes_new(&root, &mount.inodes) < 0 ||
		kr_loop_new(&mount.kr_loop) < 0)
		return -1;
	do_in_loop(make);
	return do_in_loop(begin);
}

/* Ends the loop and the trace. */
static void end(void)
{
	do_in_loop(close_trace);
	kr_loop_free(mount.kr_loop);
	kr_io_trace_free(mount.io_trace);
	mount.io_trace = NULL;
}

static int tear_down(void **state)
{
	(void)state;
	if (mount.io_trace)
		end();
	kr_kernel_requests_free(mount.requests);
	kr_inodes_free(mount.inodes);
	kr_local_free(mount.local);
	directory_remove(directory);
	return 0;
}

static uint64_t learn(uint8_t id, const char *name)
{
	const struct kr_fid root = {.length = 1, .bytes = {1}}, fid = {.length = 2, .bytes = {2, id}};
	const struct kr_attr attr = {.ino = id, .mode = S_IFREG | 0644, .nlink = 1};
	uint64_t number, generation;

	assert_int_equal(kr_inode_learn(mount.inodes, &fid, &attr, &root, name, &number, &generation), 0);
	return number;
}

static void happen(int pid, uint32_t opcode, uint64_t node, uint64_t offset, int64_t bytes, uint64_t from_node_ns)
{
	struct kr_kernel_request request = {.header = {.opcode = opcode, .nodeid = node, .uid = 8},
		.arrived_ns = kr_clock_ns(),
		.took_ns = 5000000,
		.pid = pid,
		.offset = offset,
		.bytes = bytes,
		.other = opcode == FUSE_CREATE ? node : 0,
		.waited_ns = {[KR_WAIT_NODE] = from_node_ns}};

	kr_io_trace_answered(mount.io_trace, &request);
}

/* The lines of the file as one array, owned. */
static json_t *read_file(void)
{
	json_t *lines = json_array();
	char path[128], line[4096];
	FILE *file;

	snprintf(path, sizeof(path), "%s/trace", local);
	file = fopen(path, "r");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		assert_int_equal(json_array_append_new(lines, json_loads(line, 0, NULL)), 0);
	fclose(file);
	return lines;
}

static json_int_t number_of(const json_t *line, size_t at)
{
	return json_integer_value(json_array_get(line, at));
}

/* The line of KIND with TEXT at AT; NULL. */
static const json_t *find_line(const json_t *lines, const char *kind, size_t at, const char *text)
{
	const json_t *line;
	size_t i;

	json_array_foreach(lines, i, line)
	{
		const char *found = json_string_value(json_array_get(line, at));

		if (json_is_array(line) && strcmp(json_string_value(json_array_get(line, 0)), kind) == 0 && found &&
			strcmp(found, text) == 0)
			return line;
	}
	return NULL;
}

static void a_process_has_its_files(void **state)
{
	const json_int_t expected[] = {1, 0, 2, 300, 100, 200, 0, 1, 50, 50, 0, 0, 1200};
	uint64_t node = learn(1, "a \"b\"\xff");
	json_t *lines;
	const json_t *line;

	(void)state;
	happen(getpid(), FUSE_CREATE, node, 0, -1, 0);
	happen(getpid(), FUSE_WRITE, node, 0, 50, 0);
	happen(getpid(), FUSE_READ, node, 0, 100, 0);
	happen(getpid(), FUSE_READ, node, 1000, 200, 2000000);
	happen(getpid(), FUSE_LOOKUP, node, 0, -1, 0);
	happen(0, FUSE_RELEASE, node, 0, -1, 0);
	assert_int_equal(do_in_loop(begin), -EEXIST);
	assert_int_equal(do_in_loop(stop), 0);
	end(); /* waits for the job */
	lines = read_file();
	assert_string_equal(json_string_value(json_object_get(json_array_get(lines, 0), "node")), "n1");
	assert_string_equal(
		json_string_value(json_array_get(json_array_get(lines, json_array_size(lines) - 1), 0)), "E");
	line = find_line(lines, "P", 4, "test_io_trace");
	assert_non_null(line);
	assert_int_equal(number_of(line, 1), getpid());
	assert_int_equal(number_of(line, 3), 8);
	assert_int_equal(number_of(json_array_get(line, 8), KR_IO_TRACE_NAMES), 1);
	assert_int_equal(number_of(json_array_get(line, 8), KR_IO_TRACE_READ), 2);
	assert_int_equal(number_of(json_array_get(line, 9), KR_IO_TRACE_READ), 10000);
	assert_int_equal(number_of(json_array_get(line, 10), KR_WAIT_NODE), 2000);
	assert_int_equal(number_of(json_array_get(line, 10), KR_WAIT_HERE), 23000);
	line = find_line(lines, "F", 2, "a \"b\"\\377");
	assert_non_null(line);
	for (size_t i = 0; i < KR_ARRAY_SIZE(expected); i++)
		assert_int_equal(number_of(line, 3 + i), expected[i]);
	json_decref(lines);
}

static json_int_t sequential(const uint64_t *blocks, size_t count)
{
	uint64_t node = learn(1, "f");
	json_int_t bytes;
	json_t *lines;

	for (size_t i = 0; i < count; i++)
		happen(getpid(), FUSE_READ, node, blocks[i] * 10, 10, 0);
	assert_int_equal(do_in_loop(stop), 0);
	end();
	lines = read_file();
	bytes = number_of(find_line(lines, "F", 2, "f"), 7);
	json_decref(lines);
	return bytes;
}

static void read_ahead_may_be_answered_in_any_order(void **state)
{
	const uint64_t blocks[] = {3, 1, 0, 2, 4, 7, 6, 5};

	(void)state;
	assert_int_equal(sequential(blocks, KR_ARRAY_SIZE(blocks)), 80);
}

static void what_goes_to_and_fro_is_not_sequential(void **state)
{
	const uint64_t blocks[] = {9, 3, 5, 1, 7, 11};

	(void)state;
	assert_int_equal(sequential(blocks, KR_ARRAY_SIZE(blocks)), 0);
}

/* Memory is bounded: however many files and processes there are, the sums are right. */
static void more_than_it_keeps_is_written_or_summed_up(void **state)
{
	enum { FILES = 250, PIDS = 1000 };
	uint64_t nodes[FILES], opens = 0, requests = 0;
	const json_t *line;
	json_t *lines;
	char name[16];
	size_t i;

	(void)state;
	for (size_t file = 0; file < FILES; file++) {
		snprintf(name, sizeof(name), "f%zu", file);
		nodes[file] = learn((uint8_t)file, name);
	}
	for (int pid = 1; pid <= PIDS; pid++)
		for (size_t file = 0; file < FILES; file++)
			happen(-1000 - pid, FUSE_OPEN, nodes[file], 0, -1, 0);
	for (int pid = 1; pid <= 3 * KR_IO_TRACE_PROCESSES; pid++)
		happen(-5000 - pid, FUSE_LOOKUP, FUSE_ROOT_ID, 0, -1, 0);
	assert_int_equal(do_in_loop(stop), 0);
	end();
	lines = read_file();
	json_array_foreach(lines, i, line)
	{
		const char *kind = json_string_value(json_array_get(line, 0));

		if (kind && strcmp(kind, "F") == 0)
			opens += (uint64_t)number_of(line, 4);
		if (kind && strcmp(kind, "P") == 0)
			requests += (uint64_t)number_of(json_array_get(line, 8), KR_IO_TRACE_NAMES);
	}
	assert_int_equal(opens, FILES * PIDS);
	assert_int_equal(requests, 3 * KR_IO_TRACE_PROCESSES);
	json_decref(lines);
}

static void what_is_off_is_enodata_and_may_begin_anew(void **state)
{
	json_t *lines;

	(void)state;
	assert_int_equal(do_in_loop(stop), 0);
	end();
	lines = read_file();
	assert_int_equal(json_array_size(lines), 2);
	json_decref(lines);
	assert_int_equal(kr_loop_new(&mount.kr_loop), 0);
	do_in_loop(make);
	assert_int_equal(do_in_loop(stop), -ENODATA);
	assert_int_equal(do_in_loop(begin), 0); /* and the mount ends without a stop */
	happen(-7, FUSE_LOOKUP, FUSE_ROOT_ID, 0, -1, 0);
	end();
	lines = read_file();
	assert_int_equal(json_array_size(lines), 3);
	json_decref(lines);
}

/* As on a full disk: the limit of file sizes stops the writer in the middle of a line. */
static void what_cannot_be_written_ends_the_trace(void **state)
{
	struct rlimit usual, small;
	json_t *status;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
	small = usual;
	small.rlim_cur = 10000;
	signal(SIGXFSZ, SIG_IGN);
	for (int pid = 1; pid <= 1000; pid++)
		happen(-7 - pid, FUSE_LOOKUP, FUSE_ROOT_ID, 0, -1, 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	do_in_loop(stop);
	do_in_loop(close_trace);
	kr_loop_free(mount.kr_loop); /* waits for the job */
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
	status = kr_io_trace_status(mount.io_trace);
	assert_false(json_is_true(json_object_get(status, "on")));
	assert_string_not_equal(json_string_value(json_object_get(status, "error")), "");
	json_decref(status);
	kr_io_trace_free(mount.io_trace);
	mount.io_trace = NULL;
}

static void a_second_stop_changes_nothing(void **state)
{
	json_t *lines;

	(void)state;
	happen(-7, FUSE_LOOKUP, FUSE_ROOT_ID, 0, -1, 0);
	assert_int_equal(do_in_loop(stop_twice), 0);
	end();
	lines = read_file();
	assert_int_equal(json_array_size(lines), 3);
	json_decref(lines);
}

static void a_process_is_what_proc_says(void **state)
{
	char one[] = "0::/user.slice/a.scope\n",
	     several[] = "12:cpu:/slurm/uid_5/job_77/step_0\n1:name=systemd:/init\n", none[] = "";
	struct kr_process process;
	char *cgroup;

	(void)state;
	kr_process_parse("7 (a) b (c) R 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 4711 20 21", &process);
	assert_string_equal(process.command, "a) b (c");
	assert_int_equal(process.start, 4711);
	kr_process_parse("7 (cut off", &process);
	assert_string_equal(process.command, "");
	kr_process_parse("7 (short) R 1 2", &process);
	assert_int_equal(process.start, 0);
	kr_process_find(getpid(), &process);
	assert_string_equal(process.command, "test_io_trace");
	assert_true(process.start > 0);
	cgroup = kr_process_cgroup_of(one);
	assert_string_equal(cgroup, "/user.slice/a.scope");
	free(cgroup);
	cgroup = kr_process_cgroup_of(several);
	assert_string_equal(cgroup, "/slurm/uid_5/job_77/step_0");
	free(cgroup);
	cgroup = kr_process_cgroup_of(none);
	assert_string_equal(cgroup, "");
	free(cgroup);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_process_has_its_files, set_up, tear_down),
		cmocka_unit_test_setup_teardown(read_ahead_may_be_answered_in_any_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_goes_to_and_fro_is_not_sequential, set_up, tear_down),
		cmocka_unit_test_setup_teardown(more_than_it_keeps_is_written_or_summed_up, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_is_off_is_enodata_and_may_begin_anew, set_up, tear_down),
		cmocka_unit_test_setup_teardown(what_cannot_be_written_ends_the_trace, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_second_stop_changes_nothing, set_up, tear_down),
		cmocka_unit_test(a_process_is_what_proc_says),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

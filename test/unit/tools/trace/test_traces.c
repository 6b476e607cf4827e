/* kairan trace show: what it makes of trace files. */
#include "tools/trace/traces.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"

static const char first_node[] =
	"{\"kairan trace\":1,\"node\":\"n1\",\"mount\":\"/m\",\"started\":1000.5}\n"
	"[\"P\",7,70,5,\"\",\"\",1000000,2000000,[1,1,0,1,1,0],[10,20,0,30,40,0],[60,40,0,0,0,0,0]]\n"
	"[\"F\",\"aa\",\"part\",1,0,0,0,0,0,0,2,50,50,0,0,50,1000000,2000000,90]\n"
	"[\"F\",\"bb\",\"tmp\",1,0,0,0,0,0,0,1,10,10,0,0,10,1000000,2000000,90]\n"
	"[\"P\",7,70,5,\"make\",\"/slurm/uid_5/job_77/step_3/task_0\",3000000,4000000,[0,0,0,1,0,0],"
	"[0,0,0,5,0,0],[5,0,0,0,0,0,0]]\n"
	"[\"F\",\"bb\",\"other\",0,0,0,0,0,0,0,1,30,0,0,0,40,3000000,4000000,5]\n"
	"[\"?\",1,2]\nno JSON\n[]\n"
	"[\"E\",5000000]\n";
static const char second_node[] =
	"{\"kairan trace\":1,\"node\":\"n2\",\"mount\":\"/m\",\"started\":1010.0}\n"
	"[\"P\",7,70,5,\"use \\\"it\\\"\",\"/a.service\",0,1000,[0,2,2,0,0,0],[0,5,500,0,0,0],"
	"[5,0,0,500,0,0,0]]\n"
	"[\"F\",\"aa\",\"part\",0,1,2,50,50,0,25,0,0,0,0,0,50,0,1000,505]\n"
	"[\"F\",\"bb\",\"other\",0,1,0,0,0,0,0,0,0,0,0,0,0,0,1000,5]\n";

static int add(struct kr_traces *traces, const char *text, size_t length, bool *ret_cut)
{
	char *copy = malloc(length + 1);
	FILE *in;
	int err;

	memcpy(copy, text, length);
	copy[length] = 0;
	in = fmemopen(copy, length + 1, "r");
	err = kr_traces_read(traces, in, "the file", ret_cut);
	fclose(in);
	free(copy);
	return err;
}

static int set_up(void **state)
{
	struct kr_traces *traces = malloc(sizeof(*traces));
	bool cut;

	kr_traces_init(traces);
	*state = traces;
	if (add(traces, first_node, strlen(first_node), &cut) != 0 || cut)
		return -1;
	return add(traces, second_node, strlen(second_node), &cut) == 0 && cut ? 0 : -1;
}

static int tear_down(void **state)
{
	kr_traces_fini(*state);
	free(*state);
	return 0;
}

static const json_t *named(const json_t *sums, const char *name)
{
	const json_t *sum;
	size_t i;

	json_array_foreach(
		sums, i, sum) if (strcmp(json_string_value(json_object_get(sum, "name")), name) == 0) return sum;
	fail_msg("no %s", name);
	return NULL;
}

static json_int_t figure(const json_t *sum, const char *name)
{
	return json_integer_value(json_object_get(sum, name));
}

static void lines_of_a_process_and_a_file_add_up(void **state)
{
	json_t *json = kr_traces_json(*state, "program");
	const json_t *sums = json_object_get(json, "program"), *make = named(sums, "make");

	assert_int_equal(json_array_size(sums), 2);
	assert_int_equal(figure(make, "processes"), 1);
	assert_int_equal(figure(make, "files_written"), 2);
	assert_int_equal(figure(make, "written_bytes"), 90);
	assert_int_equal(figure(make, "written_sequential_bytes"), 60);
	assert_int_equal(figure(make, "us"), 105);
	assert_int_equal(figure(json_object_get(make, "waits_us"), "here"), 65);
	assert_int_equal(figure(json_object_get(make, "requests"), "write"), 2);
	assert_true(json_real_value(json_object_get(make, "first")) == 1001.5);
	assert_true(json_real_value(json_object_get(make, "last")) == 1004.5);
	assert_int_equal(figure(named(sums, "use \"it\""), "from_server_bytes"), 25);
	assert_int_equal(figure(named(sums, "use \"it\""), "files_read"), 2); /* one from the kernel's pages */
	json_decref(json);
}

static void one_number_on_two_nodes_is_two_processes(void **state)
{
	json_t *json = kr_traces_json(*state, "process");

	assert_int_equal(json_array_size(json_object_get(json, "process")), 2);
	named(json_object_get(json, "process"), "make n1:7");
	json_decref(json);
	json = kr_traces_json(*state, "node");
	named(json_object_get(json, "node"), "n2");
	json_decref(json);
}

static void jobs_are_slurms_or_cgroups(void **state)
{
	json_t *json = kr_traces_json(*state, "job");

	named(json_object_get(json, "job"), "77.3");
	named(json_object_get(json, "job"), "/a.service");
	json_decref(json);
	assert_true(kr_traces_knows_key("job"));
	assert_false(kr_traces_knows_key("files"));
}

static char *text_of(const struct kr_traces *traces, void (*write)(const struct kr_traces *traces, FILE *out))
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	write(traces, out);
	fclose(out);
	return text;
}

static void a_graph_puts_files_of_the_same_programs_together(void **state)
{
	char *dot = text_of(*state, kr_traces_dot);

	assert_non_null(strstr(dot, "label=\"part\\nand 1 more\\n90 bytes\""));
	assert_non_null(strstr(dot, "\"make\" -> f0;"));
	assert_non_null(strstr(dot, "f0 -> \"use \\\"it\\\"\";"));
	assert_null(strstr(dot, "f1"));
	free(dot);
}

static void a_timeline_has_processes_and_files(void **state)
{
	char *text = text_of(*state, kr_traces_perfetto);
	json_t *json = json_loads(text, 0, NULL);
	size_t counts[128] = {0}, i;
	const json_t *event;

	json_array_foreach(json_object_get(json, "traceEvents"), i, event)
		counts[(unsigned char)*json_string_value(json_object_get(event, "ph"))]++;
	assert_int_equal(counts['M'], 4);
	assert_int_equal(counts['X'], 2);
	assert_int_equal(counts['b'], 4);
	assert_int_equal(counts['e'], 4);
	json_decref(json);
	free(text);
}

static void print_by_program(const struct kr_traces *traces, FILE *out)
{
	kr_traces_print(traces, "program", out);
}

static void the_table_names_what_time_went_to(void **state)
{
	char *text = text_of(*state, print_by_program), *line = strstr(text, "use \"it\"");

	assert_non_null(line);
	assert_true(line < strstr(text, "make ")); /* the longest time first */
	assert_non_null(strstr(line, "the server's blocks 99 %\n"));
	assert_non_null(strstr(line, " 50 % "));            /* local reads */
	assert_null(strstr(text, "read by several nodes")); /* one of the two has only written */
	free(text);
}

static void other_files_are_ebadmsg(void **state)
{
	const char *const texts[] = {"", "\n", "{}\n", "{\"kairan trace\":2,\"node\":\"n\"}\n", "[1]\n", "text"};
	struct kr_traces traces;
	bool cut;

	(void)state;
	kr_traces_init(&traces);
	for (size_t i = 0; i < KR_ARRAY_SIZE(texts); i++)
		assert_int_equal(add(&traces, texts[i], strlen(texts[i]), &cut), -EBADMSG);
	kr_traces_fini(&traces);
}

static void any_cut_can_be_shown(void **state)
{
	const size_t head = strcspn(first_node, "\n") + 1;

	(void)state;
	for (size_t length = head; length <= strlen(first_node); length++) {
		struct kr_traces traces;
		char *text;
		bool cut;

		kr_traces_init(&traces);
		assert_int_equal(add(&traces, first_node, length, &cut), 0);
		text = text_of(&traces, kr_traces_dot);
		free(text);
		text = text_of(&traces, print_by_program);
		free(text);
		text = text_of(&traces, kr_traces_perfetto);
		free(text);
		kr_traces_fini(&traces);
	}
}

static size_t count_of(const char *text, const char *what)
{
	size_t count = 0;

	for (; (text = strstr(text, what)) != NULL; text++)
		count++;
	return count;
}

static void write_page(const struct kr_traces *traces, FILE *out)
{
	kr_traces_page(traces, "program", out);
}

static void a_page_has_a_bar_for_each_process(void **state)
{
	char *page;

	setenv("PATH", "/", 1); /* there is no dot */
	page = text_of(*state, write_page);
	assert_int_equal(count_of(page, "<svg"), 2);
	assert_int_equal(count_of(page, "<h2"), 3);
	/* A bar and what each has waited for; less than 0.05 pixels of that is not drawn. */
	assert_int_equal(count_of(page, "<title>make 7 on n1: 3.00 s, 0.00 s of it in I/O</title>"), 1);
	assert_int_equal(count_of(page, "<title>use &#34;it&#34; 7 on n2: 0.00 s, 0.00 s of it in I/O</title>"), 2);
	assert_int_equal(count_of(page, ">use &#34;it&#34; on n2<"), 1);
	/* Of 1 ms 50 % for the server's blocks, 49.5 % not in I/O. */
	assert_int_equal(count_of(page, ">50 %<") + count_of(page, ">49 %<"), 2);
	assert_non_null(strstr(page, "dot) is not installed"));
	free(page);
}

static void a_page_of_nothing_ends(void **state)
{
	struct kr_traces nothing;
	char *page;

	(void)state;
	kr_traces_init(&nothing);
	page = text_of(&nothing, write_page);
	assert_int_equal(count_of(page, "<svg"), 1);
	assert_non_null(strstr(page, "</html>"));
	kr_traces_fini(&nothing);
	free(page);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(lines_of_a_process_and_a_file_add_up),
		TEST(one_number_on_two_nodes_is_two_processes),
		TEST(jobs_are_slurms_or_cgroups),
		TEST(a_graph_puts_files_of_the_same_programs_together),
		TEST(a_timeline_has_processes_and_files),
		TEST(the_table_names_what_time_went_to),
		TEST(a_page_has_a_bar_for_each_process),
		cmocka_unit_test(a_page_of_nothing_ends),
		cmocka_unit_test(other_files_are_ebadmsg),
		cmocka_unit_test(any_cut_can_be_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Traces as the library writes them and `kairan gantt` reads, sums up and draws them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "tools/gantt/gantt.h"

/* Two ranks on two nodes; one writes while the next round is exchanged. Milliseconds. */
static const struct kr_trace_event sample[] = {
	{"/m/a <&>.dat", "write", 0, 0, 0, 0, 0, 0, KR_TRACE_LISTS, 0, 100000000, 0},
	{"/m/a <&>.dat", "write", 0, 0, 0, 0, 0, 0, KR_TRACE_EXCHANGE, 100000000, 300000000, 4000000},
	{"/m/a <&>.dat", "write", 0, 0, 0, 0, 0, 0, KR_TRACE_WRITE, 300000000, 700000000, 6000000},
	{"/m/a <&>.dat", "write", 0, 0, 1, 0, 0, 1, KR_TRACE_EXCHANGE, 300000000, 500000000, 4000000},
	{"/m/a <&>.dat", "write", 0, 0, 1, 0, 0, 1, KR_TRACE_WRITE, 700000000, 1000000000, 4000000},
	{"/m/a <&>.dat", "write", 0, 0, 0, 1, 1, 0, KR_TRACE_EXCHANGE, 100000000, 600000000, 8000000},
	{"/m/a <&>.dat", "read", 0, 1, 0, 0, 0, 0, KR_TRACE_READ, 2000000000, 2500000000, 1000000},
	{"/m/a <&>.dat", "read", 0, 1, 0, 0, 0, 0, KR_TRACE_EXCHANGE, 2500000000, 3000000000, 1000000},
};

static char path[] = "/tmp/kairan-test-gantt-XXXXXX";

static void write_trace(const char *text, size_t length)
{
	strcpy(path + sizeof path - 7, "XXXXXX");
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, length), (ssize_t)length);
	close(fd);
}

/* The sample's lines, the last first; owned. */
static char *sample_text(size_t *ret_length)
{
	char *text = malloc(8192);
	size_t length = 0;
	for (size_t i = KR_ARRAY_SIZE(sample); i-- > 0;) {
		size_t line = kr_trace_format(&sample[i], text + length, 8192 - length);
		assert_true(length + line < 8192);
		length += line;
	}
	*ret_length = length;
	return text;
}

static int read_text(struct kr_gantt *gantt, const char *text, size_t length)
{
	kr_gantt_init(gantt);
	write_trace(text, length);
	int error = kr_gantt_read(gantt, path, NULL, UINT64_MAX);
	unlink(path);
	return error;
}

static void events_come_back_as_they_were_written(void **unused)
{
	struct kr_gantt gantt;
	size_t length;
	char *text = sample_text(&length);
	(void)unused;
	memcpy(text + length, "{\"file\":\"cut", 12); /* the program was killed */
	assert_int_equal(read_text(&gantt, text, length + 12), 0);
	kr_gantt_sort(&gantt);
	assert_int_equal(gantt.count, KR_ARRAY_SIZE(sample));
	assert_int_equal(gantt.name_count, 1);
	const struct kr_trace_event *event = &gantt.events[4];
	assert_string_equal(event->file, sample[4].file);
	assert_string_equal(event->op, "write");
	assert_int_equal(event->phase, KR_TRACE_WRITE);
	assert_int_equal(event->round, 1);
	assert_int_equal(event->slot, 1);
	assert_int_equal(event->start_ns, 700000000);
	assert_int_equal(event->end_ns, 1000000000);
	assert_int_equal(event->bytes, 4000000);
	assert_int_equal(gantt.events[5].rank, 1);
	assert_int_equal(gantt.events[6].call, 1);
	kr_gantt_fini(&gantt);
	free(text);
}

static void file_and_call_choose(void **unused)
{
	struct kr_gantt gantt;
	size_t length;
	char *text = sample_text(&length);
	(void)unused;
	write_trace(text, length);
	kr_gantt_init(&gantt);
	assert_int_equal(kr_gantt_read(&gantt, path, "other", UINT64_MAX), 0);
	assert_int_equal(gantt.count, 0);
	assert_int_equal(kr_gantt_read(&gantt, path, sample[0].file, 1), 0);
	assert_int_equal(gantt.count, 2);
	kr_gantt_fini(&gantt);
	unlink(path);
	free(text);
}

static char *output_of(void (*make)(const struct kr_gantt *, FILE *))
{
	struct kr_gantt gantt;
	size_t length, out_length;
	char *text = sample_text(&length), *made;
	assert_int_equal(read_text(&gantt, text, length), 0);
	kr_gantt_sort(&gantt);
	FILE *out = open_memstream(&made, &out_length);
	make(&gantt, out);
	fclose(out);
	kr_gantt_fini(&gantt);
	free(text);
	return made;
}

static void the_summary_has_a_line_per_call(void **unused)
{
	char *made = output_of(kr_gantt_summary);
	(void)unused;
	assert_string_equal(made,
		"/m/a <&>.dat open 0 call 0: write by 2 ranks on 2 nodes, 2 rounds, 10.000 MB in 1.000000 s, 10.0 MB/s; lists 10.0 %, "
		"read 0.0 %, exchange 45.0 %, write 70.0 %, exchange during 28.6 % of the file's write\n"
		"/m/a <&>.dat open 0 call 1: read by 1 ranks on 1 nodes, 1 rounds, 1.000 MB in 1.000000 s, 1.0 MB/s; lists 0.0 %, "
		"read 50.0 %, exchange 50.0 %, write 0.0 %, exchange during 0.0 % of the file's read\n");
	free(made);
}

static void draw(const struct kr_gantt *gantt, FILE *out)
{
	assert_int_equal(kr_gantt_draw(gantt, out), 0);
}

static size_t count_of(const char *text, const char *what)
{
	size_t count = 0;
	for (; (text = strstr(text, what)) != NULL; text++)
		count++;
	return count;
}

static void the_drawing_has_a_bar_per_event_and_a_row_per_rank(void **unused)
{
	char *made = output_of(draw);
	(void)unused;
	assert_int_equal(count_of(made, "<title>"), KR_ARRAY_SIZE(sample));
	assert_int_equal(count_of(made, ">node 0 rank 0<"), 1);
	assert_int_equal(count_of(made, ">node 1 rank 1<"), 1);
	assert_int_equal(
		count_of(made, "/m/a &#60;&#38;&#62;.dat call 0 round 1 slot 1: write, 4000000 bytes, 300.000 ms"), 1);
	/* The write of round 0: 0.3 to 0.7 of 3 s, lower half of the first row. */
	assert_int_equal(
		count_of(made, "<rect x=\"250.00\" y=\"68.00\" width=\"160.00\" height=\"9.00\" style=\"fill:#d62728\">"), 1);
	assert_int_equal(count_of(made, "fill:#d62728;fill-opacity:0.65\">"), 1);
	assert_int_equal(count_of(made, "time (s)"), 1);
	assert_int_equal(count_of(made, "</svg>"), 1);
	free(made);
}

static void bad_input_is_named_by_file_and_line(void **unused)
{
	static const struct {
		const char *text, *reason;
	} bad[] = {
		{"nonsense\n", ":1: not JSON"},
		{"\n[1]\n", ":2: not an object"},
		{"{}\n", ":1: \"file\" is missing"},
		{"{\"file\":3}\n", ":1: \"file\" is not a string"},
		{"{\"file\":\"f\",\"op\":\"write\",\"phase\":\"sleep\"}\n", ":1: unknown phase \"sleep\""},
		{"{\"file\":\"f\",\"op\":\"write\",\"phase\":\"read\",\"open\":-1}\n", ":1: \"open\" is not a number"},
		{"{\"file\":\"f\",\"op\":\"move\",\"phase\":\"read\",\"open\":0,\"call\":0,\"rank\":0,\"node\":0,\"round\":0,\"slot\":0,"
		 "\"start\":1,\"end\":1,\"bytes\":0}\n",
			":1: \"op\" is neither"},
		{"{\"file\":\"f\",\"op\":\"read\",\"phase\":\"read\",\"open\":0,\"call\":0,\"rank\":0,\"node\":0,\"round\":0,\"slot\":0,"
		 "\"start\":2,\"end\":1,\"bytes\":0}\n",
			":1: \"end\" is before"},
		{"{\"file\":\"f\",\"op\":\"read\",\"phase\":\"read\",\"open\":0,\"call\":0,\"rank\":4294967296}\n",
			":1: \"rank\" is not"},
	};
	struct kr_gantt gantt;
	(void)unused;
	for (size_t i = 0; i < KR_ARRAY_SIZE(bad); i++) {
		assert_int_equal(read_text(&gantt, bad[i].text, strlen(bad[i].text)), -EBADMSG);
		assert_non_null(strstr(kr_fail_reason(), bad[i].reason));
		assert_non_null(strstr(kr_fail_reason(), path));
		kr_gantt_fini(&gantt);
	}
	kr_gantt_init(&gantt);
	assert_int_equal(kr_gantt_read(&gantt, "/nonexistent/trace", NULL, UINT64_MAX), -ENOENT);
}

/* What MPI programs call their files can be anything. */
static void names_of_any_bytes_are_written_as_json(void **unused)
{
	const char *names[] = {"plain", "a\"b\\c\n\x01\x7f", "d\xc3\xa9j\xc3\xa0 \xf0\x9f\x98\x80",
		"bad \xff\xc3 \xed\xa0\x80 \xc0\xaf end\xe2\x82"};
	const char *read[] = {"plain", "a\"b\\c\n\x01\x7f", "d\xc3\xa9j\xc3\xa0 \xf0\x9f\x98\x80",
		"bad \xef\xbf\xbd\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd \xef\xbf\xbd\xef\xbf\xbd end\xef\xbf\xbd\xef\xbf\xbd"};
	struct kr_gantt gantt;
	char line[1024];
	(void)unused;
	for (size_t i = 0; i < KR_ARRAY_SIZE(names); i++) {
		struct kr_trace_event event = sample[0];
		event.file = names[i];
		size_t length = kr_trace_format(&event, line, sizeof line);
		assert_true(length < sizeof line);
		assert_int_equal(read_text(&gantt, line, length), 0);
		assert_int_equal(gantt.count, 1);
		assert_string_equal(gantt.events[0].file, read[i]);
		kr_gantt_fini(&gantt);
		memset(line, 'x', sizeof line);
		assert_int_equal(kr_trace_format(&event, line, 10), length);
		assert_int_equal(line[10], 'x');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_come_back_as_they_were_written),
		cmocka_unit_test(file_and_call_choose),
		cmocka_unit_test(the_summary_has_a_line_per_call),
		cmocka_unit_test(the_drawing_has_a_bar_per_event_and_a_row_per_rank),
		cmocka_unit_test(bad_input_is_named_by_file_and_line),
		cmocka_unit_test(names_of_any_bytes_are_written_as_json),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}

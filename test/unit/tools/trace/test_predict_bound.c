/* kairan predict: what bounds a program, by the samples of a trace. */
#include "tools/trace/predict_bound.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "tools/bench/envelope_view.h"

/* At best 4 MB/s are read and 2 MB/s written. */
static json_t *make_envelope(void)
{
	double read[] = {4, 1000}, write[] = {2}; /* files per second */

	return json_pack("{s[oooo]}", "points", kr_envelope_point("read from the server", 1, 1, 1000000, read, 1),
		kr_envelope_point("read from the server", 1, 1, 1000, read + 1, 1),
		kr_envelope_point("read from the cache", 1, 1, 1000000, read + 1, 1),
		kr_envelope_point("write", 1, 1, 1000000, write, 1));
}

/* On NODE a process of "work" from 1 s to 5 s, which waited for 4 s; LOADS: lines "S". */
static void add(struct kr_traces *traces, const char *node, int pid, const char *loads)
{
	char text[1000];
	bool cut;
	FILE *in;

	snprintf(text, sizeof(text),
		"{\"kairan trace\":1,\"node\":\"%s\",\"mount\":\"/m\",\"started\":1000.0}\n%s"
		"[\"P\",%d,70,5,\"work\",\"\",1000000,5000000,[1,1,1,1,1,0],[0,0,4000000,0,0,0],[0,0,0,0,0,0,0]]\n"
		"[\"E\",6000000]\n",
		node, loads, pid);
	in = fmemopen(text, strlen(text), "r");
	assert_int_equal(kr_traces_read(traces, in, "text", &cut), 0);
	fclose(in);
}

static struct kr_bounds bounds_of(
	const struct kr_traces *traces, double nodes, double more_nodes, double more_processes)
{
	json_t *envelope = make_envelope();
	struct kr_bounds bounds = kr_bounds_of(traces, envelope, "work", nodes, more_nodes, more_processes);

	json_decref(envelope);
	return bounds;
}

/* What is said of one sample that covers it all. */
static struct kr_bounds sampled(const char *figures, double more_nodes, double more_processes)
{
	struct kr_traces traces;
	struct kr_bounds bounds;
	char line[200];

	snprintf(line, sizeof(line), "[\"S\",1000000,5000000,%s]\n", figures);
	kr_traces_init(&traces);
	add(&traces, "n1", 1, line);
	bounds = bounds_of(&traces, 1, more_nodes, more_processes);
	kr_traces_fini(&traces);
	return bounds;
}

#define about(a, b) assert_true(fabs((a) - (b)) < 1e-9)

/* Figures: the server's processors, its disk, the node's processors (us); requests, a round trip (us); received, sent. */
static void the_resource_with_most_of_the_time_bounds(void **state)
{
	struct kr_bounds bounds;

	(void)state;
	assert_int_equal(sampled("3000000,100000,400000,900,100,1000,1000", 1, 1).bound, KR_BOUND_SERVER_CPU);
	assert_int_equal(sampled("100000,3000000,400000,900,100,9000000,1000", 1, 1).bound, KR_BOUND_SERVER_DISK);
	assert_int_equal(sampled("400000,100000,9000000,900,100,1000,1000", 1, 1).bound, KR_BOUND_NODE_CPU);
	bounds = sampled("400000,0,400000,9,100,9000000,1000", 1, 1);
	assert_int_equal(bounds.bound, KR_BOUND_LINK);
	about(bounds.shares[KR_BOUND_LINK], 0.8);
	about(bounds.shares[KR_BOUND_SERVER_CPU], 0.1);
	assert_int_equal(sampled("400000,0,400000,9,100,1000,5000000", 1, 1).bound, KR_BOUND_LINK); /* by writes */
	bounds = sampled("400000,0,400000,60,40000,5000000,1000", 1, 1);
	assert_int_equal(bounds.bound, KR_BOUND_DELAY);
	about(bounds.shares[KR_BOUND_DELAY], 0.6);
}

static void where_none_is_far_ahead_none_bounds(void **state)
{
	struct kr_bounds bounds = sampled("2000000,0,1500000,9,100,1000,1000", 1, 1);

	(void)state;
	assert_true(bounds.known);
	assert_int_equal(bounds.bound, KR_BOUNDS);
	assert_int_equal(sampled("400000,100000,400000,90,4000,1000,1000", 1, 1).bound, KR_BOUNDS); /* not known */
}

/* Delays are nobody's queue. */
static void more_processes_make_queues_longer_and_no_delays(void **state)
{
	static const char delayed[] = "800000,0,400000,60,40000,1000,1000";

	(void)state;
	assert_int_equal(sampled(delayed, 1, 1).bound, KR_BOUND_DELAY);
	assert_int_equal(sampled(delayed, 4, 2).bound, KR_BOUND_SERVER_CPU);
	assert_int_equal(sampled("700000,0,1500000,9,100,1000,1000", 1, 1).bound, KR_BOUND_NODE_CPU);
	assert_int_equal(sampled("700000,0,1500000,9,100,1000,1000", 8, 1).bound, KR_BOUND_SERVER_CPU);
	assert_int_equal(sampled("700000,0,1500000,9,100,1000,1000", 1, 8).bound, KR_BOUND_NODE_CPU);
}

static void samples_count_as_far_as_the_program_ran(void **state)
{
	struct kr_traces traces;
	struct kr_bounds bounds;

	(void)state;
	kr_traces_init(&traces);
	/* Half of the first second, and the next two; of the others nothing is known. */
	add(&traces, "n1", 1,
		"[\"S\",500000,1500000,100000,600000,0,0,0,0,0]\n[\"S\",1500000,3500000,0,1200000,0,0,0,0,0]\n");
	bounds = bounds_of(&traces, 1, 1, 1);
	assert_int_equal(bounds.bound, KR_BOUND_SERVER_DISK);
	about(bounds.shares[KR_BOUND_SERVER_DISK], 0.6);
	about(bounds.shares[KR_BOUND_SERVER_CPU], 0.02);
	kr_traces_fini(&traces);
}

/* A minute of waiting in half a second. */
static void threads_that_wait_together_count_once(void **state)
{
	struct kr_traces traces;
	struct kr_bounds bounds;

	(void)state;
	kr_traces_init(&traces);
	add(&traces, "n1", 1,
		"[\"S\",1000000,1500000,0,0,60000000,10,40000,0,0]\n[\"S\",1500000,5000000,0,0,0,90,40000,0,0]\n");
	bounds = bounds_of(&traces, 1, 1, 1);
	about(bounds.shares[KR_BOUND_NODE_CPU], 0.125);
	assert_int_equal(bounds.bound, KR_BOUND_DELAY);
	kr_traces_fini(&traces);
}

static void a_trace_with_few_samples_does_not_tell(void **state)
{
	struct kr_traces traces;

	(void)state;
	kr_traces_init(&traces);
	add(&traces, "n1", 1, "");
	assert_false(bounds_of(&traces, 1, 1, 1).known);
	add(&traces, "n2", 1, "[\"S\",1000000,2000000,900000,0,0,0,0,0,0]\n");
	assert_false(bounds_of(&traces, 2, 1, 1).known);
	kr_traces_fini(&traces);
}

/* Each of two nodes gets half of what the link carries. */
static void nodes_share_the_link(void **state)
{
	static const char half[] = "[\"S\",1000000,5000000,100000,0,100000,9,100,6000000,1000]\n";
	struct kr_traces traces;

	(void)state;
	kr_traces_init(&traces);
	add(&traces, "n1", 1, half);
	add(&traces, "n2", 1, half);
	assert_int_equal(bounds_of(&traces, 2, 1, 1).bound, KR_BOUND_LINK);
	kr_traces_fini(&traces);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_resource_with_most_of_the_time_bounds),
		cmocka_unit_test(where_none_is_far_ahead_none_bounds),
		cmocka_unit_test(more_processes_make_queues_longer_and_no_delays),
		cmocka_unit_test(samples_count_as_far_as_the_program_ran),
		cmocka_unit_test(threads_that_wait_together_count_once),
		cmocka_unit_test(a_trace_with_few_samples_does_not_tell),
		cmocka_unit_test(nodes_share_the_link),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

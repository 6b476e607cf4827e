/* kairan predict: what the model makes of a trace and an envelope. */
#include "tools/trace/predict_model.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tools/bench/envelope_view.h"

/* How long a MiB read and one written take one of two processes that do these by turns; 0: that was not measured. */
static double pair_s;

/* With one process a file takes 1 ms and 1 us for each KiB from the server, a tenth of it from the cache; written 2 ms and
 * 2 us for each KiB.  With two at a time each takes twice as long. */
static json_t *make_envelope(void)
{
	json_t *points = json_array();

	for (json_int_t processes = 1; processes <= 2; processes++) {
		for (json_int_t kib = 1; kib <= 1024; kib *= 1024) {
			double read = 1 / (1e-3 + 1e-6 * (double)kib), cache = 10 * read, write = read / 2;

			json_array_append_new(
				points, kr_envelope_point("read from the server", 1, processes, kib << 10, &read, 1));
			json_array_append_new(
				points, kr_envelope_point("read from the cache", 1, processes, kib << 10, &cache, 1));
			json_array_append_new(points, kr_envelope_point("write", 1, processes, kib << 10, &write, 1));
		}
		double names[] = {900, 1000, 2000}, pairs = processes == 1 ? 1 / (3 * 2.024e-3) : 2 / pair_s;

		if (pair_s > 0)
			json_array_append_new(
				points, kr_envelope_point("read and write", 1, processes, 1 << 20, &pairs, 1));

		json_array_append_new(points, kr_envelope_point("create", 1, processes, 0, names, 3));
		json_array_append_new(points, kr_envelope_point("open", 1, processes, 0, names, 3));
	}
	return json_pack("{si so}", "kairan envelope", KR_ENVELOPE_FORMAT, "points", points);
}

/* Of a process of NODE from FIRST to LAST (seconds), with one file; TOOK of it in I/O. */
static void add_part(struct kr_traces *traces, const char *node, int pid, const char *program, double first,
	double last, double took, const char *figures)
{
	char text[1000];
	bool cut;
	FILE *in;

	snprintf(text, sizeof(text),
		"{\"kairan trace\":1,\"node\":\"%s\",\"mount\":\"/m\",\"started\":1000.0}\n"
		"[\"P\",%d,70,5,\"%s\",\"\",%.0f,%.0f,[1,1,0,1,1,0],[0,%.0f,0,0,0,0],[0,0,0,0,0,0,0]]\n"
		"[\"F\",\"%d\",\"file\",%s,0,1,500000]\n[\"E\",5000000]\n",
		node, pid, program, first * 1e6, last * 1e6, took * 1e6, pid, figures);
	in = fmemopen(text, strlen(text), "r");
	assert_int_equal(kr_traces_read(traces, in, "text", &cut), 0);
	fclose(in);
}

/* All of it. */
static void add(struct kr_traces *traces, const char *node, int pid, const char *program, double first, double last,
	const char *figures)
{
	add_part(traces, node, pid, program, first, last, last - first, figures);
}

static double seconds_on(const struct kr_traces *traces, double nodes, double processes, enum kr_predict_reads reads,
	const char *program, struct kr_prediction *ret_prediction)
{
	json_t *envelope = make_envelope();
	size_t count;
	struct kr_prediction *all =
		kr_predict(traces, envelope, &(struct kr_predict_with){nodes, processes, reads}, &count);
	double seconds = -1;

	for (size_t i = 0; i < count; i++) {
		if (strcmp(all[i].program, program) != 0)
			continue;
		seconds = all[i].expected_s;
		if (ret_prediction)
			*ret_prediction = all[i];
	}
	kr_predictions_free(all, count);
	json_decref(envelope);
	return seconds;
}

static double seconds_of(const struct kr_traces *traces, double processes, enum kr_predict_reads reads,
	const char *program, struct kr_prediction *ret_prediction)
{
	return seconds_on(traces, 1, processes, reads, program, ret_prediction);
}

#define about(a, b) assert_true(fabs((a) - (b)) < 1e-9)

/* creates, opens, reads, bytes, in order, from a node, from the server, writes, bytes, in order, copied from and to, end
 */
static const char reads_a_mib[] = "0,1,8,1048576,1048576,0,1048576,0,0,0,0,0,1048576";
static const char reads_a_half_from_elsewhere[] = "0,1,8,1048576,1048576,262144,262144,0,0,0,0,0,1048576";
static const char makes_512_kib[] = "1,0,0,0,0,0,0,4,524288,524288,0,0,524288";
static const char overwrites_512_kib[] = "0,1,0,0,0,0,0,4,524288,524288,0,0,524288";

static void a_file_takes_what_the_envelope_says(void **state)
{
	struct kr_traces traces;
	struct kr_prediction prediction;

	(void)state;
	kr_traces_init(&traces);
	add(&traces, "n1", 1, "read", 0, 1, reads_a_mib);
	add(&traces, "n1", 2, "half", 0, 1, reads_a_half_from_elsewhere);
	add(&traces, "n1", 3, "make", 0, 1, makes_512_kib);
	add(&traces, "n1", 4, "change", 0, 1, overwrites_512_kib);
	add(&traces, "n1", 5, "look", 0, 1, "0,3,0,0,0,0,0,0,0,0,0,0,7");
	about(seconds_of(&traces, 0, KR_PREDICT_AS_TRACED, "read", &prediction), 2.024e-3);
	about(prediction.parts_s[KR_PREDICTED_SERVER], 2.024e-3);
	about(prediction.traced_s, 1);
	about(seconds_of(&traces, 0, KR_PREDICT_WARM, "read", NULL), 0.2024e-3);
	about(seconds_of(&traces, 0, KR_PREDICT_AS_TRACED, "half", NULL),
		2.024e-3); /* read-ahead brought the other half */
	about(seconds_of(&traces, 0, KR_PREDICT_COLD, "half", NULL), 2.024e-3);
	about(seconds_of(&traces, 0, KR_PREDICT_AS_TRACED, "make", NULL), 2 * 1.512e-3); /* between two sizes */
	about(seconds_of(&traces, 0, KR_PREDICT_AS_TRACED, "change", NULL), 2 * 1.512e-3 - 1e-3);
	about(seconds_of(&traces, 0, KR_PREDICT_AS_TRACED, "look", &prediction), 3e-3);
	about(prediction.lowest_s, 1.5e-3);
	about(prediction.highest_s, 3 / 900.0);
	kr_traces_fini(&traces);
}

static void processes_at_a_time_share_what_there_is(void **state)
{
	struct kr_traces traces;
	struct kr_prediction prediction;

	(void)state;
	kr_traces_init(&traces);
	add(&traces, "n1", 1, "read", 0, 2, reads_a_mib);
	add(&traces, "n1", 2, "read", 0, 2, reads_a_mib);
	add(&traces, "n2", 3, "read", 0, 2, reads_a_mib); /* with a link of its own */
	add(&traces, "n1", 4, "read", 3, 5, reads_a_mib);
	about(seconds_of(&traces, 1, KR_PREDICT_AS_TRACED, "read", NULL), 4 * 2.024e-3);
	about(seconds_of(&traces, 2, KR_PREDICT_AS_TRACED, "read", NULL), 8 * 2.024e-3);
	about(seconds_of(&traces, 6, KR_PREDICT_AS_TRACED, "read", NULL), 24 * 2.024e-3); /* more than were measured */
	about(seconds_of(&traces, 0, KR_PREDICT_AS_TRACED, "read", &prediction), 1.5 * 4 * 2.024e-3);
	about(prediction.at_a_time, 1.5);
	assert_int_equal(prediction.processes, 4);
	about(seconds_on(&traces, 0, 0, KR_PREDICT_AS_TRACED, "read", &prediction), 2.5 * 4 * 2.024e-3);
	about(prediction.nodes, 2.5 / 1.5); /* they share the server's link */
	kr_traces_fini(&traces);
}

/* The one of two that computes is at its file for a share s of the time: s = t / (t + 1), t = (1 + s) 2.024 ms. */
static void processes_that_compute_wait_less(void **state)
{
	struct kr_traces traces;
	double s = 0, t = 2.024e-3;

	(void)state;
	kr_traces_init(&traces);
	add_part(&traces, "n1", 1, "read", 0, 1.002024, 0.002024, reads_a_mib);
	for (int i = 0; i < 100; i++) {
		t = (1 + s) * 2.024e-3;
		s = t / (t + 1);
	}
	about(seconds_of(&traces, 2, KR_PREDICT_AS_TRACED, "read", NULL), t);
	about(seconds_of(&traces, 1, KR_PREDICT_AS_TRACED, "read", NULL), 2.024e-3);
	kr_traces_fini(&traces);
}

/* A program that reads and writes: both halves of its time have a queue of their own. */
static void what_is_read_does_not_wait_for_what_is_written(void **state)
{
	struct kr_traces traces;
	struct kr_prediction prediction;

	(void)state;
	kr_traces_init(&traces);
	add(&traces, "n1", 1, "both", 0, 1, reads_a_mib);
	add(&traces, "n1", 2, "both", 1, 2, "1,0,0,0,0,0,0,8,1048576,1048576,0,0,1048576");
	assert_true(seconds_of(&traces, 2, KR_PREDICT_AS_TRACED, "both", &prediction) > 3 * 2.024e-3 * 1.3);
	assert_true(prediction.expected_s < 3 * 2.024e-3 * 1.7);
	kr_traces_fini(&traces);
}

static void what_is_read_and_what_is_written_are_in_each_others_way(void **state)
{
	const enum kr_predict_reads reads = KR_PREDICT_AS_TRACED;
	struct kr_traces traces;
	struct kr_prediction prediction;
	double apart, share;

	(void)state;
	kr_traces_init(&traces);
	add(&traces, "n1", 1, "both", 0, 1, reads_a_mib);
	add(&traces, "n1", 2, "both", 1, 2, "1,0,0,0,0,0,0,8,1048576,1048576,0,0,1048576");
	add(&traces, "n1", 3, "read", 0, 1, reads_a_mib);
	apart = seconds_of(&traces, 2, reads, "both", &prediction);
	share = 4 * prediction.parts_s[KR_PREDICTED_SERVER] * prediction.parts_s[KR_PREDICTED_WRITES] / (apart * apart);
	pair_s = 1.2 * apart;
	about(seconds_of(&traces, 2, reads, "both", NULL), (1 + 0.2 * share) * apart);
	about(seconds_of(&traces, 1, reads, "both", NULL), 3 * 2.024e-3);
	about(seconds_of(&traces, 2, reads, "read", NULL), 2 * 2.024e-3);
	pair_s = apart / 2; /* by chance */
	about(seconds_of(&traces, 2, reads, "both", NULL), apart);
	pair_s = 0;
	kr_traces_fini(&traces);
}

static void what_the_envelope_does_not_say_is_no_number(void **state)
{
	struct kr_traces traces;
	json_t *empty = json_pack("{s[]}", "points");
	struct kr_prediction *all;
	size_t count;

	(void)state;
	kr_traces_init(&traces);
	add(&traces, "n1", 1, "read", 0, 1, reads_a_mib);
	all = kr_predict(&traces, empty, &(struct kr_predict_with){0}, &count);
	assert_int_equal(count, 1);
	assert_true(isnan(all[0].expected_s));
	kr_predictions_free(all, count);
	json_decref(empty);
	kr_traces_fini(&traces);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_takes_what_the_envelope_says),
		cmocka_unit_test(processes_at_a_time_share_what_there_is),
		cmocka_unit_test(processes_that_compute_wait_less),
		cmocka_unit_test(what_is_read_does_not_wait_for_what_is_written),
		cmocka_unit_test(what_is_read_and_what_is_written_are_in_each_others_way),
		cmocka_unit_test(what_the_envelope_does_not_say_is_no_number),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

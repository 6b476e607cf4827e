/* kairan predict: how long the programs of a trace would spend in I/O on a mount with another envelope.  Or on more
 * nodes, with more processes at a time, or with their inputs on the node. */
#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/base/client.h"
#include "tools/bench/bench_place.h"
#include "tools/bench/envelope_view.h"
#include "tools/commands.h"
#include "tools/trace/predict_model.h"

static const char usage[] =
	"usage: kairan predict --envelope FILE [--nodes N] [--processes P] [--cold | --warm] [--json] TRACE...\n"
	"Says how long each program of the traces would spend in I/O on a mount with that envelope (kairan envelope\n"
	"--json), with what, and what bounds it: the link, the server's disk or processors, the delay of messages, or\n"
	"the node's processors. TRACE: a file that kairan trace stop has named.\n"
	"  --nodes N        on N nodes (as in the trace without it)\n"
	"  --processes P    with P processes of a program on a node at a time (as in the trace without it)\n"
	"  --cold           if all comes from the server\n"
	"  --warm           if all that is read is on the node\n"
	"  --json           prints a JSON array\n"
	"Exit code: 0, 1 with a message, 64 wrong arguments.\n";

static const char *const part_names[KR_PREDICTED_PARTS] = {
	"the server's blocks", "other nodes' blocks", "this node's cache", "writes", "opens"};

static const char *const bound_names[KR_BOUNDS + 1] = {"the server's processors", "the server's disk",
	"the node's processors", "the link", "the delay of messages", "several, or another one"};

static size_t largest_part(const struct kr_prediction *prediction)
{
	size_t largest = 0;

	for (size_t i = 1; i < KR_PREDICTED_PARTS; i++)
		largest = prediction->parts_s[i] > prediction->parts_s[largest] ? i : largest;
	return largest;
}

static void print(const struct kr_prediction *predictions, size_t count)
{
	printf("%-24s %6s %6s %9s %11s %11s %21s  %-25s  %s\n", "program", "procs", "nodes", "at a time", "traced",
		"predicted", "lowest to highest", "most of it for", "bound by");
	for (size_t i = 0; i < count; i++) {
		const struct kr_prediction *prediction = &predictions[i];
		KR_AUTO_FREE char *name = kr_text_shown(prediction->program);
		char part[40] = "-";
		const size_t largest = largest_part(prediction);

		printf("%-24s %6zu %6.1f %9.1f %9.2f s %9.2f s %9.2f to %6.2f s  ", name, prediction->processes,
			prediction->nodes, prediction->at_a_time, prediction->traced_s, prediction->expected_s,
			prediction->lowest_s, prediction->highest_s);
		if (prediction->expected_s > 0)
			snprintf(part, sizeof(part), "%s %.0f %%", part_names[largest],
				100 * prediction->parts_s[largest] / prediction->expected_s);
		printf("%-25s  %s\n", part, prediction->bounds.known ? bound_names[prediction->bounds.bound] : "-");
	}
}

static void set_bounds(json_t *object, const struct kr_bounds *bounds)
{
	static const char *const names[KR_BOUNDS] = {"server_cpu", "server_disk", "node_cpu", "link", "delay"};
	json_t *shares = bounds->known ? json_object() : json_null();

	for (size_t i = 0; i < KR_BOUNDS; i++) /* null takes none */
		json_object_set_new(shares, names[i], json_real(bounds->shares[i]));
	json_object_set_new(
		object, "bound_by", bounds->bound < KR_BOUNDS ? json_string(names[bounds->bound]) : json_null());
	json_object_set_new(object, "shares", shares);
}

static void print_json(const struct kr_prediction *predictions, size_t count)
{
	static const char *const parts[KR_PREDICTED_PARTS] = {"server", "node", "cache", "writes", "opens"};
	json_t *array = json_array();

	for (size_t i = 0; i < count; i++) {
		const struct kr_prediction *prediction = &predictions[i];
		json_t *object = json_pack("{so sI sf sf sf sf sf sf}", "program", kr_text_json(prediction->program),
			"processes", (json_int_t)prediction->processes, "nodes", prediction->nodes, "at_a_time",
			prediction->at_a_time, "traced_s", prediction->traced_s, "predicted_s", prediction->expected_s,
			"lowest_s", prediction->lowest_s, "highest_s", prediction->highest_s);

		for (size_t part = 0; part < KR_PREDICTED_PARTS; part++)
			json_object_set_new(object, parts[part], json_real(prediction->parts_s[part]));
		set_bounds(object, &prediction->bounds);
		json_array_append_new(array, object);
	}
	json_dumpf(array, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(8));
	putchar('\n');
	json_decref(array);
}

static int read_trace(struct kr_traces *traces, const char *path)
{
	FILE *in = fopen(path, "re");
	bool cut = false;
	int err;

	if (!in)
		return kr_fail_errno(-errno, "cannot read %s", path);
	err = kr_traces_read(traces, in, path, &cut);
	fclose(in);
	if (err == 0 && cut)
		fprintf(stderr, "kairan: %s has no end: it lacks what came later\n", path);
	return err;
}

struct request {
	const char *envelope;
	unsigned nodes, processes;
	enum kr_predict_reads reads;
	bool json;
};

static int predict(const struct request *request, char **paths, int count)
{
	json_t *envelope = kr_envelope_load(request->envelope);
	struct kr_prediction *predictions;
	struct kr_traces traces;
	size_t programs;
	int err = envelope ? 0 : -EBADMSG;

	kr_traces_init(&traces);
	for (int i = 0; err == 0 && i < count; i++)
		err = read_trace(&traces, paths[i]);
	if (err == 0) {
		const struct kr_predict_with with = {request->nodes, request->processes, request->reads};

		predictions = kr_predict(&traces, envelope, &with, &programs);
		for (size_t i = 0; i < programs && err == 0; i++)
			if (isnan(predictions[i].expected_s))
				err = kr_fail(-EBADMSG, "%s lacks points that %s needs", request->envelope,
					predictions[i].program);
		if (err == 0)
			(request->json ? print_json : print)(predictions, programs);
		kr_predictions_free(predictions, programs);
	}
	kr_traces_fini(&traces);
	json_decref(envelope);
	return kr_bench_end(err);
}

int kr_tool_predict(int argc, char **argv)
{
	static const struct option options[] = {{"envelope", required_argument, NULL, 'e'},
		{"nodes", required_argument, NULL, 'n'}, {"processes", required_argument, NULL, 'p'},
		{"cold", no_argument, NULL, 'c'}, {"warm", no_argument, NULL, 'w'}, {"json", no_argument, NULL, 'j'},
		{"help", no_argument, NULL, 'h'}, {0}};
	struct request request = {0};
	bool cold = false, warm = false;
	int option;

	while ((option = kr_tool_option(argc, argv, "h", options)) != -1) {
		if (option == 'n' && !kr_tool_number("--nodes", optarg, 4096, &request.nodes))
			return KR_EXIT_USAGE;
		if (option == 'p' && !kr_tool_number("--processes", optarg, 4096, &request.processes))
			return KR_EXIT_USAGE;
		if (option == 'h' || option == '?')
			return kr_tool_usage(usage, option == 'h');
		request.envelope = option == 'e' ? optarg : request.envelope;
		cold |= option == 'c';
		warm |= option == 'w';
		request.json |= option == 'j';
	}
	if (!request.envelope || optind == argc || (cold && warm))
		return kr_tool_usage(usage, false);
	request.reads = cold ? KR_PREDICT_COLD : warm ? KR_PREDICT_WARM : KR_PREDICT_AS_TRACED;
	return predict(&request, argv + optind, argc - optind);
}

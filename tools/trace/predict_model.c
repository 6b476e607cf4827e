/* See predict_model.h. */
#include "tools/trace/predict_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/bench/envelope_view.h"

/* --- T: from the envelope ----------------------------------------------------------------------- */

static double real(const json_t *point, const char *name)
{
	return json_number_value(json_object_get(point, name));
}

/* The line through (X0, Y0) and (X1, Y1) at X; in proportion to X where both are one point. */
static double line(double x0, double y0, double x1, double y1, double x)
{
	if (x1 > x0)
		return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
	return x > x0 && x0 > 0 ? y0 * x / x0 : y0;
}

static bool is_of_one_node(const json_t *point, const char *what)
{
	return strcmp(kr_text_of(point, "what"), what) == 0 && kr_envelope_nodes(point) == 1;
}

/* Of the points of WHAT with PROCESSES the nearest below SIZE and above it; NULL: none. */
static void find_sizes(const json_t *envelope, const char *what, double processes, double size,
	const json_t **ret_below, const json_t **ret_above)
{
	const json_t *point;
	size_t i;

	*ret_below = *ret_above = NULL;
	json_array_foreach(json_object_get(envelope, "points"), i, point)
	{
		const double there = real(point, "size");

		if (!is_of_one_node(point, what) || real(point, "processes") != processes)
			continue;
		if (there <= size && (!*ret_below || there > real(*ret_below, "size")))
			*ret_below = point;
		if (there >= size && (!*ret_above || there < real(*ret_above, "size")))
			*ret_above = point;
	}
}

/* Seconds that one of PROCESSES processes needs for a file of SIZE; the envelope has points with that many.  RATE:
 * "per_s", "lowest" or "highest".  NAN: the envelope has no such point. */
static double time_with(const json_t *envelope, const char *what, double processes, double size, const char *rate)
{
	const json_t *below, *above;

	find_sizes(envelope, what, processes, size, &below, &above);
	if (!below && !above)
		return NAN;
	below = below ? below : above; /* smaller than all: what the smallest takes */
	above = above ? above : below;
	return line(real(below, "size"), processes / real(below, rate), real(above, "size"),
		processes / real(above, rate), size);
}

/* The nearest numbers of processes below and above, as find_sizes. */
static void find_processes(
	const json_t *envelope, const char *what, double processes, double *ret_below, double *ret_above)
{
	const json_t *point;
	size_t i;

	*ret_below = 0;
	*ret_above = INFINITY;
	json_array_foreach(json_object_get(envelope, "points"), i, point)
	{
		const double there = real(point, "processes");

		if (!is_of_one_node(point, what))
			continue;
		if (there <= processes)
			*ret_below = KR_MAX(*ret_below, there);
		if (there >= processes)
			*ret_above = KR_MIN(*ret_above, there);
	}
}

static double time_of(const json_t *envelope, const char *what, double processes, double size, const char *rate)
{
	double below, above;

	find_processes(envelope, what, processes, &below, &above);
	if (below == 0 && isinf(above))
		return NAN;
	below = below > 0 ? below : above;
	above = isinf(above) ? below : above;
	return line(below, time_with(envelope, what, below, size, rate), above,
		time_with(envelope, what, above, size, rate), processes);
}

/* --- a program's files ---------------------------------------------------------------------------- */

struct assumption {
	const json_t *envelope;
	double processes;
	enum kr_predict_reads reads;
};

static void predict_use(const struct assumption *as, const struct kr_traced_use *use, const char *rate,
	double parts[KR_PREDICTED_PARTS])
{
	const uint64_t *figures = use->figures;
	const double read = (double)figures[KR_TRACED_READ_BYTES], written = (double)figures[KR_TRACED_WRITTEN_BYTES];
	double other = (double)(figures[KR_TRACED_FROM_NODE] + figures[KR_TRACED_FROM_SERVER]);

	if (read > 0) {
		other = as->reads == KR_PREDICT_COLD ? 1 : as->reads == KR_PREDICT_WARM ? 0 : KR_MIN(other / read, 1.0);
		parts[KR_PREDICTED_SERVER] +=
			other * time_of(as->envelope, "read from the server", as->processes, read, rate);
		parts[KR_PREDICTED_CACHE] +=
			(1 - other) * time_of(as->envelope, "read from the cache", as->processes, read, rate);
	}
	if (written > 0)
		parts[KR_PREDICTED_WRITES] += time_of(as->envelope, "write", as->processes, written, rate);
	if (written > 0 && !figures[KR_TRACED_CREATES])
		parts[KR_PREDICTED_WRITES] -= time_of(as->envelope, "create", as->processes, 0, rate);
	if (read == 0 && written == 0 && figures[KR_TRACED_CREATES])
		parts[KR_PREDICTED_WRITES] += time_of(as->envelope, "create", as->processes, 0, rate);
	else if (read == 0 && written == 0)
		parts[KR_PREDICTED_OPENS] +=
			(double)figures[KR_TRACED_OPENS] * time_of(as->envelope, "open", as->processes, 0, rate);
}

static bool is_of(const struct kr_traced_process *process, const char *program)
{
	return strcmp(process->command, program) == 0;
}

static double sum_of(const struct kr_traces *traces, const struct assumption *as, const char *program, const char *rate,
	double parts[KR_PREDICTED_PARTS])
{
	double sum = 0;

	memset(parts, 0, KR_PREDICTED_PARTS * sizeof(*parts));
	for (size_t i = 0; i < traces->use_count; i++) {
		if (is_of(traces->uses[i]->process, program))
			predict_use(as, traces->uses[i], rate, parts);
	}
	for (size_t i = 0; i < KR_PREDICTED_PARTS; i++)
		sum += parts[i];
	return sum;
}

/* How many of the program's processes were there at a time, on a node, while there were any. */
static double at_a_time(const struct kr_traces *traces, const char *program)
{
	double busy = 0, all = 0;

	for (size_t i = 0; i < traces->process_count; i++) {
		const struct kr_traced_process *process = traces->processes[i];
		double here = 0; /* of this process's time, with how many others of its node it was shared */

		if (!is_of(process, program))
			continue;
		for (size_t j = 0; j < traces->process_count; j++) {
			const struct kr_traced_process *other = traces->processes[j];

			if (is_of(other, program) && strcmp(other->node, process->node) == 0)
				here += KR_MAX(
					0.0, KR_MIN(other->last, process->last) - KR_MAX(other->first, process->first));
		}
		busy += process->last - process->first;
		all += here;
	}
	return busy > 0 ? KR_MAX(1.0, all / busy) : 1;
}

static void predict_program(
	const struct kr_traces *traces, const struct assumption *assumption, struct kr_prediction *prediction)
{
	struct assumption as = *assumption;
	double ignored[KR_PREDICTED_PARTS];

	for (size_t i = 0; i < traces->process_count; i++) {
		if (!is_of(traces->processes[i], prediction->program))
			continue;
		prediction->processes++;
		prediction->traced_s += (double)kr_traced_took_us(traces->processes[i]) / 1e6;
	}
	as.processes = as.processes > 0 ? as.processes : at_a_time(traces, prediction->program);
	prediction->at_a_time = as.processes;
	prediction->expected_s = sum_of(traces, &as, prediction->program, "per_s", prediction->parts_s);
	prediction->lowest_s = sum_of(traces, &as, prediction->program, "highest", ignored);
	prediction->highest_s = sum_of(traces, &as, prediction->program, "lowest", ignored);
}

static int by_time(const void *left, const void *right)
{
	const struct kr_prediction *a = left, *b = right;

	return a->expected_s != b->expected_s ? (a->expected_s < b->expected_s ? 1 : -1) :
						strcmp(a->program, b->program);
}

struct kr_prediction *kr_predict(const struct kr_traces *traces, const json_t *envelope, double processes,
	enum kr_predict_reads reads, size_t *ret_count)
{
	const struct assumption as = {.envelope = envelope, .processes = processes, .reads = reads};
	struct kr_prediction *all = kr_xcalloc(traces->process_count + 1, sizeof(*all));
	size_t count = 0, i;

	for (size_t p = 0; p < traces->process_count; p++) {
		const struct kr_traced_process *process = traces->processes[p];

		for (i = 0; i < count && !is_of(process, all[i].program);)
			i++;
		if (i < count || !*process->command)
			continue;
		all[count].program = kr_xstrdup(process->command);
		predict_program(traces, &as, &all[count++]);
	}
	qsort(all, count, sizeof(*all), by_time);
	*ret_count = count;
	return all;
}

void kr_predictions_free(struct kr_prediction *predictions, size_t count)
{
	for (size_t i = 0; i < count; i++)
		free(predictions[i].program);
	free(predictions);
}

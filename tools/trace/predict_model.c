/* See predict_model.h. */
#include "tools/trace/predict_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/bench/envelope_steps.h"
#include "tools/bench/envelope_view.h"

enum { TURNS = 100 };

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

/* The points that WHAT names, measured on NODES nodes. */
struct points {
	const json_t *envelope;
	const char *what;
	double nodes;
};

static bool is_among(const struct points *points, const json_t *point)
{
	return strcmp(kr_text_of(point, "what"), points->what) == 0 &&
		(double)kr_envelope_nodes(point) == points->nodes;
}

/* Of the points with PROCESSES the nearest below SIZE and above it; NULL: none. */
static void find_sizes(
	const struct points *points, double processes, double size, const json_t **ret_below, const json_t **ret_above)
{
	const json_t *point;
	size_t i;

	*ret_below = *ret_above = NULL;
	json_array_foreach(json_object_get(points->envelope, "points"), i, point)
	{
		const double there = real(point, "size");

		if (!is_among(points, point) || real(point, "processes") != processes)
			continue;
		if (there <= size && (!*ret_below || there > real(*ret_below, "size")))
			*ret_below = point;
		if (there >= size && (!*ret_above || there < real(*ret_above, "size")))
			*ret_above = point;
	}
}

/* Seconds that one of PROCESSES processes of each node needs for a file of SIZE.  There are points with that many.
 * RATE: "per_s", "lowest" or "highest".  NAN: there is no such point. */
static double time_with(const struct points *points, double processes, double size, const char *rate)
{
	const double all = points->nodes * processes;
	const json_t *below, *above;

	find_sizes(points, processes, size, &below, &above);
	if (!below && !above)
		return NAN;
	below = below ? below : above; /* smaller than all: what the smallest takes */
	above = above ? above : below;
	return line(real(below, "size"), all / real(below, rate), real(above, "size"), all / real(above, rate), size);
}

/* The nearest values of NAME ("nodes", "processes") below NUMBER and above it; 0 and INFINITY: none.  Of points on any
 * number of nodes, if that of POINTS is 0. */
static void find_nearest(
	const struct points *points, const char *name, double number, double *ret_below, double *ret_above)
{
	const json_t *point;
	size_t i;

	*ret_below = 0;
	*ret_above = INFINITY;
	json_array_foreach(json_object_get(points->envelope, "points"), i, point)
	{
		const double there = KR_MAX(1.0, real(point, name)); /* earlier versions know one node */

		if (strcmp(kr_text_of(point, "what"), points->what) != 0 ||
			(points->nodes > 0 && !is_among(points, point)))
			continue;
		if (there <= number)
			*ret_below = KR_MAX(*ret_below, there);
		if (there >= number)
			*ret_above = KR_MIN(*ret_above, there);
	}
}

static double time_on(const struct points *points, double processes, double size, const char *rate)
{
	double below, above;

	find_nearest(points, "processes", processes, &below, &above);
	if (below == 0 && isinf(above))
		return NAN;
	below = below > 0 ? below : above;
	above = isinf(above) ? below : above;
	return line(
		below, time_with(points, below, size, rate), above, time_with(points, above, size, rate), processes);
}

static double time_of(
	const json_t *envelope, const char *what, double nodes, double processes, double size, const char *rate)
{
	struct points points = {envelope, what, 0}, more;
	double below, above;

	find_nearest(&points, "nodes", nodes, &below, &above);
	if (below == 0 && isinf(above))
		return NAN;
	below = below > 0 ? below : above;
	above = isinf(above) ? below : above;
	points.nodes = below;
	more = points;
	more.nodes = above;
	return line(
		below, time_on(&points, processes, size, rate), above, time_on(&more, processes, size, rate), nodes);
}

/* --- what a program asks ------------------------------------------------------------------------- */

enum asked { READ_SERVER, READ_NODE, READ_CACHE, WRITE, CREATE, OPEN, ASKED };

static const struct {
	enum kr_predicted_part part;
	const char *what; /* in the envelope */
} asked_of[ASKED] = {{KR_PREDICTED_SERVER, "read from the server"}, {KR_PREDICTED_NODE, "read from another node"},
	{KR_PREDICTED_CACHE, "read from the cache"}, {KR_PREDICTED_WRITES, "write"}, {KR_PREDICTED_WRITES, "create"},
	{KR_PREDICTED_OPENS, "open"}};

/* Files of a size from one power of two to the next are together: the envelope's sizes are powers of two, T is linear
 * between them, and so N files take N times what one of their mean size takes. */
struct work {
	struct {
		double files, bytes;
	} asked[ASKED][64];
	double elsewhere_s; /* processes that were not in I/O */
};

static void ask(struct work *work, enum asked asked, double files, double size)
{
	const int power = size >= 1 ? ilogb(size) : 0;

	work->asked[asked][power].files += files;
	work->asked[asked][power].bytes += files * size;
}

/* A read that waits for the first of a file's blocks says where the file comes from.  Read-ahead brings others from
 * there, for which no read waits. */
static void ask_reads(struct work *work, enum kr_predict_reads reads, const uint64_t *figures)
{
	const double size = (double)figures[KR_TRACED_READ_BYTES];
	const double node = (double)figures[KR_TRACED_FROM_NODE], all = node + (double)figures[KR_TRACED_FROM_SERVER];

	if (reads == KR_PREDICT_COLD) {
		ask(work, READ_SERVER, 1, size);
	} else if (reads == KR_PREDICT_AS_TRACED && all > 0) {
		ask(work, READ_NODE, node / all, size);
		ask(work, READ_SERVER, 1 - node / all, size);
	} else {
		ask(work, READ_CACHE, 1, size);
	}
}

static void ask_use(struct work *work, enum kr_predict_reads reads, const struct kr_traced_use *use)
{
	const uint64_t *figures = use->figures;
	const bool creates = figures[KR_TRACED_CREATES] != 0, writes = figures[KR_TRACED_WRITTEN_BYTES] != 0;

	if (figures[KR_TRACED_READ_BYTES])
		ask_reads(work, reads, figures);
	if (writes)
		ask(work, WRITE, 1, (double)figures[KR_TRACED_WRITTEN_BYTES]);
	if (writes && !creates)
		ask(work, CREATE, -1, 0); /* which the envelope's writes do */
	if (!writes && !figures[KR_TRACED_READ_BYTES])
		ask(work, creates ? CREATE : OPEN, creates ? 1 : (double)figures[KR_TRACED_OPENS], 0);
}

static bool is_of(const struct kr_traced_process *process, const char *program)
{
	return strcmp(process->command, program) == 0;
}

static struct work work_of(const struct kr_traces *traces, const char *program, enum kr_predict_reads reads)
{
	struct work work = {0};

	for (size_t i = 0; i < traces->use_count; i++)
		if (is_of(traces->uses[i]->process, program))
			ask_use(&work, reads, traces->uses[i]);
	for (size_t i = 0; i < traces->process_count; i++) {
		const struct kr_traced_process *process = traces->processes[i];

		if (is_of(process, program))
			work.elsewhere_s += process->last - process->first - kr_traced_waited_s(process);
	}
	return work;
}

/* --- how long that takes ------------------------------------------------------------------------- */

struct assumption {
	const json_t *envelope;
	struct kr_predict_with with;
	const char *rate;
	/* How many times as long reads from the server and writes take as they would apart, if there is as much of one
	 * as of the other. */
	double crossing;
	/* The share of its time that a process spends with a part: so many of the others are there, too. */
	double busy[KR_PREDICTED_PARTS];
};

static double file_time(const struct assumption *as, enum asked asked, double size)
{
	const enum kr_predicted_part part = asked_of[asked].part;
	const double processes = 1 + (as->with.processes - 1) * as->busy[part];
	const double all = 1 + (as->with.nodes * as->with.processes - 1) * as->busy[part];
	const double nodes = part == KR_PREDICTED_CACHE ? 1 : all / processes;
	const double time = time_of(as->envelope, asked_of[asked].what, nodes, processes, size, as->rate);

	return isnan(time) && asked == READ_NODE ? file_time(as, READ_SERVER, size) :
						   time; /* an envelope of one node */
}

/* With little of one there is little of it. */
static void cross(const struct assumption *as, double parts[KR_PREDICTED_PARTS])
{
	const double reads = parts[KR_PREDICTED_SERVER], writes = parts[KR_PREDICTED_WRITES], both = reads + writes;

	if (reads <= 0 || writes <= 0)
		return;
	for (size_t i = 0; i < KR_PREDICTED_PARTS; i++)
		if (i == KR_PREDICTED_SERVER || i == KR_PREDICTED_WRITES)
			parts[i] *= 1 + (as->crossing - 1) * 4 * reads * writes / (both * both);
}

static double sum_of(const struct work *work, const struct assumption *as, double parts[KR_PREDICTED_PARTS])
{
	double sum = 0;

	memset(parts, 0, KR_PREDICTED_PARTS * sizeof(*parts));
	for (enum asked asked = 0; asked < ASKED; asked++) {
		for (size_t i = 0; i < KR_ARRAY_SIZE(work->asked[asked]); i++) {
			const double files = work->asked[asked][i].files;

			if (files > 0 || files < 0)
				parts[asked_of[asked].part] +=
					files * file_time(as, asked, work->asked[asked][i].bytes / files);
		}
	}
	cross(as, parts);
	for (size_t i = 0; i < KR_PREDICTED_PARTS; i++)
		sum += parts[i];
	return sum;
}

/* At first all others are where a process is; then there are fewer, so that it takes less time, and so on. */
static double take_turns(const struct work *work, struct assumption *as, double parts[KR_PREDICTED_PARTS])
{
	double sum = 0, before = -1;

	for (size_t i = 0; i < KR_PREDICTED_PARTS; i++)
		as->busy[i] = 1;
	for (unsigned turn = 0; turn < TURNS && fabs(sum - before) > 1e-12 * sum; turn++) {
		before = sum;
		sum = sum_of(work, as, parts);
		for (size_t i = 0; i < KR_PREDICTED_PARTS && sum > 0; i++)
			as->busy[i] = (as->busy[i] + KR_MAX(parts[i], 0.0) / (sum + work->elsewhere_s)) / 2;
	}
	return sum;
}

static double mean_size(const struct work *work, enum asked asked)
{
	double files = 0, bytes = 0;

	for (size_t i = 0; i < KR_ARRAY_SIZE(work->asked[asked]); i++) {
		files += work->asked[asked][i].files;
		bytes += work->asked[asked][i].bytes;
	}
	return files > 0 ? bytes / files : 0;
}

/* A file read and one written, by as many processes as WORK has at one of both at a time: as long as the envelope says,
 * in multiples of what it would take if neither were in the other's way. */
static double crossing_of(const struct work *work, const struct assumption *as)
{
	const double busy = KR_MIN(1.0, as->busy[KR_PREDICTED_SERVER] + as->busy[KR_PREDICTED_WRITES]);
	const double size =
		KR_MAX((mean_size(work, READ_SERVER) + mean_size(work, WRITE)) / 2, (double)KR_ENVELOPE_MIXED_LEAST);
	struct assumption apart = *as;
	double parts[KR_PREDICTED_PARTS], together;
	struct work pair = {0};

	apart.with.processes = 1 + (as->with.processes - 1) * busy;
	apart.with.nodes = (1 + (as->with.nodes * as->with.processes - 1) * busy) / apart.with.processes;
	together = time_of(as->envelope, "read and write", apart.with.nodes, apart.with.processes, size, as->rate);
	if (isnan(together)) /* an earlier version's envelope */
		return 1;
	ask(&pair, READ_SERVER, 1, size);
	ask(&pair, WRITE, 1, size);
	return KR_MAX(1.0, together / take_turns(&pair, &apart, parts));
}

static double solve(const struct work *work, const struct assumption *assumption, const char *rate,
	double parts[KR_PREDICTED_PARTS])
{
	struct assumption as = *assumption;
	double sum;

	as.rate = rate;
	as.crossing = 1;
	sum = take_turns(work, &as, parts);
	if (parts[KR_PREDICTED_SERVER] > 0 && parts[KR_PREDICTED_WRITES] > 0) {
		as.crossing = crossing_of(work, &as);
		sum = take_turns(work, &as, parts);
	}
	return sum;
}

/* How many of the program's processes there were at a time, on a node or on ALL nodes, while there were any. */
static double at_a_time(const struct kr_traces *traces, const char *program, bool all)
{
	double one = 0, together = 0;

	for (size_t i = 0; i < traces->process_count; i++) {
		const struct kr_traced_process *process = traces->processes[i], *other;

		if (!is_of(process, program))
			continue;
		one += process->last - process->first;
		for (size_t j = 0; j < traces->process_count; j++) {
			other = traces->processes[j];
			if (is_of(other, program) && (all || strcmp(other->node, process->node) == 0))
				together += KR_MAX(
					0.0, KR_MIN(other->last, process->last) - KR_MAX(other->first, process->first));
		}
	}
	return one > 0 ? KR_MAX(1.0, together / one) : 1;
}

static void predict_program(
	const struct kr_traces *traces, const struct assumption *assumption, struct kr_prediction *prediction)
{
	const char *program = prediction->program;
	const struct work work = work_of(traces, program, assumption->with.reads);
	struct assumption as = *assumption;
	const double processes = at_a_time(traces, program, false),
		     nodes = at_a_time(traces, program, true) / processes;
	double ignored[KR_PREDICTED_PARTS];

	for (size_t i = 0; i < traces->process_count; i++) {
		if (!is_of(traces->processes[i], program))
			continue;
		prediction->processes++;
		prediction->traced_s += kr_traced_waited_s(traces->processes[i]);
	}
	if (as.with.nodes <= 0)
		as.with.nodes = nodes;
	if (as.with.processes <= 0)
		as.with.processes = processes;
	prediction->nodes = as.with.nodes;
	prediction->at_a_time = as.with.processes;
	prediction->expected_s = solve(&work, &as, "per_s", prediction->parts_s);
	prediction->lowest_s = solve(&work, &as, "highest", ignored);
	prediction->highest_s = solve(&work, &as, "lowest", ignored);
	prediction->bounds.bound = KR_BOUNDS;
	if (as.with.reads == KR_PREDICT_AS_TRACED)
		prediction->bounds = kr_bounds_of(
			traces, as.envelope, program, nodes, as.with.nodes / nodes, as.with.processes / processes);
}

static int by_time(const void *left, const void *right)
{
	const struct kr_prediction *a = left, *b = right;

	return a->expected_s != b->expected_s ? (a->expected_s < b->expected_s ? 1 : -1) :
						strcmp(a->program, b->program);
}

struct kr_prediction *kr_predict(
	const struct kr_traces *traces, const json_t *envelope, const struct kr_predict_with *with, size_t *ret_count)
{
	const struct assumption as = {.envelope = envelope, .with = *with};
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

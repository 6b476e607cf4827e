/* See predict_bound.h. */
#include "tools/trace/predict_bound.h"

#include <string.h>

#include "common/base/text.h"
#include "common/base/util.h"

#define SHARE_LEAST (1.0 / 3)
#define AHEAD 1.5

/* Of a program's processes, on one node or on all. */
struct stay {
	double first, last, waited_s;
	double covered_s; /* by samples */
	double figures[KR_LOAD_FIGURES], received, sent;
};

static struct stay stay_of(const struct kr_traces *traces, const char *program, const char *node)
{
	struct stay stay = {0};

	for (size_t i = 0; i < traces->process_count; i++) {
		const struct kr_traced_process *process = traces->processes[i];

		if (strcmp(process->command, program) != 0 || strcmp(process->node, node) != 0)
			continue;
		if (stay.last <= 0 || process->first < stay.first)
			stay.first = process->first;
		stay.last = KR_MAX(stay.last, process->last);
		stay.waited_s += kr_traced_waited_s(process);
	}
	stay.waited_s = KR_MIN(stay.waited_s, stay.last - stay.first); /* some waited at the same time */
	return stay;
}

/* Threads that wait for a processor at the same time keep a program waiting once.  Some kernels also take the sleep of
 * a thread for such a wait, seldom, all of it when the thread wakes up. */
static double figure_of(const struct kr_traced_load *load, size_t figure)
{
	const bool of_processors = figure == KR_LOAD_SERVER_CPU || figure == KR_LOAD_NODE_CPU;

	return of_processors ? KR_MIN(load->figures[figure], load->last - load->first) : load->figures[figure];
}

static void add_loads(const struct kr_traces *traces, const char *node, struct stay *stay)
{
	for (size_t i = 0; i < traces->load_count; i++) {
		const struct kr_traced_load *load = traces->loads[i];
		const double both = KR_MIN(load->last, stay->last) - KR_MAX(load->first, stay->first);
		const double share = both > 0 ? both / (load->last - load->first) : 0;

		if (share <= 0 || strcmp(load->node, node) != 0)
			continue;
		stay->covered_s += both;
		for (size_t figure = 0; figure < KR_LOAD_FIGURES; figure++)
			stay->figures[figure] += share * figure_of(load, figure);
		stay->received += share * load->received;
		stay->sent += share * load->sent;
	}
}

/* Assumes that times without samples were like those with samples. */
static void add_stay(struct stay *sum, const struct stay *stay)
{
	const double scale = stay->covered_s > 0 ? (stay->last - stay->first) / stay->covered_s : 0;

	sum->covered_s += stay->covered_s;
	sum->last += stay->last - stay->first;
	sum->waited_s += stay->waited_s;
	for (size_t figure = 0; figure < KR_LOAD_FIGURES; figure++)
		sum->figures[figure] += KR_MIN(scale * stay->figures[figure], stay->waited_s);
	sum->received += scale * stay->received;
	sum->sent += scale * stay->sent;
}

static struct stay sum_of(const struct kr_traces *traces, const char *program)
{
	struct stay sum = {0};

	for (size_t i = 0; i < traces->load_count; i++) {
		const char *node = traces->loads[i]->node;
		struct stay stay;
		bool known = false;

		for (size_t j = 0; j < i && !known; j++)
			known = strcmp(traces->loads[j]->node, node) == 0;
		if (known)
			continue;
		stay = stay_of(traces, program, node);
		add_loads(traces, node, &stay);
		add_stay(&sum, &stay);
	}
	return sum;
}

/* The most bytes per second of WHAT that the envelope knows. */
static double best_rate(const json_t *envelope, const char *what)
{
	const json_t *point;
	double best = 0;
	size_t i;

	json_array_foreach(json_object_get(envelope, "points"), i, point)
	{
		const double rate = json_number_value(json_object_get(point, "per_s")) *
			json_number_value(json_object_get(point, "size"));

		if (strcmp(kr_text_of(point, "what"), what) == 0)
			best = KR_MAX(best, rate);
	}
	return best;
}

/* How long what moved takes at least.  Both directions move at the same time. */
static double stream_s(const struct stay *sum, const json_t *envelope)
{
	const double read = best_rate(envelope, "read from the server"), write = best_rate(envelope, "write");

	return KR_MAX(read > 0 ? sum->received / read : 0, write > 0 ? sum->sent / write : 0);
}

/* The one of SHARES that, grown by GROWTH, is far ahead of the others. */
static enum kr_bound far_ahead(const double *shares, const double *growth)
{
	enum kr_bound largest = KR_BOUNDS;
	double most = 0, second = 0;

	for (size_t i = 0; i < KR_BOUNDS; i++) {
		const double grown = shares[i] * growth[i];

		second = KR_MAX(second, KR_MIN(most, grown));
		if (grown > most)
			largest = (enum kr_bound)i;
		most = KR_MAX(most, grown);
	}
	return most >= SHARE_LEAST && most >= AHEAD * second ? largest : KR_BOUNDS;
}

struct kr_bounds kr_bounds_of(const struct kr_traces *traces, const json_t *envelope, const char *program, double nodes,
	double more_nodes, double more_processes)
{
	const struct stay sum = sum_of(traces, program);
	const double more = more_nodes * more_processes;
	const double growth[KR_BOUNDS] = {more, more, more_processes, more, 1};
	struct kr_bounds bounds = {.bound = KR_BOUNDS, .known = sum.waited_s > 0 && sum.covered_s >= sum.last / 2};
	double *shares = bounds.shares, rest = 1;

	if (!bounds.known)
		return bounds;
	shares[KR_BOUND_SERVER_CPU] = sum.figures[KR_LOAD_SERVER_CPU] / sum.waited_s;
	shares[KR_BOUND_SERVER_DISK] = sum.figures[KR_LOAD_SERVER_DISK] / sum.waited_s;
	shares[KR_BOUND_NODE_CPU] = sum.figures[KR_LOAD_NODE_CPU] / sum.waited_s;
	for (size_t i = KR_BOUND_SERVER_CPU; i <= KR_BOUND_NODE_CPU; i++)
		rest = KR_MAX(rest - shares[i], 0.0);
	if (stream_s(&sum, envelope) >= sum.waited_s / nodes / 2)
		shares[KR_BOUND_LINK] = rest;
	else
		shares[KR_BOUND_DELAY] = KR_MIN(rest, sum.figures[KR_LOAD_ROUND_TRIPS] / sum.waited_s);
	bounds.bound = far_ahead(shares, growth);
	return bounds;
}

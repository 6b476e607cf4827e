/* Sums up a trace in one line per call. */
#include <inttypes.h>
#include <string.h>

#include "common/base/util.h"
#include "tools/gantt/gantt.h"

/* One rank in one call: its events of each phase are neighbours, in ascending order. */
struct share {
	const struct kr_trace_event *events[KR_TRACE_PHASES];
	size_t counts[KR_TRACE_PHASES];
};

struct call {
	const struct kr_trace_event *events;
	size_t count;
	uint64_t start, end, rounds, bytes[KR_TRACE_PHASES];
	uint64_t busy[KR_TRACE_PHASES];  /* of all ranks together */
	uint32_t ranks[KR_TRACE_PHASES]; /* that had this phase */
	uint32_t all_ranks, nodes;
	uint64_t file_busy, file_and_exchange; /* file I/O; and exchange of the same rank at the same time */
};

static bool same_call(const struct kr_trace_event *a, const struct kr_trace_event *b)
{
	return strcmp(a->file, b->file) == 0 && a->open == b->open && a->call == b->call;
}

/* The time in which at least one of the events is active. */
static uint64_t covered(const struct kr_trace_event *events, size_t count)
{
	uint64_t sum = 0, until = 0;
	for (size_t i = 0; i < count; i++) {
		uint64_t from = KR_MAX(events[i].start_ns, until);
		if (events[i].end_ns > from)
			sum += events[i].end_ns - from;
		until = KR_MAX(until, events[i].end_ns);
	}
	return sum;
}

/* The next stretch of time that the events from *AT on cover without a break; false: none. */
static bool next_stretch(
	const struct kr_trace_event *events, size_t count, size_t *at, uint64_t *ret_from, uint64_t *ret_to)
{
	if (*at == count)
		return false;
	*ret_from = events[*at].start_ns;
	*ret_to = events[*at].end_ns;
	for (++*at; *at < count && events[*at].start_ns <= *ret_to; ++*at)
		*ret_to = KR_MAX(*ret_to, events[*at].end_ns);
	return true;
}

/* The time in which events of both kinds are active. */
static uint64_t both(const struct kr_trace_event *a, size_t a_count, const struct kr_trace_event *b, size_t b_count)
{
	size_t a_at = 0, b_at = 0;
	uint64_t sum = 0, a_from, a_to, b_from, b_to;
	bool more = next_stretch(a, a_count, &a_at, &a_from, &a_to) && next_stretch(b, b_count, &b_at, &b_from, &b_to);
	while (more) {
		uint64_t from = KR_MAX(a_from, b_from), to = KR_MIN(a_to, b_to);
		sum += to > from ? to - from : 0;
		if (a_to < b_to)
			more = next_stretch(a, a_count, &a_at, &a_from, &a_to);
		else
			more = next_stretch(b, b_count, &b_at, &b_from, &b_to);
	}
	return sum;
}

static void add_rank(struct call *call, const struct kr_trace_event *events, size_t count)
{
	struct share share = {{0}};
	enum kr_trace_phase io = strcmp(events->op, "write") == 0 ? KR_TRACE_WRITE : KR_TRACE_READ;
	for (size_t i = 0; i < count; i++) {
		enum kr_trace_phase phase = events[i].phase;
		if (share.counts[phase]++ == 0)
			share.events[phase] = &events[i];
		call->bytes[phase] += events[i].bytes;
		call->start = KR_MIN(call->start, events[i].start_ns);
		call->end = KR_MAX(call->end, events[i].end_ns);
		call->rounds = KR_MAX(call->rounds, events[i].round + 1);
	}
	for (enum kr_trace_phase phase = 0; phase < KR_TRACE_PHASES; phase++) {
		call->busy[phase] += covered(share.events[phase], share.counts[phase]);
		call->ranks[phase] += share.counts[phase] > 0;
	}
	call->file_busy += covered(share.events[io], share.counts[io]);
	call->file_and_exchange += both(
		share.events[io], share.counts[io], share.events[KR_TRACE_EXCHANGE], share.counts[KR_TRACE_EXCHANGE]);
	call->all_ranks++;
}

static double percent(uint64_t part, double whole)
{
	return whole > 0 ? 100 * (double)part / whole : 0;
}

static void print_call(const struct call *call, FILE *out)
{
	const struct kr_trace_event *event = call->events;
	bool write = strcmp(event->op, "write") == 0;
	uint64_t elapsed = call->end - call->start, bytes = call->bytes[write ? KR_TRACE_WRITE : KR_TRACE_READ];
	fprintf(out,
		"%s open %" PRIu64 " call %" PRIu64 ": %s by %u ranks on %u nodes, %" PRIu64
		" rounds, %.3f MB in %.6f s, %.1f MB/s;",
		event->file, event->open, event->call, event->op, call->all_ranks, call->nodes, call->rounds,
		(double)bytes / 1e6, (double)elapsed / 1e9, elapsed > 0 ? (double)bytes * 1e3 / (double)elapsed : 0);
	for (enum kr_trace_phase phase = 0; phase < KR_TRACE_PHASES; phase++)
		fprintf(out, " %s %.1f %%,", kr_trace_phase_name(phase),
			percent(call->busy[phase], (double)elapsed * call->ranks[phase]));
	fprintf(out, " exchange during %.1f %% of the file's %s\n",
		percent(call->file_and_exchange, (double)call->file_busy), write ? "write" : "read");
}

void kr_gantt_summary(const struct kr_gantt *gantt, FILE *out)
{
	for (size_t i = 0; i < gantt->count;) {
		struct call call = {.events = &gantt->events[i], .start = UINT64_MAX};
		uint32_t node = 0;
		while (i < gantt->count && same_call(call.events, &gantt->events[i])) {
			const struct kr_trace_event *first = &gantt->events[i];
			size_t begin = i;
			while (i < gantt->count && same_call(first, &gantt->events[i]) &&
				gantt->events[i].rank == first->rank && gantt->events[i].node == first->node)
				i++;
			call.nodes += call.all_ranks == 0 || first->node != node;
			node = first->node;
			add_rank(&call, first, i - begin);
		}
		print_call(&call, out);
	}
}

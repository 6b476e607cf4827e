/* Traces as a page: the table of programs, a heat map of what their time went to, a timeline of processes.  Graphviz
 * draws the graph of programs and files. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/base/spawn.h"
#include "tools/base/svg.h"
#include "tools/trace/traces.h"

enum { WIDTH = 1300, LEFT = 230, CHART = WIDTH - LEFT - 20, TOP = 50, LANE = 12, LANES = 24, TICKS = 10 };
enum { CELL = 125, CELL_HEIGHT = 24 };

static const char *const fills[KR_WAITS] = {[KR_WAIT_HERE] = "fill:#7f7f7f",
	[KR_WAIT_REQUEST] = "fill:#e69f00",
	[KR_WAIT_LEASE] = "fill:#cc79a7",
	[KR_WAIT_SERVER] = "fill:#0072b2",
	[KR_WAIT_NODE] = "fill:#56b4e9",
	[KR_WAIT_FLUSH] = "fill:#d55e00",
	[KR_WAIT_SPACE] = "fill:#b8a800"};
static const char no_wait_fill[] = "fill:#dddddd", no_wait_name[] = "not in I/O";

/* --- heat map ---------------------------------------------------------------------------------- */

/* PART of the time that the processes of a program have run, or waited if that is more (several threads). */
static double share(const struct kr_traced_sum *sum, double part_us)
{
	const double all_us = KR_MAX(sum->between * 1e6, (double)sum->all_us);

	return all_us > 0 ? part_us / all_us : 0;
}

static void draw_cell(double x, double y, double part, const char *colour, FILE *out)
{
	char text[48];

	snprintf(text, sizeof(text), "fill:%s;fill-opacity:%.2f", colour, part);
	kr_svg_rect(out, x, y, CELL - 1, CELL_HEIGHT - 1, text, NULL);
	snprintf(text, sizeof(text), "%.0f %%", 100 * part);
	if (part >= 0.005)
		kr_svg_text(out, x + CELL / 2, y + 16, "middle", text);
}

static void draw_row(const struct kr_traced_sum *sum, double y, FILE *out)
{
	kr_svg_text(out, LEFT - 8, y + 16, "end", sum->name);
	for (size_t i = 0; i < KR_WAITS; i++)
		draw_cell(LEFT + (double)i * CELL, y, share(sum, (double)sum->waited_us[i]), "#e0504f", out);
	draw_cell(LEFT + KR_WAITS * CELL, y, KR_MAX(0.0, share(sum, sum->between * 1e6 - (double)sum->all_us)),
		"#aaaaaa", out);
}

static void draw_heat_map(const struct kr_traced_sums *sums, FILE *out)
{
	kr_svg_begin(out, LEFT + (KR_WAITS + 1) * CELL + 20, 24 + (double)sums->count * CELL_HEIGHT);
	for (size_t i = 0; i <= KR_WAITS; i++)
		kr_svg_text(out, LEFT + ((double)i + 0.5) * CELL, 16, "middle",
			i < KR_WAITS ? kr_traced_wait_name((enum kr_wait)i) : no_wait_name);
	for (size_t i = 0; i < sums->count; i++)
		draw_row(sums->sums[i], 24 + (double)i * CELL_HEIGHT, out);
	kr_svg_end(out);
}

/* --- timeline ---------------------------------------------------------------------------------- */

struct timeline {
	double begin, end;
	double y; /* of what comes next */
	FILE *out;
};

static double x_of(const struct timeline *timeline, double at)
{
	return LEFT + CHART * (at - timeline->begin) / (timeline->end - timeline->begin);
}

/* A bar from the first request to the last: its parts are as long as the waits were together. */
static void draw_process(const struct timeline *timeline, const struct kr_traced_process *process, double y)
{
	const double took_us = (double)kr_traced_took_us(process), between = process->last - process->first;
	const double width = KR_MAX(x_of(timeline, process->last) - x_of(timeline, process->first), 1.5);
	double x = x_of(timeline, process->first);
	KR_AUTO_FREE char *title = NULL;

	if (asprintf(&title, "%s %" JSON_INTEGER_FORMAT " on %s: %.2f s, %.2f s of it in I/O", process->command,
		    process->pid, process->node, between, took_us / 1e6) < 0)
		abort();
	kr_svg_rect(timeline->out, x, y, width, LANE - 1, no_wait_fill, title);
	for (size_t i = 0; i < KR_WAITS; i++) {
		const double part = width * (double)process->waited_us[i] / KR_MAX(between * 1e6, took_us);

		if (part >= 0.05)
			kr_svg_rect(timeline->out, x, y, part, LANE - 1, fills[i], title);
		x += part >= 0 ? part : 0;
	}
}

/* The lane that is free first at the time of AT, or the last one where there are too many. */
static size_t lane_for(double ends[LANES], const struct kr_traced_process *process)
{
	size_t lane = 0;

	while (lane < LANES - 1 && ends[lane] > process->first)
		lane++;
	ends[lane] = KR_MAX(ends[lane], KR_MAX(process->last, process->first + 1e-6));
	return lane;
}

/* The COUNT processes, by their beginnings, of one program on one node. */
static void draw_group(struct timeline *timeline, struct kr_traced_process **group, size_t count)
{
	double ends[LANES] = {0};
	KR_AUTO_FREE char *name = NULL;
	size_t lanes = 0;

	kr_svg_line(timeline->out, 8, timeline->y - 1, WIDTH - 20, timeline->y - 1, "stroke:#cccccc");
	for (size_t i = 0; i < count; i++) {
		const size_t lane = lane_for(ends, group[i]);

		draw_process(timeline, group[i], timeline->y + (double)(lane * LANE));
		lanes = KR_MAX(lanes, lane + 1);
	}
	if (asprintf(&name, "%s on %s", group[0]->sum->name, group[0]->node) < 0)
		abort();
	kr_svg_text(timeline->out, LEFT - 8, timeline->y + 10, "end", name);
	timeline->y += (double)lanes * LANE + 2;
}

static int by_group(const void *left, const void *right)
{
	const struct kr_traced_process *a = *(struct kr_traced_process *const *)left,
				       *b = *(struct kr_traced_process *const *)right;
	int order;

	if (a->sum != b->sum)
		return a->sum->first != b->sum->first ? (a->sum->first < b->sum->first ? -1 : 1) :
							strcmp(a->sum->name, b->sum->name);
	order = strcmp(a->node, b->node);
	return order ? order : a->first < b->first ? -1 : a->first > b->first;
}

static void draw_groups(struct timeline *timeline, const struct kr_traces *traces)
{
	struct kr_traced_process **all = kr_xcalloc(traces->process_count + 1, sizeof(*all));
	size_t end;

	for (size_t i = 0; i < traces->process_count; i++)
		all[i] = traces->processes[i];
	qsort(all, traces->process_count, sizeof(*all), by_group);
	for (size_t begin = 0; begin < traces->process_count; begin = end) {
		for (end = begin; end < traces->process_count && all[end]->sum == all[begin]->sum &&
			strcmp(all[end]->node, all[begin]->node) == 0;)
			end++;
		draw_group(timeline, all + begin, end - begin);
	}
	free(all);
}

static void draw_axis(const struct timeline *timeline, FILE *out)
{
	const double span = timeline->end - timeline->begin, tick = kr_svg_tick(span, TICKS);
	char text[32];

	for (int i = 0; i * tick <= span; i++) {
		const double x = x_of(timeline, timeline->begin + i * tick);

		kr_svg_line(out, x, TOP - 4, x, timeline->y, "stroke:#cccccc");
		snprintf(text, sizeof(text), "%g s", i * tick);
		kr_svg_text(out, x, TOP - 8, "middle", text);
	}
}

static void draw_legend(FILE *out)
{
	for (size_t i = 0; i <= KR_WAITS; i++) {
		const double x = 20 + (double)i * 155;

		kr_svg_rect(out, x, 6, 14, 12, i < KR_WAITS ? fills[i] : no_wait_fill, NULL);
		kr_svg_text(
			out, x + 19, 16, "start", i < KR_WAITS ? kr_traced_wait_name((enum kr_wait)i) : no_wait_name);
	}
}

/* The bars are drawn aside first: they say how high the drawing is. */
static void draw_timeline(const struct kr_traces *traces, FILE *out)
{
	struct timeline timeline = {.begin = traces->processes[0]->first, .y = TOP};
	KR_AUTO_FREE char *bars = NULL;
	size_t length;

	for (size_t i = 0; i < traces->process_count; i++) {
		timeline.begin = KR_MIN(timeline.begin, traces->processes[i]->first);
		timeline.end = KR_MAX(timeline.end, traces->processes[i]->last);
	}
	timeline.end = KR_MAX(timeline.end, timeline.begin + 1e-6);
	timeline.out = open_memstream(&bars, &length);
	if (!timeline.out)
		abort();
	draw_groups(&timeline, traces);
	if (fclose(timeline.out) != 0)
		abort();
	kr_svg_begin(out, WIDTH, timeline.y + 10);
	draw_legend(out);
	draw_axis(&timeline, out);
	fputs(bars, out);
	kr_svg_end(out);
}

/* --- graph ------------------------------------------------------------------------------------- */

/* Copies the drawing in FROM without what stands before it. */
static void copy_svg(FILE *from, FILE *out)
{
	KR_AUTO_FREE char *line = NULL;
	size_t capacity = 0;
	bool begun = false;

	rewind(from);
	while (getline(&line, &capacity, from) > 0) {
		begun |= strncmp(line, "<svg", 4) == 0;
		if (begun)
			fputs(line, out);
	}
}

/* 0, or -ENOENT: Graphviz is not installed. */
static int draw_graph(const struct kr_traces *traces, FILE *out)
{
	FILE *dot = tmpfile(), *svg = tmpfile();
	int err = dot && svg ? 0 : -errno;
	pid_t pid;

	if (err == 0) {
		kr_traces_dot(traces, dot);
		rewind(dot); /* which writes it, too */
		err = kr_tool_spawn((const char *const[]){"dot", "-Tsvg", NULL}, fileno(dot), fileno(svg), &pid);
	}
	if (err == 0)
		err = kr_tool_wait(pid);
	if (err == 0)
		copy_svg(svg, out);
	if (dot)
		fclose(dot);
	if (svg)
		fclose(svg);
	return err;
}

/* --- the page ---------------------------------------------------------------------------------- */

static void put_table(const struct kr_traces *traces, const char *by, FILE *out)
{
	KR_AUTO_FREE char *text = NULL;
	size_t length;
	FILE *table = open_memstream(&text, &length);

	if (!table)
		abort();
	kr_traces_print(traces, by, table);
	if (fclose(table) != 0)
		abort();
	kr_page_text(out, "pre", text);
}

static void put_graph(const struct kr_traces *traces, FILE *out)
{
	const int err = draw_graph(traces, out);

	if (err)
		kr_page_text(out, "p",
			err == -ENOENT ? "Graphviz (dot) is not installed here, which draws this graph." :
					 "Graphviz (dot) could not draw this graph.");
}

void kr_traces_page(const struct kr_traces *traces, const char *by, FILE *out)
{
	struct kr_traced_sums sums;

	kr_page_begin(out, "What programs asked of a mount, and what they waited for");
	put_table(traces, by, out);
	kr_traced_sums_init(&sums, traces, by);
	kr_page_text(out, "h2", "what the time went to");
	kr_page_text(out, "p", "Of the time between the first and the last request of each process, all together.");
	draw_heat_map(&sums, out);
	if (traces->process_count) {
		kr_page_text(out, "h2", "processes");
		kr_page_text(out, "p",
			"A bar goes from a process's first request to its last. Its colours say how much of that was "
			"spent waiting, and for what, not when.");
		draw_timeline(traces, out);
	}
	kr_traced_sums_fini(&sums);
	kr_page_text(out, "h2", "programs, and the files between them");
	put_graph(traces, out);
	kr_page_end(out);
}

/* Draws a trace: a row per rank, ordered by node.  The upper half shows the exchange between ranks, the lower half the
 * file I/O, so that their overlap is visible. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"
#include "tools/gantt/gantt.h"

enum { LEFT = 130, CHART = 1200, RIGHT = 20, TOP = 56, ROW = 22, BOTTOM = 40, TICKS = 10 };

static const char *const colours[KR_TRACE_PHASES] = {"#7f7f7f", "#2ca02c", "#1f77b4", "#d62728"};

struct row {
	uint32_t node, rank;
};

struct chart {
	struct row *rows;
	size_t row_count;
	uint64_t start, end;
};

static int compare_rows(const void *a, const void *b)
{
	const struct row *x = a, *y = b;
	if (x->node != y->node)
		return x->node < y->node ? -1 : 1;
	return x->rank < y->rank ? -1 : x->rank > y->rank;
}

static bool make_chart(const struct kr_gantt *gantt, struct chart *chart)
{
	*chart = (struct chart){.start = UINT64_MAX};
	chart->rows = reallocarray(NULL, gantt->count, sizeof(*chart->rows));
	if (!chart->rows)
		return false;
	for (size_t i = 0; i < gantt->count; i++) {
		chart->rows[i] = (struct row){gantt->events[i].node, gantt->events[i].rank};
		chart->start = KR_MIN(chart->start, gantt->events[i].start_ns);
		chart->end = KR_MAX(chart->end, gantt->events[i].end_ns);
	}
	qsort(chart->rows, gantt->count, sizeof(*chart->rows), compare_rows);
	for (size_t i = 0; i < gantt->count; i++)
		if (i == 0 || compare_rows(&chart->rows[i], &chart->rows[chart->row_count - 1]) != 0)
			chart->rows[chart->row_count++] = chart->rows[i];
	if (chart->end == chart->start)
		chart->end++;
	return true;
}

static double x_of(const struct chart *chart, uint64_t ns)
{
	return LEFT + (double)(ns - chart->start) * CHART / (double)(chart->end - chart->start);
}

static size_t row_of(const struct chart *chart, const struct kr_trace_event *event)
{
	struct row key = {event->node, event->rank};
	const struct row *row = bsearch(&key, chart->rows, chart->row_count, sizeof(*chart->rows), compare_rows);
	return (size_t)(row - chart->rows);
}

static void put_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '<' || *text == '&' || *text == '>')
			fprintf(out, "&#%d;", *text);
		else /* XML 1.0 has no control characters */
			fputc((unsigned char)*text < 0x20 || *text == 0x7f ? '?' : *text, out);
	}
}

static void draw_legend(FILE *out)
{
	for (enum kr_trace_phase phase = 0; phase < KR_TRACE_PHASES; phase++) {
		int x = LEFT + 110 * (int)phase;
		fprintf(out,
			"<rect x=\"%d\" y=\"30\" width=\"14\" height=\"12\" fill=\"%s\"/>"
			"<text x=\"%d\" y=\"40\">%s</text>\n",
			x, colours[phase], x + 20, kr_trace_phase_name(phase));
	}
}

static void draw_rows(const struct chart *chart, FILE *out)
{
	unsigned node = 0;
	for (size_t i = 0; i < chart->row_count; i++) {
		node += i > 0 && chart->rows[i].node != chart->rows[i - 1].node;
		fprintf(out,
			"<rect x=\"%d\" y=\"%zu\" width=\"%d\" height=\"%d\" fill=\"%s\"/>"
			"<text x=\"%d\" y=\"%zu\" text-anchor=\"end\">node %u rank %u</text>\n",
			LEFT, TOP + i * ROW, CHART, ROW, node % 2 ? "#eeeeee" : "#f8f8f8", LEFT - 8, TOP + i * ROW + 15,
			chart->rows[i].node, chart->rows[i].rank);
	}
}

/* The distance of marks on the axis, 1, 2 or 5 times a power of ten ns, so that there are at most TICKS. */
static uint64_t tick_of(uint64_t span)
{
	uint64_t tick = 1;
	for (int i = 0; span / tick > TICKS; i++)
		tick = i % 3 == 1 ? tick / 2 * 5 : tick * 2;
	return tick;
}

static void draw_axis(const struct chart *chart, FILE *out)
{
	uint64_t span = chart->end - chart->start, tick = tick_of(span);
	size_t bottom = TOP + chart->row_count * ROW;
	const char *unit = span >= 2000000000 ? "s" : span >= 2000000 ? "ms" : "µs";
	double scale = span >= 2000000000 ? 1e9 : span >= 2000000 ? 1e6 : 1e3;
	for (uint64_t at = 0; at <= span; at += tick) {
		double x = x_of(chart, chart->start + at);
		fprintf(out,
			"<line x1=\"%.2f\" y1=\"%d\" x2=\"%.2f\" y2=\"%zu\" stroke=\"#bbbbbb\" stroke-width=\"0.5\"/>"
			"<text x=\"%.2f\" y=\"%zu\" text-anchor=\"middle\">%g</text>\n",
			x, TOP, x, bottom + 4, x, bottom + 18, (double)at / scale);
		if (span - at < tick)
			break;
	}
	fprintf(out, "<text x=\"%d\" y=\"%zu\" text-anchor=\"middle\">time (%s)</text>\n", LEFT + CHART / 2,
		bottom + 34, unit);
}

static void draw_event(const struct chart *chart, const struct kr_trace_event *event, FILE *out)
{
	bool file = event->phase == KR_TRACE_READ || event->phase == KR_TRACE_WRITE;
	double from = x_of(chart, event->start_ns), to = x_of(chart, event->end_ns);
	fprintf(out, "<rect x=\"%.2f\" y=\"%zu\" width=\"%.2f\" height=\"%d\" fill=\"%s\"%s><title>", from,
		TOP + row_of(chart, event) * ROW + 2 + (file ? ROW / 2 - 1 : 0), KR_MAX(to - from, 0.2), ROW / 2 - 2,
		colours[event->phase], event->round % 2 ? " fill-opacity=\"0.65\"" : ""); /* distinguishes rounds */
	put_text(out, event->file);
	fprintf(out, " call %" PRIu64 " round %" PRIu64 " slot %u: %s, %" PRIu64 " bytes, %.3f ms</title></rect>\n",
		event->call, event->round, event->slot, kr_trace_phase_name(event->phase), event->bytes,
		(double)(event->end_ns - event->start_ns) / 1e6);
}

int kr_gantt_draw(const struct kr_gantt *gantt, FILE *out)
{
	struct chart chart;
	const char *file = gantt->events[0].file;
	if (!make_chart(gantt, &chart))
		return -ENOMEM;
	fprintf(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
		"height=\"%zu\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" "
		"fill=\"white\"/>\n"
		"<text x=\"%d\" y=\"20\" font-size=\"14\">",
		LEFT + CHART + RIGHT, TOP + chart.row_count * ROW + BOTTOM, LEFT);
	put_text(out, gantt->name_count > 1 ? "several files" : file);
	fprintf(out, "</text>\n");
	draw_legend(out);
	draw_rows(&chart, out);
	draw_axis(&chart, out);
	for (size_t i = 0; i < gantt->count; i++)
		draw_event(&chart, &gantt->events[i], out);
	fprintf(out, "</svg>\n");
	free(chart.rows);
	return 0;
}

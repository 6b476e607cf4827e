/* Draws a trace: a row per rank, ordered by node.  The upper half shows the exchange between ranks, the lower half the
 * file I/O, so that their overlap is visible. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"
#include "tools/base/svg.h"
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

static void draw_legend(FILE *out)
{
	char style[32];

	for (enum kr_trace_phase phase = 0; phase < KR_TRACE_PHASES; phase++) {
		const int x = LEFT + 110 * (int)phase;

		snprintf(style, sizeof(style), "fill:%s", colours[phase]);
		kr_svg_rect(out, x, 30, 14, 12, style, NULL);
		kr_svg_text(out, x + 20, 40, "start", kr_trace_phase_name(phase));
	}
}

static void draw_rows(const struct chart *chart, FILE *out)
{
	unsigned node = 0;
	char name[48];

	for (size_t i = 0; i < chart->row_count; i++) {
		const double y = (double)(TOP + i * ROW);

		node += i > 0 && chart->rows[i].node != chart->rows[i - 1].node;
		snprintf(name, sizeof(name), "node %u rank %u", chart->rows[i].node, chart->rows[i].rank);
		kr_svg_rect(out, LEFT, y, CHART, ROW, node % 2 ? "fill:#eeeeee" : "fill:#f8f8f8", NULL);
		kr_svg_text(out, LEFT - 8, y + 15, "end", name);
	}
}

static void draw_axis(const struct chart *chart, FILE *out)
{
	const double span_ns = (double)(chart->end - chart->start), bottom = (double)(TOP + chart->row_count * ROW);
	const char *unit = span_ns >= 2e9 ? "s" : span_ns >= 2e6 ? "ms" : "µs";
	const double scale = span_ns >= 2e9 ? 1e9 : span_ns >= 2e6 ? 1e6 : 1e3, tick = kr_svg_tick(span_ns, TICKS);
	char text[32];

	for (int i = 0; i * tick <= span_ns; i++) {
		const double x = LEFT + i * tick * CHART / span_ns;

		kr_svg_line(out, x, TOP, x, bottom + 4, "stroke:#bbbbbb;stroke-width:0.5");
		snprintf(text, sizeof(text), "%g", i * tick / scale);
		kr_svg_text(out, x, bottom + 18, "middle", text);
	}
	snprintf(text, sizeof(text), "time (%s)", unit);
	kr_svg_text(out, LEFT + CHART / 2, bottom + 34, "middle", text);
}

static void draw_event(const struct chart *chart, const struct kr_trace_event *event, FILE *out)
{
	const bool file = event->phase == KR_TRACE_READ || event->phase == KR_TRACE_WRITE;
	const double from = x_of(chart, event->start_ns), to = x_of(chart, event->end_ns);
	KR_AUTO_FREE char *title = NULL;
	char style[48];

	if (asprintf(&title, "%s call %" PRIu64 " round %" PRIu64 " slot %u: %s, %" PRIu64 " bytes, %.3f ms",
		    event->file, event->call, event->round, event->slot, kr_trace_phase_name(event->phase),
		    event->bytes, (double)(event->end_ns - event->start_ns) / 1e6) < 0)
		abort();
	snprintf(style, sizeof(style), "fill:%s%s", colours[event->phase],
		event->round % 2 ? ";fill-opacity:0.65" : ""); /* distinguishes rounds */
	kr_svg_rect(out, from, (double)(TOP + row_of(chart, event) * ROW + 2 + (file ? ROW / 2 - 1 : 0)),
		KR_MAX(to - from, 0.2), ROW / 2 - 2, style, title);
}

int kr_gantt_draw(const struct kr_gantt *gantt, FILE *out)
{
	struct chart chart;

	if (!make_chart(gantt, &chart))
		return -ENOMEM;
	kr_svg_begin(out, LEFT + CHART + RIGHT, (double)(TOP + chart.row_count * ROW + BOTTOM));
	kr_svg_text(out, LEFT, 20, "start", gantt->name_count > 1 ? "several files" : gantt->events[0].file);
	draw_legend(out);
	draw_rows(&chart, out);
	draw_axis(&chart, out);
	for (size_t i = 0; i < gantt->count; i++)
		draw_event(&chart, &gantt->events[i], out);
	kr_svg_end(out);
	free(chart.rows);
	return 0;
}

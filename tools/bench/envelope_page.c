/* See envelope_page.h.  A panel is a chart with logarithmic axes: a line for each number of processes over the size of
 * files, or for each operation on names over the number of processes. */
#include "tools/bench/envelope_page.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/base/svg.h"
#include "tools/base/units.h"
#include "tools/bench/envelope_view.h"

enum {
	PANEL = 640,
	LEFT = 70,
	CHART = 370,
	TOP = 30,
	HEIGHT = 230,
	BOTTOM = 45,
	LEGEND = LEFT + CHART + 20,
	LINES = 24
};

static const char *const colours[] = {
	"#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#000000", "#8a6d00"};

struct panel {
	const char *what; /* of files; NULL: all that is done with names */
	json_int_t nodes;
	bool bytes; /* MiB/s, not files/s */
	double left;
	char *lines[LINES]; /* names, owned */
	size_t line_count;
	double x_low, x_high, y_low, y_high;
};

/* --- points ------------------------------------------------------------------------------------ */

static double real(const json_t *point, const char *name)
{
	return json_number_value(json_object_get(point, name));
}

static bool is_in(const struct panel *panel, const json_t *point)
{
	const bool names = real(point, "size") <= 0;

	return real(point, "lowest") > 0 && kr_envelope_nodes(point) == panel->nodes &&
		(panel->what ? !names && strcmp(kr_text_of(point, "what"), panel->what) == 0 : names);
}

static double x_value(const struct panel *panel, const json_t *point)
{
	return real(point, panel->what ? "size" : "processes");
}

static double y_value(const struct panel *panel, const json_t *point, const char *rate)
{
	return real(point, rate) * (panel->bytes ? real(point, "size") / (1 << 20) : 1);
}

/* The name of the point's line; owned. */
static char *line_name(const struct panel *panel, const json_t *point)
{
	const json_int_t processes = kr_number(point, NULL, "processes");
	char *name = NULL;

	if (!panel->what)
		return kr_xstrdup(kr_text_of(point, "what"));
	if (asprintf(&name, "%" JSON_INTEGER_FORMAT " process%s", processes, processes == 1 ? "" : "es") < 0)
		abort();
	return name;
}

/* The number of the point's line; a new one gets the next number.  LINES: there are too many. */
static size_t line_of(struct panel *panel, const json_t *point)
{
	char *name = line_name(panel, point);
	size_t i;

	for (i = 0; i < panel->line_count && strcmp(panel->lines[i], name) != 0;)
		i++;
	if (i == panel->line_count && i < LINES)
		panel->lines[panel->line_count++] = name;
	else
		free(name);
	return i;
}

static void take_in(struct panel *panel, const json_t *envelope)
{
	const json_t *point;
	size_t i;

	json_array_foreach(json_object_get(envelope, "points"), i, point)
	{
		if (!is_in(panel, point))
			continue;
		line_of(panel, point);
		panel->x_low = KR_MIN(panel->x_low, x_value(panel, point));
		panel->x_high = KR_MAX(panel->x_high, x_value(panel, point));
		panel->y_low = KR_MIN(panel->y_low, y_value(panel, point, "lowest"));
		panel->y_high = KR_MAX(panel->y_high, y_value(panel, point, "highest"));
	}
}

/* --- drawing ----------------------------------------------------------------------------------- */

static double share(double low, double high, double value)
{
	return high > low ? log(value / low) / log(high / low) : 0.5;
}

static double x_of(const struct panel *panel, const json_t *point)
{
	return panel->left + LEFT + 15 + (CHART - 30) * share(panel->x_low, panel->x_high, x_value(panel, point));
}

static double y_of(const struct panel *panel, double value)
{
	return TOP + HEIGHT * (1 - share(panel->y_low, panel->y_high, value));
}

static void draw_y_mark(const struct panel *panel, double y, bool main, FILE *out)
{
	const double left = panel->left + LEFT;
	char text[32];

	if (y < panel->y_low * 0.999 || y > panel->y_high * 1.001)
		return;
	kr_svg_line(out, left, y_of(panel, y), left + CHART, y_of(panel, y), main ? "stroke:#aaa" : "stroke:#e4e4e4");
	snprintf(text, sizeof(text), "%.7g", y);
	if (main || panel->y_high / panel->y_low < 300)
		kr_svg_text(out, left - 6, y_of(panel, y) + 4, "end", text);
}

static void draw_y_axis(const struct panel *panel, FILE *out)
{
	for (double power = pow(10, floor(log10(panel->y_low))); power <= panel->y_high; power *= 10) {
		draw_y_mark(panel, power, true, out);
		draw_y_mark(panel, 2 * power, false, out);
		draw_y_mark(panel, 5 * power, false, out);
	}
}

static void draw_x_mark(const struct panel *panel, const json_t *point, FILE *out)
{
	const double x = x_of(panel, point);
	char text[32];

	snprintf(text, sizeof(text), "%s", panel->what ? kr_bytes_text(kr_number(point, NULL, "size")) : "");
	if (!panel->what)
		snprintf(text, sizeof(text), "%.0f", real(point, "processes"));
	kr_svg_line(out, x, TOP + HEIGHT, x, TOP + HEIGHT + 4, "stroke:#666");
	kr_svg_text(out, x, TOP + HEIGHT + 17, "middle", text);
}

static void draw_x_axis(const struct panel *panel, const json_t *envelope, FILE *out)
{
	const json_t *point;
	double last = 0;
	size_t i;

	json_array_foreach(json_object_get(envelope, "points"), i, point)
	{
		if (!is_in(panel, point) || x_value(panel, point) <= last)
			continue;
		last = x_value(panel, point);
		draw_x_mark(panel, point, out);
	}
	kr_svg_text(out, panel->left + LEFT + CHART / 2, TOP + HEIGHT + 36, "middle",
		panel->what ? "file size" : "processes");
}

static void draw_point(const struct panel *panel, const json_t *point, const char *colour, FILE *out)
{
	const double x = x_of(panel, point), y = y_of(panel, y_value(panel, point, "per_s"));
	KR_AUTO_FREE char *name = line_name(panel, point), *title = NULL;
	char style[64];

	if (asprintf(&title, "%s: %.4g %s, %.4g to %.4g", name, y_value(panel, point, "per_s"),
		    panel->bytes ? "MiB/s" : "files/s", y_value(panel, point, "lowest"),
		    y_value(panel, point, "highest")) < 0)
		abort();
	snprintf(style, sizeof(style), "stroke:%s;stroke-opacity:0.5;stroke-width:3", colour);
	kr_svg_line(out, x, y_of(panel, y_value(panel, point, "lowest")), x,
		y_of(panel, y_value(panel, point, "highest")), style);
	snprintf(style, sizeof(style), "fill:%s", colour);
	kr_svg_rect(out, x - 3.5, y - 3.5, 7, 7, style, title);
}

static void draw_lines(struct panel *panel, const json_t *envelope, bool dashed, FILE *out)
{
	const json_t *before[LINES] = {0}, *point;
	char style[64];
	size_t i, line;

	json_array_foreach(json_object_get(envelope, "points"), i, point)
	{
		if (!is_in(panel, point) || (line = line_of(panel, point)) == LINES)
			continue;
		snprintf(style, sizeof(style), "stroke:%s;stroke-width:1.5%s", colours[line % KR_ARRAY_SIZE(colours)],
			dashed ? ";stroke-dasharray:5 3" : "");
		if (before[line])
			kr_svg_line(out, x_of(panel, before[line]), y_of(panel, y_value(panel, before[line], "per_s")),
				x_of(panel, point), y_of(panel, y_value(panel, point, "per_s")), style);
		before[line] = point;
		draw_point(panel, point, colours[line % KR_ARRAY_SIZE(colours)], out);
	}
}

static void draw_legend(const struct panel *panel, bool two, FILE *out)
{
	const double left = panel->left + LEGEND;
	double y = TOP + 10;
	char style[32];

	for (size_t i = 0; i < panel->line_count; i++, y += 18) {
		snprintf(style, sizeof(style), "fill:%s", colours[i % KR_ARRAY_SIZE(colours)]);
		kr_svg_rect(out, left, y - 9, 12, 10, style, NULL);
		kr_svg_text(out, left + 18, y, "start", panel->lines[i]);
	}
	for (int second = 0; two && second < 2; second++, y += 18) {
		kr_svg_line(out, left, y - 4, left + 30, y - 4,
			second ? "stroke:black;stroke-width:1.5;stroke-dasharray:5 3" :
				 "stroke:black;stroke-width:1.5");
		kr_svg_text(out, left + 36, y, "start", second ? "second" : "first");
	}
}

static void draw_panel(struct panel *panel, const json_t *a, const json_t *b, FILE *out)
{
	panel->x_low = panel->y_low = INFINITY;
	take_in(panel, a);
	take_in(panel, b);
	kr_svg_text(out, panel->left + LEFT, TOP - 12, "start", panel->bytes ? "MiB/s" : "files/s");
	kr_svg_rect(out, panel->left + LEFT, TOP, CHART, HEIGHT, "fill:none;stroke:#666", NULL);
	draw_y_axis(panel, out);
	draw_x_axis(panel, a, out);
	draw_lines(panel, a, false, out);
	draw_lines(panel, b, true, out);
	draw_legend(panel, b != NULL, out);
	for (size_t i = 0; i < panel->line_count; i++)
		free(panel->lines[i]);
}

/* --- the page ---------------------------------------------------------------------------------- */

/* Whether A and B belong to one chart. */
static bool in_one_chart(const json_t *a, const json_t *b)
{
	const bool names = real(a, "size") <= 0;

	return names == (real(b, "size") <= 0) && kr_envelope_nodes(a) == kr_envelope_nodes(b) &&
		(names || strcmp(kr_text_of(a, "what"), kr_text_of(b, "what")) == 0);
}

/* The charts to which POINT belongs. */
static void draw(const json_t *point, const json_t *a, const json_t *b, FILE *out)
{
	struct panel panel = {
		.what = real(point, "size") > 0 ? kr_text_of(point, "what") : NULL, .nodes = kr_envelope_nodes(point)};
	KR_AUTO_FREE char *heading = NULL;

	if (asprintf(&heading, "%s on %" JSON_INTEGER_FORMAT " node%s", panel.what ? panel.what : "names", panel.nodes,
		    KR_S(panel.nodes)) < 0)
		abort();
	kr_page_text(out, "h2", heading);
	kr_svg_begin(out, panel.what ? 2 * PANEL : PANEL, TOP + HEIGHT + BOTTOM);
	for (int bytes = 0; bytes <= (panel.what ? 1 : 0); bytes++) {
		struct panel one = panel;

		one.bytes = bytes != 0;
		one.left = bytes * PANEL;
		draw_panel(&one, a, b, out);
	}
	kr_svg_end(out);
}

static void draw_all(const json_t *a, const json_t *b, FILE *out)
{
	const json_t *points = json_object_get(a, "points"), *point, *earlier;
	size_t i, j;

	json_array_foreach(points, i, point)
	{
		json_array_foreach(points, j, earlier) /* to the first one of its chart */
		{
			if (in_one_chart(earlier, point))
				break;
		}
		if (j == i)
			draw(point, a, b, out);
	}
}

static void describe(const char *label, const json_t *envelope, FILE *out)
{
	const json_t *machine = json_object_get(envelope, "machine");
	const time_t time = (time_t)kr_number(envelope, NULL, "time");
	KR_AUTO_FREE char *text = NULL;
	struct tm tm;
	char when[32] = "?";

	if (gmtime_r(&time, &tm))
		strftime(when, sizeof(when), "%Y-%m-%d %H:%M UTC", &tm);
	if (asprintf(&text, "%s%s from %s on %s, %s: %" JSON_INTEGER_FORMAT " processors, %s of memory, kernel %s",
		    label, kr_text_of(envelope, "mount"), kr_text_of(envelope, "source"), kr_text_of(machine, "node"),
		    when, kr_number(machine, NULL, "processors"),
		    kr_bytes_text(kr_number(machine, NULL, "memory_bytes")), kr_text_of(machine, "kernel")) < 0)
		abort();
	kr_page_text(out, "p", text);
}

static void put_table(const json_t *a, const json_t *b, FILE *out)
{
	KR_AUTO_FREE char *text = NULL;
	size_t length;
	FILE *table = open_memstream(&text, &length);

	if (!table)
		abort();
	if (b)
		kr_envelope_compare(a, b, table);
	else
		kr_envelope_print(a, table);
	if (fclose(table) != 0)
		abort();
	kr_page_text(out, "h2", "figures");
	kr_page_text(out, "pre", text);
}

void kr_envelope_page(const json_t *a, const json_t *b, FILE *out)
{
	kr_page_begin(out, b ? "What two mounts can do" : "What a mount can do");
	describe(b ? "First: " : "", a, out);
	if (b)
		describe("Second: ", b, out);
	kr_page_text(out, "p",
		"Each point is a median; the thick line behind it goes from the lowest to the highest. "
		"All processes and nodes together; processes of each node. Both axes are logarithmic.");
	draw_all(a, b, out);
	put_table(a, b, out);
	kr_page_end(out);
}

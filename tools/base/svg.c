/* See svg.h. */
#include "tools/base/svg.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "common/base/util.h"

static void put_escaped(FILE *out, const char *text)
{
	for (const char *c = text; c && *c; c++) {
		if (strchr("<>&\"'", *c))
			fprintf(out, "&#%d;", *c);
		else
			fputc(*c, out);
	}
}

/* Writes markup characters of BYTES as numbers, and bytes that are no characters as kr_text_shown does. */
static void put_text(FILE *out, const char *bytes)
{
	KR_AUTO_FREE char *text = kr_text_shown(bytes);

	put_escaped(out, text);
}

void kr_svg_begin(FILE *out, double width, double height)
{
	fprintf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
		"font-family=\"sans-serif\" font-size=\"12\">\n",
		width, height, width, height);
	kr_svg_rect(out, 0, 0, width, height, "fill:white", NULL);
}

void kr_svg_end(FILE *out)
{
	fputs("</svg>\n", out);
}

void kr_svg_rect(FILE *out, double x, double y, double width, double height, const char *style, const char *title)
{
	fprintf(out, "<rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" style=\"%s\">", x, y, width, height,
		style);
	if (title) {
		fputs("<title>", out);
		put_text(out, title);
		fputs("</title>", out);
	}
	fputs("</rect>\n", out);
}

void kr_svg_line(FILE *out, double x0, double y0, double x1, double y1, const char *style)
{
	fprintf(out, "<line x1=\"%.2f\" y1=\"%.2f\" x2=\"%.2f\" y2=\"%.2f\" style=\"%s\"/>\n", x0, y0, x1, y1, style);
}

void kr_svg_text(FILE *out, double x, double y, const char *anchor, const char *bytes)
{
	fprintf(out, "<text x=\"%.2f\" y=\"%.2f\" text-anchor=\"%s\">", x, y, anchor);
	put_text(out, bytes);
	fputs("</text>\n", out);
}

double kr_svg_tick(double span, int count)
{
	const double least = KR_MAX(span, 1e-300) / count, power = pow(10, floor(log10(least)));

	for (double step = 1; step <= 5; step = step == 2 ? 5 : 2 * step)
		if (step * power >= least)
			return step * power;
	return 10 * power;
}

/* --- pages ------------------------------------------------------------------------------------ */

void kr_page_begin(FILE *out, const char *title)
{
	fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>", out);
	put_text(out, title);
	fputs("</title>\n<style>body { font-family: sans-serif; margin: 1.5em; background: white; color: black }\n"
	      "svg { max-width: 100%; height: auto; display: block }\npre { overflow-x: auto }"
	      "</style></head><body>\n<h1>",
		out);
	put_text(out, title);
	fputs("</h1>\n", out);
}

void kr_page_text(FILE *out, const char *element, const char *bytes)
{
	KR_AUTO_FREE char *text = kr_text_utf8(bytes);

	fprintf(out, "<%s>", element);
	put_escaped(out, text);
	fprintf(out, "</%s>\n", element);
}

void kr_page_end(FILE *out)
{
	fputs("</body></html>\n", out);
}

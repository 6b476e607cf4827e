/* Drawings in SVG, alone or inside an HTML page.  PURE: what the functions write goes to a stream, whose errors are the
 * caller's.
 *
 * Texts may be any bytes: each is escaped on its way into a drawing or a page.  STYLE is CSS of our own,
 * never a text from elsewhere. */
#ifndef KR_TOOLS_SVG_H
#define KR_TOOLS_SVG_H

#include <stdio.h>

void kr_svg_begin(FILE *out, double width, double height);
void kr_svg_end(FILE *out);
/* TITLE is shown where the mouse is; NULL: none. */
void kr_svg_rect(FILE *out, double x, double y, double width, double height, const char *style, const char *title);
void kr_svg_line(FILE *out, double x0, double y0, double x1, double y1, const char *style);
/* Around or beside X, by ANCHOR "start", "middle" or "end". */
void kr_svg_text(FILE *out, double x, double y, const char *anchor, const char *bytes);
/* The distance of marks on an axis, 1, 2 or 5 times a power of ten, so that SPAN has at most COUNT. */
double kr_svg_tick(double span, int count);

/* The beginning of a page, with TITLE as its heading; after it come elements of HTML and drawings. */
void kr_page_begin(FILE *out, const char *title);
/* <ELEMENT>BYTES</ELEMENT>; BYTES may have several lines. */
void kr_page_text(FILE *out, const char *element, const char *bytes);
void kr_page_end(FILE *out);

#endif

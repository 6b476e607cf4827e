/* Envelopes, which are JSON as in envelope.c: reading and showing them.  PURE but for files. */
#ifndef KR_TOOLS_BENCH_ENVELOPE_VIEW_H
#define KR_TOOLS_BENCH_ENVELOPE_VIEW_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

enum { KR_ENVELOPE_FORMAT = 1 };

/* The envelope in the file PATH; owned.  NULL with a reason. */
json_t *kr_envelope_load(const char *path);
/* A point with the median of RATES (COUNT > 0, sorted here), its lowest and highest, of so many NODES with so many
 * PROCESSES on each; SIZE 0: no bytes move.  Owned. */
json_t *kr_envelope_point(
	const char *what, json_int_t nodes, json_int_t processes, json_int_t size, double *rates, size_t count);
/* On how many nodes it was measured. */
json_int_t kr_envelope_nodes(const json_t *point);
/* Prints a table of all points: operations per second, and MiB/s where bytes move. */
void kr_envelope_print(const json_t *envelope, FILE *out);
/* Prints the points that both have, and their quotient B/A.  A quotient is marked where the ranges of the two do not
 * overlap.  Returns the number of points. */
size_t kr_envelope_compare(const json_t *a, const json_t *b, FILE *out);

#endif

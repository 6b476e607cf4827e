/* The parts of `kairan gantt`: read events of phase traces (mpiio/twophase/trace_format.h) into memory, draw them, sum
 * them up. */
#ifndef KR_TOOLS_GANTT_H
#define KR_TOOLS_GANTT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "mpiio/twophase/trace_format.h"

struct kr_gantt {
	struct kr_trace_event *events; /* by file, open, call, node, rank, phase, start */
	size_t count, capacity;
	char **names; /* owned strings of the events */
	size_t name_count, name_capacity;
};

void kr_gantt_init(struct kr_gantt *gantt);
void kr_gantt_fini(struct kr_gantt *gantt);
/* Adds the events of the trace PATH ("-": standard input), of FILE (NULL: all) and CALL (UINT64_MAX: all).  0, or
 * -errno with a sentence in kr_fail_reason that names path and line. */
int kr_gantt_read(struct kr_gantt *gantt, const char *path, const char *file, uint64_t call);
/* Sorts the events into their order. */
void kr_gantt_sort(struct kr_gantt *gantt);

/* Writes the chart as SVG.  There is at least one event.  0 or -ENOMEM; the caller checks the stream for errors. */
int kr_gantt_draw(const struct kr_gantt *gantt, FILE *out);
/* Writes a line per call. */
void kr_gantt_summary(const struct kr_gantt *gantt, FILE *out);

#endif

/* See trace.h. */
#include "mpiio/twophase/trace.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "mpiio/twophase/mpi_library.h"

struct kr_trace {
	char *path, *file;
	uint32_t rank, node;
	uint64_t open;
	int64_t ahead_ns; /* of this rank's clock, compared with rank 0's */
	struct kr_trace_event *events;
	size_t count, capacity;
	uint64_t dropped;
};

enum { CLOCK_ROUNDS = 8 };

/* As NTP does it: of several exchanges with rank 0 the fastest tells the clocks' distance best. */
static int64_t clock_ahead(MPI_Comm comm)
{
	uint64_t best = UINT64_MAX;
	int64_t ahead = 0;

	for (int i = 0; i < CLOCK_ROUNDS; i++) {
		uint64_t before = kr_clock_ns(), theirs = 0, after;

		PMPI_Send(&before, 1, MPI_UINT64_T, 0, KR_TAG_CLOCK, comm);
		PMPI_Recv(&theirs, 1, MPI_UINT64_T, 0, KR_TAG_CLOCK, comm, MPI_STATUS_IGNORE);
		after = kr_clock_ns();
		if (after - before < best) {
			best = after - before;
			ahead = (int64_t)(before + best / 2) - (int64_t)theirs;
		}
	}
	return ahead;
}

static void serve_clock(MPI_Comm comm, int ranks)
{
	for (int rank = 1; rank < ranks; rank++)
		for (int i = 0; i < CLOCK_ROUNDS; i++) {
			uint64_t theirs, mine;

			PMPI_Recv(&theirs, 1, MPI_UINT64_T, rank, KR_TAG_CLOCK, comm, MPI_STATUS_IGNORE);
			mine = kr_clock_ns();
			PMPI_Send(&mine, 1, MPI_UINT64_T, rank, KR_TAG_CLOCK, comm);
		}
}

struct kr_trace *kr_trace_new(MPI_Comm comm, const char *prefix, const char *file, uint32_t node)
{
	static uint64_t opens;
	struct kr_trace *trace = calloc(1, sizeof(*trace));
	int64_t ahead = 0;
	uint64_t open = __atomic_fetch_add(&opens, 1, __ATOMIC_RELAXED);
	int rank, ranks;

	PMPI_Comm_rank(comm, &rank);
	PMPI_Comm_size(comm, &ranks);
	if (rank == 0)
		serve_clock(comm, ranks);
	else
		ahead = clock_ahead(comm);
	PMPI_Bcast(&open, 1, MPI_UINT64_T, 0, comm);
	if (!trace)
		return NULL;
	trace->rank = (uint32_t)rank;
	trace->node = node;
	trace->open = open;
	trace->ahead_ns = ahead;
	if (asprintf(&trace->path, "%s.%d.jsonl", prefix, rank) < 0)
		trace->path = NULL;
	trace->file = strdup(file);
	return trace;
}

void kr_trace_add(struct kr_trace *trace, const struct kr_trace_event *event)
{
	if (!trace)
		return;
	if (trace->count == trace->capacity) {
		size_t capacity = trace->capacity ? trace->capacity * 2 : 1024;
		struct kr_trace_event *events =
			capacity <= KR_TRACE_EVENTS_MAX ? realloc(trace->events, capacity * sizeof(*events)) : NULL;

		if (!events) {
			trace->dropped++;
			return;
		}
		trace->events = events;
		trace->capacity = capacity;
	}
	trace->events[trace->count++] = *event;
}

static int write_event(FILE *out, const struct kr_trace *trace, struct kr_trace_event event)
{
	char line[8192];
	size_t length;

	event.file = trace->file;
	event.open = trace->open;
	event.rank = trace->rank;
	event.node = trace->node;
	event.start_ns -= (uint64_t)trace->ahead_ns;
	event.end_ns -= (uint64_t)trace->ahead_ns;
	length = kr_trace_format(&event, line, sizeof(line));
	if (length > sizeof(line))
		return 0; /* a file name of kilobytes */
	return fwrite(line, 1, length, out) == length ? 0 : -EIO;
}

/* Appends, so that one trace holds all files of a program that have the same prefix. */
static int write_events(const struct kr_trace *trace)
{
	FILE *out = trace->path && trace->file ? fopen(trace->path, "ae") : NULL;
	int err = 0;

	if (!out)
		return kr_fail_errno(-errno, "cannot write the trace");
	for (size_t i = 0; i < trace->count && !err; i++)
		err = write_event(out, trace, trace->events[i]);
	if (fclose(out) != 0 || err)
		err = kr_fail(-EIO, "%s: cannot write the trace", trace->path);
	if (trace->dropped)
		fprintf(stderr, "libkairan-mpiio: %s: %" PRIu64 " events did not fit\n", trace->path, trace->dropped);
	return err;
}

int kr_trace_free(struct kr_trace *trace)
{
	int err;

	if (!trace)
		return 0;
	err = write_events(trace);
	free(trace->events);
	free(trace->path);
	free(trace->file);
	free(trace);
	return err;
}

void kr_tally_print(const struct kr_tally *tally, MPI_Comm comm, const char *file)
{
	uint64_t own[] = {tally->bytes_written, tally->bytes_read, tally->extents}, sums[3] = {0};
	uint64_t own_ns[KR_TRACE_PHASES + 1], most_ns[KR_TRACE_PHASES + 1] = {0};
	int rank;

	memcpy(own_ns, tally->phase_ns, sizeof(tally->phase_ns));
	own_ns[KR_TRACE_PHASES] = tally->call_ns;
	PMPI_Comm_rank(comm, &rank);
	PMPI_Reduce(own, sums, 3, MPI_UINT64_T, MPI_SUM, 0, comm);
	PMPI_Reduce(own_ns, most_ns, KR_TRACE_PHASES + 1, MPI_UINT64_T, MPI_MAX, 0, comm);
	if (rank != 0)
		return;
	fprintf(stderr,
		"kairan-mpiio: %s: %" PRIu64 " collective writes, %" PRIu64 " reads (%" PRIu64
		" direct); %.1f MB written, %.1f MB read, "
		"%" PRIu64
		" extents; slowest rank: %.3f s in calls (lists %.3f, read %.3f, exchange %.3f, write %.3f)\n",
		file, tally->writes, tally->reads, tally->direct, (double)sums[0] / 1e6, (double)sums[1] / 1e6, sums[2],
		(double)most_ns[KR_TRACE_PHASES] / 1e9, (double)most_ns[KR_TRACE_LISTS] / 1e9,
		(double)most_ns[KR_TRACE_READ] / 1e9, (double)most_ns[KR_TRACE_EXCHANGE] / 1e9,
		(double)most_ns[KR_TRACE_WRITE] / 1e9);
}

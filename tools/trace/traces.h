/* The parts of `kairan trace show`: reads trace files of mounts (fuse/ops/io_trace_format.h) into memory, sums them up,
 * prints and exports them. */
#ifndef KR_TOOLS_TRACES_H
#define KR_TOOLS_TRACES_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "common/base/table.h"
#include "fuse/ops/io_trace_format.h"

/* Bytes of one file, or of many, in the order of the file's lines. */
enum kr_traced_figure {
	KR_TRACED_CREATES,
	KR_TRACED_OPENS,
	KR_TRACED_READS,
	KR_TRACED_READ_BYTES,
	KR_TRACED_READ_SEQUENTIAL,
	KR_TRACED_FROM_NODE,
	KR_TRACED_FROM_SERVER,
	KR_TRACED_WRITES,
	KR_TRACED_WRITTEN_BYTES,
	KR_TRACED_WRITTEN_SEQUENTIAL,
	KR_TRACED_COPIED_FROM,
	KR_TRACED_COPIED_TO,
	KR_TRACED_FIGURES
};

struct kr_traced_sum;

struct kr_traced_process {
	struct kr_table_link link;
	char *node, *command, *cgroup; /* owned */
	json_int_t trace;              /* the number of the trace that has named it first, from 1 */
	json_int_t pid, start, uid;
	double first, last; /* seconds since 1970, as all below */
	uint64_t requests[KR_IO_TRACE_KINDS], took_us[KR_IO_TRACE_KINDS], waited_us[KR_WAITS];
	struct kr_traced_sum *sum; /* of the latest kr_traced_sums */
};

struct kr_traced_file {
	struct kr_table_link link;
	char *id, *path; /* owned; the path as it was known last */
	uint64_t end;
};

/* The sums of one process and one file. */
struct kr_traced_use {
	struct kr_table_link link;
	struct kr_traced_process *process;
	struct kr_traced_file *file;
	uint64_t figures[KR_TRACED_FIGURES], took_us;
	double first, last;
};

/* The busy times, in seconds, in the order of the file's lines. */
enum kr_traced_load_figure {
	KR_LOAD_SERVER_CPU,
	KR_LOAD_SERVER_DISK,
	KR_LOAD_NODE_CPU,
	KR_LOAD_ROUND_TRIPS, /* of all requests, if each waited for the one before */
	KR_LOAD_FIGURES
};

struct kr_traced_load {
	char *node;                                                   /* owned */
	double first, last, figures[KR_LOAD_FIGURES], received, sent; /* bytes */
};

struct kr_traces {
	struct kr_traced_load **loads;
	size_t load_count;
	struct kr_traced_process **processes;
	struct kr_traced_file **files;
	struct kr_traced_use **uses;
	size_t trace_count, process_count, file_count, use_count;
	struct kr_table by_process, by_file, by_use;
};

void kr_traces_init(struct kr_traces *traces);
void kr_traces_fini(struct kr_traces *traces);
/* Adds the trace that IN holds; NAME is for messages.  0, or -EBADMSG with a reason: it is no trace, or of another
 * format.  *RET_CUT: it has no end. */
int kr_traces_read(struct kr_traces *traces, FILE *in, const char *name, bool *ret_cut);

/* The uses in the order of their files' identities, those of a file together; the array is owned. */
struct kr_traced_use **kr_traced_uses_by_file(const struct kr_traces *traces);
bool kr_traced_use_reads(const struct kr_traced_use *use);
bool kr_traced_use_writes(const struct kr_traced_use *use);
/* The time of all requests. */
uint64_t kr_traced_took_us(const struct kr_traced_process *process);
/* How long it waited for them, in seconds: no longer than from the first request to the last answer.  What the kernel
 * reads ahead waits at the same time. */
double kr_traced_waited_s(const struct kr_traced_process *process);
/* The name of a wait, as people read it. */
const char *kr_traced_wait_name(enum kr_wait wait);

struct kr_traced_sum {
	struct kr_table_link link;
	char *name; /* owned */
	size_t processes, files_read, files_written;
	uint64_t figures[KR_TRACED_FIGURES];
	uint64_t requests[KR_IO_TRACE_KINDS], took_us[KR_IO_TRACE_KINDS], waited_us[KR_WAITS], all_us;
	double first, last, between; /* between the first and the last request of each process, together */
	const struct kr_traced_file *last_read, *last_written; /* while files are counted */
};

struct kr_traced_sums {
	struct kr_traced_sum **sums; /* the longest time first */
	size_t count;
	struct kr_table by_name;
};

/* Whether processes can be put together by BY: "program", "process", "node", "job" (of Slurm, or the cgroup). */
bool kr_traces_knows_key(const char *by);
void kr_traced_sums_init(struct kr_traced_sums *sums, const struct kr_traces *traces, const char *by);
void kr_traced_sums_fini(struct kr_traced_sums *sums);
/* Prints a table, and the files that several nodes have read. */
void kr_traces_print(const struct kr_traces *traces, const char *by, FILE *out);
/* {BY: [sums], "shared_files": [...]}, owned. */
json_t *kr_traces_json(const struct kr_traces *traces, const char *by);
/* Events for Perfetto and chrome://tracing: a track for each process, with its files. */
void kr_traces_perfetto(const struct kr_traces *traces, FILE *out);
/* For Graphviz: programs, and the files that go between them; files that the same programs write and read are one. */
void kr_traces_dot(const struct kr_traces *traces, FILE *out);

/* A page of HTML that needs no other file: the table, and drawings. */
void kr_traces_page(const struct kr_traces *traces, const char *by, FILE *out);

#endif

/* Traces for other programs: Perfetto and Graphviz. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/base/units.h"
#include "tools/trace/traces.h"

/* --- Perfetto --------------------------------------------------------------------------------- */

static double begin_of(const struct kr_traces *traces)
{
	double begin = traces->process_count ? traces->processes[0]->first : 0;

	for (size_t i = 1; i < traces->process_count; i++)
		begin = KR_MIN(begin, traces->processes[i]->first);
	return begin;
}

/* Takes EVENT. */
static void put_event(json_t *event, bool *first, FILE *out)
{
	fputs(*first ? "\n" : ",\n", out);
	*first = false;
	json_dumpf(event, out, JSON_COMPACT | JSON_REAL_PRECISION(16));
	json_decref(event);
}

static json_t *name_event(const char *what, json_int_t node, json_int_t thread, const char *name)
{
	return json_pack("{ss ss sI sI s{so}}", "ph", "M", "name", what, "pid", node, "tid", thread, "args", "name",
		kr_text_json(name));
}

static void put_process(const struct kr_traced_process *process, double begin, bool *first, FILE *out)
{
	const json_int_t node = process->trace;
	json_t *waits = json_object();

	for (size_t i = 0; i < KR_WAITS; i++)
		json_object_set_new(waits, kr_traced_wait_name((enum kr_wait)i),
			json_sprintf("%.3f s", (double)process->waited_us[i] / 1e6));
	put_event(name_event("process_name", node, 0, process->node), first, out);
	put_event(name_event("thread_name", node, process->pid, process->command), first, out);
	put_event(json_pack("{ss ss so sI sI sf sf so}", "ph", "X", "cat", "process", "name",
			  kr_text_json(*process->command ? process->command : "?"), "pid", node, "tid", process->pid,
			  "ts", (process->first - begin) * 1e6, "dur", (process->last - process->first) * 1e6, "args",
			  waits),
		first, out);
}

/* Files that are open at the same time lie beside each other, so these are asynchronous events. */
static void put_use(const struct kr_traced_use *use, size_t number, double begin, bool *first, FILE *out)
{
	const json_int_t node = use->process->trace;
	json_t *args = json_pack("{sI sI sf}", "read bytes", (json_int_t)use->figures[KR_TRACED_READ_BYTES],
		"written bytes", (json_int_t)use->figures[KR_TRACED_WRITTEN_BYTES], "seconds in I/O",
		(double)use->took_us / 1e6);

	for (int end = 0; end < 2; end++) {
		json_t *event = json_pack("{ss ss so sI sI sI sf}", "ph", end ? "e" : "b", "cat", "file", "name",
			kr_text_json(*use->file->path ? use->file->path : "?"), "id", (json_int_t)number, "pid", node,
			"tid", use->process->pid, "ts", ((end ? use->last : use->first) - begin) * 1e6);

		if (!end)
			json_object_set(event, "args", args);
		put_event(event, first, out);
	}
	json_decref(args);
}

void kr_traces_perfetto(const struct kr_traces *traces, FILE *out)
{
	const double begin = begin_of(traces);
	bool first = true;

	fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[", out);
	for (size_t i = 0; i < traces->process_count; i++)
		put_process(traces->processes[i], begin, &first, out);
	for (size_t i = 0; i < traces->use_count; i++)
		put_use(traces->uses[i], i + 1, begin, &first, out);
	fputs("\n]}\n", out);
}

/* --- Graphviz --------------------------------------------------------------------------------- */

/* Files that the same programs write and read. */
struct bundle {
	struct kr_table_link link;
	char *programs; /* owned: the lines "<PROGRAM" of writers and ">PROGRAM" of readers, sorted, each once */
	const struct kr_traced_file *example;
	size_t files;
	uint64_t bytes;
};

struct bundles {
	struct bundle **all;
	size_t count;
	struct kr_table by_programs;
};

static int compare_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static char *edge(char direction, const struct kr_traced_process *process)
{
	char *text = NULL;

	if (asprintf(&text, "%c%s", direction, *process->command ? process->command : "?") < 0)
		abort();
	return text;
}

/* The programs of the COUNT uses of one file, as in struct bundle; owned. */
static char *programs_of(struct kr_traced_use **uses, size_t count)
{
	char **lines = kr_xcalloc(2 * count + 1, sizeof(char *)), *text = NULL;
	size_t lines_count = 0, length;
	FILE *out = open_memstream(&text, &length);

	for (size_t i = 0; i < count; i++) {
		if (kr_traced_use_writes(uses[i]))
			lines[lines_count++] = edge('<', uses[i]->process);
		if (kr_traced_use_reads(uses[i]))
			lines[lines_count++] = edge('>', uses[i]->process);
	}
	qsort(lines, lines_count, sizeof(char *), compare_text);
	for (size_t i = 0; out && i < lines_count; i++)
		if (i == 0 || strcmp(lines[i], lines[i - 1]) != 0)
			fprintf(out, "%s\n", lines[i]);
	if (!out || fclose(out) != 0)
		abort();
	for (size_t i = 0; i < lines_count; i++)
		free(lines[i]);
	free(lines);
	return text;
}

/* Takes PROGRAMS. */
static void add_file(struct bundles *bundles, char *programs, const struct kr_traced_file *file)
{
	uint64_t hash = kr_hash_bytes(programs, strlen(programs));
	struct bundle *bundle;

	KR_TABLE_FOR_EACH_OF(bundle, &bundles->by_programs, hash, link)
		if (strcmp(bundle->programs, programs) == 0)
			break;
	if (bundle) {
		free(programs);
	} else {
		bundle = kr_xcalloc(1, sizeof(*bundle));
		*bundle = (struct bundle){.programs = programs, .example = file};
		kr_table_insert(&bundles->by_programs, &bundle->link, hash);
		bundles->all[bundles->count++] = bundle;
	}
	bundle->files++;
	bundle->bytes += file->end;
}

static void bundle_files(struct bundles *bundles, const struct kr_traces *traces)
{
	struct kr_traced_use **uses = kr_traced_uses_by_file(traces);
	size_t end;

	for (size_t begin = 0; begin < traces->use_count; begin = end) {
		for (end = begin; end < traces->use_count && uses[end]->file == uses[begin]->file;)
			end++;
		add_file(bundles, programs_of(uses + begin, end - begin), uses[begin]->file);
	}
	free(uses);
}

/* In quotes, for Graphviz; at most so much of a long path. */
static void put_label(const char *bytes, FILE *out)
{
	KR_AUTO_FREE char *text = kr_text_utf8(bytes);

	for (const char *c = text; *c; c++) {
		if (*c == '"' || *c == '\\')
			fputc('\\', out);
		fputc((unsigned char)*c < ' ' ? ' ' : *c, out);
	}
}

static void put_bundle(const struct bundle *bundle, size_t number, FILE *out)
{
	char *programs = kr_xstrdup(bundle->programs), *rest = programs, *line;

	fprintf(out, "\tf%zu [shape=note, label=\"", number);
	put_label(*bundle->example->path ? bundle->example->path : "?", out);
	if (bundle->files > 1)
		fprintf(out, "\\nand %zu more", bundle->files - 1);
	fprintf(out, "\\n%s\"];\n", kr_bytes_text((json_int_t)bundle->bytes));
	while ((line = strsep(&rest, "\n")) != NULL) {
		if (!*line)
			continue;
		fputs("\t", out);
		if (*line == '>')
			fprintf(out, "f%zu -> ", number);
		fputs("\"", out);
		put_label(line + 1, out);
		fputs("\"", out);
		if (*line == '<')
			fprintf(out, " -> f%zu", number);
		fputs(";\n", out);
	}
	free(programs);
}

void kr_traces_dot(const struct kr_traces *traces, FILE *out)
{
	struct bundles bundles = {.all = kr_xcalloc(traces->use_count + 1, sizeof(struct bundle *))};

	kr_table_init(&bundles.by_programs);
	bundle_files(&bundles, traces);
	fputs("digraph kairan {\n\trankdir=LR;\n\tnode [shape=box, style=rounded, fontname=\"Helvetica\"];\n", out);
	for (size_t i = 0; i < bundles.count; i++) {
		put_bundle(bundles.all[i], i, out);
		free(bundles.all[i]->programs);
		free(bundles.all[i]);
	}
	fputs("}\n", out);
	free(bundles.all);
	kr_table_fini(&bundles.by_programs);
}

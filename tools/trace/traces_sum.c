/* Sums of traces, by program, process, node or job. */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/text.h"
#include "common/base/util.h"
#include "tools/base/units.h"
#include "tools/trace/traces.h"

enum { WAITS_SHOWN = 3, SHARED_SHOWN = 10 };

/* --- keys ------------------------------------------------------------------------------------- */

bool kr_traces_knows_key(const char *by)
{
	return strcmp(by, "program") == 0 || strcmp(by, "process") == 0 || strcmp(by, "node") == 0 ||
		strcmp(by, "job") == 0;
}

static const char *program_of(const struct kr_traced_process *process)
{
	if (*process->command)
		return process->command;
	return process->pid == 0 ? "(kernel)" : process->pid < 0 ? "(others)" : "(unknown)";
}

/* "77" or "77.0" where the cgroup is one of Slurm (".../job_77/step_0/..."); else the cgroup. */
static char *job_of(const char *cgroup)
{
	const char *job = strstr(cgroup, "/job_"), *step = job ? strstr(job, "/step_") : NULL;
	char *name = NULL;
	int result;

	if (!job)
		return kr_xstrdup(*cgroup ? cgroup : "(unknown)");
	job += strlen("/job_");
	if (step) {
		step += strlen("/step_");
		result = asprintf(&name, "%.*s.%.*s", (int)strcspn(job, "/"), job, (int)strcspn(step, "/"), step);
	} else {
		result = asprintf(&name, "%.*s", (int)strcspn(job, "/"), job);
	}
	if (result < 0)
		abort();
	return name;
}

static char *key_of(const struct kr_traced_process *process, const char *by)
{
	char *key = NULL;

	if (strcmp(by, "program") == 0)
		return kr_xstrdup(program_of(process));
	if (strcmp(by, "node") == 0)
		return kr_xstrdup(process->node);
	if (strcmp(by, "job") == 0)
		return job_of(process->cgroup);
	if (asprintf(&key, "%s %s:%" JSON_INTEGER_FORMAT, program_of(process), process->node, process->pid) < 0)
		abort();
	return key;
}

/* --- summing up ------------------------------------------------------------------------------- */

/* Takes NAME. */
static struct kr_traced_sum *find_sum(struct kr_traced_sums *sums, char *name, const struct kr_traced_process *process)
{
	uint64_t hash = kr_hash_bytes(name, strlen(name));
	struct kr_traced_sum *sum;

	KR_TABLE_FOR_EACH_OF(sum, &sums->by_name, hash, link) {
		if (strcmp(sum->name, name) == 0) {
			free(name);
			return sum;
		}
	}
	sum = kr_xcalloc(1, sizeof(*sum));
	sum->name = name;
	sum->first = process->first;
	sum->last = process->last;
	kr_table_insert(&sums->by_name, &sum->link, hash);
	sums->sums[sums->count++] = sum;
	return sum;
}

static void add_all(uint64_t *to, const uint64_t *from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		to[i] += from[i];
}

static void add_process(struct kr_traced_sum *sum, const struct kr_traced_process *process)
{
	sum->processes += process->pid > 0;
	sum->first = KR_MIN(sum->first, process->first);
	sum->last = KR_MAX(sum->last, process->last);
	sum->between += process->last - process->first;
	add_all(sum->requests, process->requests, KR_IO_TRACE_KINDS);
	add_all(sum->took_us, process->took_us, KR_IO_TRACE_KINDS);
	add_all(sum->waited_us, process->waited_us, KR_WAITS);
	sum->all_us += kr_traced_took_us(process);
}

static int by_time(const void *left, const void *right)
{
	const struct kr_traced_sum *a = *(struct kr_traced_sum *const *)left,
				   *b = *(struct kr_traced_sum *const *)right;

	return a->all_us != b->all_us ? (a->all_us < b->all_us ? 1 : -1) : strcmp(a->name, b->name);
}

static int by_file(const void *left, const void *right)
{
	const struct kr_traced_use *a = *(struct kr_traced_use *const *)left,
				   *b = *(struct kr_traced_use *const *)right;

	return strcmp(a->file->id, b->file->id);
}

struct kr_traced_use **kr_traced_uses_by_file(const struct kr_traces *traces)
{
	struct kr_traced_use **uses = kr_xcalloc(traces->use_count + 1, sizeof(struct kr_traced_use *));

	for (size_t i = 0; i < traces->use_count; i++)
		uses[i] = traces->uses[i];
	qsort(uses, traces->use_count, sizeof(struct kr_traced_use *), by_file);
	return uses;
}

static void add_use(struct kr_traced_sum *sum, const struct kr_traced_use *use)
{
	add_all(sum->figures, use->figures, KR_TRACED_FIGURES);
	if (kr_traced_use_reads(use) && sum->last_read != use->file) {
		sum->files_read++;
		sum->last_read = use->file;
	}
	if (kr_traced_use_writes(use) && sum->last_written != use->file) {
		sum->files_written++;
		sum->last_written = use->file;
	}
}

void kr_traced_sums_init(struct kr_traced_sums *sums, const struct kr_traces *traces, const char *by)
{
	struct kr_traced_use **uses = kr_traced_uses_by_file(traces);

	kr_table_init(&sums->by_name);
	sums->count = 0;
	sums->sums = kr_xcalloc(traces->process_count + 1, sizeof(struct kr_traced_sum *));
	for (size_t i = 0; i < traces->process_count; i++) {
		struct kr_traced_process *process = traces->processes[i];

		process->sum = find_sum(sums, key_of(process, by), process);
		add_process(process->sum, process);
	}
	for (size_t i = 0; i < traces->use_count; i++)
		add_use(uses[i]->process->sum, uses[i]);
	free(uses);
	qsort(sums->sums, sums->count, sizeof(struct kr_traced_sum *), by_time);
}

void kr_traced_sums_fini(struct kr_traced_sums *sums)
{
	for (size_t i = 0; i < sums->count; i++) {
		free(sums->sums[i]->name);
		free(sums->sums[i]);
	}
	free(sums->sums);
	kr_table_fini(&sums->by_name);
}

/* --- the table -------------------------------------------------------------------------------- */

/* PART of WHOLE in percent, rounded; "-" of nothing. */
static const char *percent(uint64_t part, uint64_t whole, char text[16])
{
	if (whole)
		snprintf(text, 16, "%.0f %%", 100.0 * (double)part / (double)whole);
	else
		strcpy(text, "-");
	return text;
}

/* Prints the shares of the time, the largest first: "flushes 61 %, requests 30 %". */
static void print_waits(const struct kr_traced_sum *sum, FILE *out)
{
	bool shown[KR_WAITS] = {0};
	char text[16];

	for (size_t n = 0; n < WAITS_SHOWN; n++) {
		size_t most = KR_WAITS;

		for (size_t i = 0; i < KR_WAITS; i++)
			if (!shown[i] && (most == KR_WAITS || sum->waited_us[i] > sum->waited_us[most]))
				most = i;
		if (sum->waited_us[most] * 100 < sum->all_us || !sum->all_us)
			break;
		shown[most] = true;
		fprintf(out, "%s%s %s", n ? ", " : "", kr_traced_wait_name((enum kr_wait)most),
			percent(sum->waited_us[most], sum->all_us, text));
	}
	fputc('\n', out);
}

static void print_sum(const struct kr_traced_sum *sum, FILE *out)
{
	const uint64_t *figures = sum->figures;
	const uint64_t moved = figures[KR_TRACED_READ_BYTES] + figures[KR_TRACED_WRITTEN_BYTES];
	const uint64_t in_order = figures[KR_TRACED_READ_SEQUENTIAL] + figures[KR_TRACED_WRITTEN_SEQUENTIAL];
	const uint64_t waited = figures[KR_TRACED_FROM_NODE] + figures[KR_TRACED_FROM_SERVER];
	KR_AUTO_FREE char *name = kr_text_shown(sum->name);
	char sequential[16], local[16];

	fprintf(out, "%-24s %6zu %6zu %6zu %10s ", name, sum->processes, sum->files_read, sum->files_written,
		kr_bytes_text((json_int_t)figures[KR_TRACED_READ_BYTES]));
	fprintf(out, "%10s %6s %6s %9.2f s  ", kr_bytes_text((json_int_t)figures[KR_TRACED_WRITTEN_BYTES]),
		percent(in_order, moved, sequential),
		percent(figures[KR_TRACED_READ_BYTES] - KR_MIN(waited, figures[KR_TRACED_READ_BYTES]),
			figures[KR_TRACED_READ_BYTES], local),
		(double)sum->all_us / 1e6);
	print_waits(sum, out);
}

/* --- files that several nodes have read ------------------------------------------------------- */

struct shared {
	const struct kr_traced_file *file;
	size_t nodes;
	uint64_t bytes;
};

/* How many nodes are among the readers of the COUNT uses of one file. */
static size_t nodes_of(struct kr_traced_use **uses, size_t count)
{
	size_t nodes = 0;

	for (size_t i = 0; i < count; i++) {
		bool known = !kr_traced_use_reads(uses[i]);

		for (size_t j = 0; j < i && !known; j++)
			known = kr_traced_use_reads(uses[j]) &&
				strcmp(uses[i]->process->node, uses[j]->process->node) == 0;
		nodes += !known;
	}
	return nodes;
}

static int by_bytes(const void *left, const void *right)
{
	const struct shared *a = left, *b = right;

	return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1) : strcmp(a->file->path, b->file->path);
}

/* Those that several nodes have read, the most bytes first; owned. */
static struct shared *find_shared(const struct kr_traces *traces, size_t *ret_count)
{
	struct kr_traced_use **uses = kr_traced_uses_by_file(traces);
	struct shared *all = kr_xcalloc(traces->file_count + 1, sizeof(*all));
	size_t count = 0, end;

	for (size_t begin = 0; begin < traces->use_count; begin = end) {
		struct shared shared = {.file = uses[begin]->file};

		for (end = begin; end < traces->use_count && uses[end]->file == shared.file; end++)
			shared.bytes += uses[end]->figures[KR_TRACED_READ_BYTES];
		shared.nodes = *shared.file->id ? nodes_of(uses + begin, KR_MIN(end - begin, (size_t)1000)) : 0;
		if (shared.nodes > 1)
			all[count++] = shared;
	}
	free(uses);
	qsort(all, count, sizeof(*all), by_bytes);
	*ret_count = count;
	return all;
}

void kr_traces_print(const struct kr_traces *traces, const char *by, FILE *out)
{
	KR_AUTO_FREE struct shared *shared = NULL;
	struct kr_traced_sums sums;
	size_t count;

	kr_traced_sums_init(&sums, traces, by);
	fprintf(out, "%-24s %6s %6s %6s %10s %10s %6s %6s %11s  %s\n", by, "procs", "files", "files", "bytes", "bytes",
		"in", "local", "time", "which went to");
	fprintf(out, "%-24s %6s %6s %6s %10s %10s %6s %6s %11s\n", "", "", "read", "writ.", "read", "written", "order",
		"reads", "in I/O");
	for (size_t i = 0; i < sums.count; i++)
		print_sum(sums.sums[i], out);
	kr_traced_sums_fini(&sums);
	shared = find_shared(traces, &count);
	if (count)
		fprintf(out, "\nread by several nodes: %zu file%s\n", count, KR_S(count));
	for (size_t i = 0; i < KR_MIN(count, (size_t)SHARED_SHOWN); i++) {
		KR_AUTO_FREE char *path = kr_text_shown(shared[i].file->path);

		fprintf(out, "  %s: %zu nodes, %s\n", path, shared[i].nodes,
			kr_bytes_text((json_int_t)shared[i].bytes));
	}
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void set(json_t *object, const char *name, uint64_t value)
{
	json_object_set_new(object, name, json_integer((json_int_t)value));
}

static json_t *named(const uint64_t *values, const char *const *names, size_t count)
{
	json_t *object = json_object();

	for (size_t i = 0; i < count; i++)
		set(object, names[i], values[i]);
	return object;
}

static json_t *sum_json(const struct kr_traced_sum *sum)
{
	static const char *const kinds[KR_IO_TRACE_KINDS] = {"names", "open", "read", "write", "sync", "lock"};
	static const char *const waits[KR_WAITS] = KR_WAIT_NAMES;
	static const char *const figures[KR_TRACED_FIGURES] = {"creates", "opens", "reads", "read_bytes",
		"read_sequential_bytes", "from_node_bytes", "from_server_bytes", "writes", "written_bytes",
		"written_sequential_bytes", "copied_from_bytes", "copied_to_bytes"};
	json_t *object = named(sum->figures, figures, KR_TRACED_FIGURES);

	json_object_set_new(object, "name", kr_text_json(sum->name));
	json_object_set_new(object, "first", json_real(sum->first));
	json_object_set_new(object, "last", json_real(sum->last));
	set(object, "processes", sum->processes);
	set(object, "files_read", sum->files_read);
	set(object, "files_written", sum->files_written);
	set(object, "us", sum->all_us);
	json_object_set_new(object, "requests", named(sum->requests, kinds, KR_IO_TRACE_KINDS));
	json_object_set_new(object, "kinds_us", named(sum->took_us, kinds, KR_IO_TRACE_KINDS));
	json_object_set_new(object, "waits_us", named(sum->waited_us, waits, KR_WAITS));
	return object;
}

json_t *kr_traces_json(const struct kr_traces *traces, const char *by)
{
	KR_AUTO_FREE struct shared *shared = NULL;
	json_t *array = json_array(), *files = json_array();
	struct kr_traced_sums sums;
	size_t count;

	kr_traced_sums_init(&sums, traces, by);
	for (size_t i = 0; i < sums.count; i++)
		json_array_append_new(array, sum_json(sums.sums[i]));
	kr_traced_sums_fini(&sums);
	shared = find_shared(traces, &count);
	for (size_t i = 0; i < count; i++)
		json_array_append_new(files,
			json_pack("{so sI sI}", "path", kr_text_json(shared[i].file->path), "nodes",
				(json_int_t)shared[i].nodes, "read_bytes", (json_int_t)shared[i].bytes));
	return json_pack("{so so}", by, array, "shared_files", files);
}

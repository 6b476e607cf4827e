/* Reading traces: lines about the same process or file add up. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "tools/trace/traces.h"

/* Where the elements of lines are. */
enum { P_PID = 1, P_START, P_UID, P_COMMAND, P_CGROUP, P_FIRST, P_LAST, P_REQUESTS, P_TOOK, P_WAITED };
enum { S_FIRST = 1, S_LAST, S_SERVER_CPU, S_SERVER_DISK, S_NODE_CPU, S_REQUESTS, S_ROUND_TRIP, S_RECEIVED, S_SENT };
enum { F_ID = 1, F_PATH, F_FIGURES, F_END = F_FIGURES + KR_TRACED_FIGURES, F_FIRST, F_LAST, F_TOOK };

struct reading {
	struct kr_traces *traces;
	char *node; /* owned */
	double started;
	struct kr_traced_process *process; /* of the last P line */
	bool ended;
};

void kr_traces_init(struct kr_traces *traces)
{
	*traces = (struct kr_traces){0};
	kr_table_init(&traces->by_process);
	kr_table_init(&traces->by_file);
	kr_table_init(&traces->by_use);
}

void kr_traces_fini(struct kr_traces *traces)
{
	for (size_t i = 0; i < traces->process_count; i++) {
		free(traces->processes[i]->node);
		free(traces->processes[i]->command);
		free(traces->processes[i]->cgroup);
		free(traces->processes[i]);
	}
	for (size_t i = 0; i < traces->file_count; i++) {
		free(traces->files[i]->id);
		free(traces->files[i]->path);
		free(traces->files[i]);
	}
	for (size_t i = 0; i < traces->load_count; i++) {
		free(traces->loads[i]->node);
		free(traces->loads[i]);
	}
	for (size_t i = 0; i < traces->use_count; i++)
		free(traces->uses[i]);
	free(traces->loads);
	free(traces->processes);
	free(traces->files);
	free(traces->uses);
	kr_table_fini(&traces->by_process);
	kr_table_fini(&traces->by_file);
	kr_table_fini(&traces->by_use);
}

/* ARRAY with room for one more than COUNT. */
static void *with_room(void *array, size_t count)
{
	if (count && (count & (count - 1)))
		return array; /* there is room up to the next power of two */
	array = reallocarray(array, count ? count * 2 : 1, sizeof(void *));
	if (!array)
		abort();
	return array;
}

static uint64_t number(const json_t *line, size_t at)
{
	json_int_t value = json_integer_value(json_array_get(line, at));

	return value > 0 ? (uint64_t)value : 0;
}

static const char *text(const json_t *line, size_t at)
{
	const char *value = json_string_value(json_array_get(line, at));

	return value ? value : "";
}

static void replace(char **to, const char *by)
{
	if (!*by)
		return;
	free(*to);
	*to = kr_xstrdup(by);
}

static void add_numbers(uint64_t *to, const json_t *array, size_t count)
{
	for (size_t i = 0; i < count; i++)
		to[i] += number(array, i);
}

/* --- processes -------------------------------------------------------------------------------- */

static struct kr_traced_process *find_process(struct kr_traces *traces, const struct kr_traced_process *key)
{
	uint64_t hash = kr_hash_u64((uint64_t)key->pid) ^ kr_hash_bytes(key->node, strlen(key->node));
	struct kr_traced_process *process;

	KR_TABLE_FOR_EACH_OF(process, &traces->by_process, hash, link)
		if (process->pid == key->pid && (process->start == key->start || key->start == 0) &&
			strcmp(process->node, key->node) == 0)
			return process;
	process = kr_xcalloc(1, sizeof(*process));
	*process = (struct kr_traced_process){.trace = (json_int_t)traces->trace_count,
		.pid = key->pid,
		.start = key->start,
		.uid = key->uid,
		.node = kr_xstrdup(key->node),
		.command = kr_xstrdup(""),
		.cgroup = kr_xstrdup(""),
		.first = key->first,
		.last = key->last};
	kr_table_insert(&traces->by_process, &process->link, hash);
	traces->processes = with_room(traces->processes, traces->process_count);
	traces->processes[traces->process_count++] = process;
	return process;
}

static void add_process(struct reading *reading, const json_t *line)
{
	const struct kr_traced_process key = {.node = reading->node,
		.pid = json_integer_value(json_array_get(line, P_PID)),
		.start = (json_int_t)number(line, P_START),
		.uid = (json_int_t)number(line, P_UID),
		.first = reading->started + (double)number(line, P_FIRST) / 1e6,
		.last = reading->started + (double)number(line, P_LAST) / 1e6};
	struct kr_traced_process *process = find_process(reading->traces, &key);

	replace(&process->command, text(line, P_COMMAND));
	replace(&process->cgroup, text(line, P_CGROUP));
	process->first = KR_MIN(process->first, key.first);
	process->last = KR_MAX(process->last, key.last);
	add_numbers(process->requests, json_array_get(line, P_REQUESTS), KR_IO_TRACE_KINDS);
	add_numbers(process->took_us, json_array_get(line, P_TOOK), KR_IO_TRACE_KINDS);
	add_numbers(process->waited_us, json_array_get(line, P_WAITED), KR_WAITS);
	reading->process = process;
}

/* --- files ------------------------------------------------------------------------------------ */

static struct kr_traced_file *find_file(struct kr_traces *traces, const char *id)
{
	uint64_t hash = kr_hash_bytes(id, strlen(id));
	struct kr_traced_file *file;

	KR_TABLE_FOR_EACH_OF(file, &traces->by_file, hash, link)
		if (strcmp(file->id, id) == 0)
			return file;
	file = kr_xcalloc(1, sizeof(*file));
	file->id = kr_xstrdup(id);
	file->path = kr_xstrdup("");
	kr_table_insert(&traces->by_file, &file->link, hash);
	traces->files = with_room(traces->files, traces->file_count);
	traces->files[traces->file_count++] = file;
	return file;
}

static struct kr_traced_use *find_use(struct kr_traces *traces, const struct kr_traced_use *key)
{
	uint64_t hash = kr_hash_u64((uint64_t)(uintptr_t)key->process) ^ (uint64_t)(uintptr_t)key->file;
	struct kr_traced_use *use;

	KR_TABLE_FOR_EACH_OF(use, &traces->by_use, hash, link)
		if (use->process == key->process && use->file == key->file)
			return use;
	use = kr_xcalloc(1, sizeof(*use));
	*use = *key;
	use->link = (struct kr_table_link){0};
	kr_table_insert(&traces->by_use, &use->link, hash);
	traces->uses = with_room(traces->uses, traces->use_count);
	traces->uses[traces->use_count++] = use;
	return use;
}

static void add_file(struct reading *reading, const json_t *line)
{
	const struct kr_traced_use key = {.process = reading->process,
		.file = find_file(reading->traces, text(line, F_ID)),
		.first = reading->started + (double)number(line, F_FIRST) / 1e6,
		.last = reading->started + (double)number(line, F_LAST) / 1e6};
	struct kr_traced_use *use = find_use(reading->traces, &key);

	replace(&key.file->path, text(line, F_PATH));
	key.file->end = KR_MAX(key.file->end, number(line, F_END));
	for (size_t i = 0; i < KR_TRACED_FIGURES; i++)
		use->figures[i] += number(line, F_FIGURES + i);
	use->took_us += number(line, F_TOOK);
	use->first = KR_MIN(use->first, key.first);
	use->last = KR_MAX(use->last, key.last);
}

/* --- what was busy ---------------------------------------------------------------------------- */

static double seconds(const json_t *line, size_t at)
{
	return (double)number(line, at) / 1e6;
}

static void add_load(const struct reading *reading, const json_t *line)
{
	struct kr_traces *traces = reading->traces;
	struct kr_traced_load *load = kr_xcalloc(1, sizeof(*load));

	*load = (struct kr_traced_load){.node = kr_xstrdup(reading->node),
		.first = reading->started + seconds(line, S_FIRST),
		.last = reading->started + seconds(line, S_LAST),
		.figures = {[KR_LOAD_SERVER_CPU] = seconds(line, S_SERVER_CPU),
			[KR_LOAD_SERVER_DISK] = seconds(line, S_SERVER_DISK),
			[KR_LOAD_NODE_CPU] = seconds(line, S_NODE_CPU),
			[KR_LOAD_ROUND_TRIPS] = (double)number(line, S_REQUESTS) * seconds(line, S_ROUND_TRIP)},
		.received = (double)number(line, S_RECEIVED),
		.sent = (double)number(line, S_SENT)};
	traces->loads = with_room(traces->loads, traces->load_count);
	traces->loads[traces->load_count++] = load;
}

/* --- lines ------------------------------------------------------------------------------------ */

static void add_line(struct reading *reading, const json_t *line)
{
	const char *kind = text(line, 0);

	if (strcmp(kind, "P") == 0)
		add_process(reading, line);
	else if (strcmp(kind, "F") == 0 && reading->process)
		add_file(reading, line);
	else if (strcmp(kind, "S") == 0)
		add_load(reading, line);
	else if (strcmp(kind, "E") == 0)
		reading->ended = true;
}

static int read_head(struct reading *reading, const char *line, const char *name)
{
	json_t *head = json_loads(line, 0, NULL);
	json_int_t format = json_integer_value(json_object_get(head, "kairan trace"));
	const char *node = json_string_value(json_object_get(head, "node"));

	reading->node = kr_xstrdup(node ? node : "?");
	reading->started = json_real_value(json_object_get(head, "started"));
	json_decref(head);
	if (format == KR_IO_TRACE_FORMAT)
		return 0;
	return format ? kr_fail(-EBADMSG, "%s is a trace of format %" JSON_INTEGER_FORMAT ", and this command knows %d",
				name, format, KR_IO_TRACE_FORMAT) :
			kr_fail(-EBADMSG, "%s is not a trace of kairan", name);
}

int kr_traces_read(struct kr_traces *traces, FILE *in, const char *name, bool *ret_cut)
{
	struct reading reading = {.traces = traces};
	KR_AUTO_FREE char *line = NULL;
	size_t capacity = 0;
	int err = -EBADMSG;

	if (getline(&line, &capacity, in) > 0)
		err = read_head(&reading, line, name);
	else
		kr_fail(err, "%s is not a trace of kairan", name);
	traces->trace_count++;
	while (err == 0 && getline(&line, &capacity, in) > 0) {
		json_t *array = json_loads(line, 0, NULL);

		add_line(&reading, array);
		json_decref(array);
	}
	*ret_cut = !reading.ended;
	free(reading.node);
	return err;
}

/* --- what they say ---------------------------------------------------------------------------- */

bool kr_traced_use_writes(const struct kr_traced_use *use)
{
	const uint64_t *figures = use->figures;

	return figures[KR_TRACED_CREATES] || figures[KR_TRACED_WRITES] || figures[KR_TRACED_COPIED_TO];
}

/* A file that is opened and not written was read, from the kernel's pages. */
bool kr_traced_use_reads(const struct kr_traced_use *use)
{
	const uint64_t *figures = use->figures;

	return figures[KR_TRACED_READS] || figures[KR_TRACED_COPIED_FROM] ||
		(figures[KR_TRACED_OPENS] && !kr_traced_use_writes(use));
}

uint64_t kr_traced_took_us(const struct kr_traced_process *process)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < KR_IO_TRACE_KINDS; i++)
		sum += process->took_us[i];
	return sum;
}

double kr_traced_waited_s(const struct kr_traced_process *process)
{
	return KR_MIN((double)kr_traced_took_us(process) / 1e6, process->last - process->first);
}

const char *kr_traced_wait_name(enum kr_wait wait)
{
	static const char *const names[KR_WAITS] = {[KR_WAIT_HERE] = "this machine",
		[KR_WAIT_REQUEST] = "requests",
		[KR_WAIT_LEASE] = "leases",
		[KR_WAIT_SERVER] = "the server's blocks",
		[KR_WAIT_NODE] = "other nodes' blocks",
		[KR_WAIT_FLUSH] = "flushes",
		[KR_WAIT_SPACE] = "room in the journal"};

	return names[wait];
}

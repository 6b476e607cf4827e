/* Reads phase traces: JSON lines as mpiio/twophase/trace_format.h defines them. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "tools/gantt/gantt.h"

void kr_gantt_init(struct kr_gantt *gantt)
{
	*gantt = (struct kr_gantt){0};
}

void kr_gantt_fini(struct kr_gantt *gantt)
{
	for (size_t i = 0; i < gantt->name_count; i++)
		free(gantt->names[i]);
	free(gantt->names);
	free(gantt->events);
	kr_gantt_init(gantt);
}

/* A copy of NAME that lives as long as GANTT; traces have few different names.  NULL: out of memory. */
static const char *keep_name(struct kr_gantt *gantt, const char *name)
{
	for (size_t i = gantt->name_count; i-- > 0;)
		if (strcmp(gantt->names[i], name) == 0)
			return gantt->names[i];
	if (gantt->name_count == gantt->name_capacity) {
		size_t capacity = gantt->name_capacity ? 2 * gantt->name_capacity : 8;
		char **names = reallocarray(gantt->names, capacity, sizeof(char *));
		if (!names)
			return NULL;
		gantt->names = names;
		gantt->name_capacity = capacity;
	}
	char *copy = strdup(name);
	if (copy)
		gantt->names[gantt->name_count++] = copy;
	return copy;
}

static int add_event(struct kr_gantt *gantt, const struct kr_trace_event *event)
{
	if (gantt->count == gantt->capacity) {
		size_t capacity = gantt->capacity ? 2 * gantt->capacity : 1024;
		struct kr_trace_event *events = reallocarray(gantt->events, capacity, sizeof(*events));
		if (!events)
			return -ENOMEM;
		gantt->events = events;
		gantt->capacity = capacity;
	}
	gantt->events[gantt->count++] = *event;
	return 0;
}

/* A line, for messages. */
struct location {
	const char *path;
	unsigned long line;
};

static int get_number(
	const json_t *object, const char *name, uint64_t max, const struct location *location, uint64_t *ret_number)
{
	const json_t *value = json_object_get(object, name);
	if (!json_is_integer(value) || json_integer_value(value) < 0 || (uint64_t)json_integer_value(value) > max)
		return kr_fail(-EBADMSG, "%s:%lu: \"%s\" %s", location->path, location->line, name,
			value ? "is not a number from 0 on, or too large" : "is missing");
	*ret_number = (uint64_t)json_integer_value(value);
	return 0;
}

static int get_text(const json_t *object, const char *name, const struct location *location, const char **ret_text)
{
	const json_t *value = json_object_get(object, name);
	if (!json_is_string(value))
		return kr_fail(-EBADMSG, "%s:%lu: \"%s\" is %s", location->path, location->line, name,
			value ? "not a string" : "missing");
	*ret_text = json_string_value(value);
	return 0;
}

static int get_phase(const json_t *object, const struct location *location, enum kr_trace_phase *ret_phase)
{
	const char *text;
	int error = get_text(object, "phase", location, &text);
	if (error < 0)
		return error;
	for (enum kr_trace_phase phase = 0; phase < KR_TRACE_PHASES; phase++)
		if (strcmp(text, kr_trace_phase_name(phase)) == 0) {
			*ret_phase = phase;
			return 0;
		}
	return kr_fail(-EBADMSG, "%s:%lu: unknown phase \"%s\"", location->path, location->line, text);
}

/* The texts of the event borrow from OBJECT. */
static int decode(const json_t *object, const struct location *location, struct kr_trace_event *event)
{
	uint64_t rank = 0, node = 0, slot = 0;
	int error;
	if (!json_is_object(object))
		return kr_fail(-EBADMSG, "%s:%lu: not an object", location->path, location->line);
	if ((error = get_text(object, "file", location, &event->file)) < 0 ||
		(error = get_text(object, "op", location, &event->op)) < 0 ||
		(error = get_phase(object, location, &event->phase)) < 0 ||
		(error = get_number(object, "open", UINT64_MAX, location, &event->open)) < 0 ||
		(error = get_number(object, "call", UINT64_MAX, location, &event->call)) < 0 ||
		(error = get_number(object, "rank", UINT32_MAX, location, &rank)) < 0 ||
		(error = get_number(object, "node", UINT32_MAX, location, &node)) < 0 ||
		(error = get_number(object, "round", UINT64_MAX, location, &event->round)) < 0 ||
		(error = get_number(object, "slot", UINT32_MAX, location, &slot)) < 0 ||
		(error = get_number(object, "start", UINT64_MAX, location, &event->start_ns)) < 0 ||
		(error = get_number(object, "end", UINT64_MAX, location, &event->end_ns)) < 0 ||
		(error = get_number(object, "bytes", UINT64_MAX, location, &event->bytes)) < 0)
		return error;
	if (strcmp(event->op, "write") != 0 && strcmp(event->op, "read") != 0)
		return kr_fail(
			-EBADMSG, "%s:%lu: \"op\" is neither \"write\" nor \"read\"", location->path, location->line);
	if (event->start_ns > event->end_ns)
		return kr_fail(-EBADMSG, "%s:%lu: \"end\" is before \"start\"", location->path, location->line);
	event->rank = (uint32_t)rank;
	event->node = (uint32_t)node;
	event->slot = (uint32_t)slot;
	return 0;
}

static int read_line(struct kr_gantt *gantt, const char *text, size_t length, const struct location *location,
	const char *file, uint64_t call)
{
	struct kr_trace_event event = {0};
	json_error_t why;
	json_t *object = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
	if (!object)
		return kr_fail(-EBADMSG, "%s:%lu: not JSON: %s", location->path, location->line, why.text);
	int error = decode(object, location, &event);
	if (error == 0 && (!file || strcmp(file, event.file) == 0) && (call == UINT64_MAX || call == event.call)) {
		event.file = keep_name(gantt, event.file);
		event.op = strcmp(event.op, "write") == 0 ? "write" : "read";
		error = event.file ? add_event(gantt, &event) : -ENOMEM;
		if (error < 0)
			kr_fail(error, "%s:%lu: no memory", location->path, location->line);
	}
	json_decref(object);
	return error;
}

int kr_gantt_read(struct kr_gantt *gantt, const char *path, const char *file, uint64_t call)
{
	struct location location = {.path = path};
	char *text = NULL;
	size_t capacity = 0;
	ssize_t length;
	int error = 0;
	FILE *in = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
	if (!in)
		return kr_fail(-errno, "%s: cannot open the trace: %s", path, strerror(errno));
	/* A last line without a newline is incomplete: the program ended while it wrote the line. */
	while (error == 0 && (length = getline(&text, &capacity, in)) > 0 && text[length - 1] == '\n') {
		location.line++;
		if (length > 1)
			error = read_line(gantt, text, (size_t)length, &location, file, call);
	}
	if (error == 0 && ferror(in))
		error = kr_fail(-EIO, "%s: cannot read the trace: %s", path, strerror(errno));
	free(text);
	if (in != stdin)
		fclose(in);
	return error;
}

#define COMPARE(a, b) \
	if ((a) != (b)) \
	return (a) < (b) ? -1 : 1

static int compare(const void *a, const void *b)
{
	const struct kr_trace_event *x = a, *y = b;
	int order = strcmp(x->file, y->file);
	if (order != 0)
		return order;
	COMPARE(x->open, y->open);
	COMPARE(x->call, y->call);
	COMPARE(x->node, y->node);
	COMPARE(x->rank, y->rank);
	COMPARE(x->phase, y->phase);
	COMPARE(x->start_ns, y->start_ns);
	COMPARE(x->end_ns, y->end_ns);
	return 0;
}

void kr_gantt_sort(struct kr_gantt *gantt)
{
	if (gantt->count > 0)
		qsort(gantt->events, gantt->count, sizeof(*gantt->events), compare);
}

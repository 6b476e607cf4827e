/* A binary heap. */
#include "test/growth/events.h"

#include <stdbool.h>
#include <stdlib.h>

#include "common/base/util.h"

static bool before(const struct kr_event *a, const struct kr_event *b)
{
	return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void make_room(struct kr_events *events)
{
	if (events->count < events->capacity)
		return;
	events->capacity = events->capacity ? events->capacity * 2 : 1024;
	events->heap = reallocarray(events->heap, events->capacity, sizeof(events->heap[0]));
	if (!events->heap)
		abort();
}

void kr_events_at(struct kr_events *events, uint64_t at_ns, kr_event_fn fn, void *context, uint64_t value)
{
	const struct kr_event event = {KR_MAX(at_ns, events->now_ns), events->made++, fn, context, value};
	size_t at;

	make_room(events);
	for (at = events->count++; at > 0 && before(&event, &events->heap[(at - 1) / 2]); at = (at - 1) / 2)
		events->heap[at] = events->heap[(at - 1) / 2];
	events->heap[at] = event;
}

static struct kr_event take_first(struct kr_events *events)
{
	const struct kr_event first = events->heap[0], last = events->heap[--events->count];
	size_t at = 0, child;

	while ((child = 2 * at + 1) < events->count) {
		if (child + 1 < events->count && before(&events->heap[child + 1], &events->heap[child]))
			child++;
		if (!before(&events->heap[child], &last))
			break;
		events->heap[at] = events->heap[child];
		at = child;
	}
	events->heap[at] = last;
	return first;
}

void kr_events_run(struct kr_events *events)
{
	while (events->count > 0) {
		const struct kr_event event = take_first(events);

		events->now_ns = event.at_ns;
		event.fn(event.context, event.value);
	}
}

void kr_events_fini(struct kr_events *events)
{
	free(events->heap);
	*events = (struct kr_events){0};
}

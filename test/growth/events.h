/* Simulated time.  Events run in the order of their times; events of one moment run in the order in which they were
 * made.  Single-threaded. */
#ifndef KR_TEST_GROWTH_EVENTS_H
#define KR_TEST_GROWTH_EVENTS_H

#include <stddef.h>
#include <stdint.h>

typedef void (*kr_event_fn)(void *context, uint64_t value);

struct kr_event {
	uint64_t at_ns, order;
	kr_event_fn fn;
	void *context;
	uint64_t value;
};

/* All zero is an empty queue at time 0. */
struct kr_events {
	struct kr_event *heap;
	size_t count, capacity;
	uint64_t now_ns, made;
};

/* FN gets CONTEXT and VALUE at AT_NS, or now if that is past. */
void kr_events_at(struct kr_events *events, uint64_t at_ns, kr_event_fn fn, void *context, uint64_t value);
/* Runs all events, and those that they make. */
void kr_events_run(struct kr_events *events);
void kr_events_fini(struct kr_events *events);

#endif

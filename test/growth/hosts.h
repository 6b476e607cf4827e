/* The machines of a simulated cluster, and what it takes to send from one to another.
 *
 * A host has four resources, each of which does one thing after the other at a rate: both directions of its link, its
 * disk, and the processor that runs its event loop.  Switches carry whatever the links bring.
 * File data of one host leaves in the order in which it was sent.  A short message (kr_send_message) shares the link
 * with the data, but waits for no more than a block of it, as packets of different connections mix on a real link.
 */
#ifndef KR_TEST_GROWTH_HOSTS_H
#define KR_TEST_GROWTH_HOSTS_H

#include <stdbool.h>

#include "test/growth/events.h"

enum { KR_MESSAGE_BYTES = 200 }; /* a request or reply without data, with the headers of TCP and IP */

struct kr_resource {
	double ns_per_unit; /* 0: takes no time */
	uint64_t free_ns;   /* when it has done all that it was given */
	uint64_t units;     /* that it was given */
};

struct kr_host {
	struct kr_resource out, in, disk; /* units: bytes */
	struct kr_resource loop;          /* units: ns */
	uint64_t messages;                /* sent and received, without file data */
};

/* What the user of the simulator sets; rates in MB (1e6 bytes) per second, 0: without limit. */
struct kr_model {
	double link, server_link, disk, server_disk;
	double latency_us;
	double message_us;     /* of a host's processor for each message without data that it sends or receives */
	double data_us_per_mb; /* ... and for data, with its messages */
};

struct kr_world {
	struct kr_events events;
	struct kr_model model;
	struct kr_delivery *unused; /* deliveries that have arrived */
};

void kr_world_fini(struct kr_world *world);
void kr_host_init(struct kr_host *host, const struct kr_model *model, bool server);
/* When RESOURCE has done UNITS that it gets at FROM_NS, after all that it got before. */
uint64_t kr_resource_take(struct kr_resource *resource, uint64_t from_ns, uint64_t units);
/* Sends BYTES of file data; FN gets CONTEXT and VALUE when the event loop of TO has taken them. */
void kr_send_data(struct kr_world *world, struct kr_host *from, struct kr_host *to, uint64_t bytes, kr_event_fn fn,
	void *context, uint64_t value);
/* Sends a message without file data. */
void kr_send_message(struct kr_world *world, struct kr_host *from, struct kr_host *to, kr_event_fn fn, void *context,
	uint64_t value);
/* Bytes that wait for the outgoing direction of HOST's link. */
uint64_t kr_host_unsent(const struct kr_world *world, const struct kr_host *host);

#endif

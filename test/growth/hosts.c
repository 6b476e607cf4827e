/* See hosts.h.
 *
 * Data is received while it is sent: it has arrived when both directions have carried it, plus the latency. */
#include "test/growth/hosts.h"

#include <stdlib.h>

#include "common/base/types.h"
#include "common/base/util.h"

struct kr_delivery {
	struct kr_world *world;
	struct kr_host *to;
	kr_event_fn fn;
	void *context;
	uint64_t value, cost_ns;
	struct kr_delivery *next; /* unused */
};

void kr_world_fini(struct kr_world *world)
{
	struct kr_delivery *delivery;

	while ((delivery = world->unused)) {
		world->unused = delivery->next;
		free(delivery);
	}
	kr_events_fini(&world->events);
}

static struct kr_resource resource(double mb_per_s)
{
	return (struct kr_resource){.ns_per_unit = mb_per_s > 0 ? 1e3 / mb_per_s : 0};
}

void kr_host_init(struct kr_host *host, const struct kr_model *model, bool server)
{
	const double link = server ? model->server_link : model->link;

	*host = (struct kr_host){
		.out = resource(link),
		.in = resource(link),
		.disk = resource(server ? model->server_disk : model->disk),
		.loop = {.ns_per_unit = 1},
	};
}

uint64_t kr_resource_take(struct kr_resource *resource, uint64_t from_ns, uint64_t units)
{
	resource->free_ns =
		KR_MAX(resource->free_ns, from_ns) + (uint64_t)((double)units * resource->ns_per_unit + 0.5);
	resource->units += units;
	return resource->free_ns;
}

static void arrived(void *context, uint64_t value)
{
	struct kr_delivery *delivery = context;
	struct kr_world *world = delivery->world;

	(void)value;
	kr_events_at(&world->events, kr_resource_take(&delivery->to->loop, world->events.now_ns, delivery->cost_ns),
		delivery->fn, delivery->context, delivery->value);
	delivery->next = world->unused;
	world->unused = delivery;
}

static void deliver(struct kr_world *world, struct kr_host *to, uint64_t at_ns, uint64_t cost_ns, kr_event_fn fn,
	void *context, uint64_t value)
{
	struct kr_delivery *delivery = world->unused;

	if (delivery)
		world->unused = delivery->next;
	else
		delivery = kr_xcalloc(1, sizeof(*delivery));
	*delivery = (struct kr_delivery){world, to, fn, context, value, cost_ns, NULL};
	at_ns += (uint64_t)(world->model.latency_us * 1e3);
	kr_events_at(&world->events, at_ns, arrived, delivery, 0);
}

static uint64_t loop_cost(const struct kr_model *model, uint64_t bytes)
{
	return (uint64_t)(bytes ? model->data_us_per_mb * 1e-3 * (double)bytes : model->message_us * 1e3);
}

/* When FROM has put a message of BYTES on its way. */
static uint64_t handed_over(struct kr_world *world, struct kr_host *from, uint64_t bytes)
{
	return kr_resource_take(&from->loop, world->events.now_ns, loop_cost(&world->model, bytes));
}

void kr_send_data(struct kr_world *world, struct kr_host *from, struct kr_host *to, uint64_t bytes, kr_event_fn fn,
	void *context, uint64_t value)
{
	const uint64_t ready = handed_over(world, from, bytes), start = KR_MAX(ready, from->out.free_ns),
		       sent = kr_resource_take(&from->out, start, bytes),
		       received = kr_resource_take(&to->in, start, bytes);

	to->in.free_ns = KR_MAX(sent, received);
	deliver(world, to, to->in.free_ns, loop_cost(&world->model, bytes), fn, context, value);
}

/* The time that a short message waits for data which RESOURCE carries at FROM_NS, and takes by itself. */
static uint64_t squeeze_in(struct kr_resource *resource, uint64_t from_ns)
{
	const double block_ns = KR_BLOCK_SIZE * resource->ns_per_unit;
	const uint64_t waits = resource->free_ns > from_ns ? resource->free_ns - from_ns : 0;

	kr_resource_take(resource, from_ns, KR_MESSAGE_BYTES);
	return KR_MIN(waits, (uint64_t)block_ns) + (uint64_t)(KR_MESSAGE_BYTES * resource->ns_per_unit);
}

void kr_send_message(
	struct kr_world *world, struct kr_host *from, struct kr_host *to, kr_event_fn fn, void *context, uint64_t value)
{
	uint64_t at_ns = handed_over(world, from, 0);

	from->messages++;
	to->messages++;
	at_ns += squeeze_in(&from->out, at_ns);
	at_ns += squeeze_in(&to->in, at_ns);
	deliver(world, to, at_ns, loop_cost(&world->model, 0), fn, context, value);
}

uint64_t kr_host_unsent(const struct kr_world *world, const struct kr_host *host)
{
	const struct kr_resource *out = &host->out;

	if (out->free_ns <= world->events.now_ns || out->ns_per_unit == 0)
		return 0;
	return (uint64_t)((double)(out->free_ns - world->events.now_ns) / out->ns_per_unit);
}

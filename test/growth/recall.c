/* Nodes hold READ of one file, and one more asks for WRITE: kr_lease_table decides who is granted and recalled.  Here
 * is only what carries messages between them.  A node gives READ back at once, as one that has nothing unflushed. */
#include "test/growth/workloads.h"

#include <assert.h>
#include <stdlib.h>

#include "common/base/util.h"
#include "server/leases/lease_table.h"
#include "test/growth/hosts.h"

struct holder {
	struct kr_host host;
	struct leases *leases;
	struct kr_lease_waiter asks;
	uint64_t recall;
};

struct leases {
	struct kr_world world;
	struct kr_host server;
	struct kr_lease_table table;
	struct holder *holders; /* the writer last */
	uint32_t readers;
	uint64_t granted, done_ns, decision_ns;
};

static void on_ask(void *context, uint64_t unused)
{
	struct holder *holder = context;
	struct leases *leases = holder->leases;
	const uint64_t began_ns = kr_clock_ns();

	(void)unused;
	kr_lease_table_ask(&leases->table, &holder->asks);
	leases->decision_ns += kr_clock_ns() - began_ns;
}

static void ask(struct holder *holder, uint8_t kinds)
{
	struct leases *leases = holder->leases;

	holder->asks = (struct kr_lease_waiter){.node = (uint32_t)(holder - leases->holders) + 1, .kinds = kinds};
	kr_send_message(&leases->world, &holder->host, &leases->server, on_ask, holder, 0);
}

static void on_granted(void *context, uint64_t unused)
{
	struct holder *holder = context;
	struct leases *leases = holder->leases;

	(void)unused;
	leases->done_ns = leases->world.events.now_ns;
	leases->granted++;
}

/* The reply is handed over: see kr_lease_table_announced. */
static void on_announced(void *context, uint64_t unused)
{
	struct holder *holder = context;

	(void)unused;
	kr_lease_table_announced(&holder->leases->table, holder->asks.node);
}

static void grant(void *context, struct kr_lease_waiter *waiter)
{
	struct holder *holder = KR_CONTAINER_OF(waiter, struct holder, asks);
	struct leases *leases = context;

	kr_send_message(&leases->world, &leases->server, &holder->host, on_granted, holder, 0);
	kr_events_at(&leases->world.events, 0, on_announced, holder, 0);
}

static void on_given_back(void *context, uint64_t unused)
{
	struct holder *holder = context;
	struct leases *leases = holder->leases;
	const uint64_t began_ns = kr_clock_ns();

	(void)unused;
	kr_lease_table_recalled(&leases->table, holder->asks.node, KR_LEASE_READ, holder->recall);
	leases->decision_ns += kr_clock_ns() - began_ns;
}

static void on_recall(void *context, uint64_t number)
{
	struct holder *holder = context;

	holder->recall = number;
	kr_send_message(&holder->leases->world, &holder->host, &holder->leases->server, on_given_back, holder, 0);
}

static void recall(void *context, uint32_t node, uint8_t kinds, uint64_t number)
{
	struct leases *leases = context;

	assert(kinds == KR_LEASE_READ);
	kr_send_message(&leases->world, &leases->server, &leases->holders[node - 1].host, on_recall,
		&leases->holders[node - 1], number);
}

static void never_awaited(void *context, struct kr_lease_await *await)
{
	(void)context, (void)await;
	assert(false);
}

struct kr_outcome kr_growth_recall(const struct kr_workload *workload)
{
	static const struct kr_lease_actions actions = {grant, recall, never_awaited};
	struct leases leases = {.world = {.model = workload->model}, .readers = workload->nodes};
	struct kr_outcome outcome;
	uint64_t began_ns;

	kr_host_init(&leases.server, &workload->model, true);
	kr_lease_table_init(&leases.table, &actions, &leases);
	leases.holders = kr_xcalloc(leases.readers + 1, sizeof(leases.holders[0]));
	for (uint32_t i = 0; i <= leases.readers; i++) {
		kr_host_init(&leases.holders[i].host, &workload->model, false);
		leases.holders[i].leases = &leases;
		if (i < leases.readers)
			ask(&leases.holders[i], KR_LEASE_READ);
	}
	kr_events_run(&leases.world.events);
	assert(leases.granted == leases.readers);
	began_ns = leases.world.events.now_ns;
	leases.server.messages = 0;
	leases.decision_ns = 0;
	ask(&leases.holders[leases.readers], KR_LEASE_WRITE);
	kr_events_run(&leases.world.events);
	assert(leases.granted == leases.readers + 1);
	outcome = (struct kr_outcome){
		.seconds = (double)(leases.done_ns - began_ns) / 1e9,
		.server_messages = (double)leases.server.messages,
		.decision_us = (double)leases.decision_ns / 1e3,
	};
	kr_lease_table_fini(&leases.table);
	free(leases.holders);
	kr_world_fini(&leases.world);
	return outcome;
}

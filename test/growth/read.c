/* Nodes read one file through its pipelines: kr_pipeline tells each node its upstream, kr_readahead, kr_puller and
 * kr_fetches decide what it asks and when.  Here is only what carries messages between them.
 *
 * A gateway is a node of the ring that the server feeds, and the server of a ring of its own.  All links and disks do
 * their best: so no node is slow, and ring/hedge.h and ring/lanes.h have nothing to decide.
 *
 * Rings of the same server differ in nothing but the moment of their messages.  Unless ALL is set, nodes behind the
 * first one of each ring but the last only open the file and join.  What they would read burdens none but their ring.
 */
#include "test/growth/workloads.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/types.h"
#include "common/base/util.h"
#include "fuse/readcache/hops.h"
#include "ring/blockset.h"
#include "ring/pipeline.h"
#include "ring/puller.h"
#include "ring/readahead.h"
#include "test/growth/hosts.h"

struct member {
	struct kr_host host;
	struct run *run;
	struct ring *ring;       /* NULL: the server */
	struct member *upstream; /* NULL: not known yet */
	char name[16];
	uint32_t node;     /* its place in run->members */
	uint32_t requests; /* that it has yet to send before JOIN */
	uint64_t position; /* blocks read by the program */
	uint64_t charged;  /* blocks asked and not yet on the disk */
	struct kr_blockset have;
	struct kr_puller puller;
	struct kr_readahead readahead;
};

struct ring {
	struct kr_pipeline pipeline;
	struct member *server; /* that feeds it */
	bool like_last;        /* only its first node reads */
};

struct run {
	struct kr_world world;
	const struct kr_workload *workload;
	struct member *members; /* the server first */
	struct ring *rings;
	uint32_t member_count, ring_count;
	uint64_t blocks, first_ns, done_ns, decision_ns, to_finish, finished;
};

/* Blocks that FROM asks of an upstream. */
struct pull {
	struct member *from, *to;
	size_t count;
	uint64_t blocks[];
};

/* FROM waits at another member for a block. */
struct want {
	struct kr_fetch_waiter waiter;
	struct member *from;
};

static void on_block(void *context, uint64_t block);
static void on_pull(void *context, uint64_t unused);

static bool present(void *context, uint64_t block)
{
	return kr_blockset_has(&((struct member *)context)->have, block);
}

/* Asks the upstream for what the puller lets through. */
static void advance(struct member *member)
{
	struct kr_puller *puller = &member->puller;
	const uint64_t budget = KR_HOPS_BUDGET / KR_BLOCK_SIZE;
	uint64_t blocks[KR_PULL_BATCH];
	struct pull *pull;
	size_t count;

	while (member->charged < budget && !kr_puller_holds_back(puller)) {
		count = kr_puller_next(puller, blocks, KR_MIN((uint64_t)KR_PULL_BATCH, budget - member->charged));
		if (count == 0)
			return;
		member->charged += count;
		pull = kr_xcalloc(1, sizeof(*pull) + count * sizeof(pull->blocks[0]));
		*pull = (struct pull){member, member->upstream, count};
		memcpy(pull->blocks, blocks, count * sizeof(blocks[0]));
		kr_send_message(&member->run->world, &member->host, &pull->to->host, on_pull, pull, 0);
	}
}

/* The program reads as far as the blocks are there, and asks for the next one. */
static void read_on(struct member *member)
{
	struct run *run = member->run;
	uint64_t from, end;

	while (member->position < run->blocks) {
		struct kr_puller *puller = &member->puller;

		if (kr_readahead_read(&member->readahead, member->position * KR_BLOCK_SIZE, KR_BLOCK_SIZE,
			    run->blocks * KR_BLOCK_SIZE, &from, &end)) {
			from /= KR_BLOCK_SIZE;
			if (puller->ahead_next < puller->ahead_end) /* one reader: the next range goes on from there */
				from = puller->ahead_next;
			kr_puller_ahead(puller, from, (end + KR_BLOCK_SIZE - 1) / KR_BLOCK_SIZE);
		}
		if (!kr_blockset_has(&member->have, member->position)) {
			kr_puller_want(puller, member->position, NULL);
			return;
		}
		if (++member->position == run->blocks) {
			run->finished++;
			run->done_ns = run->world.events.now_ns;
		}
	}
}

static void send_block(struct member *from, struct member *to, uint64_t block)
{
	kr_send_data(&from->run->world, &from->host, &to->host, KR_BLOCK_SIZE + KR_MESSAGE_BYTES, on_block, to, block);
}

static void on_stored(void *context, uint64_t block)
{
	struct member *member = context;

	(void)block;
	member->charged--;
	advance(member);
}

static void on_block(void *context, uint64_t block)
{
	struct member *member = context;
	struct kr_world *world = &member->run->world;
	struct kr_list waiters;
	struct want *want;

	if (member->have.count == 0)
		member->run->first_ns = world->events.now_ns;
	kr_list_init(&waiters);
	kr_puller_adapt(&member->puller, world->events.now_ns, 0, KR_PULL_WINDOW_MIN);
	kr_blockset_add(&member->have, block);
	kr_puller_arrived(&member->puller, block, &waiters);
	while ((want = KR_LIST_POP(&waiters, struct want, waiter.link))) {
		send_block(member, want->from, block);
		free(want);
	}
	if (member->host.disk.ns_per_unit > 0)
		kr_events_at(&world->events, kr_resource_take(&member->host.disk, world->events.now_ns, KR_BLOCK_SIZE),
			on_stored, member, block);
	else
		member->charged--;
	read_on(member);
	advance(member);
}

/* The server has read BLOCK from its disk. */
static void on_read(void *context, uint64_t block)
{
	struct member *to = context;

	send_block(to->ring->server, to, block);
}

static void serve(struct member *member, struct member *to, uint64_t block)
{
	struct kr_world *world = &member->run->world;

	if (!member->ring) {
		bool first = kr_blockset_add(&member->have, block) > 0; /* later in the page cache */

		kr_events_at(&world->events,
			kr_resource_take(&member->host.disk, world->events.now_ns, first ? KR_BLOCK_SIZE : 0), on_read,
			to, block);
	} else if (kr_blockset_has(&member->have, block)) {
		send_block(member, to, block);
	} else {
		struct want *want = kr_xcalloc(1, sizeof(*want));

		want->from = to;
		kr_puller_want(&member->puller, block, &want->waiter);
	}
}

static void on_pull(void *context, uint64_t unused)
{
	struct pull *pull = context;

	(void)unused;
	for (size_t i = 0; i < pull->count; i++)
		serve(pull->to, pull->from, pull->blocks[i]);
	if (pull->to->ring)
		advance(pull->to);
	free(pull);
}

/* From the server, in answer to JOIN or by itself. */
static void on_upstream(void *context, uint64_t upstream)
{
	struct member *member = context;

	member->upstream = upstream ? &member->run->members[upstream] : member->ring->server;
	kr_puller_set_upstream(&member->puller, 1 + member->upstream->node);
	if (member->ring->like_last && upstream)
		return;
	read_on(member);
	advance(member);
}

static void tell_upstream(void *context, uint32_t node, uint32_t upstream)
{
	struct ring *ring = context;
	struct run *run = ring->server->run;
	struct member *member = &run->members[node];

	kr_send_message(&run->world, &ring->server->host, &member->host, on_upstream, member, upstream);
}

static void on_join(void *context, uint64_t unused)
{
	struct member *member = context;
	struct ring *ring = member->ring;
	struct run *run = member->run;
	uint64_t began_ns = kr_clock_ns();
	uint32_t upstream = 0;
	int err = kr_pipeline_join(&ring->pipeline, member->node, member->name, tell_upstream, ring, &upstream);

	(void)unused;
	assert(err == 0);
	if (ring->server == run->members)
		run->decision_ns += kr_clock_ns() - began_ns;
	kr_send_message(&run->world, &ring->server->host, &member->host, on_upstream, member, upstream);
}

static void on_reply(void *context, uint64_t unused);

static void on_request(void *context, uint64_t unused)
{
	struct member *member = context;

	(void)unused;
	kr_send_message(&member->run->world, &member->ring->server->host, &member->host, on_reply, member, 0);
}

static void on_reply(void *context, uint64_t unused)
{
	struct member *member = context;

	(void)unused;
	kr_send_message(&member->run->world, &member->host, &member->ring->server->host,
		member->requests > 0 ? on_request : on_join, member, 0);
	member->requests -= member->requests > 0;
}

/* --- the cluster ------------------------------------------------------------------------------ */

static void add_member(struct run *run, struct ring *ring)
{
	struct member *member = &run->members[run->member_count];

	kr_host_init(&member->host, &run->workload->model, !ring);
	member->run = run;
	member->ring = ring;
	member->node = run->member_count++;
	member->requests = run->workload->requests;
	snprintf(member->name, sizeof(member->name), "node%u", member->node);
	kr_blockset_init(&member->have);
	kr_puller_init(&member->puller, KR_PULL_WINDOW_MIN, present, member);
	kr_readahead_init(&member->readahead, UINT64_MAX);
}

static struct ring *add_ring(struct run *run, struct member *server)
{
	struct ring *ring = &run->rings[run->ring_count++];

	kr_pipeline_init(&ring->pipeline);
	ring->server = server;
	return ring;
}

static void build(struct run *run)
{
	const struct kr_workload *workload = run->workload;
	uint32_t gateways = workload->gateways ? workload->rings : 0;
	struct ring *upper = NULL;

	run->members = kr_xcalloc(1 + gateways + workload->nodes, sizeof(run->members[0]));
	run->rings = kr_xcalloc(1 + workload->rings, sizeof(run->rings[0]));
	add_member(run, NULL);
	if (gateways)
		upper = add_ring(run, run->members);
	for (uint32_t i = 0; i < gateways; i++)
		add_member(run, upper);
	for (uint32_t i = 0; i < workload->rings; i++) {
		struct ring *ring = add_ring(run, gateways ? &run->members[1 + i] : run->members);
		uint32_t first = (uint32_t)((uint64_t)workload->nodes * i / workload->rings),
			 end = (uint32_t)((uint64_t)workload->nodes * (i + 1) / workload->rings);

		ring->like_last = !workload->all && i + 1 < workload->rings;
		run->to_finish += ring->like_last ? 1 : end - first;
		for (uint32_t n = first; n < end; n++)
			add_member(run, ring);
	}
	run->to_finish += gateways;
}

/* All open the file at once; whose request comes first is as random as that of real nodes. */
static void start(struct run *run)
{
	uint32_t *order = kr_xcalloc(run->member_count, sizeof(order[0])), seed = 7;

	for (uint32_t i = 1; i < run->member_count; i++) {
		uint32_t other = 1 + (uint32_t)rand_r(&seed) % i;

		order[i] = order[other];
		order[other] = i;
	}
	for (uint32_t i = 1; i < run->member_count; i++)
		on_reply(&run->members[order[i]], 0);
	free(order);
}

static void take_down(struct run *run)
{
	for (uint32_t i = 0; i < run->member_count; i++) {
		kr_blockset_fini(&run->members[i].have);
		kr_puller_fini(&run->members[i].puller);
	}
	for (uint32_t i = 0; i < run->ring_count; i++)
		kr_pipeline_fini(&run->rings[i].pipeline);
	free(run->members);
	free(run->rings);
	kr_world_fini(&run->world);
}

struct kr_outcome kr_growth_read(const struct kr_workload *workload)
{
	struct run run = {.world = {.model = workload->model}, .workload = workload};
	struct kr_outcome outcome;

	run.blocks = (workload->size + KR_BLOCK_SIZE - 1) / KR_BLOCK_SIZE;
	build(&run);
	start(&run);
	kr_events_run(&run.world.events);
	assert(run.finished == run.to_finish);
	outcome = (struct kr_outcome){
		.seconds = (double)run.done_ns / 1e9,
		.first_seconds = (double)run.first_ns / 1e9,
		.server_bytes = (double)run.members->host.out.units,
		.server_messages = (double)run.members->host.messages,
		.decision_us = (double)run.decision_ns / 1e3,
	};
	take_down(&run);
	return outcome;
}

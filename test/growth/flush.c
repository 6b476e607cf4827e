/* Nodes flush interleaved records of one file: kr_rounds decides which nodes form a chain, kr_merge what each passes
 * on, with the limits of fuse/writeback/chain.h and server/flush/round_stream.h.  Here is only what carries messages
 * between them.
 *
 * A node that is full pauses its upstream at once; a real one does so when the buffers of their connection are full,
 * too. */
#include "test/growth/workloads.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/types.h"
#include "common/base/util.h"
#include "fuse/writeback/chain_priv.h"
#include "ring/merge.h"
#include "server/flush/round.h"
#include "server/flush/round_stream.h"
#include "test/growth/hosts.h"

struct writer {
	struct kr_host host;
	struct flush *flush;
	struct kr_merge merge;
	struct writer *upstream, *downstream; /* NULL: none known; the server */
	char name[16], ring[16];
	uint32_t node;
	uint64_t planned; /* own bytes of which the read has begun */
	uint64_t reads;   /* ... and where it began */
	bool running, reading, paused, waits_for_link, end_sent;
};

/* The server's end of the running stream. */
struct intake {
	struct writer *from;
	uint64_t unwritten, batch;
	uint32_t jobs;
	bool ended, paused;
};

struct flush {
	struct kr_world world;
	const struct kr_workload *workload;
	struct kr_host server;
	struct kr_rounds rounds;
	struct intake intake;
	struct writer *writers;
	struct kr_buf *bytes; /* stands for all data */
	uint64_t round, answered, done_ns;
	uint64_t decision_ns, began_ns; /* in the rounds; when the present one began */
};

struct extent {
	struct writer *from, *to;
	struct kr_piece piece;
};

static void pump(struct writer *writer);
static void obey(struct flush *flush);

static uint64_t own_bytes(const struct flush *flush)
{
	return flush->workload->record * flush->workload->records;
}

/* --- a node's own records --------------------------------------------------------------------- */

/* The next own bytes from NEXT on that follow each other in the file; at most END. */
static uint64_t own_run(const struct writer *writer, uint64_t next, uint64_t end, uint64_t *ret_offset)
{
	const struct kr_workload *workload = writer->flush->workload;
	uint64_t number = next / workload->record, within = next % workload->record;

	*ret_offset = (number * workload->nodes + writer->node - 1) * workload->record + within;
	return workload->nodes == 1 ? end - next : KR_MIN(workload->record - within, end - next);
}

static void on_own_read(void *context, uint64_t unused)
{
	struct writer *writer = context;
	uint64_t offset, length;
	int err;

	(void)unused;
	writer->reading = false;
	for (; writer->reads < writer->planned; writer->reads += length) {
		length = own_run(writer, writer->reads, writer->planned, &offset);
		err = kr_merge_push(&writer->merge, KR_MERGE_HIGH, offset, writer->flush->bytes, 0, length);
		assert(err == 0);
	}
	if (writer->planned == own_bytes(writer->flush))
		kr_merge_end(&writer->merge, KR_MERGE_HIGH);
	pump(writer);
}

static void start_own_read(struct writer *writer)
{
	const uint64_t left = own_bytes(writer->flush) - writer->planned, bytes = KR_MIN(left, (uint64_t)KR_CHAIN_READ);
	struct kr_world *world = &writer->flush->world;

	writer->reading = true;
	writer->planned += bytes;
	kr_events_at(&world->events, kr_resource_take(&writer->host.disk, world->events.now_ns, bytes), on_own_read,
		writer, 0);
}

/* --- the server's end ------------------------------------------------------------------------- */

static void start_jobs(struct flush *flush);

static void on_written(void *context, uint64_t bytes)
{
	struct flush *flush = context;
	struct intake *intake = &flush->intake;

	intake->jobs--;
	intake->unwritten -= bytes;
	if (intake->paused && intake->unwritten <= KR_ROUND_STREAM_MAX) {
		intake->paused = false;
		pump(intake->from);
	}
	start_jobs(flush);
}

static void start_jobs(struct flush *flush)
{
	struct intake *intake = &flush->intake;
	struct kr_world *world = &flush->world;

	if (intake->batch > 0 && intake->jobs < KR_ROUND_STREAM_JOBS &&
		(intake->ended || intake->batch >= KR_ROUND_STREAM_JOB)) {
		intake->jobs++;
		kr_events_at(&world->events, kr_resource_take(&flush->server.disk, world->events.now_ns, intake->batch),
			on_written, flush, intake->batch);
		intake->batch = 0;
	}
	if (intake->ended && intake->jobs == 0 && intake->batch == 0) {
		flush->began_ns = kr_clock_ns();
		kr_rounds_received(&flush->rounds, flush->rounds.round);
		obey(flush);
	}
}

static void take_in(struct flush *flush, struct writer *from, uint64_t bytes)
{
	struct intake *intake = &flush->intake;

	intake->from = from;
	intake->batch += bytes;
	intake->unwritten += bytes;
	intake->paused = intake->unwritten > KR_ROUND_STREAM_MAX;
	start_jobs(flush);
}

/* --- a chain ---------------------------------------------------------------------------------- */

static void on_resumed(void *context, uint64_t unused)
{
	(void)unused;
	pump(context);
}

static void on_room(void *context, uint64_t unused)
{
	struct writer *writer = context;

	(void)unused;
	writer->waits_for_link = false;
	pump(writer);
}

static void on_extent(void *context, uint64_t unused)
{
	struct extent *extent = context;
	struct writer *to = extent->to;
	const struct kr_piece *piece = &extent->piece;

	(void)unused;
	if (to) {
		int err =
			kr_merge_push(&to->merge, KR_MERGE_LOW, piece->offset, piece->buf, piece->start, piece->length);

		assert(err == 0);
		to->upstream = extent->from;
		to->paused = to->paused || kr_merge_queued(&to->merge, KR_MERGE_LOW) > KR_CHAIN_INPUT;
		pump(to);
	} else {
		take_in(extent->from->flush, extent->from, piece->length);
	}
	kr_buf_put(piece->buf);
	free(extent);
}

static void on_end(void *context, uint64_t unused)
{
	struct writer *from = context;

	(void)unused;
	if (from->downstream) {
		kr_merge_end(&from->downstream->merge, KR_MERGE_LOW);
		pump(from->downstream);
	} else {
		from->flush->intake.ended = true;
		start_jobs(from->flush);
	}
}

static void send_on(struct writer *writer, uint64_t bytes, kr_event_fn fn, void *context)
{
	struct flush *flush = writer->flush;

	kr_send_data(&flush->world, &writer->host, writer->downstream ? &writer->downstream->host : &flush->server,
		KR_MESSAGE_BYTES + bytes, fn, context, 0);
}

/* Whether WRITER may send on; if its link is full it goes on when there is room again. */
static bool may_send(struct writer *writer)
{
	struct kr_world *world = &writer->flush->world;
	const uint64_t unsent = kr_host_unsent(world, &writer->host);

	if (writer->downstream ? writer->downstream->paused : writer->flush->intake.paused)
		return false;
	if (unsent < KR_CHAIN_WINDOW)
		return true;
	if (!writer->waits_for_link)
		kr_events_at(&world->events,
			world->events.now_ns +
				(uint64_t)((double)(unsent - KR_CONN_LOW_WATER) * writer->host.out.ns_per_unit),
			on_room, writer, 0);
	writer->waits_for_link = true;
	return false;
}

/* Does all that can be done now. */
static void pump(struct writer *writer)
{
	struct kr_piece piece;

	if (!writer->running)
		return;
	while (may_send(writer) && kr_merge_pop(&writer->merge, &piece) > 0) {
		struct extent *extent = kr_xcalloc(1, sizeof(*extent));

		*extent = (struct extent){writer, writer->downstream, piece};
		send_on(writer, piece.length, on_extent, extent);
	}
	if (!writer->reading && writer->planned < own_bytes(writer->flush) &&
		kr_merge_queued(&writer->merge, KR_MERGE_HIGH) < KR_CHAIN_READ)
		start_own_read(writer);
	if (!writer->end_sent && kr_merge_done(&writer->merge)) {
		writer->end_sent = true;
		send_on(writer, 0, on_end, writer);
	}
	if (writer->paused && kr_merge_queued(&writer->merge, KR_MERGE_LOW) < KR_CHAIN_INPUT / 2) {
		struct kr_world *world = &writer->flush->world;

		writer->paused = false;
		kr_events_at(&world->events, world->events.now_ns + (uint64_t)(world->model.latency_us * 1e3),
			on_resumed, writer->upstream, 0);
	}
}

/* --- rounds ----------------------------------------------------------------------------------- */

static void on_accepted(void *context, uint64_t unused)
{
	struct writer *writer = context;
	struct flush *flush = writer->flush;

	(void)unused;
	flush->began_ns = kr_clock_ns();
	kr_rounds_accepted(&flush->rounds, flush->rounds.round, writer->node, 0);
	obey(flush);
}

/* VALUE: the downstream's number, and whether there is an upstream. */
static void on_round(void *context, uint64_t value)
{
	struct writer *writer = context;
	struct flush *flush = writer->flush;

	writer->downstream = value / 2 ? &flush->writers[value / 2 - 1] : NULL;
	if (value % 2 == 0)
		kr_merge_end(&writer->merge, KR_MERGE_LOW);
	writer->running = true;
	kr_send_message(&flush->world, &writer->host, &flush->server, on_accepted, writer, 0);
	pump(writer);
}

static void on_answer(void *context, uint64_t unused)
{
	struct flush *flush = context;

	(void)unused;
	flush->answered++;
	flush->done_ns = flush->world.events.now_ns;
}

static void on_finished(void *context, uint64_t round)
{
	struct flush *flush = context;

	flush->began_ns = kr_clock_ns();
	kr_rounds_finished(&flush->rounds, round, 0);
	obey(flush);
}

/* Does what the rounds say. */
static void obey(struct flush *flush)
{
	struct kr_world *world = &flush->world;
	struct kr_round_action action;

	flush->decision_ns += kr_clock_ns() - flush->began_ns;
	while (kr_rounds_action(&flush->rounds, &action)) {
		struct writer *writer = action.node ? &flush->writers[action.node - 1] : NULL;

		switch (action.kind) {
		case KR_ROUND_BEGIN:
			flush->intake = (struct intake){0};
			break;
		case KR_ROUND_SEND:
			kr_send_message(world, &flush->server, &writer->host, on_round, writer,
				2 * (uint64_t)action.downstream + action.has_upstream);
			break;
		case KR_ROUND_WRITE:
		case KR_ROUND_FINISH:
			kr_events_at(&world->events,
				kr_resource_take(&flush->server.disk, world->events.now_ns,
					action.kind == KR_ROUND_WRITE ? own_bytes(flush) : 0),
				on_finished, flush, action.round);
			break;
		case KR_ROUND_REPLY:
			assert(action.err == 0);
			kr_send_message(world, &flush->server, &writer->host, on_answer, flush, 0);
			break;
		case KR_ROUND_ABORT:
		case KR_ROUND_DISCARD:
			assert(false); /* nothing breaks here */
		}
	}
}

static void on_flush(void *context, uint64_t inlined)
{
	struct writer *writer = context;
	struct flush *flush = writer->flush;
	int err;

	flush->began_ns = kr_clock_ns();
	err = kr_rounds_ask(&flush->rounds,
		&(struct kr_round_ask){.node = writer->node,
			.order = writer->name,
			.ring = writer->ring,
			.inlined = inlined,
			.token = writer});

	assert(err == 0);
	obey(flush);
}

/* --- the cluster ------------------------------------------------------------------------------ */

static uint64_t next_round(void *context)
{
	return ++((struct flush *)context)->round;
}

static void add_writer(struct flush *flush, uint32_t index)
{
	const struct kr_workload *workload = flush->workload;
	struct writer *writer = &flush->writers[index];

	kr_host_init(&writer->host, &workload->model, false);
	writer->flush = flush;
	kr_merge_init(&writer->merge);
	writer->node = index + 1;
	snprintf(writer->name, sizeof(writer->name), "node%u", writer->node);
	snprintf(writer->ring, sizeof(writer->ring), "ring%u",
		(uint32_t)((uint64_t)index * workload->rings / workload->nodes));
}

/* All close the file at once. */
static void start(struct flush *flush)
{
	const bool inlined = own_bytes(flush) <= KR_INLINE_MAX;

	for (uint32_t i = 0; i < flush->workload->nodes; i++) {
		struct writer *writer = &flush->writers[i];

		if (inlined)
			kr_send_data(&flush->world, &writer->host, &flush->server, KR_MESSAGE_BYTES + own_bytes(flush),
				on_flush, writer, true);
		else
			kr_send_message(&flush->world, &writer->host, &flush->server, on_flush, writer, false);
	}
}

struct kr_outcome kr_growth_flush(const struct kr_workload *workload)
{
	struct flush flush = {.world = {.model = workload->model}, .workload = workload};
	struct kr_outcome outcome;

	kr_host_init(&flush.server, &workload->model, true);
	kr_rounds_init(&flush.rounds, next_round, &flush);
	flush.bytes = kr_buf_new(KR_CHAIN_READ);
	assert(flush.bytes);
	flush.bytes->length = KR_CHAIN_READ;
	flush.writers = kr_xcalloc(workload->nodes, sizeof(flush.writers[0]));
	for (uint32_t i = 0; i < workload->nodes; i++)
		add_writer(&flush, i);
	start(&flush);
	kr_events_run(&flush.world.events);
	assert(flush.answered == workload->nodes);
	outcome = (struct kr_outcome){
		.seconds = (double)flush.done_ns / 1e9,
		.server_bytes = (double)flush.server.in.units,
		.server_messages = (double)flush.server.messages,
		.decision_us = (double)flush.decision_ns / 1e3,
	};
	for (uint32_t i = 0; i < workload->nodes; i++)
		kr_merge_fini(&flush.writers[i].merge);
	kr_rounds_fini(&flush.rounds);
	kr_buf_put(flush.bytes);
	free(flush.writers);
	kr_world_fini(&flush.world);
	return outcome;
}

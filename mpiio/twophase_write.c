#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/fail.h"
#include "common/util.h"
#include "mpiio/errors.h"
#include "mpiio/slots.h"
#include "mpiio/tags.h"
#include "mpiio/twophase.h"
#include "mpiio/window.h"

struct writer {
	struct kr_plan *plan;
	struct kr_slots *slots; /* NULL: not an aggregator */
	struct kr_window *window;
	int class; /* the first error of this rank */
};

static void note(struct writer *writer, int class)
{
	if (writer->class == MPI_SUCCESS)
		writer->class = class;
}

/* Ascending by rank, so the highest rank's bytes stay where several wrote. */
static void scatter(struct kr_slot *slot)
{
	struct kr_run run;

	for (size_t i = 0; i < slot->count; i++) {
		const char *from = slot->packed.bytes + slot->messages[i].at;

		for (; kr_cursor_next(&slot->cursors[i], INT64_MAX, &run); from += run.length)
			memcpy(slot->window.bytes + ((uint64_t)run.offset - slot->lo), from, run.length);
	}
}

/* In the I/O thread. */
static int write_slot(struct kr_io_job *job)
{
	struct kr_slot *slot = (struct kr_slot *)job;
	struct kr_mpifile *file = slot->plan->file;
	int err;

	if (__atomic_load_n(&file->slots.failed, __ATOMIC_RELAXED))
		return 0;
	err = kr_slot_extents(slot);
	if (!err)
		err = kr_slot_cursors(slot);
	if (!err)
		err = kr_buffer_fit(&slot->window, slot->hi - slot->lo);
	if (!err) {
		scatter(slot);
		err = kr_mount_write(file->mount, slot->extents.runs, slot->extents.count, slot->window.bytes, slot->lo);
	}
	if (err)
		__atomic_store_n(&file->slots.failed, true, __ATOMIC_RELAXED);
	return err;
}

/* Takes the messages of a round that there is no memory for, one by one, and forgets them. */
static void drain_round(struct writer *writer, struct kr_slot *slot)
{
	MPI_Comm comm = writer->plan->file->comm;

	for (size_t i = 0; i < slot->count; i++)
		if (slot->messages[i].rank != writer->plan->file->rank) {
			char *bytes = malloc(slot->messages[i].bytes);

			PMPI_Recv(bytes, bytes ? (int)slot->messages[i].bytes : 0, MPI_BYTE, slot->messages[i].rank, KR_TAG_WRITE, comm,
				MPI_STATUS_IGNORE);
			free(bytes);
		}
	slot->count = 0;
}

static void post_receives(struct writer *writer, struct kr_slot *slot)
{
	const struct kr_mpifile *file = writer->plan->file;
	const struct kr_message *last = slot->count ? &slot->messages[slot->count - 1] : NULL;

	for (size_t i = 0; i < slot->count; i++)
		slot->requests[i] = MPI_REQUEST_NULL;
	if (last && kr_buffer_fit(&slot->packed, last->at + last->bytes) < 0) {
		note(writer, MPI_ERR_NO_MEM);
		__atomic_store_n(&writer->slots->failed, true, __ATOMIC_RELAXED);
		drain_round(writer, slot);
		return;
	}
	for (size_t i = 0; i < slot->count; i++)
		if (slot->messages[i].rank != file->rank)
			PMPI_Irecv(slot->packed.bytes + slot->messages[i].at, (int)slot->messages[i].bytes, MPI_BYTE, slot->messages[i].rank,
				KR_TAG_WRITE, file->comm, &slot->requests[i]);
}

/* This rank's own bytes go to its own window without MPI. */
static void pack_own(struct writer *writer, struct kr_slot *slot, uint64_t before, uint64_t bytes)
{
	for (size_t i = 0; i < slot->count; i++)
		if (slot->messages[i].rank == writer->plan->file->rank)
			kr_access_pack(writer->plan->access, before, slot->packed.bytes + slot->messages[i].at, bytes);
}

/* A message that there is no memory for goes out empty: the aggregator waits for one, and sees that it is short. */
static void send_packed(struct writer *writer, int to, uint64_t before, uint64_t bytes)
{
	char *packed;
	int place = kr_window_reserve(writer->window, bytes, &packed);

	if (packed)
		kr_access_pack(writer->plan->access, before, packed, bytes);
	else
		note(writer, MPI_ERR_NO_MEM);
	kr_window_send(writer->window, place, packed, packed ? bytes : 0, to, KR_TAG_WRITE);
}

static void send_round(struct writer *writer, struct kr_slot *slot, uint64_t round)
{
	struct kr_plan *plan = writer->plan;
	const struct kr_mpifile *file = plan->file;

	for (uint32_t i = 0; i < file->aggregators->count; i++) {
		int to = (int)file->aggregators->rank[file->targets[i]];
		uint64_t lo, hi, before, bytes;

		if (!kr_stripes_window(&plan->stripes, round, file->targets[i], &lo, &hi))
			continue;
		bytes = kr_plan_share(plan, file->rank, (int64_t)lo, (int64_t)hi, &before);
		if (bytes == 0)
			continue;
		if (to == file->rank)
			pack_own(writer, slot, before, bytes);
		else if (plan->access->contiguous)
			kr_window_send(writer->window, kr_window_place(writer->window), plan->access->contiguous + before, bytes, to,
				KR_TAG_WRITE);
		else
			send_packed(writer, to, before, bytes);
	}
}

/* Waits until the round's messages are there; a short one means that its sender had no memory. */
static void take_messages(struct writer *writer, struct kr_slot *slot)
{
	for (size_t i = 0; i < slot->count; i++) {
		MPI_Status status;
		int got = 0;

		if (slot->requests[i] == MPI_REQUEST_NULL)
			continue;
		if (PMPI_Wait(&slot->requests[i], &status) != MPI_SUCCESS || PMPI_Get_count(&status, MPI_BYTE, &got) != MPI_SUCCESS ||
			(uint64_t)got != slot->messages[i].bytes) {
			note(writer, MPI_ERR_IO);
			__atomic_store_n(&writer->slots->failed, true, __ATOMIC_RELAXED);
		}
	}
}

/* Waits until the slot's last round is in the file. */
static void retire(struct writer *writer, struct kr_slot *slot)
{
	bool submitted = slot->submitted;
	int err = kr_slot_wait(slot);

	if (!submitted)
		return;
	note(writer, kr_mpi_class(err));
	writer->plan->file->tally.extents += slot->extents.count;
	kr_plan_trace(writer->plan, KR_TRACE_WRITE, slot->round, slot->number, slot->job.begin_ns, slot->job.end_ns,
		slot->extents.bytes);
}

static uint64_t message_bytes(const struct kr_slot *slot)
{
	return slot && slot->count ? slot->messages[slot->count - 1].at + slot->messages[slot->count - 1].bytes : 0;
}

static void run_round(struct writer *writer, uint64_t round)
{
	struct kr_slot *slot = NULL;
	uint64_t start_ns;

	if (writer->slots) {
		slot = &writer->slots->slots[round % writer->slots->count];
		retire(writer, slot);
	}
	start_ns = kr_clock_ns();
	if (slot) {
		kr_slot_assign(slot, writer->plan, round);
		post_receives(writer, slot);
	}
	send_round(writer, slot, round);
	if (slot)
		take_messages(writer, slot);
	kr_plan_trace(writer->plan, KR_TRACE_EXCHANGE, round, slot ? slot->number : 0, start_ns, kr_clock_ns(),
		message_bytes(slot));
	if (slot && slot->count) {
		slot->job.run = write_slot;
		kr_slot_submit(slot);
	}
}

int kr_twophase_write(struct kr_plan *plan, uint64_t *ret_done)
{
	struct kr_mpifile *file = plan->file;
	struct writer writer = {.plan = plan, .window = &file->window, .class = MPI_SUCCESS};
	uint64_t drain_ns;

	writer.window->failed = MPI_SUCCESS;
	if (file->sources) {
		writer.slots = &file->slots;
		writer.slots->failed = false;
	}
	for (uint64_t round = 0; round < plan->rounds; round++)
		run_round(&writer, round);
	drain_ns = kr_clock_ns();
	kr_window_drain(writer.window);
	kr_plan_trace(plan, KR_TRACE_EXCHANGE, plan->rounds, 0, drain_ns, kr_clock_ns(), 0);
	for (uint64_t i = 0; writer.slots && i < writer.slots->count; i++)
		retire(&writer, &writer.slots->slots[(plan->rounds + i) % writer.slots->count]);
	note(&writer, writer.window->failed);
	*ret_done = writer.class == MPI_SUCCESS ? plan->access->count : 0;
	return writer.class;
}

/* Writes in two phases: each rank sends its bytes to the aggregators, which write their windows; see twophase.h. */
#include <stdlib.h>
#include <string.h>

#include "mpiio/twophase/mpi_library.h"
#include "mpiio/twophase/slots.h"
#include "mpiio/twophase/twophase.h"
#include "mpiio/twophase/window.h"

struct writer {
	struct kr_plan *plan;
	uint64_t posted, taken; /* rounds whose receives are posted; rounds whose messages have arrived */
	uint64_t round;         /* the next message to send: of this round, */
	uint32_t target;        /* to this one of the file's targets */
};

/* Ascending by rank: where several ranks wrote, the highest rank's bytes stay. */
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
		err = kr_mount_write(
			file->mount, slot->extents.runs, slot->extents.count, slot->window.bytes, slot->lo);
	}
	if (err)
		__atomic_store_n(&file->slots.failed, true, __ATOMIC_RELAXED);
	return err;
}

/* Where there is no memory for the messages they are cut to nothing when they come. */
static void post_receives(struct writer *writer, struct kr_slot *slot)
{
	const struct kr_mpifile *file = writer->plan->file;
	const struct kr_message *last = slot->count ? &slot->messages[slot->count - 1] : NULL;
	const bool fits = !last || kr_buffer_fit(&slot->packed, last->at + last->bytes) == 0;

	if (!fits) {
		kr_plan_record(writer->plan, MPI_ERR_NO_MEM);
		__atomic_store_n(&writer->plan->slots->failed, true, __ATOMIC_RELAXED);
	}
	for (size_t i = 0; i < slot->count; i++) {
		const struct kr_message *message = &slot->messages[i];

		slot->requests[i] = MPI_REQUEST_NULL;
		if (message->rank != file->rank)
			PMPI_Irecv(fits ? slot->packed.bytes + message->at : NULL, fits ? (int)message->bytes : 0,
				MPI_BYTE, message->rank, KR_TAG_WRITE, file->comm, &slot->requests[i]);
	}
}

/* Begins the next round as soon as its slot is free: all its receives are posted. */
static bool post_next(struct writer *writer)
{
	struct kr_slot *slot;

	if (!writer->plan->slots || writer->posted == writer->plan->rounds ||
		writer->posted - writer->taken == writer->plan->slots->count)
		return false;
	slot = kr_plan_slot(writer->plan, writer->posted);
	if (!kr_slot_done(slot))
		return false;
	kr_slot_retire(slot);
	kr_slot_assign(slot, writer->plan, writer->posted++);
	post_receives(writer, slot);
	return true;
}

/* ---- sending ---- */

/* A message without memory for it goes out empty: the aggregator waits for one, and notices that it is short. */
static void send_message(struct writer *writer, int place, int to, uint64_t before, uint64_t bytes)
{
	struct kr_access *access = writer->plan->access;
	char *packed =
		access->contiguous ? access->contiguous + before : kr_window_buffer(writer->plan->window, place, bytes);

	if (!packed)
		kr_plan_record(writer->plan, MPI_ERR_NO_MEM);
	else if (!access->contiguous)
		kr_access_pack(access, before, packed, bytes);
	kr_window_send(writer->plan->window, place, writer->round, packed, packed ? bytes : 0, to, KR_TAG_WRITE);
}

static bool is_sent(const struct writer *writer)
{
	return writer->round == writer->plan->rounds;
}

/* Goes on to the next message in the order of the schedule; false when none may go out.  An aggregator does not send in
 * rounds that it has not begun. */
static bool find_message(struct writer *writer, int *ret_to, uint64_t *ret_before, uint64_t *ret_bytes)
{
	const struct kr_plan *plan = writer->plan;
	const struct kr_mpifile *file = plan->file;
	uint64_t begun = writer->plan->slots ? writer->posted : plan->rounds, lo, hi;

	for (; writer->round < begun; writer->round++, writer->target = 0)
		for (; writer->target < file->aggregators->count; writer->target++) {
			uint32_t target = file->targets[writer->target];

			*ret_to = (int)file->aggregators->rank[target];
			if (*ret_to == file->rank ||
				!kr_stripes_window(&plan->stripes, writer->round, target, &lo, &hi))
				continue;
			*ret_bytes = kr_plan_share(plan, file->rank, (int64_t)lo, (int64_t)hi, ret_before);
			if (*ret_bytes > 0)
				return true;
		}
	return false;
}

static bool send_next(struct writer *writer)
{
	int to, place = kr_window_place(writer->plan->window);
	uint64_t before, bytes;

	if (place < 0 || !find_message(writer, &to, &before, &bytes))
		return false;
	send_message(writer, place, to, before, bytes);
	writer->target++;
	return true;
}

/* ---- taking ---- */

/* Copies this rank's own bytes to its own window without MPI. */
static void pack_own(struct writer *writer, struct kr_slot *slot)
{
	const struct kr_plan *plan = writer->plan;

	for (size_t i = 0; slot->packed.bytes && i < slot->count; i++)
		if (slot->messages[i].rank == plan->file->rank)
			kr_access_pack(plan->access, slot->messages[i].data - plan->access->start,
				slot->packed.bytes + slot->messages[i].at, slot->messages[i].bytes);
}

static uint64_t message_bytes(const struct kr_slot *slot)
{
	return slot->count ? slot->messages[slot->count - 1].at + slot->messages[slot->count - 1].bytes : 0;
}

/* The earliest round that is not complete, if there is one. */
static struct kr_slot *slot_to_take(const struct writer *writer)
{
	return writer->plan->slots && writer->taken < writer->posted ? kr_plan_slot(writer->plan, writer->taken) : NULL;
}

/* Gives the earliest round to the I/O thread when all its messages have arrived. */
static bool take_next(struct writer *writer)
{
	struct kr_slot *slot = slot_to_take(writer);

	if (!slot)
		return false;
	while (slot->taken < slot->count && slot->requests[slot->taken] == MPI_REQUEST_NULL)
		slot->taken++;
	if (slot->taken < slot->count)
		return false;
	pack_own(writer, slot);
	kr_plan_trace_exchange(writer->plan, slot->round, message_bytes(slot));
	writer->taken++;
	if (slot->count) {
		slot->job.run = write_slot;
		kr_slot_submit(slot);
	}
	return true;
}

/* A short message means that its sender had no memory. */
static void check_message(struct writer *writer, const struct kr_message *message, const MPI_Status *status, int rc)
{
	int got = 0;

	if (rc == MPI_SUCCESS && PMPI_Get_count(status, MPI_BYTE, &got) == MPI_SUCCESS &&
		(uint64_t)got == message->bytes)
		return;
	kr_plan_record(writer->plan, MPI_ERR_IO);
	__atomic_store_n(&writer->plan->slots->failed, true, __ATOMIC_RELAXED);
}

/* Waits until a send ends or a message arrives.  Without either it waits for the file I/O; otherwise finished I/O shows
 * when the message has arrived. */
static void wait_for_progress(struct writer *writer)
{
	struct kr_slot *slot = slot_to_take(writer);
	MPI_Status status;
	int rc;

	if (!slot && writer->plan->slots && writer->posted < writer->plan->rounds)
		kr_window_wait(writer->plan->window, NULL, &status, &rc, kr_plan_slot(writer->plan, writer->posted));
	else if (kr_window_wait(writer->plan->window, slot ? &slot->requests[slot->taken] : NULL, &status, &rc, NULL))
		check_message(writer, &slot->messages[slot->taken], &status, rc);
}

uint64_t kr_twophase_write(struct kr_plan *plan)
{
	struct writer writer = {.plan = plan};

	while (!is_sent(&writer) || (plan->slots && writer.taken < plan->rounds))
		if (!post_next(&writer) && !send_next(&writer) && !take_next(&writer))
			wait_for_progress(&writer);
	kr_window_drain(plan->window);
	kr_plan_trace_exchange(plan, plan->rounds, 0);
	for (uint64_t i = 0; plan->slots && i < plan->slots->count; i++) {
		struct kr_slot *slot = kr_plan_slot(plan, plan->rounds + i);

		kr_slot_wait(slot);
		kr_slot_retire(slot);
	}
	return plan->access->count;
}

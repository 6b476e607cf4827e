/* See slots.h. */
#include "mpiio/twophase/slots.h"

#include <errno.h>
#include <stdlib.h>

#include "common/base/fail.h"
#include "mpiio/twophase/collective.h"
#include "mpiio/twophase/mpi_library.h"

static void slot_fini(struct kr_slot *slot)
{
	free(slot->messages);
	free(slot->requests);
	free(slot->cursors);
	free(slot->order);
	free(slot->packed.bytes);
	free(slot->window.bytes);
	kr_extents_fini(&slot->extents);
}

static int slot_init(struct kr_slot *slot, uint32_t number, int ranks)
{
	size_t n = (size_t)ranks;

	*slot = (struct kr_slot){.number = number};
	kr_extents_init(&slot->extents);
	slot->messages = calloc(n, sizeof(*slot->messages));
	slot->requests = calloc(n, sizeof(*slot->requests));
	slot->cursors = calloc(n, sizeof(*slot->cursors));
	slot->order = calloc(n, sizeof(*slot->order));
	if (slot->messages && slot->requests && slot->cursors && slot->order)
		return 0;
	slot_fini(slot);
	return kr_fail(-ENOMEM, "no memory for the messages of %d ranks", ranks);
}

void kr_slots_fini(struct kr_slots *slots)
{
	for (uint32_t i = 0; i < slots->count; i++)
		slot_fini(&slots->slots[i]);
	free(slots->slots);
	*slots = (struct kr_slots){0};
}

int kr_slots_prepare(struct kr_slots *slots, uint32_t count, int ranks)
{
	if (slots->count == count && slots->ranks == ranks)
		return 0;
	kr_slots_fini(slots);
	slots->slots = calloc(count, sizeof(*slots->slots));
	if (!slots->slots)
		return kr_fail(-ENOMEM, "no memory for %u slots", count);
	slots->ranks = ranks;
	for (; slots->count < count; slots->count++)
		if (slot_init(&slots->slots[slots->count], slots->count, ranks) < 0) {
			kr_slots_fini(slots);
			return -ENOMEM;
		}
	return 0;
}

void kr_slot_assign(struct kr_slot *slot, struct kr_plan *plan, uint64_t round)
{
	const struct kr_mpifile *file = plan->file;
	uint64_t before, bytes, at = 0;

	slot->plan = plan;
	slot->round = round;
	slot->count = slot->taken = 0;
	slot->end = UINT64_MAX;
	if (!kr_stripes_window(&plan->stripes, round, file->aggregators->index[file->rank], &slot->lo, &slot->hi)) {
		slot->lo = slot->hi = 0;
		return;
	}
	for (int rank = 0; rank < file->ranks; rank++) {
		bytes = kr_plan_share(plan, rank, (int64_t)slot->lo, (int64_t)slot->hi, &before);
		if (bytes == 0)
			continue;
		slot->messages[slot->count++] = (struct kr_message){
			.rank = rank, .data = plan->records[rank].start + before, .bytes = bytes, .at = at};
		at += bytes;
	}
}

int kr_buffer_fit(struct kr_buffer *buffer, uint64_t n)
{
	if (buffer->capacity >= n)
		return 0;
	free(buffer->bytes);
	buffer->bytes = malloc(n);
	buffer->capacity = buffer->bytes ? n : 0;
	return buffer->bytes ? 0 : kr_fail(-ENOMEM, "no memory for %zu bytes of a round", (size_t)n);
}

int kr_slot_cursors(struct kr_slot *slot)
{
	for (size_t i = 0; i < slot->count; i++) {
		const struct kr_message *message = &slot->messages[i];
		struct kr_view view = kr_plan_view(slot->plan, message->rank);
		int err = kr_view_cursor(&view, message->data, message->bytes, &slot->cursors[i]);

		if (err < 0)
			return err;
		slot->order[i] = &slot->cursors[i];
	}
	return 0;
}

int kr_slot_extents(struct kr_slot *slot)
{
	int err = kr_slot_cursors(slot);

	return err < 0 ? err : kr_extents_union(&slot->extents, slot->order, slot->count, (int64_t)slot->hi);
}

void kr_slot_submit(struct kr_slot *slot)
{
	slot->submitted = true;
	kr_io_submit(&slot->plan->file->io, &slot->job);
}

bool kr_slot_done(struct kr_slot *slot)
{
	return !slot->submitted || kr_io_wait(&slot->plan->file->io, &slot->job, 0);
}

/* A rank that waits for its disk must call MPI now and then: other ranks' messages may only move inside such calls. */
enum { PROGRESS_NS = 200 * 1000 };

bool kr_slot_wait_briefly(struct kr_slot *slot)
{
	return !slot->submitted || kr_io_wait(&slot->plan->file->io, &slot->job, PROGRESS_NS);
}

void kr_slot_retire(struct kr_slot *slot)
{
	struct kr_plan *plan = slot->plan;

	if (!slot->submitted)
		return;
	slot->submitted = false;
	kr_plan_record(plan, kr_mpi_class(slot->job.result));
	plan->file->tally.extents += slot->extents.count;
	kr_plan_trace(plan, plan->access->writing ? KR_TRACE_WRITE : KR_TRACE_READ, slot->round, slot->number,
		slot->job.begin_ns, slot->job.end_ns, slot->extents.bytes);
}

void kr_slot_wait(struct kr_slot *slot)
{
	int flag;

	while (!kr_slot_wait_briefly(slot))
		PMPI_Iprobe(MPI_ANY_SOURCE, KR_TAG_NONE, slot->plan->file->comm, &flag, MPI_STATUS_IGNORE);
}

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

/* A message that this rank expects. */
struct expected {
	uint64_t before, bytes; /* its place among this rank's bytes */
	char *buffer;           /* where it arrives */
	uint64_t got;
};

struct reader {
	struct kr_plan *plan;
	struct kr_slots *slots; /* NULL: not an aggregator */
	struct kr_window *window;
	/* One per aggregator, of the current round. */
	struct expected *expected;
	MPI_Request *requests;
	struct kr_buffer arrived; /* where memory is not one run */
	uint64_t end;             /* the first of this rank's bytes that the file does not have; UINT64_MAX: none so far */
	int class;                /* the first error of this rank */
};

static void note(struct reader *reader, int class)
{
	if (reader->class == MPI_SUCCESS)
		reader->class = class;
}

/* In the I/O thread. */
static int read_slot(struct kr_io_job *job)
{
	struct kr_slot *slot = (struct kr_slot *)job;
	struct kr_mpifile *file = slot->plan->file;
	int err;

	slot->end = slot->lo; /* nothing, until read */
	if (__atomic_load_n(&file->slots.failed, __ATOMIC_RELAXED))
		return 0;
	err = kr_slot_extents(slot);
	if (!err)
		err = kr_buffer_fit(&slot->window, slot->hi - slot->lo);
	if (!err)
		err = kr_mount_read(file->mount, slot->plan->relaxed, slot->extents.runs, slot->extents.count, slot->window.bytes, slot->lo, &slot->end);
	if (err) {
		slot->end = slot->lo;
		__atomic_store_n(&file->slots.failed, true, __ATOMIC_RELAXED);
	}
	return err;
}

/* Has ROUND read into its slot, whose last messages must be gone. */
static void read_ahead(struct reader *reader, uint64_t round)
{
	struct kr_slot *slot;

	if (!reader->slots || round >= reader->plan->rounds)
		return;
	slot = &reader->slots->slots[round % reader->slots->count];
	kr_slot_assign(slot, reader->plan, round);
	if (slot->count == 0)
		return;
	slot->job.run = read_slot;
	kr_slot_submit(slot);
}

/* ---- receiving ---- */

/* The expected messages of a round, all posted at once; where memory is one run they arrive in their place. */
static void post_receives(struct reader *reader, uint64_t round)
{
	struct kr_plan *plan = reader->plan;
	const struct kr_mpifile *file = plan->file;
	uint64_t total = 0;

	for (uint32_t i = 0; i < file->aggregators->count; i++) {
		struct expected *expected = &reader->expected[i];
		uint64_t lo, hi;

		*expected = (struct expected){0};
		reader->requests[i] = MPI_REQUEST_NULL;
		if (kr_stripes_window(&plan->stripes, round, i, &lo, &hi))
			expected->bytes = kr_plan_share(plan, file->rank, (int64_t)lo, (int64_t)hi, &expected->before);
		total += expected->bytes;
	}
	if (!plan->access->contiguous && kr_buffer_fit(&reader->arrived, total) < 0)
		note(reader, MPI_ERR_NO_MEM);
	total = 0;
	for (uint32_t i = 0; i < file->aggregators->count; i++) {
		struct expected *expected = &reader->expected[i];
		char *memory = plan->access->contiguous;

		expected->buffer = memory ? memory + expected->before : reader->arrived.bytes ? reader->arrived.bytes + total : NULL;
		total += expected->bytes;
		if (expected->bytes && (int)file->aggregators->rank[i] != file->rank)
			PMPI_Irecv(expected->buffer, expected->buffer ? (int)expected->bytes : 0, MPI_BYTE, (int)file->aggregators->rank[i],
				KR_TAG_READ, file->comm, &reader->requests[i]);
	}
}

/* Waits for the round's messages.  A short one tells that the file ends there. */
static void take_messages(struct reader *reader)
{
	struct kr_plan *plan = reader->plan;

	for (uint32_t i = 0; i < plan->file->aggregators->count; i++) {
		struct expected *expected = &reader->expected[i];
		MPI_Status status;
		int got = 0;

		if (reader->requests[i] != MPI_REQUEST_NULL) {
			if (PMPI_Wait(&reader->requests[i], &status) != MPI_SUCCESS || PMPI_Get_count(&status, MPI_BYTE, &got) != MPI_SUCCESS)
				note(reader, MPI_ERR_IO);
			expected->got = (uint64_t)got;
		}
		if (expected->got < expected->bytes)
			reader->end = KR_MIN(reader->end, expected->before + expected->got);
		if (expected->buffer && !plan->access->contiguous)
			kr_access_unpack(plan->access, expected->before, expected->buffer, expected->got);
	}
}

/* ---- sending ---- */

/* How many of a message's bytes the file had. */
static uint64_t available(const struct kr_slot *slot, const struct kr_message *message)
{
	struct kr_view view;
	uint64_t below;

	if (slot->end >= slot->hi)
		return message->bytes;
	view = kr_plan_view(slot->plan, message->rank);
	below = kr_view_bytes_below(&view, (int64_t)slot->end);
	return below <= message->data ? 0 : KR_MIN(below - message->data, message->bytes);
}

static void gather(struct kr_slot *slot, struct kr_cursor *cursor, char *to, uint64_t bytes)
{
	struct kr_run run;

	for (; bytes > 0 && kr_cursor_take(cursor, bytes, &run); bytes -= run.length, to += run.length)
		memcpy(to, slot->window.bytes + ((uint64_t)run.offset - slot->lo), run.length);
}

/* The message's bytes where they lie in the window, if they are one run there. */
static const char *in_place(const struct kr_slot *slot, const struct kr_message *message, uint64_t bytes)
{
	struct kr_view view = kr_plan_view(slot->plan, message->rank);
	struct kr_cursor cursor;
	struct kr_run run;

	if (kr_view_cursor(&view, message->data, bytes, &cursor) < 0 || !kr_cursor_next(&cursor, INT64_MAX, &run))
		return NULL;
	return run.length == bytes ? slot->window.bytes + ((uint64_t)run.offset - slot->lo) : NULL;
}

/* To this rank itself: without MPI. */
static void keep_own(struct reader *reader, struct kr_slot *slot, const struct kr_message *message, uint64_t bytes)
{
	const struct kr_mpifile *file = reader->plan->file;
	struct expected *expected = &reader->expected[file->aggregators->index[file->rank]];
	struct kr_view view = reader->plan->access->view;
	struct kr_cursor cursor;

	if (!expected->buffer || kr_view_cursor(&view, message->data, bytes, &cursor) < 0)
		return;
	gather(slot, &cursor, expected->buffer, bytes);
	expected->got = bytes;
}

static void send_message(struct reader *reader, struct kr_slot *slot, const struct kr_message *message)
{
	uint64_t bytes = available(slot, message);
	struct kr_view view = kr_plan_view(slot->plan, message->rank);
	struct kr_cursor cursor;
	const char *place_there;
	char *packed = NULL;
	int place;

	if (message->rank == reader->plan->file->rank) {
		keep_own(reader, slot, message, bytes);
		return;
	}
	place_there = bytes ? in_place(slot, message, bytes) : slot->window.bytes;
	if (place_there) {
		kr_window_send(reader->window, kr_window_place(reader->window), place_there, bytes, message->rank, KR_TAG_READ);
		return;
	}
	place = kr_window_reserve(reader->window, bytes, &packed);
	if (!packed || kr_view_cursor(&view, message->data, bytes, &cursor) < 0) {
		note(reader, MPI_ERR_NO_MEM);
		bytes = 0;
	}
	if (bytes)
		gather(slot, &cursor, packed, bytes);
	kr_window_send(reader->window, place, packed, bytes, message->rank, KR_TAG_READ);
}

static const struct kr_message *message_to(const struct kr_slot *slot, int rank)
{
	size_t low = 0, high = slot->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (slot->messages[middle].rank < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low < slot->count && slot->messages[low].rank == rank ? &slot->messages[low] : NULL;
}

/* Waits for the slot's bytes and sends them out in the order of the schedule.  Returns how many it is about. */
static uint64_t send_round(struct reader *reader, struct kr_slot *slot)
{
	const struct kr_mpifile *file = reader->plan->file;
	uint64_t bytes = 0;

	for (int i = 0; i < file->ranks; i++) {
		const struct kr_message *message = message_to(slot, (int)file->sources[i]);

		if (!message)
			continue;
		send_message(reader, slot, message);
		bytes += message->bytes;
	}
	return bytes;
}

static void wait_for_read(struct reader *reader, struct kr_slot *slot)
{
	bool submitted = slot->submitted;
	int err = kr_slot_wait(slot);

	if (!submitted)
		return;
	note(reader, kr_mpi_class(err));
	reader->plan->file->tally.extents += slot->extents.count;
	kr_plan_trace(reader->plan, KR_TRACE_READ, slot->round, slot->number, slot->job.begin_ns, slot->job.end_ns,
		slot->extents.bytes);
}

static void run_round(struct reader *reader, uint64_t round)
{
	struct kr_slot *slot = reader->slots ? &reader->slots->slots[round % reader->slots->count] : NULL;
	uint64_t start_ns, bytes = 0;

	post_receives(reader, round);
	if (slot)
		wait_for_read(reader, slot);
	start_ns = kr_clock_ns();
	if (slot)
		bytes = send_round(reader, slot);
	take_messages(reader);
	kr_plan_trace(reader->plan, KR_TRACE_EXCHANGE, round, slot ? slot->number : 0, start_ns, kr_clock_ns(), bytes);
	if (slot) { /* its window may still be on its way to slow ranks */
		kr_window_drain(reader->window);
		read_ahead(reader, round + reader->slots->count);
	}
}

static void reader_fini(struct reader *reader)
{
	free(reader->expected);
	free(reader->requests);
	free(reader->arrived.bytes);
}

int kr_twophase_read(struct kr_plan *plan, uint64_t *ret_done)
{
	struct kr_mpifile *file = plan->file;
	struct reader reader = {.plan = plan, .window = &file->window, .end = UINT64_MAX, .class = MPI_SUCCESS};

	reader.expected = kr_xcalloc(file->aggregators->count, sizeof(*reader.expected));
	reader.requests = kr_xcalloc(file->aggregators->count, sizeof(*reader.requests));
	reader.window->failed = MPI_SUCCESS;
	if (file->sources) {
		reader.slots = &file->slots;
		reader.slots->failed = false;
	}
	for (uint64_t round = 0; reader.slots && round < reader.slots->count; round++)
		read_ahead(&reader, round);
	for (uint64_t round = 0; round < plan->rounds; round++)
		run_round(&reader, round);
	kr_window_drain(reader.window);
	note(&reader, reader.window->failed);
	*ret_done = reader.class == MPI_SUCCESS ? KR_MIN(reader.end, plan->access->count) : 0;
	reader_fini(&reader);
	return reader.class;
}

/* Reads in two phases: aggregators read their windows and send, each rank receives its bytes; see twophase.h. */
#include <stdlib.h>
#include <string.h>

#include "common/base/util.h"
#include "mpiio/twophase/mpi_library.h"
#include "mpiio/twophase/slots.h"
#include "mpiio/twophase/twophase.h"
#include "mpiio/twophase/window.h"

/* A message that this rank expects. */
struct expected {
	uint64_t before, bytes; /* its place among this rank's bytes */
	char *buffer;           /* its destination */
	uint64_t got;
};

/* The messages that this rank expects in a round: one per aggregator, also those without bytes. */
struct arrivals {
	struct expected *expected;
	MPI_Request *requests;
	struct kr_buffer buffer; /* if memory is not one run */
	uint32_t taken;          /* messages that have arrived, from the first */
	uint64_t bytes;
};

struct reader {
	struct kr_plan *plan;
	struct arrivals *arrivals; /* of the rounds under way */
	uint32_t depth;            /* how many rounds may be under way */
	uint64_t posted, taken;    /* rounds whose receives are posted; rounds whose messages have arrived */
	uint64_t begun, sent;      /* an aggregator's rounds that the I/O thread has got; that are sent, or under way */
	int source;                /* the next message of round `sent` goes to this one of the file's sources */
	uint64_t end;              /* this rank's first byte behind the file's end; UINT64_MAX: none so far */
};

/* In the I/O thread. */
static int read_slot(struct kr_io_job *job)
{
	struct kr_slot *slot = (struct kr_slot *)job;
	struct kr_mpifile *file = slot->plan->file;
	int err;

	slot->end = slot->lo; /* no bytes, until read */
	if (__atomic_load_n(&file->slots.failed, __ATOMIC_RELAXED))
		return 0;
	err = kr_slot_extents(slot);
	if (!err)
		err = kr_buffer_fit(&slot->window, slot->hi - slot->lo);
	if (!err)
		err = kr_mount_read(file->mount, slot->plan->relaxed, slot->extents.runs, slot->extents.count,
			slot->window.bytes, slot->lo, &slot->end);
	if (err) {
		slot->end = slot->lo;
		__atomic_store_n(&file->slots.failed, true, __ATOMIC_RELAXED);
	}
	return err;
}

static struct arrivals *arrivals_of(const struct reader *reader, uint64_t round)
{
	return &reader->arrivals[round % reader->depth];
}

/* Has the next round read as soon as its slot is free, when its last messages have left.  With one slot one round is
 * under way at a time, its receives included. */
static bool begin_next(struct reader *reader)
{
	struct kr_slot *slot;
	uint64_t depth;

	if (!reader->plan->slots || reader->begun == reader->plan->rounds)
		return false;
	depth = reader->plan->slots->count;
	if (reader->begun - KR_MIN(reader->sent, reader->taken) >= depth ||
		(reader->begun >= depth && kr_window_busy(reader->plan->window, reader->begun - depth)))
		return false;
	slot = kr_plan_slot(reader->plan, reader->begun);
	kr_slot_assign(slot, reader->plan, reader->begun++);
	if (slot->count > 0) {
		slot->job.run = read_slot;
		kr_slot_submit(slot);
	}
	return true;
}

/* ---- receiving ---- */

/* Computes the messages of ROUND.  Returns their number of bytes. */
static uint64_t expect(const struct reader *reader, struct arrivals *arrivals, uint64_t round)
{
	const struct kr_plan *plan = reader->plan;
	const struct kr_mpifile *file = plan->file;
	uint64_t total = 0, lo, hi;

	for (uint32_t i = 0; i < file->aggregators->count; i++) {
		struct expected *expected = &arrivals->expected[i];

		*expected = (struct expected){0};
		if (kr_stripes_window(&plan->stripes, round, i, &lo, &hi))
			expected->bytes = kr_plan_share(plan, file->rank, (int64_t)lo, (int64_t)hi, &expected->before);
		total += expected->bytes;
	}
	return total;
}

/* Posts all receives of the next round at once; if memory is one run messages arrive in their final place. */
static bool post_next(struct reader *reader)
{
	const struct kr_mpifile *file = reader->plan->file;
	char *memory = reader->plan->access->contiguous;
	struct arrivals *arrivals = arrivals_of(reader, reader->posted);
	uint64_t at = 0;

	if (reader->posted == reader->plan->rounds || reader->posted - reader->taken == reader->depth)
		return false;
	arrivals->taken = 0;
	arrivals->bytes = expect(reader, arrivals, reader->posted++);
	if (!memory && kr_buffer_fit(&arrivals->buffer, arrivals->bytes) < 0)
		kr_plan_record(reader->plan, MPI_ERR_NO_MEM);
	for (uint32_t i = 0; i < file->aggregators->count; i++) {
		struct expected *expected = &arrivals->expected[i];
		int from = (int)file->aggregators->rank[i];

		arrivals->requests[i] = MPI_REQUEST_NULL;
		expected->buffer = memory      ? memory + expected->before :
			arrivals->buffer.bytes ? arrivals->buffer.bytes + at :
						 NULL;
		at += expected->bytes;
		if (expected->bytes && from != file->rank)
			PMPI_Irecv(expected->buffer, expected->buffer ? (int)expected->bytes : 0, MPI_BYTE, from,
				KR_TAG_READ, file->comm, &arrivals->requests[i]);
	}
	return true;
}

/* Takes a message that has arrived.  A short one tells that the file ends there. */
static void take_message(struct reader *reader, const struct expected *expected)
{
	struct kr_plan *plan = reader->plan;

	if (expected->got < expected->bytes)
		reader->end = KR_MIN(reader->end, expected->before + expected->got);
	if (expected->got > 0 && !plan->access->contiguous)
		kr_access_unpack(plan->access, expected->before, expected->buffer, expected->got);
}

/* The earliest round that is not complete, if there is one. */
static struct arrivals *arrivals_to_take(const struct reader *reader)
{
	return reader->taken < reader->posted ? arrivals_of(reader, reader->taken) : NULL;
}

/* Finishes the earliest round when all its messages have arrived, also this rank's to itself. */
static bool take_next(struct reader *reader)
{
	struct arrivals *arrivals = arrivals_to_take(reader);
	uint32_t count = reader->plan->file->aggregators->count;
	bool own = reader->plan->slots && reader->sent <= reader->taken; /* may still come */

	if (!arrivals)
		return false;
	while (!own && arrivals->taken < count && arrivals->requests[arrivals->taken] == MPI_REQUEST_NULL)
		take_message(reader, &arrivals->expected[arrivals->taken++]);
	if (arrivals->taken < count)
		return false;
	kr_plan_trace_exchange(reader->plan, reader->taken++, arrivals->bytes);
	return true;
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

/* The message's bytes inside the window, if they are one run there. */
static const char *in_place(const struct kr_slot *slot, const struct kr_message *message, uint64_t bytes)
{
	struct kr_view view = kr_plan_view(slot->plan, message->rank);
	struct kr_cursor cursor;
	struct kr_run run;

	if (kr_view_cursor(&view, message->data, bytes, &cursor) < 0 || !kr_cursor_next(&cursor, INT64_MAX, &run))
		return NULL;
	return run.length == bytes ? slot->window.bytes + ((uint64_t)run.offset - slot->lo) : NULL;
}

/* The message to this rank itself, without MPI. */
static void keep_own(struct reader *reader, struct kr_slot *slot, const struct kr_message *message, uint64_t bytes)
{
	const struct kr_mpifile *file = reader->plan->file;
	struct expected *expected = &arrivals_of(reader, slot->round)->expected[file->aggregators->index[file->rank]];
	struct kr_view view = reader->plan->access->view;
	struct kr_cursor cursor;

	if (!expected->buffer || kr_view_cursor(&view, message->data, bytes, &cursor) < 0)
		return;
	gather(slot, &cursor, expected->buffer, bytes);
	expected->got = bytes;
}

static void send_message(struct reader *reader, struct kr_slot *slot, const struct kr_message *message, int place)
{
	uint64_t bytes = available(slot, message);
	struct kr_view view = kr_plan_view(slot->plan, message->rank);
	const char *from = bytes ? in_place(slot, message, bytes) : slot->window.bytes;
	struct kr_cursor cursor;
	char *packed;

	if (!from) {
		from = packed = kr_window_buffer(reader->plan->window, place, bytes);
		if (packed && kr_view_cursor(&view, message->data, bytes, &cursor) == 0) {
			gather(slot, &cursor, packed, bytes);
		} else {
			kr_plan_record(reader->plan, MPI_ERR_NO_MEM);
			bytes = 0;
		}
	}
	kr_window_send(reader->plan->window, place, slot->round, from, bytes, message->rank, KR_TAG_READ);
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

/* The slot whose messages go out next, if the I/O thread has got one. */
static struct kr_slot *slot_to_send(const struct reader *reader)
{
	return reader->plan->slots && reader->sent < reader->begun ? kr_plan_slot(reader->plan, reader->sent) : NULL;
}

/* Sends the next message in the order of the schedule, once its slot is read. */
static bool send_next(struct reader *reader)
{
	const struct kr_mpifile *file = reader->plan->file;
	struct kr_slot *slot = slot_to_send(reader);

	if (!slot || !kr_slot_done(slot))
		return false;
	kr_slot_retire(slot);
	for (; reader->source < file->ranks; reader->source++) {
		const struct kr_message *message = message_to(slot, (int)file->sources[reader->source]);
		int place;

		if (!message)
			continue;
		if (message->rank == file->rank) {
			keep_own(reader, slot, message, available(slot, message));
			continue;
		}
		place = kr_window_place(reader->plan->window);
		if (place < 0)
			return false;
		send_message(reader, slot, message, place);
		reader->source++;
		return true;
	}
	reader->source = 0;
	reader->sent++;
	return true;
}

/* ---- both ---- */

/* Waits until a send ends, a message arrives, or the next slot to send is read. */
static void wait_for_progress(struct reader *reader)
{
	struct arrivals *arrivals = arrivals_to_take(reader);
	struct kr_slot *slot = slot_to_send(reader);
	MPI_Request *request = NULL;
	struct expected *expected = NULL;
	MPI_Status status;
	int rc, got = 0;

	if (arrivals && arrivals->taken < reader->plan->file->aggregators->count) {
		request = &arrivals->requests[arrivals->taken];
		expected = &arrivals->expected[arrivals->taken];
	}
	if (!kr_window_wait(reader->plan->window, request, &status, &rc, slot && slot->submitted ? slot : NULL))
		return;
	if (rc != MPI_SUCCESS || PMPI_Get_count(&status, MPI_BYTE, &got) != MPI_SUCCESS)
		kr_plan_record(reader->plan, MPI_ERR_IO);
	expected->got = expected->buffer ? (uint64_t)got : 0;
}

static void reader_init(struct reader *reader, struct kr_plan *plan)
{
	const struct kr_mpifile *file = plan->file;
	uint32_t count = file->aggregators->count;

	*reader = (struct reader){.plan = plan, .depth = file->hints.slots, .end = UINT64_MAX};
	reader->arrivals = kr_xcalloc(reader->depth, sizeof(*reader->arrivals));
	for (uint32_t i = 0; i < reader->depth; i++) {
		reader->arrivals[i].expected = kr_xcalloc(count, sizeof(struct expected));
		reader->arrivals[i].requests = kr_xcalloc(count, sizeof(MPI_Request));
	}
}

static void reader_fini(struct reader *reader)
{
	for (uint32_t i = 0; i < reader->depth; i++) {
		free(reader->arrivals[i].expected);
		free(reader->arrivals[i].requests);
		free(reader->arrivals[i].buffer.bytes);
	}
	free(reader->arrivals);
}

uint64_t kr_twophase_read(struct kr_plan *plan)
{
	struct reader reader;

	reader_init(&reader, plan);
	while (reader.taken < plan->rounds || (plan->slots && reader.sent < plan->rounds))
		if (!post_next(&reader) && !begin_next(&reader) && !send_next(&reader) && !take_next(&reader))
			wait_for_progress(&reader);
	kr_window_drain(plan->window);
	kr_plan_trace_exchange(plan, plan->rounds, 0);
	reader_fini(&reader);
	return KR_MIN(reader.end, plan->access->count);
}

/* An aggregator's buffers: one slot per round in flight, so that the exchange of a round overlaps the file I/O of
 * others.
 *
 * A slot's round is one window of the file.  It knows the ranks with bytes there (its messages, ascending by rank) and
 * the window's exact extents. It has buffers for the messages' bytes and for the window's.  Slots are kept from call to
 * call.
 */
#ifndef KR_MPIIO_SLOTS_H
#define KR_MPIIO_SLOTS_H

#include <mpi.h>

#include "mpiio/datatype/extents.h"
#include "mpiio/twophase/io_thread.h"

struct kr_plan;

struct kr_message {
	int rank;
	uint64_t data; /* first data byte, in the rank's view */
	uint64_t bytes;
	uint64_t at; /* position of its bytes in `packed` */
};

struct kr_buffer {
	char *bytes;
	uint64_t capacity;
};

struct kr_slot {
	struct kr_io_job job; /* first: the I/O thread gets a pointer to it */
	bool submitted;
	struct kr_plan *plan;
	uint64_t round;
	uint32_t number;
	uint64_t lo, hi; /* the window; lo == hi: none in this round */
	struct kr_message *messages;
	size_t count;
	MPI_Request *requests; /* a receive per message */
	size_t taken;          /* messages that have arrived, from the first */
	struct kr_buffer packed, window;
	struct kr_cursor *cursors; /* one per message, in file offsets */
	struct kr_cursor **order;
	struct kr_extents extents;
	uint64_t end; /* the file's end if a read saw it, else UINT64_MAX */
};

struct kr_slots {
	struct kr_slot *slots;
	uint32_t count;
	int ranks;
	bool failed; /* an I/O of this call failed: later ones are left out. Atomic. */
};

/* COUNT slots for a communicator of RANKS; keeps those of an earlier call when they fit.  0 or -ENOMEM. */
int kr_slots_prepare(struct kr_slots *slots, uint32_t count, int ranks);
void kr_slots_fini(struct kr_slots *slots);

/* Gives ROUND to SLOT, with its window and messages.  The slot's job must be done. */
void kr_slot_assign(struct kr_slot *slot, struct kr_plan *plan, uint64_t round);
/* Ensures N bytes; the content is lost.  0 or -ENOMEM. */
int kr_buffer_fit(struct kr_buffer *buffer, uint64_t n);
/* The messages' bytes in the file: cursors from the first byte of each. */
int kr_slot_cursors(struct kr_slot *slot);
/* The exact extents of all messages.  0 or -ENOMEM. */
int kr_slot_extents(struct kr_slot *slot);

void kr_slot_submit(struct kr_slot *slot);
/* Whether the slot's job is done, if it has one. */
bool kr_slot_done(struct kr_slot *slot);
/* Waits a moment for the job, short enough for MPI to make progress if the caller then calls MPI. */
bool kr_slot_wait_briefly(struct kr_slot *slot);
/* Drops the job, which must be done, if there is one: its result, its extents and its time go to the plan. */
void kr_slot_retire(struct kr_slot *slot);
/* Waits for the slot's job, if it has one; MPI makes progress meanwhile. */
void kr_slot_wait(struct kr_slot *slot);

#endif

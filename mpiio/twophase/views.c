/* See views.h. */
#include "mpiio/twophase/views.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/table.h"
#include "common/base/util.h"
#include "mpiio/twophase/tags.h"

int kr_views_init(struct kr_views *views, int ranks)
{
	*views = (struct kr_views){.ranks = ranks};
	return kr_typemap_bytes(1, &views->byte);
}

static void forget_known(struct kr_views *views)
{
	for (int rank = 0; views->known && rank < views->ranks; rank++)
		for (int slot = 0; slot < KR_VIEW_SLOTS; slot++)
			kr_view_fini(&views->known[rank][slot]);
	free(views->known);
	views->known = NULL;
}

void kr_views_forget(struct kr_views *views)
{
	forget_known(views);
	for (int slot = 0; slot < KR_VIEW_SLOTS; slot++) {
		free(views->told[slot].bytes);
		views->told[slot] = (struct kr_told){0};
	}
}

void kr_views_fini(struct kr_views *views)
{
	kr_views_forget(views);
	kr_typemap_put(views->byte);
}

/* The slot that holds these bytes, else the one that was not used for longest. */
static uint8_t find_slot(struct kr_views *views, uint64_t hash, const uint8_t *bytes, size_t length)
{
	uint8_t oldest = 0;

	for (uint8_t slot = 0; slot < KR_VIEW_SLOTS; slot++) {
		const struct kr_told *told = &views->told[slot];

		if (told->bytes && told->hash == hash && told->length == length &&
			memcmp(told->bytes, bytes, length) == 0)
			return slot;
		if (told->used < views->told[oldest].used)
			oldest = slot;
	}
	free(views->told[oldest].bytes);
	views->told[oldest] = (struct kr_told){0};
	return oldest;
}

/* What is told of a view: its tiles, from offset 0.  Where it begins is said in each note. */
static int serialise(const struct kr_view *view, uint8_t **ret_bytes, size_t *ret_length)
{
	struct kr_typemap tile = *view->filetype;
	struct kr_view told = {.etype_size = 1, .filetype = &tile};

	tile.displacement = 0;
	return kr_view_serialise(&told, ret_bytes, ret_length);
}

int kr_views_note(struct kr_views *views, const struct kr_view *view, struct kr_view_note *ret_note)
{
	struct kr_view_note note = {.displacement = view->displacement + view->filetype->displacement,
		.contiguous = kr_view_contiguous(view)};
	struct kr_told *told;
	uint8_t *bytes;
	size_t length;
	int err;

	if (note.contiguous) {
		*ret_note = note;
		return 0;
	}
	err = serialise(view, &bytes, &length);
	if (err < 0)
		return err;
	if (length > KR_VIEW_BYTES_MAX) {
		free(bytes);
		return kr_fail(-E2BIG, "a view of %zu bytes", length);
	}
	note.hash = kr_hash_bytes(bytes, length);
	note.bytes = (uint32_t)length;
	note.slot = find_slot(views, note.hash, bytes, length);
	told = &views->told[note.slot];
	note.fresh = told->bytes == NULL;
	told->used = ++views->clock;
	if (note.fresh) {
		told->hash = note.hash;
		told->bytes = bytes;
		told->length = length;
	} else {
		free(bytes);
	}
	*ret_note = note;
	return 0;
}

static const struct kr_view_note *note_of(const void *notes, size_t stride, int rank)
{
	return (const struct kr_view_note *)((const char *)notes + (size_t)rank * stride);
}

/* The lowest rank that tells the same as RANK now. */
static int teller_of(const void *notes, size_t stride, int rank)
{
	const struct kr_view_note *mine = note_of(notes, stride, rank);

	for (int other = 0; other < rank; other++) {
		const struct kr_view_note *note = note_of(notes, stride, other);

		if (note->fresh && note->hash == mine->hash && note->bytes == mine->bytes)
			return other;
	}
	return rank;
}

/* Starts the sends of this rank's own view; *RET_REQUESTS is owned.  Returns their number or -ENOMEM. */
static int start_sends(struct kr_views *views, MPI_Comm comm, int rank, const struct kr_view_note *note,
	const uint32_t *aggregators, uint32_t count, MPI_Request **ret_requests)
{
	MPI_Request *requests = malloc(count * sizeof(*requests));
	int sent = 0;

	if (!requests)
		return kr_fail(-ENOMEM, "no memory for %u requests", count);
	for (uint32_t i = 0; i < count; i++)
		if ((int)aggregators[i] != rank)
			PMPI_Isend(views->told[note->slot].bytes, (int)note->bytes, MPI_BYTE, (int)aggregators[i],
				KR_TAG_VIEW, comm, &requests[sent++]);
	*ret_requests = requests;
	return sent;
}

static int store(struct kr_views *views, int rank, const struct kr_view_note *note, const uint8_t *bytes)
{
	struct kr_view *view;

	if (!views->known)
		return kr_fail(-ENOMEM, "no memory for the views of %d ranks", views->ranks);
	view = &views->known[rank][note->slot];
	kr_view_fini(view);
	*view = (struct kr_view){0};
	return kr_view_deserialise(view, bytes, note->bytes);
}

static int copy_known(struct kr_views *views, int to, const struct kr_view_note *note, const struct kr_view *from)
{
	struct kr_view *view = &views->known[to][note->slot];

	kr_view_fini(view);
	*view = (struct kr_view){0};
	if (!from->filetype)
		return -EBADMSG;
	return kr_view_init(view, from->displacement, from->etype_size, from->filetype);
}

/* Receives what RANK tells; drains it also when there is no memory to keep it. */
static int receive(struct kr_views *views, MPI_Comm comm, int rank, const struct kr_view_note *note)
{
	KR_AUTO_FREE uint8_t *bytes = malloc(note->bytes);

	if (!bytes) {
		PMPI_Recv(NULL, 0, MPI_BYTE, rank, KR_TAG_VIEW, comm, MPI_STATUS_IGNORE); /* truncated, but taken */
		return kr_fail(-ENOMEM, "no memory for a view of %u bytes", note->bytes);
	}
	if (PMPI_Recv(bytes, (int)note->bytes, MPI_BYTE, rank, KR_TAG_VIEW, comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
		return kr_fail(-EIO, "cannot receive a view");
	return store(views, rank, note, bytes);
}

/* At an aggregator, in the order of the ranks; the tellers wait for nobody, so this ends. */
static int receive_all(struct kr_views *views, MPI_Comm comm, int me, const void *notes, size_t stride)
{
	int result = 0;

	for (int rank = 0; rank < views->ranks; rank++) {
		const struct kr_view_note *note = note_of(notes, stride, rank);
		int teller, err;

		if (!note->fresh)
			continue;
		teller = teller_of(notes, stride, rank);
		if (teller != rank)
			err = views->known == NULL ?
				-ENOMEM :
				copy_known(
					views, rank, note, &views->known[teller][note_of(notes, stride, teller)->slot]);
		else
			err = rank == me ? store(views, me, note, views->told[note->slot].bytes) :
					   receive(views, comm, rank, note);
		if (err < 0)
			result = err;
	}
	return result;
}

static bool listed(const uint32_t *aggregators, uint32_t count, int rank)
{
	for (uint32_t i = 0; i < count; i++)
		if ((int)aggregators[i] == rank)
			return true;
	return false;
}

int kr_views_exchange(struct kr_views *views, MPI_Comm comm, int rank, const void *notes, size_t stride,
	const uint32_t *aggregators, uint32_t count)
{
	const struct kr_view_note *own = note_of(notes, stride, rank);
	KR_AUTO_FREE MPI_Request *requests = NULL;
	int sent = 0, err = 0;

	if (own->fresh && teller_of(notes, stride, rank) == rank)
		sent = start_sends(views, comm, rank, own, aggregators, count, &requests);
	if (sent < 0)
		return sent;
	if (listed(aggregators, count, rank)) {
		if (!views->known)
			views->known = calloc((size_t)views->ranks, sizeof(*views->known));
		err = receive_all(views, comm, rank, notes, stride);
	}
	if (sent > 0 && PMPI_Waitall(sent, requests, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
		err = kr_fail(-EIO, "cannot send a view");
	return err;
}

struct kr_view kr_views_get(const struct kr_views *views, int rank, const struct kr_view_note *note)
{
	struct kr_view view = {.etype_size = 1, .filetype = views->byte};

	if (!note->contiguous) {
		assert(views->known);
		view = views->known[rank][note->slot];
	}
	view.displacement = note->displacement;
	return view;
}

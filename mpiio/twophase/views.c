/* See views.h. */
#include "mpiio/twophase/views.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/fail.h"
#include "common/base/table.h"
#include "common/base/util.h"
#include "mpiio/twophase/mpi_library.h"

int kr_views_init(struct kr_views *views, int ranks)
{
	*views = (struct kr_views){.ranks = ranks};
	return kr_typemap_bytes(1, &views->byte);
}

static void forget_known(struct kr_views *views)
{
	for (int rank = 0; views->known && rank < views->ranks; rank++)
		for (int slot = 0; slot < KR_VIEW_SLOTS; slot++)
			kr_typemap_put(views->known[rank][slot]);
	free(views->known);
	views->known = NULL;
}

void kr_views_drop_sent(struct kr_views *views)
{
	forget_known(views);
	for (int slot = 0; slot < KR_VIEW_SLOTS; slot++) {
		free(views->sent[slot].bytes);
		views->sent[slot] = (struct kr_sent_view){0};
	}
}

void kr_views_fini(struct kr_views *views)
{
	kr_views_drop_sent(views);
	kr_typemap_put(views->byte);
}

/* The slot that holds these bytes, else the least recently used one. */
static uint8_t find_slot(struct kr_views *views, uint64_t hash, const uint8_t *bytes, size_t length)
{
	uint8_t oldest = 0;

	for (uint8_t slot = 0; slot < KR_VIEW_SLOTS; slot++) {
		const struct kr_sent_view *sent = &views->sent[slot];

		if (sent->bytes && sent->hash == hash && sent->length == length &&
			memcmp(sent->bytes, bytes, length) == 0)
			return slot;
		if (sent->used < views->sent[oldest].used)
			oldest = slot;
	}
	free(views->sent[oldest].bytes);
	views->sent[oldest] = (struct kr_sent_view){0};
	return oldest;
}

/* The bytes to send of a view: its tile, from offset 0.  Each reference has its position. */
static int serialise(const struct kr_view *view, uint8_t **ret_bytes, size_t *ret_length)
{
	struct kr_typemap tile = *view->filetype;

	tile.displacement = 0;
	return kr_typemap_to_bytes(&tile, ret_bytes, ret_length);
}

int kr_views_refer(struct kr_views *views, const struct kr_view *view, struct kr_view_ref *ret_ref)
{
	struct kr_view_ref ref = {.displacement = view->displacement + view->filetype->displacement,
		.contiguous = kr_view_contiguous(view)};
	struct kr_sent_view *sent;
	uint8_t *bytes;
	size_t length;
	int err;

	if (ref.contiguous) {
		*ret_ref = ref;
		return 0;
	}
	err = serialise(view, &bytes, &length);
	if (err < 0)
		return err;
	if (length > KR_VIEW_BYTES_MAX) {
		free(bytes);
		return kr_fail(-E2BIG, "a view of %zu bytes", length);
	}
	ref.hash = kr_hash_bytes(bytes, length);
	ref.bytes = (uint32_t)length;
	ref.slot = find_slot(views, ref.hash, bytes, length);
	sent = &views->sent[ref.slot];
	ref.fresh = sent->bytes == NULL;
	sent->used = ++views->clock;
	if (ref.fresh) {
		sent->hash = ref.hash;
		sent->bytes = bytes;
		sent->length = length;
	} else {
		free(bytes);
	}
	*ret_ref = ref;
	return 0;
}

static const struct kr_view_ref *ref_of(const void *refs, size_t stride, int rank)
{
	return (const struct kr_view_ref *)((const char *)refs + (size_t)rank * stride);
}

/* The lowest rank that sends the same view as RANK now. */
static int sender_of(const void *refs, size_t stride, int rank)
{
	const struct kr_view_ref *mine = ref_of(refs, stride, rank);

	for (int other = 0; other < rank; other++) {
		const struct kr_view_ref *ref = ref_of(refs, stride, other);

		if (ref->fresh && ref->hash == mine->hash && ref->bytes == mine->bytes)
			return other;
	}
	return rank;
}

/* Starts the sends of this rank's own view; *RET_REQUESTS is owned.  Returns their number or -ENOMEM. */
static int start_sends(struct kr_views *views, MPI_Comm comm, int rank, const struct kr_view_ref *ref,
	const uint32_t *aggregators, uint32_t count, MPI_Request **ret_requests)
{
	MPI_Request *requests = malloc(count * sizeof(*requests));
	int sent = 0;

	if (!requests)
		return kr_fail(-ENOMEM, "no memory for %u requests", count);
	for (uint32_t i = 0; i < count; i++)
		if ((int)aggregators[i] != rank)
			PMPI_Isend(views->sent[ref->slot].bytes, (int)ref->bytes, MPI_BYTE, (int)aggregators[i],
				KR_TAG_VIEW, comm, &requests[sent++]);
	*ret_requests = requests;
	return sent;
}

/* The tile in a rank's bytes, if it can be a view's. */
static int read_tile(const uint8_t *bytes, size_t length, struct kr_typemap **ret_tile)
{
	struct kr_typemap *map;
	struct kr_view view;
	int err = kr_typemap_from_bytes(bytes, length, &map);

	if (err < 0)
		return err;
	err = kr_view_init(&view, 0, 1, map);
	kr_typemap_put(map);
	*ret_tile = view.filetype;
	return err;
}

/* Receives RANK's view; drains it also without memory to keep it. */
static int receive(MPI_Comm comm, int rank, const struct kr_view_ref *ref, struct kr_typemap **ret_tile)
{
	KR_AUTO_FREE uint8_t *bytes = malloc(ref->bytes);

	if (!bytes) {
		PMPI_Recv(NULL, 0, MPI_BYTE, rank, KR_TAG_VIEW, comm, MPI_STATUS_IGNORE); /* truncated, but received */
		return kr_fail(-ENOMEM, "no memory for a view of %u bytes", ref->bytes);
	}
	if (PMPI_Recv(bytes, (int)ref->bytes, MPI_BYTE, rank, KR_TAG_VIEW, comm, MPI_STATUS_IGNORE) != MPI_SUCCESS)
		return kr_fail(-EIO, "cannot receive a view");
	return read_tile(bytes, ref->bytes, ret_tile);
}

/* RANK's fresh tile as an owned reference: from itself, or from the rank that sends it for all. */
static int take_tile(struct kr_views *views, MPI_Comm comm, int me, const void *refs, size_t stride, int rank,
	struct kr_typemap **ret_tile)
{
	const struct kr_view_ref *ref = ref_of(refs, stride, rank);
	int sender = sender_of(refs, stride, rank);
	struct kr_typemap *tile;

	if (sender == rank)
		return rank == me ? read_tile(views->sent[ref->slot].bytes, ref->bytes, ret_tile) :
				    receive(comm, rank, ref, ret_tile);
	tile = views->known ? views->known[sender][ref_of(refs, stride, sender)->slot] : NULL;
	if (!tile)
		return -EBADMSG;
	*ret_tile = kr_typemap_get(tile);
	return 0;
}

/* At an aggregator, in the order of the ranks; the senders wait for no rank, so this ends. */
static int receive_all(struct kr_views *views, MPI_Comm comm, int me, const void *refs, size_t stride)
{
	int result = views->known ? 0 : kr_fail(-ENOMEM, "no memory for the views of %d ranks", views->ranks);

	for (int rank = 0; rank < views->ranks; rank++) {
		const struct kr_view_ref *ref = ref_of(refs, stride, rank);
		struct kr_typemap *tile = NULL, **slot = views->known ? &views->known[rank][ref->slot] : &tile;
		int err;

		if (!ref->fresh)
			continue;
		kr_typemap_put(*slot);
		*slot = NULL;
		err = take_tile(views, comm, me, refs, stride, rank, slot);
		if (err < 0)
			result = err;
		if (slot == &tile)
			kr_typemap_put(tile);
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

int kr_views_exchange(struct kr_views *views, MPI_Comm comm, int rank, const void *refs, size_t stride,
	const uint32_t *aggregators, uint32_t count)
{
	const struct kr_view_ref *own = ref_of(refs, stride, rank);
	KR_AUTO_FREE MPI_Request *requests = NULL;
	int sent = 0, err = 0;

	if (own->fresh && sender_of(refs, stride, rank) == rank)
		sent = start_sends(views, comm, rank, own, aggregators, count, &requests);
	if (sent < 0)
		return sent;
	if (listed(aggregators, count, rank)) {
		if (!views->known)
			views->known = calloc((size_t)views->ranks, sizeof(*views->known));
		err = receive_all(views, comm, rank, refs, stride);
	}
	if (sent > 0 && PMPI_Waitall(sent, requests, MPI_STATUSES_IGNORE) != MPI_SUCCESS)
		err = kr_fail(-EIO, "cannot send a view");
	return err;
}

struct kr_view kr_views_get(const struct kr_views *views, int rank, const struct kr_view_ref *ref)
{
	struct kr_view view = {.etype_size = 1, .filetype = views->byte};

	if (!ref->contiguous) {
		assert(views->known);
		view.filetype = views->known[rank][ref->slot];
	}
	view.displacement = ref->displacement;
	return view;
}

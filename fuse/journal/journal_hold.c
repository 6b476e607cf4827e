/* The holders of the bytes of the journal's records, and which records are dead: holds, releases, cuts, marks.  See
 * journal.h and journal_format.h.
 *
 * Any thread; the lock covers each step.  A record without a holder is marked dead in its slot.  Then
 * kr_journal_retire checks whether the segment has become free.
 */
#include <assert.h>
#include <stdlib.h>

#include "common/base/fault.h"
#include "fuse/journal/sigbus_guard.h"
#include "fuse/journal/journal_priv.h"
#include "fuse/journal/journal_record.h"

struct kr_segment *kr_journal_segment(struct kr_journal *journal, uint64_t number)
{
	struct kr_segment *segment;

	if (journal->active && journal->active->number == number)
		return journal->active;
	KR_LIST_FOR_EACH(segment, &journal->segments, link)
		if (segment->number == number)
			return segment;
	abort();
}

uint32_t kr_segment_slot(const struct kr_segment *segment, uint32_t place)
{
	uint32_t low = 0, high = segment->used_slots;

	while (low < high) { /* the first slot whose data begins behind PLACE */
		uint32_t middle = low + (high - low) / 2;

		if (segment->states[middle].data > place)
			high = middle;
		else
			low = middle + 1;
	}
	assert(low > 0);
	low--;
	assert(place - segment->states[low].data < segment->states[low].length);
	return low;
}

void kr_slot_hold(struct kr_journal *journal, struct kr_segment *segment, uint32_t slot, uint32_t bytes)
{
	struct kr_slot_state *state = &segment->states[slot];

	if (state->held == 0) {
		segment->alive++;
		journal->live += state->length;
	}
	state->held += bytes;
}

static void store_dead(void *context)
{
	struct kr_journal_record *record = context;

	if (record->check != 0)
		__atomic_store_n(&record->keep, kr_journal_keep(record->check, 0), __ATOMIC_RELEASE);
}

/* The record is needed no more: says so in its slot, if it ever got there.  When the disk cannot take the mark, a start
 * finds the record once more (see journal.h), with its data. */
static void mark_dead(struct kr_segment *segment, uint32_t slot)
{
	int err = KR_FAULT("journal.mark");

	if (err == 0)
		err = kr_sigbus_guard(store_dead, &segment->slots[slot]);
	if (err)
		segment->states[slot].unmarked = true;
}

/* The segment may be gone afterwards. */
static void release_slot(struct kr_journal *journal, struct kr_segment *segment, uint32_t slot, uint32_t bytes)
{
	struct kr_slot_state *state = &segment->states[slot];

	assert(state->held >= bytes);
	state->held -= bytes;
	if (state->held > 0)
		return;
	mark_dead(segment, slot);
	segment->alive--;
	journal->live -= state->length;
	journal->died += state->length;
	kr_journal_retire(journal, segment);
}

/* Whether a writer waits and can be told that there is room again, or enough dead bytes to make some. */
static bool space_came(struct kr_journal *journal)
{
	bool room = journal->used + KR_SEGMENT_DATA_MIN / 2 <= journal->options.max;
	bool holes = !journal->no_punch && journal->died >= journal->data_size / 4;

	if (!journal->waiting || !(room || holes))
		return false;
	journal->waiting = false;
	kr_journal_try_again(journal);
	return true;
}

/* Calls DO_SLOT for each record that PIECE lies in, with the bytes of it. */
static void for_each_slot(struct kr_journal *journal, const struct kr_extent *piece,
	void (*do_slot)(struct kr_journal *, struct kr_segment *, uint32_t slot, uint32_t bytes))
{
	struct kr_segment *segment = kr_journal_segment(journal, piece->position >> 32);
	uint32_t place = (uint32_t)piece->position;
	uint64_t left = piece->length;

	for (uint32_t slot = kr_segment_slot(segment, place); left > 0; slot++) {
		const struct kr_slot_state state = segment->states[slot];
		uint32_t bytes;

		if (state.length == 0) /* a damaged one between */
			continue;
		assert(place >= state.data && place - state.data < state.length);
		bytes = state.length - (place - state.data);
		if (bytes > left)
			bytes = (uint32_t)left;
		left -= bytes;
		place += bytes;
		do_slot(journal, segment, slot, bytes); /* may free the segment with the last byte */
	}
}

/* Gives the lock back, and wakes a writer that waits for room. */
static void unlock_and_tell(struct kr_journal *journal)
{
	const bool tell = space_came(journal);

	kr_journal_unlock(journal);
	if (tell && journal->options.on_space)
		journal->options.on_space(journal->options.context);
}

void kr_journal_hold(struct kr_journal *journal, const struct kr_extent *piece)
{
	KR_SCOPED_LOCK(&journal->lock);
	for_each_slot(journal, piece, kr_slot_hold);
}

void kr_journal_release(void *context, const struct kr_extent *piece)
{
	struct kr_journal *journal = context;

	pthread_mutex_lock(&journal->lock);
	for_each_slot(journal, piece, release_slot);
	unlock_and_tell(journal);
}

void kr_journal_pin(struct kr_journal *journal, const struct kr_extent *piece)
{
	KR_SCOPED_LOCK(&journal->lock);
	kr_journal_segment(journal, piece->position >> 32)->pins++;
	journal->pins++;
}

void kr_journal_unpin(struct kr_journal *journal, const struct kr_extent *piece)
{
	struct kr_segment *segment;

	pthread_mutex_lock(&journal->lock);
	segment = kr_journal_segment(journal, piece->position >> 32);
	assert(segment->pins > 0);
	segment->pins--;
	journal->pins--;
	kr_journal_retire(journal, segment);
	unlock_and_tell(journal);
}

struct pieces {
	struct kr_extent *list;
	size_t count;
};

static void collect_piece(void *context, const struct kr_extent *piece)
{
	struct pieces *pieces = context;

	pieces->list[pieces->count++] = *piece;
}

static int compare_seq(const void *a, const void *b)
{
	const struct kr_extent *x = a, *y = b;

	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

void kr_journal_release_until(struct kr_journal *journal, struct kr_extent_map *map, uint64_t seq)
{
	struct pieces pieces = {.list = kr_xcalloc(map->count + 1, sizeof(*pieces.list))};

	kr_extent_map_drop_until(map, seq, collect_piece, &pieces);
	qsort(pieces.list, pieces.count, sizeof(*pieces.list), compare_seq);
	for (size_t i = 0; i < pieces.count; i++)
		kr_journal_release(journal, &pieces.list[i]);
	free(pieces.list);
}

void kr_journal_release_map(struct kr_journal *journal, struct kr_extent_map *map)
{
	(void)KR_FAULT("journal.stable");
	kr_journal_release_until(journal, map, UINT64_MAX);
}

struct cut {
	struct kr_journal_record *record;
	uint64_t size;
};

static void store_cut(void *context)
{
	struct cut *cut = context;
	struct kr_journal_record *record = cut->record;
	uint32_t kept = record->offset >= cut->size ? 0 : (uint32_t)KR_MIN(cut->size - record->offset, record->length),
		 before;

	if (kr_journal_kept(record, record->length, &before) && kept < before)
		__atomic_store_n(&record->keep, kr_journal_keep(record->check, kept), __ATOMIC_RELEASE);
}

static void trim_slot(struct kr_segment *segment, uint32_t slot, uint64_t size)
{
	(void)kr_sigbus_guard(store_cut, &(struct cut){&segment->slots[slot], size});
}

struct trim {
	struct kr_journal *journal;
	uint64_t size;
};

/* Every record behind the extent, not only the visible piece: what newer bytes covered may lie beyond the end as
 * well. */
static void trim_extent(void *context, const struct kr_extent *extent)
{
	struct trim *trim = context;
	struct kr_segment *segment = kr_journal_segment(trim->journal, extent->position >> 32);
	uint32_t place = (uint32_t)extent->position, end = place + (uint32_t)extent->length;

	for (uint32_t slot = kr_segment_slot(segment, place);
		slot < segment->used_slots && segment->states[slot].data < end; slot++)
		if (segment->states[slot].length > 0)
			trim_slot(segment, slot, trim->size);
}

void kr_journal_trim(struct kr_journal *journal, const struct kr_extent_map *map, uint64_t size)
{
	struct trim trim = {journal, size};

	KR_SCOPED_LOCK(&journal->lock);
	kr_extent_map_for_each(map, trim_extent, &trim);
}

/* Whether good bytes of a damaged segment have not gone their way yet. */
static bool names_are_borrowed(const struct kr_journal *journal)
{
	const struct kr_segment *segment;

	KR_LIST_FOR_EACH(segment, &journal->segments, link) {
		if (segment->set_aside && !segment->lends_name && segment->alive > 0)
			return true;
	}
	return false;
}

void kr_journal_discard_damage(struct kr_journal *journal)
{
	struct kr_segment *segment, *next;
	bool borrowed;

	pthread_mutex_lock(&journal->lock);
	borrowed = names_are_borrowed(journal);
	KR_LIST_FOR_EACH_SAFE(segment, next, &journal->segments, link) {
		if (!segment->set_aside || (segment->lends_name && borrowed)) /* the next start looks again */
			continue;
		for (uint32_t slot = 0; slot < segment->used_slots; slot++)
			if (segment->states[slot].held == 0 && !segment->states[slot].name)
				mark_dead(segment, slot);
		segment->set_aside = false;
		journal->set_aside -= kr_segment_cost(segment);
		journal->used += kr_segment_cost(segment);
		kr_journal_retire(journal, segment);
	}
	kr_journal_unlock(journal);
}

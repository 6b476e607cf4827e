/* The journal's space: what is dead gives its room back (SPACE in journal_format.h).
 *
 * A segment all of whose records are dead goes by itself (kr_journal_retire).  This is for the rest, when an append
 * finds the disk or journal_max full: dead records beside live ones, a dead active segment, spare ones.
 * Why no byte is lost.  The reclaimer punches only data of slots without a holder that say so on the disk, and such a
 * slot is never held again.  An `in_flight` of the reclaimer's own keeps the segment from reuse, and the end of its
 * data from moving back.  It leaves pinned segments alone.  The reclaimer does not touch what is behind used_data when
 * it looks at the slots.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "common/base/fault.h"
#include "fuse/journal/journal_priv.h"

enum { BLOCK = 4096 }; /* smaller pieces free nothing on the filesystems we know */

struct hole {
	uint32_t from, to;
};

/* The holes to punch in one segment. */
struct holes {
	struct kr_segment *segment;
	struct hole *list;
	uint32_t count;
	uint64_t bytes; /* in all of them */
};

static void add_hole(struct holes *holes, uint64_t from, uint64_t to)
{
	from = (from + BLOCK - 1) & ~(uint64_t)(BLOCK - 1);
	to &= ~(uint64_t)(BLOCK - 1);
	if (from >= to)
		return;
	holes->bytes += to - from;
	if (holes->list)
		holes->list[holes->count] = (struct hole){(uint32_t)from, (uint32_t)to};
	holes->count++;
}

/* The stretches between the data of records that a start will look at.  Without a list they are only counted. */
static void find_holes(struct kr_segment *segment, struct holes *holes)
{
	uint64_t from = 0;

	holes->count = 0;
	holes->bytes = 0;
	for (uint32_t slot = 0; slot < segment->used_slots; slot++) {
		const struct kr_slot_state *state = &segment->states[slot];

		if (state->length == 0 || (state->held == 0 && !state->name && !state->unmarked))
			continue;
		add_hole(holes, from, state->data);
		from = (uint64_t)state->data + state->length;
	}
	add_hole(holes, from, segment->used_data);
}

/* Takes SEGMENT's holes if they are worth the trouble.  The lock is held. */
static bool take_holes(struct kr_segment *segment, uint64_t worth, struct holes *ret)
{
	*ret = (struct holes){.segment = segment};
	if (segment->set_aside || segment->unsynced || segment->pins > 0 || segment->data_fd < 0)
		return false;
	find_holes(segment, ret);
	if (ret->bytes < segment->punched + worth)
		return false;
	ret->list = calloc(ret->count, sizeof(*ret->list));
	if (!ret->list)
		return false;
	find_holes(segment, ret);
	segment->in_flight++;
	return true;
}

/* The marks are on the disk before the data goes: else, after a loss of power, dead records would be damaged ones. */
static int punch(const struct holes *holes)
{
	struct kr_segment *segment = holes->segment;
	int err = kr_segment_sync_index(segment);

	for (uint32_t i = 0; i < holes->count && err == 0; i++) {
		const struct hole *hole = &holes->list[i];

		err = KR_FAULT("journal.punch");
		if (err == 0 &&
			fallocate(segment->data_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, hole->from,
				hole->to - hole->from) < 0)
			err = -errno;
	}
	return err;
}

/* Returns whether there may be more; *GAINED: blocks came free. */
static bool punch_one(struct kr_journal *journal, uint64_t worth, bool *gained)
{
	struct kr_segment *segment;
	struct holes holes = {0};
	bool found = false, more;
	int err;

	pthread_mutex_lock(&journal->lock);
	KR_LIST_FOR_EACH(segment, &journal->segments, link) {
		found = take_holes(segment, worth, &holes);
		if (found)
			break;
	}
	pthread_mutex_unlock(&journal->lock);
	if (!found)
		return false;
	err = punch(&holes);
	free(holes.list);
	pthread_mutex_lock(&journal->lock);
	if (err == 0) {
		journal->used -= holes.bytes - segment->punched;
		segment->punched = holes.bytes;
	}
	if (err == -EOPNOTSUPP || err == -ENOSYS)
		journal->no_punch = true; /* whole segments still come free */
	*gained |= err == 0;
	more = err == 0 || segment->unsynced; /* which is not found again */
	segment->in_flight--;
	kr_journal_retire(journal, segment);
	kr_journal_unlock(journal);
	return more;
}

/* A dead active segment begins anew, in the blocks it has; spare ones go when the disk is full.  The lock is held. */
static bool recycle(struct kr_journal *journal, bool disk_full)
{
	struct kr_segment *active = journal->active;
	struct kr_link *link;
	bool gained = false;

	while (disk_full && (link = kr_list_pop(&journal->spares))) {
		journal->spare_count--;
		kr_list_append(&journal->condemned, link);
		gained = true;
	}
	if (active && active->alive == 0 && active->in_flight == 0 && active->pins == 0 && !active->set_aside &&
		active->used_data > 0) {
		journal->active = NULL;
		kr_journal_retire(journal, active);
		gained = true;
	}
	return gained;
}

bool kr_journal_reclaim(struct kr_journal *journal, bool disk_full)
{
	uint64_t worth = disk_full ? BLOCK : journal->data_size / 4;
	bool gained, look;

	pthread_mutex_lock(&journal->reclaiming);
	pthread_mutex_lock(&journal->lock);
	gained = recycle(journal, disk_full);
	look = !journal->no_punch && journal->died >= worth;
	if (look)
		journal->died = 0;
	kr_journal_unlock(journal);
	while (look && punch_one(journal, worth, &gained))
		;
	pthread_mutex_unlock(&journal->reclaiming);
	return gained;
}

void kr_journal_unlock(struct kr_journal *journal)
{
	struct kr_list gone;
	struct kr_segment *segment;

	kr_list_init(&gone);
	kr_list_move(&journal->condemned, &gone);
	pthread_mutex_unlock(&journal->lock);
	while ((segment = KR_LIST_POP(&gone, struct kr_segment, link)))
		kr_segment_free(journal, segment, true);
}

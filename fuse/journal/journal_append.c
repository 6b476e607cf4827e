/* The journal's appends: reservation, bytes, records (WRITING in journal_format.h).
 *
 * Any thread; appends of different files run in parallel: the lock covers the reservation and the end, not the I/O.
 */
#include <assert.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "common/base/buf.h"
#include "common/base/fail.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "fuse/journal/sigbus_guard.h"
#include "fuse/journal/journal_priv.h"
#include "fuse/journal/journal_record.h"

enum {
	RECLAIMS = 3, /* attempts of one append to make room, before it fails */
	SAY_AGAIN_S = 60,
};

/* The slots and the place in k.data that one append has reserved. */
struct reservation {
	struct kr_segment *segment;
	uint32_t first_slot, slots; /* the name's included */
	uint64_t seq;               /* of the first slot */
	bool has_name;
	uint32_t name_data, data; /* where in k.data */
	uint64_t before;          /* used_data without this append */
};

static uint64_t align_up(uint64_t value, uint64_t to)
{
	return (value + to - 1) & ~(to - 1);
}

static uint32_t name_length(const struct kr_journal_file *file)
{
	return 1u + file->fid.length + (uint32_t)(file->hint ? strlen(file->hint) : 0);
}

/* Places an append in SEGMENT; false: no room. */
static bool place(
	struct kr_segment *segment, const struct kr_journal_file *file, size_t length, struct reservation *ret)
{
	uint64_t end = segment->used_data;

	*ret = (struct reservation){.segment = segment, .first_slot = segment->used_slots, .before = end};
	ret->slots = (uint32_t)((length + KR_JOURNAL_RECORD_MAX - 1) / KR_JOURNAL_RECORD_MAX);
	ret->has_name = file->named_in != segment->number;
	if (ret->has_name) {
		ret->slots++;
		ret->name_data = (uint32_t)align_up(end, KR_JOURNAL_ALIGN_SMALL);
		end = ret->name_data + name_length(file);
	}
	ret->data = (uint32_t)align_up(end, length < KR_JOURNAL_ALIGN ? KR_JOURNAL_ALIGN_SMALL : KR_JOURNAL_ALIGN);
	return ret->data + length <= segment->data_size && segment->used_slots + ret->slots <= segment->slot_count;
}

/* Makes the next segment the active one; the old one may be free already.  The lock is held. */
static int next_segment(struct kr_journal *journal)
{
	struct kr_segment *old = journal->active, *segment;
	int err = kr_segment_begin(journal, &segment);

	if (err)
		return err;
	kr_list_append(&journal->segments, &segment->link);
	journal->segment_count++;
	journal->used += kr_segment_cost(segment);
	journal->active = segment;
	if (old)
		kr_journal_retire(journal, old);
	return 0;
}

static void take_slots(struct kr_journal *journal, struct reservation *r, size_t length)
{
	struct kr_segment *segment = r->segment;
	uint32_t slot = r->first_slot;

	journal->used -= kr_segment_cost(segment);
	if (r->has_name)
		segment->states[slot++] =
			(struct kr_slot_state){.data = r->name_data, .length = r->data - r->name_data, .name = true};
	for (size_t done = 0; done < length; done += KR_JOURNAL_RECORD_MAX, slot++) {
		uint32_t bytes = (uint32_t)KR_MIN(length - done, (size_t)KR_JOURNAL_RECORD_MAX);

		segment->states[slot] = (struct kr_slot_state){.data = r->data + (uint32_t)done, .length = bytes};
		kr_slot_hold(journal, segment, slot, bytes);
	}
	segment->used_slots = slot;
	segment->used_data = r->data + length;
	segment->in_flight++;
	journal->used += kr_segment_cost(segment);
	r->seq = journal->next_seq;
	journal->next_seq += r->slots;
}

static int reserve(struct kr_journal *journal, struct kr_journal_file *file, size_t length, struct reservation *ret)
{
	KR_SCOPED_LOCK(&journal->lock);
	if (journal->used + length + KR_JOURNAL_RECORD_SIZE > journal->options.max) {
		journal->waiting = true;
		journal->full = 0;
		return kr_fail(-EAGAIN, "the journal has reached its maximum");
	}
	if (!journal->active || !place(journal->active, file, length, ret)) {
		int err = next_segment(journal);

		if (err)
			return err;
		if (!place(journal->active, file, length, ret))
			assert(false && "an append fits into an empty segment");
	}
	if (file->number == 0)
		file->number = journal->next_file++;
	file->named_in = ret->segment->number;
	take_slots(journal, ret, length);
	return 0;
}

static void store_nothing(void *context)
{
	struct kr_journal_record *record = context;

	if (record->check != 0)
		__atomic_store_n(&record->check, 0, __ATOMIC_RELEASE);
}

/* A failed append: its slots are nothing, also those that had been stored before one could not be.  If no append came
 * after it, and no reclaimer looks at the slots, its place is given out again.  The lock is held. */
static void undo(struct kr_journal *journal, const struct reservation *r)
{
	struct kr_segment *segment = r->segment;
	bool stuck = false;

	for (uint32_t slot = r->first_slot; slot < r->first_slot + r->slots; slot++) {
		struct kr_slot_state *state = &segment->states[slot];

		if (state->held > 0) {
			journal->live -= state->length;
			segment->alive--;
		}
		state->held = 0;
		state->name = false;
		state->unmarked = kr_sigbus_guard(store_nothing, &segment->slots[slot]) < 0;
		stuck |= state->unmarked;
	}
	if (stuck || segment->in_flight > 1 || segment->used_slots != r->first_slot + r->slots)
		return;
	journal->used -= kr_segment_cost(segment);
	segment->used_slots = r->first_slot;
	segment->used_data = r->before;
	journal->used += kr_segment_cost(segment);
}

/* Ends the append: on success its slots are valid. */
static void finish(struct kr_journal *journal, struct kr_journal_file *file, const struct reservation *r, bool good)
{
	pthread_mutex_lock(&journal->lock);
	if (!good) {
		file->named_in = 0;
		undo(journal, r);
	}
	r->segment->in_flight--;
	kr_journal_retire(journal, r->segment);
	kr_journal_unlock(journal);
}

struct storing {
	struct kr_journal_record *to, *from;
};

static void store(void *context)
{
	const struct storing *storing = context;

	memcpy((char *)storing->to + offsetof(struct kr_journal_record, keep),
		(char *)storing->from + offsetof(struct kr_journal_record, keep),
		sizeof(*storing->from) - offsetof(struct kr_journal_record, keep));
	__atomic_store_n(&storing->to->check, storing->from->check, __ATOMIC_RELEASE);
}

static int store_record(
	struct kr_journal *journal, struct kr_segment *segment, uint32_t slot, struct kr_journal_record *record)
{
	record->check = kr_journal_record_check(record, segment->salt);
	return kr_segment_store(journal, segment, KR_JOURNAL_HEADER_SIZE + (uint64_t)slot * sizeof(*record),
		sizeof(*record), store, &(struct storing){&segment->slots[slot], record});
}

static int write_name(const struct kr_journal_file *file, const struct reservation *r, struct kr_journal_record *record)
{
	uint8_t bytes[1 + KR_FID_MAX + KR_JOURNAL_HINT_MAX];
	uint32_t length = name_length(file);

	bytes[0] = file->fid.length;
	memcpy(bytes + 1, file->fid.bytes, file->fid.length);
	if (file->hint)
		memcpy(bytes + 1 + file->fid.length, file->hint, length - 1 - file->fid.length);
	*record = (struct kr_journal_record){
		.seq = r->seq,
		.file = file->number,
		.type = KR_JOURNAL_NAME,
		.length = length,
		.data = r->name_data,
		.data_check = kr_checksum(bytes, length),
	};
	return kr_pwrite_full(r->segment->data_fd, bytes, length, r->name_data);
}

/* Steps 2 and 3 of WRITING: the bytes, then the records, in the order of the slots. */
static int write_out(struct kr_journal *journal, const struct kr_journal_file *file, const struct reservation *r,
	const uint8_t *data, size_t length, struct kr_journal_record *record)
{
	struct kr_journal_record records[KR_JOURNAL_APPEND_MAX / KR_JOURNAL_RECORD_MAX + 1];
	uint32_t count = 0;
	int err = KR_FAULT("journal.append");

	if (err == 0 && r->has_name)
		err = write_name(file, r, &records[count++]);
	for (size_t done = 0; done < length && err == 0; done += KR_JOURNAL_RECORD_MAX) {
		record->length = (uint32_t)KR_MIN(length - done, (size_t)KR_JOURNAL_RECORD_MAX);
		record->data = r->data + (uint32_t)done;
		record->data_check = kr_checksum(data + done, record->length);
		record->seq = r->seq + count;
		records[count++] = *record;
		record->offset += record->length;
		err = kr_pwrite_full(r->segment->data_fd, data + done, record->length, record->data);
	}
	if (err == 0)
		err = KR_FAULT("journal.index");
	for (uint32_t i = 0; i < count && err == 0; i++)
		err = store_record(journal, r->segment, r->first_slot + i, &records[i]);
	return err;
}

static int try_append(struct kr_journal *journal, struct kr_journal_file *file, uint64_t offset, const void *data,
	size_t length, struct kr_time mtime, bool clear_suid, struct kr_extent *ret_extent)
{
	struct kr_journal_record record = {
		.type = KR_JOURNAL_WRITE,
		.flags = clear_suid ? KR_JOURNAL_CLEAR_SUID : 0,
		.offset = offset,
		.mtime_ns = mtime.sec * (int64_t)KR_NS_PER_S + mtime.nsec,
	};
	struct reservation r = {0};
	int err;

	err = reserve(journal, file, length, &r);
	if (err)
		return err;
	record.file = file->number;
	err = write_out(journal, file, &r, data, length, &record);
	finish(journal, file, &r, err == 0);
	if (err)
		return kr_fail_errno(err, "the journal cannot be written");
	*ret_extent = (struct kr_extent){
		.offset = offset,
		.length = length,
		.position = r.segment->number << 32 | r.data,
		.seq = r.seq + r.slots - 1,
	};
	return 0;
}

/* The errno that a program gets for an error ERR of the local disk: how it is full, else that it is broken (EIO).  The
 * program has no use for the details (a removed directory, a filesystem made read-only). */
static int disk_error(struct kr_journal *journal, int err)
{
	if (err == -EAGAIN)
		return err;
	pthread_mutex_lock(&journal->lock);
	if (err && journal->error != err)
		kr_log_error("%s: the journal cannot be written: %s; writes fail until it can",
			journal->options.directory, strerror(-err));
	journal->error = err;
	pthread_mutex_unlock(&journal->lock);
	return err == 0 || err == -ENOSPC || err == -EDQUOT || err == -ENOMEM ?
		err :
		kr_fail_errno(-EIO, "%s", kr_fail_reason());
}

/* Room for one more append, of the journal's own or of others on the disk. */
static bool make_room(struct kr_journal *journal, bool disk_full)
{
	const struct kr_journal_options *options = &journal->options;

	return kr_journal_reclaim(journal, disk_full) ||
		(disk_full && options->make_room && options->make_room(options->context, 2 * journal->data_size));
}

/* Whether, on a full disk, the journal itself has bytes that will go: when the server has them, or when the stage that
 * has pinned them has read them. */
static bool holds_bytes(struct kr_journal *journal, int err)
{
	KR_SCOPED_LOCK(&journal->lock);
	if (journal->live == 0 && journal->pins == 0)
		return false;
	if (!journal->full_said_ns || kr_clock_ns() - journal->full_said_ns > SAY_AGAIN_S * KR_NS_PER_S) {
		kr_log_warn("%s: the journal cannot grow: %s; writes wait until the server has more of it",
			journal->options.directory, strerror(-err));
		journal->full_said_ns = kr_clock_ns();
	}
	journal->waiting = true;
	journal->full = err;
	return true;
}

void kr_journal_try_again(struct kr_journal *journal)
{
	atomic_store_explicit(&journal->refused, 0, memory_order_relaxed);
}

/* Hundreds of writers may wait, and the disk answers slowly that it is full: one of them tries.  But a writer that
 * needs less may find room. */
static bool is_refused(const struct kr_journal *journal, size_t length)
{
	const size_t refused = atomic_load_explicit(&journal->refused, memory_order_relaxed);

	return refused && length >= refused;
}

/* Only if nothing came free meanwhile: no waiting writer would be told of that again. */
static void note_refused(struct kr_journal *journal, size_t length)
{
	KR_SCOPED_LOCK(&journal->lock);
	if (journal->waiting)
		atomic_store_explicit(&journal->refused, length, memory_order_relaxed);
}

static int append(struct kr_journal *journal, struct kr_journal_file *file, uint64_t offset, const void *data,
	size_t length, struct kr_time mtime, bool clear_suid, struct kr_extent *ret_extent)
{
	bool held = true;
	int err;

	assert(length > 0 && length <= KR_JOURNAL_APPEND_MAX);
	for (unsigned attempt = 0;; attempt++) {
		bool disk_full;

		err = try_append(journal, file, offset, data, length, mtime, clear_suid, ret_extent);
		disk_full = err == -ENOSPC || err == -EDQUOT;
		if ((disk_full || err == -EAGAIN) && attempt < RECLAIMS && make_room(journal, disk_full))
			continue;
		if (!disk_full || !held)
			return err || journal->error ? disk_error(journal, err) : 0;
		held = holds_bytes(journal, err);
		if (held)
			return kr_fail(-EAGAIN, "the disk is full");
		/* It may have let go of them just now. */
	}
}

int kr_journal_append(struct kr_journal *journal, struct kr_journal_file *file, uint64_t offset, const void *data,
	size_t length, struct kr_time mtime, bool clear_suid, struct kr_extent *ret_extent)
{
	int err;

	if (is_refused(journal, length))
		return kr_fail(-EAGAIN, "there was no room a moment ago");
	err = append(journal, file, offset, data, length, mtime, clear_suid, ret_extent);
	if (err == -EAGAIN)
		note_refused(journal, length);
	return err;
}

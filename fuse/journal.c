/* The journal's writer: reservation, appends, holders, marks, reads.  See journal.h and journal_format.h. */
#include "fuse/journal.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/boot.h"
#include "common/buf.h"
#include "common/fail.h"
#include "common/fault.h"
#include "common/log.h"
#include "fuse/journal_guard.h"
#include "fuse/journal_priv.h"
#include "fuse/journal_record.h"

#define JOURNAL_DEFAULT_MAX (UINT64_C(16) << 30)
#define SEGMENT_DATA_MAX (UINT64_C(64) << 20)
#define SEGMENT_DATA_MIN (UINT64_C(2) << 20)

enum { RECLAIMS = 3 }; /* attempts of one append to make room, before it fails */

/* --- files --------------------------------------------------------------------------------------------------- */

struct kr_journal_file *kr_journal_file_new(const struct kr_fid *fid, const char *hint)
{
	struct kr_journal_file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->fid = *fid;
	if (hint && *hint)
		file->hint = strndup(hint, KR_JOURNAL_HINT_MAX);
	return file;
}

void kr_journal_file_free(struct kr_journal_file *file)
{
	if (!file)
		return;
	free(file->hint);
	free(file);
}

/* --- space: who holds what; the lock is held ----------------------------------------------------------------- */

/* Of a position or a mark that is held, so it exists. */
static struct kr_segment *find_segment(struct kr_journal *journal, uint64_t number)
{
	struct kr_segment *segment;

	if (journal->active && journal->active->number == number)
		return journal->active;
	KR_LIST_FOR_EACH(segment, &journal->segments, link)
		if (segment->number == number)
			return segment;
	abort();
}

/* The slot whose data PLACE lies in. */
static uint32_t find_slot(const struct kr_segment *segment, uint32_t place)
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

static void hold_slot(struct kr_journal *journal, struct kr_segment *segment, uint32_t slot, uint32_t bytes)
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
 * finds the record once more (see journal.h). */
static void mark_dead(struct kr_segment *segment, uint32_t slot)
{
	(void)kr_guard(store_dead, &segment->slots[slot]);
}

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

/* Whether somebody waits and can be told that there is room again, or enough dead bytes to make some. */
static bool space_came(struct kr_journal *journal)
{
	bool room = journal->used + SEGMENT_DATA_MIN / 2 <= journal->options.max;
	bool holes = !journal->no_punch && journal->died >= journal->data_size / 4;

	if (!journal->waiting || !(room || holes))
		return false;
	journal->waiting = false;
	return true;
}

/* Calls DO_SLOT for each record that PIECE lies in, with the bytes of it. */
static void for_each_slot(struct kr_journal *journal, const struct kr_extent *piece,
	void (*do_slot)(struct kr_journal *, struct kr_segment *, uint32_t slot, uint32_t bytes))
{
	struct kr_segment *segment = find_segment(journal, piece->position >> 32);
	uint32_t place = (uint32_t)piece->position;
	uint64_t left = piece->length;

	for (uint32_t slot = find_slot(segment, place); left > 0; slot++) {
		const struct kr_slot_state state = segment->states[slot];
		uint32_t bytes;

		if (state.length == 0) /* an APPLIED between */
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

void kr_journal_hold(struct kr_journal *journal, const struct kr_extent *piece)
{
	KR_SCOPED_LOCK(&journal->lock);
	for_each_slot(journal, piece, hold_slot);
}

void kr_journal_release(void *context, const struct kr_extent *piece)
{
	struct kr_journal *journal = context;
	bool tell;

	pthread_mutex_lock(&journal->lock);
	for_each_slot(journal, piece, release_slot);
	tell = space_came(journal);
	kr_journal_unlock(journal);
	if (tell && journal->options.on_space)
		journal->options.on_space(journal->options.context);
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

void kr_journal_release_map(struct kr_journal *journal, struct kr_extent_map *map)
{
	struct pieces pieces = {.list = kr_xcalloc(map->count + 1, sizeof(*pieces.list))};

	kr_extent_map_for_each(map, collect_piece, &pieces);
	qsort(pieces.list, pieces.count, sizeof(*pieces.list), compare_seq);
	for (size_t i = 0; i < pieces.count; i++)
		kr_journal_release(journal, &pieces.list[i]);
	free(pieces.list);
	kr_extent_map_fini(map);
}

struct cut {
	struct kr_journal_record *record;
	uint64_t size;
};

static void store_cut(void *context)
{
	struct cut *cut = context;
	struct kr_journal_record *record = cut->record;
	uint32_t kept = record->offset >= cut->size ? 0 : (uint32_t)KR_MIN(cut->size - record->offset, record->length), before;

	if (kr_journal_kept(record, record->length, &before) && kept < before)
		__atomic_store_n(&record->keep, kr_journal_keep(record->check, kept), __ATOMIC_RELEASE);
}

static void trim_slot(struct kr_segment *segment, uint32_t slot, uint64_t size)
{
	(void)kr_guard(store_cut, &(struct cut){&segment->slots[slot], size});
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
	struct kr_segment *segment = find_segment(trim->journal, extent->position >> 32);
	uint32_t place = (uint32_t)extent->position, end = place + (uint32_t)extent->length;

	for (uint32_t slot = find_slot(segment, place);
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

/* --- appends ------------------------------------------------------------------------------------------------- */

/* What one append writes where. */
struct reservation {
	struct kr_segment *segment;
	uint32_t first_slot, slots; /* the name's included */
	uint64_t seq;               /* of the first slot */
	bool has_name;
	uint32_t name_data, data;   /* where in k.data */
	uint64_t before;            /* used_data without this append */
};

static uint64_t align_up(uint64_t value, uint64_t to)
{
	return (value + to - 1) & ~(to - 1);
}

static uint32_t name_length(const struct kr_journal_file *file)
{
	return 1u + file->fid.length + (uint32_t)(file->hint ? strlen(file->hint) : 0);
}

/* Places an append in SEGMENT; false: no room.  Some slots stay free for APPLIEDs, which must not fail for lack of
 * one. */
static bool place(struct kr_segment *segment, const struct kr_journal_file *file, size_t length,
	struct reservation *ret)
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
	return ret->data + length <= segment->data_size &&
		segment->used_slots + ret->slots <= segment->slot_count - segment->slot_count / 16;
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
		segment->states[slot++] = (struct kr_slot_state){.data = r->name_data,
			.length = r->data - r->name_data, .name = true};
	for (size_t done = 0; done < length; done += KR_JOURNAL_RECORD_MAX, slot++) {
		uint32_t bytes = (uint32_t)KR_MIN(length - done, (size_t)KR_JOURNAL_RECORD_MAX);

		segment->states[slot] = (struct kr_slot_state){.data = r->data + (uint32_t)done, .length = bytes};
		hold_slot(journal, segment, slot, bytes);
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

/* A failed append: its slots are nothing.  If nobody came after it, and no reclaimer looks at them, its place is given
 * out again.  The lock is held. */
static void undo(struct kr_journal *journal, const struct reservation *r)
{
	struct kr_segment *segment = r->segment;

	for (uint32_t slot = r->first_slot; slot < r->first_slot + r->slots; slot++) {
		struct kr_slot_state *state = &segment->states[slot];

		if (state->held > 0) {
			journal->live -= state->length;
			segment->alive--;
		}
		state->held = 0;
		state->name = false;
	}
	if (segment->in_flight > 1 || segment->used_slots != r->first_slot + r->slots)
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

static int store_record(struct kr_segment *segment, uint32_t slot, struct kr_journal_record *record)
{
	record->check = kr_journal_record_check(record, segment->salt);
	return kr_guard(store, &(struct storing){&segment->slots[slot], record});
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
static int write_out(const struct kr_journal_file *file, const struct reservation *r, const uint8_t *data,
	size_t length, struct kr_journal_record *record)
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
		err = store_record(r->segment, r->first_slot + i, &records[i]);
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
	err = write_out(file, &r, data, length, &record);
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

/* What a program hears of the local disk: how it is full, else that it is broken (a directory that was removed, a
 * filesystem that was made read-only are no business of the file that is written). */
static int disk_error(struct kr_journal *journal, int err)
{
	if (err == -EAGAIN)
		return err;
	pthread_mutex_lock(&journal->lock);
	if (err && journal->error != err)
		kr_log_error("%s: the journal cannot be written: %s; writes fail until it can", journal->options.directory,
			strerror(-err));
	journal->error = err;
	pthread_mutex_unlock(&journal->lock);
	return err == 0 || err == -ENOSPC || err == -EDQUOT || err == -ENOMEM ? err : kr_fail_errno(-EIO, "%s", kr_fail_reason());
}

int kr_journal_append(struct kr_journal *journal, struct kr_journal_file *file, uint64_t offset, const void *data,
	size_t length, struct kr_time mtime, bool clear_suid, struct kr_extent *ret_extent)
{
	int err;

	assert(length > 0 && length <= KR_JOURNAL_APPEND_MAX);
	for (unsigned attempt = 0;; attempt++) {
		bool disk_full;

		err = try_append(journal, file, offset, data, length, mtime, clear_suid, ret_extent);
		disk_full = err == -ENOSPC || err == -EDQUOT;
		if ((!disk_full && err != -EAGAIN) || attempt == RECLAIMS || !kr_journal_reclaim(journal, disk_full))
			return err || journal->error ? disk_error(journal, err) : 0;
	}
}

uint64_t kr_journal_applied(struct kr_journal *journal, struct kr_journal_file *file, uint64_t up_to, uint64_t round,
	const uint8_t boot_id[16])
{
	struct kr_journal_record record = {.type = KR_JOURNAL_APPLIED, .file = file->number, .up_to = up_to,
		.round = round};
	struct kr_segment *segment;
	uint32_t slot;

	if (KR_FAULT("journal.applied"))
		return 0;
	memcpy(record.boot_id, boot_id, 16);
	KR_SCOPED_LOCK(&journal->lock);
	if ((!journal->active || journal->active->used_slots == journal->active->slot_count) &&
		next_segment(journal) < 0)
		return 0;
	segment = journal->active;
	slot = segment->used_slots++;
	/* Past all data so far, so that places still ascend with the slots. */
	segment->states[slot] = (struct kr_slot_state){.data = (uint32_t)segment->used_data};
	hold_slot(journal, segment, slot, 1);
	record.seq = journal->next_seq++;
	if (store_record(segment, slot, &record) < 0) {
		release_slot(journal, segment, slot, 1);
		return 0;
	}
	return segment->number << 32 | slot;
}

void kr_journal_hold_mark(struct kr_journal *journal, uint64_t mark)
{
	KR_SCOPED_LOCK(&journal->lock);
	hold_slot(journal, find_segment(journal, mark >> 32), (uint32_t)mark, 1);
}

void kr_journal_release_mark(struct kr_journal *journal, uint64_t mark)
{
	struct kr_segment *segment;

	if (mark == 0 || KR_FAULT("journal.stable"))
		return;
	pthread_mutex_lock(&journal->lock);
	segment = find_segment(journal, mark >> 32);
	release_slot(journal, segment, (uint32_t)mark, 1);
	kr_journal_unlock(journal);
}

void kr_journal_discard_damage(struct kr_journal *journal)
{
	struct kr_segment *segment, *next;

	pthread_mutex_lock(&journal->lock);
	KR_LIST_FOR_EACH_SAFE(segment, next, &journal->segments, link) {
		if (!segment->set_aside)
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

/* --- reads --------------------------------------------------------------------------------------------------- */

/* Held bytes keep their segment, so the lock is needed only to find it. */
static struct kr_segment *segment_of(struct kr_journal *journal, uint64_t position)
{
	KR_SCOPED_LOCK(&journal->lock);
	return find_segment(journal, position >> 32);
}

int kr_journal_read(struct kr_journal *journal, uint64_t position, void *buffer, size_t length)
{
	struct kr_segment *segment = segment_of(journal, position);
	int err;

	err = kr_pread_full(segment->data_fd, buffer, length, (uint32_t)position);
	return err == 0 ? 0 : kr_fail_errno(err == -ENODATA ? -EIO : err, "journal segment %08x cannot be read",
		segment->pair);
}

/* Reads [place, place + length) of the record in SLOT, after checking all of it. */
static int read_record(struct kr_segment *segment, struct kr_slot_state state, uint64_t check, uint32_t place,
	uint8_t *buffer, uint32_t length)
{
	KR_AUTO_FREE void *whole = NULL;
	uint8_t *to = buffer;
	int err;

	if (length < state.length) {
		to = whole = malloc(state.length);
		if (!whole)
			return kr_fail(-ENOMEM, "no memory to check a journal record");
	}
	err = kr_pread_full(segment->data_fd, to, state.length, state.data);
	if (err)
		return kr_fail_errno(err == -ENODATA ? -EIO : err, "journal segment %08x cannot be read",
			segment->pair);
	if (kr_checksum(to, state.length) != check)
		return kr_fail(-EBADMSG, "journal segment %08x: bytes %u to %u are damaged", segment->pair, state.data,
			state.data + state.length);
	if (whole)
		memcpy(buffer, to + (place - state.data), length);
	return 0;
}

int kr_journal_read_verified(struct kr_journal *journal, uint64_t position, void *buffer, size_t length)
{
	struct kr_segment *segment = segment_of(journal, position);
	uint32_t place = (uint32_t)position;
	uint8_t *to = buffer;
	int err = 0;

	for (size_t left = length; left > 0 && err == 0;) {
		struct kr_slot_state state;
		uint32_t slot, bytes;

		pthread_mutex_lock(&journal->lock);
		slot = find_slot(segment, place);
		state = segment->states[slot];
		pthread_mutex_unlock(&journal->lock);
		bytes = (uint32_t)KR_MIN((size_t)(state.length - (place - state.data)), left);
		err = read_record(segment, state, segment->slots[slot].data_check, place, to, bytes);
		to += bytes;
		place += bytes;
		left -= bytes;
	}
	return err;
}

/* --- life ---------------------------------------------------------------------------------------------------- */

void kr_journal_usage(struct kr_journal *journal, struct kr_journal_usage *ret_usage)
{
	KR_SCOPED_LOCK(&journal->lock);
	*ret_usage = (struct kr_journal_usage){
		.live = journal->live,
		.used = journal->used,
		.set_aside = journal->set_aside,
		.error = journal->error,
		.max = journal->options.max,
		.segments = journal->segment_count,
		.waiting = journal->waiting,
	};
}

void kr_journal_export(struct kr_journal *journal, uint8_t ret_export_id[16])
{
	KR_SCOPED_LOCK(&journal->lock);
	memcpy(ret_export_id, journal->options.export_id, 16);
}

int kr_journal_set_export(struct kr_journal *journal, const uint8_t export_id[16])
{
	static const uint8_t unknown[16];

	KR_SCOPED_LOCK(&journal->lock);
	if (memcmp(journal->options.export_id, unknown, 16) != 0 &&
		memcmp(journal->options.export_id, export_id, 16) != 0)
		return kr_fail(-EXDEV, "%s holds the journal of another export", journal->options.directory);
	memcpy(journal->options.export_id, export_id, 16);
	return 0;
}

void kr_journal_set_server(struct kr_journal *journal, uint64_t instance)
{
	struct kr_segment *last;

	pthread_mutex_lock(&journal->lock);
	last = journal->active;
	if (journal->options.server_instance != instance && last) {
		journal->active = NULL;
		kr_journal_retire(journal, last);
	}
	journal->options.server_instance = instance;
	kr_journal_unlock(journal);
}

/* This machine's boot, to tell a lost power from a killed daemon; zeros when it cannot be had, which is one boot. */
static void read_boot_id(const struct kr_journal_options *options, uint8_t ret_id[16])
{
	memset(ret_id, 0, 16);
	if (options->node_boot)
		memcpy(ret_id, options->node_boot, 16);
	else
		(void)kr_boot_id(ret_id);
}

static int set_sizes(struct kr_journal *journal)
{
	uint64_t *max = &journal->options.max, room;
	struct statvfs fs;

	if (fstatvfs(journal->dir_fd, &fs) < 0)
		return kr_fail_errno(-errno, "%s", journal->options.directory);
	if (*max == 0) {
		*max = KR_MIN((uint64_t)fs.f_bavail * fs.f_frsize / 4, JOURNAL_DEFAULT_MAX);
		*max = KR_MAX(*max, KR_JOURNAL_MIN);
	}
	if (*max < KR_JOURNAL_MIN)
		return kr_fail(-EINVAL, "journal_max is too small: at least %u MiB are needed",
			(unsigned)(KR_JOURNAL_MIN >> 20));
	/* Small beside what there is, that one which is not free yet takes little of it. */
	room = KR_MIN(*max, (uint64_t)fs.f_blocks * fs.f_frsize);
	journal->data_size = SEGMENT_DATA_MIN;
	while (journal->data_size < SEGMENT_DATA_MAX && journal->data_size * 16 < room)
		journal->data_size *= 2;
	journal->slot_count = (uint32_t)(journal->data_size / 4096);
	return 0;
}

int kr_journal_open(const struct kr_journal_options *options, struct kr_recovery *ret_recovery,
	struct kr_journal **ret_journal)
{
	struct kr_journal *journal = calloc(1, sizeof(*journal));
	int err;

	if (!journal)
		return kr_fail(-ENOMEM, "no memory for the journal");
	journal->options = *options;
	pthread_mutex_init(&journal->lock, NULL);
	pthread_mutex_init(&journal->reclaiming, NULL);
	kr_list_init(&journal->segments);
	kr_list_init(&journal->spares);
	kr_list_init(&journal->condemned);
	journal->next_seq = options->incarnation << 40 | 1;
	journal->next_number = journal->next_file = 1;
	read_boot_id(options, journal->node_boot);
	kr_guard_install();
	journal->dir_fd = open(options->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	err = journal->dir_fd < 0 ? kr_fail_errno(-errno, "%s", options->directory) : set_sizes(journal);
	if (err == 0)
		err = kr_journal_recover(journal, ret_recovery);
	journal->recovered = err == 0;
	pthread_mutex_lock(&journal->lock);
	kr_journal_unlock(journal);
	if (err) {
		kr_journal_free(journal);
		return err;
	}
	*ret_journal = journal;
	return 0;
}

/* What the end of the daemon leaves is on the disk, and says so: a reboot that follows is no loss of power. */
static int leave_clean(struct kr_journal *journal)
{
	const struct kr_segment *segment;
	int err = 0;

	if (!journal->recovered || kr_list_empty(&journal->segments))
		return 0;
	KR_LIST_FOR_EACH(segment, &journal->segments, link)
		if (err == 0)
			err = kr_segment_sync(segment);
	return err ? err : kr_write_file(journal->dir_fd, KR_JOURNAL_CLEAN, journal->node_boot, 16, 0600);
}

void kr_journal_free(struct kr_journal *journal)
{
	struct kr_link *link;

	if (!journal)
		return;
	if (journal->active) {
		struct kr_segment *last = journal->active;

		journal->active = NULL;
		kr_journal_retire(journal, last);
	}
	while ((link = kr_list_pop(&journal->spares)) || (link = kr_list_pop(&journal->condemned)))
		kr_segment_free(journal, KR_LIST_ENTRY(link, struct kr_segment, link), true);
	(void)leave_clean(journal); /* else the next start has doubts after a reboot, no more */
	while ((link = kr_list_pop(&journal->segments)))
		kr_segment_free(journal, KR_LIST_ENTRY(link, struct kr_segment, link), false);
	if (journal->dir_fd >= 0)
		close(journal->dir_fd);
	pthread_mutex_destroy(&journal->reclaiming);
	pthread_mutex_destroy(&journal->lock);
	free(journal);
}

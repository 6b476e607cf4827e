/* The start of a journal: what the scan found becomes files with extents, and segments with holders again.
 *
 * Nothing on the disk changes before everything has been read.  Then: what `clean` vouches for is taken over into this
 * boot, before the mark goes; records that newer ones cover completely, and states of writes that are gone, are marked
 * dead; dead undamaged segments become spares.  Killed between any two of these steps, the next start finds the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "fuse/journal/journal_recover_priv.h"
#include "fuse/journal/journal_record.h"

/* --- files ------------------------------------------------------------------------------------ */

static void applied_free(struct kr_applied *applied)
{
	kr_extent_map_fini(&applied->extents);
	free(applied);
}

static void recovered_free(struct kr_recovered_file *file)
{
	struct kr_link *link;

	while ((link = kr_list_pop(&file->applied)))
		applied_free(KR_LIST_ENTRY(link, struct kr_applied, link));
	kr_extent_map_fini(&file->dirty);
	kr_extent_map_fini(&file->doubtful);
	kr_journal_file_free(file->file);
	free(file);
}

void kr_recovery_fini(struct kr_recovery *recovery)
{
	struct kr_link *link;

	if (!recovery->files.head.next)
		return;
	while ((link = kr_list_pop(&recovery->files)))
		recovered_free(KR_LIST_ENTRY(link, struct kr_recovered_file, link));
	kr_journal_damage_free(&recovery->damage);
}

static bool has_fid(const struct kr_table_link *link, const void *fid)
{
	return kr_fid_equal(&KR_CONTAINER_OF(link, const struct kr_rebuilt, by_fid)->file->file->fid, fid);
}

struct kr_rebuilt *kr_rebuilt_find(const struct kr_rebuild *r, const struct kr_fid *fid)
{
	struct kr_table_link *link = kr_table_find(&r->by_fid, kr_fid_hash(fid), has_fid, fid);

	return link ? KR_CONTAINER_OF(link, struct kr_rebuilt, by_fid) : NULL;
}

static int make_file(struct kr_rebuild *r, const struct kr_scan_name *name, struct kr_rebuilt **ret)
{
	struct kr_rebuilt *rebuilt = kr_rebuilt_find(r, &name->fid);
	struct kr_recovered_file *file;

	if (rebuilt) {
		*ret = rebuilt;
		(*ret)->file->file->number = name->number; /* ascending: the newest */
		return 0;
	}
	file = calloc(1, sizeof(*file));
	if (!file)
		return kr_fail(-ENOMEM, "no memory to recover the journal");
	kr_list_init(&file->applied);
	kr_extent_map_init(&file->dirty);
	kr_extent_map_init(&file->doubtful);
	kr_list_append(&r->recovery->files, &file->link);
	file->file = kr_journal_file_new(&name->fid, name->hint);
	if (!file->file)
		return kr_fail(-ENOMEM, "no memory to recover the journal");
	file->file->number = name->number;
	rebuilt = &r->files[r->file_count++];
	rebuilt->file = file;
	kr_table_insert(&r->by_fid, &rebuilt->by_fid, kr_fid_hash(&name->fid));
	*ret = rebuilt;
	return 0;
}

static int make_files(struct kr_rebuild *r)
{
	int err = 0;

	r->files = calloc(r->scan->name_count + 1, sizeof(*r->files));
	r->by_name = calloc(r->scan->name_count + 1, sizeof(struct kr_rebuilt *));
	if (!r->files || !r->by_name)
		return kr_fail(-ENOMEM, "no memory to recover the journal");
	for (size_t i = 0; i < r->scan->name_count && err == 0; i++)
		err = make_file(r, &r->scan->names[i], &r->by_name[i]);
	return err;
}

static struct kr_recovered_file *file_of(const struct kr_rebuild *r, uint32_t number)
{
	const struct kr_scan_name *name = kr_scan_name(r->scan, number);

	return name ? r->by_name[name - r->scan->names]->file : NULL;
}

/* --- records ---------------------------------------------------------------------------------- */

static uint64_t segment_number(const struct kr_rebuild *r, const struct kr_scan_ref *ref)
{
	return r->scan->segments[ref->segment].header.number;
}

/* In the order of up_to; of several with the same the last one counts, in the first one's order. */
static int take_applied(struct kr_rebuild *r, const struct kr_scan_ref *ref, const struct kr_journal_record *record)
{
	struct kr_recovered_file *file = file_of(r, record->file);
	struct kr_applied *other, *applied;
	struct kr_link *before;

	if (!file)
		return 0;
	applied = calloc(1, sizeof(*applied));
	if (!applied)
		return kr_fail(-ENOMEM, "no memory to recover the journal");
	applied->up_to = record->up_to;
	applied->round = record->round;
	memcpy(applied->boot_id, record->boot_id, 16);
	applied->mark = applied->order_mark = segment_number(r, ref) << 32 | ref->slot;
	applied->order = record->round;
	kr_extent_map_init(&applied->extents);
	before = &file->applied.head;
	KR_LIST_FOR_EACH(other, &file->applied, link) {
		if (other->up_to < applied->up_to)
			continue;
		before = &other->link;
		break;
	}
	kr_list_insert_before(before, &applied->link);
	if (before != &file->applied.head && other->up_to == applied->up_to) {
		applied->order = other->order;
		applied->order_mark = other->order_mark;
		kr_list_remove(&other->link);
		applied_free(other);
	}
	return 0;
}

static bool before_this_boot(const struct kr_rebuild *r, uint32_t segment)
{
	const uint8_t *then = r->scan->segments[segment].header.node_boot;

	return memcmp(then, r->journal->node_boot, 16) != 0 && !(r->clean && memcmp(then, r->clean_boot, 16) == 0);
}

static int find_doubts(struct kr_rebuild *r)
{
	uint64_t now = r->journal->options.server_instance;

	r->doubt = calloc(r->scan->segment_count + 1, sizeof(bool));
	r->has_doubtful = calloc(r->scan->segment_count + 1, sizeof(bool));
	if (!r->doubt || !r->has_doubtful)
		return kr_fail(-ENOMEM, "no memory to recover the journal");
	for (uint32_t i = 0; i < r->scan->segment_count; i++) {
		uint64_t then = r->scan->segments[i].header.server_instance;

		r->recovery->power_lost |= before_this_boot(r, i);
		r->doubt[i] = before_this_boot(r, i) && (then == 0 || then != now);
	}
	return 0;
}

/* Where the write SEQ of FILE belongs: an applied round, or (NULL) what is dirty. */
static struct kr_applied *applied_of(struct kr_recovered_file *file, uint64_t seq)
{
	struct kr_applied *applied;

	KR_LIST_FOR_EACH(applied, &file->applied, link)
		if (seq <= applied->up_to)
			return applied;
	return NULL;
}

/* Doubtful, unless the server's present boot is known to have it: then no replay ever sends it. */
static bool is_doubtful(const struct kr_rebuild *r, const struct kr_scan_ref *ref, const struct kr_applied *applied)
{
	return r->doubt[ref->segment] &&
		!(applied && memcmp(applied->boot_id, r->journal->options.server_boot, 16) == 0);
}

/* Never older bytes where newer ones were acknowledged. */
static int take_out(struct kr_recovered_file *file, struct kr_extent_map *map, const struct kr_journal_record *record)
{
	int err = kr_extent_map_remove(map, record->offset, record->length, NULL, NULL);

	return err ? err : kr_extent_map_remove(&file->doubtful, record->offset, record->length, NULL, NULL);
}

static struct kr_time time_of(int64_t mtime_ns)
{
	int64_t sec = mtime_ns / (int64_t)KR_NS_PER_S, ns = mtime_ns % (int64_t)KR_NS_PER_S;

	if (ns < 0) {
		ns += (int64_t)KR_NS_PER_S;
		sec--;
	}
	return (struct kr_time){.sec = sec, .nsec = (uint32_t)ns};
}

static int take_write(
	struct kr_rebuild *r, const struct kr_scan_ref *ref, const struct kr_journal_record *record, uint32_t kept)
{
	struct kr_recovered_file *file = file_of(r, record->file);
	struct kr_applied *applied = file ? applied_of(file, record->seq) : NULL;
	struct kr_extent_map *map = applied ? &applied->extents : file ? &file->dirty : NULL;
	struct kr_extent extent = {record->offset, kept, segment_number(r, ref) << 32 | record->data, record->seq};
	int err;

	if (!file) /* reported by the scan */
		return 0;
	if (ref->kind == KR_SCAN_BAD_DATA)
		return take_out(file, map, record);
	r->recovery->records++;
	if (is_doubtful(r, ref, applied)) {
		r->has_doubtful[ref->segment] = true;
		return kr_extent_map_insert(&file->doubtful, &extent, NULL, NULL);
	}
	*(applied ? &applied->mtime : &file->mtime) = time_of(record->mtime_ns);
	*(applied ? &applied->clear_suid : &file->clear_suid) |= record->flags & KR_JOURNAL_CLEAR_SUID;
	file->max_seq = record->seq;
	file->vouched |= !applied && before_this_boot(r, ref->segment);
	err = kr_extent_map_remove(&file->doubtful, record->offset, kept, NULL, NULL);
	return err ? err : kr_extent_map_insert(map, &extent, NULL, NULL);
}

static int take_records(struct kr_rebuild *r, bool writes)
{
	int err = 0;

	for (size_t i = 0; i < r->scan->ref_count && err == 0; i++) {
		const struct kr_scan_ref *ref = &r->scan->refs[i];
		struct kr_journal_record record;
		uint32_t kept;

		if (ref->kind != KR_SCAN_GOOD && ref->kind != KR_SCAN_BAD_DATA)
			continue;
		kr_scan_record(r->scan, ref, &record, &kept);
		if (writes && record.type == KR_JOURNAL_WRITE)
			err = take_write(r, ref, &record, kept);
		else if (!writes && record.type == KR_JOURNAL_APPLIED && ref->kind == KR_SCAN_GOOD)
			err = take_applied(r, ref, &record);
	}
	return err;
}

/* --- the segments in use again ----------------------------------------------------------------- */

/* States of all slots; what is no readable record, or lies behind the end of the data, is an empty place between its
 * neighbours: it takes no space. */
static void fill_states(struct kr_rebuild *r)
{
	for (size_t i = 0; i < r->scan->ref_count; i++) {
		const struct kr_scan_ref *ref = &r->scan->refs[i];
		struct kr_journal_record record;
		uint32_t kept;

		if (ref->kind == KR_SCAN_BAD_RECORD)
			continue;
		kr_scan_record(r->scan, ref, &record, &kept);
		if (record.type != KR_JOURNAL_APPLIED &&
			(uint64_t)record.data + record.length <= r->scan->segments[ref->segment].data_length)
			r->segments[ref->segment]->states[ref->slot] = (struct kr_slot_state){.data = record.data,
				.length = record.length,
				.name = record.type == KR_JOURNAL_NAME && ref->kind == KR_SCAN_GOOD};
	}
}

/* No append ever goes to this segment; a reuse clears every slot. */
static void finish_states(struct kr_segment *segment, bool set_aside)
{
	for (uint32_t slot = 0; slot < segment->slot_count; slot++) {
		struct kr_slot_state *state = &segment->states[slot];

		if (state->length > 0)
			segment->used_data = state->data + (uint64_t)state->length;
		else
			state->data = (uint32_t)segment->used_data;
	}
	segment->used_slots = segment->slot_count;
	segment->set_aside = set_aside;
}

/* Opens all segments, with the states of their slots; no record has a holder yet. */
static int reopen_segments(struct kr_rebuild *r)
{
	int err;

	r->segments = calloc(r->scan->segment_count + 1, sizeof(struct kr_segment *));
	if (!r->segments)
		return kr_fail(-ENOMEM, "no memory to recover the journal");
	for (uint32_t i = 0; i < r->scan->segment_count; i++) {
		const struct kr_scan_segment *from = &r->scan->segments[i];
		struct kr_segment *segment, *after;
		struct kr_link *before = &r->journal->segments.head;

		err = kr_segment_open(r->journal, from->pair, &from->header, from->slot_count, &segment);
		if (err)
			return err;
		r->segments[i] = segment;
		KR_LIST_FOR_EACH(after, &r->journal->segments, link) {
			if (after->number < segment->number)
				continue;
			before = &after->link;
			break;
		}
		kr_list_insert_before(before, &segment->link);
		r->journal->segment_count++;
	}
	err = kr_journal_find_pinned(r->scan, r->segments);
	if (err)
		return err;
	fill_states(r);
	for (uint32_t i = 0; i < r->scan->segment_count; i++) {
		finish_states(r->segments[i],
			r->scan->segments[i].damaged || r->has_doubtful[i] || r->segments[i]->lends_name);
		*(r->segments[i]->set_aside ? &r->journal->set_aside : &r->journal->used) +=
			kr_segment_cost(r->segments[i]);
	}
	return 0;
}

struct stamp {
	struct kr_segment *segment;
	const struct kr_journal_header *header;
	uint64_t at;
};

static void store_copy(void *context)
{
	const struct stamp *stamp = context;

	memcpy(stamp->segment->map + stamp->at, stamp->header, sizeof(*stamp->header));
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* Killed in between, the first copy is the new one, or torn, and the second still the old. What the disk does not take
 * is doubted more. */
static void reopen_take_over(struct kr_rebuild *r)
{
	for (uint32_t i = 0; r->clean && i < r->scan->segment_count; i++) {
		struct kr_journal_header header = r->scan->segments[i].header;

		if (memcmp(header.node_boot, r->clean_boot, 16) != 0)
			continue;
		memcpy(header.node_boot, r->journal->node_boot, 16);
		kr_journal_header_seal(&header);
		for (uint64_t at = 0; at <= KR_JOURNAL_HEADER_COPY; at += KR_JOURNAL_HEADER_COPY)
			if (kr_segment_store(r->journal, r->segments[i], at, sizeof(header), store_copy,
				    &(struct stamp){r->segments[i], &header, at}) < 0)
				break;
	}
}

static void hold_extent(void *journal, const struct kr_extent *piece)
{
	kr_journal_hold(journal, piece);
}

static void note_doubtful(struct kr_recovery *recovery, const struct kr_recovered_file *file)
{
	const struct kr_extent_map *map = &file->doubtful;
	struct kr_journal_damage *damage;

	if (kr_extent_map_empty(map))
		return;
	damage = kr_xcalloc(1, sizeof(*damage));
	damage->fid = file->file->fid;
	damage->length = kr_extent_map_end(map);
	if (asprintf(&damage->text,
		    "%" PRIu64 " bytes of %s, before offset %" PRIu64 ", were written before this machine lost "
		    "power, and the server cannot tell whether it has them or newer ones: they are set aside",
		    map->bytes, file->file->hint ? file->file->hint : "a file", damage->length) < 0)
		damage->text = kr_xstrdup("doubtful bytes of a file");
	kr_list_append(&recovery->damage, &damage->link);
	recovery->doubtful += map->bytes;
}

/* Every extent of the files holds its records.  Rounds whose writes are all gone are nothing any more: their marks stay
 * without a holder. */
static void reopen_hold(struct kr_rebuild *r)
{
	struct kr_recovered_file *file, *next_file;
	struct kr_applied *applied, *next;

	KR_LIST_FOR_EACH_SAFE(file, next_file, &r->recovery->files, link) {
		KR_LIST_FOR_EACH_SAFE(applied, next, &file->applied, link) {
			if (kr_extent_map_empty(&applied->extents)) {
				kr_list_remove(&applied->link);
				applied_free(applied);
				continue;
			}
			kr_extent_map_for_each(&applied->extents, hold_extent, r->journal);
			kr_journal_hold_mark(r->journal, applied->mark);
			if (applied->order_mark != applied->mark)
				kr_journal_hold_mark(r->journal, applied->order_mark);
			r->recovery->bytes += applied->extents.bytes;
		}
		note_doubtful(r->recovery, file);
		kr_extent_map_for_each(&file->dirty, hold_extent, r->journal);
		r->recovery->bytes += file->dirty.bytes;
		if (kr_extent_map_empty(&file->dirty) && kr_list_empty(&file->applied)) {
			kr_list_remove(&file->link);
			recovered_free(file);
		}
	}
}

/* Whether the record is to be marked dead: it has no holder, and is not set aside as doubtful. */
static bool is_dead(const struct kr_rebuild *r, const struct kr_scan_ref *ref, const struct kr_journal_record *record)
{
	if (record->type == KR_JOURNAL_NAME || r->segments[ref->segment]->states[ref->slot].held > 0)
		return false;
	return !r->doubt[ref->segment];
}

/* Good records without a holder are dead; single wrong bits are put right; segments without a live record are free. */
static void reopen_retire(struct kr_rebuild *r)
{
	for (size_t i = 0; i < r->scan->ref_count; i++) {
		const struct kr_scan_ref *ref = &r->scan->refs[i];
		struct kr_segment *segment = r->segments[ref->segment];
		struct kr_journal_record record;
		uint32_t kept;

		if (ref->kind != KR_SCAN_GOOD)
			continue;
		kr_scan_record(r->scan, ref, &record, &kept);
		if (is_dead(r, ref, &record))
			record.keep = kr_journal_keep(record.check, 0);
		else if (record.keep != 0 && record.keep != kr_journal_keep(record.check, kept))
			record.keep = kept == record.length ? 0 : kr_journal_keep(record.check, kept);
		if (memcmp(&segment->slots[ref->slot], &record, sizeof(record)) != 0)
			segment->slots[ref->slot] = record;
	}
	for (uint32_t i = 0; i < r->scan->segment_count; i++)
		kr_journal_retire(r->journal, r->segments[i]);
	r->journal->died = r->journal->used; /* whatever there is may be full of dead bytes */
	for (size_t i = 0; i < r->scan->blank_count; i++) {
		char name[16];

		kr_segment_name(r->scan->blank_pairs[i], "index", name);
		unlinkat(r->journal->dir_fd, name, 0);
		kr_segment_name(r->scan->blank_pairs[i], "data", name);
		unlinkat(r->journal->dir_fd, name, 0);
	}
}

/* --- all together ----------------------------------------------------------------------------- */

/* Also of records whose NAME is lost: that number must not come to mean another file. */
static uint32_t highest_file(const struct kr_scan *scan)
{
	uint32_t highest = 0;

	for (size_t i = 0; i < scan->ref_count; i++) {
		struct kr_journal_record record;
		uint32_t kept;

		if (scan->refs[i].kind == KR_SCAN_BAD_RECORD)
			continue;
		kr_scan_record(scan, &scan->refs[i], &record, &kept);
		highest = KR_MAX(highest, record.file);
	}
	return highest;
}

/* Numbers go on above everything that was ever seen. */
static void set_numbers(struct kr_journal *journal, const struct kr_scan *scan)
{
	journal->next_pair = scan->next_pair;
	if (scan->ref_count)
		journal->next_seq = KR_MAX(journal->next_seq, scan->refs[scan->ref_count - 1].seq + 1);
	if (scan->segment_count) {
		journal->next_number = scan->segments[scan->newest].header.number + 1;
		memcpy(journal->options.export_id, scan->segments[scan->newest].header.export_id, 16);
	}
	journal->next_file = highest_file(scan) + 1;
}

static void take_damage(struct kr_rebuild *r)
{
	kr_list_move(&r->scan->damage, &r->recovery->damage);
	r->recovery->unfinished = r->scan->unfinished;
	r->recovery->segments = r->scan->segment_count;
}

static void read_clean(struct kr_rebuild *r)
{
	KR_AUTO_FREE char *text = NULL;
	size_t length;

	if (kr_read_file(r->journal->dir_fd, KR_JOURNAL_CLEAN, 16, &text, &length) < 0 || length != 16)
		return;
	r->clean = true;
	memcpy(r->clean_boot, text, 16);
}

/* Durably, before the first change: it would vouch for that too. */
static int forget_clean(struct kr_journal *journal)
{
	if (faccessat(journal->dir_fd, KR_JOURNAL_CLEAN, F_OK, 0) == 0 &&
		(unlinkat(journal->dir_fd, KR_JOURNAL_CLEAN, 0) < 0 || fsync(journal->dir_fd) < 0))
		return kr_fail_errno(-errno, "the journal's mark '%s' cannot be removed", KR_JOURNAL_CLEAN);
	return 0;
}

static int rebuild_all(struct kr_rebuild *r)
{
	int err = make_files(r);

	if (err == 0)
		err = find_doubts(r);
	if (err == 0)
		err = take_records(r, false);
	if (err == 0)
		err = take_records(r, true);
	if (err == 0)
		err = reopen_segments(r);
	return err;
}

int kr_journal_recover(struct kr_journal *journal, struct kr_recovery *recovery)
{
	struct kr_rebuild r = {.journal = journal, .recovery = recovery};
	struct kr_scan_owner owner;
	int err;

	*recovery = (struct kr_recovery){0};
	kr_list_init(&recovery->files);
	kr_list_init(&recovery->damage);
	memcpy(owner.export_id, journal->options.export_id, 16);
	memcpy(owner.node_id, journal->options.node_id, 16);
	kr_table_init(&r.by_fid);
	err = kr_scan_open(journal->dir_fd, &owner, &r.scan);
	if (err)
		return err;
	read_clean(&r);
	err = rebuild_all(&r);
	if (err == 0) {
		reopen_take_over(&r);
		err = forget_clean(journal);
	}
	if (err == 0) {
		set_numbers(journal, r.scan);
		kr_reopen_uncovered(&r);
		reopen_hold(&r);
		reopen_retire(&r);
		take_damage(&r);
	} else {
		kr_recovery_fini(recovery);
	}
	kr_scan_free(r.scan);
	kr_table_fini(&r.by_fid);
	free(r.segments);
	free(r.doubt);
	free(r.has_doubtful);
	free(r.by_name);
	free(r.files);
	return err;
}

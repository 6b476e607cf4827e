/* The start of a journal: what the scan found becomes files with extents, and segments with holders again.
 *
 * Nothing on the disk changes before everything has been read.  Then: records that newer ones cover completely, and
 * states of writes that are gone, are marked dead; dead undamaged segments become spares.  Killed between any two of
 * these steps, the next start finds the same.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/fail.h"
#include "common/table.h"
#include "fuse/journal_priv.h"
#include "fuse/journal_read.h"
#include "fuse/journal_record.h"

/* A file being rebuilt. */
struct rebuilt {
	struct kr_table_link by_fid;
	struct kr_recovered_file *file;
};

struct rebuild {
	struct kr_journal *journal;
	struct kr_scan *scan;
	struct kr_recovery *recovery;
	struct kr_segment **segments;  /* by the scan's index */
	struct rebuilt **by_name;      /* by the index in scan->names */
	struct rebuilt *files;
	size_t file_count;
	struct kr_table by_fid;
};

/* --- files --------------------------------------------------------------------------------------------------- */

static void free_applied(struct kr_applied *applied)
{
	kr_extent_map_fini(&applied->extents);
	free(applied);
}

static void free_recovered(struct kr_recovered_file *file)
{
	struct kr_link *link;

	while ((link = kr_list_pop(&file->applied)))
		free_applied(KR_LIST_ENTRY(link, struct kr_applied, link));
	kr_extent_map_fini(&file->dirty);
	kr_journal_file_free(file->file);
	free(file);
}

void kr_recovery_fini(struct kr_recovery *recovery)
{
	struct kr_link *link;

	if (!recovery->files.head.next)
		return;
	while ((link = kr_list_pop(&recovery->files)))
		free_recovered(KR_LIST_ENTRY(link, struct kr_recovered_file, link));
	kr_journal_damage_free(&recovery->damage);
}

static bool has_fid(const struct kr_table_link *link, const void *fid)
{
	return kr_fid_equal(&KR_CONTAINER_OF(link, const struct rebuilt, by_fid)->file->file->fid, fid);
}

static int make_file(struct rebuild *r, const struct kr_scan_name *name, struct rebuilt **ret)
{
	uint64_t hash = kr_hash_bytes(name->fid.bytes, name->fid.length);
	struct kr_table_link *link = kr_table_find(&r->by_fid, hash, has_fid, &name->fid);
	struct kr_recovered_file *file;
	struct rebuilt *rebuilt;

	if (link) {
		*ret = KR_CONTAINER_OF(link, struct rebuilt, by_fid);
		(*ret)->file->file->number = name->number; /* ascending: the newest */
		return 0;
	}
	file = calloc(1, sizeof(*file));
	if (!file)
		return kr_fail(-ENOMEM, "no memory to recover the journal");
	kr_list_init(&file->applied);
	kr_extent_map_init(&file->dirty);
	kr_list_append(&r->recovery->files, &file->link);
	file->file = kr_journal_file_new(&name->fid, name->hint);
	if (!file->file)
		return kr_fail(-ENOMEM, "no memory to recover the journal");
	file->file->number = name->number;
	rebuilt = &r->files[r->file_count++];
	rebuilt->file = file;
	kr_table_insert(&r->by_fid, &rebuilt->by_fid, hash);
	*ret = rebuilt;
	return 0;
}

static int make_files(struct rebuild *r)
{
	int err = 0;

	r->files = calloc(r->scan->name_count + 1, sizeof(*r->files));
	r->by_name = calloc(r->scan->name_count + 1, sizeof(struct rebuilt *));
	if (!r->files || !r->by_name)
		return kr_fail(-ENOMEM, "no memory to recover the journal");
	for (size_t i = 0; i < r->scan->name_count && err == 0; i++)
		err = make_file(r, &r->scan->names[i], &r->by_name[i]);
	return err;
}

static struct kr_recovered_file *file_of(const struct rebuild *r, uint32_t number)
{
	const struct kr_scan_name *name = kr_scan_name(r->scan, number);

	return name ? r->by_name[name - r->scan->names]->file : NULL;
}

/* --- records ------------------------------------------------------------------------------------------------- */

static uint64_t segment_number(const struct rebuild *r, const struct kr_scan_ref *ref)
{
	return r->scan->segments[ref->segment].header.number;
}

/* In the order of up_to; of two with the same the later one counts. */
static int take_applied(struct rebuild *r, const struct kr_scan_ref *ref, const struct kr_journal_record *record)
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
	applied->mark = segment_number(r, ref) << 32 | ref->slot;
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
		kr_list_remove(&other->link);
		free_applied(other);
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

static int take_write(struct rebuild *r, const struct kr_scan_ref *ref, const struct kr_journal_record *record,
	uint32_t kept)
{
	struct kr_recovered_file *file = file_of(r, record->file);
	struct kr_applied *applied = file ? applied_of(file, record->seq) : NULL;
	struct kr_extent_map *map = applied ? &applied->extents : file ? &file->dirty : NULL;
	struct kr_time *mtime = applied ? &applied->mtime : file ? &file->mtime : NULL;
	struct kr_extent extent = {record->offset, kept, segment_number(r, ref) << 32 | record->data, record->seq};
	int64_t sec = record->mtime_ns / (int64_t)KR_NS_PER_S, ns = record->mtime_ns % (int64_t)KR_NS_PER_S;

	if (!file) /* reported by the scan */
		return 0;
	if (ref->kind == KR_SCAN_BAD_DATA) /* never older bytes where newer ones were acknowledged */
		return kr_extent_map_remove(map, record->offset, record->length, NULL, NULL);
	if (ns < 0) {
		ns += (int64_t)KR_NS_PER_S;
		sec--;
	}
	*mtime = (struct kr_time){.sec = sec, .nsec = (uint32_t)ns};
	*(applied ? &applied->clear_suid : &file->clear_suid) |= record->flags & KR_JOURNAL_CLEAR_SUID;
	file->max_seq = record->seq;
	r->recovery->records++;
	return kr_extent_map_insert(map, &extent, NULL, NULL);
}

static int take_records(struct rebuild *r, bool writes)
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

/* --- segments and holders ------------------------------------------------------------------------------------ */

/* States of all slots; what is no readable record is an empty place between its neighbours. */
static void fill_states(struct rebuild *r)
{
	for (size_t i = 0; i < r->scan->ref_count; i++) {
		const struct kr_scan_ref *ref = &r->scan->refs[i];
		struct kr_journal_record record;
		uint32_t kept;

		if (ref->kind == KR_SCAN_BAD_RECORD)
			continue;
		kr_scan_record(r->scan, ref, &record, &kept);
		if (record.type != KR_JOURNAL_APPLIED)
			r->segments[ref->segment]->states[ref->slot] =
				(struct kr_slot_state){.data = record.data, .length = record.length,
					.name = record.type == KR_JOURNAL_NAME};
	}
}

/* No append ever goes to this segment; a reuse clears every slot. */
static void finish_states(struct kr_segment *segment, const struct kr_scan_segment *from)
{
	for (uint32_t slot = 0; slot < segment->slot_count; slot++) {
		struct kr_slot_state *state = &segment->states[slot];

		if (state->length > 0)
			segment->used_data = state->data + (uint64_t)state->length;
		else
			state->data = (uint32_t)segment->used_data;
	}
	segment->used_slots = segment->slot_count;
	segment->set_aside = from->damaged;
}

static int open_segments(struct rebuild *r)
{
	r->segments = calloc(r->scan->segment_count + 1, sizeof(struct kr_segment *));
	if (!r->segments)
		return kr_fail(-ENOMEM, "no memory to recover the journal");
	for (uint32_t i = 0; i < r->scan->segment_count; i++) {
		const struct kr_scan_segment *from = &r->scan->segments[i];
		struct kr_segment *segment, *after;
		struct kr_link *before = &r->journal->segments.head;
		int err = kr_segment_open(r->journal, from->pair, &from->header, from->slot_count, &segment);

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
		if (memcmp(from->header.node_boot, r->journal->node_boot, 16) != 0)
			r->recovery->power_lost = true;
	}
	fill_states(r);
	for (uint32_t i = 0; i < r->scan->segment_count; i++) {
		finish_states(r->segments[i], &r->scan->segments[i]);
		r->journal->used += kr_segment_cost(r->segments[i]);
	}
	return 0;
}

static void hold_extent(void *journal, const struct kr_extent *piece)
{
	kr_journal_hold(journal, piece);
}

/* Rounds whose writes are all gone are nothing any more: their marks stay without a holder. */
static void hold_files(struct rebuild *r)
{
	struct kr_recovered_file *file, *next_file;
	struct kr_applied *applied, *next;

	KR_LIST_FOR_EACH_SAFE(file, next_file, &r->recovery->files, link) {
		KR_LIST_FOR_EACH_SAFE(applied, next, &file->applied, link) {
			if (kr_extent_map_empty(&applied->extents)) {
				kr_list_remove(&applied->link);
				free_applied(applied);
				continue;
			}
			kr_extent_map_for_each(&applied->extents, hold_extent, r->journal);
			kr_journal_hold_mark(r->journal, applied->mark);
			r->recovery->bytes += applied->extents.bytes;
		}
		kr_extent_map_for_each(&file->dirty, hold_extent, r->journal);
		r->recovery->bytes += file->dirty.bytes;
		if (kr_extent_map_empty(&file->dirty) && kr_list_empty(&file->applied)) {
			kr_list_remove(&file->link);
			free_recovered(file);
		}
	}
}

/* Good records that nobody holds are dead; single wrong bits are put right; segments without a live record are free. */
static void bury(struct rebuild *r)
{
	for (size_t i = 0; i < r->scan->ref_count; i++) {
		const struct kr_scan_ref *ref = &r->scan->refs[i];
		struct kr_segment *segment = r->segments[ref->segment];
		struct kr_journal_record record;
		uint32_t kept;

		if (ref->kind != KR_SCAN_GOOD)
			continue;
		kr_scan_record(r->scan, ref, &record, &kept);
		if (record.type != KR_JOURNAL_NAME && segment->states[ref->slot].held == 0)
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
	if (scan->name_count)
		journal->next_file = scan->names[scan->name_count - 1].number + 1;
}

static void take_damage(struct rebuild *r)
{
	struct kr_link *link;

	while ((link = kr_list_pop(&r->scan->damage)))
		kr_list_append(&r->recovery->damage, link);
	r->recovery->unfinished = r->scan->unfinished;
	r->recovery->segments = r->scan->segment_count;
}

static int rebuild_all(struct rebuild *r)
{
	int err = make_files(r);

	if (err == 0)
		err = take_records(r, false);
	if (err == 0)
		err = take_records(r, true);
	if (err == 0)
		err = open_segments(r);
	return err;
}

int kr_journal_recover(struct kr_journal *journal, struct kr_recovery *recovery)
{
	struct rebuild r = {.journal = journal, .recovery = recovery};
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
	err = rebuild_all(&r);
	if (err == 0) {
		set_numbers(journal, r.scan);
		hold_files(&r);
		bury(&r);
		take_damage(&r);
	} else {
		kr_recovery_fini(recovery);
	}
	kr_scan_free(r.scan);
	kr_table_fini(&r.by_fid);
	free(r.segments);
	free(r.by_name);
	free(r.files);
	return err;
}

/* The start of a journal, second half: the segments that the scan found are in use again, what was recovered holds its
 * records, and what nobody holds is dead.  See journal_recover.c for the order.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "fuse/journal/journal_record.h"
#include "fuse/journal/journal_recover_priv.h"

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

int kr_reopen_segments(struct kr_rebuild *r)
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
void kr_reopen_take_over(struct kr_rebuild *r)
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

void kr_reopen_hold(struct kr_rebuild *r)
{
	struct kr_recovered_file *file, *next_file;
	struct kr_applied *applied, *next;

	KR_LIST_FOR_EACH_SAFE(file, next_file, &r->recovery->files, link) {
		KR_LIST_FOR_EACH_SAFE(applied, next, &file->applied, link) {
			if (kr_extent_map_empty(&applied->extents)) {
				kr_list_remove(&applied->link);
				kr_applied_free(applied);
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
			kr_recovered_free(file);
		}
	}
}

/* Whether the record is to be marked dead: nobody holds it, and it is not set aside as doubtful. */
static bool is_dead(const struct kr_rebuild *r, const struct kr_scan_ref *ref, const struct kr_journal_record *record)
{
	if (record->type == KR_JOURNAL_NAME || r->segments[ref->segment]->states[ref->slot].held > 0)
		return false;
	return !r->doubt[ref->segment];
}

void kr_reopen_retire(struct kr_rebuild *r)
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

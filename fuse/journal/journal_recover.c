/* The start of a journal: what the scan found becomes files with extents, and segments with holders again.
 *
 * Nothing on the disk changes before everything has been read.  Then: what `clean` vouches for is taken over into this
 * boot, before the mark goes; records that newer ones cover completely are marked dead; dead undamaged segments become
 * spares.  Killed between any two of these steps, the next start finds the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "fuse/journal/journal_recover_priv.h"
#include "fuse/journal/journal_record.h"

/* --- files ------------------------------------------------------------------------------------ */

static void recovered_free(struct kr_recovered_file *file)
{
	kr_extent_map_fini(&file->dirty);
	kr_journal_file_free(file->file);
	free(file);
}

void kr_recovery_fini(struct kr_recovery *recovery)
{
	struct kr_recovered_file *file;

	if (!recovery->files.head.next)
		return;
	while ((file = KR_LIST_POP(&recovery->files, struct kr_recovered_file, link)))
		recovered_free(file);
	kr_journal_damage_free(&recovery->damage);
}

struct kr_rebuilt *kr_rebuilt_find(const struct kr_rebuild *r, const struct kr_fid *fid)
{
	return KR_TABLE_FIND(struct kr_rebuilt, rebuilt, &r->by_fid, kr_fid_hash(fid), by_fid,
		kr_fid_equal(&rebuilt->file->file->fid, fid));
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
	kr_extent_map_init(&file->dirty);
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
	struct kr_extent extent = {record->offset, kept, segment_number(r, ref) << 32 | record->data, record->seq};

	if (!file) /* reported by the scan */
		return 0;
	if (ref->kind == KR_SCAN_BAD_DATA) /* never older bytes where newer ones were acknowledged */
		return kr_extent_map_remove(&file->dirty, record->offset, record->length, NULL, NULL);
	r->recovery->records++;
	file->mtime = time_of(record->mtime_ns);
	if (file->max_seq == 0 || kr_time_compare(file->mtime, file->first_mtime) < 0)
		file->first_mtime = file->mtime;
	file->clear_suid |= record->flags & KR_JOURNAL_CLEAR_SUID;
	file->max_seq = record->seq;
	return kr_extent_map_insert(&file->dirty, &extent, NULL, NULL);
}

static int take_writes(struct kr_rebuild *r)
{
	int err = 0;

	for (size_t i = 0; i < r->scan->ref_count && err == 0; i++) {
		const struct kr_scan_ref *ref = &r->scan->refs[i];
		struct kr_journal_record record;
		uint32_t kept;

		if (ref->kind != KR_SCAN_GOOD && ref->kind != KR_SCAN_BAD_DATA)
			continue;
		kr_scan_record(r->scan, ref, &record, &kept);
		if (record.type == KR_JOURNAL_WRITE)
			err = take_write(r, ref, &record, kept);
	}
	return err;
}

/* --- the segments in use again ----------------------------------------------------------------- */

/* Fills the states of all slots.  A slot without a readable record, or behind the end of the data, is an empty place
 * between its neighbours: it takes no space. */
static void fill_states(struct kr_rebuild *r)
{
	for (size_t i = 0; i < r->scan->ref_count; i++) {
		const struct kr_scan_ref *ref = &r->scan->refs[i];
		struct kr_journal_record record;
		uint32_t kept;

		if (ref->kind == KR_SCAN_BAD_RECORD)
			continue;
		kr_scan_record(r->scan, ref, &record, &kept);
		if ((uint64_t)record.data + record.length <= r->scan->segments[ref->segment].data_length)
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

/* The index in scan->names of what REF is of; -1: it needs no name.  *RET_NAMES: it is a sound NAME itself. */
static ssize_t name_of(const struct kr_scan *scan, const struct kr_scan_ref *ref, bool *ret_names)
{
	const struct kr_scan_name *name;
	struct kr_journal_record record;
	uint32_t kept;

	if (ref->kind == KR_SCAN_BAD_RECORD || (ref->kind == KR_SCAN_DEAD && !scan->segments[ref->segment].damaged))
		return -1;
	kr_scan_record(scan, ref, &record, &kept);
	*ret_names = ref->kind == KR_SCAN_GOOD && record.type == KR_JOURNAL_NAME;
	name = kr_scan_name(scan, record.file);
	return name ? name - scan->names : -1;
}

/* Every segment names the files whose writes it has.  Such a NAME may be damaged.  Then another segment's NAME can
 * still tell the file: the first such segment stays as long as the damage does, also when none of its own writes is
 * needed any more.  Without it the next start would find bytes that belong to no file. */
static int find_lenders(struct kr_rebuild *r)
{
	const struct kr_scan *scan = r->scan;
	KR_AUTO_FREE uint32_t *named_in = calloc(scan->name_count + 1, sizeof(*named_in)); /* segment + 1 */
	KR_AUTO_FREE bool *wanted = calloc(scan->name_count + 1, sizeof(*wanted));
	bool names;
	ssize_t at;

	if (!named_in || !wanted)
		return kr_fail(-ENOMEM, "no memory to recover the journal");
	for (size_t i = 0; i < scan->ref_count; i++) { /* a segment's NAMEs come before its writes */
		at = name_of(scan, &scan->refs[i], &names);
		if (at >= 0 && names)
			named_in[at] = scan->refs[i].segment + 1;
		else if (at >= 0)
			wanted[at] |= named_in[at] != scan->refs[i].segment + 1;
	}
	for (size_t i = 0; i < scan->ref_count; i++) {
		at = name_of(scan, &scan->refs[i], &names);
		if (at < 0 || !names || !wanted[at])
			continue;
		r->segments[scan->refs[i].segment]->lends_name = true;
		wanted[at] = false;
	}
	return 0;
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
	err = find_lenders(r);
	if (err)
		return err;
	fill_states(r);
	for (uint32_t i = 0; i < r->scan->segment_count; i++) {
		finish_states(r->segments[i], r->scan->segments[i].damaged || r->segments[i]->lends_name);
		*(r->segments[i]->set_aside ? &r->journal->set_aside : &r->journal->used) +=
			kr_segment_cost(r->segments[i]);
	}
	return 0;
}

struct stamp {
	struct kr_segment *segment;
	uint64_t at;
};

static void store_copy(void *context)
{
	const struct stamp *stamp = context;

	memcpy(stamp->segment->map + stamp->at, &stamp->segment->header, sizeof(stamp->segment->header));
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* Segments of FROM_BOOT (NULL: of any) are of this one now.  Killed in between, the first copy is the new one, or torn,
 * and the second still the old.  Segments whose headers the disk does not take stay of the former boot. */
static void take_over(struct kr_journal *journal, const uint8_t *from_boot)
{
	struct kr_segment *segment;

	KR_LIST_FOR_EACH(segment, &journal->segments, link) {
		if (from_boot && memcmp(segment->header.node_boot, from_boot, 16) != 0)
			continue;
		memcpy(segment->header.node_boot, journal->node_boot, 16);
		kr_journal_header_seal(&segment->header);
		for (uint64_t at = 0; at <= KR_JOURNAL_HEADER_COPY; at += KR_JOURNAL_HEADER_COPY)
			if (kr_segment_store(journal, segment, at, sizeof(segment->header), store_copy,
				    &(struct stamp){segment, at}) < 0)
				break;
	}
}

void kr_journal_power_settled(struct kr_journal *journal)
{
	KR_SCOPED_LOCK(&journal->lock);
	take_over(journal, NULL);
}

static void hold_extent(void *journal, const struct kr_extent *piece)
{
	kr_journal_hold(journal, piece);
}

/* Every extent of the files holds its records. */
static void reopen_hold(struct kr_rebuild *r)
{
	struct kr_recovered_file *file, *next;

	KR_LIST_FOR_EACH_SAFE(file, next, &r->recovery->files, link) {
		kr_extent_map_for_each(&file->dirty, hold_extent, r->journal);
		r->recovery->bytes += file->dirty.bytes;
		if (kr_extent_map_empty(&file->dirty)) {
			kr_list_remove(&file->link);
			recovered_free(file);
		}
	}
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
		if (record.type == KR_JOURNAL_WRITE && segment->states[ref->slot].held == 0)
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
		err = take_writes(r);
	if (err == 0)
		err = reopen_segments(r);
	return err;
}

static int refuse_other(const struct kr_journal *journal, uint32_t version)
{
	return kr_fail(-EPROTO,
		"%s is a journal of version %u, and kairan " KR_VERSION
		" knows version %d: mount once more with the kairan that wrote it, which sends its bytes, or remove "
		"the directory to give them up",
		journal->options.directory, version, KR_JOURNAL_VERSION);
}

int kr_journal_recover(struct kr_journal *journal, struct kr_recovery *recovery)
{
	struct kr_rebuild r = {.journal = journal, .recovery = recovery};
	struct kr_scan_owner owner;
	uint8_t clean_boot[16];
	bool clean;
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
	clean = kr_scan_clean(journal->dir_fd, clean_boot);
	recovery->power_lost = kr_scan_lost_power(journal->dir_fd, journal->node_boot);
	err = r.scan->other ? refuse_other(journal, r.scan->other) : rebuild_all(&r);
	if (err == 0) {
		if (clean)
			take_over(journal, clean_boot);
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
	free(r.by_name);
	free(r.files);
	return err;
}

/* The records of a journal: which are sound, whose bytes they are, in which order they count (see journal_scan.h). */
#include "fuse/journal/journal_scan_priv.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "common/base/buf.h"
#include "common/base/fail.h"
#include "fuse/journal/journal_priv.h"
#include "fuse/journal/journal_record.h"

/* --- slots ------------------------------------------------------------------------------------ */

/* Whether the slot's own bytes are sound, after correcting one bit at most. */
static bool sound_slot(const struct kr_journal_header *header, struct kr_journal_record *record, bool *ret_repaired)
{
	*ret_repaired = false;
	if (record->check == kr_journal_record_check(record, header->salt))
		return true;
	*ret_repaired = true;
	return kr_journal_record_repair(record, header->salt);
}

static bool data_fits(const struct kr_scan_segment *segment, const struct kr_journal_record *record)
{
	uint32_t max = record->type == KR_JOURNAL_WRITE ? KR_JOURNAL_RECORD_MAX : 1 + KR_FID_MAX + KR_JOURNAL_HINT_MAX;

	return record->length > 0 && record->length <= max &&
		(uint64_t)record->data + record->length <= segment->data_length &&
		(uint64_t)record->data + record->length <= segment->header.data_size;
}

/* Whether a record says what a writer can have written: code behind this need not fear an overflow. */
static bool in_bounds(const struct kr_journal_record *record)
{
	if (record->seq == 0 || record->seq > INT64_MAX || record->file == 0 || record->file == UINT32_MAX)
		return false;
	return record->type == KR_JOURNAL_NAME ||
		(record->type == KR_JOURNAL_WRITE && record->offset <= (uint64_t)INT64_MAX - record->length);
}

static bool data_good(const struct kr_scan_segment *segment, const struct kr_journal_record *record, uint8_t *buffer)
{
	return segment->data_fd >= 0 && data_fits(segment, record) &&
		kr_pread_full(segment->data_fd, buffer, record->length, record->data) == 0 &&
		kr_checksum(buffer, record->length) == record->data_check;
}

/* BUFFER: KR_JOURNAL_RECORD_MAX bytes; has the data of a good NAME or WRITE afterwards. */
static enum kr_scan_kind classify(
	struct kr_scan *scan, const struct kr_scan_segment *segment, uint32_t slot, uint8_t *buffer)
{
	struct kr_journal_record record = segment->slots[slot];
	bool repaired;
	uint32_t kept;

	if (record.check == 0)
		return KR_SCAN_EMPTY;
	if (!sound_slot(&segment->header, &record, &repaired))
		return record.check == kr_journal_record_check(&record, segment->header.old_salt) ? KR_SCAN_EMPTY :
												    KR_SCAN_BAD_RECORD;
	scan->repaired += repaired;
	if (!in_bounds(&record))
		return KR_SCAN_BAD_RECORD;
	if (!kr_journal_kept(&record, record.length, &kept))
		return KR_SCAN_BAD_DATA;
	if (kept == 0)
		return KR_SCAN_DEAD;
	return data_good(segment, &record, buffer) ? KR_SCAN_GOOD : KR_SCAN_BAD_DATA;
}

void kr_scan_record(const struct kr_scan *scan, const struct kr_scan_ref *ref, struct kr_journal_record *ret_record,
	uint32_t *ret_kept)
{
	const struct kr_scan_segment *segment = &scan->segments[ref->segment];
	bool repaired;

	*ret_record = segment->slots[ref->slot];
	*ret_kept = 0;
	sound_slot(&segment->header, ret_record, &repaired);
	kr_journal_kept(ret_record, ret_record->length, ret_kept);
}

static int add_ref(struct kr_scan *scan, const struct kr_scan_ref *ref)
{
	if (scan->ref_count == scan->ref_capacity) {
		size_t capacity = scan->ref_capacity ? scan->ref_capacity * 2 : 1024;
		struct kr_scan_ref *refs = realloc(scan->refs, capacity * sizeof(*refs));

		if (!refs)
			return kr_fail(-ENOMEM, "no memory to read the journal");
		scan->refs = refs;
		scan->ref_capacity = capacity;
	}
	scan->refs[scan->ref_count++] = *ref;
	return 0;
}

/* --- names ------------------------------------------------------------------------------------ */

static int compare_names(const void *a, const void *b)
{
	const struct kr_scan_name *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

const struct kr_scan_name *kr_scan_name(const struct kr_scan *scan, uint32_t number)
{
	const struct kr_scan_name key = {.number = number};

	if (scan->name_count == 0)
		return NULL;
	return bsearch(&key, scan->names, scan->name_count, sizeof(key), compare_names);
}

static bool parse_name(const uint8_t *bytes, uint32_t length, struct kr_scan_name *ret)
{
	uint8_t fid_length = bytes[0];

	if (fid_length == 0 || fid_length > KR_FID_MAX || 1u + fid_length > length)
		return false;
	ret->fid = (struct kr_fid){.length = fid_length};
	memcpy(ret->fid.bytes, bytes + 1, fid_length);
	ret->hint = strndup((const char *)bytes + 1 + fid_length, length - 1 - fid_length);
	return ret->hint != NULL;
}

/* Ascending NAMEs: leaves one of each number.  They are equal but for the hint, so any does.  Where they are not (no
 * writer does that), the owner of the bytes is unknown, and no NAME is left. */
static void unite_names(struct kr_scan *scan)
{
	size_t kept = 0;

	for (size_t i = 0, next; i < scan->name_count; i = next) {
		struct kr_scan_name *first = &scan->names[i];
		bool same = true;

		for (next = i + 1; next < scan->name_count && scan->names[next].number == first->number; next++) {
			same = same && kr_fid_equal(&scan->names[next].fid, &first->fid);
			free(scan->names[next].hint);
		}
		if (same)
			scan->names[kept++] = *first;
		else
			free(first->hint);
	}
	scan->name_count = kept;
}

/* All NAMEs by number. */
static int collect_names(struct kr_scan *scan, uint8_t *buffer)
{
	for (size_t i = 0; i < scan->ref_count; i++) {
		struct kr_scan_segment *segment = &scan->segments[scan->refs[i].segment];
		struct kr_journal_record record;
		struct kr_scan_name name = {0}, *names;
		uint32_t unused;

		kr_scan_record(scan, &scan->refs[i], &record, &unused);
		if (scan->refs[i].kind != KR_SCAN_GOOD || record.type != KR_JOURNAL_NAME)
			continue;
		name.number = record.file;
		if (!data_good(segment, &record, buffer) || !parse_name(buffer, record.length, &name)) {
			scan->refs[i].kind = KR_SCAN_BAD_DATA;
			continue;
		}
		names = realloc(scan->names, (scan->name_count + 1) * sizeof(*names));
		if (!names) {
			free(name.hint);
			return kr_fail(-ENOMEM, "no memory to read the journal");
		}
		scan->names = names;
		scan->names[scan->name_count++] = name;
	}
	if (scan->name_count == 0)
		return 0;
	qsort(scan->names, scan->name_count, sizeof(*scan->names), compare_names);
	unite_names(scan);
	return 0;
}

/* --- damage ------------------------------------------------------------------------------------ */

struct kr_journal_damage *kr_scan_add_damage(struct kr_scan *scan, const char *format, ...)
{
	struct kr_journal_damage *damage = kr_xcalloc(1, sizeof(*damage));
	va_list arguments;

	va_start(arguments, format);
	if (vasprintf(&damage->text, format, arguments) < 0)
		damage->text = kr_xstrdup("damage");
	va_end(arguments);
	kr_list_append(&scan->damage, &damage->link);
	return damage;
}

void kr_journal_damage_free(struct kr_list *list)
{
	struct kr_journal_damage *damage;

	while ((damage = KR_LIST_POP(list, struct kr_journal_damage, link))) {
		free(damage->text);
		free(damage);
	}
}

static const char *file_text(const struct kr_scan *scan, uint32_t number, char *buffer, size_t size)
{
	const struct kr_scan_name *name = kr_scan_name(scan, number);

	if (name && *name->hint)
		snprintf(buffer, size, "%s", name->hint);
	else
		snprintf(buffer, size, "file %u%s", number, name ? "" : " (which nothing names)");
	return buffer;
}

/* Behind the last sound record of the newest segment: what a crash leaves. */
static bool is_tail(const struct kr_scan *scan, const struct kr_scan_ref *ref)
{
	return ref->segment == scan->newest && ref->slot >= scan->segments[ref->segment].last_sound;
}

/* The slot of REF, or its data, is bad: says of which file and where; marks the segment, but for a torn tail. */
static void report(struct kr_scan *scan, const struct kr_scan_ref *ref)
{
	struct kr_scan_segment *segment = &scan->segments[ref->segment];
	bool tail = is_tail(scan, ref);
	const char *what = tail ? "torn tail" : "damage";
	struct kr_journal_damage *damage;
	struct kr_journal_record record;
	char file[512];
	uint32_t kept;

	kr_scan_record(scan, ref, &record, &kept);
	file_text(scan, record.file, file, sizeof(file));
	if (ref->kind == KR_SCAN_BAD_RECORD) {
		damage = kr_scan_add_damage(scan,
			"%s in segment %08x, record %u: unreadable (perhaps %s, offset %" PRIu64 ", %u bytes)", what,
			segment->pair, ref->slot, file, record.offset, record.length);
	} else if (record.type == KR_JOURNAL_WRITE) {
		const struct kr_scan_name *name = kr_scan_name(scan, record.file);

		damage = kr_scan_add_damage(scan, "%s in segment %08x, record %u: %s, bytes %" PRIu64 " to %" PRIu64,
			what, segment->pair, ref->slot, file, record.offset, record.offset + record.length);
		if (name)
			damage->fid = name->fid;
		damage->offset = record.offset;
		damage->length = record.length;
	} else {
		damage = kr_scan_add_damage(scan, "%s in segment %08x, record %u: the name of file %u", what,
			segment->pair, ref->slot, record.file);
	}
	damage->torn_tail = tail;
	if (!tail)
		segment->damaged = true;
}

/* --- the whole -------------------------------------------------------------------------------- */

/* Data of later slots lies behind that of earlier ones and within the file's bounds; *END: of the data so far. */
static bool in_order(const struct kr_scan_segment *segment, const struct kr_journal_record *record, uint64_t *end)
{
	if (record->data < *end || record->length == 0 || record->length > KR_JOURNAL_RECORD_MAX ||
		(uint64_t)record->data + record->length > segment->header.data_size)
		return false;
	*end = (uint64_t)record->data + record->length;
	return true;
}

static int scan_segment(struct kr_scan *scan, uint32_t number, uint8_t *buffer)
{
	struct kr_scan_segment *segment = &scan->segments[number];
	size_t first_ref = scan->ref_count;
	uint64_t end = 0;

	for (uint32_t slot = 0; slot < segment->slot_count; slot++) {
		enum kr_scan_kind kind = classify(scan, segment, slot, buffer);
		struct kr_scan_ref ref = {.segment = number, .slot = slot, .kind = kind};
		struct kr_journal_record record;
		uint32_t kept;
		int err;

		if (kind == KR_SCAN_EMPTY)
			continue;
		kr_scan_record(scan, &ref, &record, &kept);
		if (kind != KR_SCAN_BAD_RECORD && !in_order(segment, &record, &end))
			ref.kind = kind = KR_SCAN_BAD_RECORD;
		err = add_ref(scan, &ref);
		if (err)
			return err;
		segment->used = slot + 1;
		if (kind == KR_SCAN_BAD_RECORD)
			continue;
		if (kind != KR_SCAN_BAD_DATA)
			segment->last_sound = slot + 1;
		if (record.seq > slot)
			segment->first_seq = record.seq - slot;
	}
	scan->unfinished += segment->used - (scan->ref_count - first_ref);
	for (size_t i = first_ref; i < scan->ref_count; i++)
		scan->refs[i].seq = segment->first_seq + scan->refs[i].slot;
	if (segment->slot_count < segment->header.slots) {
		kr_scan_add_damage(scan, "segment %08x: the index was cut, %u of %u records are missing", segment->pair,
			segment->header.slots - segment->slot_count, segment->header.slots);
		segment->damaged = true;
	}
	return 0;
}

static int compare_refs(const void *a, const void *b)
{
	const struct kr_scan_ref *x = a, *y = b;

	return x->seq < y->seq ? -1 : x->seq > y->seq;
}

/* Writes of files without a NAME: their bytes can go nowhere.  NAMEs that contradict each other stay where they are,
 * too: the next start would believe a NAME that were left alone. */
static void find_nameless(struct kr_scan *scan)
{
	for (size_t i = 0; i < scan->ref_count; i++) {
		struct kr_journal_record record;
		uint32_t kept;

		kr_scan_record(scan, &scan->refs[i], &record, &kept);
		if (scan->refs[i].kind == KR_SCAN_GOOD && !kr_scan_name(scan, record.file))
			scan->refs[i].kind = KR_SCAN_BAD_DATA;
	}
}

static int scan_all(struct kr_scan *scan, const struct kr_scan_owner *owner)
{
	KR_AUTO_FREE void *buffer = malloc(KR_JOURNAL_RECORD_MAX);
	int err = buffer ? kr_scan_open_segments(scan, owner) : kr_fail(-ENOMEM, "no memory to read the journal");

	for (uint32_t i = 0; i < scan->segment_count && err == 0; i++)
		err = scan_segment(scan, i, buffer);
	if (err == 0)
		err = collect_names(scan, buffer);
	if (err)
		return err;
	find_nameless(scan);
	if (scan->ref_count)
		qsort(scan->refs, scan->ref_count, sizeof(*scan->refs), compare_refs);
	for (size_t i = 0; i < scan->ref_count; i++)
		if (scan->refs[i].kind == KR_SCAN_BAD_RECORD || scan->refs[i].kind == KR_SCAN_BAD_DATA)
			report(scan, &scan->refs[i]);
	return 0;
}

struct kr_scan *kr_scan_new(int dir_fd)
{
	struct kr_scan *scan = kr_xcalloc(1, sizeof(*scan));

	scan->dir_fd = dir_fd;
	kr_list_init(&scan->damage);
	return scan;
}

int kr_scan_open(int dir_fd, const struct kr_scan_owner *owner, struct kr_scan **ret_scan)
{
	struct kr_scan *scan = kr_scan_new(dir_fd);
	int err = scan_all(scan, owner);

	if (err)
		kr_scan_free(scan);
	else
		*ret_scan = scan;
	return err;
}

void kr_scan_free(struct kr_scan *scan)
{
	if (!scan)
		return;
	kr_journal_damage_free(&scan->damage);
	for (uint32_t i = 0; i < scan->segment_count; i++)
		kr_scan_close_segment(&scan->segments[i]);
	for (size_t i = 0; i < scan->name_count; i++)
		free(scan->names[i].hint);
	free(scan->segments);
	free(scan->refs);
	free(scan->names);
	free(scan->blank_pairs);
	free(scan);
}

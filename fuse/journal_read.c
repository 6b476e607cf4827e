#include "fuse/journal_read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/buf.h"
#include "common/fail.h"
#include "fuse/journal_priv.h"
#include "fuse/journal_record.h"

static const uint8_t nobody[16];

/* --- damage -------------------------------------------------------------------------------------------------- */

static struct kr_journal_damage *__attribute__((format(printf, 2, 3)))
add_damage(struct kr_scan *scan, const char *format, ...)
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
	struct kr_link *link;

	while ((link = kr_list_pop(list))) {
		struct kr_journal_damage *damage = KR_LIST_ENTRY(link, struct kr_journal_damage, link);

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
		damage = add_damage(scan,
			"%s in segment %08x, record %u: unreadable (perhaps %s, offset %llu, %u bytes)", what,
			segment->pair, ref->slot, file, (unsigned long long)record.offset, record.length);
	} else if (record.type == KR_JOURNAL_WRITE) {
		const struct kr_scan_name *name = kr_scan_name(scan, record.file);

		damage = add_damage(scan, "%s in segment %08x, record %u: %s, bytes %llu to %llu", what, segment->pair,
			ref->slot,
			file, (unsigned long long)record.offset, (unsigned long long)(record.offset + record.length));
		damage->has_file = name != NULL;
		if (name)
			damage->fid = name->fid;
		damage->offset = record.offset;
		damage->length = record.length;
	} else {
		damage = add_damage(scan, "%s in segment %08x, record %u: %s of file %u", what, segment->pair,
			ref->slot,
			record.type == KR_JOURNAL_NAME ? "the name" : "a state", record.file);
	}
	damage->torn_tail = tail;
	if (!tail)
		segment->damaged = true;
}

/* --- slots --------------------------------------------------------------------------------------------------- */

static bool is_zero(const void *bytes, size_t length)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i < length; i++)
		if (at[i])
			return false;
	return true;
}

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

/* Whether a record says what a writer can have written: nobody has to fear an overflow behind this. */
static bool in_bounds(const struct kr_journal_record *record)
{
	if (record->seq == 0 || record->seq > INT64_MAX || record->file == 0 || record->file == UINT32_MAX)
		return false;
	return record->type == KR_JOURNAL_APPLIED || record->type == KR_JOURNAL_NAME ||
		(record->type == KR_JOURNAL_WRITE && record->offset <= (uint64_t)INT64_MAX - record->length);
}

static bool data_good(const struct kr_scan_segment *segment, const struct kr_journal_record *record, uint8_t *buffer)
{
	return segment->data_fd >= 0 && data_fits(segment, record) &&
		kr_pread_full(segment->data_fd, buffer, record->length, record->data) == 0 &&
		kr_checksum(buffer, record->length) == record->data_check;
}

/* BUFFER: KR_JOURNAL_RECORD_MAX bytes; has the data of a good NAME or WRITE afterwards. */
static enum kr_scan_kind classify(struct kr_scan *scan, const struct kr_scan_segment *segment, uint32_t slot,
	uint8_t *buffer)
{
	struct kr_journal_record record = segment->slots[slot];
	bool repaired;
	uint32_t kept;

	if (record.check == 0)
		return KR_SCAN_EMPTY;
	if (!sound_slot(&segment->header, &record, &repaired))
		return record.check == kr_journal_record_check(&record, segment->header.old_salt)
			? KR_SCAN_EMPTY : KR_SCAN_BAD_RECORD;
	scan->repaired += repaired;
	if (!in_bounds(&record))
		return KR_SCAN_BAD_RECORD;
	if (!kr_journal_kept(&record, record.type == KR_JOURNAL_APPLIED ? 1 : record.length, &kept))
		return KR_SCAN_BAD_DATA;
	if (kept == 0)
		return KR_SCAN_DEAD;
	if (record.type != KR_JOURNAL_APPLIED && !data_good(segment, &record, buffer))
		return KR_SCAN_BAD_DATA;
	return KR_SCAN_GOOD;
}

void kr_scan_record(const struct kr_scan *scan, const struct kr_scan_ref *ref, struct kr_journal_record *ret_record,
	uint32_t *ret_kept)
{
	const struct kr_scan_segment *segment = &scan->segments[ref->segment];
	bool repaired;

	*ret_record = segment->slots[ref->slot];
	*ret_kept = 0;
	sound_slot(&segment->header, ret_record, &repaired);
	kr_journal_kept(ret_record, ret_record->type == KR_JOURNAL_APPLIED ? 1 : ret_record->length, ret_kept);
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

/* --- names --------------------------------------------------------------------------------------------------- */

const struct kr_scan_name *kr_scan_name(const struct kr_scan *scan, uint32_t number)
{
	size_t low = 0, high = scan->name_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (scan->names[middle].number < number)
			low = middle + 1;
		else
			high = middle;
	}
	return low < scan->name_count && scan->names[low].number == number ? &scan->names[low] : NULL;
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

static int compare_names(const void *a, const void *b)
{
	const struct kr_scan_name *x = a, *y = b;

	return x->number < y->number ? -1 : x->number > y->number;
}

/* All NAMEs by number; names of one number are equal but for the hint, so any does. */
static int collect_names(struct kr_scan *scan, uint8_t *buffer)
{
	size_t kept = 0;

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
	for (size_t i = 1; i < scan->name_count; i++) {
		if (scan->names[i].number == scan->names[kept].number)
			free(scan->names[i].hint);
		else
			scan->names[++kept] = scan->names[i];
	}
	scan->name_count = kept + 1;
	return 0;
}

/* --- segments ------------------------------------------------------------------------------------------------ */

static void close_segment(struct kr_scan_segment *segment)
{
	if (segment->index)
		munmap((void *)(uintptr_t)segment->index, segment->index_length);
	if (segment->data_fd >= 0)
		close(segment->data_fd);
}

static int open_file(int dir_fd, uint32_t pair, const char *suffix, uint64_t *ret_length)
{
	char name[16];
	struct stat st;
	int fd;

	kr_segment_name(pair, suffix, name);
	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	*ret_length = 0;
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(fd);
		return -EINVAL;
	}
	*ret_length = (uint64_t)st.st_size;
	return fd;
}

/* The copy that counts. */
static bool read_header(const struct kr_scan_segment *segment, struct kr_journal_header *ret)
{
	bool found = false;

	for (size_t at = 0; at <= KR_JOURNAL_HEADER_COPY; at += KR_JOURNAL_HEADER_COPY) {
		struct kr_journal_header copy;

		if (at + sizeof(copy) > segment->index_length)
			break;
		memcpy(&copy, segment->index + at, sizeof(copy));
		if (!kr_journal_header_good(&copy) || (found && copy.number <= ret->number))
			continue;
		*ret = copy;
		found = true;
	}
	return found && ret->number > 0 && ret->number <= INT32_MAX && ret->slots <= 1 << 20 &&
		ret->data_size <= UINT32_MAX;
}

static int add_blank(struct kr_scan *scan, uint32_t pair)
{
	uint32_t *pairs = realloc(scan->blank_pairs, (scan->blank_count + 1) * sizeof(*pairs));

	if (!pairs)
		return kr_fail(-ENOMEM, "no memory to read the journal");
	scan->blank_pairs = pairs;
	scan->blank_pairs[scan->blank_count++] = pair;
	return 0;
}

static int map_index(struct kr_scan *scan, struct kr_scan_segment *segment)
{
	uint64_t length;
	int fd = open_file(scan->dir_fd, segment->pair, "index", &length);

	if (fd < 0)
		return fd;
	segment->index_length = (size_t)KR_MIN(length, UINT64_C(1) << 30);
	if (length > 0) {
		void *map = mmap(NULL, segment->index_length, PROT_READ, MAP_PRIVATE, fd, 0);

		segment->index = map == MAP_FAILED ? NULL : map;
	}
	close(fd);
	return segment->index || length == 0 ? 0 : -EIO;
}

static void refuse(struct kr_scan *scan, uint32_t pair, const char *why)
{
	add_damage(scan, "segment %08x is refused and left alone: %s", pair, why);
	scan->refused++;
}

/* Opens one pair and decides whether it is ours to read: 1 yes, 0 no (said so), -ENOMEM. */
static int open_segment(struct kr_scan *scan, uint32_t pair, struct kr_scan_segment *segment)
{
	int err;

	*segment = (struct kr_scan_segment){.pair = pair, .data_fd = -1};
	err = map_index(scan, segment);
	segment->data_fd = open_file(scan->dir_fd, pair, "data", &segment->data_length);
	if (err == 0 && read_header(segment, &segment->header)) {
		uint32_t there = 0;

		if (segment->index_length > KR_JOURNAL_HEADER_SIZE)
			there = (uint32_t)((segment->index_length - KR_JOURNAL_HEADER_SIZE) / KR_JOURNAL_RECORD_SIZE);
		segment->slot_count = KR_MIN(segment->header.slots, there);
		segment->slots = (const void *)(segment->index + KR_JOURNAL_HEADER_SIZE);
		return 1;
	}
	if (err == -ENOENT || (err == 0 && (segment->index_length > 0 || segment->data_length == 0) &&
		is_zero(segment->index, segment->index_length))) {
		if (segment->data_length > 0)
			add_damage(scan, "segment %08x: data without an index, never begun or being removed", pair)->torn_tail = true;
		err = add_blank(scan, pair);
	} else
		refuse(scan, pair, err ? "its index cannot be read" : "its header is damaged, or not of this version");
	close_segment(segment);
	return err == -ENOMEM ? -ENOMEM : 0;
}

static int compare_pairs(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

static bool parse_file_name(const char *name, uint32_t *ret_pair)
{
	char suffix[8];
	int end = 0;

	return sscanf(name, "%8x.%7s%n", ret_pair, suffix, &end) == 2 && name[end] == 0 && name[8] == '.' &&
		(strcmp(suffix, "index") == 0 || strcmp(suffix, "data") == 0);
}

/* The pairs of which at least one file exists, ascending. */
static int list_pairs(int dir_fd, uint32_t **ret_pairs, size_t *ret_count)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
	uint32_t *pairs = NULL, pair;
	size_t count = 0, kept = 0;
	struct dirent *entry;

	if (!directory)
		return kr_fail_errno(-errno, "the journal's directory cannot be read");
	while ((entry = readdir(directory))) {
		if (!parse_file_name(entry->d_name, &pair))
			continue;
		if (count % 64 == 0)
			pairs = reallocarray(pairs, count + 64, sizeof(*pairs));
		if (!pairs)
			break;
		pairs[count++] = pair;
	}
	closedir(directory);
	if (!pairs && count)
		return kr_fail(-ENOMEM, "no memory to read the journal");
	if (count) {
		qsort(pairs, count, sizeof(*pairs), compare_pairs);
		for (size_t i = 1; i < count; i++)
			if (pairs[i] != pairs[kept])
				pairs[++kept] = pairs[i];
		count = kept + 1;
	}
	*ret_pairs = pairs;
	*ret_count = count;
	return 0;
}

/* Drops segments of others and second ones of a number; finds the newest. */
static void choose_segments(struct kr_scan *scan, const struct kr_scan_owner *owner)
{
	struct kr_scan_owner mine = *owner;
	uint64_t newest = 0;
	uint32_t kept = 0;

	for (uint32_t i = 0; i < scan->segment_count; i++) {
		const struct kr_journal_header *header = &scan->segments[i].header;

		if (header->number <= newest)
			continue;
		newest = header->number;
		if (memcmp(owner->export_id, nobody, 16) == 0)
			memcpy(mine.export_id, header->export_id, 16);
		if (memcmp(owner->node_id, nobody, 16) == 0)
			memcpy(mine.node_id, header->node_id, 16);
	}
	newest = 0;
	for (uint32_t i = 0; i < scan->segment_count; i++) {
		struct kr_scan_segment *segment = &scan->segments[i];
		const char *why = NULL;

		if (memcmp(segment->header.export_id, mine.export_id, 16) != 0)
			why = "it belongs to another export";
		else if (memcmp(segment->header.node_id, mine.node_id, 16) != 0)
			why = "it belongs to another node's journal";
		for (uint32_t j = 0; j < kept && !why; j++)
			if (scan->segments[j].header.number == segment->header.number)
				why = "another segment has the same number";
		if (why) {
			refuse(scan, segment->pair, why);
			close_segment(segment);
			continue;
		}
		if (segment->header.number > newest) {
			newest = segment->header.number;
			scan->newest = kept;
		}
		scan->segments[kept++] = *segment;
	}
	scan->segment_count = kept;
}

static int open_segments(struct kr_scan *scan, const struct kr_scan_owner *owner)
{
	KR_AUTO_FREE void *memory = NULL;
	uint32_t *pairs = NULL;
	size_t count = 0;
	int err = list_pairs(scan->dir_fd, &pairs, &count);

	memory = pairs;
	if (err)
		return err;
	scan->segments = calloc(count + 1, sizeof(*scan->segments));
	if (!scan->segments)
		return kr_fail(-ENOMEM, "no memory to read the journal");
	for (size_t i = 0; i < count; i++) {
		err = open_segment(scan, pairs[i], &scan->segments[scan->segment_count]);
		if (err < 0)
			return err;
		scan->segment_count += (uint32_t)err;
	}
	scan->next_pair = count ? pairs[count - 1] + 1 : 1;
	choose_segments(scan, owner);
	return 0;
}

/* --- the whole ----------------------------------------------------------------------------------------------- */

/* Data of later slots lies behind that of earlier ones and within the file's bounds; *END: of the data so far. */
static bool in_order(const struct kr_scan_segment *segment, const struct kr_journal_record *record, uint64_t *end)
{
	if (record->type == KR_JOURNAL_APPLIED)
		return true;
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
		add_damage(scan, "segment %08x: the index was cut, %u of %u records are missing", segment->pair,
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

/* Writes of files that nobody names: their bytes can go nowhere. */
static void find_nameless(struct kr_scan *scan)
{
	for (size_t i = 0; i < scan->ref_count; i++) {
		struct kr_journal_record record;
		uint32_t kept;

		kr_scan_record(scan, &scan->refs[i], &record, &kept);
		if (scan->refs[i].kind == KR_SCAN_GOOD && record.type == KR_JOURNAL_WRITE && !kr_scan_name(scan,
			record.file))
			scan->refs[i].kind = KR_SCAN_BAD_DATA;
	}
}

static int scan_all(struct kr_scan *scan, const struct kr_scan_owner *owner)
{
	KR_AUTO_FREE void *buffer = malloc(KR_JOURNAL_RECORD_MAX);
	int err = buffer ? open_segments(scan, owner) : kr_fail(-ENOMEM, "no memory to read the journal");

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

int kr_scan_open(int dir_fd, const struct kr_scan_owner *owner, struct kr_scan **ret_scan)
{
	struct kr_scan *scan = kr_xcalloc(1, sizeof(*scan));
	int err;

	scan->dir_fd = dir_fd;
	kr_list_init(&scan->damage);
	err = scan_all(scan, owner);
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
		close_segment(&scan->segments[i]);
	for (size_t i = 0; i < scan->name_count; i++)
		free(scan->names[i].hint);
	free(scan->segments);
	free(scan->refs);
	free(scan->names);
	free(scan->blank_pairs);
	free(scan);
}

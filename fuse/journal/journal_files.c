/* The files of a journal's directory: which pairs are there, and whose segments are read (see journal_scan.h).
 *
 * Files that are not ours to read are left alone and said so; those of a segment that was never begun are remembered as
 * blank.
 */
#include "fuse/journal/journal_scan_priv.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "fuse/journal/journal_priv.h"
#include "fuse/journal/journal_record.h"

static const uint8_t nobody[16];

static bool is_zero(const void *bytes, size_t length)
{
	const uint8_t *at = bytes;

	for (size_t i = 0; i < length; i++)
		if (at[i])
			return false;
	return true;
}

void kr_scan_close_segment(struct kr_scan_segment *segment)
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

/* The header's copy NUMBER, 0 or 1.  False: the index is too short for it. */
static bool read_copy(const struct kr_scan_segment *segment, size_t number, struct kr_journal_header *ret_copy)
{
	size_t at = number * KR_JOURNAL_HEADER_COPY;

	if (at + sizeof(*ret_copy) > segment->index_length)
		return false;
	memcpy(ret_copy, segment->index + at, sizeof(*ret_copy));
	return true;
}

/* Finds the header's copy that counts, and the slots. */
static bool read_header(struct kr_scan_segment *segment)
{
	struct kr_journal_header *header = &segment->header, copy;
	uint32_t there = 0;
	bool found = false;

	for (size_t i = 0; i < 2 && read_copy(segment, i, &copy); i++) {
		if (!kr_journal_header_good(&copy, KR_JOURNAL_VERSION) || (found && copy.number <= header->number))
			continue;
		*header = copy;
		found = true;
	}
	if (segment->index_length > KR_JOURNAL_HEADER_SIZE)
		there = (uint32_t)((segment->index_length - KR_JOURNAL_HEADER_SIZE) / KR_JOURNAL_RECORD_SIZE);
	segment->slot_count = KR_MIN(header->slots, there);
	segment->slots = (const void *)(segment->index + KR_JOURNAL_HEADER_SIZE);
	return found && header->number > 0 && header->number <= INT32_MAX && header->slots <= 1 << 20 &&
		header->data_size <= UINT32_MAX;
}

/* The version of a sound header that another version of kairan has written; else 0. */
static uint32_t other_version(const struct kr_scan_segment *segment)
{
	struct kr_journal_header copy;

	for (size_t i = 0; i < 2 && read_copy(segment, i, &copy); i++)
		if (copy.version != KR_JOURNAL_VERSION && kr_journal_header_good(&copy, copy.version))
			return copy.version;
	return 0;
}

/* Whether a record may be live; the data is not looked at. */
static bool has_bytes(const struct kr_scan_segment *segment)
{
	for (uint32_t slot = 0; slot < segment->slot_count; slot++) {
		const struct kr_journal_record *record = &segment->slots[slot];
		uint32_t kept;

		if (record->check == 0 || record->check == kr_journal_record_check(record, segment->header.old_salt))
			continue;
		if (record->check != kr_journal_record_check(record, segment->header.salt))
			return true;
		if (record->type == KR_JOURNAL_NAME)
			continue;
		if (!kr_journal_kept(record, record->length, &kept) || kept > 0)
			return true;
	}
	return segment->slot_count < segment->header.slots;
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
	kr_scan_add_damage(scan, "segment %08x is refused and left alone: %s", pair, why);
	scan->refused++;
}

/* Opens one pair and decides whether it is ours to read: 1 yes, 0 no (said so), -ENOMEM. */
static int open_segment(struct kr_scan *scan, uint32_t pair, struct kr_scan_segment *segment)
{
	int err;

	*segment = (struct kr_scan_segment){.pair = pair, .data_fd = -1};
	err = map_index(scan, segment);
	segment->data_fd = open_file(scan->dir_fd, pair, "data", &segment->data_length);
	if (err == 0 && read_header(segment))
		return 1;
	if (err == 0 && other_version(segment)) {
		scan->other = other_version(segment);
		refuse(scan, pair, "another version of kairan has written it");
	} else if (err == -ENOENT ||
		(err == 0 && (segment->index_length > 0 || segment->data_length == 0) &&
			is_zero(segment->index, segment->index_length))) {
		if (segment->data_length > 0)
			kr_scan_add_damage(
				scan, "segment %08x: data without an index, never begun or being removed", pair)
				->torn_tail = true;
		err = add_blank(scan, pair);
	} else
		refuse(scan, pair, err ? "its index cannot be read" : "its header is damaged, or not of this version");
	kr_scan_close_segment(segment);
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
	DIR *directory = kr_opendir_at(dir_fd, ".");
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
			kr_scan_close_segment(segment);
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

int kr_scan_open_segments(struct kr_scan *scan, const struct kr_scan_owner *owner)
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

bool kr_scan_clean(int dir_fd, uint8_t ret_boot[16])
{
	KR_AUTO_FREE char *text = NULL;
	size_t length;

	if (kr_read_file(dir_fd, KR_JOURNAL_CLEAN, 16, &text, &length) < 0 || length != 16)
		return false;
	memcpy(ret_boot, text, 16);
	return true;
}

bool kr_scan_lost_power(int dir_fd, const uint8_t node_boot[16])
{
	static const struct kr_scan_owner anybody;
	struct kr_scan *scan = kr_scan_new(dir_fd);
	uint8_t clean_boot[16];
	const bool clean = kr_scan_clean(dir_fd, clean_boot);
	bool lost = false;

	(void)kr_scan_open_segments(scan, &anybody); /* what cannot be read says nothing */
	for (uint32_t i = 0; i < scan->segment_count; i++) {
		const uint8_t *then = scan->segments[i].header.node_boot;

		lost |= memcmp(then, node_boot, 16) != 0 && !(clean && memcmp(then, clean_boot, 16) == 0) &&
			has_bytes(&scan->segments[i]);
	}
	kr_scan_free(scan);
	return lost;
}

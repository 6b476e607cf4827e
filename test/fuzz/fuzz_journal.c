/* Fuzz target: a journal's directory that holds anything, at the start of a mount and for `kairan journal`.
 *
 * The input makes up to three segments of a few records each, sensible ones first, then changes any of their bytes and
 * seals them again or not: checksums keep nobody out who can write files.  Whatever is there, the listing and the
 * recovery end; every extent that the recovery gives can be read; and a second start finds what the first one found,
 * unless segments were refused.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/table.h"
#include "common/base/util.h"
#include "fuse/journal/journal.h"
#include "fuse/journal/journal_scan.h"
#include "fuse/journal/journal_record.h"
#include "test/fuzz/fuzz.h"
#include "test/unit/directory.h"

enum { SEGMENTS = 3, SLOTS = 24, DATA = 16384, INDEX = KR_JOURNAL_HEADER_SIZE + SLOTS * KR_JOURNAL_RECORD_SIZE };
enum { MODE_APPEND = 4 };
enum { SEAL = 128, SEAL_DATA = 64, CUT = 32, DEAD = 16 };

struct input {
	const uint8_t *bytes;
	size_t length;
};

struct image {
	uint8_t index[INDEX], data[DATA];
	uint32_t slots, used;
};

static char directory[64];
static int directory_fd;
static uint64_t incarnation;
static FILE *nowhere;

static unsigned take(struct input *in)
{
	if (in->length == 0)
		return 0;
	in->length--;
	return *in->bytes++;
}

static void remove_directory(void)
{
	directory_remove(directory);
}

static void make_directory(void)
{
	strcpy(directory, access("/dev/shm", W_OK) == 0 ? "/dev/shm/kr-fuzz-XXXXXX" : "/tmp/kr-fuzz-XXXXXX");
	assert(mkdtemp(directory));
	directory_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	nowhere = fopen("/dev/null", "w");
	assert(directory_fd >= 0 && nowhere);
	atexit(remove_directory);
}

/* --- segments --------------------------------------------------------------------------------- */

static void change(struct input *in, uint8_t *bytes, size_t length)
{
	for (unsigned left = take(in) % 8; left > 0; left--) {
		unsigned at = take(in);

		bytes[at % length] = (uint8_t)take(in);
	}
}

static struct kr_journal_header make_header(struct input *in, struct image *image, uint64_t number)
{
	struct kr_journal_header header = {.magic = KR_JOURNAL_MAGIC,
		.version = KR_JOURNAL_VERSION,
		.slots = SLOTS,
		.number = number,
		.salt = 77 + number,
		.old_salt = 76 + number,
		.data_size = DATA,
		.export_id = {1},
		.node_id = {2}};
	unsigned control = take(in);

	if (control & 8)
		header.version = 1;
	kr_journal_header_seal(&header);
	change(in, (uint8_t *)&header, sizeof(header));
	if (control & 1)
		kr_journal_header_seal(&header);
	if (!(control & 2))
		memcpy(image->index, &header, sizeof(header));
	if (!(control & 4))
		memcpy(image->index + KR_JOURNAL_HEADER_COPY, &header, sizeof(header));
	return header;
}

/* What a writer would make of a few bytes of input. */
static void make_data(struct input *in, struct image *image, struct kr_journal_record *record)
{
	uint32_t at = (image->used + 63) / 64 * 64;

	record->offset = record->type == KR_JOURNAL_WRITE ? take(in) * 100 : 0;
	record->length = record->type == KR_JOURNAL_WRITE ? 1 + take(in) * 3 : 10;
	record->data = at;
	if ((uint64_t)at + record->length > DATA)
		return;
	memset(image->data + at, (int)take(in), record->length);
	if (record->type == KR_JOURNAL_NAME) {
		image->data[at] = 3;
		image->data[at + 1] = (uint8_t)record->file;
	}
	image->used = at + record->length;
}

static void make_record(struct input *in, struct image *image, const struct kr_journal_header *header, uint32_t slot)
{
	unsigned control = take(in);
	struct kr_journal_record record = {.seq = (header->number << 8) + slot,
		.file = 1 + (control >> 2) % 3,
		.type = (uint8_t)(1 + control % 3)};

	make_data(in, image, &record);
	change(in, (uint8_t *)&record, sizeof(record));
	if (control & SEAL_DATA && (uint64_t)record.data + record.length <= DATA)
		record.data_check = kr_checksum(image->data + record.data, record.length);
	if (control & SEAL)
		record.check = kr_journal_record_check(&record, header->salt);
	if (control & (CUT | DEAD))
		record.keep = kr_journal_keep(record.check, control & DEAD ? 0 : record.length / 2 + 1);
	memcpy(image->index + KR_JOURNAL_HEADER_SIZE + (size_t)slot * KR_JOURNAL_RECORD_SIZE, &record, sizeof(record));
}

static void store(uint32_t pair, const char *suffix, const uint8_t *bytes, size_t length)
{
	char name[32];
	int fd;

	snprintf(name, sizeof(name), "%08x.%s", pair, suffix);
	fd = openat(directory_fd, name, O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
	assert(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
	close(fd);
}

static void make_segment(struct input *in, uint32_t pair)
{
	static struct image image;
	struct kr_journal_header header;
	unsigned records, cut;

	memset(&image, 0, sizeof(image));
	header = make_header(in, &image, pair + take(in) % 2);
	records = take(in) % (SLOTS + 1);
	for (uint32_t slot = 0; slot < records; slot++)
		make_record(in, &image, &header, slot);
	change(in, image.data, DATA);
	cut = take(in);
	store(pair, "index", image.index, cut & 1 ? (size_t)take(in) * 23 : INDEX);
	store(pair, "data", image.data, cut & 2 ? (size_t)take(in) * 64 : DATA);
}

/* --- what is made of it ----------------------------------------------------------------------- */

struct sum {
	struct kr_journal *journal;
	uint64_t value;
};

static void mix(struct sum *sum, uint64_t value)
{
	uint64_t both[2] = {sum->value, value};

	sum->value = kr_checksum(both, sizeof(both));
}

static void add_extent(void *context, const struct kr_extent *piece)
{
	static uint8_t bytes[KR_JOURNAL_RECORD_MAX];
	struct sum *sum = context;

	mix(sum, piece->offset);
	for (uint64_t done = 0; done < piece->length;) {
		uint64_t part = KR_MIN(piece->length - done, sizeof(bytes));

		assert(kr_journal_read_verified(sum->journal, piece->position + done, bytes, part) == 0);
		mix(sum, kr_checksum(bytes, part));
		done += part;
	}
}

/* Order of files is the recovery's own business. */
static uint64_t sum_of(struct kr_journal *journal, const struct kr_recovery *recovery)
{
	const struct kr_recovered_file *file;
	uint64_t all = 0;

	KR_LIST_FOR_EACH(file, &recovery->files, link) {
		struct sum sum = {journal, kr_hash_bytes(file->file->fid.bytes, file->file->fid.length)};

		kr_extent_map_for_each(&file->dirty, add_extent, &sum);
		mix(&sum, (uint64_t)file->mtime.sec);
		all += sum.value;
	}
	return all;
}

static void append(struct kr_journal *journal, uint8_t value)
{
	struct kr_journal_file *file = kr_journal_file_new(&(struct kr_fid){.length = 1, .bytes = {9}}, "new");
	struct kr_extent extent;
	uint8_t back = 0;

	assert(kr_journal_append(journal, file, 5, &value, 1, (struct kr_time){0}, false, &extent) == 0);
	assert(kr_journal_read_verified(journal, extent.position, &back, 1) == 0 && back == value);
	kr_journal_release(journal, &extent);
	kr_journal_file_free(file);
}

static uint64_t start(uint8_t mode)
{
	struct kr_journal_options options = {.directory = directory,
		.export_id = {1},
		.node_id = {2},
		.incarnation = ++incarnation,
		.max = KR_JOURNAL_MIN};
	struct kr_recovery recovery;
	const bool lost_power = kr_journal_lost_power(directory, NULL);
	struct kr_journal *journal;
	uint64_t sum;
	int err;

	err = kr_journal_open(&options, &recovery, &journal);
	assert(err == 0 || err == -EPROTO); /* it is of another version */
	if (err)
		return 1;
	assert(recovery.power_lost == lost_power);
	sum = sum_of(journal, &recovery);
	if (mode & MODE_APPEND)
		append(journal, mode);
	kr_recovery_fini(&recovery);
	kr_journal_free(journal);
	return sum;
}

/* Whether every segment is read. */
static bool list(void)
{
	static const struct kr_scan_owner anybody;
	struct kr_scan *scan;
	bool all;

	assert(kr_scan_open(directory_fd, &anybody, &scan) == 0);
	kr_scan_dump(scan, true, nowhere);
	kr_scan_verify(scan, nowhere);
	all = scan->refused == 0;
	kr_scan_free(scan);
	return all;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct input in = {bytes, length};
	uint8_t mode = (uint8_t)take(&in);
	uint64_t first;
	bool all;

	if (!nowhere)
		make_directory();
	directory_empty(directory);
	for (uint32_t pair = 1; pair <= 1u + mode % SEGMENTS; pair++)
		make_segment(&in, pair);
	all = list();
	first = start(mode);
	if (start(mode) != first && all) /* what was refused may be read when what it was in the way of has gone */
		abort();
	return 0;
}

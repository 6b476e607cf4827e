/* The journal's pairs of files: making, reusing, opening and removing them (REUSE in journal_format.h). */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/fault.h"
#include "fuse/journal/sigbus_guard.h"
#include "fuse/journal/journal_priv.h"
#include "fuse/journal/journal_record.h"

void kr_segment_name(uint32_t pair, const char *suffix, char ret_name[16])
{
	snprintf(ret_name, 16, "%08x.%s", pair, suffix);
}

uint64_t kr_segment_cost(const struct kr_segment *segment)
{
	return ((segment->used_data + 4095) & ~UINT64_C(4095)) - segment->punched + segment->map_size;
}

/* ERR: of a sync of SEGMENT, which never succeeds again after one that failed. */
static int synced(struct kr_segment *segment, int err)
{
	if (err)
		segment->unsynced = true;
	return segment->unsynced ? kr_fail(-EIO, "journal segment %08x could not be synced", segment->pair) : 0;
}

int kr_segment_sync_index(struct kr_segment *segment)
{
	int err = KR_FAULT("journal.sync");

	if (err == 0 && msync(segment->map, segment->map_size, MS_SYNC) < 0)
		err = -errno;
	return synced(segment, err);
}

int kr_segment_sync(struct kr_segment *segment)
{
	int err = segment->data_fd >= 0 && fdatasync(segment->data_fd) < 0 ? -errno : 0;

	return err ? synced(segment, err) : kr_segment_sync_index(segment);
}

static uint64_t random_salt(void)
{
	uint64_t salt;

	if (getrandom(&salt, sizeof(salt), GRND_NONBLOCK) != sizeof(salt))
		salt = kr_clock_real_ns() ^ (uint64_t)getpid() << 48;
	return salt;
}

struct heading {
	struct kr_segment *segment;
	const struct kr_journal_header *header;
};

/* Only the slots that were used can be other than zero. */
static void store_header(void *context)
{
	const struct heading *heading = context;
	struct kr_segment *segment = heading->segment;

	memset(segment->slots, 0, (size_t)segment->used_slots * sizeof(*segment->slots));
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	memcpy(segment->map, heading->header, sizeof(*heading->header));
	__atomic_signal_fence(__ATOMIC_SEQ_CST);
	memcpy(segment->map + KR_JOURNAL_HEADER_COPY, heading->header, sizeof(*heading->header));
}

static int open_pair_file(struct kr_journal *journal, uint32_t pair, const char *suffix, int flags)
{
	char name[16];
	int fd;

	kr_segment_name(pair, suffix, name);
	fd = openat(journal->dir_fd, name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | flags, 0600);
	return fd >= 0 ? fd : kr_fail_errno(-errno, "journal segment %s", name);
}

/* Zeros are written, not just allocated: a store into the mapping must never find the disk full. */
static int write_zeros(int fd, uint64_t offset, size_t size)
{
	static const uint8_t zeros[64 * 1024];
	int err = 0;

	for (size_t done = 0; done < size && err == 0; done += sizeof(zeros))
		err = kr_pwrite_full(fd, zeros, KR_MIN(sizeof(zeros), size - done), offset + done);
	return err;
}

int kr_segment_store(struct kr_journal *journal, const struct kr_segment *segment, uint64_t offset, size_t length,
	void (*body)(void *context), void *context)
{
	int err;

	if (kr_sigbus_guard(body, context) == 0)
		return 0;
	KR_AUTO_FD int fd = open_pair_file(journal, segment->pair, "index", 0);
	err = fd < 0 ? fd : write_zeros(fd, offset, length);
	return err ? kr_fail_errno(err, "journal segment %08x: cannot write the index", segment->pair) :
		     kr_sigbus_guard(body, context);
}

/* Empty slots, then both copies of the header, for the next number: the segment is in use from now on. */
static int write_header(struct kr_journal *journal, struct kr_segment *segment)
{
	int err;
	struct kr_journal_header header = {
		.magic = KR_JOURNAL_MAGIC,
		.version = KR_JOURNAL_VERSION,
		.slots = segment->slot_count,
		.number = journal->next_number++,
		.salt = random_salt(),
		.old_salt = segment->salt,
		.data_size = segment->data_size,
	};

	memcpy(header.export_id, journal->options.export_id, 16);
	memcpy(header.node_id, journal->options.node_id, 16);
	memcpy(header.node_boot, journal->node_boot, 16);
	kr_journal_header_seal(&header);
	/* All that can be other than zero. */
	err = kr_segment_store(journal, segment, 0,
		KR_JOURNAL_HEADER_SIZE + (size_t)segment->used_slots * KR_JOURNAL_RECORD_SIZE, store_header,
		&(struct heading){segment, &header});
	segment->header = header;
	segment->number = header.number;
	segment->salt = header.salt;
	return err;
}

static struct kr_segment *new_segment(uint32_t pair, uint32_t slots)
{
	struct kr_segment *segment = calloc(1, sizeof(*segment));

	if (!segment)
		return NULL;
	segment->states = calloc(slots ? slots : 1, sizeof(*segment->states));
	if (!segment->states) {
		free(segment);
		return NULL;
	}
	segment->pair = pair;
	segment->data_fd = -1;
	segment->map = MAP_FAILED;
	segment->map_size = KR_JOURNAL_HEADER_SIZE + (size_t)slots * KR_JOURNAL_RECORD_SIZE;
	segment->slot_count = slots;
	kr_link_init(&segment->link);
	return segment;
}

static int map_index(struct kr_segment *segment, int fd)
{
	segment->map = mmap(NULL, segment->map_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (segment->map == MAP_FAILED)
		return kr_fail_errno(-errno, "journal segment %08x: cannot map the index", segment->pair);
	segment->slots = (void *)(segment->map + KR_JOURNAL_HEADER_SIZE);
	return 0;
}

/* On a filesystem that copies on write, the zeros keep no room for records, and copying is slow. */
static void overwrite_in_place(int fd)
{
	struct statfs fs;
	int flags;

	if (fstatfs(fd, &fs) < 0 || fs.f_type != BTRFS_SUPER_MAGIC || ioctl(fd, FS_IOC_GETFLAGS, &flags) < 0)
		return;
	flags |= FS_NOCOW_FL;
	(void)ioctl(fd, FS_IOC_SETFLAGS, &flags); /* else kr_segment_store finds out */
}

/* Makes both files of SEGMENT's pair. */
static int create_files(struct kr_journal *journal, struct kr_segment *segment)
{
	KR_AUTO_FD int index_fd = -1;
	int err = KR_FAULT("journal.segment");

	if (err)
		return kr_fail(err, "journal segment %08x: fault", segment->pair);
	segment->data_fd = open_pair_file(journal, segment->pair, "data", O_CREAT | O_EXCL);
	if (segment->data_fd < 0)
		return segment->data_fd;
	index_fd = open_pair_file(journal, segment->pair, "index", O_CREAT | O_EXCL);
	if (index_fd < 0)
		return index_fd;
	overwrite_in_place(segment->data_fd);
	overwrite_in_place(index_fd);
	err = write_zeros(index_fd, 0, segment->map_size);
	if (err)
		return kr_fail_errno(err, "journal segment %08x: cannot write the index", segment->pair);
	return map_index(segment, index_fd);
}

/* The first pair number whose files do not exist; foreign or refused files keep theirs. */
static int create_pair(struct kr_journal *journal, struct kr_segment **ret_segment)
{
	for (;;) {
		struct kr_segment *segment = new_segment(journal->next_pair++, journal->slot_count);
		int err;

		if (!segment)
			return kr_fail(-ENOMEM, "no memory for a journal segment");
		segment->data_size = journal->data_size;
		err = create_files(journal, segment);
		if (err == 0) {
			*ret_segment = segment;
			return 0;
		}
		kr_segment_free(journal, segment, err != -EEXIST);
		if (err != -EEXIST)
			return err;
	}
}

static struct kr_segment *take_spare(struct kr_journal *journal)
{
	struct kr_segment *segment = KR_LIST_POP(&journal->spares, struct kr_segment, link);

	if (!segment)
		return NULL;
	journal->spare_count--;
	memset(segment->states, 0, (size_t)segment->used_slots * sizeof(*segment->states));
	segment->used_data = 0;
	segment->punched = 0;
	return segment;
}

int kr_segment_begin(struct kr_journal *journal, struct kr_segment **ret_segment)
{
	int err = 0;

	*ret_segment = take_spare(journal);
	if (*ret_segment)
		err = KR_FAULT("journal.reuse");
	else
		err = create_pair(journal, ret_segment);
	if (!err)
		err = write_header(journal, *ret_segment);
	if (err)
		kr_segment_free(journal, *ret_segment, true);
	else
		(*ret_segment)->used_slots = 0;
	return err;
}

int kr_segment_open(struct kr_journal *journal, uint32_t pair, const struct kr_journal_header *header, uint32_t slots,
	struct kr_segment **ret_segment)
{
	struct kr_segment *segment = new_segment(pair, slots);
	KR_AUTO_FD int index_fd = -1;
	int err = 0;

	if (!segment)
		return kr_fail(-ENOMEM, "no memory for a journal segment");
	segment->number = header->number;
	segment->header = *header;
	segment->salt = header->salt;
	segment->data_size = header->data_size;
	index_fd = open_pair_file(journal, pair, "index", 0);
	if (index_fd < 0)
		err = index_fd;
	if (err == 0)
		err = map_index(segment, index_fd);
	if (err == 0) {
		segment->data_fd = open_pair_file(journal, pair, "data", 0);
		if (segment->data_fd < 0 && segment->data_fd != -ENOENT) /* a missing one is damage, reported as such */
			err = segment->data_fd;
	}
	if (err) {
		kr_segment_free(journal, segment, false);
		return err;
	}
	*ret_segment = segment;
	return 0;
}

/* REMOVAL in journal_format.h. A file that stays, because the disk has an error, has dead records alone, and
 * is whole: the next start finds it. */
static void remove_pair(struct kr_journal *journal, uint32_t pair)
{
	char name[16];
	int err = KR_FAULT("journal.remove");

	kr_segment_name(pair, "index", name);
	if (err || (unlinkat(journal->dir_fd, name, 0) < 0 && errno != ENOENT))
		return;
	kr_segment_name(pair, "data", name);
	unlinkat(journal->dir_fd, name, 0);
}

void kr_segment_free(struct kr_journal *journal, struct kr_segment *segment, bool remove)
{
	if (!segment)
		return;
	if (segment->map != MAP_FAILED)
		munmap(segment->map, segment->map_size);
	if (segment->data_fd >= 0)
		close(segment->data_fd); /* every pwrite has been answered for */
	if (remove)
		remove_pair(journal, segment->pair);
	free(segment->states);
	free(segment);
}

void kr_journal_retire(struct kr_journal *journal, struct kr_segment *segment)
{
	if (segment->alive > 0 || segment->in_flight > 0 || segment->pins > 0 || segment == journal->active ||
		segment->set_aside)
		return;
	kr_list_remove(&segment->link);
	journal->segment_count--;
	journal->used -= kr_segment_cost(segment);
	if (journal->spare_count < KR_JOURNAL_SPARES && segment->slot_count == journal->slot_count &&
		segment->data_size == journal->data_size && segment->data_fd >= 0) {
		kr_list_append(&journal->spares, &segment->link);
		journal->spare_count++;
	} else {
		kr_list_append(&journal->condemned, &segment->link);
	}
}

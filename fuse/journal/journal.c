/* The journal as a whole: opening, closing, its sizes, reads of what is held.  See journal.h and journal_format.h. */
#include "fuse/journal/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/boot.h"
#include "common/base/buf.h"
#include "common/base/fail.h"
#include "fuse/journal/sigbus_guard.h"
#include "fuse/journal/journal_priv.h"
#include "fuse/journal/journal_scan.h"

#define JOURNAL_DEFAULT_MAX (UINT64_C(16) << 30)
#define SEGMENT_DATA_MAX (UINT64_C(64) << 20)

/* --- files ------------------------------------------------------------------------------------ */

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

/* --- reads ------------------------------------------------------------------------------------ */

/* Held bytes keep their segment, so the lock is needed only to find it. */
static struct kr_segment *segment_of(struct kr_journal *journal, uint64_t position)
{
	KR_SCOPED_LOCK(&journal->lock);
	return kr_journal_segment(journal, position >> 32);
}

int kr_journal_read(struct kr_journal *journal, uint64_t position, void *buffer, size_t length)
{
	struct kr_segment *segment = segment_of(journal, position);
	int err;

	err = kr_pread_full(segment->data_fd, buffer, length, (uint32_t)position);
	return err == 0 ?
		0 :
		kr_fail_errno(err == -ENODATA ? -EIO : err, "journal segment %08x cannot be read", segment->pair);
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
		return kr_fail_errno(
			err == -ENODATA ? -EIO : err, "journal segment %08x cannot be read", segment->pair);
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
		slot = kr_segment_slot(segment, place);
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

/* --- life ------------------------------------------------------------------------------------- */

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
		.full = journal->full,
	};
}

/* This machine's boot, to tell a lost power from a killed daemon; zeros when it cannot be had, which is one boot. */
static void read_boot_id(const uint8_t *given, uint8_t ret_id[16])
{
	memset(ret_id, 0, 16);
	if (given)
		memcpy(ret_id, given, 16);
	else
		(void)kr_boot_id(ret_id);
}

bool kr_journal_lost_power(const char *directory, const uint8_t *node_boot)
{
	KR_AUTO_FD int dir_fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	uint8_t boot[16];

	read_boot_id(node_boot, boot);
	return dir_fd >= 0 && kr_scan_lost_power(dir_fd, boot);
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
	journal->data_size = KR_SEGMENT_DATA_MIN;
	while (journal->data_size < SEGMENT_DATA_MAX && journal->data_size * 16 < room)
		journal->data_size *= 2;
	journal->slot_count = (uint32_t)(journal->data_size / 4096);
	return 0;
}

int kr_journal_open(
	const struct kr_journal_options *options, struct kr_recovery *ret_recovery, struct kr_journal **ret_journal)
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
	read_boot_id(options->node_boot, journal->node_boot);
	kr_sigbus_guard_install();
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

/* Syncs all records and makes the file `clean`: a reboot that follows is then no loss of power. */
static int leave_clean(struct kr_journal *journal)
{
	struct kr_segment *segment;
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
	struct kr_segment *segment;

	if (!journal)
		return;
	if (journal->active) {
		struct kr_segment *last = journal->active;

		journal->active = NULL;
		kr_journal_retire(journal, last);
	}
	kr_list_move(&journal->condemned, &journal->spares);
	while ((segment = KR_LIST_POP(&journal->spares, struct kr_segment, link)))
		kr_segment_free(journal, segment, true);
	(void)leave_clean(journal); /* else a reboot is a loss of power to the next start, no more */
	while ((segment = KR_LIST_POP(&journal->segments, struct kr_segment, link)))
		kr_segment_free(journal, segment, false);
	if (journal->dir_fd >= 0)
		close(journal->dir_fd);
	pthread_mutex_destroy(&journal->reclaiming);
	pthread_mutex_destroy(&journal->lock);
	free(journal);
}

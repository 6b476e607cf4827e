/* The journal's inside, shared by journal*.c only. */
#ifndef KR_FUSE_JOURNAL_PRIV_H
#define KR_FUSE_JOURNAL_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "fuse/journal/journal.h"
#include "fuse/journal/journal_format.h"

#define KR_JOURNAL_CLEAN "clean" /* see WRITING in journal_format.h */
#define KR_SEGMENT_DATA_MIN (UINT64_C(2) << 20)

/* A slot, as the writer remembers it. */
struct kr_slot_state {
	uint32_t data, length; /* of the record's bytes in k.data; length 0: damaged, of unknown place */
	uint32_t held;         /* bytes times holders; a dead record, a NAME: 0 */
	bool name;             /* a NAME: its data stays as long as the segment */
	bool unmarked;         /* dead, but the disk did not take the mark: the same, since a start will look at it */
};

/* A pair of files in use, or a spare one. */
struct kr_segment {
	struct kr_link link;             /* in journal->segments by number, or journal->spares */
	uint32_t pair;                   /* k of the file names */
	struct kr_journal_header header; /* as on the disk */
	uint64_t number, salt;
	int data_fd;
	uint8_t *map; /* k.index */
	size_t map_size;
	struct kr_journal_record *slots;
	uint32_t slot_count;
	uint64_t data_size; /* capacity of k.data */
	struct kr_slot_state *states;
	uint32_t used_slots; /* given out */
	uint64_t used_data;
	uint64_t punched;   /* bytes of k.data given back to the filesystem */
	uint32_t alive;     /* slots with held > 0 */
	uint32_t in_flight; /* appends between reservation and end; the reclaimer at work */
	uint32_t pins;      /* pieces whose data is still read, dead or not */
	bool unsynced;      /* a sync of it has failed: what the disk holds of it stays unknown.  Only the
			     * reclaimer and kr_journal_free use this */
	bool set_aside;     /* has damage: the files stay, and do not count against max */
	bool lends_name;    /* set aside because a damaged segment lives on a NAME in this one */
};

/* position = segment number << 32 | place in k.data. */
struct kr_journal {
	int dir_fd;
	struct kr_journal_options options;
	uint8_t node_boot[16];
	uint64_t data_size; /* of a new segment */
	uint32_t slot_count;

	pthread_mutex_t lock;      /* guards what follows, and the segments' fields but for the mapped bytes */
	struct kr_list segments;   /* in use, ascending by number; the last is the active one if `active` */
	struct kr_segment *active; /* NULL: the next append makes one */
	struct kr_list spares;
	struct kr_list condemned; /* out of use: kr_journal_unlock removes their files */
	uint32_t spare_count, segment_count;
	uint64_t pins; /* of all segments */
	uint64_t next_seq, next_number;
	uint32_t next_file, next_pair;
	uint64_t used, live, set_aside; /* see struct kr_journal_usage */
	uint64_t died;                  /* bytes of records that died since the last search for holes */
	bool waiting;
	_Atomic size_t refused; /* an append of so many bytes has had to wait: longer ones need not try; 0: any may. Set
				   under the lock */
	int full; /* what the latest append to wait does so for: 0 journal_max, else how the disk is full ... */
	uint64_t full_said_ns; /* ... of which the log was told then; 0: never */
	_Atomic int error;     /* of the last append, from the disk; 0: it went well */
	bool no_punch;         /* the filesystem refused to make holes */
	bool recovered;        /* opened in full */

	pthread_mutex_t reclaiming; /* one reclaimer at a time; taken before `lock` */
};

/* --- journal_segment.c: the pairs of files; caller holds the lock --- */

/* A free segment for use under the next number: a spare one or a new pair.  -errno: what the disk says. */
int kr_segment_begin(struct kr_journal *journal, struct kr_segment **ret_segment);
/* Opens the pair of a scanned segment for marks and reads; the caller fills states and counts. */
int kr_segment_open(struct kr_journal *journal, uint32_t pair, const struct kr_journal_header *header, uint32_t slots,
	struct kr_segment **ret_segment);
/* Unmaps and closes; REMOVE: deletes the files too. */
void kr_segment_free(struct kr_journal *journal, struct kr_segment *segment, bool remove);
/* The bytes that SEGMENT counts against journal_max. */
uint64_t kr_segment_cost(const struct kr_segment *segment);
/* All of it is on the disk, or its index with all marks; 0 or -errno.  Blocks; the lock need not be held.  After a
 * failure the kernel takes the pages for clean: it never succeeds again. */
int kr_segment_sync(struct kr_segment *segment);
int kr_segment_sync_index(struct kr_segment *segment);
/* BODY stores into LENGTH bytes of the mapped index at OFFSET, which are zeros, or nothing yet.  0, or the errno
 * of a write there: a filesystem that copies on write may be full. */
int kr_segment_store(struct kr_journal *journal, const struct kr_segment *segment, uint64_t offset, size_t length,
	void (*body)(void *context), void *context);
void kr_segment_name(uint32_t pair, const char *suffix, char ret_name[16]);
/* A segment that may have become free: to the spares, or condemned. */
void kr_journal_retire(struct kr_journal *journal, struct kr_segment *segment);

/* --- journal_space.c --- */

/* An append found the journal, or (DISK_FULL) the local disk, full: gives back what dead records take.  False: there
 * is nothing.  The lock is not held. */
bool kr_journal_reclaim(struct kr_journal *journal, bool disk_full);
/* Unlocks, then removes the files of condemned segments: a large unlink takes long. */
void kr_journal_unlock(struct kr_journal *journal);

/* --- journal_hold.c; caller holds the lock, but for the last --- */

/* Of a position that is held, so it exists. */
struct kr_segment *kr_journal_segment(struct kr_journal *journal, uint64_t number);
/* The slot whose data PLACE lies in. */
uint32_t kr_segment_slot(const struct kr_segment *segment, uint32_t place);
void kr_slot_hold(struct kr_journal *journal, struct kr_segment *segment, uint32_t slot, uint32_t bytes);

/* --- journal_recover.c --- */
int kr_journal_recover(struct kr_journal *journal, struct kr_recovery *recovery);

#endif

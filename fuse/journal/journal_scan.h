/* Reading a journal's directory (READING in journal_format.h): every segment, every record, and what is wrong with
 * them.
 *
 * Changes nothing on the disk and follows no pointer unchecked: any bytes may be there.  Single-threaded, blocks.
 * For the start of a mount (journal_recover.c) and for `kairan journal` (journal_list.c).
 */
#ifndef KR_FUSE_JOURNAL_SCAN_H
#define KR_FUSE_JOURNAL_SCAN_H

#include <stdio.h>

#include "fuse/journal/journal.h"
#include "fuse/journal/journal_format.h"

enum kr_scan_kind {
	KR_SCAN_EMPTY, /* never became a record, or a leftover of an earlier use */
	KR_SCAN_DEAD,
	KR_SCAN_GOOD,
	KR_SCAN_BAD_RECORD, /* the slot itself is damaged */
	KR_SCAN_BAD_DATA,   /* ... or its data, or the keep word */
};

struct kr_scan_segment {
	uint32_t pair;
	struct kr_journal_header header;
	int data_fd; /* -1: missing */
	uint64_t data_length;
	const uint8_t *index; /* private mapping */
	size_t index_length;
	const struct kr_journal_record *slots;
	uint32_t slot_count; /* whole slots that are there */
	uint32_t used;       /* one past the last slot that is not empty */
	uint32_t last_sound; /* one past the last dead or good one */
	uint64_t first_seq;  /* slot i has the number first_seq + i; 0: not known, nothing is sound */
	bool damaged;        /* other than a torn tail */
};

/* One slot that is not empty. */
struct kr_scan_ref {
	uint64_t seq;
	uint32_t segment, slot;
	enum kr_scan_kind kind;
};

struct kr_scan_name {
	uint32_t number;
	struct kr_fid fid;
	char *hint; /* "" when unknown */
};

struct kr_scan {
	int dir_fd;
	struct kr_scan_segment *segments;
	uint32_t segment_count;
	uint32_t newest;          /* index of the one with the highest number */
	struct kr_scan_ref *refs; /* ascending by seq */
	size_t ref_count, ref_capacity;
	struct kr_scan_name *names; /* ascending by number, the newest of each */
	size_t name_count;
	uint32_t *blank_pairs; /* files that were never begun, or whose removal was interrupted */
	size_t blank_count;
	uint32_t next_pair; /* above all that exist */
	uint64_t unfinished, refused, repaired;
	uint32_t other;        /* among the refused: the version of a segment that is not ours; 0: there is none */
	struct kr_list damage; /* struct kr_journal_damage */
};

/* The owner of the segments to read; zeros: any owner (then the export and node of the newest segment). */
struct kr_scan_owner {
	uint8_t export_id[16], node_id[16];
};

/* Reads the directory.  0; -ENOMEM, or the error of the directory itself. */
int kr_scan_open(int dir_fd, const struct kr_scan_owner *owner, struct kr_scan **ret_scan);
void kr_scan_free(struct kr_scan *scan);
/* The record behind REF (with a wrong bit corrected), and how many of its bytes count. */
void kr_scan_record(const struct kr_scan *scan, const struct kr_scan_ref *ref, struct kr_journal_record *ret_record,
	uint32_t *ret_kept);
/* The file of a number; NULL: no NAME has it. */
const struct kr_scan_name *kr_scan_name(const struct kr_scan *scan, uint32_t number);

/* --- journal_files.c ---- */
/* Whether the last daemon had a clean shutdown, and in which boot of the machine. */
bool kr_scan_clean(int dir_fd, uint8_t ret_boot[16]);
/* POWER LOST in journal_format.h, where the machine's boot is NODE_BOOT now.  Does not read the records' data. */
bool kr_scan_lost_power(int dir_fd, const uint8_t node_boot[16]);

/* --- journal_list.c ------------------------------------------------------------------------- */
/* Prints each segment and record (ALL: dead ones too). */
void kr_scan_dump(const struct kr_scan *scan, bool all, FILE *out);
/* Prints what a mount would find and all damage. Returns whether nothing is damaged or refused. */
bool kr_scan_verify(const struct kr_scan *scan, FILE *out);

#endif

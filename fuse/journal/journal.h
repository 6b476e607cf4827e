/* The node's journal: every write goes here before it returns, and stays until it is stable at the server.
 *
 * The format is in journal_format.h.  This is the writer; journal_scan.c scans what a directory holds,
 * journal_recover.c makes files of it at the start, journal_list.c reports it.
 *
 * Threads: every function may be called from any thread, unless said otherwise; appends, reads and releases of
 * different callers run in parallel (the lock covers the reservation and the bookkeeping, not the I/O).
 * Order: the caller makes the appends of ONE file one after another (under its file->lock), and inserts each into the
 * file's map before the next.  Then "everything up to seq S" means the same to the map, the server and a recovery.
 * Space: each byte of a record has holders (an extent of a dirty map, of a snapshot, of an applied round).  An append
 * makes the first one; kr_journal_hold adds, kr_journal_release takes away.  A record without a holder is dead, a
 * segment of dead records is free.  Of what dies together the oldest dies first (KEEP in journal_format.h): release
 * durable bytes with kr_journal_release_until or _map, applied rounds in their order.
 * A record that cannot be marked is no error of the file: a start of the daemon finds it once more, with its data.
 * The server drops it (RECLAIM's durable_seq) as long as it remembers what it has applied.
 */
#ifndef KR_FUSE_JOURNAL_H
#define KR_FUSE_JOURNAL_H

#include "common/base/extent_map.h"
#include "common/base/list.h"
#include "common/base/types.h"

struct kr_journal;

enum { KR_JOURNAL_APPEND_MAX = 1 << 20, KR_JOURNAL_SPARES = 4 };
#define KR_JOURNAL_MIN UINT64_C(8388608) /* the smallest journal_max */

struct kr_journal_options {
	const char *directory; /* exists */
	uint8_t export_id[16]; /* of the server's export */
	uint8_t node_id[16];
	uint64_t incarnation;     /* higher than at any former start on this directory */
	const uint8_t *node_boot; /* 16 bytes in place of this machine's boot id, for tests; NULL: that */
	uint64_t max;             /* bytes; 0: a quarter of the free space, at most 16 GiB */
	/* Called (any thread, no lock of the journal held) when space was freed after an append got -EAGAIN. */
	void (*on_space)(void *context);
	/* The disk is full: other users of the disk give up some BYTES if they have so many.  Returns whether they gave
	 * up any.  May be NULL.  In the thread that appends; blocks. */
	bool (*make_room)(void *context, uint64_t bytes);
	void *context;
};

/* The journal's part of a file. */
struct kr_journal_file {
	struct kr_fid fid;
	char *hint;        /* a path for people, owned; may be NULL */
	uint32_t number;   /* 0: not yet in the journal */
	uint64_t named_in; /* number of the newest segment that names it */
};
/* HINT may be NULL.  NULL: out of memory. */
struct kr_journal_file *kr_journal_file_new(const struct kr_fid *fid, const char *hint);
void kr_journal_file_free(struct kr_journal_file *file);

/* A file with refused bytes whose lease the node has given back: UNCOVERED in journal_format.h. */
struct kr_uncovered {
	struct kr_fid fid;
	struct kr_time since; /* by the server's clock: no other node could write before */
	uint64_t up_to;       /* the highest seq of its dirty bytes then */
};

/* A file as a recovery found it. */
struct kr_recovered_file {
	struct kr_link link;
	struct kr_journal_file *file; /* taken by writeback/recovery.c */
	struct kr_extent_map dirty;   /* to be flushed; a former FLUSH may have applied any of it */
	struct kr_time mtime;         /* of the last write among it */
	struct kr_time first_mtime;   /* the earliest of a live record: after a loss of power nothing later is sure */
	bool clear_suid;
	uint64_t max_seq;
	struct kr_uncovered uncovered; /* its dirty bytes are; up_to 0: they are not */
};
/* Something that a recovery could not use. */
struct kr_journal_damage {
	struct kr_link link;
	bool torn_tail;          /* cut off at the end: no more than a crash explains */
	struct kr_fid fid;       /* of the file concerned; of length 0: not known */
	uint64_t offset, length; /* of the bytes concerned; 0 length: not known */
	char *text;              /* one sentence with segment, file and range */
};
/* Frees all of a list. */
void kr_journal_damage_free(struct kr_list *damage);
struct kr_recovery {
	struct kr_list files;              /* struct kr_recovered_file */
	struct kr_list damage;             /* struct kr_journal_damage */
	uint64_t segments, records, bytes; /* read: segments, valid live records and their bytes */
	uint64_t unfinished;               /* writes that were in flight when the daemon died */
	bool power_lost;                   /* POWER LOST in journal_format.h; see kr_journal_power_settled */
	bool uncovered; /* the directory says that bytes are, be it of files that are flushed since */
};
void kr_recovery_fini(struct kr_recovery *recovery);

/* Opens the directory's journal, reads what it holds into *RET_RECOVERY (the caller's, kr_recovery_fini) and goes on
 * with new segments.  Blocks.  The caller holds the local directory's lock: one process at a time.  -EINVAL: max too
 * small; -EPROTO: a journal of another version; -ENOMEM, or what the filesystem said.  Damage is not an error. */
int kr_journal_open(
	const struct kr_journal_options *options, struct kr_recovery *ret_recovery, struct kr_journal **ret_journal);
/* Whether kr_journal_open would set RECOVERY's power_lost; NODE_BOOT as of the options.  Changes nothing, blocks.
 * False if there is no journal. */
bool kr_journal_lost_power(const char *directory, const uint8_t *node_boot);
/* After a loss of power: the server has judged all that the recovery found, so no later start need tell of it. */
void kr_journal_power_settled(struct kr_journal *journal);
/* Closes; removes free segments, and syncs the records of the others.  Blocks.  No thread uses the journal any more. */
void kr_journal_free(struct kr_journal *journal);

/* Journals LENGTH (1..KR_JOURNAL_APPEND_MAX) bytes for OFFSET of FILE.  0 and *RET_EXTENT, held once; -EAGAIN:
 * journal_max is reached, or the disk is full and the journal has bytes on it (on_space will be called); else -ENOSPC
 * or -EDQUOT of the local disk, -EIO for any other trouble with it: nothing was journaled. Blocks as pwrite does. */
int kr_journal_append(struct kr_journal *journal, struct kr_journal_file *file, uint64_t offset, const void *data,
	size_t length, struct kr_time mtime, bool clear_suid, struct kr_extent *ret_extent);
/* After -EAGAIN, appends of as many bytes or more get -EAGAIN without a look at the disk, until space was freed or this
 * is called.  Call it now and then, since other programs may have made room on the disk. */
void kr_journal_try_again(struct kr_journal *journal);
void kr_journal_hold(struct kr_journal *journal, const struct kr_extent *piece);
/* Fits kr_extent_fn: JOURNAL is the context. */
void kr_journal_release(void *journal, const struct kr_extent *piece);
/* Takes the pieces with a seq of at most SEQ out of MAP and releases them, the oldest writes first: killed in the
 * middle, the journal never shows older bytes below newer ones that are dead already. */
void kr_journal_release_until(struct kr_journal *journal, struct kr_extent_map *map, uint64_t seq);
/* The same for all pieces. */
void kr_journal_release_map(struct kr_journal *journal, struct kr_extent_map *map);
/* Records that FILE was truncated to SIZE: nothing beyond comes back after a crash.  MAP: the file's dirty map, before
 * it is truncated itself. */
void kr_journal_trim(struct kr_journal *journal, const struct kr_extent_map *map, uint64_t size);

/* The damage that the recovery found has been seen: segments set aside for it go like any others once nothing of them
 * is needed. */
void kr_journal_discard_damage(struct kr_journal *journal);

/* The data of PIECE, which has a holder, can be read until kr_journal_unpin, also when the holder has gone.  A pin
 * keeps no record alive: no start of the daemon sends bytes because of a pin that are durable, and that other nodes may
 * have overwritten. */
void kr_journal_pin(struct kr_journal *journal, const struct kr_extent *piece);
void kr_journal_unpin(struct kr_journal *journal, const struct kr_extent *piece);

/* Reads bytes that have a holder or a pin: LENGTH from POSITION, within one extent.  -EBADMSG or -EIO: the disk has
 * lost them.  The second also compares the records' checksums (reads whole records): for what leaves this machine. */
int kr_journal_read(struct kr_journal *journal, uint64_t position, void *buffer, size_t length);
int kr_journal_read_verified(struct kr_journal *journal, uint64_t position, void *buffer, size_t length);

struct kr_journal_usage {
	uint64_t live;      /* bytes of live records */
	uint64_t used;      /* bytes that count against max: what the segments in use take */
	uint64_t set_aside; /* bytes of segments that are kept for their damage, and do not count */
	uint64_t max;
	int error;         /* the local disk refused the last append with this; 0: it took it */
	int full;          /* -ENOSPC or -EDQUOT: that is why the latest append to wait does; 0: because of max */
	uint32_t segments; /* in use */
	bool waiting;      /* an append got -EAGAIN and no space came since */
};
void kr_journal_usage(struct kr_journal *journal, struct kr_journal_usage *ret_usage);

#endif

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
 * segment of dead records is free.
 * A record that cannot be marked, or an APPLIED that cannot be written, is no error of the file: the bytes may be sent
 * once more after a crash, which the server recognises by RECLAIM's applied_seq.
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
	uint8_t export_id[16]; /* zeros: not known yet, see kr_journal_set_export */
	uint8_t node_id[16];
	uint64_t incarnation;     /* higher than at any former start on this directory */
	uint64_t server_instance; /* of the server's process, 0: not known; see kr_journal_set_server */
	uint8_t server_boot[16];  /* of its machine */
	const uint8_t *node_boot; /* 16 bytes in place of this machine's boot id, for tests; NULL: that */
	uint64_t max;             /* bytes; 0: a quarter of the free space, at most 16 GiB */
	/* Called (any thread, no lock of the journal held) when space was freed after an append got -EAGAIN. */
	void (*on_space)(void *context);
	/* The disk is full: other users of the disk give up some BYTES if they have so many.  Returns whether they gave
	 * up any.  May be NULL.  In the thread that appends; blocks. */
	bool (*make_room)(void *context, uint64_t bytes);
	void *context;
};

/* What the journal must know of a file. */
struct kr_journal_file {
	struct kr_fid fid;
	char *hint;        /* a path for people, owned; may be NULL */
	uint32_t number;   /* 0: not yet in the journal */
	uint64_t named_in; /* number of the newest segment that names it */
};
/* HINT may be NULL.  NULL: out of memory. */
struct kr_journal_file *kr_journal_file_new(const struct kr_fid *fid, const char *hint);
void kr_journal_file_free(struct kr_journal_file *file);

/* One applied round of a file that is not known to be stable: kept for a replay only, never read. */
struct kr_applied {
	struct kr_link link; /* in a list with ascending up_to */
	uint64_t up_to, round;
	uint8_t boot_id[16]; /* of the server's machine; zeros: of none, it is replayed as what a former one has lost */
	uint64_t mark;       /* of its APPLIED record; 0: none */
	uint64_t order, order_mark; /* the round that it was at first, and that record: replays go by it */
	bool lost;                  /* by a failed sync, and not applied again since: its records are void */
	bool before_claims; /* it was there when the session made its claims, and has not been applied again since */
	struct kr_time mtime;
	bool clear_suid;
	struct kr_extent_map extents; /* holds the journal's bytes */
};

/* What is known of a file with refused bytes whose lease has been given back: UNCOVERED in journal_format.h. */
struct kr_uncovered {
	struct kr_fid fid;
	struct kr_time since; /* by the server's clock: no other node could write before */
	uint64_t up_to;       /* the highest seq of its dirty bytes then */
};

/* A file as a recovery found it. */
struct kr_recovered_file {
	struct kr_link link;
	struct kr_journal_file *file; /* taken by writeback/recovery.c */
	struct kr_extent_map dirty;   /* to be flushed */
	struct kr_list applied;       /* struct kr_applied */
	struct kr_time mtime;         /* of the last dirty write */
	bool clear_suid;
	uint64_t max_seq;
	bool vouched; /* power was lost: what is dirty counts only with the server's memory of this instance */
	struct kr_uncovered uncovered; /* its dirty bytes are; up_to 0: they are not */
	struct kr_extent_map doubtful; /* while the recovery runs: see DOUBT in journal_format.h */
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
	bool power_lost;   /* some segment was written before this machine's last boot, which came unprepared */
	uint64_t doubtful; /* bytes set aside because of that; each file's are in `damage` */
	bool uncovered;    /* the directory says that bytes are, be it of files that are flushed since */
};
void kr_recovery_fini(struct kr_recovery *recovery);

/* Opens the directory's journal, reads what it holds into *RET_RECOVERY (the caller's, kr_recovery_fini) and goes on
 * with new segments.  Blocks.  The caller holds the local directory's lock: one process at a time.  -EINVAL: max too
 * small; -ENOMEM, or what the filesystem said.  Damage is not an error. */
int kr_journal_open(
	const struct kr_journal_options *options, struct kr_recovery *ret_recovery, struct kr_journal **ret_journal);
/* From each further HELLO: the server's process is INSTANCE from now on. */
void kr_journal_set_server(struct kr_journal *journal, uint64_t instance);
/* Closes; removes free segments, syncs what is left in others.  Blocks.  No thread uses the journal any more. */
void kr_journal_free(struct kr_journal *journal);

/* Journals LENGTH (1..KR_JOURNAL_APPEND_MAX) bytes for OFFSET of FILE.  0 and *RET_EXTENT, held once; -EAGAIN:
 * journal_max is reached, or the disk is full and the journal has bytes on it (on_space will be called); else -ENOSPC
 * or -EDQUOT of the local disk, -EIO for any other trouble with it: nothing was journaled. Blocks as pwrite does. */
int kr_journal_append(struct kr_journal *journal, struct kr_journal_file *file, uint64_t offset, const void *data,
	size_t length, struct kr_time mtime, bool clear_suid, struct kr_extent *ret_extent);
/* The same, but beyond journal_max if need be: for bytes that leave another place of the journal in return. */
int kr_journal_append_beyond(struct kr_journal *journal, struct kr_journal_file *file, uint64_t offset,
	const void *data, size_t length, struct kr_time mtime, bool clear_suid, struct kr_extent *ret_extent);
/* After -EAGAIN, appends of as many bytes or more get -EAGAIN without a look at the disk, until space was freed or this
 * is called.  Call it now and then, since other programs may have made room on the disk. */
void kr_journal_try_again(struct kr_journal *journal);
void kr_journal_hold(struct kr_journal *journal, const struct kr_extent *piece);
/* Fits kr_extent_fn: JOURNAL is the context. */
void kr_journal_release(void *journal, const struct kr_extent *piece);
/* Releases all pieces of MAP and empties it, the oldest writes first: killed in the middle, the journal never shows
 * older bytes below newer ones that are dead already. */
void kr_journal_release_map(struct kr_journal *journal, struct kr_extent_map *map);
/* Records that FILE was truncated to SIZE: nothing beyond comes back after a crash.  MAP: the file's dirty map, before
 * it is truncated itself. */
void kr_journal_trim(struct kr_journal *journal, const struct kr_extent_map *map, uint64_t size);

/* Records that FILE's writes up to UP_TO were applied in ROUND. Returns its mark, 0 when it could not be written. */
uint64_t kr_journal_applied(struct kr_journal *journal, struct kr_journal_file *file, uint64_t up_to, uint64_t round,
	const uint8_t boot_id[16]);
/* The APPLIED record is void: its writes are stable (released already) or dirty again. */
void kr_journal_release_mark(struct kr_journal *journal, uint64_t mark);

/* --- journal_applied.c --- */

/* APPLIED has `up_to`: it was applied in ROUND of the boot BOOT_ID, now or, as a replay, once more. */
void kr_journal_note_applied(struct kr_journal *journal, struct kr_journal_file *file, struct kr_applied *applied,
	uint64_t round, const uint8_t boot_id[16]);
/* Its APPLIED records are void. */
void kr_journal_void_applied(struct kr_journal *journal, struct kr_applied *applied);
/* The same until it is applied again, in the order that it had. */
void kr_journal_lose_applied(struct kr_journal *journal, struct kr_applied *applied);
/* No boot of the server has it any more: it is to be replayed in its order, and a start finds it so.  Of several the
 * latest first: killed in between, none is taken for applied because one that came after it is. */
void kr_journal_unapply(struct kr_journal *journal, struct kr_applied *applied);
/* Takes APPLIED out of its list, releases all that it holds, and frees it.  The writes die first: a state without
 * writes is nothing, writes without their state would be dirty again. */
void kr_journal_drop_applied(struct kr_journal *journal, struct kr_applied *applied);
/* The rounds of LIST (struct kr_applied) up to ROUND of the boot BOOT_ID are on the server's stable storage: drops
 * them, the oldest first; killed in the middle, the journal never has an older one to be replayed where a newer one is
 * gone. */
void kr_journal_stable(struct kr_journal *journal, struct kr_list *list, uint64_t round, const uint8_t boot_id[16]);

/* The damage that the recovery found has been seen: segments set aside for it go like any others once nothing of them
 * is needed; what is doubtful in them is dead. */
void kr_journal_discard_damage(struct kr_journal *journal);

/* Reads bytes that have a holder: LENGTH from POSITION, within one extent.  -EBADMSG or -EIO: the disk has lost them.
 * The second also compares the records' checksums (reads whole records): for what leaves this machine. */
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

/* The journal on disk, version 2: this file is the specification, and journal*.c are made from it.
 *
 * LAYOUT.  A journal is a directory of segments.  Segment k is a pair of files, "k.index" and "k.data" (k: eight hex
 * digits).  Names say only which two files belong together; the age of a segment is the `number` in its header.  Other
 * names are none of ours and are left alone.  All integers are little-endian.
 *
 *   k.index   4096 bytes with the header twice (at 0 and at 2048; the copies are equal, or a reuse was interrupted and
 *             the one with the higher number counts), then `slots` records of 64 bytes.  Written to its full size when
 *             it is made, then mapped.
 *   k.data    the bytes of writes and of names, where the records say; no structure of its own, not longer than needed.
 *
 * HEADER (struct kr_journal_header).  A copy is valid if and only if four conditions hold: magic and version are known;
 * no incompatible flag is unknown; the number is below 2^31; `check` is the XXH3-64 of the bytes before it.  The daemon
 * refuses a segment without a valid copy, of another export or of another node's journal.  It reports a refused
 * segment, but does not read its records, and never writes or deletes it.  A reader ignores unknown compatible flags.
 *
 * ALL VERSIONS have the magic, the version and `check` at these places of the header.  A start fails, changes nothing,
 * and says what to do, if a segment has another version.  Newer bytes of the same files may be in it.
 *
 * RECORDS.  Slots are given out in order; `seq` ascends with them within a segment and is unique in the journal.  It
 * begins with the daemon's start counter (incarnation << 40), so no two starts ever use one number.
 *   NAME     gives local file number `file` its identity: `length` bytes at `data` hold u8 length of the fid, the fid,
 *            and the path under which the file was known (a hint for people; may be empty).  Each segment names every
 *            file that it has writes of, before the first of them.  NAMEs of one number in different segments say the
 *            same fid; where they do not, the records of that number belong to no file, and are damaged.
 *   WRITE    `length` bytes at `data`, written to `file` at `offset` at time `mtime_ns`.  At most
 *            KR_JOURNAL_RECORD_MAX; a longer write is several records with consecutive seq and adjacent data. The data
 *            of a NAME or WRITE lies behind that of every earlier slot of the segment.
 *
 * A record is valid if and only if all of these hold.  Its slot's `check` is not 0 and equals XXH3-64 of its bytes
 * 16..63 with the header's salt as the seed (0 is written as 1).  Its numbers are possible: type known; seq 1 to
 * 2^63 - 1; file not 0 and below 2^32 - 1; a WRITE ends below 2^63.  For NAME and WRITE, the data lies within k.data
 * and its XXH3-64 is `data_check`.  A slot with one wrong bit, or such a `keep`, counts as if it were right, and the
 * next start corrects it.
 *
 * KEEP.  What happens to a record later is marked in its own slot, in the word `keep`, which `check` does not cover:
 *   0                       all of it counts
 *   else                    low 32 bits: n + 1, where only the first n bytes of a WRITE count (a truncate); n = 0: the
 *                           record is dead.  High 32 bits: the low half of XXH3-64 of 16 bytes, `check` and n + 1 as
 *                           64 bits each.
 * Any other value is damage.  The node marks a record dead when its bytes are overwritten, or on the server's stable
 * storage and the node has heard so, or discarded.  Of the writes of one file that die together, older ones die first:
 * a start never finds older bytes below newer ones that are dead already.  No record ever says that another is void, so
 * a segment whose records are all dead can go, whatever the order.
 *
 * MEANING.  Each live WRITE is sent to the server again after a start of the daemon.  It may have been applied before,
 * and may even be durable, if the daemon died before it marked the record.  Nobody else has acted on bytes that the
 * node has not heard to be durable (commit on share), so sending them again is right, in any order of files.
 *
 * WRITING. 1.  Under the lock, the writer reserves the place in k.data, the slots and the seqs. 2.  The writer writes
 * the data with pwrite. 3.  The writer stores the slots' bytes 16..63, then, as one store each, `check`: the record is
 * there.  Only then does write(2) return.  A slot with check 0 is a write that never was: it was in flight when the
 * daemon died, or failed.  The writer syncs nothing: the page cache outlives a daemon killed at any instant, and that
 * is what the journal promises (P6).  When the *machine* loses power, what the kernel had not yet written back is
 * missing.  Checksums find the gap, and the header's node_boot tells a loss of power from a killed daemon.  A daemon
 * whose clean shutdown leaves records syncs them.  Then it makes the file `clean` with its node_boot: nothing of that
 * boot was lost.  The next start writes its own node_boot into the headers of that boot's segments, copy 0, then copy
 * 1. (Of two sound copies with one number the first counts.) Then the start removes `clean` and syncs the directory,
 * before it changes anything else.
 *
 * POWER LOST.  A segment with live WRITEs, or with damage, has the node_boot of another boot of this machine, and
 * `clean` does not hold that boot: the machine lost power.  Records and marks of death may be missing, also those of
 * newer bytes which covered what is there; nothing in the journal tells.  So the node is late (HELLO's POWER_LOST), and
 * the server judges all that the journal has.  When that is done (RECLAIM_DONE), the node writes its own node_boot into
 * all headers, as above: from then on a killed daemon is no more than that.
 *
 * UNCOVERED.  The file `uncovered` lists the files with dirty bytes that the server refused, and whose lease the node
 * has given back since.  Other nodes may have written newer bytes.  The file is text: the line "uncovered 1", then one
 * line for each file.  A line has three fields, with a blank between them.  The first is the fid in hex.  The second is
 * the moment before which no other node could write, by the server's clock: seconds, a point, nine digits.  The third
 * is a seq, in decimal, not lower than those of the refused bytes.  The node writes the whole text to another name,
 * syncs it, renames it, and syncs the directory, before it gives the lease back.  The node removes a line when the
 * bytes are gone, or under a lease again.  The removal may come later, or not before the next start.  So a line counts
 * if and only if dirty bytes of the file with that seq or a lower one are there.  Then all dirty bytes of the file are
 * late since that moment, and the node sends them only when the server has judged them (RECLAIM).  If any part of the
 * text cannot be read, all files are late since their last write.
 *
 * REUSE.  The writer uses a free segment again (and keeps at most KR_JOURNAL_SPARES).  It sets all slots that were
 * used to 0; then header copy 0, then copy 1 get a new number and a new salt, and keep the old salt in `old_salt`.  A
 * slot that is valid under the old salt is a leftover (power was lost before the zeros were written), neither record
 * nor damage.
 *
 * SPACE.  The data of a dead record may be gone.  When room is short, the node syncs the marks, and then punches the
 * record's whole blocks out of k.data (they read as zeros).  No reader looks at the data of a dead record.  So a daemon
 * killed between mark and punch, or in the middle of the punches, leaves nothing to be repaired.  The data of a NAME
 * stays as long as its segment.
 *
 * REMOVAL. k.index goes first.  Data without an index, or with an index that is all zeros, was never begun or is being
 * removed: the next start removes the data. (A reader refuses data beside an empty index: the index may have been cut.)
 *
 * READING.  The reader scans all segments first, and changes nothing meanwhile.  Each slot is one of: empty (all zero,
 * or check 0), leftover, dead, valid, damaged.  Damaged slots behind the last sound record of the newest segment are
 * the torn tail: the reader passes over it and says so.  A later start takes it for damage, if the segment is needed
 * still and another one is newer.  The reader reports other damage with file and range where they can be known.  Valid
 * records count in the order of seq.  The reader takes the range of a WRITE whose data is damaged out of what older
 * records say.  So a read never returns old bytes where newer ones were acknowledged.  A WRITE whose file has no NAME
 * is damage.  The reader sets a segment with damage aside.  Its good records are replayed as any others.  Its files
 * stay until an explicit command has discarded the damage that the administrator has seen.  With it stays the segment
 * whose NAME stands in for a damaged one.
 */
#ifndef KR_FUSE_JOURNAL_FORMAT_H
#define KR_FUSE_JOURNAL_FORMAT_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

enum {
	KR_JOURNAL_VERSION = 2,
	KR_JOURNAL_HEADER_SIZE = 4096,
	KR_JOURNAL_HEADER_COPY = 2048,
	KR_JOURNAL_RECORD_SIZE = 64,
	KR_JOURNAL_RECORD_MAX = 128 * 1024,
	KR_JOURNAL_ALIGN_SMALL = 64, /* data of fewer than 4096 bytes begins at a multiple of this */
	KR_JOURNAL_ALIGN = 4096,     /* ... and all other */
	KR_JOURNAL_HINT_MAX = 4095,
};
#define KR_JOURNAL_MAGIC UINT64_C(0x314a4e415249414b) /* "KAIRANJ1" */

enum kr_journal_record_type { KR_JOURNAL_NAME = 1, KR_JOURNAL_WRITE = 2 };
/* Of a WRITE: the writer lacked the privilege to keep set-id bits. */
enum kr_journal_record_flag { KR_JOURNAL_CLEAR_SUID = 1 };

struct kr_journal_header {
	uint64_t magic;
	uint32_t version;
	uint32_t compatible;   /* flags that a reader may ignore */
	uint32_t incompatible; /* flags that it must know: none yet */
	uint32_t slots;
	uint64_t number; /* ascending with each use of any segment */
	uint64_t salt, old_salt;
	uint64_t data_size;    /* no record's data goes beyond */
	uint8_t export_id[16]; /* of the server's export */
	uint8_t node_id[16];   /* of the local directory */
	uint8_t node_boot[16]; /* this machine's boot when this use began; see also WRITING */
	uint64_t reserved[4];
	uint64_t check; /* XXH3-64 of all before */
};
static_assert(sizeof(struct kr_journal_header) == 144, "on-disk size");
static_assert(offsetof(struct kr_journal_header, check) == 136, "check is last");

struct kr_journal_record {
	uint64_t check;
	uint64_t keep;
	uint64_t seq;
	uint32_t file;
	uint8_t type;
	uint8_t flags;
	uint16_t zero;
	uint64_t offset; /* 0 in NAME */
	uint32_t length;
	uint32_t data;       /* where in k.data */
	uint64_t data_check; /* XXH3-64 of the data */
	int64_t mtime_ns;    /* since the epoch; 0 in NAME */
};
static_assert(sizeof(struct kr_journal_record) == KR_JOURNAL_RECORD_SIZE, "on-disk size");
static_assert(offsetof(struct kr_journal_record, seq) == 16, "check covers the rest");

#endif

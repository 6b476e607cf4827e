/* Which files have refused bytes whose lease was given back, kept on the disk (UNCOVERED in journal_format.h).
 *
 * Invariant: before the node gives a file's lease back with refused bytes, the directory durably lists the file.  The
 * line stays until the bytes are gone, or under a lease again.  So a restarted daemon knows these bytes even if the
 * server has forgotten them.  After a kill in between, the daemon may take bytes for late that are not, never the
 * reverse: the line comes before the answer, and goes after the bytes.
 *
 * One pool thread at a time writes the whole text, for all files that wait.  One more file costs 7 ms when 10,000 are
 * listed, and 40 ms (half of it in the loop) when 50,000 are.
 *
 * If the disk refuses the text, the node gives the lease back all the same, logs that, and tries again.  Otherwise
 * other nodes would wait for as long as two disks are full.  Until the disk takes the text, only this process and the
 * server's process know of the bytes.  If the disk does not answer, the lease waits.  If that lasts too long, the
 * server makes the node late, which is as safe.  Before that, the log and the status report the slow disk.  Loop
 * thread.
 */
#ifndef KR_FUSE_UNCOVERED_H
#define KR_FUSE_UNCOVERED_H

#include "common/base/list.h"
#include "fuse/journal/journal.h"

struct kr_file;
struct kr_mount;
struct kr_uncovered_log;

/* In struct kr_flush; zeroed but for the link. */
struct kr_uncovered_line {
	struct kr_link link; /* in the log, while the directory is to say so */
	struct kr_time since;
	uint64_t up_to;
	uint64_t change; /* of the log, with which this came */
};

struct kr_uncovered_log *kr_uncovered_log_new(struct kr_mount *mount);
/* No new writes. */
void kr_uncovered_log_stop(struct kr_uncovered_log *log);
/* The loop does not run any more: writes what has changed. Blocks. NULL is fine. */
void kr_uncovered_log_free(struct kr_uncovered_log *log);
/* Now and then.  Whether the disk has not taken all yet. */
bool kr_uncovered_tick(struct kr_uncovered_log *log);
/* How long the disk has been at it, if that is half of what the server waits for a lease, or more; else 0. */
uint64_t kr_uncovered_slow_ms(const struct kr_uncovered_log *log);

/* The server has refused FILE's bytes up to UP_TO; other nodes may write from SINCE on if a lease is given back now.
 * Returns whether the lease must wait for the disk; the file is stepped when that ends.  A file whose bytes are
 * uncovered already keeps its former SINCE.  The line covers later seqs in advance, so a program whose writes are
 * refused again and again does not make the lease wait for ever. */
bool kr_uncovered_awaited(struct kr_uncovered_log *log, struct kr_file *file, struct kr_time since, uint64_t up_to);
/* The bytes are gone, or under a lease. */
void kr_uncovered_forget(struct kr_uncovered_log *log, struct kr_file *file);
/* The journal's directory says at the start that FILE has uncovered bytes. */
void kr_uncovered_recovered(struct kr_uncovered_log *log, struct kr_file *file, const struct kr_uncovered *uncovered);
/* The directory may say more, for bytes that are gone: the node writes it anew. */
void kr_uncovered_rewrite(struct kr_uncovered_log *log);

#endif

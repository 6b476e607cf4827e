/* Which files have refused bytes whose lease was given back, kept on the disk (UNCOVERED in journal_format.h).
 *
 * Invariant: before the node gives a file's lease back with refused bytes, the directory says so, durably.  The
 * directory says so until these bytes are gone, or are under a lease again.  So a daemon that is started anew knows of
 * them whatever becomes of the server meanwhile.  Killed in between, the daemon takes bytes for late that need not be,
 * and never the other way round: a line comes before the answer, and goes after the bytes.  One thread of the pool at a
 * time writes the whole text, for all files that wait by then.  One file more costs 7 ms where 10,000 are listed.  It
 * costs 40 ms (half of it the loop's) where 50,000 are, and these have to be recalled one by one for that.  Where the
 * disk does not take the text, the lease goes all the same: other nodes would wait for as long as two disks are full.
 * The log says so, and the node tries again; until then only this process and the server's know it.  Where the disk
 * just does not answer, the lease waits.  The node is late when the server has waited long enough, which is as safe; so
 * the log and status say so before.  Loop thread.
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

/* FILE's bytes up to UP_TO are refused, and others may write from SINCE on if a lease of it is given back.  Whether
 * that has to wait; then the file is stepped later. Said again of a file that is listed, SINCE counts no more.  The
 * directory says it of some more seqs than there are: a program that goes on writing, and hears each time that it was
 * refused, must not keep the lease for ever. */
bool kr_uncovered_awaited(struct kr_uncovered_log *log, struct kr_file *file, struct kr_time since, uint64_t up_to);
/* The bytes are gone, or under a lease. */
void kr_uncovered_forget(struct kr_uncovered_log *log, struct kr_file *file);
/* The journal's directory says at the start that FILE has uncovered bytes. */
void kr_uncovered_recovered(struct kr_uncovered_log *log, struct kr_file *file, const struct kr_uncovered *uncovered);
/* The directory may say more, for bytes that are gone: the node writes it anew. */
void kr_uncovered_rewrite(struct kr_uncovered_log *log);

#endif

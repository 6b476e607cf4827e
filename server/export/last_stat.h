/* What was last seen of a file's times and size, to find changes that somebody made behind our back.  Pure.
 *
 * A stat is compared with the one before.  Between two stats with the same count of our own changes, none of them under
 * way at either, only others can have changed the file: any difference of ctime is theirs (or an attribute's, which
 * costs a needless recall, and no more).  Who resets mtime and size does not get past ctime.
 *
 * After a change of our own nothing can be said of what lies between the two stats.  So nothing may: a flush round
 * stats the file before its first byte, which is judged by the old count, and again after its last, which begins the
 * new one. What somebody else writes between these two stats is hidden behind our own times: the time of one round's
 * system calls is the one gap that looking cannot close (watch.h: the kernel's events have none).
 *
 * A ctime is of a change's beginning: write and fallocate set it before the bytes are there, and where the clock of
 * ctimes ticks (every 1 to 10 ms) later changes can have it, too.  So a state with a young ctime is doubtful, unless
 * the kernel tells of the end of each change, and the first look after KR_LAST_STAT_SETTLE_NS takes it for changed,
 * even if it looks the same.  What one system call of others writes later than that after its beginning, looking can
 * miss.
 *
 * A change of attributes or names gives the file another ctime as well, but not other bytes.  Where we ourselves have
 * made it, and the kernel tells of all that others do meanwhile, the ctime before it and the one after it stand for the
 * same bytes (struct kr_carried): versions and looks go by the former one.  Without the kernel's word no ctime is
 * carried: others' changes could hide behind ours.
 */
#ifndef KR_SERVER_LAST_STAT_H
#define KR_SERVER_LAST_STAT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/types.h"

#define KR_LAST_STAT_SETTLE_NS (2 * KR_NS_PER_S)
#define KR_LAST_STAT_RECENT_NS (60 * KR_NS_PER_S)

struct kr_last_stat {
	bool known, doubtful;
	uint64_t changes; /* the count of our own changes */
	struct kr_time ctime;
	uint64_t size;
};

/* What one ctime stands for the bytes of: only our own changes of attributes and names lie between `bytes` and `shown`.
 */
struct kr_carried {
	bool valid;
	uint64_t changes; /* good for this count of our own changes of bytes */
	uint64_t size;
	struct kr_time bytes, shown;
};

/* Such a change of our own, as a job has found the file around it (watch.h). */
struct kr_own_change {
	uint64_t epoch, unheeded; /* when the job was started */
	bool known;               /* these are: */
	struct kr_attr before, after;
};

/* ATTR was got while CHANGES was the count of our changes, before and after; NOW_NS by the wall clock that makes
 * ctimes. Returns whether somebody else has changed the file since the former look.  TOLD: the kernel tells of the end
 * of each change. */
bool kr_last_stat_changed(
	struct kr_last_stat *seen, const struct kr_attr *attr, uint64_t changes, bool told, uint64_t now_ns);
/* The change that gave the state seen its ctime may be still under way: it began within the last minute. */
bool kr_last_stat_recent(const struct kr_last_stat *seen, uint64_t now_ns);

/* Between the states BEFORE and AFTER of a file lies a change of its attributes or names, ours, and nothing that
 * anybody has told of. A size or mtime that differs is a change of bytes all the same. Changes that ran side by side
 * may be told in any order. */
void kr_carried_note(
	struct kr_carried *carried, const struct kr_attr *before, const struct kr_attr *after, uint64_t changes);
/* Gives ATTR, got while CHANGES was the count, the ctime that its bytes are known by. */
void kr_carried_apply(const struct kr_carried *carried, uint64_t changes, struct kr_attr *attr);

#endif

/* What was last seen of a file's times and size, to find changes that somebody made behind our back.  Pure.
 *
 * A stat is compared with the one before.  Between two stats with the same count of our own changes, none of them under
 * way at either, only others can have changed the file: any difference of ctime is theirs (or an attribute's, which costs
 * a needless recall, and no more).  Who resets mtime and size does not get past ctime.
 *
 * After a change of our own nothing can be said of what lies between the two stats.  So nothing may: a flush round stats the
 * file before its first byte, which is judged by the old count, and again after its last, which begins the new one. What
 * somebody else writes between these two stats is hidden behind our own times: the time of one round's system calls is the
 * one gap that looking cannot close (watch.h: the kernel's events have none).
 *
 * Clocks.  Where ctime is exact, each change after a stat has a ctime of its own.  Where it ticks (every 1 to 10 ms), a
 * change after the stat can have the ctime that the stat saw: a state with a ctime younger than a tick is doubtful,
 * and the first look after the tick has passed takes it for changed, even if it looks the same.
 */
#ifndef KR_SERVER_SEEN_H
#define KR_SERVER_SEEN_H

#include <stdbool.h>
#include <stdint.h>

#include "common/types.h"

#define KR_SEEN_TICK_NS (50 * KR_NS_PER_MS)

struct kr_seen {
	bool known, doubtful;
	uint64_t changes; /* the count of our own changes */
	struct kr_time ctime;
	uint64_t size;
};

/* ATTR was got while CHANGES was the count of our changes, before and after; NOW_NS by the wall clock that makes ctimes.
 * Returns whether somebody else has changed the file since the former look.  EXACT: ctimes are, or nobody needs to look so
 * closely because the kernel tells. */
bool kr_seen_changed(struct kr_seen *seen, const struct kr_attr *attr, uint64_t changes, bool exact, uint64_t now_ns);

#endif

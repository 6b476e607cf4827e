/* The last known times and size of a file, to find changes by programs on the server. Pure.
 *
 * The server compares each stat with the one before. If the count of its own changes is the same at both, and none was
 * under way, a different ctime means a change by others. A change of attributes then costs a needless recall, and no
 * more. A program that resets mtime and size still changes ctime.
 *
 * A change of the server's own hides what lies between the two stats. So a flush round stats the file before its first
 * byte, judged by the old count, and after its last, which begins the new count. Another program's write between these
 * two stats stays hidden: that gap only kernel events close (leases/watch.h).
 *
 * write and fallocate set ctime before the bytes are there. And where the clock of ctimes ticks (every 1 to 10 ms)
 * later changes can have the same one. So a state with a young ctime is doubtful, unless the kernel reports the end of
 * each change. The first look after KR_LAST_STAT_SETTLE_NS takes it for changed even if it looks the same. Bytes that
 * one system call writes later than that after its beginning can go unseen.
 *
 * A change of attributes or names also changes ctime, but no bytes. If the server made it, and the kernel reports
 * changes by others meanwhile, the old and new ctime stand for the same bytes (struct kr_carried). Versions and looks
 * then go by the old one. Without kernel events no ctime is carried, because changes by others could hide behind the
 * server's.
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
	uint64_t changes; /* the count of the server's own changes */
	struct kr_time ctime;
	uint64_t size;
};

/* A ctime carried over: only the server's own changes of attributes and names lie between `bytes` and `shown`. */
struct kr_carried {
	bool valid;
	uint64_t changes; /* valid for this count of the server's own changes of bytes */
	uint64_t size;
	struct kr_time bytes, shown;
};

/* The file around such a change of the server's own, as a job found it (leases/watch.h). */
struct kr_own_change {
	uint64_t epoch, unheeded; /* when the job was started */
	bool known;               /* these are: */
	struct kr_attr before, after;
};

/* ATTR was read while CHANGES was the count of the server's changes, before and after; NOW_NS by the wall clock that
 * makes ctimes. Returns whether another program has changed the file since the former look. TOLD: the kernel reports
 * the end of each change. */
bool kr_last_stat_changed(
	struct kr_last_stat *seen, const struct kr_attr *attr, uint64_t changes, bool told, uint64_t now_ns);
/* The latest change may still be under way: it began within the last minute. */
bool kr_last_stat_recent(const struct kr_last_stat *seen, uint64_t now_ns);

/* Only a change of attributes or names by the server lies between BEFORE and AFTER, and no reported one. A different
 * size or mtime is a change of bytes all the same. Parallel changes may be noted in any order. */
void kr_carried_note(
	struct kr_carried *carried, const struct kr_attr *before, const struct kr_attr *after, uint64_t changes);
/* Gives ATTR, read while CHANGES was the count, the ctime that its bytes are known by. */
void kr_carried_apply(const struct kr_carried *carried, uint64_t changes, struct kr_attr *attr);

#endif

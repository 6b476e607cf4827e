/* Ctimes for which a former instance may have given nodes a version before the bytes were complete.
 *
 * A write sets ctime at its beginning, and a store through a mapping may not set it. A reader in between has old bytes
 * under the file's last ctime. The watch (leases/watch.h) gives the file another ctime when the kernel reports the
 * end. If the instance ends first, nothing shows later that those bytes were incomplete.
 *
 * So each start doubts ctimes from KR_DOUBTS_REACH_S before the former instance's last known sign of life
 * (recovery/clock_setbacks.h) until it watches itself. Files with such a ctime get other versions, for good, since a
 * node may return after any number of starts. Nodes lose the cached bytes of files changed shortly before the end.
 * After a loss of power this also covers bytes that were read but did not reach the disk.
 *
 * `doubts` in the state directory has lines (line_log.h): "doubt FROM TO SALT", nanoseconds since the epoch, both
 * included; the salt is the instance's number. A start extends the line of the start before it if their times meet, so
 * repeated restarts take one line. Above KR_DOUBTS_MAX the two oldest become one. The log is written before the former
 * instance's last sign of life is overwritten, so a failed start leaves that to the next one. If the last sign of life
 * is unknown, all times until now are in doubt. PURE but for reading and writing; constant once open, so any thread
 * may ask.
 */
#ifndef KR_SERVER_DOUBTFUL_TIMES_H
#define KR_SERVER_DOUBTFUL_TIMES_H

#include <stdint.h>

enum { KR_DOUBTS_MAX = 256, KR_DOUBTS_REACH_S = 60 };

struct kr_doubt {
	uint64_t from_ns, to_ns, salt;
};

struct kr_doubts {
	struct kr_doubt list[KR_DOUBTS_MAX]; /* by time of start */
	unsigned count;
};

/* Instance SALT starts at NOW_NS by the clock that makes ctimes; the former one was alive at FORMER_NS (0: unknown). */
void kr_doubts_start(struct kr_doubts *doubts, uint64_t former_ns, uint64_t now_ns, uint64_t salt);
/* The part of a version for this ctime; 0: not in doubt. */
uint64_t kr_doubts_of(const struct kr_doubts *doubts, uint64_t ctime_ns);
/* Reads DIR/doubts and writes it with this start, except the first start (SALT 1, FORMER_NS 0). 0 or -errno with a
 * reason. Blocks. */
int kr_doubts_open(struct kr_doubts *doubts, int dir, uint64_t former_ns, uint64_t salt);

#endif

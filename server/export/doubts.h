/* Times of changes that were perhaps not all there yet when a former instance of this server told nodes what the file's
 * bytes are.
 *
 * A write has the ctime of its beginning, and a store through a mapping may leave it as it is: who reads in the midst
 * has old bytes under the file's last ctime.  The watch (watch.h) gives the file another one when word comes of the
 * end.  An instance that ends before that has said that these bytes are those of this ctime, and nothing says otherwise
 * later.  So each start doubts all ctimes from KR_DOUBTS_REACH_S before the former instance was alive for the last time
 * as far as is known (setbacks.h keeps that) until it has begun to listen itself: files that have one of these get
 * other versions, for good, since a node may come back with what it has read after any number of starts.  That costs
 * nodes what they have cached of files that were changed shortly before the end, and no more.  After a loss of power it
 * also covers what the disk has with these ctimes, but not the bytes that were read then.
 *
 * `doubts` in the state directory has lines (line_log.h):
 *   doubt FROM TO SALT   nanoseconds since the epoch, both included; the salt is the instance's number
 * A start whose times meet those of the start before and reach as far takes them over, so that a server that starts
 * again and again has one line.  Of more than KR_DOUBTS_MAX the two oldest are made one.  The log is written before
 * anything may replace what is known of the former instance's end, so that a start that fails leaves that to the next
 * one.  If it is not known when a former instance was alive, all times until now are in doubt.  PURE but for reading
 * and writing; not changed once it is open, so any thread may ask.
 */
#ifndef KR_SERVER_DOUBTS_H
#define KR_SERVER_DOUBTS_H

#include <stdint.h>

enum { KR_DOUBTS_MAX = 256, KR_DOUBTS_REACH_S = 60 };

struct kr_doubt {
	uint64_t from_ns, to_ns, salt;
};

struct kr_doubts {
	struct kr_doubt list[KR_DOUBTS_MAX]; /* by time of start */
	unsigned count;
};

/* An instance SALT starts at NOW_NS by the clock that makes ctimes; the former one was alive at FORMER_NS (0: at any
 * time). */
void kr_doubts_start(struct kr_doubts *doubts, uint64_t former_ns, uint64_t now_ns, uint64_t salt);
/* What goes into the version of a file with this ctime; 0: nothing, it is beyond doubt. */
uint64_t kr_doubts_of(const struct kr_doubts *doubts, uint64_t ctime_ns);
/* Reads DIR/doubts and writes it with this start, unless it is the first one: SALT, its number, is 1, and FORMER_NS 0.
 * 0 or -errno with a reason. Blocks. */
int kr_doubts_open(struct kr_doubts *doubts, int dir, uint64_t former_ns, uint64_t salt);

#endif

/* Getting all unflushed bytes to the server within a bound, at the end of the mount.  Loop thread. */
#ifndef KR_FUSE_DRAIN_H
#define KR_FUSE_DRAIN_H

#include "fuse/base/mount.h"

struct kr_drain;

/* Flushes everything and frees itself.  Calls DONE when all is stable at the server, when only what the server refuses
 * is left, when DEADLINE_NS (kr_clock_ns) is over, or after kr_drain_hurry. */
struct kr_drain *kr_drain_start(
	struct kr_mount *mount, uint64_t deadline_ns, void (*done)(void *context), void *context);
void kr_drain_hurry(struct kr_drain *drain);
/* Logs what is not on the server, and that it stays in the journal. True: nothing is left that is worth anything. */
bool kr_drain_report(struct kr_mount *mount);

#endif

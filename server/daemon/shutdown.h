/* What the clean shutdown does next, and how long it waits for what.  PURE.
 *
 * In this order: running jobs finish and are answered, and what they applied is synced.  Sessions end, which starts
 * the last jobs.  All is synced once more (clean_shutdown.h), and handles close.  The first two steps have
 * KR_SERVER_STOP_MS together, the last sync has as much again.  It begins when the disk has just answered, and other
 * programs may have written much in between.  A thread that hangs in the kernel cannot be ended: then the process
 * gives up.
 */
#ifndef KR_SERVER_SHUTDOWN_H
#define KR_SERVER_SHUTDOWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { KR_SERVER_STOP_MS = 15000, KR_SERVER_STOP_ROUNDS_MS = 2000 };

enum kr_shutdown_step {
	KR_SHUTDOWN_WAIT,
	KR_SHUTDOWN_END_SESSIONS,
	KR_SHUTDOWN_SYNC,
	KR_SHUTDOWN_CLOSE,
	KR_SHUTDOWN_GIVE_UP,
};

struct kr_shutdown {
	uint64_t since_ns;   /* when the present wait began */
	bool ended, syncing; /* sessions have ended; the last sync has begun */
	bool late;           /* sessions had to end before the disk had finished */
};

/* The next step at NOW_NS, with JOBS in the pool; IDLE: no round runs either.  Each step other than WAIT is returned
 * once. */
enum kr_shutdown_step kr_shutdown_next(struct kr_shutdown *stopping, uint64_t now_ns, size_t jobs, bool idle);

#endif

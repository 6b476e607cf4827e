/* What the orderly end of the server does next, and how long it waits for what.
 *
 * In this order: jobs that run finish and are answered, and what they have applied is synced; sessions end, which
 * starts the last jobs; all is synced once more (clean_shutdown.h); handles close.  The first two have
 * KR_SERVER_STOP_MS together, the last sync has as much again: it begins when the disk has just answered, and what
 * others have written there in between may be much.  A thread that hangs in the kernel cannot be ended: then the
 * process gives up. PURE.
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
	uint64_t since_ns;   /* what is waited for now has begun then */
	bool ended, syncing; /* sessions have ended; the last sync has begun */
	bool late;           /* sessions had to end although the disk had not finished */
};

/* What to do at NOW_NS, with JOBS in the pool; IDLE: no round is on its way either. A step other than WAIT is said
 * once. */
enum kr_shutdown_step kr_shutdown_next(struct kr_shutdown *stopping, uint64_t now_ns, size_t jobs, bool idle);

#endif

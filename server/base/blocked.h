/* How long jobs of the pool block, other than for a processor: for the disk of the export, mostly.
 *
 * Time in which several jobs block counts once, and a job counts when it ends.  Jobs are watched only while somebody
 * asks, so the server pays for it during traces of nodes (fuse/ops/io_trace_format.h) only. */
#ifndef KR_SERVER_BLOCKED_H
#define KR_SERVER_BLOCKED_H

#include <stdbool.h>
#include <stdint.h>

struct kr_blocked_job {
	bool watched;
	uint64_t began_ns, ran_ns;
};

/* Around a job, in its thread. */
void kr_blocked_begin(struct kr_blocked_job *job);
void kr_blocked_end(const struct kr_blocked_job *job);
/* Called in a job: no program waits for this job, so it does not count. */
void kr_blocked_unawaited(void);

/* Nanoseconds so far.  From the call on jobs are watched, for KR_BLOCKED_WATCH_S.  Any thread. */
uint64_t kr_blocked_ns(void);

enum { KR_BLOCKED_WATCH_S = 10 };

#endif

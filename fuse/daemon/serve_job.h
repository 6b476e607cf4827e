/* A mount of view=job, from its making to its end: main.c's other half for the files of a job.  Main thread.
 *
 * The node asks the site's kairand for the job's head.  A node that is head itself has a keeper serve
 * LOCAL/kairan-job/export (job_keeper.h).  Then each node of the job, the head too, mounts what the head serves, as any
 * view=cache: with a journal and a cache in LOCAL/kairan-job/mount.  So all promises about a mount hold among the job's
 * nodes, and nothing of it goes to the site's kairand.  Only flushes wait longer (options.c), for bytes that nobody
 * else asks for.
 *
 * At the end the mount removes LOCAL/kairan-job.  But what could not be flushed stays for this node's next mount of the
 * job: the head's key tells that it is the same one, since each head has another.  A mount of another job removes it.
 *
 * A process may be killed between any two steps:
 *  - before it is head, or before its keeper runs: the site's kairand makes another member head after a lease time;
 *  - later: see job_keeper.h for the head, introductions.h (server/session) for the site's kairand.  A member that is
 *    killed has its unflushed bytes in its journal, as any mount.
 */
#ifndef KR_FUSE_SERVE_JOB_H
#define KR_FUSE_SERVE_JOB_H

#include <stdbool.h>

#include "fuse/base/local_dir.h"
#include "fuse/base/options.h"

/* As kr_serve.  The head's keeper closes PARENT (see kr_job_keeper_start). */
int kr_serve_job(const struct kr_mount_options *options, struct kr_local *local, int parent,
	bool (*ready)(void *context), void *context);

#endif

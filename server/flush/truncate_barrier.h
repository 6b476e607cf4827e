/* The truncate barrier: changes of a file's bytes that are in no node's journal, such as its size, holes, copies.
 *
 * Nodes send their bytes again from their journals until they know these to be durable.  No node sends these changes
 * again.  So such a change
 *  - begins when no node, the caller included, has uncommitted bytes of the file (KR_COMMITTED_ALL).  Otherwise bytes
 *    that a node sends again would undo the change.
 *  - is synced before the answer.  If that sync fails, the change is made and may not last: its caller gets the error,
 *    and nobody else gets the file before a sync has succeeded.  Loop thread.
 */
#ifndef KR_SERVER_TRUNCATE_BARRIER_H
#define KR_SERVER_TRUNCATE_BARRIER_H

#include <stdint.h>

struct kr_fid;
struct kr_request;
struct kr_sfile;

/* In the job of REQUEST: it really changes something, which has to be synced. */
void kr_truncate_barrier_made(struct kr_request *request);
/* The same before the size of FID is set to SIZE, if that is a change. */
void kr_truncate_barrier_to(struct kr_request *request, const struct kr_fid *fid, uint64_t size);
/* The job has succeeded: goes on with FN after the sync; request->err: the change may not last. */
void kr_truncate_barrier_end(struct kr_request *request, struct kr_sfile *file, void (*fn)(struct kr_request *request));

#endif

/* Shrink notices (RECALL of no kinds): another node has truncated a file, and the kernel here may believe in the old
 * size.
 *
 * The kernel takes the end of a page read for the end of the file, unless it hears of another size meanwhile.  A
 * GETATTR answer sets the size when its program runs on, however old the answer is by then.  So an answer from before
 * the truncation could spoil a read from after it: zeros would stand behind the bytes.  An invalidation voids all
 * answers to questions that programs asked before it.  It also waits for page reads that had begun, whose pages are
 * locked, and drops their pages.  When it has returned, the node that truncated the file may go on.
 *
 * Page reads may wait for a lease.  After KR_TRUNCATE_BARRIER_PATIENCE_MS the notice is answered all the same; zeros
 * can then be seen in these pages until they are dropped.  A file that no program has open here is looked up by its
 * next open, and that answer voids older ones.
 */
#ifndef KR_FUSE_SHRINK_NOTICE_H
#define KR_FUSE_SHRINK_NOTICE_H

#include "common/base/types.h"
#include "fuse/session/rpc.h"

struct kr_files;

enum { KR_TRUNCATE_BARRIER_PATIENCE_MS = 1000 };

/* All loop thread. */
void kr_shrink_notices_start(struct kr_files *files);
void kr_shrink_notices_stop(struct kr_files *files);
/* Frees the notices that were under way when the loop stopped.  The notifier has ended. */
void kr_shrink_notices_free(struct kr_files *files);
/* DOWN is a shrink notice of FID.  It is answered when the kernel knows no older size. */
void kr_shrink_notices_heard(struct kr_files *files, const struct kr_fid *fid, const struct kr_down *down);

#endif

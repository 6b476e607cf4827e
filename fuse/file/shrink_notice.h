/* Cuts that other nodes have made (RECALL of no kinds): what the kernel here believes of the file's size may be older.
 *
 * The kernel takes the end of a read of its pages for the file's if it has heard of nothing else of the inode since the
 * read began; else what it believed stays, and behind the bytes there are zeros.  Something else is the answer to a
 * question for the size, at the moment at which the program that asked runs on, however long ago we wrote it; what it
 * says counts unless a notification has come since that program asked.  So an answer from before a cut could spoil a
 * read from after it.  The notification that we send on hearing of the cut makes void all that was asked for before,
 * and what is asked for later is answered with what the file is now.  Reads that had begun before the notification are
 * spoilt by it; but their pages are locked, and it waits for them and drops them.  When it has returned the node that
 * cut the file may know that it has.
 *
 * Those reads may have to wait for a lease.  Longer than KR_TRUNCATE_BARRIER_PATIENCE_MS nobody waits for them; their
 * pages are then there, with zeros, for the moment between the read and the dropping.
 *
 * A file that no program here has open when it is cut is looked up by who opens it later, and the answer to that makes
 * void what was asked for before.
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
/* What was under way when the loop stopped; the notifier is gone. */
void kr_shrink_notices_free(struct kr_files *files);
/* DOWN has told that FID has been cut: it is answered when that is all the kernel knows. */
void kr_shrink_notices_heard(struct kr_files *files, const struct kr_fid *fid, const struct kr_down *down);

#endif

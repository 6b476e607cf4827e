/* Changes of a file's bytes that are in no node's journal: its size, holes, copies.
 *
 * What rounds have written the nodes bring again from their journals until it is synced: after a crash of this machine,
 * and as soon as a sync fails (UNSTABLE).  These changes nobody brings again.  So
 *  - before one is made all rounds of the file are synced, or what it takes away would come back with them.  If that
 *    fails it is the change's error, nothing has been changed, and what is brought again belongs there.  Nor is it made
 *    when its session has ended meanwhile: whoever asked for it may have asked again in another one, and have written
 *    since;
 *  - before it is answered it is synced itself, or a crash would undo it alone, and what was written since would be
 *    brought into the file as it was before: the beginning of a new content and the end of the old one; and what was
 *    copied would be lost although its file was closed.  If that fails it has been made and may not last: its caller
 *    hears the error.
 * A sync can have failed before the change was asked for, too.  A node that has been told so (UNSTABLE) may have no
 * lease of the file any more, and so send what was lost after the change.  So the nodes that may have such bytes
 * (applied.h) are asked (QUERY, which they answer after UNSTABLE), and if one has anything unflushed that is the
 * change's error: that may be what was lost.  A node is not asked any more when it has had nothing, or has sent once
 * more all that it had, or that was lost: it may have written since.  Nobody waits for those that have no session: they
 * bring it when they are back, as late bytes, but what they had not been told of without being judged. Nobody but its
 * own node, for what it has written meanwhile, has anything to bring in between.  Loop thread.
 */
#ifndef KR_SERVER_TRUNCATE_BARRIER_H
#define KR_SERVER_TRUNCATE_BARRIER_H

#include <stdint.h>

struct kr_fid;
struct kr_request;
struct kr_sfile;

/* REQUEST is about to change FILE so, and others' leases are given up: goes on with FN when no journal has anything
 * to bring back, at once if none has; request->err: that cannot be had, and the change must not be made. It cannot be
 * withdrawn meanwhile. */
void kr_truncate_barrier_begin(
	struct kr_request *request, struct kr_sfile *file, void (*fn)(struct kr_request *request));
/* In its job: it changes something after all (and has to be synced). Until then, only if there was anything to sync
 * before. */
void kr_truncate_barrier_made(struct kr_request *request);
/* The same, if the size of FID is not SIZE: before it is set. */
void kr_truncate_barrier_to(struct kr_request *request, const struct kr_fid *fid, uint64_t size);
/* The job has succeeded: goes on with FN when it is synced; request->err: it may not last. */
void kr_truncate_barrier_end(struct kr_request *request, struct kr_sfile *file, void (*fn)(struct kr_request *request));

#endif

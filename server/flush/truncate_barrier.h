/* The truncate barrier: changes of a file's bytes that are in no node's journal, such as its size, holes, copies.
 *
 * Nodes send their rounds again from their journals until these are durable: after a crash of the server's machine,
 * and when a sync fails (UNSTABLE).  No node sends these changes again.  So:
 *  - Before the change the server syncs all rounds of the file, or the replays would bring back what the change
 *    removes.  If the sync fails, the change fails with its error, and the replays belong into the file.  The server
 *    also drops the change if its session has ended meanwhile: the program may have repeated it in another session,
 *    and have written since.
 *  - Before the answer the server syncs the change itself.  Else a crash would undo it alone, and replays would go
 *    into the file as it was before.  The file would have the beginning of its new content and the end of the old one.
 *    If that sync fails, the change is made and may not last: its caller gets the error.
 *
 * A sync may also have failed before.  A node that got UNSTABLE may have no lease of the file any more, and so send
 * the lost bytes after the change.  So the server sends a QUERY to the nodes that may have such bytes (applied.h).
 * They answer after UNSTABLE.  If a node has anything unflushed, the change fails.
 *
 * The server asks a node no more that had no such bytes, or has sent them again: it may have written since.  It does
 * not wait for nodes without a session: they bring the bytes as late bytes when they are back.  Only bytes of which
 * they had no UNSTABLE go in without being judged.  In between only the node that makes the change has anything to
 * send.  Loop thread.
 */
#ifndef KR_SERVER_TRUNCATE_BARRIER_H
#define KR_SERVER_TRUNCATE_BARRIER_H

#include <stdint.h>

struct kr_fid;
struct kr_request;
struct kr_sfile;

/* REQUEST is about to change FILE, and other nodes have given their leases up.  Goes on with FN when no journal has
 * anything to send again, at once if none has.  request->err: that failed, and the change must not be made.  Nothing
 * can withdraw the request meanwhile. */
void kr_truncate_barrier_begin(
	struct kr_request *request, struct kr_sfile *file, void (*fn)(struct kr_request *request));
/* In its job: it really changes something, which has to be synced.  Without this call only if there was something to
 * sync before. */
void kr_truncate_barrier_made(struct kr_request *request);
/* The same before the size of FID is set to SIZE, if that is a change. */
void kr_truncate_barrier_to(struct kr_request *request, const struct kr_fid *fid, uint64_t size);
/* The job has succeeded: goes on with FN after the sync; request->err: the change may not last. */
void kr_truncate_barrier_end(struct kr_request *request, struct kr_sfile *file, void (*fn)(struct kr_request *request));

#endif

/* Late nodes: what becomes of bytes that a node brings after it has lost its leases (P7).
 *
 * A RECLAIM is late if the session has a lapse (lapses.h): it lapsed in this instance, the node was no member when this
 * instance started, its machine has lost power, or the client replays a journal.  Bytes that this server refused are
 * late, too, when their node has given a lease back with them (cover.h).
 *
 * What this instance remembers to have applied is made durable, and the node drops it (`durable_seq`).  For the rest
 * the RECLAIM waits until the other nodes have given up their leases of the file, and all that they wrote is committed.
 * Then the server looks whether others have changed the file since the lapse.  If not, the answer grants READ and
 * WRITE.  The node flushes before it gives READ back, so no other node comes in between.  If others have, the server
 * records the conflict durably (conflict_log.h) before it answers, and makes a file for the bytes when the node sends
 * CONFLICT (conflict_request.c).
 *
 * Whether others have changed the file since (`touched` in late.c).
 *
 *   row  situation                                          what counts as a change
 *   1    an operation changes the file now                  that one.
 *   2    the node has flushed beyond this journal's end     the bytes that it has flushed.
 *   3    the server made the file for the late bytes, and
 *        the file is still as it was made                   nothing.
 *   4    the lapse was in this instance                     bytes or size, by the file's epoch (last_stat.h: attributes
 *                                                           and names, too, where the kernel tells no more).
 *   5    as 4; the file has not left the table since        nothing else.
 *   6    otherwise                                          a ctime after `since`, so a chmod, too.  `since`: the last
 *                                                           moment at which the node knew it had the file for itself.
 *   7    as 6; others could have the file from then on      a ctime after one second before `since`: clocks differ, and
 *                                                           the times of files tick.
 *
 * Row 6 is for a lapse before this instance's start, for files that have left the table, and for bytes that may have
 * been applied without this instance remembering it.
 *
 * Refused bytes of a file that a node has removed are of no use, unless their node was away: no conflict file is made
 * for them.
 *
 * A file that is gone may have been un-created by a loss of the server's power, and not restored (names/restore.c).  So
 * the bytes that an awaited node brings for it in the grace period are in conflict, and come back beside where it was.
 * Loop thread.
 */
#ifndef KR_SERVER_LATE_H
#define KR_SERVER_LATE_H

#include "common/rpc/msg.h"
#include "server/leases/file_table.h"

struct kr_request;

/* Such a RECLAIM until it is answered; zeros: none. */
struct kr_late_claim {
	struct kr_link link;
	const struct kr_session *session;
};

/* These take a RECLAIM whose reply has its `durable_seq`, or 0 as long as that is not known. */

/* Whether it must wait for the end of the grace period: only what awaited nodes had is theirs before. */
bool kr_late_must_wait(const struct kr_request *request);
/* Whether bytes of a RECLAIM have been declared to be in conflict before, whatever has happened to this server since.
 * */
bool kr_late_is_declared(const struct kr_request *request);
/* Whether it is for late bytes, so that others' leases are in its way. */
bool kr_late_has_bytes(const struct kr_request *request);
/* Whether the bytes may be from before the lapse: the session has one, and has not given a lease of the file back with
 * refused bytes. */
bool kr_late_was_away(const struct kr_request *request);
/* Whether the RECLAIM is in conflict at once, because another reclaiming node holds or claims WRITE.  That node flushes
 * only when all its own RECLAIMs are answered, and they may wait for this one. */
bool kr_late_contested(const struct kr_request *request, const struct kr_sfile *file);
void kr_late_claim_begin(struct kr_late_claim *claim, const struct kr_request *request, struct kr_sfile *file);
void kr_late_claim_end(struct kr_late_claim *claim);
/* The judgement: whether its bytes are in conflict.  ATTR: of the file now; NULL: it is gone.  CONTESTED: as above. */
bool kr_late_conflict(
	const struct kr_request *request, const struct kr_sfile *file, const struct kr_attr *attr, bool contested);
/* Declares that the RECLAIM's bytes are in conflict (INO: for the log; 0: not known), then calls DONE.  request->err
 * stays, or is -EIO: the conflict could not be recorded, and the node keeps its bytes. */
void kr_late_declare(struct kr_request *request, const struct kr_sfile *file, uint64_t ino,
	void (*done)(struct kr_request *request));

#endif

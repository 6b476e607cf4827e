/* What other nodes believe of a file's size after a cut.
 *
 * Their leases and notes are gone before the cut is made.  But a size that a node was told just before, without any,
 * can still be on its way to a program there, and the node's kernel would take it over later, perhaps in the middle of
 * a read that begins after the cut has returned: that read would end where the file ended before, in zeros
 * (fuse/file/shrink_notice.h).  So who has the file open or leased hears of the cut once more before the node that made
 * it does.  Others look its name up before they read it, which makes void what they were told before. Who does not
 * answer loses its session (callbacks.h), and falls silent by its own clock first: so the wait ends, whatever a node
 * does, and nobody who is in possession of a lease goes by what was before the cut.
 */
#ifndef KR_SERVER_SHRINK_NOTICE_H
#define KR_SERVER_SHRINK_NOTICE_H

struct kr_operation;
struct kr_request;
struct kr_sfile;

/* REQUEST has changed FILE by a job with kr_truncate_barrier_to.  If it has made it shorter, and others are to hear of
 * that, OPERATION is ended first (their answers may wait for reads that wait for leases), and FN follows when they have
 * answered; else at once. Leaves request->err alone. */
void kr_shrink_notice_send(struct kr_request *request, struct kr_sfile *file, struct kr_operation *operation,
	void (*fn)(struct kr_request *request));

#endif

/* What other nodes believe of a file's size after a truncation.
 *
 * Their leases and cached attributes are gone before the truncation.  But an older reply with the former size may
 * still be on its way to a program of theirs.  Their kernel would take that size over later, perhaps during a read
 * that begins after the truncation has returned.  That read would end where the file ended before, in zeros
 * (fuse/file/shrink_notice.h).
 *
 * So the server sends a notice to each node that has the file open or leased.  The node that made the truncation waits
 * for the answers.  Other nodes look the name up before they read, which makes older sizes void.  A node that does not
 * answer loses its session (callbacks.h).  By its own clock its lease expires first.  So the wait ends, and no node
 * with a lease uses the former size, but for a read that its kernel does not end within a second.
 */
#ifndef KR_SERVER_SHRINK_NOTICE_H
#define KR_SERVER_SHRINK_NOTICE_H

struct kr_operation;
struct kr_request;
struct kr_sfile;

/* REQUEST has changed FILE by a job with kr_truncate_barrier_to.  If FILE is shorter now and other nodes must get a
 * notice, ends OPERATION first: their answers may wait for reads that wait for leases.  FN follows when they have
 * answered, else at once.  Leaves request->err alone. */
void kr_shrink_notice_send(struct kr_request *request, struct kr_sfile *file, struct kr_operation *operation,
	void (*fn)(struct kr_request *request));

#endif

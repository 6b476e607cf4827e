/* Changes of a file that take bytes away or put others in their place without a round (a cut, a hole, a copy), where rounds of the file
 * are not on stable storage yet.
 *
 * Until they are synced the nodes' journals have these rounds, and bring them again: after a crash of this machine, and as
 * soon as a sync fails (UNSTABLE).  That would bring back what was taken away.  So first they are synced.  If that fails it is the
 * change's error, nothing has been changed, and what is brought again belongs there.  Then the change is made.  Nobody but its own node,
 * for what it has written meanwhile, has anything left to bring to before it.
 *
 * What is written later can be brought again to a file that a crash has put back to before the change, among bytes that were taken
 * away: so then the change is synced, too.  If that fails, it has been made and may not last: its caller hears the error.
 * Loop thread.
 */
#ifndef KR_SERVER_CUTS_H
#define KR_SERVER_CUTS_H

struct kr_request;
struct kr_sfile;

/* REQUEST is about to take bytes of FILE away, and others' leases are given up: goes on with FN when no journal has anything
 * to bring back, at once if none has; request->err: that cannot be had, and the change must not be made. It cannot be withdrawn meanwhile. */
void kr_cut_begin(struct kr_request *request, struct kr_sfile *file, void (*fn)(struct kr_request *request));
/* It has been made: goes on with FN; request->err: it may not last. */
void kr_cut_end(struct kr_request *request, struct kr_sfile *file, void (*fn)(struct kr_request *request));

#endif

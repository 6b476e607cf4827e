/* Makes files as the calling program: with its owner and, where no default ACL applies, its umask.
 *
 * The daemon's threads run without CAP_FSETID.  So the disk's file system clears set-user-ID and set-group-ID bits and
 * file capabilities at a write or truncation.  The kernel leaves that to the daemon (kr_shim_want_passthrough).  It
 * holds for passthrough, too, which uses the credentials of the thread that registered the file.  The kernel checks all
 * permissions before it asks the daemon.  So creation and chmod run with all of the daemon's capabilities.
 */
#ifndef KR_FUSE_VIEW_AS_CALLER_H
#define KR_FUSE_VIEW_AS_CALLER_H

#include <fuse_lowlevel.h>

/* Main thread, before others: gives up what no operation of a view needs, and sets what all threads start with. */
void kr_view_capabilities(void);
/* The calling thread makes files as the program of REQ, until kr_as_daemon. */
void kr_as_caller(fuse_req_t req);
/* The calling thread may keep set-user-ID and set-group-ID bits, until kr_as_daemon. */
void kr_as_owner(void);
void kr_as_daemon(void);

#endif

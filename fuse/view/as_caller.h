/* Making files for the program that asks: theirs is the owner, and their umask counts where no default ACL does.
 *
 * The daemon's threads act without CAP_FSETID.  So the disk's file system clears set-user-ID and set-group-ID bits and
 * file capabilities when a file is written to or truncated, as the kernel has agreed with the daemon
 * (kr_shim_want_passthrough), also where the kernel writes for it (passthrough takes the credentials of the thread that
 * registered the file).  The kernel has checked all permissions before it asks.  So creation and chmod have all of the
 * daemon's capabilities.
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

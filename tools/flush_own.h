/* kairan flush of a mount that another user's daemon serves.
 *
 * The daemon takes no command from this user.  So the command does what the user's own programs may do: it opens the
 * files, where kernel and server check the permission, and calls fsync(2).
 */
#ifndef KR_TOOLS_FLUSH_OWN_H
#define KR_TOOLS_FLUSH_OWN_H

#include "fuse/daemon/mountpoint.h"

/* Whether the daemon treats this user as not owning the mount. */
bool kr_flush_is_of_user(const struct kr_mounted *mounted);
/* Flushes the user's own files at or below BELOW (relative to the mount point), and BELOW itself if it is a file that
 * the user may open.  An enum kr_exit, after messages. */
int kr_flush_own(const struct kr_mounted *mounted, const char *below, unsigned long timeout_ms, bool quiet);

#endif

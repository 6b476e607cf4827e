/* What the journal held at the start becomes files again, before the mount serves anything.
 *
 * serve.c: kr_journal_open, then kr_recover, then the session: its RECLAIMs include the recovered files (they have
 * dirty or applied bytes), so that the server serves none of them to anybody before their bytes are accounted for.
 */
#ifndef KR_FUSE_RECOVER_H
#define KR_FUSE_RECOVER_H

#include "fuse/journal/journal.h"
#include "fuse/base/mount.h"

/* Makes a kr_file of each recovered file and hands it its extents; logs what was found, each damage with file and
 * range.  Takes RECOVERY's content (the damage stays with the flusher, for status). Any thread, before the session
 * starts. 0 or -ENOMEM. */
int kr_recover(struct kr_mount *mount, struct kr_recovery *recovery);

#endif

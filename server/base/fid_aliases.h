/* Files that a loss of power un-created, and that the server has made anew (export/restore.c): they keep their
 * identity.
 *
 * The nodes' inodes, leases, locks, journals and requests go by the file's first identity (the alias).  The kernel
 * knows the new file by another one (the real identity).  INVARIANT: outside export/entry.c no real identity of such
 * a file exists.  entry.c looks up the real one when it opens a file, and the alias when it tells which file it has
 * met.
 *
 * An alias is on the disk before the file that it stands for has a name.  It lives as long as that file: each start
 * drops those whose file is gone, and the restored file can itself be un-created and made anew.
 *
 * `aliases` in the state directory has lines (line_log.h): "alias ALIAS REAL", both in hex digits; of the same alias
 * the last line counts.  Any thread; the calls that write block. */
#ifndef KR_SERVER_FID_ALIASES_H
#define KR_SERVER_FID_ALIASES_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/types.h"

struct kr_fid_aliases;

/* Reads DIR/aliases (DIR is borrowed until the end).  0 or -errno with a reason. */
int kr_fid_aliases_open(int dir, struct kr_fid_aliases **ret_aliases);
void kr_fid_aliases_free(struct kr_fid_aliases *aliases);
/* These two return FID itself if it is none of a restored file; ALIASES may be NULL. */
struct kr_fid kr_fid_aliases_real(struct kr_fid_aliases *aliases, const struct kr_fid *fid);
struct kr_fid kr_fid_aliases_of(struct kr_fid_aliases *aliases, const struct kr_fid *fid);
bool kr_fid_aliases_has(struct kr_fid_aliases *aliases, const struct kr_fid *alias);
/* From now on ALIAS is the file REAL, durably.  0 or -errno with a reason; then nothing has changed. */
int kr_fid_aliases_add(struct kr_fid_aliases *aliases, const struct kr_fid *alias, const struct kr_fid *real);
/* Forgets those of which IS_GONE says so, and writes the log anew.  0 or -errno with a reason. */
int kr_fid_aliases_prune(
	struct kr_fid_aliases *aliases, bool (*is_gone)(void *context, const struct kr_fid *alias), void *context);

#endif

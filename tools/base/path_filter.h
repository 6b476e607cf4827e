/* Which unflushed files lie at or below a path of a mount.
 *
 * A daemon tells the name by which it came to know an unflushed file.  The file or its directory may have been renamed
 * since, it may have other names, and the path may lead through symbolic links.  So the filter passes a file until a
 * proof shows that the file lies elsewhere. The proof is that the daemon's name for it is its only one, and outside the
 * path. Proofs touch the mount, which may hang.  Therefore a thread of its own looks for them, and a proof that comes
 * too late does not count.
 *
 * Threads: all functions in one.  They never wait for the end of the searching thread.
 */
#ifndef KR_TOOLS_PATH_FILTER_H
#define KR_TOOLS_PATH_FILTER_H

#include <jansson.h>
#include <stdbool.h>

#include "fuse/daemon/mountpoint.h"

struct kr_path_filter;

/* BELOW: a path relative to the mount point; NULL or "": the whole mount.  Owned. */
struct kr_path_filter *kr_path_filter_new(const struct kr_mounted *mounted, const char *below);
void kr_path_filter_free(struct kr_path_filter *meant);

/* Searches for the files of a mount's STATUS, for at most WAIT_MS.  -ENOENT with a reason: the path does not exist, and
 * no unflushed file had a name under it. */
int kr_path_filter_update(struct kr_path_filter *meant, const json_t *status, unsigned wait_ms);
/* Whether FILE (an element of "files" of a status passed to kr_path_filter_update) passes. */
bool kr_path_filter_has(const struct kr_path_filter *meant, const json_t *file);

#endif

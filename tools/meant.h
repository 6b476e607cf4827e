/* Which unflushed files are meant by a path below a mount point.
 *
 * A daemon tells under which name it came to know an unflushed file; the file may have been renamed since, its
 * directory too, it may have other names, and the path may lead through symbolic links.  So a file counts as meant
 * until it is proven to lie elsewhere: it has one name, and that is the one told, outside what the path leads to.
 * Proofs touch the mount, which may hang; therefore a thread of its own looks for them, and what it has not said in
 * time is not proven.
 *
 * Threads: all functions in one. The one that looks is never waited for at the end.
 */
#ifndef KR_TOOLS_MEANT_H
#define KR_TOOLS_MEANT_H

#include <jansson.h>
#include <stdbool.h>

#include "fuse/daemon/mountpoint.h"

struct kr_meant;

/* BELOW: a path relative to the mount point; NULL or "": all of it. Owned. */
struct kr_meant *kr_meant_new(const struct kr_mounted *mounted, const char *below);
void kr_meant_free(struct kr_meant *meant);

/* Looks where the files of a mount's STATUS lie, for at most WAIT_MS; -ENOENT with a reason: the path leads to nothing,
 * and no unflushed file was known under it. */
int kr_meant_look(struct kr_meant *meant, const json_t *status, unsigned wait_ms);
/* Whether FILE (an element of "files" of a status that was looked at) is meant. */
bool kr_meant_has(const struct kr_meant *meant, const json_t *file);

#endif

/* Late bytes: what this node wrote to a file that others have changed, or removed, since its session had expired.
 *
 * They never go into the file.  They leave file->dirty at once: no program here reads them any more, and the fsync and
 * close of their writers fail.  They become dirty bytes of a file that the server makes for them (CONFLICT):
 * NAME.conflict-NODE-TIME beside the original.  It holds these bytes at their offsets and nothing else (holes between).
 * From there on it is a file like any other, which is flushed as any other.
 *
 * The journal knows them as bytes of the original until they are durable.  Killed in between they are found there
 * again: the server still says `conflict`, and names the same file.  Until then the original is not flushed: the server
 * would take the late ones for applied to it, too.  Where no conflict file can be made (no space) it is tried again
 * every few seconds, and status shows it.  Loop thread.
 */
#ifndef KR_FUSE_LATE_H
#define KR_FUSE_LATE_H

#include "common/base/types.h"

struct kr_file;
struct kr_flush;
struct kr_late;

enum { KR_LATE_SHOWN = 100, KR_LATE_RETRY_MS = 3000 };

/* The unflushed bytes of FILE are late; nothing happens if there are none.  ATTR: of the original; NULL: it is gone. */
void kr_late_begin(struct kr_file *file, const struct kr_attr *attr);
/* Goes on if there is anything to do; often. */
void kr_late_step(struct kr_file *file);
/* Returns the number of late bytes that have no conflict file, or whose conflict file cannot take them.  *RET_MOVED:
 * those that have one, not known to be durable.  Sets *RET_ERR to why the server refused file or bytes. */
uint64_t kr_late_bytes(const struct kr_late *late, uint64_t *ret_moved, int *ret_err);
/* Gives these up, by explicit command. */
void kr_late_discard(struct kr_file *file);
/* The mount ends: the journal has them. */
void kr_late_fini(struct kr_flush *flush);

#endif

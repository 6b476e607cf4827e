/* The file underneath, opened beside the MPI library's own descriptor, written and read in exact extents.
 *
 * On a kairan mount (common/kairan_ioctl.h) a batch writes many small extents at once.  By batches an aggregator also
 * reads its own node's unflushed bytes, through a second, relaxed descriptor.  Elsewhere the calls are pwrite and
 * pread.
 *
 * Threads: any, any number at a time; batches of one file go out one after the other.
 */
#ifndef KR_MPIIO_MOUNT_H
#define KR_MPIIO_MOUNT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/kairan_ioctl.h"
#include "mpiio/datatype/cursor.h"

struct kr_mount;

/* Opens PATH (MPI's file name, without a prefix as in "ufs:") with open(2) FLAGS; regular files only, and creates none.
 * 0 and an owned mount, or -errno: -ENXIO: not a regular file. */
int kr_mount_open(const char *path, int flags, struct kr_mount **ret_mount);
/* Whether PATH may lie on a kairan mount, as far as one can tell without opening it. */
bool kr_mount_maybe(const char *path);
/* 0 or -errno: a lost write may show only here.  NULL is fine. */
int kr_mount_close(struct kr_mount *mount);
/* The kairan mount's information; NULL elsewhere. */
const struct kr_mount_info *kr_mount_info(const struct kr_mount *mount);

/* Writes the ascending, disjoint EXTENTS; the byte at file offset o is BUFFER[o - base].  Touches no other byte of the
 * file. 0 or -errno. */
int kr_mount_write(
	struct kr_mount *mount, const struct kr_run *extents, size_t count, const char *buffer, uint64_t base);
/* Reads the ascending, disjoint EXTENTS to BUFFER[o - base].  It may read bytes between them too, so BUFFER must hold
 * everything from the first extent to the end of the last.
 * RELAXED: this node's unflushed bytes are the newest, and are read without asking other nodes.  *RET_END: the file's
 * end if it lies before the last extent's end, else UINT64_MAX; bytes of the buffer from there on are unspecified.  0
 * or -errno. */
int kr_mount_read(struct kr_mount *mount, bool relaxed, const struct kr_run *extents, size_t count, char *buffer,
	uint64_t base, uint64_t *ret_end);
/* fsync(2): 0 or -errno. */
int kr_mount_sync(struct kr_mount *mount);
/* Makes every node flush its bytes of the file, as a strict read does; this node alone if the file may not be read.  0
 * or -errno. */
int kr_mount_flush_all_nodes(struct kr_mount *mount);
/* Reserves space for the first SIZE bytes; a shorter file grows to that, and none shrinks.  0 or -errno: -EOPNOTSUPP:
 * the filesystem cannot. */
int kr_mount_preallocate(struct kr_mount *mount, uint64_t size);
/* The file's size; 0 or -errno. */
int kr_mount_size(struct kr_mount *mount, uint64_t *ret_size);

#endif

/* Which processes of this node have exclusive byte-range locks, and in which files.
 *
 * A lock of a file orders the writes to that file, because they are flushed before the lock is given up (locks.h).  A
 * program that locks one file and writes another, as databases do, counts on the order there, too.  So as long as the
 * program has such a lock, its writes to other files need READ and WRITE (op_write.c).  Then what was written before
 * elsewhere is at the server first.
 *
 * Thread-safe; its lock is a leaf.
 */
#ifndef KR_FUSE_LOCK_OWNERS_H
#define KR_FUSE_LOCK_OWNERS_H

#include <stdbool.h>
#include <stdint.h>

struct kr_lock_owners;

struct kr_lock_owners *kr_lock_owners_new(void);
/* NULL is fine. */
void kr_lock_owners_free(struct kr_lock_owners *lockers);
/* OWNER (the kernel's name of a process) has got (1) or lost (-1) a lock in FILE, which is only compared. */
void kr_lock_owners_count(struct kr_lock_owners *lockers, uint64_t owner, const void *file, int change);
/* Whether OWNER has one in another file than FILE. */
bool kr_lock_owners_elsewhere(struct kr_lock_owners *lockers, uint64_t owner, const void *file);

#endif

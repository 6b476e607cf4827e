/* The inodes that the kernel knows: FUSE's node number <-> the server's file identity.
 *
 * A node number is the address of a struct kr_inode (1 for the root); it lives until the kernel has forgotten every lookup
 * of it.  No descriptor and no path per inode.  Thread-safe (one lock); the fields of an inode never change.
 */
#ifndef KR_FUSE_INODE_H
#define KR_FUSE_INODE_H

#include "common/table.h"
#include "common/types.h"

struct kr_inodes;

struct kr_inode {
	struct kr_table_link link;
	struct kr_fid fid;
	uint64_t generation;
	uint64_t lookups; /* guarded by the table's lock */
};

int kr_inodes_new(const struct kr_fid *root, struct kr_inodes **ret_inodes);
void kr_inodes_free(struct kr_inodes *inodes);
/* The inode of a number the kernel gave us: valid while the kernel's request is unanswered (copy the fid to keep it). */
struct kr_inode *kr_inode_of(struct kr_inodes *inodes, uint64_t number);
/* The file's identity behind a number. */
static inline const struct kr_fid *kr_inode_fid(struct kr_inodes *inodes, uint64_t number)
{
	return &kr_inode_of(inodes, number)->fid;
}
/* Counts one lookup of the file and returns its number and generation for the reply (0 when memory is out). */
uint64_t kr_inode_learn(struct kr_inodes *inodes, const struct kr_fid *fid, uint64_t *ret_generation);
/* The kernel forgets COUNT lookups (or: a reply with a lookup did not reach it). */
void kr_inode_forget(struct kr_inodes *inodes, uint64_t number, uint64_t count);
/* The number of a file if the kernel knows it, else 0: for notifications. */
uint64_t kr_inode_find(struct kr_inodes *inodes, const struct kr_fid *fid);
size_t kr_inodes_count(struct kr_inodes *inodes);

#endif

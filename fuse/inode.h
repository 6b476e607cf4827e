/* The inodes that the kernel knows: FUSE's node number <-> the server's file identity.
 *
 * A node number is the address of an inode (1 for the root); it lives until the kernel has forgotten every lookup of it.
 * No descriptor per inode, some 170 bytes (a directory: 300): identity, the name
 * by which it was last found, and the size that the kernel believes in.  Thread-safe (one lock).
 *
 * That size: the kernel takes one from our answer only if it has heard of nothing else since it asked, and an invalidation or the answer to
 * another question is such a thing.  A read of its pages, lseek(SEEK_END) or a mapping then ends at an older one, whatever we said; what goes
 * by it has asked (GETATTR) before.  So what has been said, and what writes of this node have let the kernel know, is remembered, and where
 * sizes differ it is made sure (kr_notify) before GETATTR is answered.
 */
#ifndef KR_FUSE_INODE_H
#define KR_FUSE_INODE_H

#include "common/table.h"
#include "common/types.h"

struct kr_inodes;

/* The number of the door (fuse/batch.h), which is not in the table; no server knows the identity that kr_inode_fid says. */
#define KR_INODE_DOOR (UINT64_C(1) << 62)

int kr_inodes_new(const struct kr_fid *root, struct kr_inodes **ret_inodes);
void kr_inodes_free(struct kr_inodes *inodes);
/* The file behind a number that the kernel gave us and has not been answered for: it cannot have forgotten it. */
void kr_inode_fid(struct kr_inodes *inodes, uint64_t number, struct kr_fid *ret_fid);
/* Counts one lookup of the file and gives its number and generation for the reply.  ATTR is what the server says of it; PARENT and
 * NAME are where it was found, for messages to people; NULL: not known.  0, -ENOMEM, or -EIO: ATTR cannot be true. */
int kr_inode_learn(struct kr_inodes *inodes, const struct kr_fid *fid, const struct kr_attr *attr, const struct kr_fid *parent,
	const char *name, uint64_t *ret_number, uint64_t *ret_generation);
/* 0, or -EIO: ATTR cannot be true of the file behind this number (as for kr_inode_fid), for its type never changes.  The kernel would
 * give the inode up for good: it must not see such a reply. */
int kr_inode_check(const struct kr_inodes *inodes, uint64_t number, const struct kr_attr *attr);
/* A regular file's SIZE is said to the kernel.  Whether it is certain to believe in that one, or a greater one, now. */
bool kr_inode_say_size(struct kr_inodes *inodes, uint64_t number, uint64_t size, uint32_t *ret_sayings);
/* A write of this node, whose bytes end at END in the kernel's eyes, is being answered. */
void kr_inode_size_grown(struct kr_inodes *inodes, uint64_t number, uint64_t end);
/* It has been made to, and since SAYINGS nothing else was said.  (A program of this node that has cut the file meanwhile is believed by the
 * kernel less than this for an instant: until a read of the pages is short, or somebody asks.) */
void kr_inode_size_known(struct kr_inodes *inodes, uint64_t number, uint64_t size, uint32_t sayings);
/* The kernel may learn of another size by itself: the file is opened with O_TRUNC; or its pages were dropped, and a read of them is short. */
void kr_inode_doubt_size(struct kr_inodes *inodes, const struct kr_fid *fid);
/* What is said of a directory that is gone and that a program still has open or works in (the server has nothing to say of it any more):
 * what it was when it was last looked up, without a name. False: not a directory, or not known. NUMBER as for kr_inode_fid. */
bool kr_inode_removed_directory(struct kr_inodes *inodes, uint64_t number, struct kr_attr *ret_attr);
/* The kernel forgets COUNT lookups (or: a reply with a lookup did not reach it). */
void kr_inode_forget(struct kr_inodes *inodes, uint64_t number, uint64_t count);
/* The number of a file if the kernel knows it, else 0: for notifications. */
uint64_t kr_inode_find(struct kr_inodes *inodes, const struct kr_fid *fid);
/* The file's path below the mount as it was last looked up ("a/b"), owned; NULL when it is not known.  For people only: a
 * rename elsewhere is not heard of. */
char *kr_inode_path(struct kr_inodes *inodes, const struct kr_fid *fid);
size_t kr_inodes_count(struct kr_inodes *inodes);

#endif

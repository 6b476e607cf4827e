/* The inodes that the kernel knows: FUSE's node number <-> the server's file identity.
 *
 * A node number is the address of an inode (1 for the root); it lives until the kernel has forgotten every lookup of
 * it. No descriptor per inode, some 170 bytes (a directory: 300): identity, the name by which it was last found, and
 * the size that the kernel believes in.  Thread-safe (one lock).
 *
 * That size: the kernel takes one from our answer only if it has heard of nothing else since it asked, and an
 * invalidation or the answer to another question is such a thing.  A read of its pages, lseek(SEEK_END) or a mapping
 * then ends at an older one, whatever we said; what goes by it has asked (GETATTR) before.  So what has been said, and
 * what writes of this node have let the kernel know, is remembered, and where sizes differ it is made sure
 * (kr_shim_grow) before GETATTR is answered.
 *
 * The kernel can be made to believe in a greater size only, and must not when the file has been cut meanwhile: it would
 * fill the pages that it has with zeros up to there.  So cuts are counted: by programs of this node (an open with
 * O_TRUNC too), when pages are dropped for what another node does, and where a size or the end of a read shows one.
 * What was asked for before a cut, and is more than what was said since, is asked for anew; and who cuts waits for
 * those who are just telling a size (but O_TRUNC, which leaves no pages: the next read is short then, and the kernel
 * believes that).  What another node cuts is heard of when that has been done, too, and waited for, whether this one
 * has cached anything or not (shrink_notice.h).
 */
#ifndef KR_FUSE_INODE_TABLE_H
#define KR_FUSE_INODE_TABLE_H

#include "common/base/table.h"
#include "common/base/types.h"

struct kr_inodes;

/* The number of the batch file (fuse/ops/batch.h), which is not in the table; no server knows the identity that
 * kr_inode_fid says. */
#define KR_INODE_BATCH_FILE (UINT64_C(1) << 62)

int kr_inodes_new(const struct kr_fid *root, struct kr_inodes **ret_inodes);
void kr_inodes_free(struct kr_inodes *inodes);
/* The file behind a number that the kernel gave us and has not been answered for: it cannot have forgotten it. */
void kr_inode_fid(struct kr_inodes *inodes, uint64_t number, struct kr_fid *ret_fid);
/* Counts one lookup of the file and gives its number and generation for the reply.  ATTR is what the server says of it;
 * PARENT and NAME are where it was found, for messages to people; NULL: not known.  0, -ENOMEM, or -EIO: ATTR cannot be
 * true. */
int kr_inode_learn(struct kr_inodes *inodes, const struct kr_fid *fid, const struct kr_attr *attr,
	const struct kr_fid *parent, const char *name, uint64_t *ret_number, uint64_t *ret_generation);
/* 0, or -EIO: ATTR cannot be true of the file behind this number (as for kr_inode_fid), for its type never changes. The
 * kernel would give the inode up for good: it must not see such a reply. */
int kr_inode_check(const struct kr_inodes *inodes, uint64_t number, const struct kr_attr *attr);
/* How often the file has been cut, as far as is known here: to be had before its size is asked for. */
uint32_t kr_inode_truncations(struct kr_inodes *inodes, uint64_t number);
/* A regular file's SIZE, for which was asked when it had been cut *CUTS times, is to be said to the kernel. If it can
 * be, *CUTS is set to what the next two want. */
enum kr_size_reply {
	KR_SIZE_REPLY_KNOWN,  /* which is certain to believe in that one, or a greater one */
	KR_SIZE_REPLY_NOTIFY, /* which is to be made to, first */
	KR_SIZE_REPLY_STALE,  /* but cannot be believed itself any more: to be asked for anew */
};
enum kr_size_reply kr_inode_reply_size(struct kr_inodes *inodes, uint64_t number, uint64_t size, uint32_t *cuts);
/* Around what makes the kernel believe in SIZE, after KR_SIZE_REPLY_NOTIFY. False: it has become stale, and nothing is
 * to be ended. */
bool kr_inode_notify_size(struct kr_inodes *inodes, uint64_t number, uint64_t size, uint32_t cuts);
void kr_inode_notified_size(struct kr_inodes *inodes, uint64_t number, uint64_t size, uint32_t cuts, bool told);
/* A write of this node, whose bytes end at END in the kernel's eyes, is being answered. */
void kr_inode_size_grown(struct kr_inodes *inodes, uint64_t number, uint64_t end);
/* The kernel sees from an answer of ours that the file ends at SIZE, or ended there when that was made: a read was
 * short, attributes were set. */
void kr_inode_size_seen(struct kr_inodes *inodes, uint64_t number, uint64_t size);
/* The file has been cut, or may have been. Whether somebody is just telling a size. */
bool kr_inode_truncated(struct kr_inodes *inodes, const struct kr_fid *fid);
/* Waits for those. Blocks as what they do does, for page locks: in kr-notify only. */
void kr_inode_await_notifiers(struct kr_inodes *inodes, const struct kr_fid *fid);
/* What is said of a directory that is gone and that a program still has open or works in (the server has nothing to say
 * of it any more): what it was when it was last looked up, without a name. False: not a directory, or not known. NUMBER
 * as for kr_inode_fid. */
bool kr_inode_removed_directory(struct kr_inodes *inodes, uint64_t number, struct kr_attr *ret_attr);
/* The kernel forgets COUNT lookups (or: a reply with a lookup did not reach it). */
void kr_inode_forget(struct kr_inodes *inodes, uint64_t number, uint64_t count);
/* The number of a file if the kernel knows it, else 0: for notifications. */
uint64_t kr_inode_find(struct kr_inodes *inodes, const struct kr_fid *fid);
/* The file's path below the mount as it was last looked up ("a/b"), owned; NULL when it is not known.  For people only:
 * a rename elsewhere is not heard of. */
char *kr_inode_path(struct kr_inodes *inodes, const struct kr_fid *fid);
size_t kr_inodes_count(struct kr_inodes *inodes);

#endif

/* The inodes that the kernel knows: FUSE's node number <-> the server's file identity.
 *
 * A node number is the address of an inode (1 for the root).  It lives until the kernel has forgotten every lookup of
 * it.  An inode holds no descriptor; it takes some 195 bytes (a directory: 325).  These are the identity, the name of
 * the last lookup, and the file size that the kernel believes in.  Thread-safe (one lock).
 *
 * The kernel's size.  The kernel takes a size from an answer only if it has heard nothing else of the inode since the
 * question; an invalidation, or the answer to another question, counts.  Else a read of its pages, lseek(SEEK_END) or
 * a mapping ends at an older size.  A program that goes by the size has asked (GETATTR) before.  So the table remembers
 * the size of the last answers and of this node's writes.  Where they differ, the daemon makes the kernel grow its size
 * (kr_shim_grow) before it answers GETATTR.
 *
 * Truncation.  The daemon can only make the kernel believe in a greater size.  It must not do so after a truncation:
 * the kernel would fill its pages with zeros up to that size.  So the table counts truncations:
 *  - by programs of this node, an open with O_TRUNC too;
 *  - when the daemon drops pages for another node;
 *  - where an answer's size, or the end of a read, shows one.
 * The daemon asks anew for a size that it asked for before a truncation, if that size is above the last answer.  A
 * truncation waits for answers that are just being given.  O_TRUNC does not: it leaves no pages, so the next read is
 * short, and the kernel believes that.  The server tells this node of other nodes' truncations, and waits for it,
 * whether this node has cached anything or not (shrink_notice.h).
 *
 * Attributes in the kernel.  The table remembers of which inodes the kernel may hold valid attributes, and until when
 * (a grant; see kernel_attrs.h).
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
/* Counts one lookup of the file and gives its number and generation for the reply.  The generation depends on FID
 * alone, so a kairand that exports this mount knows the file again (server/export/entry.c).  ATTR is what the server
 * says of it; PARENT and NAME are where it was found, for messages to people; NULL: not known.  0, -ENOMEM, or -EIO:
 * ATTR cannot be true. */
int kr_inode_learn(struct kr_inodes *inodes, const struct kr_fid *fid, const struct kr_attr *attr,
	const struct kr_fid *parent, const char *name, uint64_t *ret_number, uint64_t *ret_generation);
/* 0, or -EIO: ATTR cannot be true of the file behind this number (as for kr_inode_fid), for its type never changes. The
 * kernel would give the inode up for good: it must not see such a reply. */
int kr_inode_check(const struct kr_inodes *inodes, uint64_t number, const struct kr_attr *attr);
/* How many truncations of the file this node knows of.  Call it before asking the server for the file's size. */
uint32_t kr_inode_truncations(struct kr_inodes *inodes, uint64_t number);
/* The node is about to tell the kernel SIZE.  *CUTS: kr_inode_truncations when it asked the server for SIZE.  Unless
 * the result is STALE, sets *CUTS for the next two calls. */
enum kr_size_reply {
	KR_SIZE_REPLY_KNOWN,  /* the kernel will believe in SIZE, or a greater size */
	KR_SIZE_REPLY_NOTIFY, /* the node must first make the kernel believe in SIZE */
	KR_SIZE_REPLY_STALE,  /* SIZE may be from before a truncation: ask the server again */
};
enum kr_size_reply kr_inode_reply_size(struct kr_inodes *inodes, uint64_t number, uint64_t size, uint32_t *cuts);
/* Around what makes the kernel believe in SIZE, after KR_SIZE_REPLY_NOTIFY. False: it has become stale, and nothing is
 * to be ended. */
bool kr_inode_notify_size(struct kr_inodes *inodes, uint64_t number, uint64_t size, uint32_t cuts);
void kr_inode_notified_size(struct kr_inodes *inodes, uint64_t number, uint64_t size, uint32_t cuts, bool told);
/* The node is answering a write whose bytes, as the kernel sees it, end at END. */
void kr_inode_size_grown(struct kr_inodes *inodes, uint64_t number, uint64_t end);
/* The kernel sees from an answer of ours that the file ends at SIZE, or ended there when that was made: a read was
 * short, attributes were set. */
void kr_inode_size_seen(struct kr_inodes *inodes, uint64_t number, uint64_t size);
/* The file has been cut, or may have been. Returns whether a thread is just telling the kernel a size. */
bool kr_inode_truncated(struct kr_inodes *inodes, const struct kr_fid *fid);
/* Waits for those threads.  They, and so this, may wait for page locks: in kr-notify only. */
void kr_inode_await_notifiers(struct kr_inodes *inodes, const struct kr_fid *fid);
/* The attributes of a directory that is gone at the server, and that a program still has open or works in: those of the
 * last lookup, without a name. False: not a directory, or not known. NUMBER as for kr_inode_fid. */
bool kr_inode_removed_directory(struct kr_inodes *inodes, uint64_t number, struct kr_attr *ret_attr);
/* The kernel forgets COUNT lookups (or: a reply with a lookup did not reach it). */
void kr_inode_forget(struct kr_inodes *inodes, uint64_t number, uint64_t count);
/* The number of a file if the kernel knows it, else 0: for notifications. */
uint64_t kr_inode_find(struct kr_inodes *inodes, const struct kr_fid *fid);
/* The file's path below the mount as it was last looked up ("a/b"), owned; NULL when it is not known.  For people only:
 * a rename elsewhere is not heard of. */
char *kr_inode_path(struct kr_inodes *inodes, const struct kr_fid *fid);
size_t kr_inodes_count(struct kr_inodes *inodes);

/* --- grants: the kernel may hold valid attributes (kernel_attrs.h) ------------------------------ */

/* A grant that is being taken back. */
struct kr_inode_grant {
	uint64_t number, generation;
	uint64_t until_ns; /* the kernel does not hold the attributes any longer (kr_clock_ns) */
	struct kr_fid fid;
};

/* The kernel may hold the inode's attributes, of BUCKET (common/rpc/attr_cache.h), until UNTIL_NS.  To be called before
 * the attributes are found to be true.  NUMBER as for kr_inode_fid. */
void kr_inode_grant(struct kr_inodes *inodes, uint64_t number, uint32_t bucket, uint64_t until_ns);
/* Takes back the grants of BUCKET (KR_ATTR_CACHE_ALL: all) that last at NOW_NS, at most MAX.  Returns their number;
 * fewer than MAX: there are no others. */
size_t kr_inodes_take_grants(
	struct kr_inodes *inodes, uint32_t bucket, uint64_t now_ns, struct kr_inode_grant *ret, size_t max);
/* Whether BUCKET has a grant that lasts at NOW_NS. */
bool kr_inodes_granted(struct kr_inodes *inodes, uint32_t bucket, uint64_t now_ns);
/* Takes back the grant of one file.  Returns its number; 0: there is none that lasts at NOW_NS. */
uint64_t kr_inode_take_grant_of(struct kr_inodes *inodes, const struct kr_fid *fid, uint64_t now_ns);
/* The kernel has answered a notification about the inode of GRANT with ERR.  False: a reply that brings the inode to
 * the kernel may still be under way, so the kernel must be notified again. */
bool kr_inode_grant_ended(struct kr_inodes *inodes, const struct kr_inode_grant *grant, int err, uint64_t now_ns);
/* Waits until the kernel has forgotten some inode, at most WAIT_NS. */
void kr_inodes_await_forget(struct kr_inodes *inodes, uint64_t wait_ns);

#endif

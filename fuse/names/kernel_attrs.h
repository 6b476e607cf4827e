/* Attributes in the kernel: for how long the kernel may answer stat(2) by itself, and how the node takes that back.
 *
 * A grant.  A reply to GETATTR, LOOKUP or READDIRPLUS gives the kernel attributes with a timeout: what is left of the
 * attribute cache's entry, at most KR_KERNEL_ATTRS_MS, and not beyond the fencing time.  Other replies (CREATE, MKDIR,
 * LINK, SETATTR) give none, because the kernel installs their attributes whatever it has heard since.  There is no
 * timeout either
 *   - while the attribute cache would not answer GETATTR with these very attributes (a change of our own is under way,
 *     the node is fenced, another node writes);
 *   - while the file has unflushed bytes of this node;
 *   - on kernels before 6.14, because of 3. below.
 *
 * Invariant.  When this node has answered INVALIDATE, the kernel holds no attributes of that bucket that are older, and
 * will install none.  When the node sends a request that changes a file, or has answered a write, the same is true of
 * that file.  (Of what a name stands for that a request removes or renames: when the request has been answered.)  Why:
 *   1. The thread that gives a grant first enters it into the inode table.  Then it looks into the attribute cache
 *      and the file's dirty map whether the attributes are still true.  The thread that takes it back first makes them
 *      untrue there, and then looks into the inode table.  So one of the two sees the other.
 *   2. The notification (attributes only) makes the kernel drop what it holds, and gives the inode a new version.  The
 *      kernel ignores a reply to a request that it made before that version.  So it does not matter when a reply that
 *      is under way arrives, as long as the inode stays in the kernel's memory.
 *   3. The kernel can evict the inode after that, and the reply makes it anew.  Then the kernel sees that an inode was
 *      evicted since it made the request, and takes the attributes for expired (evict_ctr, since Linux 6.14).
 *   4. If the kernel does not know the inode when it is notified (ENOENT), a reply to LOOKUP can be under way that will
 *      make it.  "The write to /dev/fuse has returned" does not mean that the program's thread has installed it.
 *      But the kernel gives back each lookup of each reply, with FORGET, when it does not know the inode any more.
 *      So either the inode's lookups are all given back: then no reply is under way.  Or one is under way, or a FORGET
 *      is: the node notifies again until the kernel knows the inode, or all lookups are given back.  Both come without
 *      any help of other nodes.  Between reading a reply and installing it the kernel waits for nothing, or for another
 *      thread's LOOKUP of a name that a READDIRPLUS lists.  The server answers that without waiting for this node.
 *      The node stops after 15 s: the kernel's timeout is over then.
 * The unit test `kernel_attrs` has this as a model with a kernel.
 *
 * ACLs.  The kernel asks for an ACL with GETXATTR, and keeps the answer without a timeout: until a notification, or
 * until it asks for the attributes anew to check a permission.  So an ACL is a grant, too, if the attribute cache knows
 * it.  The node takes it back by itself before the server forgets that this node knows it (KR_KERNEL_ACLS_MS).  If the
 * attribute cache does not know it, the node notifies the kernel before it answers: the kernel keeps no answer to a
 * question that it asked before a notification.
 *
 * Threads.  The notification takes no lock, but it may wait until the kernel has evicted the inode, and that until the
 * daemon has written its pages.  So kr-notify sends it, in a notifier of its own: other nodes' changes wait for it, and
 * must not wait for the pages that recalls drop.  Another thread may send it for an inode that an unanswered request of
 * the kernel holds: the kernel cannot evict that.
 *
 * Sleep.  The kernel's timeouts do not count while the machine sleeps.  So the node takes all grants back when the
 * machine wakes up, and when the node becomes fenced.  A program that runs in the instant before that may see old
 * attributes; as with pages (fuse/session/fence.h).
 */
#ifndef KR_FUSE_KERNEL_ATTRS_H
#define KR_FUSE_KERNEL_ATTRS_H

#include <jansson.h>

#include "common/base/types.h"
#include "fuse/base/mount.h"
#include "fuse/names/inode_table.h"
#include "fuse/session/rpc.h"

/* The kernel speaks FUSE 7.MINOR, from when Linux is 6.14. */
enum {
	KR_KERNEL_ATTRS_MINOR = 42,
	KR_KERNEL_ATTRS_MS = 10000,       /* the longest timeout ... */
	KR_KERNEL_ATTRS_GRANT_MS = 15000, /* ... is over after so long, whenever the kernel installs the reply */
	/* An ACL stays in the kernel for so long at most.  The server remembers for 90 s what a node notes for 60 s. */
	KR_KERNEL_ACLS_MS = 20000,
};

struct kr_kernel_attrs;
struct kr_kernel_attrs_job;

struct kr_kernel_attrs *kr_kernel_attrs_new(void);
void kr_kernel_attrs_free(struct kr_kernel_attrs *attrs);
/* Listens for the machine's waking up; before and after the protocol.  Loop thread. */
void kr_kernel_attrs_start(struct kr_mount *mount);
void kr_kernel_attrs_stop(struct kr_mount *mount);
/* The kernel speaks FUSE 7.MINOR. Before the first request is answered. */
void kr_kernel_attrs_allow(struct kr_mount *mount, unsigned minor);

/* Step 1: a grant for the inode NUMBER, which is FID, is entered. False: there are none.  Any thread. */
bool kr_kernel_attrs_enter(struct kr_mount *mount, uint64_t number, const struct kr_fid *fid);

/* The same for an ACL, which the kernel has asked for with the request that is being answered.  False: nothing may be
 * granted, so kr_kernel_attrs_keep_no_acl must come before the answer. */
bool kr_kernel_attrs_enter_acl(struct kr_mount *mount, uint64_t number, const struct kr_fid *fid);
/* The kernel shall not keep the ACL in the answer that follows.  Any thread. */
void kr_kernel_attrs_keep_no_acl(struct kr_mount *mount, uint64_t number);

/* Takes all grants of BUCKET back (KR_ATTR_CACHE_ALL: all), then answers DOWN (NULL: there is nothing to answer), when
 * the loans of names there are over, too (kernel_names.h).  The attribute cache has dropped its entries.  Loop thread;
 * does not wait. */
void kr_kernel_attrs_invalidate(struct kr_mount *mount, uint32_t bucket, const struct kr_down *down);
/* The same of one file, which an unanswered request of the kernel holds; returns when the kernel has dropped them.
 * Any thread. */
void kr_kernel_attrs_drop_held(struct kr_mount *mount, const struct kr_fid *fid);

/* The same for an inode that the kernel may be evicting; does not wait.  Any thread. */
void kr_kernel_attrs_drop_later(struct kr_mount *mount, const struct kr_fid *fid);

/* FN runs in the loop thread when all grants have been taken back that are just being taken back, maybe at once. */
struct kr_kernel_attrs_waiter {
	struct kr_kernel_attrs_job *job;
	void (*fn)(struct kr_kernel_attrs_waiter *waiter);
};
void kr_kernel_attrs_settle(struct kr_mount *mount, struct kr_kernel_attrs_waiter *waiter);

json_t *kr_kernel_attrs_status(const struct kr_mount *mount);

#endif

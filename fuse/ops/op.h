/* A FUSE request that the loop thread serves: how it waits, and is woken, interrupted and answered.
 *
 * A libfuse worker answers at once where it can (fast paths).  For the rest, the worker makes a struct that begins with
 * struct kr_op, and posts it.  From then on only the loop thread touches the op.
 *
 * step() checks all preconditions anew each time.  If one is missing, step() starts the work for it, puts the op on the
 * waiters' list of that precondition, and returns.  Any change of state steps all waiters of its list, so no wake-up is
 * lost.  A step that finds all preconditions met answers and frees the op.
 */
#ifndef KR_FUSE_OP_H
#define KR_FUSE_OP_H

#include "common/rpc/msg.h"
#include "fuse/names/inode_table.h"
#include "fuse/ops/io_trace_format.h"
#include "fuse/base/loop.h"
#include "fuse/base/mount.h"
#include "fuse/base/waiter.h"
#include "fuse/session/rpc.h"
#include "fuse/base/shim.h"

struct kr_op {
	struct kr_mount *mount;
	fuse_req_t req;
	/* Loop thread: checks the preconditions.  Called after the post, when the op is woken (kr_waiters_wake), and
	 * after an interrupt. */
	void (*step)(struct kr_op *op);
	/* Frees what the op's own struct holds, not the struct; may be NULL. */
	void (*fini)(struct kr_op *op);
	/* In the list of the precondition that the op waits for. */
	struct kr_waiter waiter;
	/* A signal ends the program's wait (signals.h): a step that would wait answers -EINTR instead.  An op with a
	 * call under way gets the call's reply first (-EINTR if the rpc could give the call up). */
	bool interrupted;
	/* Set before the post: any signal ends the wait, as for fcntl(F_SETLKW). */
	bool any_signal;
	/* `soft`, and the server has been silent for too long: a step that would wait answers -ETIMEDOUT. */
	bool late;
	/* The one call under way, or 0. */
	uint64_t call;
	void (*on_reply)(struct kr_op *op, int err, const void *reply, struct kr_buf *data);

	/* op.c's own. */
	struct kr_task post_task, interrupt_task;
	struct kr_call *prepared;
	uint32_t *groups;
	unsigned prepared_flags;
	bool begun;
	struct kr_link all;
	uint64_t started_ns, signalled_ns; /* 0: not signalled */
	uint64_t unique;                   /* the kernel's number of the request, where its waits are watched; else 0 */
	enum kr_wait waits_for;
	uint64_t waits_since_ns, waited_ns[KR_WAITS];
	uint32_t opcode; /* counted under this when the op is freed; 0: not counted */
	const char *name;
};

/* A libfuse worker, around its work for one message of the kernel: counts how long the request took, here or as an op.
 */
void kr_op_received(const void *message);
void kr_op_served(struct kr_mount *mount);
/* Any thread.  Returns zeroed memory of SIZE bytes (>= sizeof(struct kr_op), op first).  NULL: out of memory, and REQ
 * has been answered with ENOMEM.  Status shows NAME ("write"). */
void *kr_op_new(size_t size, struct kr_mount *mount, fuse_req_t req, const char *name, void (*step)(struct kr_op *op));
/* Any thread: the loop steps the op, and interrupts reach it from now on.  The caller must not touch the op any more.
 */
void kr_op_post(struct kr_op *op);
/* Loop thread: what the request waits for from now on, for the trace.  An op that is woken, or has the reply to its
 * call, waits for nothing (KR_WAIT_HERE). */
void kr_op_waits_for(struct kr_op *op, enum kr_wait wait);
/* Loop thread.  0; or the error with which an op answers instead of waiting: -EINTR, -ETIMEDOUT. */
int kr_op_given_up(const struct kr_op *op);
/* Before the first op.  Then ops that are late are stepped, and those whose program has a signal that ends it.  Whoever
 * ends the loop closes mount->ops.tick.  Loop thread. */
void kr_ops_start(struct kr_mount *mount);
/* Loop thread: takes the op off all lists and disarms interrupts.  Then answer with fuse_reply_*(op->req, ...), then
 * call kr_op_free. */
fuse_req_t kr_op_finish(struct kr_op *op);
/* Loop thread, after kr_op_finish and the answer; or any thread before kr_op_post. */
void kr_op_free(struct kr_op *op);
/* kr_op_finish, fuse_reply_err with -ERR (a negative errno or 0), kr_op_free. */
void kr_op_reply_err(struct kr_op *op, int err);
/* The ON_REPLY of a request whose reply says nothing but ERR. */
void kr_op_on_nothing(struct kr_op *op, int err, const void *reply, struct kr_buf *data);

/* Loop thread: sends MSG for the op, one call at a time.  ON_REPLY gets the reply in the loop thread, or -EINTR after
 * an interrupt that the server honoured in time. */
void kr_op_send(struct kr_op *op, uint16_t type, const void *msg, unsigned flags,
	void (*on_reply)(struct kr_op *op, int err, const void *reply, struct kr_buf *data));
/* Any thread: makes an op of SIZE bytes.  Once posted, the op sends this one request and hands the reply to ON_REPLY,
 * which finishes the op.  NULL: REQ has been answered with the error. */
void *kr_op_ask(size_t size, fuse_req_t req, const char *name, uint16_t type, const void *msg, unsigned flags,
	void (*on_reply)(struct kr_op *op, int err, const void *reply, struct kr_buf *data));
/* Any thread: makes such an op without memory of its own, and posts it. */
void kr_op_request(fuse_req_t req, const char *name, uint16_t type, const void *msg, unsigned flags,
	void (*on_reply)(struct kr_op *op, int err, const void *reply, struct kr_buf *data));
/* Loop thread: interrupts all that is under way, for the end of the mount. */
void kr_ops_interrupt(struct kr_mount *mount);

/* The mount behind a request (fuse_req_userdata). */
static inline struct kr_mount *kr_op_mount(fuse_req_t req)
{
	return fuse_req_userdata(req);
}
/* The caller of REQ with its supplementary groups; they lie in the calling thread's memory until its next call. */
void kr_op_cred(fuse_req_t req, struct kr_cred *ret_cred);
/* The same for an op that keeps the credentials: the groups live as long as the op.  Before the post. */
void kr_op_keep_cred(struct kr_op *op, struct kr_cred *ret_cred);
/* Fills an entry for fuse_reply_entry/create and counts one lookup (timeouts 0: the kernel keeps neither name nor
 * attributes).  The entry was found as NAME in PARENT (NULL: not known).  0, -ENOMEM, or -EIO: ATTR cannot be true. */
int kr_op_entry(struct kr_mount *mount, const struct kr_fid *parent, const char *name, const struct kr_fid *fid,
	const struct kr_attr *attr, struct fuse_entry_param *ret_entry);
/* For how long, in seconds, the kernel may keep what the server says of the inode NUMBER, which is FID: ATTR, before
 * unflushed bytes of this node are added.  For replies to GETATTR, LOOKUP and READDIRPLUS only (kernel_attrs.h). */
double kr_op_attr_timeout(
	struct kr_mount *mount, uint64_t number, const struct kr_fid *fid, const struct kr_attr *attr);
/* The same of what the attribute cache knows of NAME, with the timeout of the attributes; *RET_ERR is the server's
 * answer.  CRED NULL: what any caller may know.  False: the server must be asked. */
bool kr_op_entry_cached(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, int *ret_err, struct fuse_entry_param *ret_entry);
/* Takes that lookup back: the reply did not reach the kernel. */
void kr_op_entry_undo(struct kr_mount *mount, const struct fuse_entry_param *entry);

/* The error that a program gets when a request about a name in PARENT fails with ERR.  A directory that is gone
 * (-ESTALE) has no such name, as on a local disk: -ENOENT.  The export's own root, or a directory that the kernel has
 * not looked up, keeps -ESTALE. */
int kr_op_error_in(struct kr_mount *mount, const struct kr_fid *parent, int err);

/* --- handlers: the table in fuse/daemon/operations.c ---------------------------------------------
 * op_names.c */
void kr_op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name);
void kr_op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count);
void kr_op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets);
void kr_op_readlink(fuse_req_t req, fuse_ino_t ino);
void kr_op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev);
void kr_op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode);
void kr_op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name);
void kr_op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name);
void kr_op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name);
void kr_op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name);
void kr_op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent, const char *new_name,
	unsigned flags);
/* op_attr.c */
void kr_op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void kr_op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *stat, int valid, struct fuse_file_info *fi);
void kr_op_statfs(fuse_req_t req, fuse_ino_t ino);
void kr_op_access(fuse_req_t req, fuse_ino_t ino, int mask);
void kr_op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned command, void *argument, struct fuse_file_info *fi,
	unsigned flags, const void *input, size_t input_size, size_t output_size);
/* op_dir.c */
void kr_op_opendir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void kr_op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void kr_op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
void kr_op_releasedir(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void kr_op_fsyncdir(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi);
/* op_xattr.c */
void kr_op_setxattr(fuse_req_t req, fuse_ino_t ino, const char *name, const char *value, size_t size, int flags);
void kr_op_getxattr(fuse_req_t req, fuse_ino_t ino, const char *name, size_t size);
void kr_op_listxattr(fuse_req_t req, fuse_ino_t ino, size_t size);
void kr_op_removexattr(fuse_req_t req, fuse_ino_t ino, const char *name);
/* op_open.c */
void kr_op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void kr_op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi);
void kr_op_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *fi);
void kr_op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
/* op_read.c */
void kr_op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset, struct fuse_file_info *fi);
/* op_write.c */
void kr_op_write(
	fuse_req_t req, fuse_ino_t ino, const char *data, size_t size, off_t offset, struct fuse_file_info *fi);
/* op_sync.c */
void kr_op_flush(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi);
void kr_op_fsync(fuse_req_t req, fuse_ino_t ino, int data_only, struct fuse_file_info *fi);
/* op_lock.c */
void kr_op_getlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock);
void kr_op_setlk(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, struct flock *lock, int wait);
void kr_op_flock(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi, int operation);
/* op_space.c */
void kr_op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset, off_t length, struct fuse_file_info *fi);
void kr_op_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence, struct fuse_file_info *fi);
void kr_op_copy_file_range(fuse_req_t req, fuse_ino_t ino_in, off_t offset_in, struct fuse_file_info *fi_in,
	fuse_ino_t ino_out, off_t offset_out, struct fuse_file_info *fi_out, size_t length, int flags);

#endif

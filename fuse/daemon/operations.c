/* See operations.h. */
#include "fuse/daemon/operations.h"

#include <assert.h>

#include "common/base/util.h"
#include "fuse/base/options.h"
#include "fuse/base/shim.h"
#include "fuse/names/kernel_attrs.h"
#include "fuse/ops/kernel_requests.h"
#include "fuse/ops/batch.h"
#include "fuse/ops/op.h"

/* The kernel sends at most BACKGROUND requests for pages at a time; further ones wait in the kernel.  Page reads may
 * wait for other nodes, those nodes for their writebacks, and the writebacks for a place behind page reads.  With 256,
 * two nodes deadlock when each reads ahead in 300 files that the other has stored into; with 1024 they do not.
 * Sequential and parallel reads are as fast with either.
 *
 * The price is memory: the daemon keeps a copy of a write's bytes while the request waits (for room in the journal, for
 * a lease).  So one program with asynchronous direct writes can make the daemon hold 1 GiB.  A program with 1,024
 * threads can do so with ordinary writes. */
enum { MAX_TRANSFER = 1 << 20, BACKGROUND = 1024 };

static void on_init(void *userdata, struct fuse_conn_info *conn)
{
	struct kr_mount *mount = userdata;

	kr_kernel_attrs_allow(mount, conn->proto_minor);
	/* Splicing gains nothing here.  The kernel shall check and clear set-id bits itself.  It shall not choose between
	 * READDIR and READDIRPLUS: programs like find and du list all names before they look at one.
	 */
	kr_shim_want_not(conn,
		FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE | FUSE_CAP_READDIRPLUS_AUTO |
			FUSE_CAP_HANDLE_KILLPRIV | FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_WRITEBACK_CACHE |
			FUSE_CAP_IOCTL_DIR);
	/* The server applies the umask, because it knows default ACLs.  The node invalidates pages exactly (recall.c).
	 */
	kr_shim_want(conn,
		FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_DONT_MASK | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_ASYNC_READ |
			FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_POSIX_LOCKS | FUSE_CAP_FLOCK_LOCKS);
	/* The kernel asks for ACLs, and heeds them (kernel_attrs.h).  Where it checks nothing, the server alone does. */
	if (kr_mount_heeds_acls(mount->options))
		kr_shim_want(conn, FUSE_CAP_POSIX_ACL);
	static_assert((int)KR_BATCH_MAX <= (int)MAX_TRANSFER, "a batch is one request");
	conn->max_write = MAX_TRANSFER;
	conn->max_readahead = MAX_TRANSFER;
	conn->max_background = BACKGROUND;
	conn->time_gran = 1;
	kr_shim_init(conn);
}

static const struct fuse_lowlevel_ops operations = {
	.init = on_init,
	.lookup = kr_op_lookup,
	.forget = kr_op_forget,
	.forget_multi = kr_op_forget_multi,
	.getattr = kr_op_getattr,
	.setattr = kr_op_setattr,
	.readlink = kr_op_readlink,
	.mknod = kr_op_mknod,
	.mkdir = kr_op_mkdir,
	.unlink = kr_op_unlink,
	.rmdir = kr_op_rmdir,
	.symlink = kr_op_symlink,
	.rename = kr_op_rename,
	.link = kr_op_link,
	.open = kr_op_open,
	.create = kr_op_create,
	.read = kr_op_read,
	.write = kr_op_write,
	.flush = kr_op_flush,
	.release = kr_op_release,
	.fsync = kr_op_fsync,
	.getlk = kr_op_getlk,
	.setlk = kr_op_setlk,
	.flock = kr_op_flock,
	.opendir = kr_op_opendir,
	.readdir = kr_op_readdir,
	.readdirplus = kr_op_readdirplus,
	.releasedir = kr_op_releasedir,
	.fsyncdir = kr_op_fsyncdir,
	.statfs = kr_op_statfs,
	.setxattr = kr_op_setxattr,
	.getxattr = kr_op_getxattr,
	.listxattr = kr_op_listxattr,
	.removexattr = kr_op_removexattr,
	.access = kr_op_access,
	.ioctl = kr_op_ioctl,
	.fallocate = kr_op_fallocate,
	.lseek = kr_op_lseek,
	.copy_file_range = kr_op_copy_file_range,
#ifdef KR_FUSE_TMPFILE
	.tmpfile = kr_op_tmpfile,
#endif
};

static void on_arrived(struct kr_mount *mount, const void *message)
{
	kr_op_received(message);
	kr_kernel_request_arrived(mount->requests, message);
}

static void on_reply(void *userdata, const struct iovec *iov, int count)
{
	const struct kr_mount *mount = userdata;

	kr_kernel_request_answered(mount->requests, iov, count);
}

const struct kr_kernel_side kr_cluster_operations = {
	.operations = &operations, .arrived = on_arrived, .served = kr_op_served, .replies = on_reply};

/* What the kernel is told of files: attributes and entries, for which it will ask again each time (timeouts 0).
 *
 * Any thread, unless it says otherwise.  What makes the kernel believe in a size (inode_table.h) may wait for a page
 * lock, so kr-notify does it.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#include "common/base/fail.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/base/notify.h"
#include "fuse/ops/op.h"
#include "fuse/base/options.h"
#include "fuse/base/shim.h"

static struct timespec timespec_of(struct kr_time time)
{
	return (struct timespec){.tv_sec = time.sec, .tv_nsec = time.nsec};
}

/* What a server says that is not ours, or whose words somebody changes. */
static void complain(struct kr_mount *mount)
{
	static atomic_bool complained;

	if (!atomic_exchange(&complained, true))
		kr_log_warn("%s: %s; such answers are errors here (more of them are not reported)",
			mount->options->source, kr_fail_reason());
}

/* The kernel makes much of it. */
static blksize_t block_size(uint32_t said)
{
	return said >= 512 && said <= 1 << 20 && (said & (said - 1)) == 0 ? (blksize_t)said : 4096;
}

/* A write's mtime goes by the server's clock to the nanosecond, the ctime of the flush by its kernel's, which stands
 * still for a tick of up to 10 ms: as on a local disk the second shall never lie before the first. */
static struct kr_time ctime_of(const struct kr_attr *attr)
{
	enum { TICK_NS = 20 * 1000 * 1000 };
	int64_t ahead_ns;

	if (attr->mtime.sec < attr->ctime.sec || (uint64_t)attr->mtime.sec - (uint64_t)attr->ctime.sec > 1)
		return attr->ctime;
	ahead_ns = (attr->mtime.sec - attr->ctime.sec) * (int64_t)KR_NS_PER_S + attr->mtime.nsec - attr->ctime.nsec;
	return ahead_ns > 0 && ahead_ns < TICK_NS ? attr->mtime : attr->ctime;
}

static void to_stat(const struct kr_attr *attr, struct stat *ret_stat)
{
	*ret_stat = (struct stat){
		.st_ino = attr->ino,
		.st_mode = attr->mode,
		.st_nlink = attr->nlink,
		.st_uid = attr->uid,
		.st_gid = attr->gid,
		.st_rdev = makedev(attr->rdev_major, attr->rdev_minor),
		.st_size = (off_t)attr->size,
		.st_blocks = (blkcnt_t)attr->blocks,
		.st_blksize = block_size(attr->blksize),
		.st_atim = timespec_of(attr->atime),
		.st_mtim = timespec_of(attr->mtime),
		.st_ctim = timespec_of(ctime_of(attr)),
	};
}

/* A GETATTR whose answer waits until the kernel believes in the size that it says. */
struct sizing {
	struct kr_notify_job job;
	fuse_req_t req;
	struct stat stat;
	uint64_t number;
	uint32_t cuts;
};

/* kr-notify. */
static void tell_size(struct kr_notify_job *job, int err)
{
	struct sizing *sizing = KR_CONTAINER_OF(job, struct sizing, job);
	struct kr_mount *mount = kr_op_mount(sizing->req);
	uint64_t size = (uint64_t)sizing->stat.st_size;

	(void)KR_FAULT("size.tell");
	if (kr_inode_notify_size(mount->inodes, sizing->number, size, sizing->cuts)) {
		(void)KR_FAULT("size.telling");
		err = kr_shim_grow(mount->fuse, sizing->number, size);
		kr_inode_notified_size(mount->inodes, sizing->number, size, sizing->cuts, err == 0);
		fuse_reply_attr(sizing->req, &sizing->stat, 0);
	} else {
		kr_op_getattr(sizing->req, sizing->number, NULL);
	}
	free(sizing);
}

/* Whether ATTR can be true; else REQ has been answered. */
static bool is_credible(fuse_req_t req, uint64_t number, const struct kr_attr *attr)
{
	struct kr_mount *mount = kr_op_mount(req);

	if (kr_inode_check(mount->inodes, number, attr) == 0)
		return true;
	complain(mount);
	fuse_reply_err(req, EIO);
	return false;
}

void kr_op_reply_attr(fuse_req_t req, uint64_t number, uint32_t cuts, const struct kr_attr *attr)
{
	struct kr_mount *mount = kr_op_mount(req);
	struct sizing *sizing;
	struct stat stat;

	if (!is_credible(req, number, attr))
		return;
	to_stat(attr, &stat);
	switch (S_ISREG(attr->mode) ? kr_inode_reply_size(mount->inodes, number, attr->size, &cuts) :
				      KR_SIZE_REPLY_KNOWN) {
	case KR_SIZE_REPLY_KNOWN:
		(void)KR_FAULT("size.known");
		fuse_reply_attr(req, &stat, 0);
		break;
	case KR_SIZE_REPLY_STALE:
		kr_op_getattr(req, number, NULL);
		break;
	case KR_SIZE_REPLY_NOTIFY:
		sizing = kr_xcalloc(1, sizeof(*sizing));
		*sizing = (struct sizing){
			.job.done = tell_size, .req = req, .stat = stat, .number = number, .cuts = cuts};
		kr_notify(mount->notifier, &sizing->job);
		break;
	}
}

/* A SETATTR that has cut the file: what others tell of it must not reach the kernel after the answer. */
struct cutting {
	struct kr_notify_job job;
	fuse_req_t req;
	struct stat stat;
	struct kr_fid fid;
};

/* kr-notify. */
static void answer_cut(struct kr_notify_job *job, int err)
{
	struct cutting *cutting = KR_CONTAINER_OF(job, struct cutting, job);

	(void)err;
	kr_inode_await_notifiers(kr_op_mount(cutting->req)->inodes, &cutting->fid);
	fuse_reply_attr(cutting->req, &cutting->stat, 0);
	free(cutting);
}

void kr_op_reply_changed(
	fuse_req_t req, uint64_t number, const struct kr_fid *fid, bool sized, const struct kr_attr *attr)
{
	struct kr_mount *mount = kr_op_mount(req);
	struct cutting *cutting;
	struct stat stat;

	if (!is_credible(req, number, attr))
		return;
	to_stat(attr, &stat);
	if (sized && kr_inode_truncated(mount->inodes, fid)) {
		cutting = kr_xcalloc(1, sizeof(*cutting));
		*cutting = (struct cutting){.job.done = answer_cut, .req = req, .stat = stat, .fid = *fid};
		kr_notify(mount->notifier, &cutting->job);
		return;
	}
	if (S_ISREG(attr->mode) && !sized)
		kr_inode_size_seen(mount->inodes, number, attr->size);
	fuse_reply_attr(req, &stat, 0);
}

int kr_op_entry(struct kr_mount *mount, const struct kr_fid *parent, const char *name, const struct kr_fid *fid,
	const struct kr_attr *attr, struct fuse_entry_param *ret_entry)
{
	uint64_t generation, number;
	int err = kr_inode_learn(mount->inodes, fid, attr, parent, name, &number, &generation);

	if (err == -EIO)
		complain(mount);
	if (err)
		return err;
	*ret_entry = (struct fuse_entry_param){.ino = number, .generation = generation};
	to_stat(attr, &ret_entry->attr);
	return 0;
}

void kr_op_entry_undo(struct kr_mount *mount, const struct fuse_entry_param *entry)
{
	kr_inode_forget(mount->inodes, entry->ino, 1);
}

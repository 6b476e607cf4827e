/* Attributes.  The kernel asks when its own have expired (kernel_attrs.h).  The node asks the server, unless the
 * attribute cache has the answer (attr_cache.h), and adds its own unflushed bytes.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#include "common/base/util.h"
#include "fuse/ops/batch.h"
#include "fuse/names/attr_cache.h"
#include "fuse/names/kernel_attrs.h"
#include "fuse/writeback/flush.h"
#include "common/base/fail.h"
#include "common/base/fault.h"
#include "common/base/log.h"
#include "fuse/base/notify.h"
#include "fuse/ops/op_file.h"
#include "fuse/base/options.h"
#include "fuse/base/shim.h"

enum { OVERLAY_TRIES = 4 };

/* --- answers that the kernel may keep ---------------------------------------------------------- */

static struct timespec timespec_of(struct kr_time time)
{
	return (struct timespec){.tv_sec = time.sec, .tv_nsec = time.nsec};
}

/* The server sent attributes that cannot be true: it is no kairand, or an attacker changes its messages. */
static void complain(struct kr_mount *mount)
{
	static atomic_bool complained;

	if (!atomic_exchange(&complained, true))
		kr_log_warn("%s: %s; such answers are errors here (more of them are not reported)",
			mount->options->source, kr_fail_reason());
}

/* The kernel derives several figures from it. */
static blksize_t block_size(uint32_t said)
{
	return said >= 512 && said <= 1 << 20 && (said & (said - 1)) == 0 ? (blksize_t)said : 4096;
}

/* The server's clock gives a write's mtime, to the nanosecond.  The server's kernel gives the ctime of the flush.  That
 * kernel's clock stands still for a tick of up to 10 ms.  As on a local disk, the ctime must never lie before the
 * mtime. */
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

/* Whether the kernel may keep what the server said at TRUE_NS: this node has no bytes that change it. */
static bool is_clean(struct kr_mount *mount, const struct kr_fid *fid, uint64_t true_ns)
{
	struct kr_file *file = kr_file_find(mount, fid);
	bool clean;

	if (!file)
		return true;
	pthread_mutex_lock(&file->lock);
	clean = kr_extent_map_empty(&file->dirty) && !(file->changed_ns && file->changed_ns >= true_ns);
	pthread_mutex_unlock(&file->lock);
	kr_file_put(file);
	return clean;
}

double kr_op_attr_timeout(struct kr_mount *mount, uint64_t number, const struct kr_fid *fid, const struct kr_attr *attr)
{
	uint64_t left_ns, true_ns;

	if (!kr_kernel_attrs_enter(mount, number, fid))
		return 0;
	left_ns = kr_attr_cache_left_ns(mount, fid, attr, &true_ns);
	if (!left_ns || (S_ISREG(attr->mode) && !is_clean(mount, fid, true_ns)))
		return 0;
	return (double)KR_MIN(left_ns, KR_KERNEL_ATTRS_MS * KR_NS_PER_MS) / (double)KR_NS_PER_S;
}

/* A GETATTR whose answer waits until the kernel has taken over the size in that answer. */
struct sizing {
	struct kr_notify_job job;
	fuse_req_t req;
	struct stat stat;
	double timeout;
	uint64_t number;
	uint32_t truncations;
};

/* kr-notify. */
static void tell_size(struct kr_notify_job *job, int err)
{
	struct sizing *sizing = KR_CONTAINER_OF(job, struct sizing, job);
	struct kr_mount *mount = kr_op_mount(sizing->req);
	uint64_t size = (uint64_t)sizing->stat.st_size;

	(void)KR_FAULT("size.tell");
	if (kr_inode_notify_size(mount->inodes, sizing->number, size, sizing->truncations)) {
		(void)KR_FAULT("size.telling");
		err = kr_shim_grow(mount->fuse, sizing->number, size);
		kr_inode_notified_size(mount->inodes, sizing->number, size, sizing->truncations, err == 0);
		fuse_reply_attr(sizing->req, &sizing->stat, sizing->timeout);
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

/* Answers a GETATTR of the file NUMBER with ATTR when the kernel has taken over the size; EIO if ATTR cannot be true.
 * CUTS counts the truncations of the file (inode_table.h) before GETATTR was sent.  If the file has been truncated
 * since, the node sends GETATTR again.  The kernel may keep them for TIMEOUT seconds. */
static void op_reply_attr(
	fuse_req_t req, uint64_t number, uint32_t truncations, const struct kr_attr *attr, double timeout)
{
	struct kr_mount *mount = kr_op_mount(req);
	struct sizing *sizing;
	struct stat stat;

	if (!is_credible(req, number, attr))
		return;
	to_stat(attr, &stat);
	switch (S_ISREG(attr->mode) ? kr_inode_reply_size(mount->inodes, number, attr->size, &truncations) :
				      KR_SIZE_REPLY_KNOWN) {
	case KR_SIZE_REPLY_KNOWN:
		(void)KR_FAULT("size.known");
		fuse_reply_attr(req, &stat, timeout);
		break;
	case KR_SIZE_REPLY_STALE:
		kr_op_getattr(req, number, NULL);
		break;
	case KR_SIZE_REPLY_NOTIFY:
		sizing = kr_xcalloc(1, sizeof(*sizing));
		*sizing = (struct sizing){.job.done = tell_size,
			.req = req,
			.stat = stat,
			.timeout = timeout,
			.number = number,
			.truncations = truncations};
		kr_notify(mount->notifier, &sizing->job);
		break;
	}
}

/* A SETATTR that has truncated the file: sizes that other threads tell must not reach the kernel after the answer. */
struct truncation {
	struct kr_notify_job job;
	fuse_req_t req;
	struct stat stat;
	struct kr_fid fid;
};

/* kr-notify. */
static void answer_truncation(struct kr_notify_job *job, int err)
{
	struct truncation *truncation = KR_CONTAINER_OF(job, struct truncation, job);

	(void)err;
	kr_inode_await_notifiers(kr_op_mount(truncation->req)->inodes, &truncation->fid);
	fuse_reply_attr(truncation->req, &truncation->stat, 0);
	free(truncation);
}

/* Answers a SETATTR of the file NUMBER, which is FID, with its new attributes ATTR.  SIZED: the request set the size.
 */
static void op_reply_changed(
	fuse_req_t req, uint64_t number, const struct kr_fid *fid, bool sized, const struct kr_attr *attr)
{
	struct kr_mount *mount = kr_op_mount(req);
	struct truncation *truncation;
	struct stat stat;

	if (!is_credible(req, number, attr))
		return;
	to_stat(attr, &stat);
	if (sized && kr_inode_truncated(mount->inodes, fid)) {
		truncation = kr_xcalloc(1, sizeof(*truncation));
		*truncation = (struct truncation){.job.done = answer_truncation, .req = req, .stat = stat, .fid = *fid};
		kr_notify(mount->notifier, &truncation->job);
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

/* --- getattr ---------------------------------------------------------------------------------- */

struct getattr_op {
	struct kr_op op;
	uint64_t number;
	struct kr_fid fid;
	uint64_t stamp;
	uint32_t truncations; /* truncations of the file before the request was sent (inode_table.h) */
	int tries;
};

static void step_getattr(struct kr_op *op);

static void reply_getattr(struct kr_op *op, const struct kr_attr *attr, double timeout)
{
	struct getattr_op *getattr = KR_CONTAINER_OF(op, struct getattr_op, op);

	op_reply_attr(kr_op_finish(op), getattr->number, getattr->truncations, attr, timeout);
	kr_op_free(op);
}

static void on_getattr(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	struct getattr_op *getattr = KR_CONTAINER_OF(op, struct getattr_op, op);
	struct kr_attr attr;
	struct kr_file *file;

	(void)data;
	if (err == -ESTALE && kr_inode_removed_directory(op->mount->inodes, getattr->number, &attr)) {
		reply_getattr(op, &attr, 0);
		return;
	}
	if (err < 0) {
		kr_op_reply_err(op, err);
		return;
	}
	attr = ((const struct kr_getattr_reply *)message)->attr;
	file = kr_file_find(op->mount, &getattr->fid);
	bool good = !file || kr_file_overlay_attr(file, getattr->stamp, ++getattr->tries >= OVERLAY_TRIES, &attr);
	kr_file_put(file);
	if (good)
		reply_getattr(op, &attr,
			kr_op_attr_timeout(op->mount, getattr->number, &getattr->fid,
				&((const struct kr_getattr_reply *)message)->attr));
	else
		step_getattr(op);
}

static void step_getattr(struct kr_op *op)
{
	struct getattr_op *getattr = KR_CONTAINER_OF(op, struct getattr_op, op);
	struct kr_getattr_request msg = {.file = getattr->fid};
	struct kr_file *file;

	if (op->interrupted) {
		kr_op_reply_err(op, -EINTR);
		return;
	}
	file = kr_file_find(op->mount, &getattr->fid);
	getattr->stamp = file ? kr_clock_ns() : 0;
	kr_file_put(file);
	getattr->truncations = kr_inode_truncations(op->mount->inodes, getattr->number);
	kr_op_send(op, KR_MSG_GETATTR, &msg, KR_RPC_READ_ONLY, on_getattr);
}

/* Answers from the attribute cache.  False: the op must ask the server. */
static bool getattr_cached(fuse_req_t req, fuse_ino_t ino, const struct kr_fid *fid)
{
	struct kr_mount *mount = kr_op_mount(req);
	struct kr_attr attr, served;
	struct kr_file *file;
	uint64_t true_ns;
	uint32_t truncations = kr_inode_truncations(mount->inodes, ino);
	bool good;

	if (!kr_attr_cache_getattr(mount, fid, &attr, &true_ns))
		return false;
	served = attr;
	file = kr_file_find(mount, fid);
	good = kr_file_overlay_attr(file, true_ns, false, &attr);
	kr_file_put(file);
	if (!good)
		return false;
	op_reply_attr(req, ino, truncations, &attr, kr_op_attr_timeout(mount, ino, fid, &served));
	return true;
}

void kr_op_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct kr_mount *mount = kr_op_mount(req);
	struct getattr_op *op;
	struct kr_fid fid;

	(void)fi;
	if (ino == KR_INODE_BATCH_FILE) {
		kr_batch_getattr(req);
		return;
	}
	kr_inode_fid(mount->inodes, ino, &fid);
	if (getattr_cached(req, ino, &fid))
		return;
	op = kr_op_new(sizeof(*op), mount, req, "getattr", step_getattr);
	if (!op)
		return;
	op->number = ino;
	op->fid = fid;
	kr_op_post(&op->op);
}

/* --- setattr ---------------------------------------------------------------------------------- */

struct setattr_op {
	struct kr_file_op file_op; /* without a file: no program of this node has it open */
	uint64_t number;
	struct kr_setattr_request msg;
	uint64_t size;       /* UINT64_MAX: not set */
	uint64_t behind;     /* the FLUSH behind which SETATTR went out without waiting for its reply; 0: none */
	uint64_t generation; /* kr_files_generation when it was sent */
	bool waited;         /* for a FLUSH: the op goes behind one only if it can go out at once, and only once */
};

static void step_setattr(struct kr_op *op);

/* What was written before must not undo it when it is sent again. */
static void note_set(const struct setattr_op *setattr, const struct kr_attr *attr)
{
	const uint32_t valid = setattr->msg.valid;

	kr_flush_attributes_set(setattr->file_op.file,
		valid & (KR_SET_SIZE | KR_SET_MTIME | KR_SET_MTIME_NOW) ? &attr->mtime : NULL, valid & KR_SET_MODE);
}

/* Whether what was written before may have been sent again while SETATTR was on its way, and have undone it. */
static bool is_undone(const struct setattr_op *setattr)
{
	return setattr->file_op.file && setattr->size == UINT64_MAX &&
		setattr->generation != kr_files_generation(setattr->file_op.op.mount->files);
}

/* Whether the server has done it, after the FLUSH behind which it went out.  It does not go behind a FLUSH twice. */
static bool in_order(struct setattr_op *setattr, int err)
{
	uint64_t behind = setattr->behind;

	setattr->behind = 0;
	setattr->msg.valid &= ~(uint32_t)KR_SET_BEHIND;
	if (err == 0 && is_undone(setattr))
		return false;
	return !behind || (err != -EAGAIN && (err || kr_flush_was_taken(setattr->file_op.file, behind)));
}

static void on_setattr(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	struct setattr_op *setattr = KR_CONTAINER_OF(op, struct setattr_op, file_op.op);
	struct kr_attr attr = {0};

	(void)data;
	if (err == 0)
		attr = ((const struct kr_setattr_reply *)message)->attr;
	if (setattr->file_op.file) {
		kr_file_after_change(setattr->file_op.file, err, setattr->size, err ? NULL : &attr);
		if (err == 0)
			note_set(setattr, &attr);
		if (err == 0)
			kr_file_overlay_attr(setattr->file_op.file, kr_clock_ns(), true, &attr);
	}
	if (!in_order(setattr, err)) {
		step_setattr(op);
		return;
	}
	if (err < 0) {
		kr_op_reply_err(op, err);
		return;
	}
	op_reply_changed(kr_op_finish(op), setattr->number, &setattr->msg.file, setattr->size != UINT64_MAX, &attr);
	kr_op_free(op);
}

static void send_setattr(struct setattr_op *setattr)
{
	setattr->generation = kr_files_generation(setattr->file_op.op.mount->files);
	kr_op_send(&setattr->file_op.op, KR_MSG_SETATTR, &setattr->msg, 0, on_setattr);
}

/* A SETATTR that changes no bytes goes out right behind the FLUSH that must precede it, which spares a round trip. */
static void send_behind(struct setattr_op *setattr)
{
	if (setattr->size != UINT64_MAX || setattr->waited)
		return;
	setattr->waited = true;
	setattr->behind = kr_flush_under_way(setattr->file_op.file, setattr->file_op.waiter.seq);
	if (!setattr->behind)
		return;
	setattr->msg.valid |= KR_SET_BEHIND;
	send_setattr(setattr);
}

static void wait_for_flush(struct setattr_op *setattr)
{
	kr_op_waits_for(&setattr->file_op.op, KR_WAIT_FLUSH);
	send_behind(setattr);
}

static void step_setattr(struct kr_op *op)
{
	struct setattr_op *setattr = KR_CONTAINER_OF(op, struct setattr_op, file_op.op);
	int err = 0;

	if (op->call)
		return;
	if (kr_op_given_up(op))
		err = kr_op_given_up(op);
	else if (setattr->file_op.file)
		err = kr_file_before_change(setattr->file_op.file, &setattr->file_op.waiter, setattr->size);
	if (err == -EAGAIN)
		wait_for_flush(setattr);
	else if (err < 0)
		kr_op_reply_err(op, err);
	else
		send_setattr(setattr);
}

static void begin_setattr(struct kr_op *op)
{
	struct setattr_op *setattr = KR_CONTAINER_OF(op, struct setattr_op, file_op.op);

	setattr->file_op.file = kr_file_find(op->mount, &setattr->msg.file);
	op->step = step_setattr;
	step_setattr(op);
}

static struct kr_time time_of(struct timespec time)
{
	return (struct kr_time){.sec = time.tv_sec, .nsec = (uint32_t)time.tv_nsec};
}

static uint32_t valid_bits(int valid)
{
	static const struct {
		int theirs;
		uint32_t ours;
	} bits[] = {
		{FUSE_SET_ATTR_MODE, KR_SET_MODE},
		{FUSE_SET_ATTR_UID, KR_SET_UID},
		{FUSE_SET_ATTR_GID, KR_SET_GID},
		{FUSE_SET_ATTR_SIZE, KR_SET_SIZE},
		{FUSE_SET_ATTR_ATIME, KR_SET_ATIME},
		{FUSE_SET_ATTR_MTIME, KR_SET_MTIME},
		{FUSE_SET_ATTR_ATIME_NOW, KR_SET_ATIME_NOW},
		{FUSE_SET_ATTR_MTIME_NOW, KR_SET_MTIME_NOW},
		{FUSE_SET_ATTR_KILL_SUID, KR_SET_CLEAR_SUID},
		{FUSE_SET_ATTR_KILL_SGID, KR_SET_CLEAR_SUID},
	};
	uint32_t result = 0;

	for (size_t i = 0; i < KR_ARRAY_SIZE(bits); i++)
		if (valid & bits[i].theirs)
			result |= bits[i].ours;
	return result;
}

void kr_op_setattr(fuse_req_t req, fuse_ino_t ino, struct stat *stat, int valid, struct fuse_file_info *fi)
{
	struct kr_mount *mount = kr_op_mount(req);
	struct setattr_op *op;

	if (ino == KR_INODE_BATCH_FILE) {
		fuse_reply_err(req, EPERM);
		return;
	}
	op = kr_op_new(sizeof(*op), mount, req, "setattr", begin_setattr);
	if (!op)
		return;
	kr_file_op_init(&op->file_op);
	op->number = ino;
	op->size = valid & FUSE_SET_ATTR_SIZE ? (uint64_t)stat->st_size : UINT64_MAX;
	op->msg = (struct kr_setattr_request){.valid = valid_bits(valid),
		.mode = stat->st_mode & 07777,
		.uid = stat->st_uid,
		.gid = stat->st_gid,
		.size = (uint64_t)stat->st_size,
		.atime = time_of(stat->st_atim),
		.mtime = time_of(stat->st_mtim)};
	kr_op_keep_cred(&op->file_op.op, &op->msg.cred);
	if (valid & FUSE_SET_ATTR_SIZE && fi && kr_handle_of(fi)->writable)
		op->msg.valid |= KR_SET_BY_HANDLE;
	kr_inode_fid(mount->inodes, ino, &op->msg.file);
	kr_op_post(&op->file_op.op);
}

/* --- statfs, access, ioctl -------------------------------------------------------------------- */

static void on_statfs(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	const struct kr_statfs_reply *reply = message;

	(void)data;
	if (err < 0) {
		kr_op_reply_err(op, err);
		return;
	}
	struct statvfs statfs = {.f_bsize = reply->bsize,
		.f_frsize = reply->frsize,
		.f_blocks = reply->blocks,
		.f_bfree = reply->bfree,
		.f_bavail = reply->bavail,
		.f_files = reply->files,
		.f_ffree = reply->ffree,
		.f_favail = reply->ffree,
		.f_namemax = reply->namelen};

	fuse_reply_statfs(kr_op_finish(op), &statfs);
	kr_op_free(op);
}

void kr_op_statfs(fuse_req_t req, fuse_ino_t ino)
{
	struct kr_statfs_request msg = {0};

	kr_inode_fid(kr_op_mount(req)->inodes, ino ? ino : FUSE_ROOT_ID, &msg.file);
	kr_op_request(req, "statfs", KR_MSG_STATFS, &msg, KR_RPC_READ_ONLY, on_statfs);
}

void kr_op_access(fuse_req_t req, fuse_ino_t ino, int mask)
{
	struct kr_access_request msg = {.mask = (uint32_t)mask};
	int err;

	kr_op_cred(req, &msg.cred);
	kr_inode_fid(kr_op_mount(req)->inodes, ino, &msg.file);
	if (kr_attr_cache_access(kr_op_mount(req), &msg.cred, &msg.file, msg.mask, &err)) {
		fuse_reply_err(req, -err);
		return;
	}
	kr_op_request(req, "access", KR_MSG_ACCESS, &msg, KR_RPC_READ_ONLY, kr_op_on_nothing);
}

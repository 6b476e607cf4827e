/* OPEN, CREATE, TMPFILE and RELEASE.
 *
 * Open modes.  A handle for writing is direct_io: the node journals its write(2)s byte by byte, never page by page.  A
 * handle for reading only goes through the kernel's pages, and keeps them.  They are valid as long as the node holds
 * READ (recall.c drops them).  The kernel may map either kind of handle.  But before 6.6 it maps no direct_io handle
 * (MAP_SHARED: ENODEV).  There, with shared_mmap, a handle for reading and writing goes through the pages, too
 * (op_write.c tells the price).
 *
 * Through a mapping of a handle for reading and writing, a program stores into pages without any request.  While such a
 * handle is open (file->pages.mappable), pages come under READ and WRITE together (op_read.c).  Pages that came before,
 * under READ alone, are dropped before the first such handle is opened.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "fuse/journal/journal.h"
#include "fuse/ops/batch.h"
#include "fuse/names/attr_cache.h"
#include "fuse/ops/op_file.h"
#include "fuse/base/options.h"
#include "fuse/base/shim.h"
#include "fuse/readcache/cache.h"
#include "fuse/readcache/stage.h"

/* `flags` of OPEN and CREATE (msgs.def). */
enum {
	OPEN_READ = 0,
	OPEN_WRITE = 1,
	OPEN_BOTH = 2,
	OPEN_TRUNCATE = 4,
	OPEN_EXECUTE = 8,
	OPEN_NOATIME = 16,
	OPEN_CACHED = 32
};
/* The kernel's mark of execve(2) among the flags of an open (FMODE_EXEC). */
enum { FLAG_EXECUTE = 0x20 };

struct open_op {
	struct kr_file_op file_op; /* CREATE's reply tells the file */
	struct fuse_file_info fi;
	struct kr_fid parent;
	char *name; /* NULL: OPEN; "" an unnamed file */
	uint32_t mode, umask;
	struct kr_cred cred;
	bool answered; /* the server has replied, as follows; the op may still wait (claim_pages) */
	bool readable;
	struct kr_attr attr;
	uint64_t generation, stamp; /* when it was sent */
};

static bool for_writing(const struct fuse_file_info *fi)
{
	return (fi->flags & O_ACCMODE) != O_RDONLY;
}

static uint32_t wire_flags(const struct fuse_file_info *fi)
{
	uint32_t access = (fi->flags & O_ACCMODE) == O_RDWR ? OPEN_BOTH : for_writing(fi) ? OPEN_WRITE : OPEN_READ;

	return access | (fi->flags & O_TRUNC ? OPEN_TRUNCATE : 0) | (fi->flags & FLAG_EXECUTE ? OPEN_EXECUTE : 0);
}

static uint8_t welcome_kinds(const struct fuse_file_info *fi)
{
	if ((fi->flags & O_ACCMODE) == O_RDONLY)
		return KR_LEASE_READ;
	if ((fi->flags & O_ACCMODE) == O_RDWR || (fi->flags & O_APPEND))
		return KR_LEASE_ALL;
	return KR_LEASE_WRITE;
}

/* --- handles ---------------------------------------------------------------------------------- */

void kr_op_release(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct kr_handle *handle = kr_handle_of(fi);
	struct kr_mount *mount = kr_op_mount(req);

	(void)ino;
	kr_batch_forget(mount->batches, handle);
	fuse_reply_err(req, 0);
	kr_loop_post(mount->kr_loop, &handle->release_task);
}

/* Whether the handle must not be direct_io, because programs may map it.  A handle for appending is direct_io, since
 * the kernel does not know where the file ends. */
static bool is_paged(const struct kr_handle *handle, int flags)
{
	return handle->file->mount->options->shared_mmap && handle->readable && handle->writable &&
		!(flags & (O_APPEND | O_DIRECT)) && !kr_shim_direct_io_mmap();
}

/* Whether programs may store into the kernel's pages through a mapping of such a handle.  A paged handle is one, too
 * (op_write.c). */
static bool is_mappable(const struct fuse_file_info *fi)
{
	return (fi->flags & O_ACCMODE) == O_RDWR && kr_shim_direct_io_mmap();
}

/* Takes over the op's count in file->pages.mappable. */
static struct kr_handle *new_handle(struct kr_file *file, struct fuse_file_info *fi, bool keep_cache)
{
	struct kr_handle *handle = kr_handle_new(kr_file_get(file));

	handle->readable = (fi->flags & O_ACCMODE) != O_WRONLY;
	handle->writable = for_writing(fi);
	handle->mappable = is_mappable(fi);
	handle->paged = is_paged(handle, fi->flags);
	handle->direct = (handle->writable && !handle->paged) || (fi->flags & O_DIRECT);
	handle->plain = handle->writable && !(fi->flags & (O_APPEND | O_SYNC | O_DSYNC));
	atomic_store(&handle->relaxed, handle->direct && file->mount->options->coherence == KR_COHERENCE_RELAXED);
	fi->fh = (uintptr_t)handle;
	fi->direct_io = handle->direct;
	fi->keep_cache = keep_cache && !handle->direct;
	return handle;
}

/* --- the reply -------------------------------------------------------------------------------- */

/* Takes over the grant and the attributes.  Returns whether the node holds READ now. */
static bool learn(struct open_op *open, struct kr_file *file, uint8_t granted, const struct kr_attr *attr)
{
	struct kr_journal *journal = file->mount->journal;
	bool held, outdated;

	KR_SCOPED_LOCK(&file->lock);
	/* Own bytes have reached the server since: ATTR may be older than they, and its ctime need not show that. */
	outdated = file->changed_ns && file->changed_ns >= open->stamp;
	if (open->fi.flags & O_TRUNC) {
		kr_journal_trim(journal, &file->dirty, 0);
		kr_extent_map_truncate(&file->dirty, 0, kr_journal_release, journal);
		file->changes++;
		file->changed_ns = kr_clock_ns();
		file->stale = true;
	}
	held = kr_lease_state_has(&file->holder, KR_LEASE_READ);
	if (open->generation == kr_files_generation(file->mount->files))
		kr_lease_state_gained(&file->holder, granted);
	if (!outdated)
		kr_file_learn(file, attr);
	if (!held && kr_lease_state_has(&file->holder, KR_LEASE_READ))
		file->stale = outdated || kr_time_compare(file->base.ctime, attr->ctime) != 0 ||
			file->base.size != attr->size;
	return kr_lease_state_has(&file->holder, KR_LEASE_READ) && !file->stale;
}

static void keep_inline(struct kr_file *file, struct kr_buf *data, uint64_t checksum)
{
	struct kr_stage *stage = kr_file_stage(file);

	if (stage)
		kr_stage_put_inline(stage, data, checksum);
}

/* If programs may store into the pages, new pages must come under READ and WRITE from now on.  Returns whether the
 * kernel has no pages left that came under READ alone. */
static bool claim_pages(struct open_op *open)
{
	struct kr_file *file = open->file_op.file;

	if (!is_mappable(&open->fi))
		return true;
	KR_SCOPED_LOCK(&file->lock);
	if (file->pages.mappable || !file->holder.pages) {
		file->pages.mappable++;
		return true;
	}
	kr_lease_state_distrust(&file->holder);
	return false;
}

/* Whether the op can go on to its end; else it waits, or has been answered. */
static bool may_finish(struct open_op *open)
{
	struct kr_op *op = &open->file_op.op;
	struct kr_file *file = open->file_op.file;
	bool claimed = claim_pages(open);

	if (!claimed && !kr_op_given_up(op)) {
		kr_file_op_wait(&open->file_op, 0); /* woken when the pages have gone, or another op has claimed them */
		return false;
	}
	file->open.opening--;
	kr_file_step(file);
	if (!claimed)
		kr_op_reply_err(op, kr_op_given_up(op));
	return claimed;
}

static void finish_open(struct open_op *open)
{
	struct kr_op *op = &open->file_op.op;
	struct fuse_file_info fi = open->fi;
	struct kr_handle *handle;

	if (!may_finish(open))
		return;
	handle = new_handle(open->file_op.file, &fi, open->readable);
	if (kr_shim_reply_open(kr_op_finish(op), &fi) < 0)
		kr_handle_release(handle);
	kr_op_free(op);
}

static void on_opened(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	struct open_op *open = KR_CONTAINER_OF(op, struct open_op, file_op.op);
	const struct kr_open_reply *reply = message;
	struct kr_file *file = open->file_op.file;

	if (err) {
		file->open.opening--;
		kr_file_step(file);
		kr_op_reply_err(op, err);
		return;
	}
	file->open.count++;
	file->open.may_keep = true;
	if (open->fi.flags & O_TRUNC)
		kr_inode_truncated(file->mount->inodes, &file->fid);
	open->readable = learn(open, file, reply->granted, &reply->attr);
	kr_attr_cache_opened(file->mount, &file->fid, &reply->attr);
	if (open->readable && reply->has_data && data)
		keep_inline(file, data, reply->checksum);
	open->answered = true;
	kr_file_step(file); /* other ops may have waited for the granted lease */
	finish_open(open);
}

/* Whether the cache has the bytes of the version that this node knows of.  That version may be outdated: then the read
 * fetches the bytes of the version in the reply. */
static bool has_bytes(struct kr_file *file)
{
	struct kr_mount *mount = file->mount;
	struct kr_attr attr;
	uint64_t true_ns;
	bool exact;

	pthread_mutex_lock(&file->lock);
	exact = kr_lease_state_has(&file->holder, KR_LEASE_READ) && !file->stale;
	attr = file->base;
	pthread_mutex_unlock(&file->lock);
	return (exact || kr_attr_cache_getattr(mount, &file->fid, &attr, &true_ns)) &&
		kr_cache_may_have(mount->cache, &file->fid, attr.version, 0);
}

/* Whether the file can be opened here: the server would open it for this caller, and its bytes have not changed.  The
 * server knows that the file is open on this node, so a file that is removed meanwhile stays until the node's CLOSE. */
static bool may_open_here(struct open_op *open)
{
	struct kr_file *file = open->file_op.file;
	bool exact;

	if (for_writing(&open->fi) || open->fi.flags & O_TRUNC || file->open.count == 0)
		return false;
	pthread_mutex_lock(&file->lock);
	exact = kr_lease_state_has(&file->holder, KR_LEASE_READ) && !file->stale;
	pthread_mutex_unlock(&file->lock);
	return exact && kr_attr_cache_may_open(file->mount, &open->cred, &file->fid, open->fi.flags & FLAG_EXECUTE);
}

static void step_open(struct kr_op *op)
{
	struct open_op *open = KR_CONTAINER_OF(op, struct open_op, file_op.op);
	struct kr_file *file = open->file_op.file;
	struct kr_open_request msg = {.cred = open->cred,
		.file = file->fid,
		.flags = wire_flags(&open->fi),
		.want = welcome_kinds(&open->fi)};
	const struct kr_mount_options *options = op->mount->options;
	int err = 0;

	if (op->call)
		return;
	if (open->answered) {
		finish_open(open);
		return;
	}
	if (kr_op_given_up(op))
		err = kr_op_given_up(op);
	else if (open->fi.flags & O_TRUNC)
		err = kr_file_before_change(file, &open->file_op.waiter, 0);
	if (err == -EAGAIN) {
		kr_op_waits_for(op, KR_WAIT_FLUSH);
		return;
	}
	if (err) {
		kr_op_reply_err(op, err);
		return;
	}
	file->open.opening++;
	if (may_open_here(open)) {
		open->answered = open->readable = true;
		finish_open(open);
		return;
	}
	open->generation = kr_files_generation(op->mount->files);
	open->stamp = kr_clock_ns();
	if (open->fi.flags & O_NOATIME || options->noatime || options->read_only)
		msg.flags |= OPEN_NOATIME;
	if (has_bytes(file))
		msg.flags |= OPEN_CACHED;
	kr_op_send(op, KR_MSG_OPEN, &msg, 0, on_opened);
}

void kr_op_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct kr_mount *mount = kr_op_mount(req);
	struct kr_file *file;
	struct kr_fid fid;
	struct open_op *op;

	if (ino == KR_INODE_BATCH_FILE) {
		kr_batch_open(req, fi);
		return;
	}
	kr_inode_fid(mount->inodes, ino, &fid);
	file = kr_file_get_or_new(mount, &fid);
	op = kr_file_op_new(sizeof(*op), req, "open", file, step_open);
	if (op) {
		op->fi = *fi;
		kr_op_keep_cred(&op->file_op.op, &op->cred);
		kr_op_post(&op->file_op.op);
	}
	kr_file_put(file);
}

/* --- create ----------------------------------------------------------------------------------- */

static void fini_create(struct kr_op *op)
{
	struct open_op *open = KR_CONTAINER_OF(op, struct open_op, file_op.op);

	kr_file_op_fini(op);
	free(open->name);
}

static void finish_create(struct open_op *open)
{
	struct kr_op *op = &open->file_op.op;
	struct kr_file *file = open->file_op.file;
	struct fuse_file_info fi = open->fi;
	struct fuse_entry_param entry;
	struct kr_handle *handle;
	int err;

	if (!may_finish(open))
		return;
	kr_file_overlay_attr(file, kr_clock_ns(), true, &open->attr);
	handle = new_handle(file, &fi, open->readable);
	err = kr_op_entry(op->mount, &open->parent, open->name, &file->fid, &open->attr, &entry);
	if (err) {
		kr_op_reply_err(op, err);
		kr_handle_release(handle);
		return;
	}
	if (kr_shim_reply_create(kr_op_finish(op), &entry, &fi) < 0) {
		kr_handle_release(handle);
		kr_op_entry_undo(op->mount, &entry);
	}
	kr_op_free(op);
}

static void on_created(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	struct open_op *open = KR_CONTAINER_OF(op, struct open_op, file_op.op);
	const struct kr_create_reply *reply = message;
	struct kr_file *file;

	(void)data;
	if (err) {
		kr_op_reply_err(op, kr_op_error_in(op->mount, &open->parent, err));
		return;
	}
	file = open->file_op.file = kr_file_get_or_new(op->mount, &reply->file);
	file->open.count++;
	file->open.may_keep = true;
	file->open.opening++;
	open->attr = reply->attr;
	if (reply->created)
		open->fi.flags &= ~O_TRUNC;
	open->readable = learn(open, file, reply->granted, &open->attr);
	open->answered = true;
	kr_file_step(file);
	finish_create(open);
}

static void step_create(struct kr_op *op)
{
	struct open_op *open = KR_CONTAINER_OF(op, struct open_op, file_op.op);
	struct kr_create_request msg = {.cred = open->cred,
		.parent = open->parent,
		.name = open->name,
		.mode = open->mode,
		.umask = open->umask,
		.flags = wire_flags(&open->fi),
		.exclusive = (open->fi.flags & O_EXCL) != 0,
		.want = welcome_kinds(&open->fi)};

	if (op->call)
		return;
	if (open->answered) {
		finish_create(open);
		return;
	}
	if (op->interrupted) {
		kr_op_reply_err(op, -EINTR);
		return;
	}
	open->generation = kr_files_generation(op->mount->files);
	open->stamp = kr_clock_ns();
	kr_op_send(op, KR_MSG_CREATE, &msg, 0, on_created);
}

static void create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, const struct fuse_file_info *fi)
{
	struct kr_mount *mount = kr_op_mount(req);
	struct open_op *op = kr_op_new(sizeof(*op), mount, req, "create", step_create);

	if (!op)
		return;
	kr_file_op_init(&op->file_op);
	op->file_op.op.fini = fini_create;
	op->fi = *fi;
	op->mode = mode;
	op->umask = fuse_req_ctx(req)->umask;
	op->name = kr_xstrdup(name);
	kr_op_keep_cred(&op->file_op.op, &op->cred);
	kr_inode_fid(mount->inodes, parent, &op->parent);
	kr_op_post(&op->file_op.op);
}

void kr_op_create(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, struct fuse_file_info *fi)
{
	create(req, parent, name, mode, fi);
}

void kr_op_tmpfile(fuse_req_t req, fuse_ino_t parent, mode_t mode, struct fuse_file_info *fi)
{
	create(req, parent, "", mode, fi);
}

/* Operations on names.  Each is one request that the server answers after it has done it, unless the attribute cache
 * has the answer (attr_cache.h).  The kernel asks for each name each time, unless it has the name on loan
 * (kernel_names.h), so every node sees every change at once.
 * Workers answer from the cache, or encode and post; the loop answers.
 */
#include <errno.h>
#include <stdio.h>
#include <sys/sysmacros.h>

#include "common/base/util.h"
#include "fuse/base/cred.h"
#include "fuse/names/lookup_prefetch.h"
#include "fuse/ops/batch.h"
#include "fuse/readcache/cache.h"
#include "fuse/file/file.h"
#include "fuse/names/attr_cache.h"
#include "fuse/names/kernel_attrs.h"
#include "fuse/names/kernel_names.h"
#include "fuse/ops/op.h"
#include "fuse/readcache/stage.h"

/* An operation that ends with an entry.  The node's own bytes may reach the server between request and reply.  The
 * reply's attributes are then older than those that this node has seen, and the op asks for them again. */
struct entry_op {
	struct kr_op op;
	struct kr_fid parent; /* where the entry is */
	char name[KR_NAME_MAX + 1];
	struct kr_fid file;
	struct kr_attr attr;
	uint64_t stamp;
};

struct lookup_op {
	struct entry_op entry;
	struct kr_cred cred;
	bool waited; /* for a prefetched lookup of that name */
};

/* Answers the LOOKUP of NAME in DIR. */
static void reply_found(fuse_req_t req, const struct kr_fid *dir, const char *name, struct fuse_entry_param *entry)
{
	struct kr_mount *mount = kr_op_mount(req);
	struct kr_fid fid;

	kr_inode_fid(mount->inodes, entry->ino, &fid);
	entry->entry_timeout = kr_kernel_names_lend(mount, dir, name, &fid);
	/* The program was interrupted: the kernel has not learnt of the lookup and will not forget it. */
	if (fuse_reply_entry(req, entry) < 0)
		kr_op_entry_undo(mount, entry);
	if (entry->entry_timeout > 0)
		kr_kernel_names_lent(mount, dir);
}

/* SERVED: the reply is that of a LOOKUP, and the server said this.  Else NULL: the kernel must ask again. */
static void reply_entry(
	struct kr_op *op, const struct kr_fid *fid, const struct kr_attr *attr, const struct kr_attr *served)
{
	struct kr_mount *mount = op->mount;
	const struct entry_op *place = KR_CONTAINER_OF(op, struct entry_op, op);
	struct fuse_entry_param entry;
	int err = kr_op_entry(mount, &place->parent, place->name, fid, attr, &entry);

	if (err < 0) {
		kr_op_reply_err(op, err);
		return;
	}
	kr_op_finish(op);
	if (served) {
		entry.attr_timeout = kr_op_attr_timeout(mount, entry.ino, fid, served);
		reply_found(op->req, &place->parent, place->name, &entry);
	} else if (fuse_reply_entry(op->req, &entry) < 0) {
		kr_op_entry_undo(mount, &entry);
	}
	kr_op_free(op);
}

static void on_attr_again(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	struct entry_op *entry = KR_CONTAINER_OF(op, struct entry_op, op);
	const struct kr_getattr_reply *reply = message;
	struct kr_file *file;

	(void)data;
	if (err < 0) {
		kr_op_reply_err(op, err);
		return;
	}
	entry->attr = reply->attr;
	file = kr_file_find(op->mount, &entry->file);
	if (file) {
		kr_file_overlay_attr(file, entry->stamp, true, &entry->attr);
		kr_file_put(file);
	}
	reply_entry(op, &entry->file, &entry->attr, NULL);
}

/* Answers with an entry.  For a file that is open here, this node's unflushed bytes count in the attributes. */
static void finish_entry(struct kr_op *op, const struct kr_fid *fid, const struct kr_attr *attr, bool lookup)
{
	struct entry_op *entry = KR_CONTAINER_OF(op, struct entry_op, op);
	struct kr_file *file = (attr->mode & S_IFMT) == S_IFREG ? kr_file_find(op->mount, fid) : NULL;

	bool asked_in_time;

	entry->attr = *attr;
	/* If own bytes reached the server after the request was sent, its attributes may be older than those bytes.
	 * Then GETATTR asks for them alone. */
	asked_in_time = !file || kr_file_overlay_attr(file, op->started_ns, false, &entry->attr);
	if (asked_in_time) {
		reply_entry(op, fid, &entry->attr, lookup ? attr : NULL);
	} else {
		struct kr_getattr_request getattr = {.file = *fid};

		entry->file = *fid;
		entry->stamp = kr_clock_ns();
		kr_op_send(op, KR_MSG_GETATTR, &getattr, KR_RPC_READ_ONLY, on_attr_again);
	}
	kr_file_put(file);
}

int kr_op_error_in(struct kr_mount *mount, const struct kr_fid *parent, int err)
{
	uint64_t number = err == -ESTALE ? kr_inode_find(mount->inodes, parent) : 0;
	struct kr_attr attr;

	return number && kr_inode_removed_directory(mount->inodes, number, &attr) ? -ENOENT : err;
}

/* Answers a request about a name with an error. */
static void reply_error_in(struct kr_op *op, int err)
{
	struct entry_op *entry = KR_CONTAINER_OF(op, struct entry_op, op);

	kr_op_reply_err(op, kr_op_error_in(op->mount, &entry->parent, err));
}

static void on_lookup(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	const struct lookup_op *lookup = KR_CONTAINER_OF(op, struct lookup_op, entry.op);
	const struct kr_lookup_reply *reply = message;

	(void)data;
	if (err == 0 || err == -ENOENT)
		kr_lookup_prefetch_asked(op->mount, &lookup->cred, &lookup->entry.parent);
	if (err < 0) {
		reply_error_in(op, err);
		return;
	}
	finish_entry(op, &reply->file, &reply->attr, true);
}

static void on_make(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	const struct kr_make_reply *reply = message;

	(void)data;
	if (err < 0)
		reply_error_in(op, err);
	else
		reply_entry(op, &reply->file, &reply->attr, NULL);
}

static void on_link(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	const struct kr_link_reply *reply = message;

	(void)data;
	if (err < 0)
		kr_op_reply_err(op, err);
	else
		finish_entry(op, &reply->file, &reply->attr, false);
}

static void on_readlink(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	const struct kr_readlink_reply *reply = message;

	(void)data;
	if (err < 0) {
		kr_op_reply_err(op, err);
		return;
	}
	fuse_reply_readlink(kr_op_finish(op), reply->target);
	kr_op_free(op);
}

/* kr_op_request for a request that ends with the entry NAME in PARENT. */
static void ask_entry(fuse_req_t req, const char *op_name, const struct kr_fid *parent, const char *name, uint16_t type,
	const void *msg, unsigned flags,
	void (*on_reply)(struct kr_op *op, int err, const void *reply, struct kr_buf *data))
{
	struct entry_op *op = kr_op_ask(sizeof(*op), req, op_name, type, msg, flags, on_reply);

	if (!op)
		return;
	op->parent = *parent;
	snprintf(op->name, sizeof(op->name), "%s", name);
	kr_op_post(&op->op);
}

/* True if NAME is short enough; else REQ is answered. */
static bool name_fits(fuse_req_t req, const char *name)
{
	if (strlen(name) <= KR_NAME_MAX)
		return true;
	fuse_reply_err(req, ENAMETOOLONG);
	return false;
}

/* --- lookup ----------------------------------------------------------------------------------- */

bool kr_op_entry_cached(struct kr_mount *mount, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, int *ret_err, struct fuse_entry_param *ret_entry)
{
	struct kr_fid fid;
	struct kr_attr attr, served;
	struct kr_file *file;
	uint64_t true_ns;
	bool good;

	if (!kr_attr_cache_lookup(mount, cred, parent, name, ret_err, &fid, &attr, &true_ns))
		return false;
	if (*ret_err)
		return true;
	served = attr;
	file = S_ISREG(attr.mode) ? kr_file_find(mount, &fid) : NULL;
	good = kr_file_overlay_attr(file, true_ns, false, &attr);
	kr_file_put(file);
	if (good)
		*ret_err = kr_op_entry(mount, parent, name, &fid, &attr, ret_entry);
	if (good && !*ret_err)
		ret_entry->attr_timeout = kr_op_attr_timeout(mount, ret_entry->ino, &fid, &served);
	return good;
}

static void reply_cached(fuse_req_t req, const struct kr_lookup_request *msg, int err, struct fuse_entry_param *entry)
{
	if (err)
		fuse_reply_err(req, -err);
	else
		reply_found(req, &msg->parent, msg->name, entry);
}

/* Answers at once from the attribute cache, for CRED (NULL: the caller of REQ). */
static bool lookup_cached(fuse_req_t req, const struct kr_lookup_request *msg, const struct kr_cred *cred)
{
	struct fuse_entry_param entry;
	int err;

	if (!kr_op_entry_cached(kr_op_mount(req), cred, &msg->parent, msg->name, &err, &entry))
		return false;
	reply_cached(req, msg, err, &entry);
	return true;
}

static void step_lookup(struct kr_op *op)
{
	struct lookup_op *lookup = KR_CONTAINER_OF(op, struct lookup_op, entry.op);
	struct kr_lookup_request msg = {
		.cred = lookup->cred, .parent = lookup->entry.parent, .name = lookup->entry.name};
	struct fuse_entry_param entry;
	struct kr_list *list;
	int err;

	if (op->call)
		return;
	if (kr_op_given_up(op)) {
		kr_op_reply_err(op, kr_op_given_up(op));
	} else if (lookup->waited && kr_op_entry_cached(op->mount, &msg.cred, &msg.parent, msg.name, &err, &entry)) {
		reply_cached(kr_op_finish(op), &msg, err, &entry);
		kr_op_free(op);
	} else if (!lookup->waited && (list = kr_lookup_prefetch_ask(op->mount, &msg.cred, &msg.parent, msg.name))) {
		lookup->waited = true;
		kr_waiter_wait(&op->waiter, list);
	} else {
		kr_op_send(op, KR_MSG_LOOKUP, &msg, KR_RPC_READ_ONLY, on_lookup);
	}
}

void kr_op_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	struct kr_lookup_request msg = {.name = name};
	struct lookup_op *op;

	if (parent == FUSE_ROOT_ID && strcmp(name, KR_BATCH_FILE) == 0) {
		kr_batch_lookup(req);
		return;
	}
	if (!name_fits(req, name))
		return;
	kr_inode_fid(kr_op_mount(req)->inodes, parent, &msg.parent);
	if (lookup_cached(req, &msg, NULL))
		return;
	kr_op_cred(req, &msg.cred);
	if (lookup_cached(req, &msg, &msg.cred))
		return;
	op = kr_op_new(sizeof(*op), kr_op_mount(req), req, "lookup", step_lookup);
	if (!op)
		return;
	op->cred = msg.cred;
	op->cred.groups = op->entry.op.groups = kr_cred_copy_groups(&msg.cred);
	op->entry.parent = msg.parent;
	snprintf(op->entry.name, sizeof(op->entry.name), "%s", name);
	kr_op_post(&op->entry.op);
}

void kr_op_forget(fuse_req_t req, fuse_ino_t ino, uint64_t count)
{
	kr_inode_forget(kr_op_mount(req)->inodes, ino, count);
	fuse_reply_none(req);
}

void kr_op_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	for (size_t i = 0; i < count; i++)
		kr_inode_forget(kr_op_mount(req)->inodes, forgets[i].ino, forgets[i].nlookup);
	fuse_reply_none(req);
}

void kr_op_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct kr_readlink_request msg = {0};
	char target[KR_PATH_MAX + 1];

	kr_inode_fid(kr_op_mount(req)->inodes, ino, &msg.file);
	if (kr_attr_cache_readlink(kr_op_mount(req), &msg.file, target)) {
		fuse_reply_readlink(req, target);
		return;
	}
	kr_op_request(req, "readlink", KR_MSG_READLINK, &msg, KR_RPC_READ_ONLY, on_readlink);
}

static void make(fuse_req_t req, const char *op_name, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev,
	const char *target)
{
	struct kr_make_request msg = {.name = name,
		.mode = mode,
		.umask = fuse_req_ctx(req)->umask,
		.rdev_major = major(rdev),
		.rdev_minor = minor(rdev),
		.target = target};

	if (!name_fits(req, name))
		return;
	kr_op_cred(req, &msg.cred);
	kr_inode_fid(kr_op_mount(req)->inodes, parent, &msg.parent);
	ask_entry(req, op_name, &msg.parent, name, KR_MSG_MAKE, &msg, 0, on_make);
}

void kr_op_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t rdev)
{
	make(req, "mknod", parent, name, mode, rdev, "");
}

void kr_op_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	make(req, "mkdir", parent, name, (mode & ~(mode_t)S_IFMT) | S_IFDIR, 0, "");
}

void kr_op_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	if (strlen(target) > KR_PATH_MAX)
		fuse_reply_err(req, ENAMETOOLONG);
	else
		make(req, "symlink", parent, name, S_IFLNK | 0777, 0, target);
}

void kr_op_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent, const char *name)
{
	struct kr_link_request msg = {.name = name};

	if (!name_fits(req, name))
		return;
	kr_op_cred(req, &msg.cred);
	kr_inode_fid(kr_op_mount(req)->inodes, ino, &msg.file);
	kr_inode_fid(kr_op_mount(req)->inodes, parent, &msg.parent);
	ask_entry(req, "link", &msg.parent, name, KR_MSG_LINK, &msg, 0, on_link);
}

/* A request that takes a name away. */
struct removal_op {
	struct kr_op op;
	struct kr_fid victim; /* length 0: none, or not known */
	uint64_t version;
	int err;
	struct kr_kernel_attrs_waiter settled;
};

static void reply_removed(struct kr_kernel_attrs_waiter *waiter)
{
	struct removal_op *removal = KR_CONTAINER_OF(waiter, struct removal_op, settled);

	fuse_reply_err(removal->op.req, -removal->err);
	kr_op_free(&removal->op);
}

/* This node has just removed the file, so its cached blocks are of no use.  A node that has the file open or has read
 * it learns of its end by RECALL.  Blocks cached before that, or by an earlier mount, go now.
 * The files that the names stood for have changed.  INVALIDATE has told so before the reply: the kernel drops their
 * attributes before the program goes on. */
static void on_removed(struct kr_op *op, int err, const void *message, struct kr_buf *data)
{
	struct removal_op *removal = KR_CONTAINER_OF(op, struct removal_op, op);
	struct kr_file *file = NULL;

	(void)message, (void)data;
	if (!err && removal->victim.length && !(file = kr_file_find(op->mount, &removal->victim))) {
		kr_cache_abandon(op->mount->cache, &removal->victim, removal->version);
		kr_stage_evict(op->mount);
	}
	kr_file_put(file);
	kr_op_finish(op);
	removal->err = err;
	removal->settled.fn = reply_removed;
	kr_kernel_attrs_settle(op->mount, &removal->settled);
}

/* Posts the request; afterwards NAME in PARENT (NULL: no name) does not name its file any more. */
static void ask_removal(fuse_req_t req, const char *op_name, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, uint16_t type, const void *msg)
{
	struct removal_op *removal = kr_op_ask(sizeof(*removal), req, op_name, type, msg, 0, on_removed);
	struct kr_attr attr;
	struct kr_fid fid;

	if (!removal)
		return;
	if (name && kr_attr_cache_find(removal->op.mount, cred, parent, name, &fid, &attr) && S_ISREG(attr.mode) &&
		attr.nlink == 1) {
		removal->victim = fid;
		removal->version = attr.version;
	}
	kr_op_post(&removal->op);
}

static void remove_name(fuse_req_t req, const char *op_name, fuse_ino_t parent, const char *name, bool directory)
{
	struct kr_remove_request msg = {.name = name, .directory = directory};

	if (!name_fits(req, name))
		return;
	kr_op_cred(req, &msg.cred);
	kr_inode_fid(kr_op_mount(req)->inodes, parent, &msg.parent);
	ask_removal(req, op_name, &msg.cred, &msg.parent, name, KR_MSG_REMOVE, &msg);
}

void kr_op_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, "unlink", parent, name, false);
}

void kr_op_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_name(req, "rmdir", parent, name, true);
}

void kr_op_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent, const char *new_name,
	unsigned flags)
{
	struct kr_rename_request msg = {.name = name, .new_name = new_name, .flags = flags};

	if (!name_fits(req, name) || !name_fits(req, new_name))
		return;
	kr_op_cred(req, &msg.cred);
	kr_inode_fid(kr_op_mount(req)->inodes, parent, &msg.parent);
	kr_inode_fid(kr_op_mount(req)->inodes, new_parent, &msg.new_parent);
	if (flags)
		ask_removal(req, "rename", &msg.cred, NULL, NULL, KR_MSG_RENAME, &msg);
	else
		ask_removal(req, "rename", &msg.cred, &msg.new_parent, new_name, KR_MSG_RENAME, &msg);
}

/* Names in a view: lookups, and what makes, removes and moves names. */
#include "fuse/view/view_priv.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "fuse/view/as_caller.h"

static void reply_entry(
	struct kr_view *view, fuse_req_t req, struct kr_view_inode *parent, const char *name, bool fresh)
{
	struct fuse_entry_param entry = {.entry_timeout = KR_VIEW_FOREVER};
	struct kr_view_inode *inode;
	struct stat stat;

	if (fstatat(parent->fd, name, &stat, AT_SYMLINK_NOFOLLOW) < 0) {
		if (errno == ENOENT && !fresh) /* the kernel keeps that, too */
			fuse_reply_entry(req, &entry);
		else
			fuse_reply_err(req, kr_view_error(errno));
		return;
	}
	inode = kr_view_inode_found(view->inodes, parent, name, &stat, fresh);
	kr_view_entry(view, inode, &stat, &entry);
	if (fuse_reply_entry(req, &entry) == -ENOENT) /* the caller was interrupted: no FORGET comes */
		kr_view_inode_forget(view->inodes, inode, 1);
}

struct kr_view_inode *kr_view_enter(fuse_req_t req, fuse_ino_t ino)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_inode *inode = kr_view_inode(view->inodes, ino);
	int fd = kr_view_inode_get(view->inodes, inode);

	if (fd >= 0)
		return inode;
	fuse_reply_err(req, -fd);
	return NULL;
}

void kr_view_lookup(fuse_req_t req, fuse_ino_t parent_ino, const char *name)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_inode *parent = kr_view_enter(req, parent_ino);

	if (!parent)
		return;
	reply_entry(view, req, parent, name, false);
	kr_view_inode_put(view->inodes, parent);
}

void kr_view_forget(fuse_req_t req, fuse_ino_t ino, uint64_t lookups)
{
	struct kr_view *view = kr_view_of(req);

	kr_view_inode_forget(view->inodes, kr_view_inode(view->inodes, ino), lookups);
	fuse_reply_none(req);
}

void kr_view_forget_multi(fuse_req_t req, size_t count, struct fuse_forget_data *forgets)
{
	struct kr_view *view = kr_view_of(req);

	for (size_t i = 0; i < count; i++)
		kr_view_inode_forget(view->inodes, kr_view_inode(view->inodes, forgets[i].ino), forgets[i].nlookup);
	fuse_reply_none(req);
}

/* --- making ----------------------------------------------------------------------------------- */

static bool add_inode(struct kr_view *view)
{
	KR_SCOPED_LOCK(kr_view_inodes_lock(view->inodes));
	return kr_space_room(&view->space) >= KR_SPACE_BLOCK && kr_space_add_inode(&view->space);
}

static bool admit_inode(struct kr_view *view)
{
	unsigned tries = 0;

	while (!add_inode(view))
		if (!kr_view_wait_for_space(view, &tries))
			return false;
	return true;
}

static bool has_block(struct kr_view *view)
{
	KR_SCOPED_LOCK(kr_view_inodes_lock(view->inodes));
	return kr_space_room(&view->space) >= KR_SPACE_BLOCK;
}

bool kr_view_admit_block(struct kr_view *view)
{
	unsigned tries = 0;

	while (!has_block(view))
		if (!kr_view_wait_for_space(view, &tries))
			return false;
	return true;
}

void kr_view_dismiss_inode(struct kr_view *view)
{
	KR_SCOPED_LOCK(kr_view_inodes_lock(view->inodes));
	kr_space_drop_inode(&view->space);
}

struct kr_view_inode *kr_view_enter_to_make(fuse_req_t req, fuse_ino_t parent_ino)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_inode *parent;

	if (!admit_inode(view)) {
		fuse_reply_err(req, ENOSPC);
		return NULL;
	}
	parent = kr_view_enter(req, parent_ino);
	if (!parent)
		kr_view_dismiss_inode(view);
	return parent;
}

enum kind { NODE, DIRECTORY, SYMLINK };

static int make(int directory, enum kind kind, const char *name, mode_t mode, dev_t device, const char *target)
{
	int result;

	if (kind == DIRECTORY)
		result = mkdirat(directory, name, mode);
	else if (kind == SYMLINK)
		result = symlinkat(target, directory, name);
	else
		result = mknodat(directory, name, mode, device);
	return result < 0 ? errno : 0;
}

static void make_and_reply(fuse_req_t req, fuse_ino_t parent_ino, enum kind kind, const char *name, mode_t mode,
	dev_t device, const char *target)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_inode *parent = kr_view_enter_to_make(req, parent_ino);
	int err;

	if (!parent)
		return;
	kr_as_caller(req);
	err = make(parent->fd, kind, name, mode, device, target);
	kr_as_daemon();
	if (err) {
		kr_view_dismiss_inode(view);
		fuse_reply_err(req, kr_view_error(err));
	} else {
		kr_view_settle(view, parent, parent->fd);
		reply_entry(view, req, parent, name, true);
	}
	kr_view_inode_put(view->inodes, parent);
}

void kr_view_mknod(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode, dev_t device)
{
	make_and_reply(req, parent, NODE, name, mode, device, NULL);
}

void kr_view_mkdir(fuse_req_t req, fuse_ino_t parent, const char *name, mode_t mode)
{
	make_and_reply(req, parent, DIRECTORY, name, mode, 0, NULL);
}

void kr_view_symlink(fuse_req_t req, const char *target, fuse_ino_t parent, const char *name)
{
	make_and_reply(req, parent, SYMLINK, name, 0, 0, target);
}

void kr_view_link(fuse_req_t req, fuse_ino_t ino, fuse_ino_t parent_ino, const char *name)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_inode *inode = kr_view_enter(req, ino), *parent;

	if (!inode)
		return;
	parent = kr_view_enter(req, parent_ino);
	if (parent && !kr_view_admit_block(view)) {
		fuse_reply_err(req, ENOSPC);
	} else if (parent && linkat(AT_FDCWD, kr_fd_path(inode->fd).text, parent->fd, name, AT_SYMLINK_FOLLOW) < 0) {
		fuse_reply_err(req, kr_view_error(errno));
	} else if (parent) {
		kr_view_inode_linked(view->inodes, inode);
		kr_view_settle(view, parent, parent->fd);
		reply_entry(view, req, parent, name, false);
	}
	if (parent)
		kr_view_inode_put(view->inodes, parent);
	kr_view_inode_put(view->inodes, inode);
}

/* --- removing and moving ------------------------------------------------------------------------ */

static void remove_and_reply(fuse_req_t req, fuse_ino_t parent_ino, const char *name, int flags)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_inode *parent = kr_view_enter(req, parent_ino), *inode;
	int err;

	if (!parent)
		return;
	err = -kr_view_inode_take(view->inodes, parent, name, &inode);
	if (!err)
		err = unlinkat(parent->fd, name, flags) < 0 ? errno : 0;
	if (!err)
		kr_view_settle(view, parent, parent->fd);
	if (!err && inode)
		kr_view_inode_unnamed(view->inodes, inode, parent, name);
	if (inode)
		kr_view_inode_put(view->inodes, inode);
	fuse_reply_err(req, kr_view_error(err));
	kr_view_inode_put(view->inodes, parent);
}

void kr_view_unlink(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_and_reply(req, parent, name, 0);
}

void kr_view_rmdir(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	remove_and_reply(req, parent, name, AT_REMOVEDIR);
}

struct move {
	struct kr_view_inode *parent, *new_parent, *inode, *target;
	const char *name, *new_name;
	unsigned flags;
};

static int move(struct kr_view *view, const struct move *move)
{
	if (!move->target && !kr_view_admit_block(view)) /* a new name may want one */
		return ENOSPC;
	if (renameat2(move->parent->fd, move->name, move->new_parent->fd, move->new_name, move->flags) < 0)
		return errno;
	kr_view_settle(view, move->parent, move->parent->fd);
	kr_view_settle(view, move->new_parent, move->new_parent->fd);
	if (move->inode == move->target) /* two names of one file: both stay */
		return 0;
	if (move->target && move->flags & RENAME_EXCHANGE)
		kr_view_inode_renamed(
			view->inodes, move->target, move->new_parent, move->new_name, move->parent, move->name);
	else if (move->target)
		kr_view_inode_unnamed(view->inodes, move->target, move->new_parent, move->new_name);
	if (move->inode)
		kr_view_inode_renamed(
			view->inodes, move->inode, move->parent, move->name, move->new_parent, move->new_name);
	return 0;
}

void kr_view_rename(fuse_req_t req, fuse_ino_t parent, const char *name, fuse_ino_t new_parent, const char *new_name,
	unsigned flags)
{
	struct kr_view *view = kr_view_of(req);
	struct move to = {.name = name, .new_name = new_name, .flags = flags};
	int err;

	to.parent = kr_view_enter(req, parent);
	if (!to.parent)
		return;
	to.new_parent = kr_view_enter(req, new_parent);
	if (to.new_parent) {
		err = -kr_view_inode_take(view->inodes, to.parent, name, &to.inode);
		if (!err)
			err = -kr_view_inode_take(view->inodes, to.new_parent, new_name, &to.target);
		if (!err)
			err = move(view, &to);
		fuse_reply_err(req, kr_view_error(err));
		if (to.inode)
			kr_view_inode_put(view->inodes, to.inode);
		if (to.target)
			kr_view_inode_put(view->inodes, to.target);
		kr_view_inode_put(view->inodes, to.new_parent);
	}
	kr_view_inode_put(view->inodes, to.parent);
}

void kr_view_readlink(fuse_req_t req, fuse_ino_t ino)
{
	struct kr_view *view = kr_view_of(req);
	struct kr_view_inode *inode = kr_view_enter(req, ino);
	char target[PATH_MAX + 1];
	ssize_t length;

	if (!inode)
		return;
	length = readlinkat(inode->fd, "", target, sizeof(target) - 1);
	if (length < 0) {
		fuse_reply_err(req, kr_view_error(errno));
	} else {
		target[length] = '\0';
		fuse_reply_readlink(req, target);
	}
	kr_view_inode_put(view->inodes, inode);
}

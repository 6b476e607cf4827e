/* New names: mkdir, mknod, symlink, link, create. The kernel makes files as the caller, so it decides about owner,
 * set-gid directories, default ACLs and quotas. */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "server/export/export_priv.h"
#include "server/base/fid.h"
#include "server/export/intent.h"

/* How often a name may vanish and return before a create gives up. */
enum { CREATE_TRIES = 100 };

/* -EEXIST changes nothing. */
static void begin_intent(int dirfd, const struct kr_intent_change *change)
{
	struct stat there;

	if (fstatat(dirfd, change->name, &there, AT_SYMLINK_NOFOLLOW) < 0)
		kr_intent_begin(change);
}

static int make_at(int dirfd, const struct kr_make *make)
{
	switch (make->mode & S_IFMT) {
	case S_IFDIR:
		return mkdirat(dirfd, make->name, make->mode & 07777);
	case S_IFLNK:
		return symlinkat(make->target, dirfd, make->name);
	default:
		return mknodat(dirfd, make->name, make->mode, makedev(make->rdev_major, make->rdev_minor));
	}
}

static int make_as(struct kr_export *export, const struct kr_cred *cred, int dirfd, const struct kr_make *make)
{
	KR_AS as = {0};
	int r;

	r = kr_cred_enter(&as, export->callers_ids, cred);
	if (r < 0)
		return r;
	kr_cred_umask(&as, make->umask);
	return make_at(dirfd, make) < 0 ? kr_fail_errno(-errno, "making '%s'", make->name) : 0;
}

int kr_export_make(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *parent,
	const struct kr_make *make, struct kr_fid *ret_fid, struct kr_attr *ret_attr)
{
	struct kr_intent_change change = {.kind = KR_INTENT_MAKE,
		.parent = parent,
		.name = make->name,
		.type = make->mode & S_IFMT ? make->mode & S_IFMT : S_IFREG};
	KR_AUTO_ENTRY dir = KR_NO_ENTRY;
	int made, r;

	r = kr_entry_check(export, parent, make->name, -EPERM);
	if (r == 0)
		r = kr_export_writable(export);
	if (r == 0)
		r = kr_entry_get_dir(export, parent, &dir);
	if (r < 0)
		return r;
	KR_SCOPED_LOCK(kr_export_lock_of(export, parent));
	begin_intent(dir.fd, &change);
	made = make_as(export, cred, dir.fd, make);
	r = made;
	if (r == 0)
		r = kr_entry_meet(export, dir.fd, parent, make->name, ret_fid, ret_attr);
	kr_intent_end(made, r ? 0 : kr_fid_hash(ret_fid));
	return kr_entry_error_in(&dir, r);
}

static int link_as(struct kr_export *export, const struct kr_cred *cred, int fd, int dirfd, const char *name)
{
	struct kr_proc_name proc = kr_entry_proc_name(fd);
	KR_AS as = {0};
	int r;

	r = kr_cred_enter(&as, export->callers_ids, cred);
	if (r < 0)
		return r;
	r = linkat(export->proc_fd, proc.text, dirfd, name, AT_SYMLINK_FOLLOW);
	return r < 0 ? kr_fail_errno(-errno, "linking to '%s'", name) : 0;
}

int kr_export_link(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid,
	const struct kr_fid *parent, const char *name, struct kr_attr *ret_attr)
{
	struct kr_intent_change change = {
		.kind = KR_INTENT_LINK, .parent = parent, .name = name, .other = kr_fid_hash(fid)};
	KR_AUTO_FD int dirfd = -1;
	KR_AUTO_FD int fd = -1;
	bool orphan, nameable = false;
	struct kr_attr attr;
	struct kr_fid same;
	int r;

	r = kr_entry_check(export, parent, name, -EPERM);
	if (r == 0)
		r = kr_export_writable(export);
	if (r == 0)
		r = kr_entry_open(export, fid, &fd);
	if (r == 0)
		r = kr_entry_open(export, parent, &dirfd);
	if (r == 0)
		r = kr_entry_attr(export, fd, fid, &attr);
	if (r < 0)
		return r;
	KR_SCOPED_LOCK(kr_export_lock_of(export, parent));
	orphan = kr_orphans_find(export->orphans, fid, &nameable);
	if (orphan && !nameable && attr.nlink == 0)
		return kr_fail_errno(-ENOENT, "linking to a file that has been removed");
	begin_intent(dirfd, &change);
	r = link_as(export, cred, fd, dirfd, name);
	kr_intent_end(r, 0);
	if (r == 0 && nameable)
		r = kr_orphans_named(export->orphans, fid);
	if (r == 0)
		r = kr_entry_identify(export, fd, parent, name, &same);
	return r < 0 ? r : kr_entry_attr(export, fd, fid, ret_attr);
}

/* --- create ----------------------------------------------------------------------------------- */

/* Makes the file as the caller; *RET_FD is open for writing. Returns a plain -errno. */
static int create_as(
	struct kr_export *export, const struct kr_cred *cred, int dirfd, const struct kr_create *create, int *ret_fd)
{
	bool unnamed = create->name[0] == 0;
	KR_AS as = {0};
	int fd, r;

	r = kr_cred_enter(&as, export->callers_ids, cred);
	if (r < 0)
		return r;
	kr_cred_umask(&as, create->umask);
	fd = openat(dirfd, unnamed ? "." : create->name,
		(unnamed ? O_TMPFILE | O_RDWR : O_CREAT | O_EXCL | O_WRONLY) | O_NOFOLLOW | O_CLOEXEC | O_NOCTTY,
		create->mode & 07777);
	if (fd < 0)
		return kr_fail_errno(-errno, "creating '%s'", create->name);
	*ret_fd = fd;
	return 0;
}

/* The truncation comes later, after the recall of leases. */
static int may_truncate(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid)
{
	int r = kr_export_writable(export);

	return r < 0 || !cred || !export->callers_ids ? r : kr_export_access(export, cred, fid, W_OK);
}

/* The result of open(2) with O_CREAT for an existing name. */
static int open_existing(struct kr_export *export, const struct kr_cred *cred, int dirfd, const struct kr_fid *parent,
	const struct kr_create *create, struct kr_fid *ret_fid, struct kr_attr *ret_attr)
{
	struct kr_attr attr;
	struct kr_fid fid;
	int r;

	r = kr_entry_meet(export, dirfd, parent, create->name, &fid, &attr);
	if (r < 0)
		return r;
	if (S_ISLNK(attr.mode))
		return kr_fail_errno(-ELOOP, "creating '%s'", create->name);
	if (S_ISDIR(attr.mode))
		return kr_fail_errno(-EISDIR, "creating '%s'", create->name);
	if (create->unchecked && cred && attr.uid == cred->uid)
		cred = NULL;
	if (create->flags & KR_OPEN_TRUNC)
		r = may_truncate(export, cred, &fid);
	if (r == 0)
		r = kr_export_open(export, cred, &fid, create->flags & ~(uint32_t)KR_OPEN_TRUNC, ret_attr);
	if (r == 0)
		*ret_fid = fid;
	return r;
}

static int hold_new(struct kr_export *export, int fd, const char *temporary, const struct kr_fid *parent,
	const struct kr_create *create, struct kr_fid *ret_fid, struct kr_attr *ret_attr)
{
	bool unnamed = create->name[0] == 0;
	struct kr_fid fid;
	int r;

	/* The directory is locked: the server removes nothing in between. */
	r = kr_entry_identify(export, fd, unnamed ? NULL : parent, create->name, &fid);
	if (r == 0 && unnamed)
		r = kr_orphans_adopt(export->orphans, &fid, fd, temporary);
	else if (r == 0)
		kr_orphans_hold(export->orphans, &fid, 1);
	if (r < 0)
		return r;
	r = kr_entry_attr(export, fd, &fid, ret_attr);
	if (r < 0)
		kr_orphans_release(export->orphans, &fid, 1);
	else
		*ret_fid = fid;
	if (r == 0 && !unnamed)
		kr_export_pin(export, &fid);
	return r;
}

/* A new file is written to next, as a rule. */
static void keep_open(struct kr_export *export, const struct kr_fid *fid, int *fd)
{
	kr_fd_cache_put(export->fds, kr_fd_cache_add(export->fds, fid, KR_FD_CACHE_WRITE, *fd));
	*fd = -1;
}

static int create_or_open(struct kr_export *export, const struct kr_cred *cred, int dirfd, const struct kr_fid *parent,
	const struct kr_create *create, bool *ret_created, struct kr_fid *ret_fid, struct kr_attr *ret_attr)
{
	struct kr_intent_change change = {
		.kind = KR_INTENT_MAKE, .parent = parent, .name = create->name, .type = S_IFREG};
	char temporary[KR_ORPHAN_NAME_SIZE] = "";
	KR_AUTO_FD int fd = -1;
	int r;
	KR_SCOPED_LOCK(kr_export_lock_of(export, parent));

	*ret_created = false;
	r = kr_export_writable(export);
	if (r == -EROFS && create->name[0] && !create->exclusive) {
		r = open_existing(export, cred, dirfd, parent, create, ret_fid, ret_attr);
		return r == -ENOENT ? kr_export_writable(export) : r;
	}
	if (r == 0) {
		begin_intent(dirfd, &change);
		r = create_as(export, cred, dirfd, create, &fd);
		if (r == -EOPNOTSUPP && !create->name[0])
			r = kr_orphans_make(export->orphans, temporary, &fd);
		*ret_created = r == 0;
		if (r == 0)
			r = hold_new(export, fd, temporary, parent, create, ret_fid, ret_attr);
		kr_intent_end(*ret_created ? 0 : r, r ? 0 : kr_fid_hash(ret_fid));
		if (r == 0)
			keep_open(export, ret_fid, &fd);
	}
	if (r == -EEXIST && !create->exclusive && !*ret_created)
		r = open_existing(export, cred, dirfd, parent, create, ret_fid, ret_attr);
	return r;
}

int kr_export_create(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *parent,
	const struct kr_create *create, bool *ret_created, struct kr_fid *ret_fid, struct kr_attr *ret_attr)
{
	KR_AUTO_ENTRY dir = KR_NO_ENTRY;
	struct kr_attr attr;
	bool created;
	int tries = 0, r = 0;

	if (create->name[0])
		r = kr_entry_check(export, parent, create->name, -EPERM);
	if (r == 0)
		r = kr_entry_get_dir(export, parent, &dir);
	if (r < 0)
		return r;
	/* A name that is removed between two steps: tries again, unless the directory is gone. */
	do {
		r = create_or_open(export, cred, dir.fd, parent, create, &created, ret_fid, &attr);
	} while ((r == -ENOENT || r == -ESTALE) && !create->exclusive && create->name[0] && ++tries < CREATE_TRIES &&
		kr_export_getattr(export, parent, &attr) == 0);
	if (r < 0)
		return kr_entry_error_in(&dir, r);
	*ret_created = created;
	*ret_attr = attr;
	return 0;
}

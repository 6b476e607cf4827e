/* Finding and looking at files: walk, lookup, getattr, readlink, statfs, access. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "server/export/export_priv.h"

int kr_export_lookup(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, struct kr_fid *ret_fid, struct kr_attr *ret_attr)
{
	KR_AUTO_FD int dirfd = -1;
	KR_AS as = {0};
	int r;

	r = kr_entry_check(export, parent, name, -ENOENT);
	if (r == 0)
		r = kr_entry_open(export, parent, &dirfd);
	if (r == 0)
		r = kr_cred_enter(&as, export->callers_ids, cred);
	return r < 0 ? r : kr_entry_meet(export, dirfd, parent, name, ret_fid, ret_attr);
}

/* As many at a time as the descriptor cache holds. */
enum { LOOKED_AT_ONCE = 16 };

/* Looks NAMES up as the caller. The server itself finds out which lack xattrs, with FDS, which the caller closes. */
static int look_up(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *parent, int dirfd,
	const char *const *names, size_t count, struct kr_looked *looked, int *fds)
{
	KR_AS as = {0};
	int r = kr_cred_enter(&as, export->callers_ids, cred);

	for (size_t i = 0; r == 0 && i < count; i++) {
		struct kr_looked *one = &looked[i];

		one->err = kr_entry_check(export, parent, names[i], -ENOENT);
		if (one->err == 0)
			one->err = kr_entry_child(dirfd, names[i], &fds[i]);
		if (one->err == 0)
			one->err = kr_entry_identify(export, fds[i], parent, names[i], &one->fid);
		if (one->err == 0)
			one->err = kr_entry_attr(export, fds[i], &one->fid, &one->attr);
	}
	return r;
}

int kr_export_lookup_many(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *const *names, size_t count, struct kr_looked *looked)
{
	KR_AUTO_FD int dirfd = -1;
	int fds[LOOKED_AT_ONCE];
	int r = kr_entry_open(export, parent, &dirfd);

	for (size_t done = 0, some; r == 0 && done < count; done += some) {
		some = KR_MIN(count - done, (size_t)LOOKED_AT_ONCE);
		for (size_t i = 0; i < some; i++)
			fds[i] = -1;
		r = look_up(export, cred, parent, dirfd, names + done, some, looked + done, fds);
		for (size_t i = 0; i < some; i++) {
			looked[done + i].bare = r == 0 && looked[done + i].err == 0 && kr_entry_bare(export, fds[i]);
			if (fds[i] >= 0)
				close(fds[i]);
		}
	}
	return r;
}

int kr_export_getattr(struct kr_export *export, const struct kr_fid *fid, struct kr_attr *ret_attr)
{
	KR_AUTO_ENTRY entry = KR_NO_ENTRY;
	int r = kr_entry_get(export, fid, &entry);

	return r < 0 ? r : kr_entry_attr(export, entry.fd, fid, ret_attr);
}

/* True also where that cannot be seen. */
static bool folds(const struct kr_entry *dir)
{
	int flags = 0;

	return ioctl(dir->fd, FS_IOC_GETFLAGS, &flags) < 0 || flags & FS_CASEFOLD_FL;
}

int kr_export_look_at_dir(struct kr_export *export, const struct kr_fid *fid, struct kr_attr *ret_attr, bool *ret_folds)
{
	KR_AUTO_ENTRY dir = KR_NO_ENTRY;
	int r = kr_entry_get_dir(export, fid, &dir);

	if (r == 0 && ret_attr)
		r = kr_entry_attr(export, dir.fd, fid, ret_attr);
	if (r == 0)
		*ret_folds = folds(&dir);
	return r;
}

/* Steps from *FID to the first component of SUBDIR; returns the rest. */
static int walk_one(struct kr_export *export, const struct kr_cred *cred, const char **subdir, struct kr_fid *fid,
	struct kr_attr *attr)
{
	size_t length = strcspn(*subdir, "/");
	char name[KR_NAME_MAX + 1];

	if (length > KR_NAME_MAX)
		return kr_fail(-ENAMETOOLONG, "a name of %zu bytes", length);
	memcpy(name, *subdir, length);
	name[length] = 0;
	*subdir += length;
	return kr_export_lookup(export, cred, fid, name, fid, attr);
}

int kr_export_walk(struct kr_export *export, const struct kr_cred *cred, const char *subdir, struct kr_fid *ret_fid,
	struct kr_attr *ret_attr)
{
	struct kr_fid fid = export->root;
	const char *rest = subdir;
	struct kr_attr attr;
	int r;

	r = kr_export_getattr(export, &fid, &attr);
	for (rest += strspn(rest, "/"); r == 0 && *rest; rest += strspn(rest, "/"))
		r = walk_one(export, cred, &rest, &fid, &attr);
	if (r < 0)
		return r;
	if (!S_ISDIR(attr.mode))
		return kr_fail(-ENOTDIR, "'%s' is not a directory of the export", subdir);
	*ret_fid = fid;
	*ret_attr = attr;
	return 0;
}

int kr_export_readlink(struct kr_export *export, const struct kr_fid *fid, char *target)
{
	KR_AUTO_FD int fd = -1;
	struct stat st;
	ssize_t length;
	int r;

	r = kr_entry_open(export, fid, &fd);
	if (r < 0)
		return r;
	if (fstatat(fd, "", &st, AT_EMPTY_PATH) < 0)
		return kr_fail_errno(-errno, "looking at a symbolic link");
	if (!S_ISLNK(st.st_mode))
		return kr_fail(-EINVAL, "not a symbolic link");
	length = readlinkat(fd, "", target, KR_PATH_MAX + 1);
	if (length < 0)
		return kr_fail_errno(-errno, "reading a symbolic link");
	if (length > KR_PATH_MAX)
		return kr_fail(-ENAMETOOLONG, "a symbolic link to more than %d bytes", KR_PATH_MAX);
	target[length] = 0;
	return 0;
}

int kr_export_statfs(struct kr_export *export, const struct kr_fid *fid, struct kr_statfs *ret_statfs)
{
	KR_AUTO_FD int fd = -1;
	struct statfs fs;
	int r;

	r = kr_entry_open(export, fid, &fd);
	if (r < 0)
		return r;
	if (fstatfs(fd, &fs) < 0)
		return kr_fail_errno(-errno, "asking for the filesystem's space");
	*ret_statfs = (struct kr_statfs){
		.blocks = fs.f_blocks,
		.bfree = fs.f_bfree,
		.bavail = fs.f_bavail,
		.files = fs.f_files,
		.ffree = fs.f_ffree,
		.bsize = (uint32_t)fs.f_bsize,
		.frsize = (uint32_t)(fs.f_frsize ? fs.f_frsize : fs.f_bsize),
		.namelen = (uint32_t)KR_MIN(fs.f_namelen, KR_NAME_MAX),
	};
	return 0;
}

/* faccessat(2) with the thread's effective identity; faccessat2 came with Linux 5.8, and glibc's emulation is wrong. */
static int check_access(int fd, uint32_t mask)
{
	return syscall(SYS_faccessat2, fd, "", (int)mask, AT_EMPTY_PATH | AT_EACCESS) < 0 ? -errno : 0;
}

int kr_export_may(struct kr_export *export, const struct kr_cred *cred, int fd, uint32_t mask)
{
	KR_AS as = {0};
	int r;

	if (!cred || !export->callers_ids)
		return 0;
	r = kr_cred_enter(&as, true, cred);
	if (r == 0)
		r = check_access(fd, mask);
	return r < 0 ? kr_fail_errno(r, "access %u by user %u", mask, cred->uid) : 0;
}

int kr_export_access(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, uint32_t mask)
{
	KR_AUTO_FD int fd = -1;
	KR_AS as = {0};
	int r;

	if (mask & ~(uint32_t)(R_OK | W_OK | X_OK))
		return kr_fail_errno(-EINVAL, "asking for access");
	r = mask & W_OK ? kr_export_writable(export) : 0;
	if (r == 0)
		r = kr_entry_open(export, fid, &fd);
	if (r == 0)
		r = kr_cred_enter(&as, export->callers_ids, cred);
	if (r == 0)
		r = check_access(fd, mask);
	return r < 0 ? kr_fail_errno(r, "access %u", mask) : 0;
}

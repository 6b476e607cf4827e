/* Extended attributes, POSIX ACLs among them, as the caller.  By paths below /proc, because their calls take no O_PATH
 * descriptors. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "common/base/util.h"
#include "server/export/export_priv.h"

/* The label that this machine's SELinux gives a file.  It belongs to this machine's policy, as on other network
 * filesystems: nodes neither see nor set it. */
#define LABEL "security.selinux"

/* Opens FID and takes on CRED. */
static int begin(
	struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, int *ret_fd, struct kr_as *as)
{
	int r = kr_entry_open(export, fid, ret_fd);

	return r < 0 ? r : kr_cred_enter(as, export->callers_ids, cred);
}

static int end_read(ssize_t length, const char *what, size_t *ret_length)
{
	if (length < 0)
		return kr_fail_errno(-errno, "extended attribute %s", what);
	*ret_length = (size_t)length;
	return 0;
}

int kr_export_getxattr(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, const char *name,
	void *value, size_t size, size_t *ret_length)
{
	KR_AUTO_FD int fd = -1;
	KR_AS as = {0};
	int r;

	if (strcmp(name, LABEL) == 0)
		return -EOPNOTSUPP;
	r = begin(export, cred, fid, &fd, &as);
	return r < 0 ?
		r :
		end_read(getxattr(kr_fd_path(fd).text, name, value, KR_MIN(size, KR_XATTR_MAX)), name, ret_length);
}

/* Takes the label out of NAMES of LENGTH.  Returns the length without it. */
static size_t without_label(char *names, size_t length)
{
	for (size_t at = 0, size; at < length; at += size) {
		size = strlen(names + at) + 1;
		if (strcmp(names + at, LABEL) != 0)
			continue;
		memmove(names + at, names + at + size, length - at - size);
		return length - size;
	}
	return length;
}

int kr_export_listxattr(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, void *names,
	size_t size, size_t *ret_length)
{
	KR_AUTO_FREE char *all = kr_xmalloc(KR_XATTR_MAX);
	KR_AUTO_FD int fd = -1;
	KR_AS as = {0};
	int r = begin(export, cred, fid, &fd, &as);

	if (r == 0)
		r = end_read(listxattr(kr_fd_path(fd).text, all, KR_XATTR_MAX), "names", ret_length);
	if (r < 0)
		return r;
	*ret_length = without_label(all, *ret_length);
	if (size == 0)
		return 0;
	if (*ret_length > size)
		return -ERANGE;
	memcpy(names, all, *ret_length);
	return 0;
}

/* The client's error for ERROR (an errno). Root may set all attributes on a local disk. This server has given up
 * CAP_SYS_ADMIN, so it answers as a filesystem without such attributes: cp, rsync and tar go on after that. */
static int error_for(const struct kr_cred *cred, const char *name, int error)
{
	bool kind = strncmp(name, "trusted.", 8) == 0 || strncmp(name, "security.", 9) == 0;

	return error == EPERM && kind && (!cred || cred->uid == 0) ? -EOPNOTSUPP : -error;
}

/* Linux before 6.10 with the BPF security module (Debian 12's kernel) lets all users change security attributes. */
static int check_caller(const struct kr_cred *cred, const char *name)
{
	return cred && cred->uid != 0 && strncmp(name, "security.", 9) == 0 ?
		kr_fail_errno(-EPERM, "extended attribute %s for user %u", name, cred->uid) :
		0;
}

int kr_export_setxattr(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, const char *name,
	const void *value, size_t size, uint32_t flags)
{
	KR_AUTO_FD int fd = -1;
	KR_AS as = {0};
	int r;

	if (strcmp(name, LABEL) == 0)
		return -EOPNOTSUPP;
	if (size > KR_XATTR_MAX)
		return kr_fail_errno(-E2BIG, "extended attribute %s of %zu bytes", name, size);
	r = kr_export_writable(export);
	if (r == 0)
		r = begin(export, cred, fid, &fd, &as);
	if (r == 0)
		r = check_caller(cred, name);
	if (r == 0 && setxattr(kr_fd_path(fd).text, name, value, size, (int)flags) < 0)
		r = kr_fail_errno(error_for(cred, name, errno), "extended attribute %s of %zu bytes", name, size);
	return r;
}

/* A write removes a file's capabilities, and a node's kernel asks for that in the writer's name before it truncates.
 * Like a local filesystem, the server needs no right to removexattr then; else only root has it. */
static bool strips_capabilities(int fd, const char *name)
{
	return strcmp(name, "security.capability") == 0 &&
		faccessat(AT_FDCWD, kr_fd_path(fd).text, W_OK, AT_EACCESS) == 0;
}

int kr_export_removexattr(
	struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, const char *name)
{
	KR_AUTO_FD int fd = -1;
	KR_AS as = {0};
	int r = strcmp(name, LABEL) == 0 ? -EOPNOTSUPP : kr_export_writable(export);

	if (r == 0)
		r = begin(export, cred, fid, &fd, &as);
	if (r == 0 && strips_capabilities(fd, name))
		kr_cred_leave(&as);
	else if (r == 0)
		r = check_caller(cred, name);
	if (r == 0 && removexattr(kr_fd_path(fd).text, name) < 0)
		r = kr_fail_errno(error_for(cred, name, errno), "extended attribute %s", name);
	return r;
}

bool kr_entry_bare(struct kr_export *export, int fd)
{
	struct kr_fd_path path = kr_fd_path(fd);
	char names[sizeof(LABEL)]; /* -ERANGE: there are others */
	ssize_t length = listxattr(path.text, names, sizeof(names));

	if (length < 0 || without_label(names, (size_t)length) != 0)
		return false;
	/* A filesystem without ACLs would answer differently.  The export is in one filesystem. */
	if (!atomic_load_explicit(&export->has_acls, memory_order_relaxed) &&
		getxattr(path.text, "system.posix_acl_access", NULL, 0) < 0 && errno == ENODATA)
		atomic_store_explicit(&export->has_acls, true, memory_order_relaxed);
	return atomic_load_explicit(&export->has_acls, memory_order_relaxed);
}

bool kr_export_bare(struct kr_export *export, const struct kr_fid *fid)
{
	KR_AUTO_ENTRY entry = KR_NO_ENTRY;

	return kr_entry_get(export, fid, &entry) == 0 && kr_entry_bare(export, entry.fd);
}

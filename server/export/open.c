/* Opens and holds. The server keeps no descriptor for an open: it only checks that it could open the file. */
#include <errno.h>
#include <unistd.h>

#include "server/export/export_priv.h"

static int check_mode(struct kr_export *export, const struct kr_fid *fid, enum kr_fd_cache_mode mode)
{
	struct kr_fd *data;
	int r = kr_entry_data(export, fid, mode, &data);

	if (r == 0)
		kr_fd_cache_put(export->fds, data);
	return r;
}

static int check_rights(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, uint32_t flags)
{
	uint32_t access = flags & KR_OPEN_ACCESS, mask = 0;
	KR_AUTO_FD int fd = -1;
	int r = 0;

	if (access != KR_OPEN_WRITE)
		mask |= flags & KR_OPEN_EXECUTE ? X_OK : R_OK;
	if (access != KR_OPEN_READ || flags & KR_OPEN_TRUNC) {
		mask |= W_OK;
		r = kr_export_writable(export);
	}
	if (r < 0 || !cred)
		return r;
	r = kr_entry_open(export, fid, &fd);
	return r < 0 ? r : kr_export_may(export, cred, fd, mask);
}

static int check_open(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, uint32_t flags)
{
	struct kr_setattr empty = {.valid = KR_SET_SIZE};
	uint32_t access = flags & KR_OPEN_ACCESS;
	struct kr_attr attr;
	int r;

	const uint32_t known = KR_OPEN_ACCESS | KR_OPEN_TRUNC | KR_OPEN_EXECUTE | KR_OPEN_NOATIME | KR_OPEN_CACHED;

	if (access == KR_OPEN_ACCESS || flags & ~known)
		return kr_fail(-EINVAL, "open flags %u", flags);
	r = check_rights(export, cred, fid, flags);
	if (r == 0 && access != KR_OPEN_READ)
		r = check_mode(export, fid, KR_FD_CACHE_WRITE);
	if (r == 0 && access != KR_OPEN_WRITE)
		r = check_mode(export, fid, KR_FD_CACHE_READ);
	if (r == 0 && flags & KR_OPEN_TRUNC)
		r = kr_export_setattr(export, cred, fid, &empty, &attr);
	return r;
}

/* The rule of relatime, the default of most filesystems. */
static bool is_atime_due(const struct kr_attr *attr)
{
	const int64_t day = 24 * 60 * 60;

	return kr_time_compare(attr->atime, attr->mtime) <= 0 || kr_time_compare(attr->atime, attr->ctime) <= 0 ||
		attr->atime.sec + day <= kr_clock_real_s();
}

/* Reads from a node's cache do not reach the server, so an open for reading sets atime for them. Tools that remove
 * unused files then spare used ones. The kernel sets it, by a read, so that ctime stays. */
static int note_access(struct kr_export *export, const struct kr_fid *fid, struct kr_attr *attr)
{
	struct kr_fd *data;
	char byte;

	if (attr->size == 0 || !is_atime_due(attr) || kr_entry_data(export, fid, KR_FD_CACHE_READ, &data) < 0)
		return 0;
	(void)!pread(data->fd, &byte, 1, 0);
	kr_fd_cache_put(export->fds, data);
	return kr_export_getattr(export, fid, attr);
}

void kr_export_pin(struct kr_export *export, const struct kr_fid *fid)
{
	int fd;

	if (export->is_fuse && kr_entry_open(export, fid, &fd) == 0)
		kr_orphans_pin(export->orphans, fid, fd);
}

int kr_export_open(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid, uint32_t flags,
	struct kr_attr *ret_attr)
{
	int r;

	/* The hold comes first: it keeps the file from here on. */
	kr_orphans_hold(export->orphans, fid, 1);
	r = check_open(export, cred, fid, flags);
	if (r == 0)
		r = kr_export_getattr(export, fid, ret_attr);
	if (r == 0 && (flags & KR_OPEN_ACCESS) != KR_OPEN_WRITE && !(flags & KR_OPEN_NOATIME))
		r = note_access(export, fid, ret_attr);
	if (r < 0)
		kr_orphans_release(export->orphans, fid, 1);
	else
		kr_export_pin(export, fid);
	return r;
}

int kr_export_hold(struct kr_export *export, const struct kr_fid *fid, uint32_t count)
{
	struct kr_attr attr;
	int r;

	if (count == 0)
		return 0;
	kr_orphans_hold(export->orphans, fid, count);
	r = kr_export_getattr(export, fid, &attr);
	if (r < 0)
		kr_orphans_release(export->orphans, fid, count);
	else
		kr_export_pin(export, fid);
	return r;
}

void kr_export_release(struct kr_export *export, const struct kr_fid *fid, uint32_t count)
{
	kr_cred_prepare_thread();
	if (count > 0 && kr_orphans_release(export->orphans, fid, count))
		kr_fd_cache_drop(export->fds, fid, false);
}

void kr_export_sweep_orphans(struct kr_export *export)
{
	kr_cred_prepare_thread();
	kr_orphans_sweep(export->orphans);
}

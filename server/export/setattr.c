/* Changing attributes: owner, mode, size, times; truncate; and what a flush changes (times, set-id bits). */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/export/export_priv.h"

static int set_mode(struct kr_export *export, int fd, mode_t mode)
{
	struct kr_proc_name name = kr_entry_proc_name(fd);

	return fchmodat(export->proc_fd, name.text, mode & 07777, 0) < 0 ? kr_fail_errno(-errno, "changing a mode") : 0;
}

static bool in_group(const struct kr_cred *cred, gid_t gid)
{
	bool found = cred->gid == gid;

	for (uint32_t i = 0; i < cred->group_count && !found; i++)
		found = cred->groups[i] == gid;
	return found;
}

int kr_export_clear_suid(struct kr_export *export, const struct kr_cred *cred, int path_fd)
{
	struct stat st;
	mode_t bits = S_ISUID;

	if (fstatat(path_fd, "", &st, AT_EMPTY_PATH) < 0)
		return kr_fail_errno(-errno, "looking at a file of the export");
	if (st.st_mode & S_IXGRP || (cred && cred->uid != 0 && !in_group(cred, st.st_gid)))
		bits |= S_ISGID;
	if (!S_ISREG(st.st_mode) || !(st.st_mode & bits))
		return 0;
	return set_mode(export, path_fd, st.st_mode & ~bits);
}

static int set_owner(int fd, const struct kr_setattr *set)
{
	uid_t uid = set->valid & KR_SET_UID ? set->uid : (uid_t)-1;
	gid_t gid = set->valid & KR_SET_GID ? set->gid : (gid_t)-1;

	return fchownat(fd, "", uid, gid, AT_EMPTY_PATH) < 0 ? kr_fail_errno(-errno, "changing an owner") : 0;
}

static int set_size(struct kr_export *export, const struct kr_fid *fid, uint64_t size)
{
	struct kr_fd *data;
	int r;

	if (size > INT64_MAX)
		return kr_fail_errno(-EFBIG, "truncating");
	r = kr_entry_data(export, fid, KR_FD_CACHE_WRITE, &data);
	if (r < 0)
		return r;
	data->unsynced = true;
	while ((r = ftruncate(data->fd, (off_t)size)) < 0 && errno == EINTR)
		;
	if (r < 0)
		r = kr_fail_errno(-errno, "truncating to %llu bytes", (unsigned long long)size);
	kr_fd_cache_put(export->fds, data);
	return r;
}

static int make_time(bool valid, bool now, struct kr_time time, struct timespec *ret_time)
{
	if (now)
		*ret_time = (struct timespec){.tv_nsec = UTIME_NOW};
	else if (!valid)
		*ret_time = (struct timespec){.tv_nsec = UTIME_OMIT};
	else if (time.nsec >= KR_NS_PER_S)
		return kr_fail(-EINVAL, "a time of %u nanoseconds", time.nsec);
	else
		*ret_time = (struct timespec){.tv_sec = time.sec, .tv_nsec = time.nsec};
	return 0;
}

static int set_times(int fd, const struct kr_setattr *set)
{
	struct timespec times[2];
	int r;

	r = make_time(set->valid & KR_SET_ATIME, set->valid & KR_SET_ATIME_NOW, set->atime, &times[0]);
	if (r == 0)
		r = make_time(set->valid & KR_SET_MTIME, set->valid & KR_SET_MTIME_NOW, set->mtime, &times[1]);
	if (r == 0 && utimensat(fd, "", times, AT_EMPTY_PATH) < 0)
		r = kr_fail_errno(-errno, "changing times");
	return r;
}

/* Owner, mode and times as the caller. */
static int apply_as(
	struct kr_export *export, const struct kr_cred *cred, int fd, const struct kr_setattr *set, uint32_t valid)
{
	const uint32_t times = KR_SET_ATIME | KR_SET_MTIME | KR_SET_ATIME_NOW | KR_SET_MTIME_NOW;
	KR_AS as = {0};
	int r = 0;

	if (valid == 0)
		return 0;
	r = kr_cred_enter(&as, export->callers_ids, cred);
	if (r == 0 && valid & (KR_SET_UID | KR_SET_GID))
		r = set_owner(fd, set);
	if (r == 0 && valid & KR_SET_MODE)
		r = set_mode(export, fd, set->mode);
	if (r == 0 && valid & times)
		r = set_times(fd, set);
	return r;
}

static int may_write(struct kr_export *export, const struct kr_cred *cred, int fd, const struct kr_setattr *set)
{
	return set->through_handle ? 0 : kr_export_may(export, cred, fd, W_OK);
}

/* Whether a node's kernel sent the mode to clear set-id bits.  A flush of another node may have cleared them since:
 * with a size, which no chmod has, the mode may be the file's. */
static bool drops_set_id(int fd, const struct kr_setattr *set)
{
	const mode_t ids = S_ISUID | S_ISGID;
	struct stat st;

	return set->valid & KR_SET_MODE && fstatat(fd, "", &st, AT_EMPTY_PATH) == 0 && S_ISREG(st.st_mode) &&
		(set->valid & KR_SET_SIZE || (st.st_mode & ids) != (set->mode & ids)) &&
		(set->mode & ids & ~st.st_mode) == 0 && ((st.st_mode ^ set->mode) & 07777 & ~ids) == 0;
}

static int apply(struct kr_export *export, const struct kr_cred *cred, int fd, const struct kr_fid *fid,
	const struct kr_setattr *set)
{
	const uint32_t times = KR_SET_ATIME | KR_SET_MTIME | KR_SET_ATIME_NOW | KR_SET_MTIME_NOW;
	uint32_t mode = set->valid & KR_SET_MODE;
	bool clear = set->valid & KR_SET_CLEAR_SUID || (set->valid & KR_SET_SIZE && cred && cred->uid != 0);
	int r = 0;

	/* Checks before the first change. */
	if (set->valid & (KR_SET_SIZE | KR_SET_CLEAR_SUID))
		r = may_write(export, cred, fd, set);
	if (r == 0)
		r = apply_as(export, cred, fd, set, set->valid & (KR_SET_UID | KR_SET_GID));
	if (r == 0 && drops_set_id(fd, set) && may_write(export, cred, fd, set) == 0) {
		r = set_mode(export, fd, set->mode);
		mode = 0;
	}
	if (r == 0)
		r = apply_as(export, cred, fd, set, mode);
	if (r == 0 && clear)
		r = kr_export_clear_suid(export, cred, fd);
	if (r == 0 && set->valid & KR_SET_SIZE)
		r = set_size(export, fid, set->size);
	return r < 0 ? r : apply_as(export, cred, fd, set, set->valid & times);
}

int kr_export_setattr(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *fid,
	const struct kr_setattr *set, struct kr_attr *ret_attr)
{
	KR_AUTO_ENTRY entry = KR_NO_ENTRY;
	int r;

	r = kr_export_writable(export);
	if (r == 0)
		r = kr_entry_get(export, fid, &entry);
	if (r == 0)
		r = apply(export, cred, entry.fd, fid, set);
	return r < 0 ? r : kr_entry_attr(export, entry.fd, fid, ret_attr);
}

int kr_export_written(struct kr_export *export, const struct kr_fid *fid, const struct kr_time *mtime, bool clear_suid,
	struct kr_attr *ret_attr)
{
	struct kr_setattr set = {0};

	if (mtime) {
		set.valid |= KR_SET_MTIME;
		set.mtime = *mtime;
	}
	if (clear_suid)
		set.valid |= KR_SET_CLEAR_SUID;
	return kr_export_setattr(export, NULL, fid, &set, ret_attr);
}

int kr_export_touch(struct kr_export *export, const struct kr_fid *fid, struct kr_time ctime)
{
	struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_OMIT}};
	KR_AUTO_FD int fd = -1;
	struct stat st;
	int r = kr_entry_open(export, fid, &fd);

	if (r < 0)
		return r;
	if (fstatat(fd, "", &st, AT_EMPTY_PATH) < 0)
		return kr_fail_errno(-errno, "looking at a file");
	if (st.st_ctim.tv_sec != ctime.sec || (uint64_t)st.st_ctim.tv_nsec != ctime.nsec)
		return 0;
	times[0] = st.st_atim;
	return utimensat(fd, "", times, AT_EMPTY_PATH) < 0 ? kr_fail_errno(-errno, "touching a file") : 1;
}

/* See project.h. */
#include "fuse/view/project.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/quota.h>
#include <sys/random.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "common/base/util.h"

/* Administrators number their projects from the other end. */
#define OURS UINT32_C(0x4b000000)
#define OURS_MASK UINT32_C(0xff000000)
enum { PROJECT_QUOTA = 2, QUOTA_BLOCK = 1024, TRIES = 16 };

#ifdef SYS_quotactl_fd
static int quota(int directory, uint32_t command, uint32_t id, struct dqblk *limits)
{
	return syscall(SYS_quotactl_fd, directory, QCMD(command, (uint32_t)PROJECT_QUOTA), id, limits) < 0 ? -errno : 0;
}
#else
static int quota(int directory, uint32_t command, uint32_t id, struct dqblk *limits)
{
	(void)directory, (void)command, (void)id, (void)limits;
	return -ENOSYS;
}
#endif

/* Finds a project without files and limits. */
static int choose(int directory, uint32_t *ret_id)
{
	for (int i = 0; i < TRIES; i++) {
		struct dqblk limits = {0};
		uint32_t id;
		int err;

		if (getrandom(&id, sizeof(id), 0) != sizeof(id))
			return -errno;
		id = OURS | (id & ~OURS_MASK);
		err = quota(directory, Q_GETQUOTA, id, &limits);
		if (err < 0 && err != -ENOENT) /* XFS knows no project that has nothing */
			return err;
		if (err == -ENOENT || (!limits.dqb_bhardlimit && !limits.dqb_curspace && !limits.dqb_curinodes)) {
			*ret_id = id;
			return 0;
		}
	}
	return -EAGAIN;
}

static int set_limits(int directory, uint32_t id, uint64_t bytes, uint64_t inodes)
{
	struct dqblk limits = {
		.dqb_bhardlimit = bytes / QUOTA_BLOCK, .dqb_ihardlimit = inodes, .dqb_valid = QIF_LIMITS};

	return quota(directory, Q_SETQUOTA, id, &limits);
}

/* Whether the disk not only counts, but enforces: then it shows the limit as the directory's size. */
static bool is_enforced(int directory, uint64_t bytes)
{
	struct statvfs facts;

	return fstatvfs(directory, &facts) == 0 && facts.f_blocks * facts.f_frsize <= bytes;
}

static int join(int directory, const struct fsxattr *was, uint32_t id, uint64_t bytes, uint64_t inodes)
{
	struct fsxattr now = *was;
	int err = set_limits(directory, id, bytes, inodes);

	now.fsx_projid = id;
	now.fsx_xflags |= FS_XFLAG_PROJINHERIT;
	if (err == 0 && ioctl(directory, FS_IOC_FSSETXATTR, &now) < 0)
		err = -errno;
	if (err == 0 && is_enforced(directory, bytes))
		return 0;
	(void)!ioctl(directory, FS_IOC_FSSETXATTR, was);
	set_limits(directory, id, 0, 0);
	return err < 0 ? err : -EOPNOTSUPP;
}

int kr_project_limit(int parent, const char *name, uint64_t bytes, uint64_t inodes)
{
	KR_AUTO_FD int directory = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct fsxattr was;
	uint32_t id = 0;
	int err;

	if (directory < 0 || ioctl(directory, FS_IOC_FSGETXATTR, &was) < 0)
		return -errno;
	err = choose(directory, &id);
	return err < 0 ? err : join(directory, &was, id, bytes, inodes);
}

void kr_project_drop(int parent, const char *name)
{
	KR_AUTO_FD int directory = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct fsxattr attributes;

	if (directory >= 0 && ioctl(directory, FS_IOC_FSGETXATTR, &attributes) == 0 &&
		attributes.fsx_xflags & FS_XFLAG_PROJINHERIT && (attributes.fsx_projid & OURS_MASK) == OURS)
		set_limits(directory, attributes.fsx_projid, 0, 0);
}

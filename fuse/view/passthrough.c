/* See passthrough.h. */
#include "fuse/view/passthrough.h"

#include <errno.h>
#include <linux/fuse.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>

/* As linux/fuse.h of Linux 6.9 has them. */
struct backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};
#define BACKING_OPEN _IOW(229, 1, struct backing_map)
#define BACKING_CLOSE _IOW(229, 2, uint32_t)

struct created {
	struct fuse_entry_out entry;
	struct fuse_open_out open;
};

int kr_passthrough_register(struct fuse_session *fuse, int fd, uint32_t *ret_backing)
{
	struct backing_map map = {.fd = fd};
	int number = ioctl(fuse_session_fd(fuse), BACKING_OPEN, &map);

	if (number <= 0)
		return number < 0 ? -errno : -EOPNOTSUPP;
	*ret_backing = (uint32_t)number;
	return 0;
}

void kr_passthrough_forget(struct fuse_session *fuse, uint32_t backing)
{
	ioctl(fuse_session_fd(fuse), BACKING_CLOSE, &backing);
}

static struct fuse_open_out open_out(uint64_t handle, uint32_t flags, uint32_t backing)
{
	/* The last field's name is padding before Linux 6.9, backing_id since. */
	return (struct fuse_open_out){handle, flags, backing};
}

int kr_passthrough_reply_open(fuse_req_t req, uint64_t handle, uint32_t flags, uint32_t backing)
{
	struct fuse_open_out out = open_out(handle, flags, backing);

	return fuse_reply_buf(req, (const char *)&out, sizeof(out));
}

static void fill_attr(const struct stat *stat, struct fuse_attr *ret)
{
	*ret = (struct fuse_attr){.ino = stat->st_ino,
		.size = (uint64_t)stat->st_size,
		.blocks = (uint64_t)stat->st_blocks,
		.atime = (uint64_t)stat->st_atim.tv_sec,
		.mtime = (uint64_t)stat->st_mtim.tv_sec,
		.ctime = (uint64_t)stat->st_ctim.tv_sec,
		.atimensec = (uint32_t)stat->st_atim.tv_nsec,
		.mtimensec = (uint32_t)stat->st_mtim.tv_nsec,
		.ctimensec = (uint32_t)stat->st_ctim.tv_nsec,
		.mode = stat->st_mode,
		.nlink = (uint32_t)stat->st_nlink,
		.uid = stat->st_uid,
		.gid = stat->st_gid,
		.rdev = (uint32_t)stat->st_rdev,
		.blksize = (uint32_t)stat->st_blksize};
}

int kr_passthrough_reply_create(
	fuse_req_t req, const struct fuse_entry_param *entry, uint64_t handle, uint32_t flags, uint32_t backing)
{
	struct created out = {.entry = {.nodeid = entry->ino,
				      .generation = entry->generation,
				      .entry_valid = (uint64_t)entry->entry_timeout,
				      .attr_valid = (uint64_t)entry->attr_timeout},
		.open = open_out(handle, flags, backing)};

	fill_attr(&entry->attr, &out.entry.attr);
	return fuse_reply_buf(req, (const char *)&out, sizeof(out));
}

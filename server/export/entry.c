#include "server/export/entry.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <time.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "server/export/export_priv.h"

enum { HANDLE_TRIES = 1000, MEET_TRIES = 10 };

int kr_entry_check(const struct kr_export *export, const struct kr_fid *parent, const char *name, int hidden_err)
{
	size_t length = strlen(name);

	if (length > KR_NAME_MAX)
		return kr_fail(-ENAMETOOLONG, "a name of %zu bytes", length);
	if (length == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strchr(name, '/'))
		return kr_fail(-EINVAL, "'%s' is not the name of an entry", name);
	if (kr_private_dir_is(export, name) && kr_fid_equal(parent, &export->root))
		return kr_fail(hidden_err, "%s in the export's root is the server's own", name);
	return 0;
}

struct kr_proc_name kr_entry_proc_name(int fd)
{
	struct kr_proc_name name;

	snprintf(name.text, sizeof(name.text), "%d", fd);
	return name;
}

/* --- identities: the only place that knows the real ones of restored files (fid_aliases.h) ----- */

static int unseal(const struct kr_export *export, const struct kr_fid *fid, struct kr_identity *ret_identity)
{
	const struct kr_fid real = kr_fid_aliases_real(export->aliases, fid);

	return kr_fid_unseal(export->secret, &real, ret_identity);
}

static void seal(const struct kr_export *export, const struct kr_identity *identity, struct kr_fid *ret_fid)
{
	struct kr_fid real;

	kr_fid_seal(export->secret, identity, &real);
	*ret_fid = kr_fid_aliases_of(export->aliases, &real);
}

static int open_handle(struct kr_export *export, const struct kr_identity *identity)
{
	union {
		struct file_handle head;
		uint8_t bytes[sizeof(struct file_handle) + KR_FID_HANDLE_MAX];
	} handle;

	handle.head.handle_type = identity->handle_type;
	handle.head.handle_bytes = identity->handle_length;
	memcpy(handle.bytes + sizeof(handle.head), identity->handle, identity->handle_length);
	return open_by_handle_at(export->root_fd, &handle.head, O_PATH | O_NOFOLLOW | O_CLOEXEC);
}

static int open_identity(struct kr_export *export, const struct kr_identity *identity, int *ret_fd)
{
	int tries = 0, fd;

	if (!export->by_handle)
		return kr_inode_paths_open(export->inode_paths, identity, ret_fd);
	/* ENOMEM also means "the kernel is just making this inode" (iget_locked): at the next look the handle is stale.
	 */
	while ((fd = open_handle(export, identity)) < 0 && errno == ENOMEM && ++tries < HANDLE_TRIES) {
		const struct timespec moment = {.tv_nsec = tries < HANDLE_TRIES / 2 ? 0 : 1000000};

		nanosleep(&moment, NULL); /* the thread that makes the inode may wait for a processor */
	}
	if (fd < 0)
		return kr_fail_errno(errno == ENOENT ? -ESTALE : -errno, "opening a file by its handle");
	*ret_fd = fd;
	return 0;
}

int kr_entry_open(struct kr_export *export, const struct kr_fid *fid, int *ret_fd)
{
	struct kr_identity identity;
	int r = kr_export_ready(export);

	if (r == 0)
		r = unseal(export, fid, &identity);
	if (r < 0)
		return r;
	if ((identity.kind == KR_FID_HANDLE) != export->by_handle)
		return kr_fail(-ESTALE, "an identity from when the server had other privileges");
	if (export->is_fuse && export->orphans && kr_orphans_open_held(export->orphans, fid, ret_fd) == 0)
		return 0;
	r = open_identity(export, &identity, ret_fd);
	if (r == -EMFILE || r == -ENFILE) {
		kr_fd_cache_shrink(export->fds);
		r = open_identity(export, &identity, ret_fd);
	}
	return r == -ESTALE ? kr_orphans_open(export->orphans, fid, ret_fd) : r;
}

int kr_entry_child(int dirfd, const char *name, int *ret_fd)
{
	struct open_how how = {
		.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_SYMLINKS | RESOLVE_NO_XDEV,
	};
	int tries = 0;
	long fd;

	/* EAGAIN: a rename elsewhere disturbed the kernel's check that the path stays inside. */
	do {
		fd = syscall(SYS_openat2, dirfd, name, &how, sizeof(how));
	} while (fd < 0 && (errno == EAGAIN || errno == EINTR) && ++tries < 100);
	if (fd < 0)
		return kr_fail_errno(-errno,
			errno == EXDEV ? "'%s': something is mounted here, an export is one filesystem" : "'%s'", name);
	*ret_fd = (int)fd;
	return 0;
}

/* A file of the server's own whose mode forbids opening even to its owner: wider for an instant. */
static int reopen_widened(struct kr_export *export, int path_fd, int flags, int *ret_fd)
{
	struct kr_proc_name name = kr_entry_proc_name(path_fd);
	struct stat st;
	int fd, err;
	KR_SCOPED_LOCK(&export->widening);

	if (fstatat(path_fd, "", &st, AT_EMPTY_PATH) < 0 || st.st_uid != geteuid() || !S_ISREG(st.st_mode))
		return kr_fail_errno(-EACCES, "opening a file of the export");
	if (fchmodat(export->proc_fd, name.text, (st.st_mode & 07777) | 0600, 0) < 0)
		return kr_fail_errno(-errno, "opening a file of the export");
	fd = openat(export->proc_fd, name.text, flags | O_CLOEXEC | O_NOCTTY);
	err = errno;
	if (fchmodat(export->proc_fd, name.text, st.st_mode & 07777, 0) < 0 && fd >= 0) {
		err = errno;
		close(fd);
		fd = -1;
	}
	if (fd < 0)
		return kr_fail_errno(-err, "opening a file of the export");
	*ret_fd = fd;
	return 0;
}

/* Opens the file of PATH_FD again, with open(2)'s FLAGS. */
static int reopen(struct kr_export *export, int path_fd, int flags, int *ret_fd)
{
	struct kr_proc_name name = kr_entry_proc_name(path_fd);
	int fd = openat(export->proc_fd, name.text, flags | O_CLOEXEC | O_NOCTTY);

	if (fd < 0 && (errno == EMFILE || errno == ENFILE)) {
		kr_fd_cache_shrink(export->fds);
		fd = openat(export->proc_fd, name.text, flags | O_CLOEXEC | O_NOCTTY);
	}
	if (fd < 0 && errno == EACCES && !export->callers_ids)
		return reopen_widened(export, path_fd, flags, ret_fd);
	if (fd < 0)
		return kr_fail_errno(-errno, "opening a file of the export");
	*ret_fd = fd;
	return 0;
}

static int check_type(mode_t mode, bool want_directory)
{
	if (want_directory)
		return S_ISDIR(mode) ? 0 : kr_fail_errno(-ENOTDIR, "listing");
	if (S_ISDIR(mode))
		return kr_fail_errno(-EISDIR, "the data of a directory");
	return S_ISREG(mode) ? 0 : kr_fail(-ENXIO, "not a regular file: it has no data here");
}

static int open_data(struct kr_export *export, const struct kr_fid *fid, enum kr_fd_cache_mode mode, int *ret_fd)
{
	static const int flags[] = {
		[KR_FD_CACHE_READ] = O_RDONLY,
		[KR_FD_CACHE_WRITE] = O_WRONLY,
		[KR_FD_CACHE_DIRECTORY] = O_RDONLY | O_DIRECTORY,
	};
	KR_AUTO_FD int path_fd = -1;
	struct stat st;
	int r;

	r = kr_entry_open(export, fid, &path_fd);
	if (r < 0)
		return r;
	if (fstatat(path_fd, "", &st, AT_EMPTY_PATH) < 0)
		return kr_fail_errno(-errno, "looking at a file of the export");
	r = check_type(st.st_mode, mode == KR_FD_CACHE_DIRECTORY);
	return r < 0 ? r : reopen(export, path_fd, flags[mode], ret_fd);
}

int kr_entry_data(struct kr_export *export, const struct kr_fid *fid, enum kr_fd_cache_mode mode, struct kr_fd **ret_fd)
{
	struct kr_fd *entry;
	int fd, r;

	r = kr_export_ready(export);
	if (r < 0)
		return r;
	entry = kr_fd_cache_take(export->fds, fid, mode);
	if (!entry) {
		r = open_data(export, fid, mode, &fd);
		if (r < 0)
			return r;
		entry = kr_fd_cache_add(export->fds, fid, mode, fd);
	}
	*ret_fd = entry;
	return 0;
}

int kr_entry_get(struct kr_export *export, const struct kr_fid *fid, struct kr_entry *ret_entry)
{
	struct kr_entry entry = {.export = export, .fd = -1};
	int r = kr_export_ready(export);

	if (r < 0)
		return r;
	entry.kept = kr_fd_cache_peek(export->fds, fid);
	if (entry.kept)
		entry.fd = entry.kept->fd;
	else
		r = kr_entry_open(export, fid, &entry.fd);
	if (r == 0)
		*ret_entry = entry;
	return r;
}

int kr_entry_get_dir(struct kr_export *export, const struct kr_fid *fid, struct kr_entry *ret_entry)
{
	struct kr_entry entry;
	int fd, r = kr_entry_get(export, fid, &entry);

	if (r < 0)
		return r;
	if (!entry.kept && reopen(export, entry.fd, O_RDONLY | O_DIRECTORY, &fd) == 0) {
		close(entry.fd);
		entry.fd = fd;
		entry.kept = kr_fd_cache_add(export->fds, fid, KR_FD_CACHE_DIRECTORY, fd);
	}
	*ret_entry = entry;
	return 0;
}

void kr_entry_put(struct kr_entry *entry)
{
	if (entry->kept && entry->kept->mode == KR_FD_CACHE_DIRECTORY)
		kr_fd_cache_put(entry->export->fds, entry->kept);
	else if (entry->kept)
		kr_fd_cache_unpeek(entry->export->fds, entry->kept);
	else
		kr_auto_fd_cleanup(&entry->fd);
	*entry = KR_NO_ENTRY;
}

int kr_entry_error_in(const struct kr_entry *dir, int err)
{
	struct stat st;

	return err == -ENOENT && dir->kept && fstat(dir->fd, &st) == 0 && st.st_nlink == 0 ?
		kr_fail(-ESTALE, "the directory has been removed") :
		err;
}

static struct kr_time time_of(const struct statx_timestamp *t)
{
	return (struct kr_time){t->tv_sec, t->tv_nsec};
}

/* In place of a birth time: the generation in a handle of inode number and generation. Without either a new file with
 * a former inode number would pass for the old one. kairanfs gives generations (fuse/names/inode_table.h). */
static uint32_t generation_of(int fd)
{
	enum { FILEID_INO64_GEN = 0x81 }; /* linux/exportfs.h */
	union {
		struct file_handle head;
		uint8_t bytes[sizeof(struct file_handle) + KR_FID_HANDLE_MAX];
	} handle;
	uint32_t generation = 0;
	int mount_id;

	handle.head.handle_bytes = KR_FID_HANDLE_MAX;
	if (name_to_handle_at(fd, "", &handle.head, &mount_id, AT_EMPTY_PATH) == 0 &&
		handle.head.handle_type == FILEID_INO64_GEN && handle.head.handle_bytes >= 12)
		memcpy(&generation, handle.bytes + sizeof(handle.head) + 8, sizeof(generation));
	return generation;
}

int kr_entry_inode(int fd, struct kr_identity *ret_identity)
{
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_INO | STATX_BTIME, &stx) < 0)
		return kr_fail_errno(-errno, "looking at a file of the export");
	*ret_identity = (struct kr_identity){.kind = KR_FID_INODE, .ino = stx.stx_ino};
	if (stx.stx_mask & STATX_BTIME)
		ret_identity->birth = time_of(&stx.stx_btime);
	else
		ret_identity->birth.sec = generation_of(fd);
	return 0;
}

static int identify_by_handle(struct kr_export *export, int fd, struct kr_fid *ret_fid)
{
	union {
		struct file_handle head;
		uint8_t bytes[sizeof(struct file_handle) + KR_FID_HANDLE_MAX];
	} handle;
	struct kr_identity identity = {.kind = KR_FID_HANDLE};
	int mount_id;

	handle.head.handle_bytes = KR_FID_HANDLE_MAX;
	if (name_to_handle_at(fd, "", &handle.head, &mount_id, AT_EMPTY_PATH) < 0)
		return kr_fail_errno(-errno, "asking for a file's handle");
	identity.handle_type = handle.head.handle_type;
	identity.handle_length = handle.head.handle_bytes;
	memcpy(identity.handle, handle.bytes + sizeof(handle.head), identity.handle_length);
	seal(export, &identity, ret_fid);
	return 0;
}

int kr_export_identify_handle(
	const struct kr_export *export, int type, const void *handle, uint32_t length, struct kr_fid *ret_fid)
{
	struct kr_identity identity = {.kind = KR_FID_HANDLE, .handle_type = type, .handle_length = length};

	if (!export->by_handle || length == 0 || length > KR_FID_HANDLE_MAX)
		return -ESTALE;
	memcpy(identity.handle, handle, length);
	seal(export, &identity, ret_fid);
	return 0;
}

int kr_entry_identify(
	struct kr_export *export, int fd, const struct kr_fid *parent, const char *name, struct kr_fid *ret_fid)
{
	struct kr_identity identity, parent_identity;
	struct stat st;
	int r;

	if (export->by_handle)
		return identify_by_handle(export, fd, ret_fid);
	r = kr_entry_inode(fd, &identity);
	if (r < 0)
		return r;
	if (parent && unseal(export, parent, &parent_identity) == 0) {
		if (fstatat(fd, "", &st, AT_EMPTY_PATH) < 0)
			return kr_fail_errno(-errno, "looking at '%s'", name);
		kr_inode_paths_learn(export->inode_paths, &identity, &parent_identity, name, S_ISDIR(st.st_mode));
	}
	seal(export, &identity, ret_fid);
	return 0;
}

void kr_entry_forget(
	struct kr_export *export, const struct kr_fid *fid, const struct kr_fid *parent, const char *name, bool others)
{
	struct kr_identity file, in;

	if (!export->by_handle && unseal(export, fid, &file) == 0 && unseal(export, parent, &in) == 0)
		kr_inode_paths_forget(export->inode_paths, &file, &in, name, others);
}

uint64_t kr_entry_volume(int fd)
{
	struct statfs fs;
	uint64_t volume = 0;

	_Static_assert(sizeof(fs.f_fsid) == sizeof(volume), "f_fsid has 64 bits");
	if (fstatfs(fd, &fs) == 0)
		memcpy(&volume, &fs.f_fsid, sizeof(volume));
	return volume;
}

uint64_t kr_entry_numbering(const struct kr_export *export, int fd, dev_t dev)
{
	uint64_t volume = dev == export->root_dev ? export->root_volume : kr_entry_volume(fd);

	return volume == export->root_volume ? 0 : kr_hash_u64(volume);
}

int kr_entry_attr(struct kr_export *export, int fd, const struct kr_fid *fid, struct kr_attr *ret_attr)
{
	struct kr_attr attr;
	struct statx stx;

	if (statx(fd, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &stx) < 0)
		return kr_fail_errno(-errno, "looking at a file of the export");
	/* Only an open descriptor of the cache keeps the file: for a client it is gone. */
	if (stx.stx_nlink == 0 && !kr_orphans_keeps_open(export->orphans, fid))
		return kr_fail(-ESTALE, "the file has been removed");
	attr = (struct kr_attr){
		.ino = stx.stx_ino ^ kr_entry_numbering(export, fd, makedev(stx.stx_dev_major, stx.stx_dev_minor)),
		.mode = stx.stx_mode,
		.nlink = stx.stx_nlink,
		.uid = stx.stx_uid,
		.gid = stx.stx_gid,
		.rdev_major = stx.stx_rdev_major,
		.rdev_minor = stx.stx_rdev_minor,
		.size = stx.stx_size,
		.blocks = stx.stx_blocks,
		.blksize = stx.stx_blksize,
		.atime = time_of(&stx.stx_atime),
		.mtime = time_of(&stx.stx_mtime),
		.ctime = time_of(&stx.stx_ctime),
	};
	if (S_ISREG(attr.mode)) {
		attr.version = kr_export_attr_version(export, &attr, 0);
		if (kr_orphans_find(export->orphans, fid, NULL))
			attr.nlink--;
	}
	*ret_attr = attr;
	return 0;
}

int kr_entry_meet(struct kr_export *export, int dirfd, const struct kr_fid *parent, const char *name,
	struct kr_fid *ret_fid, struct kr_attr *ret_attr)
{
	int r = -ESTALE;

	/* ESTALE: others have just removed the file, and the name may stand for another one. */
	for (int tries = 0; r == -ESTALE && tries < MEET_TRIES; tries++) {
		KR_AUTO_FD int fd = -1;
		struct kr_fid fid;

		r = kr_entry_child(dirfd, name, &fd);
		if (r == 0)
			r = kr_entry_identify(export, fd, parent, name, &fid);
		if (r == 0)
			r = kr_entry_attr(export, fd, &fid, ret_attr);
		if (r == 0)
			*ret_fid = fid;
	}
	return r;
}

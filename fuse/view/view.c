/* See view.h. */
#include "fuse/view/view.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/log.h"
#include "common/base/util.h"
#include "fuse/base/local_dir.h"
#include "fuse/base/options.h"
#include "fuse/base/shim.h"
#include "fuse/view/as_caller.h"
#include "fuse/view/project.h"
#include "fuse/view/tree.h"
#include "fuse/view/view_file.h"
#include "fuse/view/view_priv.h"

/* Below the local directory. */
#define PLACE "kairan-view"

enum { MAX_TRANSFER = 1 << 20, BACKGROUND = 256, DESCRIPTORS_MAX = 16384, SPACE_TRIES = 100 };

static void on_init(void *userdata, struct fuse_conn_info *conn)
{
	(void)userdata;
	kr_shim_want_not(conn,
		FUSE_CAP_SPLICE_READ | FUSE_CAP_SPLICE_WRITE | FUSE_CAP_SPLICE_MOVE | FUSE_CAP_READDIRPLUS |
			FUSE_CAP_READDIRPLUS_AUTO | FUSE_CAP_HANDLE_KILLPRIV | FUSE_CAP_AUTO_INVAL_DATA |
			FUSE_CAP_WRITEBACK_CACHE | FUSE_CAP_IOCTL_DIR);
	/* The disk applies the umask, because it knows default ACLs.  Locks are the kernel's own. */
	kr_shim_want(conn,
		FUSE_CAP_EXPLICIT_INVAL_DATA | FUSE_CAP_DONT_MASK | FUSE_CAP_ATOMIC_O_TRUNC | FUSE_CAP_ASYNC_READ |
			FUSE_CAP_ASYNC_DIO | FUSE_CAP_PARALLEL_DIROPS | FUSE_CAP_POSIX_ACL | FUSE_CAP_CACHE_SYMLINKS);
	conn->max_write = MAX_TRANSFER;
	conn->max_readahead = MAX_TRANSFER;
	conn->max_background = BACKGROUND;
	conn->time_gran = 1;
	kr_shim_init(conn);
}

const struct fuse_lowlevel_ops kr_view_operations = {
	.init = on_init,
	.lookup = kr_view_lookup,
	.forget = kr_view_forget,
	.forget_multi = kr_view_forget_multi,
	.getattr = kr_view_getattr,
	.setattr = kr_view_setattr,
	.readlink = kr_view_readlink,
	.mknod = kr_view_mknod,
	.mkdir = kr_view_mkdir,
	.unlink = kr_view_unlink,
	.rmdir = kr_view_rmdir,
	.symlink = kr_view_symlink,
	.rename = kr_view_rename,
	.link = kr_view_link,
	.open = kr_view_open,
	.create = kr_view_create,
	.read = kr_view_read,
	.write = kr_view_write,
	.flush = kr_view_flush,
	.release = kr_view_release,
	.fsync = kr_view_fsync,
	.opendir = kr_view_opendir,
	.readdir = kr_view_readdir,
	.releasedir = kr_view_releasedir,
	.fsyncdir = kr_view_fsyncdir,
	.statfs = kr_view_statfs,
	.setxattr = kr_view_setxattr,
	.getxattr = kr_view_getxattr,
	.listxattr = kr_view_listxattr,
	.removexattr = kr_view_removexattr,
	.fallocate = kr_view_fallocate,
	.lseek = kr_view_lseek,
	.copy_file_range = kr_view_copy_file_range,
#ifdef KR_FUSE_TMPFILE
	.tmpfile = kr_view_tmpfile,
#endif
};

int kr_view_error(int err)
{
	switch (err) {
	case EDQUOT:
		return ENOSPC;
	case EMFILE: /* the daemon's limit, not the program's */
		return ENFILE;
	default:
		return err;
	}
}

bool kr_view_wait_for_space(struct kr_view *view, unsigned *tries)
{
	if (++*tries > SPACE_TRIES || kr_view_inodes_leaving(view->inodes) == 0)
		return false;
	kr_sleep_ms(1);
	return true;
}

/* --- the directory ------------------------------------------------------------------------------ */

static int remove_directory(const struct kr_view *view)
{
	kr_project_drop(view->local, PLACE);
	return kr_tree_remove(view->local, PLACE);
}

/* Has the disk keep the limit, if it can: then there is nothing to count. */
static void limit_on_disk(struct kr_view *view)
{
	int err = kr_project_limit(view->local, PLACE, view->space.limit, kr_space_inodes_max(&view->space));

	view->quota = err == 0;
	if (err == 0)
		view->space.limit = 0;
	else
		kr_log_debug("the disk keeps no limit by a project's quota (%s): the daemon counts", strerror(-err));
}

/* Root's mount is for all users, and like /tmp then. */
static int make_directory(struct kr_view *view, const char *local)
{
	mode_t mode = geteuid() == 0 ? 01777 : 0700;
	int err = remove_directory(view);

	if (err < 0)
		return kr_fail_errno(err, "cannot remove what a former mount has left in %s/" PLACE, local);
	/* Users must not reach files past the mount that the mount leaves open to all users. */
	if (fchmod(view->local, 0700) < 0)
		return kr_fail_errno(-errno, "cannot close local directory %s to other users", local);
	if (mkdirat(view->local, PLACE, 0700) < 0 || fchmodat(view->local, PLACE, mode, 0) < 0)
		return kr_fail_errno(-errno, "cannot make %s/" PLACE, local);
	view->root = openat(view->local, PLACE, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return view->root < 0 ? kr_fail_errno(-errno, "%s/" PLACE, local) : 0;
}

static uint32_t descriptors(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return 256;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	return (uint32_t)KR_MIN(limit.rlim_cur / 4, (rlim_t)DESCRIPTORS_MAX);
}

static int open_directory(struct kr_view *view, const char *local)
{
	struct statfs disk = {0};
	int err = make_directory(view, local);
	int root = err < 0 ? -1 : fcntl(view->root, F_DUPFD_CLOEXEC, 3);

	if (err == 0 && root < 0)
		err = kr_fail_errno(-errno, "no descriptor");
	if (err < 0)
		return err;
	fstatfs(view->root, &disk);
	view->space.not_behind_end = disk.f_type == XFS_SUPER_MAGIC;
	view->space.inodes = 1;
	view->inodes = kr_view_inodes_new(root, &view->space, descriptors());
	return 0;
}

int kr_view_new(struct kr_mount *mount, struct kr_view **ret_view)
{
	struct kr_view *view = kr_xcalloc(1, sizeof(*view));
	int err;

	kr_view_capabilities();
	*view = (struct kr_view){.mount = mount, .local = kr_local_fd(mount->local), .root = -1};
	kr_list_init(&view->files);
	kr_list_init(&view->dirs);
	view->space.limit = mount->options->size;
	err = open_directory(view, kr_local_path(mount->local));
	if (err == 0 && view->space.limit)
		limit_on_disk(view);
	view->passthrough = view->space.limit ? KR_VIEW_PASS_READS : KR_VIEW_PASS_ALL;
	if (err < 0) {
		kr_view_free(view);
		return err;
	}
	kr_shim_want_passthrough();
	*ret_view = view;
	return 0;
}

void kr_view_free(struct kr_view *view)
{
	if (!view)
		return;
	kr_view_files_end(view);
	kr_view_dirs_end(view);
	kr_view_inodes_free(view->inodes);
	if (view->root >= 0)
		close(view->root);
	remove_directory(view);
	free(view);
}

/* [lock]  Null: only the disk as a whole has a limit. */
static json_t *used(const struct kr_view *view)
{
	struct statvfs facts;

	if (view->space.limit)
		return json_integer((json_int_t)view->space.used);
	if (!view->quota || fstatvfs(view->root, &facts) < 0)
		return json_null();
	return json_integer((json_int_t)((facts.f_blocks - facts.f_bfree) * facts.f_frsize));
}

json_t *kr_view_status(struct kr_view *view)
{
	static const char *const passes[] = {"nothing", "reads", "all"};
	json_t *status = json_object();

	json_object_set_new(status, "kind", json_string("node"));
	json_object_set_new(status, "passthrough", json_string(passes[atomic_load(&view->passthrough)]));
	json_object_set_new(status, "known_to_kernel", json_integer((json_int_t)kr_view_inodes_known(view->inodes)));
	json_object_set_new(status, "size_bytes", json_integer((json_int_t)view->mount->options->size));
	json_object_set_new(status, "limited_by",
		json_string(view->quota                    ? "quota" :
				view->mount->options->size ? "count" :
							     "disk"));
	KR_SCOPED_LOCK(kr_view_inodes_lock(view->inodes));
	json_object_set_new(status, "used_bytes", used(view));
	json_object_set_new(status, "files", json_integer((json_int_t)view->space.inodes - 1));
	json_object_set_new(status, "open", json_integer((json_int_t)view->opens));
	return status;
}

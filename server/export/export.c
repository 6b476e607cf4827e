/* Opening an export: its root, the features of its filesystem, and the check that it is still there. */
#include "server/export/export.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "common/base/log.h"
#include "server/base/doubtful_times.h"
#include "server/export/export_priv.h"
#include "server/export/restored_dirs.h"
#include "server/export/private_dir.h"

enum { CTIME_PROBES = 64, CTIME_ATTEMPTS = 10 };
static const uint64_t ctime_coarse_ns = 50 * KR_NS_PER_MS;

/* --- is it still there ------------------------------------------------------------------------ */

/* The kernel may still answer stat from memory, but not statvfs. */
static void end_without_daemon(const struct kr_export *export)
{
	struct statvfs fs;

	if (!export->is_fuse || fstatvfs(export->root_fd, &fs) == 0 || errno != ENOTCONN)
		return;
	kr_log_error(
		"the daemon of the FUSE filesystem %s has ended, so kairand ends: mount it and start kairand again, "
		"nodes wait for that",
		export->path);
	_exit(EXIT_FAILURE); /* as if killed: nothing can be written any more */
}

static bool in_place(const struct kr_export *export)
{
	struct stat there, root;

	if (fstat(export->root_fd, &root) < 0 || root.st_nlink == 0)
		return false;
	if (stat(export->path, &there) < 0)
		return errno != ENOENT && errno != ENOTDIR;
	return there.st_dev == root.st_dev && there.st_ino == root.st_ino;
}

int kr_export_tick(struct kr_export *export)
{
	uint64_t now = kr_clock_ns();

	kr_cred_prepare_thread();
	atomic_store(&export->next_tick_ns, now + KR_NS_PER_S);
	end_without_daemon(export);
	atomic_store(&export->gone, !in_place(export));
	kr_fd_cache_reap(export->fds, now);
	if (atomic_load(&export->gone))
		return kr_fail(-EIO, "the exported directory %s has been removed, replaced or unmounted", export->path);
	return 0;
}

/* Requests that were under way then have been aborted, later ones find no connection. */
void kr_export_failed(struct kr_export *export, int err)
{
	if (export->is_fuse && (err == -ENOTCONN || err == -ECONNABORTED || err == -EIO))
		end_without_daemon(export);
}

int kr_export_ready(struct kr_export *export)
{
	uint64_t due = atomic_load(&export->next_tick_ns), now = kr_clock_ns();

	kr_cred_prepare_thread();
	if (now >= due && atomic_compare_exchange_strong(&export->next_tick_ns, &due, now + KR_NS_PER_S))
		return kr_export_tick(export);
	if (atomic_load(&export->gone))
		return kr_fail(-EIO, "the exported directory %s has been removed, replaced or unmounted", export->path);
	return 0;
}

int kr_export_writable(const struct kr_export *export)
{
	return export->refuse_changes ? kr_fail_errno(-EROFS, "changing an export that is read-only (--read-only)") : 0;
}

pthread_mutex_t *kr_export_lock_of(struct kr_export *export, const struct kr_fid *directory)
{
	return &export->directories[kr_fid_hash(directory) % KR_EXPORT_LOCKS];
}

/* --- versions --------------------------------------------------------------------------------- */

static uint64_t time_ns(struct kr_time t)
{
	return (uint64_t)t.sec * KR_NS_PER_S + t.nsec;
}

uint64_t kr_export_attr_version(const struct kr_export *export, const struct kr_attr *attr, uint64_t counter)
{
	uint64_t input[6] = {attr->ino, time_ns(attr->ctime), attr->size}, young_ns = atomic_load(&export->young_ns);
	uint64_t salt = export->doubts ? kr_doubts_of(export->doubts, time_ns(attr->ctime)) : 0;
	size_t length = 3;
	uint64_t version;

	if (salt)
		input[length++] = salt;
	/* A ctime from the future (after a change of the clock) is as doubtful as a young one. */
	if (young_ns && time_ns(attr->ctime) + young_ns > kr_clock_real_ns()) {
		if (counter == 0)
			return 0;
		input[length++] = counter;
		input[length++] = export->instance;
	}
	version = kr_fid_code(export->secret, input, length * sizeof(input[0]));
	return version ? version : 1;
}

void kr_export_doubt_past(struct kr_export *export, const struct kr_doubts *doubts)
{
	export->doubts = doubts;
}

void kr_export_doubt_ctime(struct kr_export *export, uint64_t young_ns)
{
	atomic_store(&export->young_ns, young_ns);
}

static bool probe_once(int fd, struct timespec *ctime)
{
	struct timespec before = *ctime;
	struct stat st;

	if (pwrite(fd, "", 1, 0) != 1 || fstat(fd, &st) < 0)
		return false;
	*ctime = st.st_ctim;
	return before.tv_sec != ctime->tv_sec || before.tv_nsec != ctime->tv_nsec;
}

/* *RET_KNOWN: false if the probe took so long that a coarse clock would have ticked. */
static bool probe_often(int private_fd, bool *ret_known)
{
	uint64_t started = kr_clock_ns();
	struct timespec ctime = {0};
	KR_AUTO_FD int fd = -1;
	int i;

	*ret_known = true;
	fd = openat(private_fd, "probe", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return false;
	for (i = 0; i < CTIME_PROBES; i++)
		if (!probe_once(fd, &ctime))
			break;
	unlinkat(private_fd, "probe", 0);
	*ret_known = i < CTIME_PROBES || kr_clock_ns() - started < CTIME_PROBES * KR_NS_PER_MS / 4;
	return i == CTIME_PROBES;
}

/* Whether quick changes, each followed by a stat, get different ctimes (multigrain timestamps, Linux 6.13). A busy
 * machine may need some attempts. */
static bool probe_ctime(int private_fd)
{
	bool known = false, exact = false;

	for (int i = 0; i < CTIME_ATTEMPTS && !known; i++)
		exact = probe_often(private_fd, &known);
	return known && exact;
}

static bool is_position(int fd, uint64_t position)
{
	return lseek(fd, (off_t)position, SEEK_SET) >= 0;
}

/* lseek's last position is the end of the longest possible file. */
static uint64_t probe_file_max(int private_fd)
{
	uint64_t least = 0, most = INT64_MAX;
	KR_AUTO_FD int fd = -1;

	fd = openat(private_fd, "probe", O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return most;
	unlinkat(private_fd, "probe", 0);
	if (is_position(fd, most) || !is_position(fd, INT32_MAX))
		return most;
	while (most - least > 1) {
		uint64_t middle = least + (most - least) / 2;

		*(is_position(fd, middle) ? &least : &most) = middle;
	}
	return least;
}

/* --- life ------------------------------------------------------------------------------------- */

static int open_root(struct kr_export *export, const char *path)
{
	struct stat root;

	export->path = realpath(path, NULL);
	if (!export->path)
		return kr_fail_errno(-errno, "cannot export %s", path);
	export->root_fd = open(export->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (export->root_fd < 0)
		return kr_fail_errno(-errno, "cannot export %s", path);
	if (fstat(export->root_fd, &root) < 0)
		return kr_fail_errno(-errno, "cannot export %s", path);
	export->root_dev = root.st_dev;
	export->root_volume = kr_entry_volume(export->root_fd);
	export->is_fuse = kr_is_fuse(export->root_fd);
	export->proc_fd = open("/proc/self/fd", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (export->proc_fd < 0)
		return kr_fail_errno(-errno, "cannot open /proc/self/fd (is /proc mounted?)");
	return 0;
}

static bool handles_work(struct kr_export *export)
{
	KR_AUTO_FD int fd = -1;
	struct kr_fid fid;

	export->by_handle = true;
	export->no_handles = kr_entry_identify(export, export->root_fd, NULL, NULL, &fid);
	if (!export->no_handles)
		export->no_handles = kr_entry_open(export, &fid, &fd);
	return export->no_handles == 0;
}

static int choose_identity(struct kr_export *export, bool by_inode)
{
	struct kr_identity root;
	int r;

	export->by_handle = !by_inode && !export->is_fuse && handles_work(export);
	if (!export->by_handle) {
		r = kr_entry_inode(export->root_fd, &root);
		if (r < 0)
			return r;
		export->inode_paths = kr_inode_paths_new(export, &root);
	}
	return kr_entry_identify(export, export->root_fd, NULL, NULL, &export->root);
}

static int set_up(struct kr_export *export, const struct kr_export_options *options)
{
	int r;

	memcpy(export->secret, options->secret, sizeof(export->secret));
	export->refuse_changes = options->read_only;
	export->aliases = options->aliases;
	export->gateway = options->gateway;
	if (getrandom(&export->instance, sizeof(export->instance), 0) != sizeof(export->instance))
		return kr_fail_errno(-errno, "cannot draw a random number");
	kr_cred_prepare_thread();
	export->callers_ids = kr_cred_can_switch();
	r = open_root(export, options->path);
	if (r == 0)
		r = kr_private_dir_open(export);
	if (r == 0 && options->server)
		r = kr_private_dir_sign(export, options->server, options->awaits);
	if (r == 0)
		r = choose_identity(export, options->identity_by_inode);
	if (r < 0)
		return r;
	export->file_max = INT64_MAX;
	if (!export->read_only && !export->refuse_changes) {
		/* A FUSE filesystem's ctimes may come from several machines: one's clock says nothing of the others. */
		export->exact_ctime = !export->is_fuse && probe_ctime(export->private_fd);
		export->file_max = probe_file_max(export->private_fd);
	}
	atomic_init(&export->young_ns, export->exact_ctime ? 0 : ctime_coarse_ns);
	return kr_orphans_new(export, &export->orphans);
}

int kr_export_new(const struct kr_export_options *options, struct kr_export **ret_export)
{
	struct kr_export *export = kr_xcalloc(1, sizeof(*export));
	int i, r;

	export->root_fd = export->proc_fd = export->private_fd = -1;
	for (i = 0; i < KR_EXPORT_LOCKS; i++)
		pthread_mutex_init(&export->directories[i], NULL);
	pthread_mutex_init(&export->widening, NULL);
	pthread_mutex_init(&export->renewing, NULL);
	kr_table_init(&export->restored_dirs);
	export->fds = kr_fd_cache_new(options->max_fds ? options->max_fds : KR_EXPORT_FDS);
	atomic_store(&export->next_tick_ns, kr_clock_ns() + KR_NS_PER_S);
	r = set_up(export, options);
	if (r < 0) {
		kr_export_free(export);
		return r;
	}
	*ret_export = export;
	return 0;
}

static void close_if_open(int fd)
{
	if (fd >= 0)
		close(fd);
}

void kr_export_free(struct kr_export *export)
{
	int i;

	if (!export)
		return;
	kr_orphans_free(export->orphans);
	kr_inode_paths_free(export->inode_paths);
	kr_restored_dirs_fini(&export->restored_dirs);
	kr_fd_cache_free(export->fds);
	close_if_open(export->private_fd);
	close_if_open(export->proc_fd);
	close_if_open(export->root_fd);
	for (i = 0; i < KR_EXPORT_LOCKS; i++)
		pthread_mutex_destroy(&export->directories[i]);
	pthread_mutex_destroy(&export->widening);
	pthread_mutex_destroy(&export->renewing);
	free(export->path);
	free(export);
}

void kr_export_info(struct kr_export *export, struct kr_export_info *ret_info)
{
	*ret_info = (struct kr_export_info){
		.by_handle = export->by_handle,
		.is_fuse = export->is_fuse,
		.callers_ids = export->callers_ids,
		.read_only = export->read_only || export->refuse_changes,
		.no_handles = export->no_handles,
		.exact_ctime = export->exact_ctime,
		.file_max = export->file_max,
		.reads = atomic_load(&export->reads),
		.read_bytes = atomic_load(&export->read_bytes),
		.writes = atomic_load(&export->writes),
		.write_bytes = atomic_load(&export->write_bytes),
		.orphans = kr_orphans_count(export->orphans),
		.fds = kr_fd_cache_count(export->fds),
	};
}

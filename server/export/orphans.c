#include "server/export/orphans.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "common/base/log.h"
#include "common/base/table.h"
#include "server/export/export_priv.h"
#include "server/export/private_dir.h"

enum { NAME_SIZE = KR_ORPHAN_NAME_SIZE };
static const char directory_name[] = "orphans";

/* A file that is held, orphaned, or being removed. */
struct held {
	struct kr_table_link link;
	struct kr_fid fid;
	uint64_t holds;
	bool removing;        /* by one thread; others wait */
	char name[NAME_SIZE]; /* in the directory; "": not there */
	int fd;               /* keeps an orphan for which the directory had no room; -1: none */
	int pin;              /* O_PATH, while there are holds; -1: none */
};

struct kr_orphans {
	struct kr_export *export;
	int fd;                  /* .kairan/orphans; -1: read-only */
	pthread_mutex_t lock;    /* guards all below; never held over a system call that waits */
	struct kr_fid directory; /* of fd */
	pthread_cond_t removed;
	struct kr_table table;
	uint32_t pins, pins_max; /* half of the descriptors may be pins */
	_Atomic uint32_t count;  /* of orphans */
};

static struct held *find(struct kr_orphans *orphans, const struct kr_fid *fid)
{
	return KR_TABLE_FIND(struct held, held, &orphans->table, kr_fid_hash(fid), link, kr_fid_equal(&held->fid, fid));
}

static struct held *find_or_add(struct kr_orphans *orphans, const struct kr_fid *fid)
{
	struct held *held = find(orphans, fid);

	if (held)
		return held;
	held = kr_xcalloc(1, sizeof(*held));
	held->fid = *fid;
	held->fd = held->pin = -1;
	kr_table_insert(&orphans->table, &held->link, kr_fid_hash(fid));
	return held;
}

/* Waits until no thread removes the file; the entry may be a new one afterwards. */
static struct held *settle(struct kr_orphans *orphans, const struct kr_fid *fid, bool add)
{
	struct held *held;

	while ((held = find(orphans, fid)) && held->removing)
		pthread_cond_wait(&orphans->removed, &orphans->lock);
	return held || !add ? held : find_or_add(orphans, fid);
}

static void free_if_idle(struct kr_orphans *orphans, struct held *held)
{
	if (held->holds > 0 || held->removing || held->name[0] || held->fd >= 0)
		return;
	kr_table_remove(&orphans->table, &held->link);
	free(held);
}

static void set_name(struct kr_orphans *orphans, struct held *held, const char *name)
{
	if (!held->name[0] && name[0])
		atomic_fetch_add(&orphans->count, 1);
	if (held->name[0] && !name[0])
		atomic_fetch_sub(&orphans->count, 1);
	snprintf(held->name, sizeof(held->name), "%s", name);
}

/* The caller owns the result; -1: HELD has none. */
static int take_fd(struct kr_orphans *orphans, struct held *held)
{
	int fd = held->fd;

	if (fd >= 0)
		atomic_fetch_sub(&orphans->count, 1);
	held->fd = -1;
	return fd;
}

static void make_name(const struct kr_fid *fid, char kind, char name[NAME_SIZE])
{
	const uint8_t *code = fid->bytes + fid->length - 8;

	snprintf(name, NAME_SIZE, "%c%02x%02x%02x%02x%02x%02x%02x%02x", kind, code[0], code[1], code[2], code[3],
		code[4], code[5], code[6], code[7]);
}

/* --- life ------------------------------------------------------------------------------------- */

static int list_one(struct kr_orphans *orphans, const char *name)
{
	KR_AUTO_FD int fd = -1;
	struct held *held;
	struct kr_fid fid;
	int r;

	if ((name[0] != 'o' && name[0] != 't') || strlen(name) != NAME_SIZE - 1)
		return 0;
	r = kr_entry_child(orphans->fd, name, &fd);
	if (r == 0)
		r = kr_entry_identify(orphans->export, fd, &orphans->directory, name, &fid);
	if (r < 0)
		return r;
	held = find_or_add(orphans, &fid);
	if (held->name[0] == 0)
		set_name(orphans, held, name);
	return 0;
}

static int list_all(struct kr_orphans *orphans)
{
	DIR *stream = kr_opendir_at(orphans->fd, ".");
	struct dirent *entry;
	int r = 0;

	if (!stream)
		return kr_fail_errno(-errno, "cannot list the orphans of the export");
	while (r == 0 && (entry = readdir(stream)))
		r = list_one(orphans, entry->d_name);
	closedir(stream);
	return r;
}

/* Makes or opens the directory and adds it to the known names. */
static int open_directory(struct kr_orphans *orphans)
{
	int r, private_fd = orphans->export->private_fd;
	struct kr_fid private, directory;
	KR_AUTO_FD int fd = -1;

	if (mkdirat(private_fd, directory_name, 0700) < 0 && errno != EEXIST)
		return kr_fail_errno(-errno, "cannot make %s/%s", orphans->export->private_name, directory_name);
	fd = openat(private_fd, directory_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return kr_fail_errno(-errno, "cannot open %s/%s", orphans->export->private_name, directory_name);
	r = kr_entry_identify(
		orphans->export, private_fd, &orphans->export->root, orphans->export->private_name, &private);
	if (r == 0)
		r = kr_entry_identify(orphans->export, fd, &private, directory_name, &directory);
	if (r < 0)
		return r;
	KR_SCOPED_LOCK(&orphans->lock);
	if (orphans->fd < 0) {
		orphans->fd = fd;
		fd = -1;
	} else if (dup3(fd, orphans->fd, O_CLOEXEC) < 0) {
		return kr_fail_errno(-errno, "cannot open %s/%s", orphans->export->private_name, directory_name);
	}
	orphans->directory = directory;
	return 0;
}

/* A program on the server had removed it, with .kairan or alone. */
static int renew(struct kr_orphans *orphans)
{
	int r;
	KR_SCOPED_LOCK(&orphans->export->renewing);

	r = kr_private_dir_renew(orphans->export);
	return r < 0 || !kr_private_dir_is_removed(orphans->fd) ? r : open_directory(orphans);
}

static struct kr_fid directory_of(struct kr_orphans *orphans)
{
	KR_SCOPED_LOCK(&orphans->lock);

	return orphans->directory;
}

int kr_orphans_new(struct kr_export *export, struct kr_orphans **ret_orphans)
{
	struct kr_orphans *orphans = kr_xcalloc(1, sizeof(*orphans));
	struct rlimit files;
	int r = 0;

	orphans->export = export;
	orphans->fd = -1;
	pthread_mutex_init(&orphans->lock, NULL);
	pthread_cond_init(&orphans->removed, NULL);
	orphans->pins_max =
		getrlimit(RLIMIT_NOFILE, &files) == 0 ? (uint32_t)KR_MIN(files.rlim_cur / 2, (rlim_t)UINT32_MAX) : 0;
	kr_table_init(&orphans->table);
	if (export->private_fd >= 0)
		r = open_directory(orphans);
	if (r == 0 && export->private_fd >= 0)
		r = list_all(orphans);
	if (r < 0)
		kr_orphans_free(orphans);
	else
		*ret_orphans = orphans;
	return r;
}

void kr_orphans_free(struct kr_orphans *orphans)
{
	struct held *held;

	if (!orphans)
		return;
	KR_TABLE_FOR_EACH(held, &orphans->table, link) {
		kr_auto_fd_cleanup(&held->fd);
		kr_auto_fd_cleanup(&held->pin);
	}
	kr_table_free_all(&orphans->table, offsetof(struct held, link));
	if (orphans->fd >= 0)
		close(orphans->fd);
	pthread_mutex_destroy(&orphans->lock);
	pthread_cond_destroy(&orphans->removed);
	free(orphans);
}

/* --- holds ------------------------------------------------------------------------------------ */

void kr_orphans_hold(struct kr_orphans *orphans, const struct kr_fid *fid, uint32_t count)
{
	KR_SCOPED_LOCK(&orphans->lock);

	settle(orphans, fid, true)->holds += count;
}

/* Ends the removal of HELD's last link. The caller holds the lock, which the call gives up in between. */
static void bury(struct kr_orphans *orphans, struct held *held)
{
	struct kr_fid directory = orphans->directory;
	int fd = take_fd(orphans, held);
	char name[NAME_SIZE];

	memcpy(name, held->name, sizeof(name));
	held->removing = true;
	pthread_mutex_unlock(&orphans->lock);
	kr_auto_fd_cleanup(&fd);
	kr_fd_cache_drop(orphans->export->fds, &held->fid, true);
	if (name[0] && unlinkat(orphans->fd, name, 0) < 0 && errno != ENOENT)
		kr_log_error("cannot remove %s/%s/%s: %s", orphans->export->private_name, directory_name, name,
			strerror(errno));
	kr_entry_forget(orphans->export, &held->fid, &directory, name, true);
	pthread_mutex_lock(&orphans->lock);
	held->removing = false;
	set_name(orphans, held, "");
	pthread_cond_broadcast(&orphans->removed);
	free_if_idle(orphans, held);
}

bool kr_orphans_release(struct kr_orphans *orphans, const struct kr_fid *fid, uint32_t count)
{
	struct held *held;
	bool last;
	KR_SCOPED_LOCK(&orphans->lock);

	held = settle(orphans, fid, false);
	if (!held || held->holds == 0)
		return false;
	held->holds -= KR_MIN(count, held->holds);
	last = held->holds == 0;
	if (last && held->pin >= 0) {
		close(held->pin);
		held->pin = -1;
		orphans->pins--;
	}
	if (last && (held->name[0] || held->fd >= 0))
		bury(orphans, held);
	else
		free_if_idle(orphans, held);
	return last;
}

void kr_orphans_pin(struct kr_orphans *orphans, const struct kr_fid *fid, int fd)
{
	struct held *held;
	int unused = fd;

	pthread_mutex_lock(&orphans->lock);
	held = find(orphans, fid);
	if (held && held->holds > 0 && held->pin < 0 && orphans->pins < orphans->pins_max) {
		held->pin = fd;
		orphans->pins++;
		unused = -1;
	}
	pthread_mutex_unlock(&orphans->lock);
	kr_auto_fd_cleanup(&unused);
}

int kr_orphans_open_held(struct kr_orphans *orphans, const struct kr_fid *fid, int *ret_fd)
{
	const struct held *held;
	int fd;
	KR_SCOPED_LOCK(&orphans->lock);

	held = find(orphans, fid);
	fd = held && held->pin >= 0 ? fcntl(held->pin, F_DUPFD_CLOEXEC, 0) : -1;
	if (fd < 0)
		return -ESTALE;
	*ret_fd = fd;
	return 0;
}

static struct held *find_forsaken(const struct kr_orphans *orphans)
{
	struct held *held;

	KR_TABLE_FOR_EACH(held, &orphans->table, link)
		if (held->holds == 0 && !held->removing && held->name[0])
			break;
	return held;
}

void kr_orphans_sweep(struct kr_orphans *orphans)
{
	struct held *held;
	KR_SCOPED_LOCK(&orphans->lock);

	while ((held = find_forsaken(orphans)))
		bury(orphans, held);
}

bool kr_orphans_find(struct kr_orphans *orphans, const struct kr_fid *fid, bool *ret_nameable)
{
	struct held *held;

	if (!orphans || atomic_load(&orphans->count) == 0)
		return false;
	KR_SCOPED_LOCK(&orphans->lock);
	held = find(orphans, fid);
	if (!held || !held->name[0])
		return false;
	if (ret_nameable)
		*ret_nameable = held->name[0] == 't';
	return true;
}

bool kr_orphans_keeps_open(struct kr_orphans *orphans, const struct kr_fid *fid)
{
	struct held *held;

	if (!orphans || atomic_load(&orphans->count) == 0)
		return false;
	KR_SCOPED_LOCK(&orphans->lock);
	held = find(orphans, fid);
	return held && held->fd >= 0;
}

int kr_orphans_open(struct kr_orphans *orphans, const struct kr_fid *fid, int *ret_fd)
{
	struct held *held;
	int fd;

	if (!orphans || atomic_load(&orphans->count) == 0)
		return -ESTALE;
	KR_SCOPED_LOCK(&orphans->lock);
	held = find(orphans, fid);
	if (!held || held->fd < 0)
		return -ESTALE;
	fd = fcntl(held->fd, F_DUPFD_CLOEXEC, 0);
	if (fd < 0)
		return kr_fail_errno(-errno, "opening a file that has been removed");
	*ret_fd = fd;
	return 0;
}

uint32_t kr_orphans_count(struct kr_orphans *orphans)
{
	return atomic_load(&orphans->count);
}

/* --- removals --------------------------------------------------------------------------------- */

static int try_link(struct kr_orphans *orphans, int fd, const char *name)
{
	struct kr_proc_name proc = kr_entry_proc_name(fd);
	int err = KR_FAULT("orphan.link");

	if (err < 0)
		return err;
	return linkat(orphans->export->proc_fd, proc.text, orphans->fd, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
}

static int link_here(struct kr_orphans *orphans, int fd, const char *name)
{
	int r = try_link(orphans, fd, name);

	return r == -ENOENT && renew(orphans) == 0 ? try_link(orphans, fd, name) : r;
}

static bool has_other_names(int fd)
{
	struct stat st;

	return fstatat(fd, "", &st, AT_EMPTY_PATH) == 0 && st.st_nlink > 1;
}

/* The filesystem has no room for a link, nor for a rename: btrfs has a reserve for unlink only. Or the file lies in a
 * btrfs subvolume of its own, which neither leaves. The descriptor FD, doubled, keeps the file until the server ends. A
 * file with other names needs no keeping. ERR if that cannot be. */
static int keep_open(struct kr_orphans *orphans, int fd, struct kr_removal *removal, int err)
{
	int kept_fd;

	if (has_other_names(fd))
		return 0;
	kept_fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (kept_fd < 0)
		return err;
	KR_SCOPED_LOCK(&orphans->lock);
	find(orphans, &removal->fid)->fd = kept_fd;
	atomic_fetch_add(&orphans->count, 1);
	removal->opened = true;
	return 0;
}

static int keep(struct kr_orphans *orphans, int fd, struct kr_removal *removal, bool needed)
{
	struct kr_fid directory, same;
	char name[NAME_SIZE];
	int r;

	if (orphans->fd < 0)
		return kr_fail_errno(-EROFS, "removing the name of an open file");
	make_name(&removal->fid, 'o', name);
	r = link_here(orphans, fd, name);
	removal->made = r == 0;
	if (r < 0 && !needed)
		return 0;
	if (r == -EPERM || r == -EOPNOTSUPP || r == -EMLINK) {
		/* The filesystem has no hard links. */
		r = renameat2(removal->dirfd, removal->name, orphans->fd, name, RENAME_NOREPLACE) < 0 ? -errno : 0;
		removal->moved = r == 0;
	} else if (r == -ENOSPC || r == -EDQUOT || r == -EXDEV) {
		r = keep_open(orphans, fd, removal, r);
	}
	if (r < 0)
		return kr_fail_errno(r, "keeping '%s', which is open, in %s/%s", removal->name,
			orphans->export->private_name, directory_name);
	if (!removal->made && !removal->moved)
		return 0;
	directory = directory_of(orphans);
	kr_entry_identify(orphans->export, fd, &directory, name, &same);
	return 0;
}

static void undo_keep(struct kr_removal *removal)
{
	struct kr_orphans *orphans = removal->orphans;
	char name[NAME_SIZE];
	int r = 0;

	make_name(&removal->fid, 'o', name);
	if (removal->made)
		r = unlinkat(orphans->fd, name, 0);
	else if (removal->moved)
		r = renameat2(orphans->fd, name, removal->dirfd, removal->name, RENAME_NOREPLACE);
	if (r < 0)
		kr_log_error("%s/%s/%s stays after a removal that failed: %s", orphans->export->private_name,
			directory_name, name, strerror(errno));
}

int kr_orphans_begin_removal(struct kr_orphans *orphans, const struct kr_fid *fid, int fd, int dirfd, const char *name,
	bool delay, struct kr_removal *removal)
{
	struct held *held;
	bool needed;
	int r = 0;

	*removal = (struct kr_removal){.orphans = orphans, .fid = *fid, .dirfd = dirfd, .name = name, .begun = true};
	{
		KR_SCOPED_LOCK(&orphans->lock);
		held = settle(orphans, fid, true);
		held->removing = true;
		removal->orphaned = held->name[0] != 0;
		needed = held->holds > 0 && !removal->orphaned;
	}
	/* No other thread takes its other names now.  Without handles only the removed one may be known. */
	if (needed && orphans->export->by_handle && has_other_names(fd))
		needed = false;
	if (needed || (delay && !removal->orphaned))
		r = keep(orphans, fd, removal, needed);
	removal->orphaned |= r == 0 && (removal->made || removal->moved || removal->opened);
	removal->delayed = delay && removal->orphaned && !removal->opened;
	if (r < 0)
		kr_orphans_end_removal(removal, false);
	return r;
}

void kr_orphans_end_removal(struct kr_removal *removal, bool success)
{
	struct kr_orphans *orphans = removal->orphans;
	KR_AUTO_FD int fd = -1;
	char name[NAME_SIZE];
	struct held *held;

	if (!removal->begun)
		return;
	removal->begun = false;
	if (!success)
		undo_keep(removal);
	KR_SCOPED_LOCK(&orphans->lock);
	held = find(orphans, &removal->fid);
	held->removing = false;
	if (!success)
		fd = take_fd(orphans, held);
	make_name(&removal->fid, 'o', name);
	if (success && (removal->made || removal->moved))
		set_name(orphans, held, name);
	if (success && removal->delayed)
		held->holds++;
	pthread_cond_broadcast(&orphans->removed);
	free_if_idle(orphans, held);
}

/* --- files without a name --------------------------------------------------------------------- */

static int try_make(struct kr_orphans *orphans, const char *name)
{
	int fd = openat(orphans->fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : fd;
}

int kr_orphans_make(struct kr_orphans *orphans, char temporary[KR_ORPHAN_NAME_SIZE], int *ret_fd)
{
	uint64_t random;
	int fd;

	if (orphans->fd < 0)
		return kr_fail_errno(-EROFS, "making a file without a name");
	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return kr_fail_errno(-errno, "cannot draw a random number");
	snprintf(temporary, NAME_SIZE, "o%016" PRIx64, random);
	fd = try_make(orphans, temporary);
	if (fd == -ENOENT && renew(orphans) == 0)
		fd = try_make(orphans, temporary);
	if (fd < 0)
		return kr_fail_errno(fd, "making a file in %s/%s", orphans->export->private_name, directory_name);
	*ret_fd = fd;
	return 0;
}

int kr_orphans_adopt(struct kr_orphans *orphans, const struct kr_fid *fid, int fd, const char *temporary)
{
	struct kr_fid directory, same;
	char name[NAME_SIZE];
	struct held *held;
	int r;

	if (orphans->fd < 0)
		return kr_fail_errno(-EROFS, "making a file without a name");
	make_name(fid, 't', name);
	r = link_here(orphans, fd, name);
	if (temporary[0])
		unlinkat(orphans->fd, temporary, 0);
	if (r < 0)
		return kr_fail_errno(
			r, "keeping a file without a name in %s/%s", orphans->export->private_name, directory_name);
	directory = directory_of(orphans);
	kr_entry_identify(orphans->export, fd, &directory, name, &same);
	KR_SCOPED_LOCK(&orphans->lock);
	held = settle(orphans, fid, true);
	held->holds++;
	set_name(orphans, held, name);
	return 0;
}

void kr_orphans_leave(struct kr_orphans *orphans, const struct kr_fid *fid)
{
	struct held *held;
	KR_SCOPED_LOCK(&orphans->lock);

	held = settle(orphans, fid, false);
	if (held && held->holds > 0)
		held->holds--;
}

int kr_orphans_named(struct kr_orphans *orphans, const struct kr_fid *fid)
{
	struct kr_fid directory;
	char name[NAME_SIZE];
	struct held *held;

	make_name(fid, 't', name);
	if (unlinkat(orphans->fd, name, 0) < 0 && errno != ENOENT)
		return kr_fail_errno(-errno, "removing %s/%s/%s", orphans->export->private_name, directory_name, name);
	directory = directory_of(orphans);
	kr_entry_forget(orphans->export, fid, &directory, name, true);
	KR_SCOPED_LOCK(&orphans->lock);
	held = settle(orphans, fid, false);
	if (held) {
		set_name(orphans, held, "");
		free_if_idle(orphans, held);
	}
	return 0;
}

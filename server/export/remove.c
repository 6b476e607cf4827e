/* Removing names: unlink, rmdir, rename; and orphaning held files that lose their last name. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "server/export/export_priv.h"
#include "server/base/fid.h"
#include "server/export/intent.h"

enum { RENAME_KNOWN = RENAME_NOREPLACE | RENAME_EXCHANGE };

/* The file that is about to lose a name. */
struct victim {
	int fd; /* -1: none */
	struct kr_fid fid;
	struct stat st;
	struct kr_own_change own; /* of attributes */
};

static int find_victim(
	struct kr_export *export, int dirfd, const struct kr_fid *parent, const char *name, struct victim *victim)
{
	int r = kr_entry_child(dirfd, name, &victim->fd);

	if (r == -EXDEV)
		return kr_fail(-EBUSY, "'%s': something is mounted here", name);
	if (r == 0)
		r = kr_entry_identify(export, victim->fd, parent, name, &victim->fid);
	if (r == 0 && fstatat(victim->fd, "", &victim->st, AT_EMPTY_PATH) < 0)
		r = kr_fail_errno(-errno, "looking at '%s'", name);
	victim->own.known = r == 0 && S_ISREG(victim->st.st_mode) &&
		kr_entry_attr(export, victim->fd, &victim->fid, &victim->own.before) == 0;
	return r;
}

static struct kr_own_change end_own(struct kr_export *export, const struct victim *victim)
{
	struct kr_own_change own = victim->own;

	own.known = own.known && kr_entry_attr(export, victim->fd, &victim->fid, &own.after) == 0;
	return own;
}

/* Whether CRED may remove VICTIM's name. The server checks before it orphans a held file with its own rights; the
 * kernel decides about the removal itself. */
static int may_remove(struct kr_export *export, const struct kr_cred *cred, int dirfd, const struct victim *victim)
{
	struct stat dir;
	int r = kr_export_may(export, cred, dirfd, W_OK | X_OK);

	if (r < 0 || !cred || cred->uid == 0 || !export->callers_ids)
		return r;
	if (fstatat(dirfd, "", &dir, AT_EMPTY_PATH) < 0)
		return kr_fail_errno(-errno, "looking at a directory of the export");
	if (dir.st_mode & S_ISVTX && dir.st_uid != cred->uid && victim->st.st_uid != cred->uid)
		return kr_fail_errno(-EPERM, "removing another user's file from a sticky directory");
	return 0;
}

/* Reports what the removal has left of the file. */
static void report(struct kr_export *export, const struct victim *victim, const struct kr_removal *removal,
	struct kr_removed *ret_removed)
{
	struct stat st;
	bool known, gone, named;

	known = fstatat(victim->fd, "", &st, AT_EMPTY_PATH) == 0;
	gone = known && ((st.st_nlink == 0 && !removal->opened) || S_ISDIR(st.st_mode));
	named = known && !gone && st.st_nlink > (removal->orphaned ? 1 : 0);
	if (gone)
		kr_fd_cache_drop(export->fds, &victim->fid, true);
	if (ret_removed)
		*ret_removed = (struct kr_removed){.valid = true,
			.orphaned = removal->orphaned,
			.named = named,
			.gone = gone,
			.delayed = removal->delayed,
			.fid = victim->fid,
			.own = end_own(export, victim)};
}

static int unlink_as(struct kr_export *export, const struct kr_cred *cred, int dirfd, const char *name, bool directory)
{
	KR_AS as = {0};
	int r;

	r = kr_cred_enter(&as, export->callers_ids, cred);
	if (r < 0)
		return r;
	return unlinkat(dirfd, name, directory ? AT_REMOVEDIR : 0) < 0 ? kr_fail_errno(-errno, "removing '%s'", name) :
									 0;
}

/* Whether the file has got its name a moment ago, or may have: that sets ctime. */
static bool is_young(const struct stat *st)
{
	const int64_t age_s = kr_clock_real_s() - st->st_ctim.tv_sec;

	return age_s < KR_EXPORT_YOUNG_S;
}

/* Whether VICTIM gets a delayed unlink: while the filesystem has room for many. */
static bool may_delay(const struct victim *victim, uint64_t delayed_max)
{
	const uint64_t spare_bytes = UINT64_C(256) << 20, spare_inodes = 4096;
	struct statvfs room;

	if (delayed_max == 0 || victim->st.st_nlink != 1 || (uint64_t)victim->st.st_size > delayed_max ||
		!is_young(&victim->st) || fstatvfs(victim->fd, &room) < 0)
		return false;
	return (uint64_t)room.f_bavail * room.f_frsize > spare_bytes &&
		(room.f_files == 0 || room.f_favail > spare_inodes);
}

static int remove_victim(struct kr_export *export, const struct kr_cred *cred, int dirfd, const char *name,
	bool directory, uint64_t delayed_max, const struct victim *victim, struct kr_removal *ret_removal)
{
	struct kr_removal removal = {0};
	int r = 0;

	if (!directory && S_ISREG(victim->st.st_mode))
		r = may_remove(export, cred, dirfd, victim);
	if (r == 0 && !directory && S_ISREG(victim->st.st_mode))
		r = kr_orphans_begin_removal(export->orphans, &victim->fid, victim->fd, dirfd, name,
			may_delay(victim, delayed_max), &removal);
	if (r == 0 && !removal.moved)
		r = unlink_as(export, cred, dirfd, name, directory);
	kr_orphans_end_removal(&removal, r == 0);
	*ret_removal = removal;
	return r;
}

int kr_export_remove(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, bool directory, uint64_t delayed_max, struct kr_removed *ret_removed)
{
	struct kr_intent_change change = {.kind = KR_INTENT_REMOVE, .parent = parent, .name = name};
	struct kr_removal removal = {0};
	struct victim victim = {.fd = -1};
	KR_AUTO_ENTRY dir = KR_NO_ENTRY;
	int r;

	r = kr_entry_check(export, parent, name, -ENOENT);
	if (r == 0)
		r = kr_export_writable(export);
	if (r == 0)
		r = kr_entry_get_dir(export, parent, &dir);
	if (r == 0)
		r = kr_export_may(export, cred, dir.fd, X_OK);
	if (r < 0)
		return r;
	{
		KR_SCOPED_LOCK(kr_export_lock_of(export, parent));

		r = find_victim(export, dir.fd, parent, name, &victim);
		if (r == 0)
			change.before = kr_fid_hash(&victim.fid);
		if (r == 0 && !kr_intent_is_for(change.before))
			r = -ENOENT;
		if (r == 0) {
			kr_intent_begin(&change);
			r = remove_victim(export, cred, dir.fd, name, directory, delayed_max, &victim, &removal);
			kr_intent_end(r, 0);
		}
	}
	if (r == 0) {
		kr_entry_forget(export, &victim.fid, parent, name, victim.st.st_nlink > 1);
		report(export, &victim, &removal, ret_removed);
	}
	/* Frees a big file's blocks, outside of the lock. */
	kr_auto_fd_cleanup(&victim.fd);
	return kr_entry_error_in(&dir, r);
}

/* --- rename ----------------------------------------------------------------------------------- */

struct rename_ends {
	int from_fd, to_fd;
	const struct kr_fid *from, *to;
	const char *from_name, *to_name;
	uint32_t flags;
	uint64_t delayed_max;
};

static int rename_as(struct kr_export *export, const struct kr_cred *cred, const struct rename_ends *ends)
{
	KR_AS as = {0};
	int r;

	r = kr_cred_enter(&as, export->callers_ids, cred);
	if (r < 0)
		return r;
	r = renameat2(ends->from_fd, ends->from_name, ends->to_fd, ends->to_name, ends->flags);
	return r < 0 ? kr_fail_errno(-errno, "renaming '%s' to '%s'", ends->from_name, ends->to_name) : 0;
}

static bool replaces(const struct victim *source, const struct victim *target, uint32_t flags)
{
	return target->fd >= 0 && flags == 0 &&
		!(source->st.st_dev == target->st.st_dev && source->st.st_ino == target->st.st_ino);
}

static int find_ends(
	struct kr_export *export, const struct rename_ends *ends, struct victim *source, struct victim *target)
{
	int r = find_victim(export, ends->from_fd, ends->from, ends->from_name, source);

	if (r < 0)
		return r;
	r = find_victim(export, ends->to_fd, ends->to, ends->to_name, target);
	return r == -ENOENT ? 0 : r;
}

static void learn(struct kr_export *export, const struct rename_ends *ends, const struct victim *source,
	const struct victim *target, bool replaced)
{
	struct kr_fid same;

	if (!replaced && target->fd >= 0 && source->st.st_ino == target->st.st_ino)
		return;
	kr_entry_forget(export, &source->fid, ends->from, ends->from_name, source->st.st_nlink > 1);
	if (target->fd >= 0)
		kr_entry_forget(export, &target->fid, ends->to, ends->to_name, target->st.st_nlink > 1);
	if (ends->flags & RENAME_EXCHANGE)
		kr_entry_identify(export, target->fd, ends->from, ends->from_name, &same);
	kr_entry_identify(export, source->fd, ends->to, ends->to_name, &same);
}

static int move(struct kr_export *export, const struct kr_cred *cred, const struct rename_ends *ends,
	const struct victim *source, const struct victim *target, bool replaced)
{
	int r;

	if (export->by_handle)
		return rename_as(export, cred, ends);
	kr_inode_paths_begin_move(export->inode_paths);
	r = rename_as(export, cred, ends);
	if (r == 0)
		learn(export, ends, source, target, replaced);
	kr_inode_paths_end_move(export->inode_paths);
	return r;
}

static void begin_intent(const struct rename_ends *ends, const struct victim *source, const struct victim *target)
{
	kr_intent_begin(&(struct kr_intent_change){.kind = KR_INTENT_RENAME,
		.parent = ends->from,
		.name = ends->from_name,
		.before = kr_fid_hash(&source->fid),
		.other = target->fd < 0 ? 0 : kr_fid_hash(&target->fid),
		.new_parent = ends->to,
		.new_name = ends->to_name});
}

static int rename_ends(struct kr_export *export, const struct kr_cred *cred, const struct rename_ends *ends,
	struct victim *source, struct victim *target, struct kr_removed *ret_replaced)
{
	struct kr_removal removal = {0};
	bool replacing;
	int r;

	r = find_ends(export, ends, source, target);
	if (r == 0 && !kr_intent_is_for(kr_fid_hash(&source->fid)))
		r = -ENOENT;
	if (r < 0)
		return r;
	replacing = replaces(source, target, ends->flags);
	if (replacing && S_ISREG(target->st.st_mode))
		r = may_remove(export, cred, ends->to_fd, target);
	if (r == 0 && replacing && S_ISREG(target->st.st_mode))
		r = kr_orphans_begin_removal(export->orphans, &target->fid, target->fd, ends->to_fd, ends->to_name,
			may_delay(target, ends->delayed_max), &removal);
	begin_intent(ends, source, target);
	if (r == 0)
		r = move(export, cred, ends, source, target, replacing);
	kr_orphans_end_removal(&removal, r == 0);
	kr_intent_end(r, 0);
	if (r < 0)
		return r;
	if (replacing)
		report(export, target, &removal, ret_replaced);
	if (!replacing && target->fd >= 0 && ends->flags == 0)
		return 0; /* two names of one file: both stay */
	ret_replaced->moved = source->fid;
	ret_replaced->moved_own = end_own(export, source);
	if (ends->flags & RENAME_EXCHANGE) {
		ret_replaced->exchanged = target->fid;
		ret_replaced->exchanged_own = end_own(export, target);
	}
	return 0;
}

static int rename_locked(struct kr_export *export, const struct kr_cred *cred, const struct rename_ends *ends,
	struct victim *source, struct victim *target, struct kr_removed *ret_replaced)
{
	pthread_mutex_t *a = kr_export_lock_of(export, ends->from), *b = kr_export_lock_of(export, ends->to);
	int r;

	pthread_mutex_lock(KR_MIN(a, b));
	if (a != b)
		pthread_mutex_lock(KR_MAX(a, b));
	r = rename_ends(export, cred, ends, source, target, ret_replaced);
	if (a != b)
		pthread_mutex_unlock(KR_MAX(a, b));
	pthread_mutex_unlock(KR_MIN(a, b));
	return r;
}

int kr_export_rename(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *parent,
	const char *name, const struct kr_fid *new_parent, const char *new_name, uint32_t flags, uint64_t delayed_max,
	struct kr_removed *ret_replaced)
{
	struct rename_ends ends = {-1, -1, parent, new_parent, name, new_name, flags, delayed_max};
	struct victim source = {.fd = -1}, target = {.fd = -1};
	struct kr_removed replaced = {0};
	int r;

	if (flags & ~(uint32_t)RENAME_KNOWN || flags == RENAME_KNOWN)
		return kr_fail(-EINVAL, "rename flags %u", flags);
	r = kr_entry_check(export, parent, name, -ENOENT);
	if (r == 0)
		r = kr_entry_check(export, new_parent, new_name, -EPERM);
	if (r == 0)
		r = kr_export_writable(export);
	if (r == 0)
		r = kr_entry_open(export, parent, &ends.from_fd);
	if (r == 0)
		r = kr_entry_open(export, new_parent, &ends.to_fd);
	if (r == 0)
		r = kr_export_may(export, cred, ends.from_fd, X_OK);
	if (r == 0)
		r = kr_export_may(export, cred, ends.to_fd, X_OK);
	if (r == 0)
		r = rename_locked(export, cred, &ends, &source, &target, &replaced);
	if (r == 0 && ret_replaced)
		*ret_replaced = replaced;
	kr_auto_fd_cleanup(&source.fd);
	kr_auto_fd_cleanup(&target.fd);
	kr_auto_fd_cleanup(&ends.from_fd);
	kr_auto_fd_cleanup(&ends.to_fd);
	return r;
}

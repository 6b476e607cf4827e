/* Files and directories that a loss of power un-created: the server makes them anew, empty, for the node that had made
 * them (RESTORE in msgs.def).  See fid_aliases.h for their identities.
 *
 * What was removed must not come back.  The node knows what it has renamed or removed itself.  Removals by others show
 * in the directory: they set its ctime.  And a file system that has lost the creation of a name has lost all later
 * changes of the directory, too.  So INVARIANT: a file is made anew only in a directory that has not been changed since
 * the file was first made; the server's own restorations do not count.  (A removal in the same tick of the clock as the
 * creation would not show.  Other nodes cannot be that quick: they hear of a name when it has been synced.) */
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/export/export_priv.h"
#include "server/export/restored_dirs.h"

static void note_dir(struct kr_export *export, const struct kr_fid *dir)
{
	struct kr_attr attr;

	if (kr_export_getattr(export, dir, &attr) == 0)
		kr_restored_dirs_note(&export->restored_dirs, dir, attr.ctime);
}

/* 0 if no program can have removed the file from its directory. */
static int check_unchanged(struct kr_export *export, const struct kr_restore *restore)
{
	const struct kr_time *restored = kr_restored_dirs_ctime(&export->restored_dirs, restore->parent);
	struct kr_attr attr;
	int r = kr_export_getattr(export, restore->parent, &attr);

	if (r < 0 || (restored && kr_time_compare(attr.ctime, *restored) == 0) ||
		kr_time_compare(attr.ctime, restore->made) <= 0)
		return r;
	return kr_fail(
		-ESTALE, "'%s' may have been removed: its directory was changed after it was made", restore->name);
}

/* Whether NAME in the directory is the file already. */
static bool is_there(struct kr_export *export, const struct kr_restore *restore)
{
	struct kr_fid there;
	struct kr_attr attr;

	return kr_export_lookup(export, NULL, restore->parent, restore->name, &there, &attr) == 0 &&
		kr_fid_equal(&there, restore->file);
}

static int add_name(struct kr_export *export, const struct kr_restore *restore)
{
	struct kr_attr attr;
	int r;

	if (is_there(export, restore))
		return 0;
	r = check_unchanged(export, restore);
	if (r < 0)
		return r;
	r = kr_export_link(export, NULL, restore->file, restore->parent, restore->name, &attr);
	if (r == 0)
		r = kr_export_fsync(export, restore->parent, false);
	note_dir(export, restore->parent);
	return r;
}

/* Set-id bits are lost, as any change of a mode can be. */
static int set_owner(struct kr_export *export, const struct kr_restore *restore, int fd)
{
	const mode_t kept = S_ISDIR(restore->mode) ? 07777 : 0777;
	struct kr_proc_name proc = kr_entry_proc_name(fd);

	if (export->callers_ids && fchownat(fd, "", restore->uid, restore->gid, AT_EMPTY_PATH) < 0)
		return kr_fail_errno(-errno, "giving '%s' to its owner", restore->name);
	if (fchmodat(export->proc_fd, proc.text, restore->mode & kept, 0) < 0)
		return kr_fail_errno(-errno, "setting the mode of '%s'", restore->name);
	return 0;
}

/* FD is the file made anew.  From here on it has its old identity. */
static int adopt_identity(struct kr_export *export, const struct kr_restore *restore, int fd, bool named)
{
	struct kr_fid real;
	int r = set_owner(export, restore, fd);

	if (r == 0)
		r = kr_entry_identify(export, fd, named ? restore->parent : NULL, restore->name, &real);
	if (r == 0)
		r = kr_fid_aliases_add(export->aliases, restore->file, &real);
	return r;
}

/* An orphan without a name, with a hold. */
static int make_nameless(struct kr_export *export, const struct kr_restore *restore)
{
	char temporary[KR_ORPHAN_NAME_SIZE] = "";
	KR_AUTO_FD int dirfd = -1;
	KR_AUTO_FD int fd = -1;
	int r = kr_entry_open(export, restore->name[0] ? restore->parent : &export->root, &dirfd);

	if (r < 0)
		return r;
	fd = openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EOPNOTSUPP)
		r = kr_orphans_make(export->orphans, temporary, &fd);
	else if (fd < 0)
		r = kr_fail_errno(-errno, "making '%s' anew", restore->name);
	if (r < 0)
		return r;
	r = adopt_identity(export, restore, fd, false);
	return r < 0 ? r : kr_orphans_adopt(export->orphans, restore->file, fd, temporary);
}

static int restore_file(struct kr_export *export, const struct kr_restore *restore)
{
	int r = make_nameless(export, restore);

	if (r < 0)
		return r;
	if (!restore->name[0]) {
		kr_orphans_leave(export->orphans, restore->file);
		return 0;
	}
	r = add_name(export, restore);
	kr_export_release(export, restore->file, 1); /* removes it if it got no name */
	return r;
}

static int restore_directory(struct kr_export *export, const struct kr_restore *restore)
{
	const struct kr_make make = {.name = restore->name, .mode = S_IFDIR | 0700};
	KR_AUTO_FD int fd = -1;
	struct kr_attr attr;
	struct kr_fid made;
	int r = kr_export_make(export, NULL, restore->parent, &make, &made, &attr);

	if (r < 0)
		return r;
	r = kr_entry_open(export, &made, &fd);
	if (r == 0)
		r = adopt_identity(export, restore, fd, true);
	if (r < 0) {
		kr_export_remove(export, NULL, restore->parent, restore->name, true, 0, NULL);
		return r;
	}
	note_dir(export, restore->parent);
	note_dir(export, restore->file);
	return kr_export_fsync(export, restore->parent, false);
}

int kr_export_restore(struct kr_export *export, const struct kr_restore *restore, bool *ret_made)
{
	struct kr_identity identity;
	KR_AUTO_FD int fd = -1;
	int r = kr_export_writable(export);

	*ret_made = false;
	if (r < 0)
		return r;
	if (!export->aliases)
		return kr_fail(-EOPNOTSUPP, "this export keeps no identities of restored files");
	r = kr_fid_unseal(export->secret, restore->file, &identity);
	if (r == 0 && restore->name[0])
		r = kr_entry_check(export, restore->parent, restore->name, -EPERM);
	if (r < 0)
		return r;
	r = kr_entry_open(export, restore->file, &fd);
	if (r == 0) /* the name that was made last may be lost all the same, as with any change of a name */
		return restore->name[0] && S_ISREG(restore->mode) &&
				kr_fid_aliases_has(export->aliases, restore->file) ?
			add_name(export, restore) :
			0;
	if (r != -ESTALE)
		return r;
	r = restore->name[0] ? check_unchanged(export, restore) : 0;
	if (r < 0)
		return r;
	if (S_ISREG(restore->mode))
		r = restore_file(export, restore);
	else
		r = S_ISDIR(restore->mode) && restore->name[0] ? restore_directory(export, restore) : -EINVAL;
	*ret_made = r == 0 && restore->name[0];
	return r;
}

static bool is_gone(void *context, const struct kr_fid *alias)
{
	KR_AUTO_FD int fd = -1;

	return kr_entry_open(context, alias, &fd) == -ESTALE;
}

int kr_export_prune_aliases(struct kr_export *export)
{
	return kr_fid_aliases_prune(export->aliases, is_gone, export);
}

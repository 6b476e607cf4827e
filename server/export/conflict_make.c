/* Conflict files: late bytes of a node, beside the file that others have changed since.
 *
 * The server makes the file without a name, copies owner, mode and ACL of the original, records it, and names it last.
 * So the file is complete when clients first see it. A server killed in between finds it again by its identity, or not
 * at all. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/fault.h"
#include "server/export/export_priv.h"
#include "server/export/private_dir.h"

enum { TRIES = 10000, SUFFIX = 128, NODE = 64, SEARCH_ENTRIES = 2000000, SEARCH_DEPTH = 200 };
static const char acl[] = "system.posix_acl_access";
static const char fallback[] = "conflicts";

/* --- names ------------------------------------------------------------------------------------ */

/* A host name as part of a file name: at most NODE bytes, odd characters replaced. */
static void clean_node(const char *node, char clean[NODE + 1])
{
	size_t i;

	for (i = 0; i < NODE && node[i]; i++)
		clean[i] = (unsigned char)node[i] <= ' ' || node[i] == '/' || node[i] == 127 ? '_' : node[i];
	clean[i] = '\0';
}

void kr_export_conflict_name(
	const struct kr_conflict_make *make, const char *name, unsigned number, char ret_name[KR_NAME_MAX + 1])
{
	char node[NODE + 1], suffix[SUFFIX], more[16] = "";
	time_t when = (time_t)make->written.sec;
	struct tm utc = {0};
	size_t length = strlen(name);

	clean_node(make->node, node);
	gmtime_r(&when, &utc);
	if (number > 1)
		snprintf(more, sizeof(more), "-%u", number);
	snprintf(suffix, sizeof(suffix), ".conflict-%s-%04d%02d%02dT%02d%02d%02dZ%s", node,
		(utc.tm_year + 1900) % 10000, utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, more);
	if (length > KR_NAME_MAX - strlen(suffix)) { /* not in the middle of a character, if it is UTF-8 */
		size_t room = KR_NAME_MAX - strlen(suffix);

		length = room;
		while (length > room - 4 && ((unsigned char)name[length] & 0xc0) == 0x80)
			length--;
		if (((unsigned char)name[length] & 0xc0) == 0x80)
			length = room;
	}
	memcpy(ret_name, name, length);
	strcpy(ret_name + length, suffix);
}

/* --- where a file is now ---------------------------------------------------------------------- */

struct locate {
	struct kr_fid parent;
	char name[KR_NAME_MAX + 1];
};

static int resolve_parent(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *root,
	const char *path, struct kr_fid *ret_parent, char *name)
{
	struct kr_fid directory = *root;
	struct kr_attr attr;

	for (;;) {
		size_t length = strcspn(path, "/");
		int r;

		if (length == 0 || length > KR_NAME_MAX)
			return kr_fail(-ENOENT, "not a path of this mount");
		memcpy(name, path, length);
		name[length] = '\0';
		path += length;
		if (!*path)
			break;
		path++;
		r = kr_export_lookup(export, cred, &directory, name, &directory, &attr);
		if (r < 0)
			return r;
	}
	*ret_parent = directory;
	return kr_entry_check(export, ret_parent, name, -ENOENT);
}

static char *path_text(struct kr_export *export, const struct kr_fid *directory, const char *name)
{
	KR_AUTO_FD int dirfd = -1;
	size_t root = strlen(export->path);
	char path[PATH_MAX] = "", *text = NULL;

	if (kr_entry_open(export, directory, &dirfd) == 0) {
		ssize_t length = readlinkat(export->proc_fd, kr_entry_proc_name(dirfd).text, path, sizeof(path) - 1);

		path[KR_MAX(length, 0)] = '\0';
	}
	if (strncmp(path, export->path, root) == 0 && path[root] == '/' &&
		asprintf(&text, "%s/%s", path + root + 1, name) > 0)
		return text;
	return kr_xstrdup(name);
}

/* Whether NAME in the directory of DIRFD (PARENT) is FID. */
static bool is_here(struct kr_export *export, int dirfd, const struct kr_fid *parent, const char *name,
	const struct kr_fid *fid, struct locate *ret_place)
{
	struct kr_fid met;
	struct kr_attr attr;

	if (kr_entry_meet(export, dirfd, parent, name, &met, &attr) < 0 || !kr_fid_equal(&met, fid))
		return false;
	ret_place->parent = *parent;
	snprintf(ret_place->name, sizeof(ret_place->name), "%s", name);
	return true;
}

static bool is_at(
	struct kr_export *export, const struct locate *hint, const struct kr_fid *fid, struct locate *ret_place)
{
	KR_AUTO_FD int dirfd = -1;

	return hint->parent.length && hint->name[0] && kr_entry_open(export, &hint->parent, &dirfd) == 0 &&
		is_here(export, dirfd, &hint->parent, hint->name, fid, ret_place);
}

/* The kernel shows a descriptor's path by a name under which a program has met the file, if any. */
static bool is_known_to_kernel(struct kr_export *export, int fd, const struct kr_fid *fid, struct locate *ret_place)
{
	size_t root = strlen(export->path);
	char path[PATH_MAX], *inside = path + root + 1, *name;
	ssize_t length = readlinkat(export->proc_fd, kr_entry_proc_name(fd).text, path, sizeof(path) - 1);
	KR_AUTO_FD int dirfd = -1;
	struct kr_fid parent = export->root;
	int r;

	path[KR_MAX(length, 0)] = '\0';
	if (strncmp(path, export->path, root) != 0 || path[root] != '/' || !*inside)
		return false;
	name = strrchr(inside, '/');
	if (!name)
		return kr_entry_open(export, &parent, &dirfd) == 0 &&
			is_here(export, dirfd, &parent, inside, fid, ret_place);
	*name++ = '\0';
	r = kr_entry_child(export->root_fd, inside, &dirfd);
	if (r == 0)
		r = kr_entry_identify(export, dirfd, NULL, NULL, &parent);
	return r == 0 && is_here(export, dirfd, &parent, name, fid, ret_place);
}

struct search {
	struct kr_export *export;
	const struct kr_fid *fid;
	ino_t ino;
	unsigned entries; /* still to be looked at */
	struct locate *place;
};

static bool search_directory(struct search *search, int dirfd, const struct kr_fid *directory, unsigned depth);

/* Searches an entry that may be a directory, if DEPTH allows. */
static bool search_below(
	struct search *search, int dirfd, const struct kr_fid *directory, const char *name, unsigned depth)
{
	KR_AUTO_FD int fd = -1;
	struct kr_fid fid;
	struct stat st;

	if (depth == 0 || kr_entry_check(search->export, directory, name, -ENOENT) < 0 ||
		kr_entry_child(dirfd, name, &fd) < 0 || fstatat(fd, "", &st, AT_EMPTY_PATH) < 0 ||
		!S_ISDIR(st.st_mode) || kr_entry_identify(search->export, fd, directory, name, &fid) < 0)
		return false;
	return search_directory(search, fd, &fid, depth - 1);
}

static bool search_directory(struct search *search, int dirfd, const struct kr_fid *directory, unsigned depth)
{
	DIR *stream = kr_opendir_at(dirfd, ".");
	const struct dirent *entry;
	bool found = false;

	if (!stream)
		return false;
	while (!found && search->entries && (entry = readdir(stream))) {
		search->entries--;
		if (entry->d_ino == search->ino)
			found = is_here(search->export, dirfd, directory, entry->d_name, search->fid, search->place);
		else if (entry->d_type == DT_DIR || entry->d_type == DT_UNKNOWN)
			found = search_below(search, dirfd, directory, entry->d_name, depth);
	}
	closedir(stream);
	return found;
}

static bool search_from(struct kr_export *export, const struct kr_fid *directory, const struct kr_fid *fid, ino_t ino,
	unsigned depth, struct locate *ret_place)
{
	struct search search = {export, fid, ino, SEARCH_ENTRIES, ret_place};
	KR_AUTO_FD int dirfd = -1;

	return kr_entry_open(export, directory, &dirfd) == 0 && search_directory(&search, dirfd, directory, depth);
}

static int locate(
	struct kr_export *export, const struct kr_fid *fid, const struct locate *hint, struct locate *ret_place)
{
	KR_AUTO_FD int fd = -1;
	struct kr_identity inode;
	struct kr_attr attr;
	int r = kr_entry_open(export, fid, &fd);

	if (r == 0)
		r = kr_entry_attr(export, fd, fid, &attr);
	if (r == 0)
		r = kr_entry_inode(fd, &inode);
	if (r < 0)
		return r;
	if (attr.nlink == 0) /* an orphan */
		return kr_fail(-ESTALE, "the file has no name any more");
	if (is_at(export, hint, fid, ret_place) || is_known_to_kernel(export, fd, fid, ret_place) ||
		(hint->parent.length && search_from(export, &hint->parent, fid, (ino_t)inode.ino, 0, ret_place)) ||
		search_from(export, &export->root, fid, (ino_t)inode.ino, SEARCH_DEPTH, ret_place))
		return 0;
	return kr_fail(-ENOENT, "the file was not found under any name");
}

/* --- places ----------------------------------------------------------------------------------- */

/* .kairan/conflicts: for late bytes without another place. Only the administrator sees it. */
static int open_fallback(struct kr_export *export, struct kr_fid *ret_fid)
{
	KR_AUTO_FD int fd = -1;
	struct kr_fid private;
	int r;

	if (export->private_fd < 0)
		return kr_fail_errno(-EROFS, "keeping late bytes");
	{
		KR_SCOPED_LOCK(&export->renewing);
		r = kr_private_dir_renew(export);
	}
	if (r < 0)
		return r;
	if (mkdirat(export->private_fd, fallback, 0700) < 0 && errno != EEXIST)
		return kr_fail_errno(-errno, "cannot make %s/%s", export->private_name, fallback);
	r = kr_entry_child(export->private_fd, fallback, &fd);
	if (r == 0)
		r = kr_entry_identify(export, export->private_fd, &export->root, export->private_name, &private);
	return r < 0 ? r : kr_entry_identify(export, fd, &private, fallback, ret_fid);
}

/* Errors of a directory that cannot hold the file, so that another one must. */
static bool is_no_place(int err)
{
	return err == -ENOENT || err == -ESTALE || err == -ENOTDIR || err == -EACCES || err == -EPERM ||
		err == -ELOOP || err == -EXDEV || err == -EINVAL || err == -ENAMETOOLONG;
}

/* --- the file --------------------------------------------------------------------------------- */

/* The ACL comes before the mode, which is its mask. */
static int copy_acl(struct kr_export *export, const struct kr_fid *file, const struct kr_fid *target)
{
	KR_AUTO_FREE void *value = kr_xmalloc(KR_XATTR_MAX);
	size_t length = 0;
	int r = file ? kr_export_getxattr(export, NULL, file, acl, value, KR_XATTR_MAX, &length) : -ENODATA;

	if (r == 0)
		r = kr_export_setxattr(export, NULL, target, acl, value, length, 0);
	else
		r = kr_export_removexattr(export, NULL, target, acl); /* from the directory's default */
	return r == -ENODATA || r == -EOPNOTSUPP ? 0 : r;
}

/* FILE: the original; NULL: it is gone. */
static int copy_owner_and_mode(struct kr_export *export, const struct kr_conflict_make *make, const struct kr_fid *file,
	const struct kr_fid *target)
{
	struct kr_setattr set = {.valid = KR_SET_MODE, .mode = make->mode & 0777, .uid = make->uid, .gid = make->gid};
	struct kr_attr attr;
	bool known = make->mode != 0;
	int r;

	if (file && kr_export_getattr(export, file, &attr) == 0) {
		set = (struct kr_setattr){
			.valid = KR_SET_MODE, .mode = attr.mode & 0777, .uid = attr.uid, .gid = attr.gid};
		known = true;
	} else if (!known) {
		set.mode = 0600;
	}
	r = copy_acl(export, file, target);
	if (make->cred) {
		set.uid = make->cred->uid;
		set.gid = make->cred->gid;
		known = true;
	}
	if (known && export->callers_ids)
		set.valid |= KR_SET_UID | KR_SET_GID;
	return r < 0 ? r : kr_export_setattr(export, NULL, target, &set, &attr);
}

static int make_nameless(struct kr_export *export, const struct kr_conflict_make *make, const struct kr_cred *cred,
	const struct kr_fid *file, const struct kr_fid *directory, struct kr_fid *ret_target)
{
	struct kr_create create = {.name = "", .mode = 0600, .flags = KR_OPEN_WRITE, .exclusive = true};
	struct kr_attr attr;
	bool created;
	int r = kr_export_create(export, cred, directory, &create, &created, ret_target, &attr);

	if (r < 0)
		return r;
	r = KR_FAULT("conflict.make");
	if (r == 0)
		r = copy_owner_and_mode(export, make, file, ret_target);
	if (r < 0)
		kr_export_release(export, ret_target, 1);
	return r;
}

static int give_name(struct kr_export *export, const struct kr_conflict_make *make, const struct kr_cred *cred,
	const struct kr_fid *target, const struct locate *beside, struct kr_conflict_made *made)
{
	char name[KR_NAME_MAX + 1];
	int r = -EEXIST;

	for (unsigned number = 1; r == -EEXIST && number <= TRIES; number++) {
		kr_export_conflict_name(make, beside->name, number, name);
		r = kr_export_link(export, cred, target, &beside->parent, name, &made->attr);
	}
	if (r < 0)
		return r;
	r = KR_FAULT("conflict.name");
	if (r == 0)
		r = kr_export_fsync(export, &beside->parent, false);
	if (r == 0)
		made->place = path_text(export, &beside->parent, name);
	else /* the next try makes another file */
		kr_export_remove(export, cred, &beside->parent, name, false, 0, NULL);
	return r;
}

/* In one directory. Holds the target once more on success. */
static int make_in(struct kr_export *export, const struct kr_conflict_make *make, const struct kr_cred *cred,
	const struct kr_fid *file, const struct locate *beside, struct kr_conflict_made *made)
{
	int r = make_nameless(export, make, cred, file, &beside->parent, &made->target);

	if (r < 0)
		return r;
	r = make->record(make->context, &made->target);
	if (r == 0)
		r = give_name(export, make, cred, &made->target, beside, made);
	if (r < 0)
		kr_export_release(export, &made->target, 1); /* which removes it */
	return r;
}

/* The last component of PATH, whatever its directories are. */
static void name_last(const char *path, char name[KR_NAME_MAX + 1])
{
	const char *slash = strrchr(path, '/'), *last = slash ? slash + 1 : path;

	snprintf(name, KR_NAME_MAX + 1, "%s", *last ? last : "nameless");
}

int kr_export_conflict(struct kr_export *export, const struct kr_conflict_make *make, struct kr_conflict_made *ret_made)
{
	struct locate last = {0}, now;
	bool exists;
	int r = kr_export_writable(export);

	if (r < 0)
		return r;
	if (resolve_parent(export, make->cred, make->root, make->path, &last.parent, last.name) < 0)
		last = (struct locate){0};
	r = locate(export, make->file, &last, &now);
	exists = r == 0 || r == -ENOENT;
	if (r == 0)
		r = make_in(export, make, make->cred, make->file, &now, ret_made);
	else if (is_no_place(r) && last.parent.length)
		r = make_in(export, make, make->cred, exists ? make->file : NULL, &last, ret_made);
	if (r == 0 || !is_no_place(r))
		return r;
	name_last(make->path, last.name);
	r = open_fallback(export, &last.parent);
	return r < 0 ? r : make_in(export, make, NULL, exists ? make->file : NULL, &last, ret_made);
}

int kr_export_conflict_again(struct kr_export *export, const struct kr_fid *target, struct kr_conflict_made *ret_made)
{
	struct locate nowhere = {0}, place;
	int r = kr_export_hold(export, target, 1);

	if (r < 0)
		return r;
	r = locate(export, target, &nowhere, &place);
	if (r == 0)
		r = kr_export_fsync(export, &place.parent, false); /* the server may have been killed before it did */
	if (r == 0)
		r = kr_export_getattr(export, target, &ret_made->attr);
	if (r < 0) {
		kr_export_release(export, target, 1);
		return r == -ENOENT ? -ESTALE : r;
	}
	ret_made->target = *target;
	ret_made->place = path_text(export, &place.parent, place.name);
	return 0;
}

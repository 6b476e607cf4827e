/* See locate.h. */
#include "server/export/locate.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

int kr_locate_last(struct kr_export *export, const struct kr_cred *cred, const struct kr_fid *root, const char *path,
	struct kr_fid *ret_parent, char *name)
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

char *kr_locate_text(struct kr_export *export, const struct kr_fid *directory, const char *name)
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
	const struct kr_fid *fid, struct kr_locate *ret_place)
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
	struct kr_export *export, const struct kr_locate *hint, const struct kr_fid *fid, struct kr_locate *ret_place)
{
	KR_AUTO_FD int dirfd = -1;

	return hint->parent.length && hint->name[0] && kr_entry_open(export, &hint->parent, &dirfd) == 0 &&
		is_here(export, dirfd, &hint->parent, hint->name, fid, ret_place);
}

/* The path that the kernel shows of a descriptor is that of a name by which somebody has met the file, if anybody has.
 */
static bool is_known_to_kernel(struct kr_export *export, int fd, const struct kr_fid *fid, struct kr_locate *ret_place)
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
	struct kr_locate *place;
};

static bool search_directory(struct search *search, int dirfd, const struct kr_fid *directory, unsigned depth);

/* An entry that is a directory, perhaps: searched when DEPTH allows. */
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
	int list = openat(dirfd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *stream = list < 0 ? NULL : fdopendir(list);
	const struct dirent *entry;
	bool found = false;

	if (!stream) {
		if (list >= 0)
			close(list);
		return false;
	}
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
	unsigned depth, struct kr_locate *ret_place)
{
	struct search search = {export, fid, ino, KR_LOCATE_ENTRIES, ret_place};
	KR_AUTO_FD int dirfd = -1;

	return kr_entry_open(export, directory, &dirfd) == 0 && search_directory(&search, dirfd, directory, depth);
}

int kr_locate_find(
	struct kr_export *export, const struct kr_fid *fid, const struct kr_locate *hint, struct kr_locate *ret_place)
{
	KR_AUTO_FD int fd = -1;
	struct kr_attr attr;
	int r = kr_entry_open(export, fid, &fd);

	if (r == 0)
		r = kr_entry_attr(export, fd, fid, &attr);
	if (r < 0)
		return r;
	if (attr.nlink == 0) /* an orphan */
		return kr_fail(-ESTALE, "the file has no name any more");
	if (is_at(export, hint, fid, ret_place) || is_known_to_kernel(export, fd, fid, ret_place) ||
		(hint->parent.length && search_from(export, &hint->parent, fid, (ino_t)attr.ino, 0, ret_place)) ||
		search_from(export, &export->root, fid, (ino_t)attr.ino, KR_LOCATE_DEPTH, ret_place))
		return 0;
	return kr_fail(-ENOENT, "the file was not found under any name");
}

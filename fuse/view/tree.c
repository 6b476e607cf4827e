/* See tree.h.  Neither recursion nor a descriptor for each level: what lies two levels deep and holds something is
 * moved up to the top, and its turn comes there. */
#include "fuse/view/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct removal {
	int top;
	uint64_t moved; /* names the next directory that is moved up */
};

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* An ordinary user's directories may be closed to that user.  If this fails, so will what comes after. */
static void unlock(int parent, const char *name)
{
	if (geteuid() != 0)
		(void)!fchmodat(parent, name, 0700, 0);
}

static int open_directory(int parent, const char *name)
{
	int fd;

	unlock(parent, name);
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

/* Calls VISIT for each name of DIRECTORY, which it closes, until there is none left.  0 or -errno. */
static int for_each(
	int directory, int (*visit)(struct removal *removal, int directory, const char *name), struct removal *removal)
{
	DIR *stream = fdopendir(directory);
	const struct dirent *entry;
	bool again = true;
	int err = 0;

	if (!stream) {
		err = -errno;
		close(directory);
		return err;
	}
	while (again && err == 0) {
		again = false;
		rewinddir(stream); /* a name that came up from below may have been missed */
		while (err == 0 && (entry = readdir(stream))) {
			if (is_dots(entry->d_name))
				continue;
			again = true;
			err = visit(removal, directory, entry->d_name);
		}
	}
	closedir(stream);
	return err;
}

/* 0: gone; -ENOTEMPTY: a directory that holds something; -errno. */
static int remove_one(int directory, const char *name)
{
	if (unlinkat(directory, name, 0) == 0)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return -errno;
	if (unlinkat(directory, name, AT_REMOVEDIR) == 0)
		return 0;
	return errno == EEXIST ? -ENOTEMPTY : -errno;
}

/* Two levels below the top. */
static int remove_or_move(struct removal *removal, int directory, const char *name)
{
	int err = remove_one(directory, name);
	char moved[32];

	if (err != -ENOTEMPTY)
		return err;
	unlock(directory, name);
	do {
		snprintf(moved, sizeof(moved), ".removed-%" PRIu64, removal->moved++);
		err = renameat(directory, name, removal->top, moved) < 0 ? -errno : 0;
	} while (err == -ENOTEMPTY || err == -EEXIST || err == -ENOTDIR);
	return err;
}

static int remove_below_top(struct removal *removal, int top, const char *name)
{
	int err = remove_one(top, name), fd;

	if (err != -ENOTEMPTY)
		return err;
	fd = open_directory(top, name);
	err = fd < 0 ? fd : for_each(fd, remove_or_move, removal);
	if (err == 0)
		err = unlinkat(top, name, AT_REMOVEDIR) < 0 ? -errno : 0;
	return err;
}

int kr_tree_remove(int directory, const char *name)
{
	struct removal removal = {.top = open_directory(directory, name)};
	int err;

	if (removal.top < 0)
		return removal.top == -ENOENT ? 0 : removal.top;
	err = for_each(removal.top, remove_below_top, &removal);
	if (err == 0)
		err = unlinkat(directory, name, AT_REMOVEDIR) < 0 ? -errno : 0;
	return err;
}

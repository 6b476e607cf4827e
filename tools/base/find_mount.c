/* See find_mount.h.  Walks the path as the kernel does, but stops at the first kairanfs mount. */
#include "tools/base/find_mount.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/util.h"

enum { LINKS_MAX = 40 };

/* The state of the walk.  DONE has no symbolic links and no dots, and begins with a slash, or is empty (the root).
 * Both owned. */
struct walk {
	char *done, *rest;
	int links;
};

static char *joined(const char *first, const char *second)
{
	char *result;

	if (asprintf(&result, "%s/%s", first, second) < 0)
		abort();
	return result;
}

static void set(char **text, char *value)
{
	free(*text);
	*text = value;
}

/* Takes the next name off the rest, owned; NULL: the rest is empty. */
static char *take_name(struct walk *walk)
{
	const char *start = walk->rest + strspn(walk->rest, "/");
	size_t length = strcspn(start, "/");
	char *name;

	if (!length)
		return NULL;
	name = strndup(start, length);
	if (!name)
		abort();
	set(&walk->rest, kr_xstrdup(start + length));
	return name;
}

static bool lies_on_one(const char *path)
{
	struct kr_mounted mounted;

	if (kr_mounted_find(path, false, &mounted) < 0)
		return false;
	kr_mounted_fini(&mounted);
	return true;
}

/* Walks one name further. */
static int step(struct walk *walk, const char *name)
{
	KR_AUTO_FREE char *next = NULL;
	char target[PATH_MAX], *slash;
	ssize_t length;

	if (strcmp(name, ".") == 0)
		return 0;
	if (strcmp(name, "..") == 0) {
		slash = strrchr(walk->done, '/');
		if (slash)
			*slash = '\0';
		return 0;
	}
	next = joined(walk->done, name);
	length = lies_on_one(next) ? -1 : readlink(next, target, sizeof(target) - 1);
	if (length < 0) {
		set(&walk->done, kr_xstrdup(next));
		return 0;
	}
	if (++walk->links > LINKS_MAX)
		return -ELOOP;
	target[length] = '\0';
	set(&walk->rest, joined(target, walk->rest));
	if (*target == '/')
		*walk->done = '\0';
	return 0;
}

/* Whether the walk has reached a mount that holds the whole path.  A path that only leads through a mount goes on
 * behind it. */
static bool arrived(struct walk *walk, struct kr_mounted *ret_mounted, char **ret_below)
{
	KR_AUTO_FREE char *whole = NULL, *plain = NULL;
	const char *below;

	if (kr_mounted_find(*walk->done ? walk->done : "/", false, ret_mounted) < 0)
		return false;
	whole = joined(walk->done, walk->rest);
	plain = kr_plain_path(whole);
	below = kr_path_below(plain, ret_mounted->path);
	if (below && ret_below)
		*ret_below = kr_xstrdup(below);
	if (below)
		return true;
	kr_mounted_fini(ret_mounted);
	*walk->done = '\0';
	set(&walk->rest, kr_xstrdup(plain));
	return false;
}

int kr_find_mount(const char *path, struct kr_mounted *ret_mounted, char **ret_below)
{
	KR_AUTO_FREE char *directory = *path == '/' ? NULL : getcwd(NULL, 0);
	struct walk walk = {.done = kr_xstrdup(""), .rest = joined(directory ? directory : "", path)};
	struct stat stat_buffer;
	char *name = NULL;
	bool found;
	int err = 0;

	while (!(found = arrived(&walk, ret_mounted, ret_below)) && err == 0 && (name = take_name(&walk))) {
		err = step(&walk, name);
		free(name);
	}
	free(walk.done);
	free(walk.rest);
	if (found)
		return 0;
	if (err == 0 && lstat(path, &stat_buffer) < 0)
		err = -errno;
	return err < 0 ? kr_fail_errno(err, "%s", path) :
			 kr_fail(-ENOENT, "%s does not lie on a mount of kairanfs", path);
}

struct visits {
	void (*visit)(const struct kr_mounted *mounted, void *context);
	void *context;
};

static void visit_ours(const struct kr_mounted *mounted, void *context)
{
	const struct visits *visits = context;

	if (geteuid() == 0 || mounted->uid == 0 || mounted->uid == geteuid())
		visits->visit(mounted, visits->context);
}

int kr_for_each_mount(void (*visit)(const struct kr_mounted *mounted, void *context), void *context)
{
	return kr_mounted_for_each(visit_ours, &(struct visits){visit, context});
}

bool kr_looks_like_path(const char *text)
{
	return *text == '/' || *text == '.' || strchr(text, '/') || access(text, F_OK) == 0;
}

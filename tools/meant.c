/* See meant.h. */
#include "tools/meant.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "common/base/fail.h"
#include "common/base/text.h"
#include "common/base/util.h"

/* One look, by a thread of its own. Two have it, the asker and the thread; the last one frees it. */
struct look {
	pthread_mutex_t lock; /* guards done */
	pthread_cond_t changed;
	bool done;
	atomic_uint users;
	char *mount_point, *below; /* owned; of the path */
	json_t *files;             /* deep copies of elements of "files": the threads share no value but these */
	json_t *elsewhere;         /* out: fid -> true */
	int err;                   /* out: what became of the path */
};

struct kr_meant {
	char *mount_point, *below; /* owned; below: NULL for all */
	struct look *look;         /* under way, or NULL */
	json_t *elsewhere;         /* fid -> true: proven */
	json_t *seen;              /* fid -> true: looked at */
	bool followed;             /* the path */
};

/* --- the thread that looks -------------------------------------------------------------------- */

static void put_look(struct look *look)
{
	if (atomic_fetch_sub(&look->users, 1) > 1)
		return;
	pthread_mutex_destroy(&look->lock);
	pthread_cond_destroy(&look->changed);
	json_decref(look->files);
	json_decref(look->elsewhere);
	free(look->mount_point);
	free(look->below);
	free(look);
}

static bool lies_below(const char *path, const char *prefix)
{
	size_t length = strlen(prefix);

	return !length || (strncmp(path, prefix, length) == 0 && (path[length] == '\0' || path[length] == '/'));
}

/* Whether a file has this name, reached without symbolic links, and no other. */
static bool is_only_there(int mount_fd, const char *name, uint64_t ino)
{
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_NO_XDEV};
	KR_AUTO_FD int fd = (int)syscall(SYS_openat2, mount_fd, name, &how, sizeof(how));
	struct stat stat_buffer;

	return fd >= 0 && fstat(fd, &stat_buffer) == 0 && stat_buffer.st_ino == ino && stat_buffer.st_nlink == 1;
}

/* The path as it lies on the mount: links followed, relative to the mount point; owned. And the inode that it leads to,
 * or 0. */
static int follow(const struct look *look, char **ret_below, uint64_t *ret_ino)
{
	KR_AUTO_FREE char *whole = NULL, *real = NULL;
	size_t length = strlen(look->mount_point);
	struct stat stat_buffer;

	if (asprintf(&whole, "%s/%s", look->mount_point, look->below) < 0)
		abort();
	real = realpath(whole, NULL);
	if (!real || stat(real, &stat_buffer) < 0)
		return -errno;
	if (strncmp(real, look->mount_point, length) != 0 || (real[length] && real[length] != '/'))
		return -EXDEV;
	*ret_ino = stat_buffer.st_ino;
	*ret_below = kr_xstrdup(real + length + (real[length] == '/'));
	return 0;
}

static void look_at_files(struct look *look, const char *real, uint64_t ino)
{
	KR_AUTO_FD int mount_fd = open(look->mount_point, O_PATH | O_DIRECTORY | O_CLOEXEC);
	const json_t *file;
	bool known = false;
	size_t i;

	json_array_foreach(look->files, i, file)
	{
		const char *name = kr_text_of(file, "path");
		uint64_t file_ino = (uint64_t)json_integer_value(json_object_get(file, "ino"));
		bool below = *name && (lies_below(name, look->below) || (real && lies_below(name, real)));

		known = known || below;
		if (*name && !below && file_ino && file_ino != ino && is_only_there(mount_fd, name, file_ino))
			json_object_set_new(look->elsewhere, kr_text_of(file, "fid"), json_true());
	}
	if (known) /* it may have been removed: what was written to it is meant */
		look->err = 0;
}

static void *work(void *context)
{
	struct look *look = context;
	KR_AUTO_FREE char *real = NULL;
	uint64_t ino = 0;

	look->err = follow(look, &real, &ino);
	look_at_files(look, real, ino);
	pthread_mutex_lock(&look->lock);
	look->done = true;
	pthread_cond_signal(&look->changed);
	pthread_mutex_unlock(&look->lock);
	put_look(look);
	return NULL;
}

/* --- who asks --------------------------------------------------------------------------------- */

struct kr_meant *kr_meant_new(const struct kr_mounted *mounted, const char *below)
{
	struct kr_meant *meant = kr_xcalloc(1, sizeof(*meant));

	meant->mount_point = kr_xstrdup(mounted->path);
	meant->below = below && *below ? kr_xstrdup(below) : NULL;
	meant->elsewhere = json_object();
	meant->seen = json_object();
	return meant;
}

void kr_meant_free(struct kr_meant *meant)
{
	if (!meant)
		return;
	if (meant->look)
		put_look(meant->look);
	json_decref(meant->elsewhere);
	json_decref(meant->seen);
	free(meant->mount_point);
	free(meant->below);
	free(meant);
}

/* Takes FILES. */
static void start(struct kr_meant *meant, json_t *files)
{
	struct look *look = kr_xcalloc(1, sizeof(*look));
	pthread_condattr_t attributes;
	pthread_t thread;

	pthread_mutex_init(&look->lock, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&look->changed, &attributes);
	pthread_condattr_destroy(&attributes);
	look->users = 2;
	look->mount_point = kr_xstrdup(meant->mount_point);
	look->below = kr_xstrdup(meant->below);
	look->files = files;
	look->elsewhere = json_object();
	meant->look = look;
	if (pthread_create(&thread, NULL, work, look) == 0) {
		pthread_detach(thread);
		return;
	}
	put_look(look); /* the thread's */
	put_look(look);
	meant->look = NULL;
}

/* Whether the look under way has come to its end by then. */
static bool ended(struct look *look, unsigned wait_ms)
{
	struct timespec until;
	bool done;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += wait_ms / 1000;
	until.tv_nsec += wait_ms % 1000 * (long)KR_NS_PER_MS;
	if (until.tv_nsec >= (long)KR_NS_PER_S) {
		until.tv_sec++;
		until.tv_nsec -= (long)KR_NS_PER_S;
	}
	pthread_mutex_lock(&look->lock);
	while (!look->done && pthread_cond_timedwait(&look->changed, &look->lock, &until) == 0)
		;
	done = look->done;
	pthread_mutex_unlock(&look->lock);
	return done;
}

/* The unflushed files that no look has seen yet; owned. */
static json_t *news(const struct kr_meant *meant, const json_t *status)
{
	json_t *files = json_array(), *file;
	size_t i;

	json_array_foreach(json_object_get(status, "files"), i, file)
	{
		if (!json_object_get(meant->seen, kr_text_of(file, "fid")))
			json_array_append_new(files, json_deep_copy(file));
	}
	return files;
}

int kr_meant_look(struct kr_meant *meant, const json_t *status, unsigned wait_ms)
{
	bool first = !meant->followed;
	json_t *files = NULL, *file;
	int err = 0;
	size_t i;

	if (!meant->below)
		return 0;
	if (!meant->look) {
		files = news(meant, status);
		if (first || json_array_size(files))
			start(meant, files);
		else
			json_decref(files);
	}
	if (!meant->look || !ended(meant->look, wait_ms))
		return 0;
	json_object_update(meant->elsewhere, meant->look->elsewhere);
	json_array_foreach(meant->look->files, i, file)
		json_object_set_new(meant->seen, kr_text_of(file, "fid"), json_true());
	meant->followed = true;
	if (first && meant->look->err == -ENOENT)
		err = kr_fail_errno(-ENOENT, "%s/%s", meant->mount_point, meant->below);
	put_look(meant->look);
	meant->look = NULL;
	return err;
}

bool kr_meant_has(const struct kr_meant *meant, const json_t *file)
{
	return !meant->below || !json_object_get(meant->elsewhere, kr_text_of(file, "fid"));
}

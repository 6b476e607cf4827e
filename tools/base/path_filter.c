/* See path_filter.h. */
#include "tools/base/path_filter.h"

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

/* One search, by a thread of its own.  Its starter and the thread share it; the last of them frees it. */
struct search {
	pthread_mutex_t lock; /* guards done */
	pthread_cond_t changed;
	bool done;
	atomic_uint users;
	char *mount_point, *below; /* owned; copies of the filter's */
	json_t *files;             /* deep copies of elements of "files": the threads share no value but these */
	json_t *elsewhere;         /* out: fid -> true: proven to lie elsewhere */
	int err;                   /* out: the result for the path */
};

struct kr_path_filter {
	char *mount_point, *below; /* owned; below: NULL for all */
	struct search *search;     /* under way, or NULL */
	json_t *elsewhere;         /* fid -> true: proven to lie elsewhere */
	json_t *seen;              /* fid -> true: searched for */
	bool resolved;             /* the path */
};

/* --- the searching thread --- */

static void put_search(struct search *search)
{
	if (atomic_fetch_sub(&search->users, 1) > 1)
		return;
	pthread_mutex_destroy(&search->lock);
	pthread_cond_destroy(&search->changed);
	json_decref(search->files);
	json_decref(search->elsewhere);
	free(search->mount_point);
	free(search->below);
	free(search);
}

/* Whether NAME, reached without symbolic links, is the file's only name. */
static bool is_only_there(int mount_fd, const char *name, uint64_t ino)
{
	struct open_how how = {.flags = O_PATH | O_NOFOLLOW | O_CLOEXEC,
		.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH | RESOLVE_NO_XDEV};
	KR_AUTO_FD int fd = (int)syscall(SYS_openat2, mount_fd, name, &how, sizeof(how));
	struct stat stat_buffer;

	return fd >= 0 && fstat(fd, &stat_buffer) == 0 && stat_buffer.st_ino == ino && stat_buffer.st_nlink == 1;
}

/* The path with its links resolved, relative to the mount point, owned; and the inode at its end, or 0. */
static int resolve_path(const struct search *search, char **ret_below, uint64_t *ret_ino)
{
	KR_AUTO_FREE char *whole = NULL, *real = NULL;
	const char *below;
	struct stat stat_buffer;

	if (asprintf(&whole, "%s/%s", search->mount_point, search->below) < 0)
		abort();
	real = realpath(whole, NULL);
	if (!real || stat(real, &stat_buffer) < 0)
		return -errno;
	below = kr_path_below(real, search->mount_point);
	if (!below)
		return -EXDEV;
	*ret_ino = stat_buffer.st_ino;
	*ret_below = kr_xstrdup(below);
	return 0;
}

static void search_files(struct search *search, const char *real, uint64_t ino)
{
	KR_AUTO_FD int mount_fd = open(search->mount_point, O_PATH | O_DIRECTORY | O_CLOEXEC);
	const json_t *file;
	bool known = false;
	size_t i;

	json_array_foreach(search->files, i, file)
	{
		const char *name = kr_text_of(file, "path");
		uint64_t file_ino = (uint64_t)json_integer_value(json_object_get(file, "ino"));
		bool below = *name && (kr_path_below(name, search->below) || (real && kr_path_below(name, real)));

		known = known || below;
		if (*name && !below && file_ino && file_ino != ino && is_only_there(mount_fd, name, file_ino))
			json_object_set_new(search->elsewhere, kr_text_of(file, "fid"), json_true());
	}
	if (known) /* the file may have been removed: its unflushed bytes pass */
		search->err = 0;
}

static void *work(void *context)
{
	struct search *search = context;
	KR_AUTO_FREE char *real = NULL;
	uint64_t ino = 0;

	search->err = resolve_path(search, &real, &ino);
	search_files(search, real, ino);
	pthread_mutex_lock(&search->lock);
	search->done = true;
	pthread_cond_signal(&search->changed);
	pthread_mutex_unlock(&search->lock);
	put_search(search);
	return NULL;
}

/* --- the filter --- */

struct kr_path_filter *kr_path_filter_new(const struct kr_mounted *mounted, const char *below)
{
	struct kr_path_filter *filter = kr_xcalloc(1, sizeof(*filter));

	filter->mount_point = kr_xstrdup(mounted->path);
	filter->below = below && *below ? kr_xstrdup(below) : NULL;
	filter->elsewhere = json_object();
	filter->seen = json_object();
	return filter;
}

void kr_path_filter_free(struct kr_path_filter *filter)
{
	if (!filter)
		return;
	if (filter->search)
		put_search(filter->search);
	json_decref(filter->elsewhere);
	json_decref(filter->seen);
	free(filter->mount_point);
	free(filter->below);
	free(filter);
}

/* Takes FILES. */
static void start(struct kr_path_filter *filter, json_t *files)
{
	struct search *search = kr_xcalloc(1, sizeof(*search));
	pthread_t thread;

	pthread_mutex_init(&search->lock, NULL);
	pthread_cond_init(&search->changed, NULL);
	search->users = 2;
	search->mount_point = kr_xstrdup(filter->mount_point);
	search->below = kr_xstrdup(filter->below);
	search->files = files;
	search->elsewhere = json_object();
	filter->search = search;
	if (pthread_create(&thread, NULL, work, search) == 0) {
		pthread_detach(thread);
		return;
	}
	put_search(search); /* the thread's */
	put_search(search);
	filter->search = NULL;
}

/* Waits for the search; whether it has ended in time. */
static bool search_ended(struct search *search, unsigned wait_ms)
{
	const struct timespec end = kr_monotonic_after(wait_ms * KR_NS_PER_MS);
	bool done;

	pthread_mutex_lock(&search->lock);
	while (!search->done && kr_cond_wait_until(&search->changed, &search->lock, end))
		;
	done = search->done;
	pthread_mutex_unlock(&search->lock);
	return done;
}

/* The unflushed files that no search has covered yet; owned. */
static json_t *new_files(const struct kr_path_filter *filter, const json_t *status)
{
	json_t *files = json_array(), *file;
	size_t i;

	json_array_foreach(json_object_get(status, "files"), i, file)
	{
		if (!json_object_get(filter->seen, kr_text_of(file, "fid")))
			json_array_append_new(files, json_deep_copy(file));
	}
	return files;
}

int kr_path_filter_update(struct kr_path_filter *filter, const json_t *status, unsigned wait_ms)
{
	bool first = !filter->resolved;
	json_t *files = NULL, *file;
	int err = 0;
	size_t i;

	if (!filter->below)
		return 0;
	if (!filter->search) {
		files = new_files(filter, status);
		if (first || json_array_size(files))
			start(filter, files);
		else
			json_decref(files);
	}
	if (!filter->search || !search_ended(filter->search, wait_ms))
		return 0;
	json_object_update(filter->elsewhere, filter->search->elsewhere);
	json_array_foreach(filter->search->files, i, file)
		json_object_set_new(filter->seen, kr_text_of(file, "fid"), json_true());
	filter->resolved = true;
	if (first && filter->search->err == -ENOENT)
		err = kr_fail_errno(-ENOENT, "%s/%s", filter->mount_point, filter->below);
	put_search(filter->search);
	filter->search = NULL;
	return err;
}

bool kr_path_filter_has(const struct kr_path_filter *filter, const json_t *file)
{
	return !filter->below || !json_object_get(filter->elsewhere, kr_text_of(file, "fid"));
}

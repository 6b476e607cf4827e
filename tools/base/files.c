/* See files.h. */
#include "tools/base/files.h"

#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/fail.h"
#include "common/base/util.h"
#include "tools/base/find_mount.h"

static void add_file(struct kr_tool_files *files, const char *path, uint64_t size)
{
	if (files->count == files->capacity) {
		size_t capacity = files->capacity ? files->capacity * 2 : 64;
		struct kr_tool_file *larger = reallocarray(files->files, capacity, sizeof(*larger));

		if (!larger)
			abort();
		files->files = larger;
		files->capacity = capacity;
	}
	files->files[files->count++] = (struct kr_tool_file){kr_xstrdup(path), size};
	files->bytes += size;
}

static void complain_of(struct kr_tool_files *files, const char *path, int err)
{
	fprintf(stderr, "kairan: %s: %s\n", path,
		err == ENOTCONN ? "the mount's daemon is gone; mount again" : strerror(err));
	files->errors++;
}

/* Adds PATH (a symbolic link is followed) and, of a directory, all files below it on the same filesystem (no symbolic
 * links). */
static void add_tree(struct kr_tool_files *files, const char *path)
{
	char *const paths[] = {(char *)(uintptr_t)path, NULL};
	FTS *walk = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR | FTS_XDEV, NULL);
	const FTSENT *entry;

	if (!walk) {
		complain_of(files, path, errno);
		return;
	}
	while ((errno = 0, entry = fts_read(walk))) {
		switch (entry->fts_info) {
		case FTS_F:
			add_file(files, entry->fts_path, (uint64_t)entry->fts_statp->st_size);
			break;
		case FTS_DNR:
		case FTS_ERR:
		case FTS_NS:
		case FTS_SLNONE:
			complain_of(files, entry->fts_path, entry->fts_errno ? entry->fts_errno : ENOENT);
			break;
		default: /* directories; symbolic links, devices and the like have nothing to be staged */
			break;
		}
	}
	if (errno)
		complain_of(files, path, errno);
	fts_close(walk);
}

void kr_tool_files_fini(struct kr_tool_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		free(files->files[i].path);
	free(files->files);
}

void kr_tool_files_add(struct kr_tool_files *files, const char *path)
{
	struct kr_mounted mounted;

	if (kr_find_mount(path, &mounted, NULL) < 0) {
		fprintf(stderr, "kairan: %s\n", kr_fail_reason());
		files->errors++;
		return;
	}
	if (strcmp(mounted.source, "none") == 0) {
		fprintf(stderr,
			"kairan: %s: scratch of this node (view=node): none of it is on a server or on other nodes\n",
			path);
		files->errors++;
	} else {
		add_tree(files, path);
	}
	kr_mounted_fini(&mounted);
}

/* See stage_list.h. */
#include "tools/stage_list.h"

#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "common/base/util.h"

static void add(struct kr_stage_list *list, const char *path, uint64_t size)
{
	if (list->count == list->capacity) {
		size_t capacity = list->capacity ? list->capacity * 2 : 64;
		struct kr_stage_file *larger = reallocarray(list->files, capacity, sizeof(*larger));

		if (!larger)
			abort();
		list->files = larger;
		list->capacity = capacity;
	}
	list->files[list->count++] = (struct kr_stage_file){kr_xstrdup(path), size};
	list->bytes += size;
}

static void complain(struct kr_stage_list *list, const char *path, int err)
{
	fprintf(stderr, "kairan: %s: %s\n", path, strerror(err));
	list->errors++;
}

void kr_stage_list_add(struct kr_stage_list *list, const char *path)
{
	char *const paths[] = {(char *)(uintptr_t)path, NULL};
	FTS *walk = fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR | FTS_XDEV, NULL);
	const FTSENT *entry;

	if (!walk) {
		complain(list, path, errno);
		return;
	}
	while ((errno = 0, entry = fts_read(walk))) {
		switch (entry->fts_info) {
		case FTS_F:
			add(list, entry->fts_path, (uint64_t)entry->fts_statp->st_size);
			break;
		case FTS_DNR:
		case FTS_ERR:
		case FTS_NS:
		case FTS_SLNONE:
			complain(list, entry->fts_path, entry->fts_errno ? entry->fts_errno : ENOENT);
			break;
		default: /* directories; symbolic links, devices and the like have nothing to be staged */
			break;
		}
	}
	if (errno)
		complain(list, path, errno);
	fts_close(walk);
}

void kr_stage_list_fini(struct kr_stage_list *list)
{
	for (size_t i = 0; i < list->count; i++)
		free(list->files[i].path);
	free(list->files);
}

/* The regular files at and below given paths, for kairan stage. */
#ifndef KR_TOOLS_STAGE_LIST_H
#define KR_TOOLS_STAGE_LIST_H

#include <stddef.h>
#include <stdint.h>

struct kr_stage_file {
	char *path;
	uint64_t size;
};

/* Zero-initialised by the owner. */
struct kr_stage_list {
	struct kr_stage_file *files;
	size_t count, capacity;
	uint64_t bytes;
	size_t errors; /* each has been told on standard error */
};

/* Adds PATH (a symbolic link is followed) and, of a directory, all that is below it (where none is), on the same
 * filesystem. */
void kr_stage_list_add(struct kr_stage_list *list, const char *path);
void kr_stage_list_fini(struct kr_stage_list *list);

#endif

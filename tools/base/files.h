/* The regular files that a command's arguments name. */
#ifndef KR_TOOLS_FILES_H
#define KR_TOOLS_FILES_H

#include <stddef.h>
#include <stdint.h>

struct kr_tool_file {
	char *path;
	uint64_t size;
};

/* Zero-initialised by the owner. */
struct kr_tool_files {
	struct kr_tool_file *files;
	size_t count, capacity;
	uint64_t bytes;
	size_t errors; /* each has had a message on standard error */
};

/* Adds PATH (a symbolic link is followed) and, of a directory, all files below it on the same filesystem (no symbolic
 * links).  A tree outside all mounts of a server is one error, not one for each file. */
void kr_tool_files_add(struct kr_tool_files *files, const char *path);
void kr_tool_files_fini(struct kr_tool_files *files);

#endif

/* Where files are, for a server without the privilege to open kernel handles (CAP_DAC_READ_SEARCH).
 *
 * An identity is then inode number and birth time. This table knows the names (parent and name) under which operations
 * last met each file. Opening walks from the root, one name at a time, and checks each file found. If no known name
 * leads there (a new process, a rename on the server), one walk of the whole export learns all names. Walks take a
 * twentieth of the time at most. Limits: memory grows with the names; a file that others have renamed is not found for
 * a while after a walk; without birth times a reused inode number can pass for the old file. Thread-safe; blocks. */
#ifndef KR_SERVER_INODE_PATHS_H
#define KR_SERVER_INODE_PATHS_H

#include "server/base/fid.h"

struct kr_export;
struct kr_inode_paths;

/* EXPORT is borrowed; its root is open. */
struct kr_inode_paths *kr_inode_paths_new(const struct kr_export *export, const struct kr_identity *root);
void kr_inode_paths_free(struct kr_inode_paths *paths);
void kr_inode_paths_learn(struct kr_inode_paths *paths, const struct kr_identity *file,
	const struct kr_identity *parent, const char *name, bool directory);
/* The file has lost this name. OTHERS: it may have more names, which no operation has met. */
void kr_inode_paths_forget(struct kr_inode_paths *paths, const struct kr_identity *file,
	const struct kr_identity *parent, const char *name, bool others);
/* Around a rename and the learning of it: no thread looks for a file in between. */
void kr_inode_paths_begin_move(struct kr_inode_paths *paths);
void kr_inode_paths_end_move(struct kr_inode_paths *paths);
/* Returns an O_PATH descriptor. -ESTALE: the file is not in the export. */
int kr_inode_paths_open(struct kr_inode_paths *paths, const struct kr_identity *file, int *ret_fd);

#endif

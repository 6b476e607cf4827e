/* Where files are, for a server without the privilege to open kernel handles (CAP_DAC_READ_SEARCH).
 *
 * An identity is then inode number and birth time; this table knows by which names (parent and name) it was last seen,
 * learnt from every operation that meets a file.  Opening walks from the root, one name at a time, and checks what it
 * finds; when no known name leads there (a new process, a rename behind our back) the whole export is walked once to
 * learn all names.  Limits: memory grows with the names met; on filesystems without birth times a reused inode number
 * can be taken for the old file.
 * Thread-safe; blocks.
 */
#ifndef KR_SERVER_INODE_PATHS_H
#define KR_SERVER_INODE_PATHS_H

#include "server/base/fid.h"

struct kr_inode_paths;

/* ROOT_FD is borrowed. */
struct kr_inode_paths *kr_inode_paths_new(int root_fd, const struct kr_identity *root);
void kr_inode_paths_free(struct kr_inode_paths *places);
void kr_inode_paths_learn(struct kr_inode_paths *places, const struct kr_identity *file,
	const struct kr_identity *parent, const char *name, bool directory);
/* The file has lost this name. OTHERS: it may have further ones that nobody has met. */
void kr_inode_paths_forget(struct kr_inode_paths *places, const struct kr_identity *file,
	const struct kr_identity *parent, const char *name, bool others);
/* Around a rename and what is learnt of it: nobody looks for a file in between. */
void kr_inode_paths_begin_move(struct kr_inode_paths *places);
void kr_inode_paths_end_move(struct kr_inode_paths *places);
/* An O_PATH descriptor. -ESTALE when the file is nowhere in the export. */
int kr_inode_paths_open(struct kr_inode_paths *places, const struct kr_identity *file, int *ret_fd);

#endif

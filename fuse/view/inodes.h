/* The inodes of a view that the kernel knows, and their descriptors.
 *
 * The kernel knows any number of inodes, and a process may have few descriptors.  So an inode is kept by a name: its
 * directory's inode, and its name there.  A descriptor (O_PATH) is opened by that name when it is needed, and the one
 * that was used least lately is closed when there are too many.  Names change by this daemon's hands alone.  Before one
 * goes (unlink, rename) the daemon holds the inode's descriptor.  Where no name is left that the table knows of, it
 * keeps that descriptor until the kernel forgets the inode.  So an inode in the table is always the same file of the
 * disk, and the disk cannot reuse its number.
 *
 * The kernel lets no lookup of a name run beside a change of that name (it locks the directory).
 *
 * Any thread.  The table's lock guards all fields below but those that never change; `kr_view_inodes_lock` gives it
 * to callers that look at more than one.
 */
#ifndef KR_FUSE_VIEW_INODES_H
#define KR_FUSE_VIEW_INODES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "common/base/list.h"
#include "common/base/table.h"
#include "fuse/view/space.h"

/* How the kernel does the file's I/O, from the first open to the last close (view_io.c). */
enum kr_view_mode { KR_VIEW_CLOSED, KR_VIEW_PASSTHROUGH, KR_VIEW_DIRECT, KR_VIEW_CACHED };

struct kr_view_inode {
	/* Never change. */
	struct kr_table_link by_number;
	uint64_t number; /* st_ino */
	mode_t type;

	struct kr_view_inode *parent; /* NULL with `name` */
	char *name;                   /* NULL: the root, or no name is known; then `fd` stays open */
	uint64_t lookups;             /* that the kernel will forget */
	uint32_t busy;                /* threads and open files that use it */
	uint32_t children;            /* inodes whose parent it is */
	int fd;                       /* -1: not open */
	struct kr_link idle;          /* in kr_view_inodes.idle: `fd` may be closed */
	bool removed;                 /* it has no name on the disk */

	uint64_t charge; /* its part of kr_space.used */
	uint32_t opens;
	uint32_t wholes; /* opens for which it is charged as a whole */
	enum kr_view_mode mode;
	uint32_t backing; /* the kernel's number of the file that it passes through to; 0: none */
};

struct kr_view_inodes;

/* ROOT is a directory's descriptor, which the table takes.  SPACE is charged when inodes go; the table's lock guards
 * it. At most DESCRIPTORS of inodes without an open file are kept. */
struct kr_view_inodes *kr_view_inodes_new(int root, struct kr_space *space, uint32_t descriptors);
void kr_view_inodes_free(struct kr_view_inodes *inodes);
pthread_mutex_t *kr_view_inodes_lock(struct kr_view_inodes *inodes);

/* By the kernel's number. */
struct kr_view_inode *kr_view_inode(struct kr_view_inodes *inodes, uint64_t nodeid);
uint64_t kr_view_nodeid(const struct kr_view_inodes *inodes, const struct kr_view_inode *inode);

/* The inode that STAT tells of and that NAME of PARENT is now.  Counts a lookup.  FRESH: the daemon has just made it,
 * so what it is charged with is new. */
struct kr_view_inode *kr_view_inode_found(struct kr_view_inodes *inodes, struct kr_view_inode *parent, const char *name,
	const struct stat *stat, bool fresh);
/* The same for a file that has no name yet, and the space of one.  FD becomes its descriptor. */
struct kr_view_inode *kr_view_inode_nameless(struct kr_view_inodes *inodes, int fd, const struct stat *stat);
void kr_view_inode_forget(struct kr_view_inodes *inodes, struct kr_view_inode *inode, uint64_t lookups);

/* Its descriptor, until kr_view_inode_put; -errno. */
int kr_view_inode_get(struct kr_view_inodes *inodes, struct kr_view_inode *inode);
void kr_view_inode_put(struct kr_view_inodes *inodes, struct kr_view_inode *inode);

/* Before NAME of PARENT, which is got, goes: the inode there, with its descriptor, until kr_view_inode_put; NULL:
 * nothing is there.  0 or -errno. */
int kr_view_inode_take(struct kr_view_inodes *inodes, struct kr_view_inode *parent, const char *name,
	struct kr_view_inode **ret_inode);
/* NAME of PARENT is not INODE's any more. */
void kr_view_inode_unnamed(struct kr_view_inodes *inodes, struct kr_view_inode *inode,
	const struct kr_view_inode *parent, const char *name);
/* It has moved. */
void kr_view_inode_renamed(struct kr_view_inodes *inodes, struct kr_view_inode *inode,
	const struct kr_view_inode *parent, const char *name, struct kr_view_inode *new_parent, const char *new_name);
/* An inode that had no name has one again. */
void kr_view_inode_linked(struct kr_view_inodes *inodes, struct kr_view_inode *inode);

/* Inodes without a name on the disk whose space is not free yet. */
uint64_t kr_view_inodes_leaving(struct kr_view_inodes *inodes);
/* Inodes in the table. */
uint64_t kr_view_inodes_known(struct kr_view_inodes *inodes);

#endif

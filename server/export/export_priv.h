/* Shared by the parts of the export. */
#ifndef KR_SERVER_EXPORT_PRIV_H
#define KR_SERVER_EXPORT_PRIV_H

#include <pthread.h>
#include <stdatomic.h>

#include "common/base/fail.h"
#include "common/base/table.h"
#include "common/base/util.h"
#include "server/export/cred.h"
#include "server/export/entry.h"
#include "server/base/fid_aliases.h"
#include "server/export/orphans.h"
#include "server/export/private_dir.h"
#include "server/export/inode_paths.h"

enum { KR_EXPORT_LOCKS = 64 };

/* All but the atomics, the locks and what lies behind pointers is constant after kr_export_new. */
struct kr_export {
	char *path; /* absolute, to see whether the export is still there */
	uint8_t secret[KR_FID_SECRET];
	int root_fd, proc_fd; /* proc_fd: /proc/self/fd */
	dev_t root_dev;
	uint64_t root_volume; /* kr_entry_volume */
	char private_name[KR_PRIVATE_NAME_MAX];
	int private_fd;      /* -1: it could not be made (private_dir.h) */
	bool read_only;      /* by its filesystem */
	bool refuse_changes; /* by option */
	bool gateway;        /* other servers export the directory, too */
	bool is_fuse;        /* the filesystem */
	uint64_t instance;   /* random, of this process */
	struct kr_fid root;
	uint64_t file_max;
	bool by_handle, callers_ids, exact_ctime;
	_Atomic uint64_t young_ns;      /* ctimes younger than this are doubtful; 0: none is */
	const struct kr_doubts *doubts; /* NULL: no ctime was before this instance */
	int no_handles;                 /* why not by_handle: -errno */
	struct kr_fid_aliases *aliases; /* borrowed; NULL: none */
	struct kr_table restored_dirs;  /* restored_dirs.h */
	struct kr_fd_cache *fds;
	struct kr_inode_paths *inode_paths; /* NULL if by_handle */
	struct kr_orphans *orphans;
	/* One thread at a time changes the names in a directory. So the name that it looked at is the one that it
	 * replaces or removes, and it holds a new file before another thread can remove it. By hash of the directory's
	 * fid; two are taken in order of address; before any other lock. */
	pthread_mutex_t directories[KR_EXPORT_LOCKS];
	/* Held while a file's mode is widened for an instant (a server without privileges opens a read-only file). */
	pthread_mutex_t widening;
	pthread_mutex_t renewing; /* held while what has been removed of .kairan is made anew */
	_Atomic bool gone;
	_Atomic bool has_acls; /* its filesystem can store them: known from a file without */
	_Atomic uint64_t next_tick_ns;
	_Atomic uint64_t reads, read_bytes, writes, write_bytes;
};

/* Begins every operation: prepares the thread.  -EIO: the export is gone, as for kr_export_tick. */
int kr_export_ready(struct kr_export *export);
/* FID is held.  A FUSE filesystem has no handles that last: there a descriptor finds the file from now on, as long as
 * nodes have it open, whatever names others give it and take from it. */
void kr_export_pin(struct kr_export *export, const struct kr_fid *fid);
pthread_mutex_t *kr_export_lock_of(struct kr_export *export, const struct kr_fid *directory);
/* -EROFS if changes are refused. */
int kr_export_writable(const struct kr_export *export);
/* Whether CRED (NULL: the server itself) has the rights MASK, as access(2), to the file of FD; -EACCES. */
int kr_export_may(struct kr_export *export, const struct kr_cred *cred, int fd, uint32_t mask);
/* Clears set-id bits as a write by a user without privileges does: by CRED (NULL: not known, one of the file's group).
 */
int kr_export_clear_suid(struct kr_export *export, const struct kr_cred *cred, int path_fd);

#endif

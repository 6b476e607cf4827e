/* Descriptors on file data and directories that stay open between calls: a bounded, least recently used cache.
 *
 * Thread-safe. An entry in use is never closed. A directory's entry has one reader at a time, because its position is
 * state. The cache keeps at most `limit` entries (entries in use can exceed that by the number of threads).
 * kr_fd_cache_reap closes entries idle for KR_FD_CACHE_IDLE_NS, so that programs on the server can remove or run the
 * files. Entries with unsynced writes stay then, and go last at the limit: the descriptor remembers the error of a
 * failed write-back.  (A new descriptor tells of it, too, unless the inode has left memory, or another program was
 * told.) */
#ifndef KR_SERVER_FD_CACHE_H
#define KR_SERVER_FD_CACHE_H

#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/types.h"

#define KR_FD_CACHE_IDLE_NS KR_NS_PER_S

enum kr_fd_cache_mode { KR_FD_CACHE_READ, KR_FD_CACHE_WRITE, KR_FD_CACHE_DIRECTORY };

struct kr_fd_cache;
struct kr_fd {
	int fd;
	_Atomic bool unsynced; /* set by writes, cleared by syncs */
	/* private */
	struct kr_table_link by_fid;
	struct kr_link by_age;
	struct kr_fid fid;
	enum kr_fd_cache_mode mode;
	uint32_t users;
	bool dropped;
	uint64_t used_ns;
};

struct kr_fd_cache *kr_fd_cache_new(uint32_t limit);
void kr_fd_cache_free(struct kr_fd_cache *fds);
/* The open descriptor, pinned until kr_fd_cache_put; NULL if there is none. */
struct kr_fd *kr_fd_cache_take(struct kr_fd_cache *fds, const struct kr_fid *fid, enum kr_fd_cache_mode mode);
/* Any descriptor of FID that is kept, pinned until kr_fd_cache_unpeek; NULL if there is none.  Not for reading, writing
 * or listing: the descriptor has other users and stays as old as it is. */
struct kr_fd *kr_fd_cache_peek(struct kr_fd_cache *fds, const struct kr_fid *fid);
void kr_fd_cache_unpeek(struct kr_fd_cache *fds, struct kr_fd *entry);
/* Adds FD, pinned. */
struct kr_fd *kr_fd_cache_add(struct kr_fd_cache *fds, const struct kr_fid *fid, enum kr_fd_cache_mode mode, int fd);
void kr_fd_cache_put(struct kr_fd_cache *fds, struct kr_fd *entry);
/* Closes FID's entries, those in use when their users are done. EVEN_UNSYNCED: for a removed file. */
void kr_fd_cache_drop(struct kr_fd_cache *fds, const struct kr_fid *fid, bool even_unsynced);
/* Closes entries idle since before NOW_NS - KR_FD_CACHE_IDLE_NS. */
void kr_fd_cache_reap(struct kr_fd_cache *fds, uint64_t now_ns);
/* Closes all entries not in use: descriptors have run out. */
void kr_fd_cache_shrink(struct kr_fd_cache *fds);
uint32_t kr_fd_cache_count(struct kr_fd_cache *fds);

#endif

/* Descriptors on file data and directories that stay open between calls: a bounded, least recently used cache.
 *
 * Thread-safe.  An entry in use is never closed; a directory's entry has one user at a time, because its position is
 * state.  At most `limit` entries are kept (those in use can exceed it by the number of threads).  Entries idle for
 * KR_FD_CACHE_IDLE_NS go at kr_fd_cache_reap, so that a file removed or executed on the server is not kept busy; those
 * that have been written through and not been synced stay, because the descriptor remembers the error of a failed
 * write-back.
 */
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
	_Atomic bool unsynced; /* set by who writes, cleared by who syncs */
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
/* Takes FD in, pinned. */
struct kr_fd *kr_fd_cache_add(struct kr_fd_cache *fds, const struct kr_fid *fid, enum kr_fd_cache_mode mode, int fd);
void kr_fd_cache_put(struct kr_fd_cache *fds, struct kr_fd *entry);
/* Closes what is kept of FID, at the latest when its user is done; EVEN_UNSYNCED for a file that is gone. */
void kr_fd_cache_drop(struct kr_fd_cache *fds, const struct kr_fid *fid, bool even_unsynced);
/* Closes entries idle since before NOW_NS - KR_FD_CACHE_IDLE_NS. */
void kr_fd_cache_reap(struct kr_fd_cache *fds, uint64_t now_ns);
/* Closes all that nobody uses: descriptors have run out. */
void kr_fd_cache_shrink(struct kr_fd_cache *fds);
uint32_t kr_fd_cache_count(struct kr_fd_cache *fds);

#endif

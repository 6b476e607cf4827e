/* flock and byte-range locks of this node's programs: what the server has granted them, and requests on their way.  A
 * server that restarts is told of the granted ones.  Loop thread, unless said otherwise.
 *
 * A request outlives its operation: an interrupted program is answered at once.  If the server grants the lock all the
 * same, the request is followed by one that restores what the program holds.
 *  - Before a lock is given up, the file's unflushed bytes go to the server: the next holder reads and overwrites them
 *    (P3).  Before an exclusive one is, so does what programs have stored through mappings: the next holder relies on
 *    it, also if this daemon is killed.  (SQLite's index of a write-ahead log tells which commits there are.)  Bytes of
 *    other files: lock_owners.h.
 *  - Requests of one owner for one file go out in the order in which they were made.
 *  - A lock that cannot be claimed again is lost.  The log says so, and requests through its descriptor fail with EIO.
 */
#ifndef KR_FUSE_LOCKS_H
#define KR_FUSE_LOCKS_H

#include "common/base/lock_table.h"
#include "fuse/base/mount.h"

struct kr_file;
struct kr_handle;
struct kr_lock_call;

void kr_locks_init(struct kr_mount *mount);
/* After the rpc has stopped and all ops have ended. */
void kr_locks_fini(struct kr_mount *mount);

/* Asks for, or gives up, a lock (kind, flock and id of the owner, range, pid and via of WANT). DONE gets 0 or an errno
 * once, never from inside this call, unless the call is abandoned before. */
struct kr_lock_call *kr_locks_ask(struct kr_file *file, const struct kr_lock *want, bool wait,
	void (*done)(void *context, int err), void *context);
/* The program waits no longer.  A request for a lock is withdrawn; one to give it up goes on. */
void kr_locks_abandon(struct kr_lock_call *call);

/* Whether OWNER holds anything of the file, as far as programs know; whether it may hold anything. */
bool kr_locks_held(const struct kr_file *file, const struct kr_lock_owner *owner);
/* Whether PROCESS (the kernel's name of it) has an exclusive byte-range lock of another file than this one. Any thread.
 */
bool kr_locks_elsewhere(const struct kr_file *file, uint64_t process);
bool kr_locks_any(const struct kr_file *file, const struct kr_lock_owner *owner);
/* Gives up whatever was locked through HANDLE and is still held: flocks and OFD locks, when it is released. */
void kr_locks_release_handle(struct kr_file *file, const struct kr_handle *handle);

/* In the recovery of a session, after the files have been reclaimed: claims every lock that no request on its way gives
 * up. */
void kr_locks_reclaim(struct kr_mount *mount);

#endif

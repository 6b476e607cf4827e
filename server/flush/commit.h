/* Commits applied bytes: syncs files after rounds, tells their writers STABLE, and notes in the lease table which nodes
 * are uncommitted (DESIGN, commit on share; leases/lease_table.h).
 *
 * A writer of a file is uncommitted from when a round with its bytes is applied, or from RECLAIM's `resend`, until it
 * has answered STABLE for all of that.  It is *owed* while its bytes may be lost and come again: after a failed sync
 * (UNSTABLE) or a start of the server (RECLAIM).  A FLUSH up to the owed number ends that.
 * The entry of a session that has ended is node 0's, unless another session takes its place (leases.h).  Node 0 commits
 * when a sync has succeeded: nobody has to hear of it.  If a sync has failed, the page cache alone may have such bytes.
 * So the server writes the file's bytes again, and syncs, until that succeeds.
 *
 * Files whose sync failed, and has not succeeded since, stand in `failed` of the state directory before anybody is told.
 * The next instance writes these again, and syncs them, before its grace period ends.
 *
 * Loop thread; the syncs run in libuv's pool.  A file is synced at once after a round; rounds that come during a sync
 * are in the next one.  When many files wait, one syncfs serves all of them.
 */
#ifndef KR_SERVER_COMMIT_H
#define KR_SERVER_COMMIT_H

#include "common/base/list.h"
#include "common/base/types.h"

struct kr_data;
struct kr_server;
struct kr_session;
struct kr_sfile;

/* ERR: 0, or the negative errno of the sync.  Called from the loop, never from inside kr_commit_wait. */
typedef void (*kr_commit_fn)(void *context, int err);

/* All that has been applied to FILE (and any other change made before this call) is on stable storage when FN runs.
 * DATA_ONLY: fdatasync suffices.  FILE is kept alive meanwhile. */
void kr_commit_wait(struct kr_sfile *file, bool data_only, kr_commit_fn fn, void *context);
/* RECLAIM's `resend` (0: nothing): SESSION's node sends its bytes up to SEQ again.  Until then it is uncommitted. */
void kr_commit_owe(struct kr_sfile *file, struct kr_session *session, uint64_t seq);
/* Up to which number this instance remembers to have applied the journal NODE_ID to FILE, with no sync failed since;
 * 0: nothing is known.  It is durable after a further kr_commit_wait that succeeds. */
uint64_t kr_commit_applied_seq(const struct kr_sfile *file, const uint8_t node_id[16]);
/* Whether the files whose sync failed in former instances are synced now.  When that becomes true later, the flush room
 * calls sessions->hooks.end_grace (which may be not due yet for other reasons). */
bool kr_commit_recovered(const struct kr_data *data);

#endif

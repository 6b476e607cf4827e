/* Names in the kernel: for how long the kernel may walk a name by itself, and how the node takes that back.
 *
 * A loan.  A reply to LOOKUP lends the kernel the name for KR_NAME_LOAN_MS.  So one LOOKUP serves the system calls that
 * follow at once (`ls -l` makes three for each file).  And the kernel does not look up the directories of a path
 * again for each file in them.  A reply to READDIRPLUS lends all names in it that the attribute cache knows.  There is
 * a loan only
 *   - for programs that go through directories: of names in a directory that has been listed in the last
 *     KR_NAME_LISTED_S, or in which KR_NAME_BURST names were looked up within a second, or in one above it;
 *   - of a name that exists and that the attribute cache knows, while no request of our own changes it;
 *   - in a directory that every caller may search, because the kernel asks nobody then (attr_cache.h);
 *   - in a directory that no other node has changed for KR_NAME_QUIET_S, and while no loan has delayed another node
 *     for KR_NAME_PAUSE_S.
 *
 * Taking it back.  Every call that makes the kernel drop a name waits for the directory's lock.  A request of our own
 * that waits for the server may hold that, and the server may wait for us.  So the node waits until the loan is over:
 * it answers INVALIDATE of a bucket KR_NAME_LENT_MS after its latest reply with a loan there.  Another node's changes
 * are delayed by that much at most, and once in KR_NAME_PAUSE_S.
 *
 * Invariant.  When this node has answered INVALIDATE, the kernel walks no name of that bucket without LOOKUP.  Why: a
 * thread that lends first counts itself as lending, and then looks into the attribute cache.  The loop thread first
 * drops the names there, and then looks who lends or has lent.  So one of the two sees the other.
 *
 * The kernel counts a loan from when the program's thread goes on, not from our reply.  The rest of KR_NAME_LENT_MS is
 * for that.  If the thread gets no processor for longer, then for another 20 ms a name that another node has renamed
 * can still be found under its old name.  The same is true of a name that another node has removed or replaced, if the
 * file has another name, or is open here.  (Else the kernel asks for its attributes, gets ESTALE, and looks the name up
 * again.)
 *
 * Requests of our own need not wait: the kernel itself drops the names that they change, and it checks a directory's
 * mode.  But with noacl it does not know ACLs, so a directory gets one when the loans there are over.  And a rename
 * takes the loan along: the kernel walks the new name by itself for as long as it would have walked the old one.
 */
#ifndef KR_FUSE_KERNEL_NAMES_H
#define KR_FUSE_KERNEL_NAMES_H

#include <jansson.h>

#include "common/base/types.h"
#include "fuse/base/mount.h"
#include "fuse/session/rpc.h"

enum {
	KR_NAME_LOAN_MS = 20,
	KR_NAME_LENT_MS = 150,
	KR_NAME_LISTED_S = 10,
	KR_NAME_BURST = 16,
	KR_NAME_QUIET_S = 60,
	KR_NAME_PAUSE_S = 5,
};

struct kr_kernel_names;

struct kr_kernel_names *kr_kernel_names_new(void);
void kr_kernel_names_free(struct kr_kernel_names *names);
/* Before and after the protocol.  Loop thread. */
void kr_kernel_names_start(struct kr_mount *mount);
void kr_kernel_names_stop(struct kr_mount *mount);

/* A program lists DIR.  Any thread. */
void kr_kernel_names_listed(struct kr_mount *mount, const struct kr_fid *dir);

/* Around the reply to a LOOKUP of NAME in DIR, which is FID.  _lend returns the seconds of the loan: 0, or _lent must
 * follow the reply.  Any thread. */
double kr_kernel_names_lend(
	struct kr_mount *mount, const struct kr_fid *dir, const char *name, const struct kr_fid *fid);
void kr_kernel_names_lent(struct kr_mount *mount, const struct kr_fid *dir);
/* The same around the reply to a READDIRPLUS of DIR.  It lends the names that kr_attr_cache_lookup, asked after _lend,
 * finds for any caller.  If there are none (or no reply), _lent_none follows instead: no node shall wait for that. */
double kr_kernel_names_lend_listed(struct kr_mount *mount, const struct kr_fid *dir);
void kr_kernel_names_lent_none(struct kr_mount *mount, const struct kr_fid *dir);

/* A RENAME from directory FROM to TO is about to be sent, so that no loan of that name begins any more: loans in FROM
 * count as loans in TO.  Loop thread. */
void kr_kernel_names_moves(struct kr_mount *mount, const struct kr_fid *from, const struct kr_fid *to);

/* Answers DOWN, an INVALIDATE of BUCKET (KR_ATTR_CACHE_ALL: of all), when the loans there are over.  The attribute
 * cache has dropped its entries.  Loop thread; does not wait. */
void kr_kernel_names_answer(struct kr_mount *mount, uint32_t bucket, const struct kr_down *down);

/* Returns when the loans of names in DIR are over.  There are none for KR_NAME_QUIET_S.  Blocks; a thread of the
 * kernel's requests. */
void kr_kernel_names_take_back(struct kr_mount *mount, const struct kr_fid *dir);

json_t *kr_kernel_names_status(const struct kr_mount *mount);

#endif

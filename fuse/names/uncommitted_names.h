/* Names that this node has made and that may not be on the server's disk yet, for the server's loss of power.
 *
 * Such a loss un-creates files whose names were not on the disk.  The journal still has their bytes, and programs have
 * them open.  So the node tells the server under which names to make them anew (RESTORE in msgs.def).  No other node is
 * told of such a name before it is on the disk (server/names/name_commits.h), so only this node can have renamed,
 * linked or removed it.  INVARIANT: the places of each file here are the names that this node gave it, as far as the
 * server has answered.  What was asked for without an answer is asked for again, after the restoration.
 *
 * The server syncs a directory within seconds after a change.  So a file leaves KR_UNCOMMITTED_S after its last change
 * of a name, and the oldest leaves when there are more than KR_UNCOMMITTED_MAX.
 * Then it comes back as a conflict file, if it was un-created all the same.  What stays for too long does no harm: the
 * server restores only what is not there, and never what can have been removed (server/export/restore.c).
 * PURE.  Loop thread. */
#ifndef KR_FUSE_UNCOMMITTED_NAMES_H
#define KR_FUSE_UNCOMMITTED_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "common/rpc/msg.h"

struct kr_uncommitted_names;

enum { KR_UNCOMMITTED_MAX = 65536, KR_UNCOMMITTED_S = 60 };

/* IS_WANTED: whether the node has the file open, or its bytes, or a lease. */
struct kr_uncommitted_names *kr_uncommitted_names_new(
	bool (*is_wanted)(void *context, const struct kr_fid *file), void *context);
void kr_uncommitted_names_free(struct kr_uncommitted_names *names);
/* The request ASKED of TYPE has been answered with success and REPLY at NOW_NS (kr_clock_ns). */
void kr_uncommitted_names_answered(struct kr_uncommitted_names *names, uint16_t type, const union kr_any_msg *asked,
	const union kr_any_msg *reply, uint64_t now_ns);
/* Now and then: frees files that have not changed for KR_UNCOMMITTED_S. */
void kr_uncommitted_names_forget_old(struct kr_uncommitted_names *names, uint64_t now_ns);
/* Calls ADD for each name of each regular file that is wanted, and before that of the directories above it; a file
 * without a name comes once, with an empty one.  The requests borrow from NAMES until ADD returns. */
void kr_uncommitted_names_restore(struct kr_uncommitted_names *names,
	void (*add)(void *context, const struct kr_restore_request *request), void *context);

#endif

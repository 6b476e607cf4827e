/* Which changes of names are not on the disk yet, and who made them: a pure state machine.
 *
 * What a node has seen is on the server's disk (docs/recovery.md, commit on share).  For names that means: before the
 * server tells a node of a name that another node has changed, or changes it for this node, it syncs the directory.
 * The node that made the change may see it at once.
 *
 * A change runs from kr_name_commits_begin to kr_name_commits_end, and its effect may be seen from the beginning on.
 * Numbers ascend with the beginnings.  A sync covers the changes that had ended when it began.  A waiter goes on when
 * syncs have covered all changes that it may have seen.  So changes that come later do not hold it up.  Loop thread;
 * PURE: events in, `sync` and the waiters' go_on out. */
#ifndef KR_SERVER_NAME_COMMITS_H
#define KR_SERVER_NAME_COMMITS_H

#include <stdbool.h>

#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/types.h"

enum {
	KR_NAME_COMMITS_MANY = 4096, /* uncommitted names in a directory: it is synced though no node waits */
};

struct kr_name_waiter {
	struct kr_link link; /* in its directory's list; linked while it waits */
	struct kr_name_dir *dir;
	uint64_t number, syncs; /* of the last change that it may have seen; of the directory when it came */
	/* ERR: 0, or that of the sync.  The waiter has left the list.  Called from inside an event. */
	void (*go_on)(struct kr_name_waiter *waiter, int err);
};

struct kr_name_run; /* a change that has begun and not ended */

struct kr_name_commits {
	struct kr_table dirs;  /* struct kr_name_dir */
	struct kr_table names; /* struct kr_name_change of all directories */
	uint64_t last;         /* number of the latest change */
	uint64_t waits;        /* so far, for status */
	/* Begins to sync DIR, and returns; kr_name_commits_synced follows later.  Called from inside any event, that
	 * one included. */
	void (*sync)(void *context, const struct kr_fid *dir);
	void *context;
};

void kr_name_commits_init(
	struct kr_name_commits *commits, void (*sync)(void *context, const struct kr_fid *dir), void *context);
/* No waiter may be left. */
void kr_name_commits_fini(struct kr_name_commits *commits);

/* NODE begins to change NAME in DIR.  The change must end. */
struct kr_name_run *kr_name_commits_begin(
	struct kr_name_commits *commits, const struct kr_fid *dir, const char *name, uint32_t node);
/* CHANGED: it may have had an effect.  Frees RUN. */
void kr_name_commits_end(struct kr_name_commits *commits, struct kr_name_run *run, bool changed);
/* NODE has seen NAME (NULL: all names) of DIR.  True: nothing to wait for.  Else WAITER (the caller's, zeroed but for
 * go_on) waits. */
bool kr_name_commits_wait(struct kr_name_commits *commits, const struct kr_fid *dir, const char *name, uint32_t node,
	struct kr_name_waiter *waiter);
/* WAITER waits no more. */
void kr_name_commits_withdraw(struct kr_name_commits *commits, struct kr_name_waiter *waiter);
/* The sync of DIR is over. */
void kr_name_commits_synced(struct kr_name_commits *commits, const struct kr_fid *dir, int err);
/* Now and then: begins to sync the directories that had uncommitted names at the call before. */
void kr_name_commits_tick(struct kr_name_commits *commits);

#endif

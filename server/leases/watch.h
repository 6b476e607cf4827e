/* Changes that others make in the export behind our back: programs on the server's machine, not nodes.
 *
 * Two ways of noticing lead to one reaction (kr_leases_changed_behind): the file's change counter goes on, so that no
 * block of the old version is served any more, and READ is recalled from all nodes, which drop what they have cached of
 * it, the kernel's pages included, and ask again.  Names and attributes: watch_names.h.
 *
 *  - Events (fanotify, where the kernel and our privileges allow a mark on the whole filesystem; a probe at the start
 *    finds out): each write, truncation and hole of another process is told within 20 ms, and the closing of a file
 *    that it had open for writing.  Our own are known by their process id, and each event has one: a foreign change in
 *    the midst of our own is still seen.  When the queue overflows, every file in use counts as changed.
 *  - Looking (last_stat.h): each file of which a node holds READ is stat'ed again every KR_WATCH_PERIOD_MS, at most
 *    KR_WATCH_RATE files per second; besides, whenever its version is asked for.  It also runs beside events, less
 *    often, for stores through mappings, of which there are no events.
 *
 * A store through a mapping changes ctime when the kernel notices it: at the first store to a clean page, which is at
 * least once in the time that the kernel takes to write dirty pages back (half a minute), and not at each.  So when a
 * file that had been open for writing is closed or unmapped with the ctime that nodes have seen already, its bytes may
 * be others all the same: then we touch it, so that the version changes for good.  So it is with a write or fallocate,
 * whose ctime is of its beginning, when nodes have read in the midst of it; who has closed the file again meanwhile may
 * come back, so it stays in the table for a minute. What this instance does not live to touch the next one doubts
 * (doubts.h).
 *
 * A ctime that we ourselves have given the file with other attributes or names is no change by others (kr_watch_own),
 * where events tell of all that these do meanwhile.  A store through a mapping in the midst of a change of times of
 * ours shows when the file is unmapped.
 *
 * While a node holds WRITE its unflushed bytes stay its own: they go in later, byte by byte, over what is there then.
 *
 * Loop thread; stats and touches run in the pool.
 */
#ifndef KR_SERVER_WATCH_H
#define KR_SERVER_WATCH_H

#include <jansson.h>

#include "common/base/types.h"

struct kr_export;
struct kr_fid;
struct kr_own_change;
struct kr_server;
struct kr_sfile;
struct kr_watch;

enum {
	KR_WATCH_PERIOD_MS = 1000,        /* between two looks at a file, without events */
	KR_WATCH_PERIOD_EVENTS_MS = 5000, /* ... with them */
	KR_WATCH_RATE = 4000,             /* files looked at per second, at most */
};
enum kr_watch_mode { KR_WATCH_AUTO, KR_WATCH_SWEEP };

/* Begins to watch; falls back to looking where events cannot be had, and says so in the log. Never fails. */
void kr_watch_start(struct kr_server *server, enum kr_watch_mode mode);
/* Lets go of all files and closes the handles; the loop must run until they are closed. No job may be in the pool. */
void kr_watch_stop(struct kr_server *server);
void kr_watch_free(struct kr_server *server);

/* ATTR of FILE was got while CHANGES was file->changes, and no change of our own was under way: compares it with what
 * was seen before, and reacts. From here on the file is looked at while a node holds READ. */
void kr_watch_look(struct kr_sfile *file, const struct kr_attr *attr, uint64_t changes);

/* A change of a file's attributes or names by ourselves (last_stat.h) begins: in the loop, before its job. */
void kr_watch_own_begin(struct kr_server *server, struct kr_own_change *change);
/* In the job, before and after it. */
void kr_watch_own_before(struct kr_export *export, const struct kr_fid *fid, struct kr_own_change *change);
void kr_watch_own_after(struct kr_export *export, const struct kr_fid *fid, struct kr_own_change *change);
/* After the job: FILE has got another ctime, and its bytes go on under the former one (last_stat.h), where nobody else
 * can have changed them meanwhile. Else the next look says so where a node holds READ; where none does, nobody counts
 * on what was seen. */
void kr_watch_own(struct kr_sfile *file, const struct kr_own_change *change);
/* The same of a file that need not be in the table. */
void kr_watch_own_of(struct kr_server *server, const struct kr_fid *fid, const struct kr_own_change *change);

/* Whether FILE is to stay in the table though nobody uses it: word may come that what nodes have of it is not all. */
bool kr_watch_awaits(const struct kr_sfile *file);

/* FILE is about to go. */
void kr_watch_forget(struct kr_sfile *file);

/* For STATUS; owned by the caller. */
json_t *kr_watch_status(const struct kr_server *server);

/* --- watch_names.c: names and attributes ------------------------------------------------------- */
/* Begins to listen, and allows attribute caches if it can. Never fails. */
void kr_watch_names_start(struct kr_server *server);
/* Closes the handles; the loop must run until they are closed. */
void kr_watch_names_stop(struct kr_server *server);
void kr_watch_names_free(struct kr_server *server);

#endif

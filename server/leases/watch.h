/* Changes that local programs make in the export: programs on the server's machine, not nodes.
 *
 * The server detects them in two ways and reacts in one (kr_leases_changed_behind).  The file's change counter goes
 * on, so that no node gets a block of the old version.  The server recalls READ from all nodes, which drop their
 * cached bytes, the kernel's pages included.  Names and attributes: watch_names.c.
 *
 *  - Events: fanotify, where the kernel and our privileges allow a mark on the whole filesystem.  The server tries
 *    this at the start.  Within 20 ms it learns of each write, truncation and hole of another process, and of the
 *    close after writing.  Its own events carry its process id.  When the queue overflows, every file in use counts as
 *    changed.
 *  - Stats (last_stat.h): the server calls stat every KR_WATCH_PERIOD_MS for each file of which a node holds READ.  It
 *    calls at most KR_WATCH_RATE per second.  It also compares whenever a node asks for the version.  Beside events
 *    this runs less often, for stores through mappings, which cause no events.
 *
 * A store through a mapping changes ctime when the kernel notices it: at the first store to a clean page, not at each.
 * Dirty pages become clean at least every half minute.  So the bytes of a file may change under a ctime that nodes
 * have seen.  When a program closes or unmaps such a file after writing, the server touches the file, and its version
 * changes for good.
 *
 * The same holds for a write or fallocate, whose ctime is of its beginning, if nodes read in its middle.  The program
 * may open the file again after its close, so the file stays in the table for a minute.  What this instance cannot
 * touch before its end, the next one doubts (doubtful_times.h).
 *
 * The server's own changes of attributes or names set ctime too.  They are no change by others (kr_watch_own), where
 * events tell of all other changes meanwhile.  A store through a mapping during a change of times by the server shows
 * when the program unmaps the file.
 *
 * With KR_WATCH_NONE nobody but the nodes changes the export.  So there is no watch, and nodes may cache attributes and
 * files with a young ctime.  The kairand of a job runs so (fuse/daemon/job_keeper.c).
 *
 * While a node holds WRITE its unflushed bytes stay its own: its flush writes them over what is there then.
 *
 * Loop thread; stats and touches run in the pool.
 */
#ifndef KR_SERVER_WATCH_H
#define KR_SERVER_WATCH_H

#include <jansson.h>
#include <uv.h>

#include "common/base/types.h"
#include "server/base/options.h"
#include "server/export/events.h"

struct kr_export;
struct kr_fid;
struct kr_own_change;
struct kr_server;
struct kr_sfile;

enum {
	KR_WATCH_PERIOD_MS = 1000,        /* between two stats of a file, without events */
	KR_WATCH_PERIOD_EVENTS_MS = 5000, /* ... with them */
	KR_WATCH_RATE = 4000,             /* stats per second, at most */
};

/* One queue of the kernel's events; SINK, ENDED, EXPORT and REST_MS are the owner's to fill. */
struct kr_listener {
	struct kr_export *export;
	struct kr_events_sink sink;
	void (*ended)(void *context, const char *why); /* the queue broke and is closed; with the sink's context */
	unsigned rest_ms;                              /* between two readings */
	int fd;                                        /* -1: closed */
	uv_poll_t poll;
	uv_timer_t rest;
};
/* Tries the kernel and begins to listen.  -errno with a reason: it tells nothing of KIND. */
int kr_listener_open(struct kr_listener *listener, uv_loop_t *loop, enum kr_events_kind kind);
/* May be closed already. */
void kr_listener_close(struct kr_listener *listener);

/* Begins to watch.  Where the kernel offers no events, it uses stats alone and logs that.  Never fails. */
void kr_watch_start(struct kr_server *server, enum kr_watch_mode mode);
/* Stops watching all files and closes the handles; the loop must run until they are closed.  No job may be in the
 * pool. */
void kr_watch_stop(struct kr_server *server);
void kr_watch_free(struct kr_server *server);

/* A job has read ATTR of FILE while file->changes was CHANGES, and no change of ours was under way.  Compares with the
 * state seen before, and reacts.  From here on FILE gets stats while a node holds READ. */
void kr_watch_look(struct kr_sfile *file, const struct kr_attr *attr, uint64_t changes);

/* The server begins to change a file's attributes or names (last_stat.h): in the loop, before its job. */
void kr_watch_own_begin(struct kr_server *server, struct kr_own_change *change);
/* In the job, before and after it. */
void kr_watch_own_before(struct kr_export *export, const struct kr_fid *fid, struct kr_own_change *change);
void kr_watch_own_after(struct kr_export *export, const struct kr_fid *fid, struct kr_own_change *change);
/* After the job: FILE has another ctime, and its bytes go on under the former one (last_stat.h).  Not where a local
 * program can have changed them meanwhile.  Then the next stat detects that if a node holds READ; if none does, no
 * node relies on the state seen. */
void kr_watch_own(struct kr_sfile *file, const struct kr_own_change *change);
/* The same for a file that need not be in the table. */
void kr_watch_own_of(struct kr_server *server, const struct kr_fid *fid, const struct kr_own_change *change);

/* Whether no change by others stays unknown: the kernel tells of each, or nobody but the nodes makes any. */
bool kr_watch_tells(const struct kr_server *server);

/* Whether FILE stays in the table without users: an event may still come for what nodes cache of it. */
bool kr_watch_awaits(const struct kr_sfile *file);

/* FILE is about to leave the table. */
void kr_watch_forget(struct kr_sfile *file);

/* For STATUS; owned by the caller. */
json_t *kr_watch_status(const struct kr_server *server);

/* --- watch_names.c: names and attributes ------------------------------------------------------- */
/* Begins to listen, and allows attribute caches if the kernel reports names.  Never fails. */
void kr_watch_names_start(struct kr_server *server);
/* Closes the handles; the loop must run until they are closed. */
void kr_watch_names_stop(struct kr_server *server);
void kr_watch_names_free(struct kr_server *server);

#endif

/* The files whose sync has failed and has not succeeded since: the log `failed` of the state directory, one line
 * `file FID` for each (line_log.h).  The next instance writes these again from the page cache, and syncs them
 * (commit.h).  The log is short, so each change writes it anew.  Loop thread; the writes run in the pool.
 */
#ifndef KR_SERVER_FAILED_SYNCS_H
#define KR_SERVER_FAILED_SYNCS_H

#include "common/base/list.h"
#include "common/base/table.h"
#include "common/base/types.h"

struct kr_server;

struct kr_failed_syncs {
	struct kr_server *server;
	int dir;               /* borrowed: the state directory */
	struct kr_table files; /* struct failed_file of failed_syncs.c */
	struct kr_list waits;  /* struct failed_wait: for the next write */
	bool changed, writing;
};

/* Reads DIR/failed, and gives FN the files in it.  0 or -errno with a reason.  Blocks. */
int kr_failed_syncs_open(struct kr_failed_syncs *failed, struct kr_server *server, int dir,
	void (*fn)(void *context, const struct kr_fid *file), void *context);
/* No write may be under way. */
void kr_failed_syncs_close(struct kr_failed_syncs *failed);
/* A sync of FILE has failed: writes that down, then DONE in the loop.  An error is logged, and nothing more can be done
 * about it.  DONE may come from inside this call. */
void kr_failed_syncs_add(
	struct kr_failed_syncs *failed, const struct kr_fid *file, void (*done)(void *context), void *context);
/* All of FILE is on stable storage. */
void kr_failed_syncs_remove(struct kr_failed_syncs *failed, const struct kr_fid *file);
bool kr_failed_syncs_busy(const struct kr_failed_syncs *failed);

#endif

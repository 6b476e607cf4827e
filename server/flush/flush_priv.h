/* Shared by the files of flush rounds at the server: flush.c, flush_gather.c, flush_round.c, flush_events.c.  Loop
 * thread.
 *
 * Every event of a file's machine (round.h) is followed by kr_flush_execute, which carries its actions out.  A file
 * with flushes is in kr_data.busy and holds a reference to itself.
 */
#ifndef KR_SERVER_FLUSH_PRIV_H
#define KR_SERVER_FLUSH_PRIV_H

#include "server/flush/data_state.h"

/* --- flush.c ---------------------------------------------------------------------------------- */
/* REQUEST is about to be answered: what it holds does not count any more. */
void kr_flush_uncount(struct kr_request *request);
/* Where a replay comes among those of all nodes; 0: MSG is none. */
uint64_t kr_flush_order(const struct kr_flush_request *msg);

/* --- flush_round.c ---------------------------------------------------------------------------- */
/* Carries out what the machine wants; keeps the file alive while it has flushes. */
void kr_flush_execute(struct kr_sfile *file);
/* The running round is no more: the bytes may have changed. */
void kr_flush_broken_off(struct kr_sfile_data *data);

/* --- flush_gather.c --------------------------------------------------------------------------- */
void kr_flush_gather_init(struct kr_data *data);
/* Before ASK, which may be the first flush of FILE: begins to wait for the file's other writers if that is worth it. */
void kr_flush_gather(struct kr_sfile *file, const struct kr_round_ask *ask);
/* A flush has been asked: if that was the last one of all writers the wait is over. */
void kr_flush_gathered(struct kr_sfile *file);
/* Tells the file's machine whether its next round may begin. */
void kr_flush_hold(struct kr_sfile_data *data);

#endif

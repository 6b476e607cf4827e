/* Shared by the files of flush rounds at the server: flush.c, flush_round.c.  Loop
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

#endif

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
/* REQUEST is about to be answered: uncounts what it holds. */
void kr_flush_uncount(struct kr_request *request);

/* --- flush_round.c ---------------------------------------------------------------------------- */
/* Carries out the actions of the machine; keeps the file alive while it has flushes. */
void kr_flush_execute(struct kr_sfile *file);
/* The running round is over without an end: the bytes may have changed. */
void kr_flush_broken_off(struct kr_sfile_data *data);

#endif
